// Tells a connection when its peer has been silent for too long.
//
// Touch it on every read; that writes one word, whatever the limit and however many connections there are. The timer
// behind it is not moved: when it comes up it looks at the last touch, and waits for the rest.
//
//   class session {
//    public:
//     explicit session(tickwheel::timer_service& timers) : idle_{timers, *this} { idle_.start(60s); }
//     void on_read() { idle_.touch(); }
//    private:
//     void on_idle() noexcept;          // may `delete this`
//     tickwheel::idle_timeout<&session::on_idle> idle_;
//   };
//
// Our own stalls are not the peer's fault. Bytes that were waiting when the limit ran out are handled before the
// verdict, and idle time is counted on the loop's responsive time, which leaves out what a loop iteration took beyond
// `service_options::stall_grace`. A silent peer is still evicted, later by no more than we stalled.
#pragma once

#include <tickwheel/uv/timer.hpp>

#include <chrono>

namespace tickwheel {

/// Calls a member function of its owner once nothing was touched for a limit.
///
/// *Thread safety:* the loop thread only; checked, except on `touch`, where it is in debug builds. *Complexity:*
/// `touch` is a store of the iteration's time stamp; `start` and `cancel` are O(1) and `start` reads the clock.
/// *Errors:* as `timer::arm`. *Lifetime:* as `timer`: may be destroyed at any time, in its handler too.
template <auto Member>
requires noexcept_member_handler<Member>
class idle_timeout : private timer {
 public:
  using owner = typename detail::member_handler<decltype(Member)>::owner;

  /// Requires: `self` lives as long as this does; usually it is the connection that embeds it.
  idle_timeout(timer_service& service, owner& self) noexcept : timer{service, &visit}, self_{self} {}

  /// Calls the handler once `limit` has passed without a touch, counting from now; once, until started again. Starting
  /// a started one begins anew, which is what a pooled connection does when it is used again. A limit of zero or less
  /// runs out in the next pass, touched or not. 0; UV_ENOBUFS, UV_ECANCELED as `timer::arm`. On an error
  /// nothing has changed.
  template <class D>
  int start(D limit) noexcept {
    const auto silence = detail::to_nanoseconds(limit);
    if (const int error = timer::arm(silence)) return error;
    limit_ = silence;
    last_ = service().responsive_now();
    return 0;
  }

  /// The peer was active: stores the time stamp of this loop iteration, and nothing else. Without effect when not
  /// started, or when the service is closed.
  void touch() noexcept {
    service().check_thread_in_debug();
    last_ = service().responsive_now();
  }

  /// True when it was started. Afterwards the handler does not run until it is started again.
  bool cancel() noexcept { return timer::cancel(); }

  /// True from `start` until the handler runs, `cancel`, or the service closes.
  bool armed() const noexcept { return timer::armed(); }

  /// What `start` was given last.
  std::chrono::nanoseconds limit() const noexcept { return limit_; }

  using timer::has_ref;
  using timer::ref;
  using timer::unref;

 private:
  static void visit(wheel_entry& entry) noexcept {
    auto& self = static_cast<idle_timeout&>(timer::from(entry));
    timer_service& service = self.service();
    const auto idle = service.judged_at() - service.stalled_for() - self.last_;
    if (idle >= self.limit_) {
      (self.self_.*Member)();
      return;
    }
    // Not idle for so long yet: the rest is the earliest time it can be. It cannot be refused, as the place that this
    // timer had among the armed ones is still free.
    self.timer::arm_at(detail::add_saturating(service.judged_at(), self.limit_ - idle));
  }

  owner& self_;
  std::chrono::nanoseconds limit_{};
  clock::time_point last_{};  // the last activity, on responsive time
};

}  // namespace tickwheel
