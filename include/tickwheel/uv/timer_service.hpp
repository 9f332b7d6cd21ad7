// A timer_service is one loop's timers: a wheel, driven by the loop's own poll timeout.
//
// Open one on each uv_loop_t, hand it to whatever waits, and close it before the loop:
//
//   tickwheel::timer_service timers;
//   if (int error = timers.open(loop)) return error;
//   tickwheel::callback_timer hello{timers, []() noexcept { std::puts("hello"); }};
//   hello.arm(250ms);
//   uv_run(&loop, UV_RUN_DEFAULT);       // returns once nothing is armed
//   timers.close();
//   uv_run(&loop, UV_RUN_DEFAULT);       // libuv's own close callbacks
//   uv_loop_close(&loop);
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/core/detail/nanoseconds.hpp>
#include <tickwheel/core/wheel.hpp>
#include <tickwheel/uv/detail/handler_log.hpp>
#include <tickwheel/uv/detail/liveness.hpp>
#include <tickwheel/uv/detail/loop_clock.hpp>
#include <tickwheel/uv/detail/post_delivery.hpp>
#include <tickwheel/uv/detail/this_thread.hpp>
#include <tickwheel/uv/detail/timeline.hpp>
#include <tickwheel/uv/detail/verdict_stamp.hpp>
#include <tickwheel/uv/driver.hpp>
#include <tickwheel/uv/expiry_report.hpp>
#include <tickwheel/uv/service_options.hpp>
#include <tickwheel/uv/service_stats.hpp>
#include <tickwheel/uv/slow_handler.hpp>

#include <uv.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>

namespace tickwheel {

class timer;
class binding_watch;
class remote_handle;  // uv/remote.hpp
class remote_hold;

/// The timers of one loop.
///
/// *Thread safety:* the loop thread only: the thread that opened the service and, from its first poll on, the one that
/// runs the loop (`use_on_this_thread` hands it over otherwise). Arming or cancelling a timer elsewhere is a violated
/// precondition, which is checked and named. Other threads post through a `remote_handle`.
///
/// *Complexity:* arming, cancelling and touching are O(1), allocate nothing and make no system call. What is due before all
/// else also moves the loop's wakeup, for which the clock is read, and with `wake_by::timerfd` a system call made. A pass reads
/// the clock for each handler, and an idle service once a loop iteration. It has 18 KB, and some 200 KB on the heap with the
/// default geometry.
///
/// *Errors:* `open` answers a UV_ code. Nothing throws, but `validate`, for want of memory, and `dump`, also what its stream throws.
///
/// *Lifetime:* outlives the timers made with it, in the sense that once it is destroyed they may only be asked `armed()`,
/// cancelled and destroyed. It may be closed and destroyed at any time, also by a handler of its own. Its libuv handles live
/// on until the loop has turned once more, or twice when the user closed them first. Until then uv_loop_close answers
/// UV_EBUSY. The loop outlives it.
///
/// *Order:* handlers run after the poll, as of a stamp that was taken before it. What other threads posted before the stamp is
/// delivered first. After a block the stamp waits for further polls (`service_options::io_wait`). Zero delays do not wait for
/// that, and run in the order of arming. Under UV_RUN_ONCE one call may return for the wakeup and the next run the handler,
/// where a uv_timer_t runs in the first.
class TICKWHEEL_API timer_service final : private driver::client {
 public:
  timer_service() noexcept = default;
  /// Closes.
  ~timer_service();
  timer_service(const timer_service&) = delete;
  timer_service& operator=(const timer_service&) = delete;

  /// Opens the service on `loop`. Allocates the wheel's slots, one block of libuv handles and one that it shares with its
  /// remote handles, and nothing later.
  ///
  /// The calling thread is the loop's, until another runs it. Reads the clock; O(slots).
  ///
  /// 0; UV_EINVAL for an impossible option or a loop that was closed; UV_ENOMEM; UV_EALREADY when it is open; what
  /// uv_async_init answers when the loop's first async handle finds no descriptor. With `wake_by::timerfd` also
  /// UV_ENOTSUP where there is none, UV_EMFILE or UV_ENFILE when there is no descriptor for it, and UV_ENOSPC when the
  /// user may have no more descriptors polled.
  /// On an error nothing has changed, but after UV_ENOSPC a handle is left that the loop's next turn closes. A closed
  /// service can be opened again.
  [[nodiscard]] int open(uv_loop_t& loop, const service_options& options = {}) noexcept;

