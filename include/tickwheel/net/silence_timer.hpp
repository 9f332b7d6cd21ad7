// What the idle timeouts have in common: a timer that comes up once nothing has happened for a limit.
//
//   idle_timeout          nothing was touched: reads, or reads and writes
//   write_idle_timeout    bytes are queued for the peer, and it takes none
//   all_idle_timeout      nothing was touched, and the peer takes none of what is queued, either
//
// All of them are started with a limit, tell silence once and, if asked, again and again, and can be paused:
//
//   void on_idle() noexcept {
//     if (idle_.consecutive_timeouts() == 3) return close();   // silent for three limits
//     send_ping();
//     idle_.notify_again();                              // and tell me when it has been silent for one more
//   }
//
//   void on_back_pressure() noexcept { idle_.pause(); uv_read_stop(...); }     // what we do not read cannot come
//   void on_relief() noexcept { uv_read_start(...); idle_.resume(); }
//
// The timer behind them is not moved by activity. It comes up at the earliest time at which the limit can have run out,
// looks at when something happened last, and waits for the rest.
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/net/idle_limit.hpp>
#include <tickwheel/uv/timer.hpp>

#include <algorithm>
#include <chrono>

namespace tickwheel {

/// Base of the idle timeouts, which say what counts as activity, and whom to call. 104 bytes.
///
/// *Thread safety:* the loop thread only; checked where it is armed or cancelled, and in debug builds on `touch` and `pause`.
/// *Complexity:* all O(1); nothing allocates. `start` reads the clock; all else takes the time of the loop iteration. *Errors:*
/// `start` and `notify_again` answer UV_ codes. *Lifetime:* as `timer`: may be destroyed at any time, in its handler too.
class TICKWHEEL_API silence_timer : private timer {
 public:
  /// True when it was started. Afterwards the handler does not run until it is started again.
  bool cancel() noexcept {
    paused_at_ = not_paused;
    return timer::cancel();
  }

  /// True from `start` until the handler runs, `cancel`, or the service closes. A paused one is armed.
  bool armed() const noexcept { return timer::armed(); }

  /// What it was started with last; of a scaled limit, what that is at the present load. Zero when it was never started.
  std::chrono::nanoseconds limit() const noexcept { return limit_.now(); }

  /// For the handler: has it called once more after a further limit of silence, counted from this call of it, or from
  /// activity after that. Calls that are late do not come in a burst. In the handler it cannot be refused: until that
  /// returns the timeout keeps its place among `max_armed`, which no other timer gets. Reads no clock.
  ///
  /// 0, also when it is armed already, as after `start`; UV_EINVAL when it was never started; UV_ECANCELED when the service is
  /// closed; UV_ENOBUFS, once the handler has returned, when `max_armed` timers are armed.
  int notify_again() noexcept;

  /// How often the handler was called in a row, that is without activity since; in the handler, this call is counted,
  /// and the first is 1. Activity makes it 0, and so does `start`.
  unsigned consecutive_timeouts() const noexcept { return last_ < noticed_at_ ? consecutive_timeouts_ : 0; }

  /// From now on time does not count: we do not read from the peer, which then cannot be blamed for its silence. It
  /// stays armed, holds the loop as before, and comes up once a limit to find that it is paused. Without effect when it
  /// is not armed, or paused already: pauses do not add up.
  void pause() noexcept;

  /// Time counts again, and goes on from what it was when the pause began. A peer that had been silent for a third of the
  /// limit has two thirds left. One that was active meanwhile has all of it. What had run out before the pause is judged in
  /// one of the next passes, that is after what waits to be read was handled. Without effect when not paused.
  void resume() noexcept;

  /// True between `pause` and `resume`; `start` and `cancel` end a pause, too.
  bool paused() const noexcept { return paused_at_ != not_paused && armed(); }

  /// In the handler: how long nothing had happened when this was judged, since the last activity or the start, less what we
  /// stalled ourselves; at least the limit. With `timer_service::why()` it is the whole story of a close.
  std::chrono::nanoseconds silence() const noexcept { return service().responsive_judged_at() - last_; }

  using timer::handler;
  using timer::has_ref;  ///< as of `timer`
  using timer::ref;      ///< as of `timer`
  using timer::unref;    ///< as of `timer`

 protected:
  using timer::callback;
  using timer::wheel_entry;  ///< what callbacks take

  /// Requires: `run` is not null; `service` outlives every start.
  silence_timer(timer_service& service, callback run) noexcept : timer{service, run, patient{}} {}

  /// The timeout that a callback was called with.
  template <class Derived>
  static Derived& from(wheel_entry& entry) noexcept {
    return static_cast<Derived&>(static_cast<silence_timer&>(timer::from(entry)));
  }

  /// Starts it, or begins anew: 0 or UV_ code as `idle_timeout::start`. It comes up `looks` times a limit: more than once to
  /// see what nobody tells it.
  int begin(const idle_limit& limit, int looks = 1) noexcept;

  /// Something happened: stores the time stamp of this loop iteration, and nothing else.
  void note() noexcept {
    service().check_thread_in_debug();
    if (service().has_now()) [[likely]]
      last_ = service().responsive_now();
    else
      note_first();
  }

  /// To be called when it has come up: true when the limit has run out and the handler is to be called; else it waits
  /// for the rest.
  bool judge() noexcept;

  /// To be called instead when silence does not count as things are: comes up again before it could have run out.
  void look_again() noexcept;

 private:
  static constexpr clock::time_point not_paused = clock::time_point::max();
  static constexpr clock::time_point never_noticed = clock::time_point::min();

  static tick soonest(void* service, wheel_entry&) noexcept;
  clock::time_point counts_from() const noexcept { return std::max(last_, noticed_at_); }
  std::chrono::nanoseconds longest_step() const noexcept { return limit_.minimum() / looks_; }
  void note_first() noexcept;  // of a loop iteration: kept out of the way, as it reads the clock
  void wait(clock::time_point now, std::chrono::nanoseconds silence) noexcept;

  // All on responsive time. A touch writes `last_` and nothing else; what it puts an end to is seen by comparing.
  clock::time_point last_{};                      // the last activity
  clock::time_point noticed_at_ = never_noticed;  // the last call of the handler
  clock::time_point paused_at_ = not_paused;
  idle_limit limit_{std::chrono::nanoseconds{}};
  unsigned consecutive_timeouts_ = 0;
  int looks_ = 1;
};

static_assert(sizeof(void*) != 8 || sizeof(silence_timer) <= 104);

}  // namespace tickwheel
