#include "timer.hpp"

#include "service_block.hpp"

#include <tickwheel/tickwheel.h>
#include <tickwheel/core/detail/nanoseconds.hpp>

#include <memory>

namespace tickwheel::c {

namespace {

// A timer that is closed after its service, and with the service the handle that called close callbacks, is gone.
struct late_closing {
  uv_idle_t closer{};
  timer& of;
};

}  // namespace

timer::timer(service_block& of) noexcept : forwarding_timer{of.timers(), &expire}, block_{&of}, loop_{&of.loop()} {}

timer& timer::make(service_block& of, tw_timer_t& handle) noexcept {
  timer& made = *::new (static_cast<void*>(&handle.private_)) timer{of};
  of.add(made);
  return made;
}

// Out of line, as `touch`: two functions call it.
[[gnu::noinline]] int timer::start(tw_timer_cb call, nanoseconds timeout, nanoseconds repeat) noexcept {
  // first, for the reason that `timer::arm` of C++ tells
  __builtin_prefetch(this, 1);
  __builtin_prefetch(&due_, 1);
  const clock::time_point due = detail::add_saturating(clock::now(), to_chrono(timeout));
  if (call == nullptr || closing_) return UV_EINVAL;
  if (block_ == nullptr) return UV_ECANCELED;
  const expiry_report::handler_id before = target();
  set_target(detail::id_of(call));  // first, because the probe for arming tells it
  if (const int error = timeout == 0 ? arm(std::chrono::nanoseconds{}) : arm_at(due)) {
    set_target(before);
    return error;
  }
  due_ = due;
  waits_ = timeout;
  repeat_ = repeat;
  return 0;
}

// For calls that neither arm nor cancel the timer, which check that themselves. A call on another thread is always wrong, and is
// noticed before it does harm.
void timer::check_thread() const noexcept {
  if (block_ != nullptr) block_->check_thread();
}

void timer::stop() noexcept {
  if (!cancel()) check_thread();
}

int timer::again() noexcept {
  check_thread();
  if (target() == nullptr) return UV_EINVAL;
  if (repeat_ == 0 || closing_) return 0;
  return start(user_callback(), repeat_, repeat_);
}

// The iteration's time may be older than the last start, which counted from the true time. So a touch never moves the timer
// earlier. Out of line, because it takes half a kilobyte.
[[gnu::noinline]] void timer::touch() noexcept {
  check_thread();
  if (!armed()) return;
  const clock::time_point due = detail::add_saturating(service().now(), to_chrono(waits_));
  if (due <= due_) return;
  due_ = due;
  (void)arm_at(due_);  // cannot fail: it is armed
}

void timer::set_repeat(nanoseconds repeat) noexcept {
  check_thread();
  repeat_ = repeat;
}

nanoseconds timer::due_in() const noexcept {
  const clock::time_point now = clock::now();
  return due_ > now ? static_cast<nanoseconds>((due_ - now).count()) : 0;
}

void timer::set_ref(bool on) noexcept {
  if (block_ == nullptr) return;
  check_thread();
  if (on)
    ref();
  else
    unref();
}

// Arms the next repeat before the call, so that the callback may stop, start or close the timer. A callback usually runs a
// fraction of a millisecond late, which must not add up. If it is late by a whole repeat, the loop was blocked, and the missed
// repeats are skipped. That is judged by the clock, not by the iteration's time, because earlier callbacks of this iteration may
// have taken long.
void timer::expire(wheel_entry& entry) noexcept {
  auto& self = static_cast<timer&>(tickwheel::timer::from(entry));
  if (self.repeat_ != 0) {
    const std::chrono::nanoseconds repeat = to_chrono(self.repeat_);
    const clock::time_point now = self.service().read_clock();
    const clock::time_point next = detail::add_saturating(self.due_, repeat);
    self.due_ = next > now ? next : detail::add_saturating(now, repeat);
    self.waits_ = self.repeat_;
    self.arm_again_at(self.due_);
  }
  self.user_callback()(self.handle());
}

void timer::close(tw_timer_close_cb told) noexcept {
  check_thread();
  cancel();
  told_ = told;
  closing_ = true;
  if (block_ != nullptr) {
    block_->close(*this);
    return;
  }
  auto* const late = new (std::nothrow) late_closing{{}, *this};
  detail::require(late != nullptr, "tw_timer_close: no memory is left to close a timer whose service is gone");
  uv_idle_init(loop_, &late->closer);
  late->closer.data = late;
  uv_close(reinterpret_cast<uv_handle_t*>(&late->closer), [](uv_handle_t* h) {
    const std::unique_ptr<late_closing> closed{static_cast<late_closing*>(h->data)};
    closed->of.finish();
  });
}

void timer::finish() noexcept {
  tw_timer_t* const user = handle();
  const tw_timer_close_cb told = told_;
  this->~timer();
  if (told != nullptr) told(user);
}

}  // namespace tickwheel::c

using tickwheel::c::timer;

int tw_timer_start_ns(tw_timer_t* handle, tw_timer_cb cb, uint64_t timeout, uint64_t repeat) {
  return handle == nullptr ? UV_EINVAL : timer::of(handle).start(cb, timeout, repeat);
}

int tw_timer_stop(tw_timer_t* handle) {
  if (handle == nullptr) return UV_EINVAL;
  timer::of(handle).stop();
  return 0;
}

int tw_timer_touch(tw_timer_t* handle) {
  if (handle == nullptr) return UV_EINVAL;
  timer::of(handle).touch();
  return 0;
}

int tw_timer_is_active(const tw_timer_t* handle) { return timer::of(handle).armed(); }
