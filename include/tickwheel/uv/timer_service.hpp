// A timer_service is one loop's timers: a wheel, driven by the loop's own poll timeout.
//
// Open one on each uv_loop_t, pass it to everything that waits, and close it before the loop:
//
//   tickwheel::timer_service timers;
//   if (int error = timers.open(loop)) return error;
//   tickwheel::callback_timer hello{timers, []() noexcept { std::puts("hello"); }};
//   if (int error = hello.arm(250ms)) return error;
//   uv_run(&loop, UV_RUN_DEFAULT);       // returns once nothing is armed
//   timers.close();
//   uv_run(&loop, UV_RUN_DEFAULT);       // libuv's own close callbacks
//   uv_loop_close(&loop);
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/core/detail/check.hpp>
#include <tickwheel/core/wheel_entry.hpp>
#include <tickwheel/uv/detail/armed_timers.hpp>
#include <tickwheel/uv/detail/detached_calls.hpp>
#include <tickwheel/uv/detail/dispatcher.hpp>
#include <tickwheel/uv/detail/handler_log.hpp>
#include <tickwheel/uv/detail/post_delivery.hpp>
#include <tickwheel/uv/driver.hpp>
#include <tickwheel/uv/expiry_report.hpp>
#include <tickwheel/uv/service_options.hpp>
#include <tickwheel/uv/service_stats.hpp>
#include <tickwheel/uv/slow_handler.hpp>

#include <uv.h>

#include <chrono>
#include <iosfwd>
#include <string>

namespace tickwheel {

class timer;
class remote_handle;  // uv/remote.hpp
class remote_hold;

namespace detail {
class forwarding_timer;
}

/// The timers of one loop.
///
/// *Thread safety:* the loop thread only. That is the thread that opened the service and, from its first poll on, the one that
/// runs the loop. Arming or cancelling a timer on another thread stops the process with a line that says so. Other threads post
/// through a `remote_handle`.
///
/// *Complexity:* arming, cancelling and touching are O(1), allocate nothing and make no system call. A timer that is due before
/// all others also moves the loop's wakeup: the clock is read for that, and `wake_by::timerfd` makes a system call. A pass reads
/// the clock twice, and once more for each 32 handlers. For each handler it reads the processor's cycle counter, or the clock where
/// there is none. An idle service reads the clock once in a loop iteration. A service has 31 KB, and some 200 KB on the heap
/// with the default geometry.
///
/// *Errors:* `open` answers a UV_ code. Nothing throws except `validate`, if there is no memory, and `dump`.
///
/// *Lifetime:* it may be closed and destroyed at any time, also by a handler of its own. Timers may outlive it. They may then
/// only be asked `armed()`, cancelled and destroyed. Its libuv handles live on until the loop has run one more iteration, or two
/// if the user closed them first. Until then uv_loop_close answers UV_EBUSY. The loop outlives the service.
///
/// *Order:* handlers run after the poll, as of a stamp that was taken before it. Calls that were posted before the stamp are
/// delivered first. After a block the stamp waits for further polls (`service_options::io_wait`). Zero delays do not wait for
/// that, and run in the order of arming. A handler must not call uv_run, as libuv says of all callbacks. With UV_RUN_ONCE, one call may return for the wakeup and the next one runs the handler.
/// A uv_timer_t runs in the first.
///
/// *uv_walk:* a walk that closes the service's own handles silences the service. It then keeps no loop alive, and calls no
/// handler after the running pass. Every call answers as before. Armed timers and posted calls wait until `close` cancels them,
/// and the service can then be opened again. No other thread may post during such a walk.
///
/// *Fork:* in the child, call `after_fork`. Armed timers then fire at their deadlines in both processes, and so do posted calls.
/// No other thread may post, cancel or release a hold while the process forks: its half-done work would stay so in the child. A
/// hold of another thread is never released in the child, because that thread is not there. With `wake_by::timerfd` the child
/// gets a timer of its own. It is stopped if the system has none, because it would move its parent's. A child that does not call
/// `after_fork` may close or destroy the service: its parent's timers fire as before. In the child the loop's iteration
/// begins with `after_fork`: a stall or a block before that does not count there.
class TICKWHEEL_API timer_service final {
 public:
  timer_service() noexcept = default;
  /// Closes the service. Stops the process if the destructor of a posted callable opens it again meanwhile.
  ~timer_service();
  timer_service(const timer_service&) = delete;
  timer_service& operator=(const timer_service&) = delete;

