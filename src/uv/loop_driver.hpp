// The driver of a libuv loop. It decides in which phase of the loop each step happens, for each kind of wakeup.
//
// The wakeup, a uv_timer_t or a timerfd, wakes the loop. It is set as soon as an earlier deadline is known. It cannot wait for
// the prepare phase, because the user's prepare callbacks may run after ours, and arm timers.
//
// The uv_prepare_t runs once per iteration, before libuv polls. It corrects the wakeup by the true clock, because libuv's own
// time is rounded down and stale. It also takes the stamp as of which this iteration judges. It reads the clock for both. So the
// wakeup's callback reads none if a pass is needed by the time that was asked for, and the prepare tells whether that has come.
//
// The uv_idle_t is active only while a pass is due or carried over. libuv then polls without waiting.
//
// The uv_check_t runs after the poll, when the loop has handled all readable input. Then the pass judges as of the stamp.
//
// Other threads send the uv_async_t. Its callback only requests a pass. As any other pass, that one gets a stamp and waits for
// its poll.
//
// Passes run only in the uv_check_t, so that old and new libuv behave alike. Up to libuv 1.44 its timers run before the poll,
// from 1.45 on after the poll. On one of them, a pass in the uv_timer_t's callback would evict peers whose bytes are waiting. A
// timerfd becomes readable during a poll, before some of the peers' sockets and after others, so its order is chance.
#pragma once

#include <tickwheel/uv/driver.hpp>
#include <tickwheel/uv/service_options.hpp>

#include <uv.h>

#include <concepts>
#include <cstdint>

namespace tickwheel {

/// Makes a driver, which frees itself when it is unbound. Returns 0 and sets `made`, or returns an error of making its handles,
/// or:
/// UV_EINVAL: the loop was closed.
/// UV_ENOMEM: no memory.
/// UV_ENOTSUP: this system has no such wakeup.
[[nodiscard]] int make_loop_driver(uv_loop_t& loop, wake_by wakeup, driver*& made) noexcept;

/// The beginning of a millisecond on two clocks: libuv's and ours.
struct clock_pair {
  /// Returns the pair for the millisecond that is running. `time` is up to 0.1 ms too late.
  static clock_pair read() noexcept;

  std::uint64_t libuv_ms;
  clock::time_point time;
};

/// Wakes a loop at a given time: one libuv handle, and the resources that the handle needs. The handle calls back when the time
/// has come, or a little earlier.
// clang-format off
template <class W>
concept loop_wakeup = requires(W w, uv_loop_t& loop, typename W::callback call, clock::time_point t) {
  { w.acquire() } noexcept -> std::same_as<int>;           // acquires what it needs from the system; 0, or an error
  { w.link(loop, call) } noexcept -> std::same_as<int>;    // links the handle to the loop; not on an error
  { w.handle() } noexcept -> std::convertible_to<void*>;
  { w.set(t, t) } noexcept -> std::same_as<bool>;          // wakes at the first, or before; false: it has passed, nothing was set
  { w.correct(t, t) } noexcept -> std::same_as<bool>;      // same, right before a poll; the second is the true time, in both
  { w.came() } noexcept -> std::same_as<bool>;             // it called back; false: only repeats its last call
  { w.is_last() } noexcept -> std::same_as<bool>;          // it was set for the time itself; false: for one long before
  { w.has_expired() } noexcept -> std::same_as<bool>;      // after a poll: the time has come for which it was set last
  { w.take() } noexcept;                                     // it has expired, and need not call back
  { w.cancel() } noexcept;                                   // no wakeup is needed; one may still come
  { w.before_poll() } noexcept;                            // once an iteration, in prepare
  { w.after_fork() } noexcept;                             // the child no longer shares anything with its parent
  { w.before_close() } noexcept;                           // the handle is about to be closed, in any process
  { w.release() } noexcept;                                // frees what it acquired; the handle is closing, or not linked
};
// clang-format on

/// The driver with its handles, in one heap block. It outlives the service, because uv_close ends only in a later loop iteration.
/// Then it frees itself.
template <loop_wakeup Wakeup>
class loop_driver final : public driver {
 public:
  /// As `make_loop_driver`.
  [[nodiscard]] static int make(uv_loop_t& loop, driver*& made) noexcept;