  /// Opens the service on a driver of your choice, such as a `manual_driver`; as above. UV_EBUSY when another service
  /// is open on it; UV_EINVAL when its clock stands before the clock's epoch. Requires: `on` outlives the open service.
  [[nodiscard]] int open(driver& on, const service_options& options = {}) noexcept;

  /// Detaches every timer: no handler runs, and arming one answers UV_ECANCELED. What other threads posted and has not run
  /// is counted in `service_stats::remote_cancelled`, and what they post from now on is refused; they may be at it
  /// meanwhile. Idempotent; O(linked timers + what is posted).
  /// Requires: the loop thread, or that the loop is not running.
  void close() noexcept;

  /// True between `open` and `close`.
  bool is_open() const noexcept { return driver_ != nullptr; }

  /// The time of this loop iteration: read from the clock on first use, and again when libuv's own time has moved on or
  /// the loop has waited. Never ahead of the true time, and behind it by what the callbacks took since. Stands still
  /// while the service is closed. In a prepare callback that was started before the service was opened each call reads the
  /// clock.
  clock::time_point now() const noexcept { return clock_.now(); }

  /// The true time: reads the clock. Requires: open.
  clock::time_point read_clock() const noexcept { return driver_->now(); }

  /// Reads the clock, and lets `now()` answer that for the rest of this loop iteration, as uv_update_time does. Requires:
  /// open.
  clock::time_point update_now() noexcept { return clock_.read(); }

  /// `now()` on the loop's *responsive* time, which leaves out what iterations took beyond `stall_grace`. Idle time is
  /// counted on it, so that a peer is not charged with our own stalls. Reads the clock when `now()` would.
  clock::time_point responsive_now() const noexcept { return clock_.responsive_now(); }

  /// `now`, a time of this loop iteration, on responsive time. Reads no clock. Requires: open.
  clock::time_point responsive(clock::time_point now) const noexcept { return clock_.responsive(now); }

  /// True when the clock was read in this loop iteration, so that `now` and `responsive_now` need not.
  bool has_now() const noexcept { return clock_.has_now(); }

  /// Within a handler of a timer: the time as of which it was judged, taken before waiting I/O was handled. Within one of a
  /// zero delay, or of a posted call: the time before the last poll. Outside: that of the last handler.
  clock::time_point judged_at() const noexcept { return judged_at_; }

  /// `judged_at()` on responsive time. What stalled since that moment is not left out.
  clock::time_point responsive_judged_at() const noexcept { return responsive_judged_at_; }

  /// How far responsive time is behind, but for the stall of the running iteration: the sum of all stalls, and of the time
  /// in which nobody ran the loop.
  std::chrono::nanoseconds stalled_for() const noexcept { return clock_.stalled_for(); }

  /// Counters and histograms, as of this call; valid until the next. Copies both histograms, 8 KB: for once a second rather
  /// than once a request. Stays readable after `close()`, until the service is opened again or destroyed.
  const service_stats& stats() const noexcept;

  /// Within a handler: when it was due, how late it runs, and why. Outside: the same of the last one that ran. Valid until the
  /// next call. Reads no clock; kept a pass, and put together when asked for. What it costs all handlers, asked or not, is a
  /// clock read each, which is also what `service_stats::handler_time` and `on_slow_handler` live on.
  const expiry_report& why() const noexcept;

  /// Calls `hook(context, slow)` for each handler that takes `service_options::slow_handler` or longer, soon after it has
  /// returned, in the same pass; null: no hook. It stays when the service is closed and opened again. One that closed or
  /// destroyed its service is not told, nor are slow ones among the 31 that ran just before it.
  void on_slow_handler(slow_handler_hook hook, void* context = nullptr) noexcept { log_.on_slow(hook, context); }

