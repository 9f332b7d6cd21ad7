// Options of a timer_service. The defaults suit a TCP server.
//
//   int error = timers.open(loop, {.tick = 1ms, .max_armed = 200'000});
#pragma once

#include <tickwheel/core/wheel.hpp>

#include <chrono>
#include <cstddef>

namespace tickwheel {

/// The libuv handle that wakes a loop for its timers.
enum class wake_by {
  /// A uv_timer_t: on every system, and without a descriptor. It is exact to a millisecond, libuv's unit of time.
  uv_timer,
  /// A timerfd that the loop polls: exact to a nanosecond, on Linux only; elsewhere `open` answers UV_ENOTSUP. Takes one
  /// descriptor per service, and a system call each time that the wakeup moves to an earlier time or has expired. A program that
  /// waits for the loop's own descriptor is woken by it. It is not included in `uv_backend_timeout`.
  timerfd,
};

/// Options of `timer_service::open`, which answers UV_EINVAL for invalid ones; `problem` names the first. An aggregate.
struct service_options {
  /// Length of a tick; rounded down to a power of two of nanoseconds (`timer_service::tick_duration()` returns the result). Must
  /// be positive. A tick shorter than libuv's millisecond costs nothing, and halves the mean lateness.
  std::chrono::nanoseconds tick{1 << 17};

  /// Shape of the wheel: `wheel_geometry::hashed(slots)` or `wheel_geometry::hierarchical(levels, slots)`. One round of a hashed
  /// wheel should be as long as the common delays, because each visit of a slot also visits its timers of later rounds.
  wheel_geometry geometry{};

  /// Work of one pass before waiting I/O has its turn. Each callback, each move between slots and each delivery of a posted call
  /// counts one. Must be positive.
  std::size_t work_per_pass = 1024;

  /// Largest number of armed timers; arming one more answers UV_ENOBUFS. Timers of other threads count, but are not refused once
  /// their post was accepted, so up to twice as many may be armed.
  std::size_t max_armed = unlimited;

  /// Largest number of posted operations that the loop has not delivered; posting one more answers UV_EAGAIN. Each takes a block
  /// of 128 bytes. A pass brings all of them into order, whatever its bounds: some 15 ns each, 1 ms for the default. If
  /// `max_armed` is limited, it also bounds the posted operations that have not ended, the armed ones included.
  std::size_t max_queued = 1 << 16;

  /// Time that one loop iteration may take. The rest is a stall of ours, which no peer is charged with. Must not be negative, and
  /// should not be near zero: of each slow iteration only `stall_grace` counts as silence. So a loop that is always slow evicts a
  /// silent peer after limit / stall_grace + 3 iterations.
  ///
  /// *Blocks that are not seen.* Open the service before you start prepare handles of your own: libuv runs later ones first. The time
  /// that an earlier one blocks is not seen, although it may read `now()`. If more than 1024 events are ready in one poll, only the
  /// blocks of the last 1024 are seen.
  ///
  /// *Time outside uv_run.* Before the first uv_run, and after one that left nothing alive, it is no stall. Between two calls of
  /// uv_run(UV_RUN_ONCE) or uv_run(UV_RUN_NOWAIT) on a loop that is alive libuv gives no sign, so it counts as the loop's own. A program
  /// that waits for the loop's descriptor itself and calls uv_run(UV_RUN_NOWAIT) should use nanoseconds::max(), which counts idle time
  /// on the plain clock. Its waiting also counts as a block: see `io_wait`.
  std::chrono::nanoseconds stall_grace = std::chrono::milliseconds{10};

  /// A handler that takes this long or longer is slow. It is counted, reported to `timer_service::on_slow_handler`, and named as
  /// the cause if it made others late. Must be positive.
  std::chrono::nanoseconds slow_handler = std::chrono::milliseconds{1};

  /// Counts all calls of each handler in `service_stats::handlers`, not only slow ones. Each call then costs a look-up in a table.
  bool count_handlers = false;

  /// Time that a pass may run before waiting I/O has its turn, whatever `work_per_pass` allows. Handlers that all take equally long
  /// exceed it by less than one of them. If one takes longer than those before it, the pass notices that when the next handler
  /// begins, and that handler still runs. The clock is read after at most 32 handlers. Must be positive.
  std::chrono::nanoseconds time_per_pass = std::chrono::milliseconds{1};

  /// The handle that wakes the loop. A timerfd is for delays of a few milliseconds and less, with a tick of about 2^16 ns. On an
  /// idle loop a timer is then late by less than 0.1 ms in the median; with a uv_timer_t by 0.7 ms. Ignored if the service is
  /// opened on a driver.
  wake_by wakeup = wake_by::uv_timer;

  /// Longest time that verdicts wait for input after a block, in multiples of the longest block since the last verdict; at most
  /// one second. 0: verdicts wait for one poll, whatever input it leaves.
  ///
  /// A block is more than 2 ms between two polls. In one poll libuv reads at most 32 times from a socket. So after a block the
  /// service lets the loop poll until two polls in a row leave nothing readable. All timers wait, also intervals and retries;
  /// only zero delays do not.
  unsigned io_wait = 2;

  /// Returns a message that names the first invalid field and its rule, or null if all fields are valid. The message is a constant
  /// string, so it does not contain the value.
  constexpr const char* problem() const noexcept {
    if (tick.count() <= 0) return "service_options::tick is not positive";
    if (!geometry.valid())
      return "service_options::geometry is invalid: levels must be at least 1, slots a power of two (at least 4 with "
             "several "
             "levels), neither too large";
    if (work_per_pass == 0) return "service_options::work_per_pass is zero";
    if (stall_grace.count() < 0) return "service_options::stall_grace is negative";
    if (slow_handler.count() <= 0) return "service_options::slow_handler is not positive";
    if (time_per_pass.count() <= 0) return "service_options::time_per_pass is not positive";
    if (wakeup != wake_by::uv_timer && wakeup != wake_by::timerfd) return "service_options::wakeup is none of wake_by";
    return nullptr;
  }
};

}  // namespace tickwheel
