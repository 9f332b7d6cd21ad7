// The timer behind all idle timeouts: it expires once there was no activity for a limit.
//
// Activity does not move it. It expires at the earliest time at which the limit can have run out, checks the time of the last
// activity, and waits for the rest.
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/net/idle_limit.hpp>
#include <tickwheel/uv/timer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace tickwheel::detail {

/// Holds the limit, the pauses and the count of timeouts. `basic_idle_timeout` decides what counts as activity, and documents the
/// public functions. 104 bytes.
class TICKWHEEL_API silence_timer : public timer {
 public:
  /// Requires: `run` is not null; `service` outlives every start.
  silence_timer(timer_service& service, callback run) noexcept : timer{service, run, patient{}} {}

  bool cancel() noexcept {
    is_paused_ = false;
    return timer::cancel();
  }
  std::chrono::nanoseconds limit() const noexcept { return limit_.now(); }
  [[nodiscard]] int notify_again() noexcept;
  unsigned consecutive_timeouts() const noexcept { return last_ < noticed_at_ ? consecutive_timeouts_ : 0; }
  void pause() noexcept;
  void resume() noexcept;
  bool paused() const noexcept { return is_paused_ && armed(); }
  std::chrono::nanoseconds silence() const noexcept { return judged_at() - last_; }

  /// Starts it, or begins anew. Returns 0 or a UV_ code as `idle_timeout::start`. The timer expires `checks` times per limit:
  /// more than once if only a check can see some of the activity.
  [[nodiscard]] int begin(const idle_limit& limit, int checks) noexcept;

  /// Reports activity: stores the time stamp of this loop iteration, and nothing else.
  void touch() noexcept {
    service().check_thread_in_debug();
    if (service().has_now()) [[likely]]
      last_ = service().responsive_now();
    else
      touch_first();
  }

  /// For an expiry: returns true if the limit has run out and the handler must be called. Otherwise waits for the rest.
  bool check_expired() noexcept;

  /// For an expiry, instead of `check_expired`, while silence does not count: checks again before the limit can have run out.
  void check_later() noexcept;

 private:
  static constexpr clock::time_point never_noticed = clock::time_point::min();

  static tick soonest(void* service, wheel_entry&) noexcept;
  // One that is judged during a pause is judged as of its beginning. Requires: an expiry.
  clock::time_point judged_at() const noexcept { return is_paused_ ? changed_at_ : service().responsive_judged_at(); }
  clock::time_point counts_from() const noexcept { return std::max(last_, noticed_at_); }
  std::chrono::nanoseconds longest_step() const noexcept { return limit_.minimum() / checks_; }
  void touch_first() noexcept;  // the first of a loop iteration: a function of its own, because it reads the clock
  clock::time_point next_check(clock::time_point now, std::chrono::nanoseconds silence) const noexcept;

  // All of them are on responsive time. A touch writes `last_` and nothing else. Comparing the times shows what the touch ended.
  clock::time_point last_{};                      // the last activity
  clock::time_point noticed_at_ = never_noticed;  // the last call of the handler
  clock::time_point changed_at_{};                // the last pause, or a later resume
  idle_limit limit_{std::chrono::nanoseconds{}};
  unsigned consecutive_timeouts_ = 0;
  std::uint16_t put_off_at_ = 0;  // in polls of the loop
  std::int8_t checks_ = 1;
  bool is_paused_ : 1 = false;
  bool is_put_off_ : 1 = false;  // it had run out before a pause, and is armed for the first tick after a resume
};

static_assert(sizeof(void*) != 8 || sizeof(silence_timer) <= 104);

}  // namespace tickwheel::detail