  /// Opens the service on `loop`; a closed service can be opened again. The calling thread is the loop's, until another runs the
  /// loop. Allocates the wheel's slots and two small blocks, and nothing later. Reads the clock; O(slots).
  ///
  /// 0: it is open. On an error nothing has changed.
  /// UV_EINVAL: an invalid option (`service_options::problem` names it), or the loop was closed.
  /// UV_EALREADY: it is already open. UV_ENOMEM: there is no memory.
  /// UV_EMFILE, UV_ENFILE: there is no descriptor for the loop's first async handle or for the timerfd.
  /// UV_ENOTSUP: the system has no timerfd. UV_ENOSPC: the user has no room for one in epoll. The loop's next iteration then closes
  /// a handle that is left.
  [[nodiscard]] int open(uv_loop_t& loop, const service_options& options = {}) noexcept;

  /// As above, on a driver of your own, such as a `manual_driver`. Requires: `on` outlives the open service.
  /// UV_EBUSY: another service is open on it. UV_EINVAL: also if its clock is before the clock's epoch.
  [[nodiscard]] int open(driver& on, const service_options& options = {}) noexcept;

  /// Detaches every timer: no handler runs, and arming one answers UV_ECANCELED. Posted calls that have not run are counted in
  /// `service_stats::remote_cancelled`, and later ones are refused; other threads may post meanwhile. Idempotent; O(linked timers
  /// + posted calls). libuv still calls code of the library in the loop's next iteration: a plug-in runs the loop once more before
  /// it is unloaded. Requires: the loop thread, or that the loop is not running.
  void close() noexcept;

  /// Returns true between `open` and `close`.
  bool is_open() const noexcept { return timers().is_open(); }

  /// Returns the time of this loop iteration. The clock is read on first use, and again after libuv's time has changed or the loop
  /// has polled. Never ahead of the true time. Stands still while the service is closed. Reads the clock at each call in a prepare
  /// callback that was started before the service was opened.
  clock::time_point now() const noexcept { return timers().time().now(); }

  /// Reads the clock, and returns the true time. Requires: open (checked).
  clock::time_point read_clock() const noexcept {
    detail::require(is_open(), "timer_service: read_clock was called before open or after close");
    return timers().source().now();
  }

  /// Reads the clock, and keeps that as `now()` for the rest of this loop iteration, as uv_update_time does. Requires: open
  /// (checked).
  clock::time_point update_now() noexcept {
    detail::require(is_open(), "timer_service: update_now was called before open or after close");
    return timers().time().read();
  }

  /// Returns `now()` on the loop's *responsive* time, which leaves out the time that iterations took beyond `stall_grace`. Idle
  /// time is counted on it, so that a peer is not charged with our own stalls. Reads the clock when `now()` would.
  clock::time_point responsive_now() const noexcept { return timers().time().responsive_now(); }

  /// Returns `now`, a time of this loop iteration, on responsive time. Reads no clock. Requires: open (checked).
  clock::time_point responsive(clock::time_point now) const noexcept {
    detail::require(is_open(), "timer_service: responsive was called before open or after close");
    return timers().time().responsive(now);
  }

  /// Returns true if the clock was read in this loop iteration: `now` and `responsive_now` then need not read it.
  bool has_now() const noexcept { return timers().time().has_now(); }

  /// In a timer's handler: the time as of which it was judged, taken before waiting I/O was handled. In the handler of a zero delay
  /// or of a posted call: the time before the last poll. Elsewhere: that of the last handler.
  clock::time_point judged_at() const noexcept { return dispatcher_.judged_at(); }

  /// Returns `judged_at()` on responsive time. Stalls since that moment are not left out.
  clock::time_point responsive_judged_at() const noexcept { return dispatcher_.responsive_judged_at(); }

  /// Returns how far responsive time is behind: the sum of all stalls before the running iteration, and of the time in which nobody
  /// ran the loop.
  std::chrono::nanoseconds stalled_for() const noexcept { return timers().time().stalled_for(); }

  /// Returns the time at which the service was opened last. Plain and responsive time were equal then.
  clock::time_point opened_at() const noexcept { return timers().time().opened_at(); }

  /// Returns counters and histograms, as of this call; valid until the next. Copies 12 KB: for once per second rather than once per
  /// request. Stays readable after `close()`, until the service is opened again or destroyed.
  const service_stats& stats() const noexcept;

  /// In a handler: when it was due, how late it runs, and why. Elsewhere: the same of the last handler. Valid until the next call.
  /// Reads the clock at most once per handler.
  const expiry_report& why() const noexcept;

  /// Calls `hook(context, slow)` for each handler that takes `service_options::slow_handler` or longer, in the same pass; null: no
  /// hook. The hook stays when the service is closed and opened again. It is not told of a handler that closed or destroyed its
  /// service, nor of slow ones among the 31 before that.
  void on_slow_handler(slow_handler_hook hook, void* context = nullptr) noexcept {
    dispatcher_.log().on_slow(hook, context);
  }

