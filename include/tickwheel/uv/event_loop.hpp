// An event_loop is a uv_loop_t with its timers. It opens both, runs them, and closes them in the right order.
//
//   tickwheel::event_loop loop;
//   if (int error = loop.open()) return error;
//   tickwheel::callback_timer hello{loop.timers(), []() noexcept { std::puts("hello"); }};
//   if (int error = hello.arm(250ms)) return error;
//   loop.run();                          // returns once nothing is armed
//
// Use it where your program owns its loop. Open a `timer_service` of your own on a loop that belongs to somebody else.
#pragma once

#include <tickwheel/core/detail/check.hpp>
#include <tickwheel/uv/service_options.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <uv.h>

#include <array>
#include <cstddef>
#include <string>

namespace tickwheel {

/// One uv_loop_t and the `timer_service` on it.
///
/// *Thread safety:* one thread at a time. The loop may be opened on one thread and run on another.
///
/// *Complexity:* that of libuv's functions and of `timer_service`.
///
/// *Errors:* `open` answers a UV_ code. Nothing throws.
///
/// *Lifetime:* outlives the handles on the loop, and the timers in the sense of `timer_service`. Neither copies nor moves. A callback
/// must not call `exit` while a static event_loop runs: `exit` would destroy it, as `close` says. It calls `stop`, `std::_Exit` or
/// `std::quick_exit` instead.
class event_loop {
 public:
  event_loop() noexcept = default;
  /// Closes, with the same requirements as `close`.
  ~event_loop() { close(); }
  event_loop(const event_loop&) = delete;
  event_loop& operator=(const event_loop&) = delete;

  /// Opens the loop, and the timers on it with `options`. A closed loop can be opened again.
  ///
  /// Returns 0; UV_EALREADY if it is open; otherwise an error of uv_loop_init or, such as UV_EINVAL and UV_ENOMEM, of
  /// `timer_service::open`. On an error the loop is closed.
  [[nodiscard]] int open(const service_options& options = {}) noexcept {
    if (open_) return UV_EALREADY;
    if (const int error = uv_loop_init(&loop_)) return error;
    open_ = true;
    const int error = timers_.open(loop_, options);
    if (error != 0) close();
    return error;
  }

  /// Runs the loop, as uv_run does: by default until no handle is active and no timer is armed. Returns true if something is
  /// still active. Requires: open, and not called by a callback of this loop (checked).
  bool run(uv_run_mode mode = UV_RUN_DEFAULT) noexcept {
    detail::require(open_, "event_loop: run was called before open or after close");
    detail::require(!running_, "event_loop: run was called by a callback of the loop");
    running_ = true;
    const bool alive = uv_run(&loop_, mode) != 0;
    running_ = false;
    return alive;
  }

  /// Lets `run` return at the end of this loop iteration, as uv_stop does. Requires: open.
  void stop() noexcept { uv_stop(&loop_); }

  /// Closes the timers, as `timer_service::close` does, and then the loop. Idempotent.
  ///
  /// Runs the loop until the close callbacks of all handles have run and all requests have ended. Callbacks of your handles
  /// may therefore run. Statistics of the timers stay readable.
  ///
  /// Requires: uv_close was called for each handle of yours, or is called by a close callback. A handle that is still open
  /// stops the process with a line that names its type: only its owner knows when its memory may go. Also requires: not
  /// called by a callback of this loop (checked).
  void close() noexcept;

  /// Returns true between `open` and `close`.
  bool is_open() const noexcept { return open_; }

  /// Returns the loop, for libuv's functions. The checks of `run` and `close` do not notice callbacks of a uv_run of your own.
  /// Requires: open.
  uv_loop_t& uv() noexcept { return loop_; }

  /// Returns the timers on the loop. They may be closed earlier than the loop.
  timer_service& timers() noexcept { return timers_; }
  /// Returns the timers of a const loop, for instance for their statistics.
  const timer_service& timers() const noexcept { return timers_; }

 private:
  struct handle_counts {
    std::array<unsigned, UV_HANDLE_TYPE_MAX> open{};  // by type
    unsigned closing = 0;
    bool any_open = false;
  };
  handle_counts count_handles() noexcept;
  [[noreturn]] static void fail_with(const handle_counts& left) noexcept;

  uv_loop_t loop_{};
  timer_service timers_;  // after the loop, which outlives it
  bool open_ = false;
  bool running_ = false;
};

inline void event_loop::close() noexcept {
  if (!open_) return;
  detail::require(!running_, "event_loop: closed by a callback of the loop, or by exit in one (call stop instead)");
  running_ = true;  // the destructors of posted callables and close callbacks run in here
  timers_.close();
  detail::require(!timers_.is_open(), "event_loop: its timers were opened again while it closes");
  while (uv_loop_close(&loop_) != 0) {
    const handle_counts left = count_handles();
    // A close callback may close further handles. Without one, an open handle stays open, and to run the loop may take for ever.
    if (left.closing == 0 && left.any_open) fail_with(left);
    uv_run(&loop_, UV_RUN_ONCE);
  }
  running_ = false;
  open_ = false;
}

inline event_loop::handle_counts event_loop::count_handles() noexcept {
  handle_counts counts;
  const auto count = [](uv_handle_t* handle, void* to) {
    auto& all = *static_cast<handle_counts*>(to);
    if (uv_is_closing(handle) != 0) {
      ++all.closing;
    } else {
      ++all.open[static_cast<std::size_t>(uv_handle_get_type(handle))];
      all.any_open = true;
    }
  };
  uv_walk(&loop_, count, &counts);
  return counts;
}

inline void event_loop::fail_with(const handle_counts& left) noexcept {
  std::string line = "event_loop: closed while handles are open:";
  for (std::size_t type = 0; type < left.open.size(); ++type)
    if (left.open[type] != 0)
      line += ' ' + std::to_string(left.open[type]) + ' ' + uv_handle_type_name(static_cast<uv_handle_type>(type));
  line += "; call uv_close for each first";
  detail::fail(line.c_str());
}

}  // namespace tickwheel
