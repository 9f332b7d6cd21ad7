// Tells a connection that its peer moves bytes too slowly: it sends a body in drops, or does not read the answer.
//
// Use it together with a limit on the whole request (`phase_timeouts`). That limit must be generous enough for the largest body
// on the slowest line that you accept. A rate need not be.
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
// The peer has a credit of time, `grace` at first. Passing time reduces it. Each byte gives back the time that a byte may take at
// the minimum rate, but leaves the credit at `grace` at most. If a check finds no credit left, the peer is too slow. So a peer is cut
// only if it falls behind the rate by `grace` within some stretch of time, wherever that began.
//
// Bytes count as of the next check, which is at most one interval later. So a peer may stay up to `grace` and one interval behind
// without being cut. A peer that falls further behind is cut.
//
// Bursts do not matter, but no credit is saved up. A peer that is an hour ahead of the rate, and then falls silent, is cut like
// any other: at most `grace` and one interval after its last byte.
//
// Time is the loop's responsive time, without pauses. The peer is not charged with our stalls, nor with the time in which we do
// not read.
#pragma once

#include <tickwheel/uv/timer.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

namespace tickwheel {

/// The rate that a peer must keep.
struct rate_limits {
  /// The minimum rate. At least 1.
  std::uint64_t bytes_per_second = 240;
  /// How far the peer may fall behind, from any moment on. So it is also how long the peer may be silent, whatever it sent
  /// before. A check may grant it up to one interval more. Must be positive.
  std::chrono::nanoseconds grace = std::chrono::seconds{5};
  /// How often the timer checks. It checks more often, up to 16 times per interval, if the credit may end earlier. Must be
  /// positive.
  std::chrono::nanoseconds interval = std::chrono::seconds{1};

  /// Returns a message that names the first invalid field, or null if all fields are valid.
  constexpr const char* problem() const noexcept {
    if (bytes_per_second == 0) return "rate_limits::bytes_per_second is zero";
    if (grace.count() <= 0) return "rate_limits::grace is not positive";
    if (interval.count() <= 0) return "rate_limits::interval is not positive";
    return nullptr;
  }
};

/// Calls a member function of its owner once the peer has fallen behind a minimum rate by more than a grace time.
///
/// *Thread safety:* the loop thread only. Arming and cancelling check that, and `progress` and `pause` in debug builds.
/// *Complexity:* `progress` is an addition and a compare; the first call in a loop iteration may read the clock. `start`,
/// `pause`, `resume` and `cancel` are O(1), and `start` reads the clock. Nothing allocates. The timer expires once per interval, and may then read the clock.
/// *Errors:* only `start` can fail. *Lifetime:* as `timer`: it may be destroyed at any time, also in its handler.
template <auto Member, class F = decltype(Member)>
requires noexcept_member_handler<Member>
class minimum_rate : private timer, private detail::member_call<minimum_rate<Member, F>, Member> {
 public:
  using minimum_rate::member_call::handler;         ///< identifies its handler; see `timer::handler`
  using typename minimum_rate::member_call::owner;  ///< the class of the handler

  /// Requires: `self` lives as long as this timer; usually it is the connection that embeds it.
  minimum_rate(timer_service& service, owner& self) noexcept
      : timer{service, handler()}, minimum_rate::member_call{self} {}

  /// Demands `limits` of the peer from now on, with the full grace. Starting a started timer begins anew, not paused. Reads the
  /// clock, and moves `timer_service::now()` to that time.
  ///
  /// 0: it is started. On an error nothing has changed.
  /// UV_EINVAL: `limits` is invalid; `limits.problem()` names the field.
  /// UV_ENOBUFS, UV_ECANCELED: as `timer::arm`.
  [[nodiscard]] int start(const rate_limits& limits) noexcept {
    if (limits.problem() != nullptr) return UV_EINVAL;
    if (!service().is_open()) return refuse_when_closed();
    // for the whole iteration, so that later events in it do not count from before the start
    const clock::time_point now = service().update_now();
    if (const int error = timer::arm_verdict_at(detail::add_saturating(now, std::min(limits.grace, limits.interval))))
      return error;
    limits_ = limits;
    credit_ = limits.grace;
    bytes_ = 0;
    paused_ = false;
    is_put_off_ = false;
    counted_to_ = service().responsive_now();
    return 0;
  }

  /// Reports that the peer moved so many bytes, also while paused, and adds them up. If it is the first call in a loop iteration
  /// that needs the time, it reads the clock. The service thereby sees that peers are active, as with the first touch of an idle
  /// timeout. Has no other effect if not started.
  void progress(std::size_t bytes) noexcept {
    service().check_thread_in_debug();
    bytes_ += std::min<std::uint64_t>(bytes, std::numeric_limits<std::uint64_t>::max() - bytes_);
    (void)service().now();
  }

  /// Stops time for the peer, from the stamp of this loop iteration on. Call it while the peer cannot make progress because of
  /// us, for instance while we do not read because the receiver of its bytes is full. The credit stays as it is: a pause gives no
  /// new grace. Has no effect if it is already paused, or not started.
  void pause() noexcept {
    if (!armed() || paused_) return;
    service().check_thread_in_debug();
    paused_ = true;
    paused_at_ = service().responsive_now();
    // without a poll since it was resumed, its peer could not be read
    if (is_put_off_ && !has_polled_since(put_off_at_)) is_put_off_ = false;
  }

