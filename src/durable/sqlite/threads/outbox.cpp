#include "outbox.hpp"

#include <tickwheel/core/detail/check.hpp>

#include <uv.h>

#include <new>

namespace tickwheel::durable::sqlite {

namespace {

using namespace std::chrono_literals;

// from a refused post to the next try
constexpr std::chrono::milliseconds refused_pause = 2ms;
// A wakeup by the pipe that did not come for so long counts as lost. The loop's thread may as well be busy: the post is then one too many.
constexpr std::chrono::milliseconds lost_after = 100ms;

}  // namespace

outbox::outbox(timer_service& timers) : service_{timers.remote()} {
  reserve();
  if (uv_loop_t* const loop = timers.loop()) pipe_ = loop_pipe::make(*loop, *this);
  has_pipe_ = pipe_ != nullptr;
}

void outbox::reserve() {
  blocks_.reserve(blocks_.size() + 1);
  auto made = std::make_unique<queued_call[]>(block);
  for (std::size_t i = 0; i < block; ++i) free_.push(made[i]);
  blocks_.push_back(std::move(made));
}

queued_call& outbox::place(verb kind, store_call& call) noexcept {
  check_pipe();
  if (free_.empty()) {
    try {
      reserve();
    } catch (const std::bad_alloc&) {
      tickwheel::detail::fail("sqlite_store: there is no memory for a call");
    }
  }
  queued_call& made = free_.pop();
  made = {.call = &call, .kind = kind, .number = ++last_number_};
  return made;
}

std::chrono::milliseconds outbox::answer(call_list&& calls) noexcept {
  {
    const std::lock_guard lock{mutex_};
    answered_.append(std::move(calls));
    if (closed_ || woken_ || answered_.empty()) return 0ms;
    if (!has_pipe_) return post();
    woken_ = true;
    lost_at_ = std::chrono::steady_clock::now() + lost_after;
  }
  // Not under the mutex: the loop's thread may run before this one goes on.
  pipe_->wake();
  return lost_after;
}

std::chrono::milliseconds outbox::retry() noexcept {
  const std::lock_guard lock{mutex_};
  if (closed_ || posted_ || answered_.empty()) return 0ms;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(lost_at_ - std::chrono::steady_clock::now());
  return woken_ && left > 0ms ? left : post();
}

// under the mutex: `close` comes before or after it as a whole
std::chrono::milliseconds outbox::post() noexcept {
  const int error = service_.post([self = shared_from_this()]() noexcept { self->on_posted(); });
  // a closed service delivers nothing any more: the store is closed soon, and answers
  if (error != 0 && error != UV_ECANCELED) return refused_pause;
  woken_ = posted_ = true;
  return 0ms;
}

// `retry` repeats a wakeup that was lost with the handle.
void outbox::check_pipe() noexcept {
  if (pipe_ == nullptr || pipe_->is_polled()) return;
  const std::lock_guard lock{mutex_};
  has_pipe_ = false;
}

void outbox::on_posted() noexcept {
  if (fork_.is_in_child()) return;
  {
    const std::lock_guard lock{mutex_};
    posted_ = false;
  }
  on_wakeup();
}

void outbox::on_wakeup() noexcept {
  const auto self = shared_from_this();
  call_list ready;
  {
    const std::lock_guard lock{mutex_};
    woken_ = false;
    if (closed_) return;
    ready = std::move(answered_);
  }
  while (!ready.empty()) deliver(ready.pop());
}

void outbox::deliver(queued_call& answered) noexcept {
  store_call& call = *answered.call;
  free_.push(answered);
  call.on_answer(call);
}

call_list outbox::close() noexcept {
  pipe_ = nullptr;
  const std::lock_guard lock{mutex_};
  closed_ = true;
  return std::move(answered_);
}

}  // namespace tickwheel::durable::sqlite
