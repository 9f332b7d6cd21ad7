#include <tickwheel/uv/detail/post_queue.hpp>

#include <algorithm>
#include <limits>
#include <mutex>

namespace tickwheel::detail {

namespace {

std::int64_t as_limit(std::size_t limit) noexcept {
  constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  return static_cast<std::int64_t>(std::min(limit, most));
}

}  // namespace

template <class Sync>
basic_post_queue<Sync>* basic_post_queue<Sync>::make(std::size_t max_queued, std::size_t max_unended) noexcept {
  return new (std::nothrow) basic_post_queue{max_queued, max_unended};
}

template <class Sync>
basic_post_queue<Sync>::basic_post_queue(std::size_t max_queued, std::size_t max_unended) noexcept
    : max_queued_{as_limit(max_queued)}, max_unended_{as_limit(max_unended)} {}

template <class Sync>
bool basic_post_queue<Sync>::take_place_slow_path(std::uint64_t mine) noexcept {
  // may replace newer values of another thread, which then costs one more call of this function
  const std::uint64_t delivered = delivered_.load(std::memory_order_relaxed);
  const std::uint64_t ended = ended_.load(std::memory_order_relaxed);
  known_delivered_.store(delivered, std::memory_order_relaxed);
  known_ended_.store(ended, std::memory_order_relaxed);
  if (!exceeds(mine, delivered, max_queued_) && !exceeds(mine, ended, max_unended_)) return true;
  give_place_back();
  refused_.fetch_add(1, std::memory_order_relaxed);
  return false;
}

template <class Sync>
operation_state basic_post_queue<Sync>::cancel(operation& posted) noexcept {
  // in this order, because the loop may move it from queued to armed between the two, and never back
  if (posted.change(operation_state::queued, operation_state::cancelled)) return operation_state::cancelled;
  if (posted.change(operation_state::armed, operation_state::cancelled)) {
    notify(posted);
    return operation_state::cancelled;
  }
  // Relaxed: the failed exchange has acquired the state. After that it can only change from cancelled to abandoned.
  const operation_state end = posted.state.load(std::memory_order_relaxed);
  return end == operation_state::abandoned ? operation_state::cancelled : end;
}

template <class Sync>
void basic_post_queue<Sync>::notify(operation& cancelled) noexcept {
  switch (inbox_.push(cancelled.link)) {
    case pushed::asleep:
      wake_loop();
      break;
    case pushed::queued:
      break;
    case pushed::closed:
      // The loop dropped its reference when it closed, unless the deadline had come before. The state tells which: the loop
      // stores `abandoned` only before it closes, and the refused push has acquired what the loop did before that.
      if (cancelled.is_abandoned()) cancelled.release();
      break;
  }
}

template <class Sync>
basic_inbox_chain<Sync> basic_post_queue<Sync>::close() noexcept {
  {
    const std::lock_guard lock{driver_mutex_};
    driver_ = nullptr;
  }
  return inbox_.close();
}

template <class Sync>
void basic_post_queue<Sync>::wake_loop() noexcept {
  const std::lock_guard lock{driver_mutex_};
  if (driver_ != nullptr) driver_->request_pass();
}

template <class Sync>
bool basic_post_queue<Sync>::read_driver(clock::time_point& now) noexcept {
  const std::lock_guard lock{driver_mutex_};
  if (driver_ == nullptr) return false;
  now = driver_->now();
  return true;
}

template basic_post_queue<std_sync>* basic_post_queue<std_sync>::make(std::size_t, std::size_t) noexcept;
template operation_state basic_post_queue<std_sync>::cancel(posted_operation&) noexcept;
template void basic_post_queue<std_sync>::notify(posted_operation&) noexcept;
template inbox_chain basic_post_queue<std_sync>::close() noexcept;
template bool basic_post_queue<std_sync>::take_place_slow_path(std::uint64_t) noexcept;
template bool basic_post_queue<std_sync>::read_driver(clock::time_point&) noexcept;
template void basic_post_queue<std_sync>::wake_loop() noexcept;

}  // namespace tickwheel::detail