  /// A handle by which any thread posts to this service, now and until it closes. Empty when the service was never opened.
  /// *Any thread*, while no other opens or destroys the service; it may be closed meanwhile. A service that is opened
  /// again needs new handles: those from before stay closed.
  remote_handle remote() const noexcept;

  /// Keeps the loop alive until it, and every copy of it, is released: take one while another thread still intends to
  /// post. Empty when the service is closed. The loop thread, checked.
  remote_hold hold() noexcept;

  /// True for a libuv handle of this service, for the callback of a uv_walk that closes everything else. False once it
  /// is closed: its handles are closing then, so test uv_is_closing first.
  ///
  /// A walk that closes them all the same silences the service, whatever it is at. It keeps no loop alive, and calls no
  /// handler once a pass that runs is through. Every call answers as before, what is armed and posted waits in vain until
  /// `close` cancels it, and the service can then be opened again. Such a walk must not run while other threads post.
  bool owns(const uv_handle_t* handle) const noexcept { return driver_ != nullptr && driver_->owns(handle); }

  /// Whether armed timers keep the loop alive. They do until `unref()`, as libuv's do. Any number of calls is one; it stays
  /// when the service is closed and opened again.
  void ref() noexcept;
  /// See `ref`.
  void unref() noexcept;
  /// See `ref`; true at first.
  bool has_ref() const noexcept { return alive_.has_ref(); }

  /// Call it in the child of a fork, after uv_loop_fork(): the forking thread becomes the loop thread. Armed timers fire at
  /// their deadlines there as they do in the parent, and so does what was posted, delivered or not. Requires: open, not within
  /// a handler, and that no other thread was posting, cancelling or letting go of a hold while the process forked. Whatever it
  /// was in the middle of stays so in the child. So does a hold that another thread has: that thread is not there to release
  /// it, and the child's loop is held until the service closes. With `wake_by::timerfd` the child gets a timer of its own; it
  /// is stopped when the system has none for it, as it would go on to move its parent's. A child that does not call it may
  /// close or destroy the service, with or without uv_loop_fork: its parent's timers fire as before.
  void after_fork() noexcept;

  /// Makes the calling thread the loop thread. Needed where a loop changes threads before it has run there. Examples are to
  /// arm in a callback before the loop's first poll, and to destroy armed timers after joining the loop's thread. Requires:
  /// open, and no other thread is using the service.
  void use_on_this_thread() noexcept { thread_ = detail::this_thread(); }

  /// Stops the process with the line `violated` when called on a thread that does not run the loop, or when it is closed.
  void check_thread(const char* violated =
                        "wrong thread: a timer was armed or cancelled on a thread that does not run its loop "
                        "(timer_service::use_on_this_thread hands it over)") const noexcept {
    detail::require(thread_ == detail::this_thread(), violated);
  }

  /// Stops a debug build when called on a thread that does not run the loop; nothing in a release build.
  void check_thread_in_debug() const noexcept {
#ifndef NDEBUG
    if (is_open()) check_thread();
#endif
  }

  /// The length of a tick: what was asked for, rounded down to a power of two of nanoseconds. Requires: it was opened.
  std::chrono::nanoseconds tick_duration() const noexcept { return timeline_.length().duration(); }

  /// Calls `visit(timer&)` for every armed timer but those of other threads, in no order. `visit` may cancel timers, and
  /// must not arm or destroy any. O(slots + linked timers). None of a closed service.
  template <class F>
  void for_each_armed(F&& visit) const;

  /// Checks every invariant of the service and its wheel; false when one is broken, and `why` says which. True when closed.
  /// O(slots + linked timers).
  bool validate(std::string* why = nullptr) const;
  /// Writes the state of the service, how many timers are armed by handler and by when they are due, and the wheel's slots.
  /// Of a closed one a line. O(slots + linked timers); allocates, and throws what that and the stream throw. Reads the clock.
  void dump(std::ostream&, handler_names = nullptr) const;

