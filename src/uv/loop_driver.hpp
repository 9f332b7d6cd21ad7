// The driver of a libuv loop: in which of its phases something happens, whatever it is that wakes it.
//
// The wakeup, a uv_timer_t or a timerfd, wakes the loop. It is set the moment an earlier deadline is known, never left to
// the prepare phase: the user's prepare callbacks may run after ours, and arm.
//
// The uv_prepare_t runs once an iteration, before libuv waits. It corrects the wakeup by the true clock, since libuv's
// own time is floored and stale, and stamps the time by which this iteration judges.
//
// The uv_idle_t is active only while a pass is due or carried over: libuv then polls without waiting.
//
// The uv_check_t runs after the poll: what was readable has been handled, now the pass judges as of the stamp.
//
// Other threads send the uv_async_t. Its callback only asks for a pass, which is then stamped and waits for its poll like any
// other.
//
// Passing from uv_check_t alone makes old and new libuv alike: up to 1.44 its timers run before the poll, from 1.45 on
// after it, so advancing in the uv_timer_t's callback would evict, on one of them, peers whose bytes were waiting. With a
// timerfd it is chance: it comes in a poll, among the peers' sockets, before some and after others.
#pragma once

#include <tickwheel/uv/driver.hpp>
#include <tickwheel/uv/service_options.hpp>

#include <uv.h>

#include <concepts>
#include <cstdint>

namespace tickwheel {

/// 0 and a driver in `made`, which frees itself when unbound; UV_EINVAL for a loop that was closed, UV_ENOMEM, UV_ENOTSUP
/// where there is no such wakeup, or what making its handles answered.
int make_loop_driver(uv_loop_t& loop, wake_by wakeup, driver*& made) noexcept;

/// The beginning of a millisecond by two clocks: libuv's, and ours.
struct clock_pair {
  /// Of the millisecond that runs now; `time` is up to 0.1 ms too late.
  static clock_pair read() noexcept;

  std::uint64_t libuv_ms;
  clock::time_point time;
};

/// What wakes a loop at a time: one libuv handle, which calls back when the time has come or a little early, and what that
/// handle needs.
// clang-format off
template <class W>
concept loop_wakeup = requires(W w, uv_loop_t& loop, typename W::callback call, clock::time_point t) {
  { w.acquire() } noexcept -> std::same_as<int>;           // what it needs of the system: 0, or why it cannot be had
  { w.link(loop, call) } noexcept -> std::same_as<int>;    // the handle to the loop; on an error it is not linked
  { w.handle() } noexcept -> std::convertible_to<void*>;
  { w.set(t) } noexcept -> std::same_as<bool>;             // wakes at `t`, or before; false: it has come, and nothing was set
  { w.correct(t, t) } noexcept -> std::same_as<bool>;      // the same, right before a poll; the second is the true time
  { w.came() } noexcept -> std::same_as<bool>;             // it called back; false: for no more than it did before
  { w.cancel() } noexcept;                                   // nothing to wake for; one wakeup may be left over
  { w.before_poll() } noexcept;                            // once an iteration, in prepare
  { w.after_fork() } noexcept;                             // the child no longer shares anything with its parent
  { w.before_close() } noexcept;                           // the handle is about to be closed, in whatever process
  { w.release() } noexcept;                                // what it acquired; the handle is closing, or not linked
};
// clang-format on

/// One heap block that outlives the service, since uv_close ends only when the loop turns; it frees itself then.
template <loop_wakeup Wakeup>
class loop_driver final : public driver {
 public:
  /// As `make_loop_driver`.
  static int make(uv_loop_t& loop, driver*& made) noexcept;

  clock::time_point now() noexcept override { return clock::now(); }
  bool on_steady_clock() const noexcept override { return true; }
  // libuv's own time, which moves when a poll returns. Read in place, and not by uv_now, which does nothing else: this
  // is on the path of each touch and each arm_at, and the call is a third of their cost (arm_at + cancel: 6.1 ns, in
  // place 4.1).
  const std::uint64_t* epoch() const noexcept override { return &loop_.time; }
  clock::time_point poll_ended_at() const noexcept override;
  std::chrono::nanoseconds poll_ended_error() const noexcept override { return std::chrono::milliseconds{1}; }
  unread left_unread() noexcept override;
  bool turns_early() const noexcept override { return turns_early_; }
  void wake_at(clock::time_point when) noexcept override;
  void pass_soon() noexcept override { begin_pass(); }
  void continue_pass() noexcept override { begin_pass(); }
  void request_pass() noexcept override;
  void cancel_wakeup() noexcept override;
  void hold_loop(bool alive) noexcept override;
  bool owns(const uv_handle_t* handle) const noexcept override;
  void after_fork() noexcept override;

 private:
  explicit loop_driver(uv_loop_t& loop) noexcept;
  int link() noexcept;
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
  void on_async() noexcept;

  void begin_pass() noexcept;
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
  uv_idle_t sentinel_{};  // only ever closed, to come back a turn later; see free_when_closed

  clock::time_point wake_ = clock::time_point::max();  // when the client wants to be woken
  bool pass_due_ = false;
  bool stamped_ = false;  // this iteration's prepare took the pass's stamp
  clock::time_point pass_stamp_{};
  bool turns_early_ = false;  // the user started a prepare handle before ours, which libuv therefore runs after ours
  bool away_ = true;          // since `left_` nobody has run the loop, as far as libuv tells
  clock::time_point left_;    // when it was opened, or an iteration ended that left the loop with nothing to do
  bool only_closes_ = false;  // close callbacks were left, which may take long and may keep the loop running
  clock::time_point held_again_ = clock::time_point::max();  // when the client asked to be held after that

  const clock_pair opened_;
  // when the last poll returned or was to, or a little later; while one is on, when it began
  clock::time_point polled_;
  bool polling_ = false;                                     // between prepare and check
  clock::time_point wait_until_ = clock::time_point::max();  // until when that poll may wait
  unsigned closing_ = 0;                                     // close callbacks of ours to come
  bool closed_by_user_ = false;                              // some handle was closed by a walk over the loop
};

}  // namespace tickwheel
