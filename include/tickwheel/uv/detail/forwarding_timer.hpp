// A timer that calls a function of another type than a callback of the wheel: the timers of the C interface are such.
//
// All of them have one function for the wheel, which does not tell their handlers apart. So each keeps the address of the function that
// it calls, its target, and reports name that.
#pragma once

#include <tickwheel/uv/expiry_report.hpp>
#include <tickwheel/uv/timer.hpp>
#include <tickwheel/uv/timer_service.hpp>

namespace tickwheel::detail {

/// Returns the address of a function of any type, to compare and to name it. Cast back, it can be called.
template <class R, class... Arguments>
expiry_report::handler_id id_of(R (*function)(Arguments...)) noexcept {
  return reinterpret_cast<expiry_report::handler_id>(reinterpret_cast<void (*)()>(function));
}

/// The base of a timer whose callback only forwards to `target`. 56 bytes.
///
/// *Thread safety, complexity, errors, lifetime:* as `timer`.
class forwarding_timer : public timer {
 public:
  /// Reports of `service` name targets from now on. Requires: the service is closed, has only timers of this class, and each callable
  /// that is posted to it begins with the address of the function that it calls.
  static void identify_by_target(timer_service& service) noexcept { service.dispatcher_.identify_by_target(); }

  /// Returns the target of `t`. Requires: it is a forwarding timer.
  static expiry_report::handler_id target_of(const timer& t) noexcept {
    return static_cast<const forwarding_timer&>(t).target_;
  }

  expiry_report::handler_id target() const noexcept { return target_; }
  void set_target(expiry_report::handler_id to) noexcept { target_ = to; }

 protected:
  forwarding_timer(timer_service& service, callback run) noexcept : timer{service, run} {}
  ~forwarding_timer() = default;

 private:
  expiry_report::handler_id target_ = nullptr;
};

}  // namespace tickwheel::detail