  /// Runs `call` once `delay`, a duration, has passed since this call, as `timer::arm` does. The service owns the callable. Nobody
  /// can cancel it: take a `callback_timer` for anything that belongs to an object. The loop's thread destroys the callable after
  /// the call, or in `close` without the call. Its destructor may do what a handler may. At most one allocation. Include
  /// `uv/after.hpp`, which defines this function.
  ///
  /// 0: it will run, unless the service closes first. On an error `call` is the caller's, unchanged.
  /// UV_ENOMEM: there is no memory. UV_ENOBUFS: `max_armed` timers are armed.
  /// UV_ECANCELED: the service is closed. If `open` was never called, a debug build stops instead.
  template <class D, class F>
  [[nodiscard]] int after(D delay, F&& call) noexcept;

  /// Returns a handle with which any thread posts to this service until it closes. Empty if the service was never opened. A service
  /// that is opened again needs new handles. *Any thread*, while no other opens or destroys the service.
  remote_handle remote() const noexcept;

  /// Keeps the loop alive until the hold and all its copies are released: take one while another thread still intends to post.
  /// Empty if the service is closed. The loop thread, checked.
  remote_hold hold() noexcept;

  /// Returns true for a libuv handle of this service, for a uv_walk that closes all others. False once the service is closed: its
  /// handles are closing then, so test uv_is_closing first. False for the handle of a `tcp_socket` or `tcp_listener`. Their own `close`
  /// closes it, so the walk must leave it out: compare with `handle()`.
  bool owns(const uv_handle_t* handle) const noexcept { return is_open() && timers().source().owns(handle); }

  /// Returns the loop that it was opened on. Null: it is closed, or on a driver without a libuv loop, such as a `manual_driver`.
  uv_loop_t* loop() const noexcept { return is_open() ? timers().source().loop() : nullptr; }

  /// Lets armed timers keep the loop alive, as libuv's do. Idempotent. Stays when the service is closed and opened again.
  void ref() noexcept;
  /// Lets armed timers no longer keep the loop alive.
  void unref() noexcept;
  /// Returns true if armed timers keep the loop alive; true at first.
  bool has_ref() const noexcept { return timers().alive().has_ref(); }

  /// Call it in the child of a fork, after uv_loop_fork(). The forking thread becomes the loop thread. See *Fork* above. Does
  /// nothing if the service is closed. Requires: not in a handler.
  void after_fork() noexcept;

  /// Makes the calling thread the loop thread. For a loop that changes threads before it has run there: to arm before its first
  /// poll, or to destroy armed timers after its thread was joined. Does nothing if the service is closed. Requires: no other thread
  /// uses the service.
  void use_on_this_thread() noexcept { timers().use_on_this_thread(); }

  /// Stops the process with the line `violated` if another thread runs the loop, or if the service is closed.
  void check_thread(const char* violated = detail::armed_timers::wrong_thread) const noexcept {
    timers().check_thread(violated);
  }

  /// As `check_thread` in a debug build of an open service; nothing in a release build.
  void check_thread_in_debug() const noexcept { timers().check_thread_in_debug(); }

  /// Returns the length of a tick: `service_options::tick`, rounded down to a power of two of nanoseconds. Requires: it was opened.
  std::chrono::nanoseconds tick_duration() const noexcept { return timers().ticks().length().duration(); }

  /// Calls `visit(timer&)` for every armed timer except those of other threads, in no order. `visit` may cancel timers, and must
  /// not arm or destroy any. A call of `after` that it cancels is freed when the service closes. O(slots + linked timers).
  template <class F>
  void for_each_armed(F&& visit) const;

  /// Checks every invariant of the service and its wheel. Returns false if one is broken, and `why` says which. True when closed.
  /// O(slots + linked timers).
  bool validate(std::string* why = nullptr) const;
  /// Writes the state of the service, the number of armed timers by handler and deadline, and the wheel's slots. O(slots + linked
  /// timers). Allocates, reads the clock, and throws what the stream throws.
  void dump(std::ostream&, handler_names = nullptr) const;

 private:
  friend class timer;
  friend class detail::post_delivery;
  friend class detail::forwarding_timer;

  [[nodiscard]] int make_parts(const service_options&, detail::post_queue*&) noexcept;
  void start(driver&, detail::post_queue&, const service_options&) noexcept;
  void refresh_stats() const noexcept;
  void dump_armed(std::ostream&, handler_names) const;
  static timer* own_timer(wheel_entry&) noexcept;  // null: another thread's

  detail::armed_timers& timers() noexcept { return dispatcher_.timers(); }
  const detail::armed_timers& timers() const noexcept { return dispatcher_.timers(); }

  detail::dispatcher dispatcher_{*this};
  detail::detached_calls detached_;
  mutable expiry_report report_;
  mutable service_stats stats_;
};

template <class F>
void timer_service::for_each_armed(F&& visit) const {
  if (!timers().has_wheel()) return;
  timers().entries().for_each_armed([&](wheel_entry& entry) {
    if (timer* const own = own_timer(entry)) visit(*own);
  });
}

}  // namespace tickwheel