  clock::time_point now() noexcept override { return clock::now(); }
  bool on_steady_clock() const noexcept override { return true; }
  // libuv's own time, which changes when a poll returns. It is read directly and not by uv_now, which does nothing else: each
  // touch and each arm_at reads it, and the call is a third of their cost (arm_at + cancel: 6.1 ns, direct 4.1).
  const std::uint64_t* epoch() const noexcept override { return &loop_.time; }
  clock::time_point poll_ended_at() const noexcept override;
  std::chrono::nanoseconds poll_ended_error() const noexcept override { return std::chrono::milliseconds{1}; }
  unread left_unread() noexcept override;
  bool turns_early() const noexcept override { return turns_early_; }
  void wake_at(clock::time_point when) noexcept override { wake_at_as_of(clock::now(), when); }
  void wake_at_as_of(clock::time_point now, clock::time_point when) noexcept override;
  void pass_soon() noexcept override { begin_pass(); }
  void continue_pass() noexcept override { begin_pass(); }
  void request_pass() noexcept override;
  void cancel_wakeup() noexcept override;
  void hold_loop(bool alive) noexcept override;
  bool owns(const uv_handle_t* handle) const noexcept override;
  uv_loop_t* loop() const noexcept override { return &loop_; }
  void after_fork() noexcept override;

 private:
  explicit loop_driver(uv_loop_t& loop) noexcept;
  [[nodiscard]] int link() noexcept;
  ~loop_driver() = default;

  void on_unbind() noexcept override;

  template <class Handle>
  static loop_driver& of(Handle* handle) noexcept {
    return *static_cast<loop_driver*>(handle->data);
  }

  void on_wakeup_handle() noexcept;
  void on_prepare() noexcept;
  void resume(clock::time_point now) noexcept;
  void on_check() noexcept;
  void judge_at_once() noexcept;
  bool libuv_owes_no_callback() const noexcept;
  void on_async() noexcept;

  void begin_pass() noexcept;
  void let_poll_wait(bool wait) noexcept;
  clock::time_point latest_at(std::uint64_t loop_ms) const noexcept;
  void close(uv_handle_t* handle) noexcept;
  void free_when_closed() noexcept;
  bool listed_by_loop() noexcept;
  uv_handle_t* handle(unsigned i) noexcept;
  static bool any_prepare_is_active(uv_loop_t& loop) noexcept;
  static constexpr unsigned handles = 5;

  uv_loop_t& loop_;
  Wakeup wakeup_;
  uv_prepare_t prepare_{};
  uv_check_t check_{};
  uv_idle_t idle_{};
  uv_async_t async_{};
  uv_idle_t sentinel_{};  // never started, only closed; see free_when_closed

  clock::time_point wake_ = clock::time_point::max();  // when the client wants to be woken
  bool woken_ = false;  // the wakeup has called back, and the next prepare tells the client
  bool pass_due_ = false;
  bool stamped_ = false;  // this iteration's prepare took the pass's stamp
  clock::time_point pass_stamp_{};
  bool turns_early_ = false;  // the user started a prepare handle before ours, so libuv runs it after ours
  bool away_ = true;          // the loop has not run since `left_`, as far as libuv tells
  clock::time_point left_;    // when it was opened, or the last iteration left the loop without work
  bool only_closes_ = false;  // only close callbacks were left; they may take long, and may keep the loop running
  clock::time_point held_again_ = clock::time_point::max();  // when the client first asked to hold the loop after that

  const clock_pair opened_;
  // when the last poll returned or should have returned, or a little later; during a poll: when it began
  clock::time_point polled_;
  bool polling_ = false;                                     // between prepare and check
  clock::time_point wait_until_ = clock::time_point::max();  // until when that poll may wait
  unsigned closing_ = 0;                                     // our close callbacks that have not run yet
  bool closed_by_user_ = false;                              // the user closed a handle in a walk over the loop
};

}  // namespace tickwheel
