// What a timer_service is opened with. The defaults suit a TCP server.
//
//   timers.open(loop, {.tick = 1ms, .max_armed = 200'000});
#pragma once

#include <tickwheel/core/wheel.hpp>

#include <chrono>
#include <cstddef>

namespace tickwheel {

/// What wakes a loop for its timers.
enum class wake_by {
  /// A uv_timer_t: everywhere, and without a descriptor. To the millisecond, which is libuv's unit of time.
  uv_timer,
  /// A timerfd that the loop polls: to the nanosecond, on Linux alone; elsewhere `open` answers UV_ENOTSUP. Takes a
  /// descriptor for each service, and a system call each time that the wakeup moves: to an earlier time, or on when it has
  /// come. uv_backend_timeout knows nothing of it: who waits for the loop's descriptor is woken by that. (It is 0 as ever while
  /// a pass is to follow.)
  timerfd,
};

/// An aggregate; what cannot be, `timer_service::open` answers with UV_EINVAL, and `problem` says what that is.
struct service_options {
  /// Length of a tick; rounded down to a power of two of nanoseconds (`timer_service::tick_duration()` reads it back).
  /// Must be positive. A finer one than libuv's millisecond costs nothing and halves the mean lateness.
  std::chrono::nanoseconds tick{1 << 17};

  /// Shape of the wheel; `wheel_geometry::hashed(slots)` or `wheel_geometry::hierarchical(levels, slots)`. A hashed one
  /// should turn no faster than the common delays are long, as it looks at a slot's far timers with its near ones.
  wheel_geometry geometry{};

  /// How much a pass does before waiting I/O has its turn: callbacks, moves between slots, and deliveries of what other
  /// threads posted, each count one. Must be positive.
  std::size_t work_per_pass = 1024;

  /// How many timers may be armed at once; arming one more answers UV_ENOBUFS. Those of other threads count, but are not
  /// refused once they were accepted, so that together with them there may be up to twice as many.
  std::size_t max_armed = unlimited;

  /// How many operations other threads may have posted that the loop has not yet delivered; posting one more answers
  /// UV_EAGAIN. Each takes a block of 128 bytes. A pass looks at each once, whatever its bounds, to bring those that came
  /// since the last into order: some 15 ns each, 1 ms for as many as this default allows. When `max_armed` is limited, it
  /// also bounds how many of them may be posted and not yet ended, the armed ones included.
  std::size_t max_queued = 1 << 16;

  /// What one loop iteration may take before the rest counts as a stall of ours, which no peer is charged with.
  /// Must not be negative, and should not be near zero, as a loop that is always slow evicts after limit / stall_grace + 3
  /// iterations.
  ///
  /// Open the service before you start prepare handles of your own: libuv runs those that were started earlier later. They may
  /// read `now()`, but what they block cannot be seen. Nor can what callbacks blocked in all but the last 1024 of many events
  /// that were ready at once.
  ///
  /// Time before the first uv_run, and after one that left nothing alive, is no stall. Between two calls of
  /// uv_run(UV_RUN_ONCE) or uv_run(UV_RUN_NOWAIT) on a loop that is alive libuv gives no sign, so that time counts as the
  /// loop's own. Hence a program that waits for the loop's descriptor itself and calls uv_run(UV_RUN_NOWAIT) should use
  /// nanoseconds::max(), which counts idle time on the plain clock. Its waiting is also taken for a block: see `io_wait`.
  std::chrono::nanoseconds stall_grace = std::chrono::milliseconds{10};

  /// A handler that takes this long or longer is slow: it is counted, told to `timer_service::on_slow_handler`, and named as
  /// the cause when it made others late. Must be positive.
  std::chrono::nanoseconds slow_handler = std::chrono::milliseconds{1};

  /// How long a pass may run before waiting I/O has its turn, whatever `work_per_pass` allows. Looked at after 1,
  /// 2, 4 ... visits, later every 32. Must be positive.
  std::chrono::nanoseconds time_per_pass = std::chrono::milliseconds{1};

  /// What wakes the loop. A timerfd is for delays of a few milliseconds and less, with a tick of 2^16 ns or so: on an idle
  /// loop a timer is then late by less than 0.1 ms in the median, where a uv_timer_t makes it 0.7 ms.
  /// A service that is opened on a driver does not ask: the driver wakes it.
  wake_by wakeup = wake_by::uv_timer;

  /// How long verdicts wait for input after a block, in multiples of the longest block since the last verdict. A block is
  /// more than 2 ms between two polls. libuv reads at most 32 times from a socket in one poll, so after a block the service
  /// lets the loop poll until two polls in a row leave nothing readable. It waits for at most `io_wait` times the block, and
  /// never for more than one second. All timers wait, intervals and retries too; only zero delays do not. 0: one poll, whatever
  /// it leaves.
  unsigned io_wait = 2;

  /// What is wrong with the first field that is, by its name; null when nothing is. Ask it of what a user has configured.
  constexpr const char* problem() const noexcept {
    if (tick.count() <= 0) return "service_options::tick is not positive";
    if (!geometry.valid())
      return "service_options::geometry has no levels, slots that are not a power of two, or too few or too many of "
             "either";
    if (work_per_pass == 0) return "service_options::work_per_pass is zero";
    if (stall_grace.count() < 0) return "service_options::stall_grace is negative";
    if (slow_handler.count() <= 0) return "service_options::slow_handler is not positive";
    if (time_per_pass.count() <= 0) return "service_options::time_per_pass is not positive";
    if (wakeup != wake_by::uv_timer && wakeup != wake_by::timerfd) return "service_options::wakeup is none of wake_by";
    return nullptr;
  }
};

}  // namespace tickwheel
