// The driver of a libuv loop: its poll timeout, by an always correctly armed uv_timer_t.
//
// The uv_timer_t wakes the loop. It is started the moment an earlier deadline is known, never left to the prepare
// phase: a loop with nothing else active would have ended by then.
//
// The uv_prepare_t runs once an iteration, before libuv waits. It corrects the timer by the true clock, since libuv's
// own time is floored and stale, and stamps the time by which this iteration judges.
//
// The uv_idle_t is active only while a pass is due or carried over: libuv then polls without waiting.
//
// The uv_check_t runs after the poll: what was readable has been handled, now the pass judges as of the stamp.
//
// The uv_async_t is the bell for other threads. Its callback does no more than ask for a pass, which is then stamped
// and waits for its poll like any other.
//
// Passing from uv_check_t alone makes old and new libuv alike: up to 1.44 its timers run before the poll, from 1.45 on
// after it, so advancing in the uv_timer_t's callback would evict, on one of them, peers whose bytes were waiting.
#pragma once

#include <tickwheel/uv/driver.hpp>

#include <uv.h>

#include <cstdint>

namespace tickwheel {

/// One heap block that outlives the service, since uv_close ends only when the loop turns; it frees itself then.
class loop_driver final : public driver {
 public:
  /// 0 and the driver in `made`, UV_EINVAL for a loop that was closed, UV_ENOMEM, or what uv_async_init answers. It frees
  /// itself when unbound.
  static int make(uv_loop_t& loop, driver*& made) noexcept;

  clock::time_point now() noexcept override { return clock::now(); }
  bool on_steady_clock() const noexcept override { return true; }
  // libuv's own time, which moves when a poll returns. Read in place, and not by uv_now, which does nothing else: this
  // is on the path of each touch and each arm_at, and the call is a third of their cost (arm_at + cancel: 6.1 ns, in
  // place 4.1).
  const std::uint64_t* epoch() const noexcept override { return &loop_.time; }
  clock::time_point polled() const noexcept override;
  void wake_at(clock::time_point when) noexcept override;
  void pass_again() noexcept override { begin_pass(); }
  void ring() noexcept override;
  void rest() noexcept override { wake_ = clock::time_point::max(); }
  void hold(bool alive) noexcept override;
  bool owns(const uv_handle_t* handle) const noexcept override;
  void after_fork() noexcept override;

 private:
  explicit loop_driver(uv_loop_t& loop) noexcept;
  int start() noexcept;
  ~loop_driver() = default;

  void on_unbind() noexcept override;

  void on_timer() noexcept;
  void on_prepare() noexcept;
  void on_check() noexcept;
  void on_ring() noexcept;

  void begin_pass() noexcept;
  void start_timer(clock::time_point now) noexcept;
  clock::time_point latest_at(std::uint64_t loop_ms) const noexcept;
  void close(uv_handle_t* handle) noexcept;
  void free_when_closed() noexcept;
  bool listed_by_loop() noexcept;
  uv_handle_t* handle(unsigned i) noexcept;
  static constexpr unsigned handles = 5;

  uv_loop_t& loop_;
  uv_timer_t timer_{};
  uv_prepare_t prepare_{};
  uv_check_t check_{};
  uv_idle_t idle_{};
  uv_async_t async_{};
  uv_idle_t sentinel_{};  // only ever closed, to come back a turn later; see free_when_closed

  clock::time_point wake_ = clock::time_point::max();  // when the client wants to be woken
  std::uint64_t timer_due_ms_ = 0;                     // what the uv_timer_t was started for, in libuv's time
  bool pass_due_ = false;
  bool stamped_ = false;  // this iteration's prepare took the pass's stamp
  clock::time_point pass_stamp_{};

  clock::time_point polled_{};  // when the last poll returned, or a little later; while one is on, when it began
  bool polling_ = false;        // between prepare and check
  const clock::time_point opened_;
  const std::uint64_t opened_ms_;
  unsigned closing_ = 0;         // close callbacks of ours to come
  bool closed_by_user_ = false;  // some handle was closed by a walk over the loop
};

}  // namespace tickwheel