  /// Lets time count again. Has no effect if it is not paused.
  ///
  /// If no credit was left before the pause, that is judged in one of the next passes, after waiting input was handled. If the rate is
  /// paused again by then, it is nevertheless judged as of this call, provided that the loop has polled in between. Without a poll it is
  /// judged after the next `resume`. The stretches between pauses add up: a peer is charged with them also if its owner stopped reading
  /// in the same iteration, before it had read from this peer. For prepare callbacks see `idle_timeout::resume`.
  void resume() noexcept {
    if (!armed() || !paused_) return;
    paused_ = false;
    const std::chrono::nanoseconds paused_for = service().responsive_now() - paused_at_;
    counted_to_ += paused_for;
    put_off_verdict_ += paused_for;
    const clock::time_point due = next_check(counted_to_ + service().stalled_for());
    const bool is_due = is_known_to_have_passed(due);
    if (std::exchange(is_put_off_, is_due) && is_due) return;  // it is armed as an earlier resume has armed it
    if (!is_due) return timer::arm_again_at(due);
    put_off_at_ = polls();
    put_off_verdict_ = service().responsive_now();
    // The loop has not polled for what came during the pause. An armed timer is not refused.
    static_cast<void>(timer::arm_verdict_at(due));
  }

  /// Returns true between `pause` and `resume`.
  bool paused() const noexcept { return armed() && paused_; }

  /// Returns true if it was started. Its handler does not run until it is started again.
  bool cancel() noexcept { return timer::cancel(); }

  /// Returns true from `start` until the handler runs, `cancel` is called, or the service closes; also while paused.
  bool armed() const noexcept { return timer::armed(); }

  /// Returns how long the peer may be silent, counted from the last check. Zero if it was too slow. A check may judge a
  /// moment before the last bytes came, and the credit may then be more than the grace.
  std::chrono::nanoseconds credit() const noexcept { return std::max(credit_, std::chrono::nanoseconds{0}); }

  /// Returns the limits of the last start.
  const rate_limits& limits() const noexcept { return limits_; }

  using timer::callback;
  using timer::has_ref;  ///< as of `timer`
  using timer::ref;      ///< as of `timer`
  using timer::unref;    ///< as of `timer`

 private:
  friend typename minimum_rate::member_call;

  // Returns when the credit may be over, or when an interval has passed. It does not check at every instant at which the credit
  // may be over. A peer that is just fast enough has hardly any credit left, and would be checked without end. A peer that is silent
  // from now on is checked when its credit is over: no step leaves it less than the shortest one.
  clock::time_point next_check(clock::time_point last) const noexcept {
    const std::chrono::nanoseconds shortest = limits_.interval / 16;
    std::chrono::nanoseconds step = std::clamp(credit_, shortest, limits_.interval);
    if (credit_ > step && credit_ - step < shortest) step -= shortest;
    return detail::add_saturating(last, step);
  }

  void expired() noexcept {
    // One that was put off is judged also if it is paused again after a poll: its owner may pause and resume in each loop iteration.
    // But only as of its resume, because the loop may not have polled after any later time.
    if (paused_ && !is_put_off_) return wait_for_resume();
    is_put_off_ = false;
    count_to(paused_ ? put_off_verdict_ : service().responsive_judged_at());
    if (credit_.count() > 0)
      return paused_ ? wait_for_resume() : timer::arm_again_at(next_check(service().judged_at()));
    this->call();
  }

  // It keeps its place among the armed timers.
  void wait_for_resume() noexcept { timer::arm_again_at(clock::time_point::max()); }

  // In favour of the peer, the bytes since the last check count as if they had just arrived, or at the begin of the pause. That may be
  // after the time of the verdict. They then bring the whole grace from there, and not from the time of the verdict. If a pause has
  // ended since that time, time counts from after it, and the credit is what was left then.
  void count_to(clock::time_point time) noexcept {
    clock::time_point full_at = std::max(time, counted_to_);
    if (bytes_ != 0) full_at = std::max(full_at, paused_ ? paused_at_ : service().responsive_now());
    const std::chrono::nanoseconds most = detail::add_saturating(limits_.grace, full_at - time);
    credit_ -= time - counted_to_;
    counted_to_ = time;
    const std::chrono::duration<double> earned{static_cast<double>(bytes_) /
                                               static_cast<double>(limits_.bytes_per_second)};
    bytes_ = 0;
    credit_ = std::min(detail::add_saturating(credit_, detail::to_nanoseconds(earned)), most);
  }

  rate_limits limits_{};
  std::chrono::nanoseconds credit_{};
  std::uint64_t bytes_ = 0;              // since the last check
  clock::time_point counted_to_{};       // the time of that check, on responsive time without pauses
  clock::time_point paused_at_{};        // on responsive time
  clock::time_point put_off_verdict_{};  // the resume that has put a verdict off, on responsive time without pauses
  std::uint16_t put_off_at_ = 0;         // in polls of the loop
  bool paused_ = false;
  bool is_put_off_ = false;  // it was due before a pause, and is armed for the first tick after a resume
};

namespace detail {

template <auto Member, class F>
inline constexpr bool stays_in_place<minimum_rate<Member, F>> = true;

}  // namespace detail
}  // namespace tickwheel
