#include "outbox.hpp"

#include <tickwheel/core/detail/check.hpp>

#include <uv.h>

#include <new>

namespace tickwheel::durable::sqlite {

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

bool outbox::answer(call_list&& calls) noexcept {
  wakeup needed{};
  {
    const std::lock_guard lock{mutex_};
    answered_.append(std::move(calls));
    needed = next_wakeup();
  }
  return wake(needed);
}

bool outbox::retry() noexcept {
  wakeup needed{};
  {
    const std::lock_guard lock{mutex_};
    needed = next_wakeup();
  }
  return wake(needed);
}

// Not under the mutex: the loop's thread may run before this one goes on.
bool outbox::wake(wakeup needed) noexcept {
  if (needed == wakeup::by_pipe) pipe_->wake();
  return needed != wakeup::refused;
}

// under the mutex
outbox::wakeup outbox::next_wakeup() noexcept {
  if (closed_ || woken_ || answered_.empty()) return wakeup::none;
  if (!has_pipe_) return post();
  woken_ = true;
  return wakeup::by_pipe;
}

// under the mutex: `close` comes before or after it as a whole
outbox::wakeup outbox::post() noexcept {
  const int error = service_.post([self = shared_from_this()]() noexcept { self->on_wakeup(); });
  woken_ = error == 0;
  // a closed service delivers nothing any more: the store is closed soon, and answers
  return woken_ || error == UV_ECANCELED ? wakeup::by_post : wakeup::refused;
}

// A wakeup that is on its way is lost with the pipe.
void outbox::check_pipe() noexcept {
  if (pipe_ == nullptr || pipe_->is_polled()) return;
  const std::lock_guard lock{mutex_};
  if (std::exchange(has_pipe_, false) && woken_) (void)post();
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
