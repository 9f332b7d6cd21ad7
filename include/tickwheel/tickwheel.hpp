// tickwheel: timers for libuv servers. This header includes all of it.
//
//   core/  wheel            knows no clock, no thread and no libuv
//   uv/    timer_service    one loop's wheel; timer, member_timer, callback_timer, interval_timer
//          event_loop       a uv_loop_t with its timer_service: opens, runs and closes both
//          remote_handle    posts to it from other threads
//          offload          runs on libuv's thread pool, later or now, and comes back
//   net/   what servers use
//          idle_timeout     of peers that are silent; write_idle_timeout, all_idle_timeout
//          deadline         a time budget handed down a chain of calls; deadline_timer
//          pending_calls    each ends by its answer or its deadline
//          retry_timer      within a deadline and a retry_budget; backoff, jitter
//          phase_timeouts   how long header, body and keep-alive of a request may take
//          minimum_rate     when a peer moves bytes too slowly
//          drain            ends many connections gracefully
//
// Not included: uv/coroutine.hpp (coroutines), testing.hpp (tests on manual time) and tickwheel.h (C).
//
// Unless a header says otherwise:
//
//   durations   any of std::chrono's; rounded up to nanoseconds, saturating; NaN is zero. In options: nanoseconds. Points in
//               time: the steady clock's
//   int         0, or a UV_ code, and then nothing has changed but what it says
//   Requires:   the caller's duty. Where it says "checked", the process stops with a line on stderr that names what was
//               violated; elsewhere what happens is undefined
//   handlers    are noexcept, called in a pass on the loop's thread, and may do anything: arm, cancel and destroy any timer,
//               their own included, and close or destroy the service
//   the clock   is read where it says so. What counts from the loop iteration asks `timer_service::now`, which reads it for
//               the first who asks in an iteration
#pragma once

#if __cplusplus < 201709L && !defined(_MSC_VER)
#error "tickwheel needs C++20: compile with -std=c++20 or newer"
#endif

// first, so that compile errors about timers name few files
#include <tickwheel/uv/timer.hpp>

#include <tickwheel/core/wheel.hpp>
#include <tickwheel/net/all_idle_timeout.hpp>
#include <tickwheel/net/backoff.hpp>
#include <tickwheel/net/deadline.hpp>
#include <tickwheel/net/deadline_timer.hpp>
#include <tickwheel/net/drain.hpp>
#include <tickwheel/net/idle_limit.hpp>
#include <tickwheel/net/idle_timeout.hpp>
#include <tickwheel/net/jitter.hpp>
#include <tickwheel/net/minimum_rate.hpp>
#include <tickwheel/net/pending_calls.hpp>
#include <tickwheel/net/phase_timeouts.hpp>
#include <tickwheel/net/retry_budget.hpp>
#include <tickwheel/net/retry_timer.hpp>
#include <tickwheel/net/write_idle_timeout.hpp>
#include <tickwheel/uv/event_loop.hpp>
#include <tickwheel/uv/manual_driver.hpp>
#include <tickwheel/uv/offload.hpp>
#include <tickwheel/uv/prometheus.hpp>
#include <tickwheel/uv/remote.hpp>
#include <tickwheel/uv/timer_service.hpp>
#include <tickwheel/version.hpp>
