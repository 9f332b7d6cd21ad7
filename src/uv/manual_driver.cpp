#include <tickwheel/uv/manual_driver.hpp>

#include <tickwheel/core/detail/check.hpp>
#include <tickwheel/core/detail/nanoseconds.hpp>

namespace tickwheel {

void manual_driver::advance(std::chrono::nanoseconds by) noexcept {
  const clock::time_point end = detail::add_saturating(now(), by);
  for (;;) {
    while (now() <= end && turn_until_done()) {
    }
    if (soon_ && now() < end) {
      wait_until(std::min({detail::add_saturating(now(), std::chrono::nanoseconds{short_poll}), wake_, end}));
      if (wake_ > now()) continue;
    }
    if (now() > end || wake_ > end || wake_ == clock::time_point::max()) break;
    wait_until(wake_);
    wake_ = clock::time_point::max();
    ++wakeups_;
    bound()->on_wakeup(now());
  }
  wait_until(end);
}

// True if another turn may have something to do at once: a zero delay that a handler has just armed is not at once.
bool manual_driver::turn_until_done() noexcept {
  const clock::time_point before = now();
  if (!turn()) return false;
  const bool is_due = wake_ <= now() && wake_ != clock::time_point::max();
  return continues_ || is_due || now() != before || pass_requested_.load(std::memory_order_relaxed);
}

bool manual_driver::turn() noexcept {
  detail::require(!passing_, "manual_driver: advance or turn was called from a handler");
  ++epoch_;
  if (bound() == nullptr) {
    polled_ = now();
    return false;
  }
  const bool due = bound()->on_iteration(now());
  polled_ = now();
  const bool requested = pass_requested_.exchange(false, std::memory_order_acquire);
  if (requested) bound()->on_pass_requested();
  if (!requested && !continues_ && !soon_ && !due) return false;
  continues_ = false;
  soon_ = false;
  passing_ = true;
  bound()->pass(now());
  passing_ = false;
  return true;
}

void manual_driver::wake_at(clock::time_point when) noexcept {
  wake_ = when;
  continues_ = false;
}

void manual_driver::continue_pass() noexcept {
  wake_ = clock::time_point::max();
  continues_ = true;
}

void manual_driver::cancel_wakeup() noexcept {
  wake_ = clock::time_point::max();
  continues_ = false;
}

void manual_driver::on_unbind() noexcept {
  wake_ = clock::time_point::max();
  soon_ = false;
  continues_ = false;
  alive_ = false;
  pass_requested_ = false;
}

}  // namespace tickwheel
