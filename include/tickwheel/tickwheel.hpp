// tickwheel: timers for libuv servers. This header includes all of it, except the headers that are named below.
//
//   core/  wheel            a timing wheel. It knows no clock, no thread and no libuv.
//   uv/    timer_service    the timers of one loop: timer, member_timer, callback_timer, interval_timer
//                           after, a call that the service owns
//          event_loop       a uv_loop_t with its timer_service. It opens, runs and closes both.
//          remote_handle    posts calls to a service from other threads
//          offload          runs work on libuv's thread pool, now or later, and returns to the loop
//   net/   idle_timeout     closes silent peers; write_idle_timeout, all_idle_timeout
//          deadline         a time budget handed down a chain of calls; deadline_timer
//          call_policy      a client's calls: retries, hedges, and limits of time, number and load
//          pending_calls    calls that end by their answer or their deadline
//          retry_timer      retries within a deadline and a retry_budget; backoff, jitter
//          phase_timeouts   limits for header, body, response and keep-alive of a request
//          minimum_rate     limits how slowly a peer may move bytes
//          drain            ends many connections gracefully
//          expiring_map     a map whose entries expire: sessions, tokens
//
// Not included: uv/coroutine.hpp, uv/awaitable_tcp.hpp and net/with_deadline.hpp (coroutines), testing.hpp (tests on manual time),
// tickwheel.h (C), and durable/ (a library of its own).
//
// Unless a header says otherwise:
//
//   durations   Any of std::chrono's. They are rounded up to nanoseconds and saturate; NaN is zero. Options take nanoseconds.
//               Points in time are those of the steady clock.
//   int         A result of 0 or a UV_ code. After a code nothing has changed, except where the comment says so.
//   Requires:   A duty of the caller. If it says "checked", a violation stops the process with a line on stderr that names
//               it. Otherwise the behaviour is undefined.
//   handlers    Are noexcept, and called in a pass on the loop's thread. They may arm, cancel and destroy any timer, also
//               their own, and close or destroy the service.
//   the clock   Is read only where a comment says so. Time of the loop iteration comes from `timer_service::now`, which reads
//               the clock on its first call in an iteration.
#pragma once

#if __cplusplus < 201709L && !defined(_MSC_VER)
#error "tickwheel needs C++20: compile with -std=c++20 or newer"
#endif

// first, so that compile errors about timers name few files
#include <tickwheel/uv/timer.hpp>

#include <tickwheel/core/wheel.hpp>
#include <tickwheel/net/all_idle_timeout.hpp>
#include <tickwheel/net/backoff.hpp>
#include <tickwheel/net/call_policy.hpp>
#include <tickwheel/net/deadline.hpp>
#include <tickwheel/net/deadline_timer.hpp>
#include <tickwheel/net/drain.hpp>
#include <tickwheel/net/expiring_map.hpp>
#include <tickwheel/net/idle_limit.hpp>
#include <tickwheel/net/idle_timeout.hpp>
#include <tickwheel/net/jitter.hpp>
#include <tickwheel/net/minimum_rate.hpp>
#include <tickwheel/net/pending_calls.hpp>
#include <tickwheel/net/phase_timeouts.hpp>
#include <tickwheel/net/retry_budget.hpp>
#include <tickwheel/net/retry_timer.hpp>
#include <tickwheel/net/write_idle_timeout.hpp>
#include <tickwheel/uv/after.hpp>
#include <tickwheel/uv/event_loop.hpp>
#include <tickwheel/uv/manual_driver.hpp>
#include <tickwheel/uv/offload.hpp>
#include <tickwheel/uv/prometheus.hpp>
#include <tickwheel/uv/remote.hpp>
#include <tickwheel/uv/timer_service.hpp>
#include <tickwheel/version.hpp>
