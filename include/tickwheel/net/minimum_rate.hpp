// Tells a connection when its peer moves bytes too slowly: a body that comes in drops, an answer that is not taken.
//
// Take it beside a limit on the whole (`phase_timeouts`), which must be generous enough for the largest body on the slowest
// line that is still welcome. A rate need not be.
//
//   class upload {
//    public:
//     explicit upload(tickwheel::timer_service& timers) : rate_{timers, *this} {}
//     int begin() { return rate_.start({.bytes_per_second = 240, .grace = 5s}); }
//     void on_read(std::size_t bytes) { rate_.progress(bytes); }
//     void on_peer_not_wanted_now() { rate_.pause(); }     // we stopped reading: it cannot send
//     void on_peer_wanted_again() { rate_.resume(); }
//     void on_complete() { rate_.cancel(); }
//    private:
//     void on_too_slow() noexcept;            // may `delete this`
//     tickwheel::minimum_rate<&upload::on_too_slow> rate_;
//   };
//
// The peer has a credit of time, `grace` at first. Time takes from it, and each byte gives back the time that a byte may take
// at the minimum rate, up to `grace` again. When none is left the peer is too slow. So a peer is cut only when it has fallen
// behind the rate by `grace` within some stretch of time, wherever that began. A check finds this one interval late at most.
// Bursts do not matter, but nothing is saved up. A peer that is an hour ahead of the rate, and then falls silent, is cut like
// any other, at the latest `grace` and one interval after its last byte.
//
// Time is the loop's responsive time, less what was paused: neither our stalls nor our unwillingness to read are the
// peer's fault.
#pragma once

#include <tickwheel/uv/timer.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tickwheel {

/// What is demanded of a peer.
struct rate_limits {
  /// At least 1.
  std::uint64_t bytes_per_second = 240;
  /// How far the peer may fall behind, from any moment on: hence also how long it may be silent, whatever it sent before.
  /// Must be positive.
  std::chrono::nanoseconds grace = std::chrono::seconds{5};
  /// How often the timer checks; oftener, up to 16 times, where the credit may be over sooner. Must be positive.
  std::chrono::nanoseconds interval = std::chrono::seconds{1};

  /// The first field that cannot be, and why; null when all can.
  constexpr const char* problem() const noexcept {
    if (bytes_per_second == 0) return "rate_limits::bytes_per_second is zero";
    if (grace.count() <= 0) return "rate_limits::grace is not positive";
    if (interval.count() <= 0) return "rate_limits::interval is not positive";
    return nullptr;
  }
};

/// Calls a member function of its owner once the peer has fallen behind a minimum rate by more than a grace time.
///
/// *Thread safety:* the loop thread only; checked where it is armed or cancelled, and in debug builds on `progress` and
/// `pause`. *Complexity:* `progress` is an addition and a compare, and the first in a loop iteration may read
/// the clock; `start`, `pause`, `resume` and `cancel` are O(1), and `start` reads the clock. Nothing allocates. The timer
/// expires once per interval. *Errors:* only `start` can fail. *Lifetime:* as `timer`: may be destroyed at any time, also in its
/// handler.
template <auto Member, class F = decltype(Member)>
requires noexcept_member_handler<Member>
class minimum_rate : private timer, private detail::member_call<minimum_rate<Member, F>, Member> {
 public:
  using minimum_rate::member_call::handler;         ///< tells its handler from others; see `timer::handler`
  using typename minimum_rate::member_call::owner;  ///< the class that `Member` is of

  /// Requires: `self` lives as long as this does; usually it is the connection that embeds it.
  minimum_rate(timer_service& service, owner& self) noexcept
      : timer{service, handler()}, minimum_rate::member_call{self} {}

  /// Demands `limits` from now on, with the full grace. Starting a started one begins anew, not paused.
  ///
  /// 0; UV_EINVAL when `limits.problem()` names one; UV_ENOBUFS, UV_ECANCELED as `timer::arm`. On an error nothing has
  /// changed.
  [[nodiscard]] int start(const rate_limits& limits) noexcept {
    if (limits.problem() != nullptr) return UV_EINVAL;
    if (!service().is_open()) return UV_ECANCELED;
    // for the whole iteration, so that what follows in it does not count from before the start
    const clock::time_point now = service().update_now();
    if (const int error = timer::arm_verdict_at(detail::add_saturating(now, std::min(limits.grace, limits.interval))))
      return error;
    limits_ = limits;
    credit_ = limits.grace;
    bytes_ = 0;
    paused_ = false;
    counted_to_ = service().responsive_now();
    return 0;
  }

