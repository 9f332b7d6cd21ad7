#include <tickwheel/detail/mailbox.hpp>

#include <algorithm>
#include <limits>

namespace tickwheel::detail {

namespace {

std::int64_t as_limit(std::size_t limit) noexcept {
  constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  return static_cast<std::int64_t>(std::min(limit, most));
}

}  // namespace

mailbox* mailbox::make(std::size_t max_queued, std::size_t max_unended) noexcept {
  return new (std::nothrow) mailbox{max_queued, max_unended};
}

mailbox::mailbox(std::size_t max_queued, std::size_t max_unended) noexcept
    : max_queued_{as_limit(max_queued)}, max_unended_{as_limit(max_unended)} {}

bool mailbox::take_place_with_care(std::uint64_t mine) noexcept {
  // may set them back when another producer was quicker, and then costs one more look
  const std::uint64_t delivered = delivered_.load(std::memory_order_relaxed);
  const std::uint64_t ended = ended_.load(std::memory_order_relaxed);
  known_delivered_.store(delivered, std::memory_order_relaxed);
  known_ended_.store(ended, std::memory_order_relaxed);
  if (!exceeds(mine, delivered, max_queued_) && !exceeds(mine, ended, max_unended_)) return true;
  give_place_back();
  refused_.fetch_add(1, std::memory_order_relaxed);
  return false;
}

void mailbox::notify(remote_node& node) noexcept {
  switch (inbox_.push(node.link)) {
    case pushed::asleep:
      ring();
      break;
    case pushed::queued:
      break;
    case pushed::closed:
      // The loop let go of it when it closed, unless its deadline had come by then. Which of both is settled: the loop
      // stores `abandoned` in passes, all of them before it closed, and being refused acquired what it did before.
      if (node.state.load(std::memory_order_relaxed) == remote_state::abandoned) node.release();
      break;
  }
}

inbox_chain mailbox::close() noexcept {
  {
    const std::lock_guard lock{bell_};
    driver_ = nullptr;
  }
  return inbox_.close();
}

void mailbox::ring() noexcept {
  const std::lock_guard lock{bell_};
  if (driver_ != nullptr) driver_->ring();
}

bool mailbox::read_driver(clock::time_point& now) noexcept {
  const std::lock_guard lock{bell_};
  if (driver_ == nullptr) return false;
  now = driver_->now();
  return true;
}

}  // namespace tickwheel::detail
