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
// What is touched on reads alone watches the peer. Touched on writes alone, it says when it is time for a ping; touched
// on both, when nothing happens at all. A peer that owes us nothing but takes what we send slowly is another matter:
// see write_idle_timeout.hpp and all_idle_timeout.hpp.
//
// Our own stalls are not the peer's fault. Bytes that were waiting when the limit ran out are handled before the
// verdict, if the loop can read them within `service_options::io_wait`. And idle time is counted on the loop's responsive time,
// which leaves out what a loop iteration took beyond `service_options::stall_grace`. A silent peer is still evicted, later by
// no more than we stalled and waited.
#pragma once

#include <tickwheel/net/silence_timer.hpp>

namespace tickwheel {

/// Calls a member function of its owner once nothing was touched for a limit. Repeated calls, pauses and what else all
/// idle timeouts can do: see `silence_timer`.
///
/// *Thread safety, complexity, errors, lifetime:* as `silence_timer`. `touch` is a store of the iteration's time stamp.
template <auto Member, class = decltype(Member)>
requires noexcept_member_handler<Member>
class idle_timeout : public silence_timer {
 public:
  /// The class that `Member` is of.
  using owner = typename detail::member_handler<decltype(Member)>::owner;

  /// Requires: `self` lives as long as this does; usually it is the connection that embeds it.
  idle_timeout(timer_service& service, owner& self) noexcept : silence_timer{service, &visit}, self_{self} {}

  /// Tells its handler from others; see `timer::handler`.
  static callback handler() noexcept { return &visit; }

  /// Calls the handler once `limit` has passed without a touch, counting from now; once, until started again or the
  /// handler asks for it by `notify_again`. Starting a started one begins anew, which is what a pooled connection does when it is
  /// used again: no touch, pause or notice of the earlier use is left. The limit is a duration, or a scaled one:
  /// `idle_limit::scaled(10s, 5min, load)`. A scaled one follows a falling load at once, and a rising one when the
  /// timer comes up next, which is once a minimum.
  ///
  /// 0; UV_EINVAL when the limit cannot be, as one of zero or less (`idle_limit::problem` names the field);
  /// UV_ENOBUFS, UV_ECANCELED as `timer::arm`. On an error nothing has changed.
  int start(const idle_limit& limit) noexcept { return begin(limit); }

  /// The peer was active: stores the time stamp of this loop iteration, and nothing else. Without effect when not
  /// started, or when the service is closed.
  void touch() noexcept { note(); }

 private:
  static void visit(wheel_entry& entry) noexcept {
    if (auto& self = from<idle_timeout>(entry); self.judge()) (self.self_.*Member)();
  }

  owner& self_;
};

}  // namespace tickwheel