 private:
  friend class timer;
  friend class detail::post_delivery;

  // The kinds of work that have turns in a pass.
  enum class turn_of : std::uint8_t { slots, posts, immediates };
  static constexpr unsigned turns = 3;
  static constexpr turn_of following(turn_of t) noexcept {
    return static_cast<turn_of>((static_cast<unsigned>(t) + 1) % turns);
  }

  // what timer uses
  int arm_after(timer&, std::chrono::nanoseconds after, std::chrono::nanoseconds slack) noexcept;
  int arm_immediate(timer&, clock::time_point since) noexcept;
  int arm_tick(timer&, tick deadline) noexcept;  // of one that has a reference
  int arm_slow_path(timer&, tick deadline) noexcept;
  int arm_at_slow_path(timer&, clock::time_point when) noexcept;
  void arm_again(timer&, tick deadline) noexcept;
  bool cancel(timer&) noexcept;  // of an armed one that has a reference
  bool cancel_slow_path(timer&) noexcept;
  void set_ref(timer&, bool on) noexcept;
  tick tick_of(clock::time_point when) const noexcept { return timeline_.ceil(when); }
  clock::time_point time_of(tick t) const noexcept { return timeline_.begin_of(t); }

  // driver::client
  void resumed(clock::time_point left, clock::time_point entered) noexcept override;
  void turn(clock::time_point now) noexcept override;
  bool woken(clock::time_point now) noexcept override;
  bool due(clock::time_point now) const noexcept override;
  void rung() noexcept override;
  void pass(clock::time_point stamp) noexcept override;

  int admit(timer&) noexcept;
  bool take_activity() noexcept;
  void begin_verdicts(clock::time_point stamp, clock::time_point now) noexcept;
  bool has_work(turn_of) const noexcept;
  bool find_next_turn() noexcept;
  void run_turn(std::size_t visits, clock::time_point stamp, const binding_watch&) noexcept;
  int make_parts(const service_options&, detail::mailbox*&) noexcept;
  int make_wheel(const service_options&) noexcept;
  void start(driver&, detail::mailbox&, const service_options&) noexcept;
  void count_stall(std::chrono::nanoseconds stall) noexcept;
  void skip_idle_time() noexcept;
  void schedule() noexcept;
  void wake_sooner() noexcept;
  void update_hold() noexcept;
  static void on_fire(void* service, wheel_entry&, tick deadline) noexcept;
  void begin_handler(expiry_report::handler_id, clock::time_point due, std::chrono::nanoseconds rounding) noexcept;
  void end_handler(clock::time_point now) noexcept;
  void refresh_stats() const noexcept;
  void dump_armed(std::ostream&, handler_names) const;

  // First what arm, cancel and touch use.

  detail::loop_clock clock_;
  detail::liveness alive_;

  driver* driver_ = nullptr;      // null: closed
  const void* thread_ = nullptr;  // null: closed

  tick wake_ = never;  // when the driver will wake us; 0 while a pass runs or is to go on: it asks at its end

  detail::timeline timeline_;

  bool armed_after_ = false;  // some timer was armed with a delay since the last turn

  alignas(8) std::optional<wheel> wheel_;  // so that timers can tag the address of the service in three bits

  // As of when timers are judged. `judging_`: what is due by then may not have run yet.
  detail::verdict_stamp verdict_;
  bool judging_ = false;
  turn_of next_turn_ = turn_of::slots;
  bool immediates_left_ = false;  // some were collected and have not run
  bool running_immediates_ = false;

  // Whether something was done with timers in a poll before the last turn, for drivers that cannot tell whether input is left.
  bool active_before_turn_ = false;
  bool driver_tells_unread_ = false;
  std::uint64_t arms_seen_ = 0;
  std::uint64_t ended_seen_ = 0;

  detail::post_delivery posts_;
  detail::handler_log log_;
  mutable expiry_report report_;

  clock::time_point judged_at_{};
  clock::time_point responsive_judged_at_{};

  service_options options_;
  mutable service_stats stats_;
};

}  // namespace tickwheel
