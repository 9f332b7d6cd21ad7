#include "outbox.hpp"

#include <tickwheel/core/detail/check.hpp>

#include <uv.h>

#include <new>

namespace tickwheel::durable::sqlite {

void outbox::reserve() {
  blocks_.reserve(blocks_.size() + 1);
  auto made = std::make_unique<queued_call[]>(block);
  for (std::size_t i = 0; i < block; ++i) free_.push(made[i]);
  blocks_.push_back(std::move(made));
}

queued_call& outbox::place(verb kind, store_call& call) noexcept {
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
  const std::lock_guard lock{mutex_};
  answered_.append(std::move(calls));
  return wake();
}

bool outbox::retry() noexcept {
  const std::lock_guard lock{mutex_};
  return wake();
}

// under the mutex: `close` comes before or after it as a whole
bool outbox::wake() noexcept {
  if (closed_ || woken_ || answered_.empty()) return true;
  const int error = loop_.post([self = shared_from_this()]() noexcept { self->on_wakeup(); });
  woken_ = error == 0;
  // a closed service delivers nothing any more: the store is closed soon, and answers
  return woken_ || error == UV_ECANCELED;
}

void outbox::on_wakeup() noexcept {
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
  const std::lock_guard lock{mutex_};
  closed_ = true;
  return std::move(answered_);
}

}  // namespace tickwheel::durable::sqlite