  /// The peer moved so many bytes, also while paused. Adds them up. The first call in a loop iteration that asks for its time
  /// reads the clock, as the first touch of an idle timeout does. That is how the service sees that peers are active. Without
  /// effect when not started, except for that.
  void progress(std::size_t bytes) noexcept {
    service().check_thread_in_debug();
    bytes_ += bytes;
    (void)service().now();
  }

  /// Time stands still for the peer, from the stamp of this loop iteration on. Call it when the peer cannot make progress
  /// because of us, such as when reading stops because the receiver of its bytes is full. The credit stays as it is: a pause
  /// is no new grace. Pausing a paused one, or one that is not started, has no effect.
  void pause() noexcept {
    if (!armed() || paused_) return;
    service().check_thread_in_debug();
    paused_ = true;
    paused_at_ = service().responsive_now();
  }

  /// Time goes on for the peer. Without effect unless paused.
  void resume() noexcept {
    if (!armed() || !paused_) return;
    paused_ = false;
    counted_to_ += service().responsive_now() - paused_at_;
    timer::arm_again_at(next_check(counted_to_ + service().stalled_for()));
  }

  /// True between `pause` and `resume`.
  bool paused() const noexcept { return armed() && paused_; }

  /// True when it was started. Afterwards the handler does not run until it is started again.
  bool cancel() noexcept { return timer::cancel(); }

  /// True from `start` until the handler runs, `cancel`, or the service closes; also while paused.
  bool armed() const noexcept { return timer::armed(); }

  /// How long the peer may be silent from the last check on; zero when it was too slow.
  std::chrono::nanoseconds credit() const noexcept { return std::max(credit_, std::chrono::nanoseconds{0}); }

  /// What `start` was given last.
  const rate_limits& limits() const noexcept { return limits_; }

  using timer::callback;
  using timer::has_ref;  ///< as of `timer`
  using timer::ref;      ///< as of `timer`
  using timer::unref;    ///< as of `timer`

 private:
  friend typename minimum_rate::member_call;

  // When the credit may be over, or an interval has passed. Not at every instant that the credit may be over, as a peer
  // that is just fast enough has hardly any left: it would be checked without end.
  clock::time_point next_check(clock::time_point last) const noexcept {
    return detail::add_saturating(last, std::clamp(credit_, limits_.interval / 16, limits_.interval));
  }

  void expired() noexcept {
    // a paused one keeps its place among the armed ones until `resume`
    if (paused_) return timer::arm_again_at(clock::time_point::max());
    count_to(service().responsive_judged_at());
    if (credit_.count() > 0) return timer::arm_again_at(next_check(service().judged_at()));
    this->call();
  }

  // What came since the last check counts as if it had come just now: to the peer's favour.
  void count_to(clock::time_point now) noexcept {
    if (now > counted_to_) {  // a resume may be younger than the stamp that a pass judges by
      credit_ -= now - counted_to_;
      counted_to_ = now;
    }
    const std::chrono::duration<double> earned{static_cast<double>(bytes_) /
                                               static_cast<double>(limits_.bytes_per_second)};
    bytes_ = 0;
    credit_ = std::min(detail::add_saturating(credit_, detail::to_nanoseconds(earned)), limits_.grace);
  }

  rate_limits limits_{};
  std::chrono::nanoseconds credit_{};
  std::uint64_t bytes_ = 0;         // since the last check
  clock::time_point counted_to_{};  // when that was, on responsive time and with pauses left out
  clock::time_point paused_at_{};   // on responsive time
  bool paused_ = false;
};

namespace detail {

template <auto Member, class F>
inline constexpr bool stays_in_place<minimum_rate<Member, F>> = true;

}  // namespace detail
}  // namespace tickwheel
