/* tickwheel for C: timers of a libuv loop by libuv's own verbs, on one timing wheel.
 *
 * Take it where uv_timer_t is taken now, and there are many: tw_timer_start, tw_timer_stop and the rest answer what
 * uv_timer_start and uv_timer_stop do; docs/from-uv-timer.md goes through them call by call, and lists what differs.
 *
 *   static void on_timeout(tw_timer_t* timer) { hang_up((connection*)timer->data); }
 *
 *   tw_service_t timers;                                      // one a loop
 *   int error = tw_service_init(loop, &timers);
 *   ...
 *   tw_timer_init(&timers, &connection->timeout);             // embedded in what waits
 *   connection->timeout.data = connection;
 *   tw_timer_start(&connection->timeout, on_timeout, 60000, 0);
 *   ...
 *   tw_timer_touch(&connection->timeout);                     // bytes came: another 60 s
 *   ...
 *   tw_timer_close(&connection->timeout, on_timer_closed);    // which may free the connection
 *   ...
 *   tw_service_close(&timers, NULL);
 *   uv_run(loop, UV_RUN_DEFAULT);                             // close callbacks
 *
 * Thread safety: a service and its timers belong to the thread that opened the service, and then to the one that runs the loop,
 * from the loop's first poll there on. Call tw_service_use_on_this_thread first where callbacks before that poll use timers,
 * and after joining a loop's thread. A call on another thread that changes something, a service or a timer, stops the process
 * with a line that says so, until the service is closing; one that only asks is not checked. Other threads use a tw_remote_t.
 *
 * Complexity: every call is O(1), but opening a service, O(slots), and closing one, O(timers). None allocates but to open a
 * service, to post, and to close a timer whose service is gone. None makes a system call but to open and to close a service;
 * where a post, its cancelling or the release of a hold is to wake the loop, on the loop's own thread as well; and, with
 * TW_WAKE_BY_TIMERFD, where the loop is to wake up earlier, and after a fork. The clock is read to open a service, after a
 * fork, to start a timer, by tw_timer_again too, and to post with a timeout; what else reads it says so.
 *
 * Errors: what returns a code answers 0 or a UV_E code, and UV_EINVAL for a null pointer where a handle or a callback is
 * needed. Elsewhere a null handle stops the process with a line on stderr that names it, and so does the violation of a
 * `Requires:` that says "checked".
 *
 * Lifetime: memory is yours, and stays where it is from init until the close callback. All but the inits requires that it was
 * initialised, and that this callback has not come. Of a timer that cannot be checked. Of a service it is while its memory is
 * zero, or as the callback found it: UV_ECANCELED where a code is returned; it is closing, and owns no handle; all else stops
 * the process.
 *
 * Time: milliseconds as libuv's; what ends in _ns takes or answers nanoseconds. No callback runs before its time has passed on
 * the steady clock, counted from the call, not from uv_now; it is late by at most a tick, by default 131 us, a millisecond of
 * the poll, what the loop was busy with, and after a block the wait below. What lies more than 292 years ahead is due never,
 * in effect, and active all the same.
 *
 * Callbacks run after the poll, when the I/O that was waiting has been handled; those due at different times in the order of
 * those times, but for a loop that is late: then in any order. After a block, more than 2 ms between two polls, they wait until
 * two polls in a row leave nothing readable, for at most twice the longest block and at most one second. Timeouts of 0 do not
 * wait for that, and run in the order of the starts. Callbacks may call anything here, for any timer, their own included.
 *
 * C99 or newer; uv.h wants POSIX of the C library as well: -std=gnu99, or _POSIX_C_SOURCE=200809L.
 */
#ifndef TICKWHEEL_TICKWHEEL_H
#define TICKWHEEL_TICKWHEEL_H

#include <tickwheel/core/export.h>
#include <tickwheel/version.h>

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

/* Marks a call that can fail. gcc and clang warn if the result is not used (-Wunused-result, on by default). gcc warns in spite of
 * a cast to void. A program that defines this macro as empty before it includes this header gets no such warning. */
#ifndef TICKWHEEL_MUST_CHECK
#if defined(__GNUC__)
#define TICKWHEEL_MUST_CHECK __attribute__((warn_unused_result))
#else
#define TICKWHEEL_MUST_CHECK
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library that is linked, "major.minor.patch"; TICKWHEEL_VERSION is that of this header. Any thread. */
TICKWHEEL_API const char* tw_version_string(void);

/* --- the service: the timers of one loop ------------------------------------------------------------------------------ */

/* The timers of one loop. */
typedef struct tw_service_s tw_service_t;
/* One timer. */
typedef struct tw_timer_s tw_timer_t;

/* Called when the service is closed, and its memory free again. */
typedef void (*tw_service_close_cb)(tw_service_t* service);
/* Called when the time has passed: on the loop's thread, after the poll. */
typedef void (*tw_timer_cb)(tw_timer_t* timer);
/* Called when the timer is closed, and its memory free again. */
typedef void (*tw_timer_close_cb)(tw_timer_t* timer);

/* The timers of one loop: 32 bytes on 64-bit platforms, and the rest on the heap. */
struct tw_service_s {
  void* data; /* yours; never touched */
  void* private_[3];
};

/* Opens the timers of `loop`, with default options: some 230 KiB. Requires: it is not open.
 *
 * 0; UV_EINVAL for null, or a loop that was closed; UV_ENOMEM; UV_EMFILE or UV_ENFILE when the loop's first async handle
 * finds no descriptor. On an error nothing is to be closed. */
TICKWHEEL_API TICKWHEEL_MUST_CHECK int tw_service_init(uv_loop_t* loop, tw_service_t* service);

/* What wakes a loop for its timers: the option `wakeup`. */
enum tw_wake_by {
  TW_WAKE_BY_UV_TIMER = 0, /* a uv_timer_t: everywhere, to the millisecond */
  TW_WAKE_BY_TIMERFD = 1 /* a timerfd: on Linux alone, to the nanosecond, by a descriptor and a system call a wakeup */
};

/* The option `io_wait` of a service whose timers wait for one poll after a block, whatever it leaves unread. */
#define TW_IO_WAIT_NONE UINT64_MAX

/* What a service may be opened with: what is 0 has its default, so name what you want, and no more.
 *
 *   const tw_service_options_t options = {.tick_ns = 1000000, .max_armed = 200000};
 *   int error = tw_service_init_with(loop, &timers, &options, sizeof options);
 *
 * They are those of service_options in tickwheel/uv/service_options.hpp, which says more of each. */
typedef struct tw_service_options_s {
  uint64_t tick_ns;          /* length of a tick, rounded down to a power of two; 131072 */
  uint64_t max_armed;        /* timers active at once: to start one more answers UV_ENOBUFS; no bound */
  uint64_t max_queued;       /* posts that the loop has not taken: one more answers UV_EAGAIN; 65536 */
  uint64_t work_per_pass;    /* callbacks, and moves between slots, before I/O has its turn; 1024 */
  uint64_t time_per_pass_ns; /* how long a pass may run before I/O has its turn; 1000000, a millisecond */
  uint64_t stall_grace_ns;   /* what a loop iteration may take before it counts as a stall; 10000000. 1: next to none */
  uint64_t slow_handler_ns;  /* a callback that takes as long is counted as slow; 1000000 */
  uint64_t levels;           /* of the wheel, see tickwheel/core/wheel_geometry.hpp; 3. One: a hashed wheel */
  uint64_t slots;            /* of a level, a power of two; 1024 */
  uint64_t wakeup;           /* a TW_WAKE_BY constant; TW_WAKE_BY_UV_TIMER */
  uint64_t io_wait;          /* how long timers wait for input after a block, in blocks; 2. Or TW_IO_WAIT_NONE */
} tw_service_options_t;

/* As tw_service_init, with options; null: none. `size` is sizeof *options: a later version may have more of them, and takes
 * those of a program that was compiled before.
 *
 * Answers as tw_service_init; UV_EINVAL also for `levels` and `slots` that no wheel can have, and for a size that is 0 or not a
 * multiple of 8; UV_ENOTSUP for an option, or a `wakeup`, that this library does not know yet. With TW_WAKE_BY_TIMERFD
 * UV_ENOTSUP where there is none, UV_EMFILE or UV_ENFILE when there is no descriptor for it, and UV_ENOSPC when the user may
 * have no more descriptors polled: then the loop must turn once before uv_loop_close, which answers UV_EBUSY until it has. */
TICKWHEEL_API TICKWHEEL_MUST_CHECK int tw_service_init_with(uv_loop_t* loop, tw_service_t* service,
                                                            const tw_service_options_t* options, size_t size);

/* Stops all timers, at once: no callback of theirs runs any more, and to start one answers UV_ECANCELED. So does what other
 * threads post from now on; what they had posted is dropped. `cb`, which may be null, is called in the loop's closing phase
 * after the close callbacks of timers that were closed before; the service's memory is then free again.
 *
 * Timers that were not closed may be closed at any time, before and after that, while the loop lives; to be forgotten they need
 * not be: their memory may go once `cb` was called. Until then each call answers as of a timer that is not active.
 * Requires: it is not closing, and the loop's thread (both checked); who has joined that thread calls
 * tw_service_use_on_this_thread before. May be called in any callback. */
TICKWHEEL_API void tw_service_close(tw_service_t* service, tw_service_close_cb cb);

/* True from tw_service_close on, its close callback included, and of one that was never opened, or could not be. */
TICKWHEEL_API int tw_service_is_closing(const tw_service_t* service);

/* Whether active timers keep the loop alive. They do until tw_service_unref. Any number of calls is one. */
TICKWHEEL_API void tw_service_ref(tw_service_t* service);
TICKWHEEL_API void tw_service_unref(tw_service_t* service);
TICKWHEEL_API int tw_service_has_ref(const tw_service_t* service);

/* True for a libuv handle of this service, for a uv_walk that closes everything else: it must leave these alone. False from
 * tw_service_close on, when they are closing: test uv_is_closing first. The walk may also come when the service is closed. */
TICKWHEEL_API int tw_service_owns(const tw_service_t* service, const uv_handle_t* handle);

/* Makes the calling thread the loop's: before callbacks use timers that come before the loop's first poll on a thread, and
 * after joining the thread that ran the loop, to close what is left. Without effect when it is closing. Requires: no other
 * thread is using the service. */
TICKWHEEL_API void tw_service_use_on_this_thread(tw_service_t* service);

/* In the child of a fork, after uv_loop_fork, and not in a callback of a timer: the forking thread is the loop's, and timers
 * run there as in the parent; timer_service::after_fork, in tickwheel/uv/timer_service.hpp, says what of other threads' does
 * not. 0; UV_EINVAL; UV_ECANCELED when it is closing, or closed. */
TICKWHEEL_API TICKWHEEL_MUST_CHECK int tw_service_after_fork(tw_service_t* service);

/* What a service counted since it was opened; `armed == fired + cancelled + pending`. Posts that wait for their time count as
 * timers; what is called remote counts all posts, and no timers. service_stats in tickwheel/uv/service_stats.hpp says
 * more of each. */
typedef struct tw_service_stats_s {
  uint64_t armed;            /* times a timer became active; a repeat is one */
  uint64_t fired;            /* callbacks that ran */
  uint64_t cancelled;        /* stopped, or still active when closed */
  uint64_t pending;          /* active now */
  uint64_t refused;          /* with UV_ENOBUFS */
  uint64_t passes;           /* times it was looked what is due */
  uint64_t carried;          /* passes that left work for the next, since their bound was reached */
  uint64_t wakeups;          /* times the loop was woken for timers */
  uint64_t stalls;           /* iterations of the loop that took longer than stall_grace_ns */
  uint64_t stalled_ns;       /* what those took beyond it */
  uint64_t slow_handlers;    /* callbacks that took slow_handler_ns or longer */
  uint64_t remote_accepted;  /* posts */
  uint64_t remote_refused;   /* posts answered with UV_EAGAIN */
  uint64_t remote_ran;       /* posts whose callback ran */
  uint64_t remote_withdrawn; /* posts cancelled */
  uint64_t remote_cancelled; /* posts that had not run when the service closed */
} tw_service_stats_t;

/* Writes what was counted to `stats`. `size` is sizeof *stats: a later version may count more, and what this one does not know
 * is 0. Copies some 8 KB of histograms. 0; UV_EINVAL for null; UV_ECANCELED when it is closed: between tw_service_close and its
 * callback one can ask for the last time. */
TICKWHEEL_API TICKWHEEL_MUST_CHECK int tw_service_stats(const tw_service_t* service, tw_service_stats_t* stats,
                                                        size_t size);

/* How late callbacks of timers ran, in steps of a tick, and how long callbacks took: what `fraction` (0 to 1) of them did not
 * exceed, or up to 1/8 more; 1: the longest. 0 when there was none. */
TICKWHEEL_API uint64_t tw_service_lateness_ns(const tw_service_t* service, double fraction);
TICKWHEEL_API uint64_t tw_service_handler_time_ns(const tw_service_t* service, double fraction);

/* --- timers ------------------------------------------------------------------------------------------------------------ */

/* One timer, to embed: 152 bytes on 64-bit platforms. */
struct tw_timer_s {
  void* data; /* yours; never touched, tw_timer_init included */
  union {
    uint64_t words[18];
    void* pointer;
  } private_;
};

/* A timer that is not active. Requires: it was not initialised, or was closed and its callback has come.
 * 0; UV_EINVAL; UV_ECANCELED when the service is closing, or closed, and then there is nothing to close. */
TICKWHEEL_API TICKWHEEL_MUST_CHECK int tw_timer_init(tw_service_t* service, tw_timer_t* timer);

/* Calls `cb` once `timeout` ms have passed since this call, and then every `repeat` ms unless that is 0. A timeout of 0 is
 * due in the next pass over the timers, never in the one now running; the poll before it does not wait. One that is active
 * starts anew.
 *
 * Repeats do not drift: each counts from when the last was due, as long as that is ahead by the clock, which is read for
 * it; what was missed is skipped, and the next a repeat from then.
 *
 * 0; UV_EINVAL when `timer` or `cb` is null or the timer is closing; UV_ECANCELED when the service is, or is closed; UV_ENOBUFS
 * when max_armed timers are active and this is not one of them. On an error nothing has changed. */
TICKWHEEL_API TICKWHEEL_MUST_CHECK int tw_timer_start(tw_timer_t* timer, tw_timer_cb cb, uint64_t timeout,
                                                      uint64_t repeat);
TICKWHEEL_API TICKWHEEL_MUST_CHECK int tw_timer_start_ns(tw_timer_t* timer, tw_timer_cb cb, uint64_t timeout_ns,
                                                         uint64_t repeat_ns);

/* The callback does not run until the timer is started again, even when it was due already. 0, also when it was not active;
 * UV_EINVAL for null. */
TICKWHEEL_API int tw_timer_stop(tw_timer_t* timer);

/* Starts it anew with its repeat as timeout; without effect when that is 0, or the timer is closing. 0; UV_EINVAL when it
 * was never started; UV_ECANCELED and UV_ENOBUFS as tw_timer_start. */
TICKWHEEL_API TICKWHEEL_MUST_CHECK int tw_timer_again(tw_timer_t* timer);

/* Gives an active timer its whole time again: its timeout, or the repeat once it waits for that. What idle timeouts do with
 * every message: it is counted from this iteration of the loop, for which the clock is read once, and costs a few comparisons
 * and a store. It never makes a timer due earlier, also where it was started later in this iteration. Without effect on one that
 * is not active. 0; UV_EINVAL for null. */
TICKWHEEL_API int tw_timer_touch(tw_timer_t* timer);

/* What follows the next callback; a timer that is active is not moved. In its own callback the next one is set already, by the
 * repeat from before. */
TICKWHEEL_API void tw_timer_set_repeat(tw_timer_t* timer, uint64_t repeat);
TICKWHEEL_API void tw_timer_set_repeat_ns(tw_timer_t* timer, uint64_t repeat_ns);
/* Of what was set in nanoseconds: rounded up. What is beyond 2^64 ns, 584 years, is for ever: UINT64_MAX. */
TICKWHEEL_API uint64_t tw_timer_get_repeat(const tw_timer_t* timer);
TICKWHEEL_API uint64_t tw_timer_get_repeat_ns(const tw_timer_t* timer);

/* How long until it is due, rounded up; 0 when that has passed, or it was never started. Of one that was stopped: how long it
 * would have been. Reads the clock. */
TICKWHEEL_API uint64_t tw_timer_get_due_in(const tw_timer_t* timer);
TICKWHEEL_API uint64_t tw_timer_get_due_in_ns(const tw_timer_t* timer);

/* True from when it is started until it is stopped, or runs without a repeat, or its service is closing. */
TICKWHEEL_API int tw_timer_is_active(const tw_timer_t* timer);

/* Whether it keeps the loop alive while it is active. It does until tw_timer_unref. Without effect once its service is
 * closed. */
TICKWHEEL_API void tw_timer_ref(tw_timer_t* timer);
TICKWHEEL_API void tw_timer_unref(tw_timer_t* timer);
TICKWHEEL_API int tw_timer_has_ref(const tw_timer_t* timer);

/* Stops it, and calls `cb`, unless null, in the loop's closing phase, never from within this call; then its memory is free
 * again, or may be initialised anew. Callbacks come in the order in which the timers were closed; where the service was gone
 * by then, the last first, as libuv's. Until then the loop is alive. Requires: it is not closing; where the service is gone,
 * that there is memory for a handle of libuv's (both checked). */
TICKWHEEL_API void tw_timer_close(tw_timer_t* timer, tw_timer_close_cb cb);

/* True from tw_timer_close on. */
TICKWHEEL_API int tw_timer_is_closing(const tw_timer_t* timer);

/* --- other threads ------------------------------------------------------------------------------------------------------ */

/* Posts to one service from any thread, several at once; may outlive service and loop, and then answers UV_ECANCELED. Not in a
 * signal handler. What C copies is no second handle: tw_remote_copy makes one, and each is released once. */
typedef struct tw_remote_s {
  void* private_;
} tw_remote_t;

/* What tw_remote_arm gives, to cancel it. 128 bytes are kept until it is released. */
typedef struct tw_remote_timer_s {
  void* private_[2];
} tw_remote_timer_t;

/* Keeps a loop alive while somebody still intends to post to it. */
typedef struct tw_hold_s {
  void* private_;
} tw_hold_t;

/* Called on the loop's thread with what was posted with it. */
typedef void (*tw_remote_cb)(void* arg);

/* On the loop's thread, or before others are started. 0; UV_EINVAL; UV_ECANCELED when the service is closing, or closed. On an
 * error it is empty: to post answers UV_ECANCELED, and it need not be released. */
TICKWHEEL_API TICKWHEEL_MUST_CHECK int tw_remote_init(tw_service_t* service, tw_remote_t* remote);
/* Any thread. 0, or UV_EINVAL. Requires: `to` is not yet initialised, or empty. */
TICKWHEEL_API TICKWHEEL_MUST_CHECK int tw_remote_copy(const tw_remote_t* from, tw_remote_t* to);
/* Any thread; leaves it empty. Null: nothing. */
TICKWHEEL_API void tw_remote_release(tw_remote_t* remote);

/* Calls `cb(arg)` on the loop's thread once `timeout` ms have passed since this call; 0: in the next pass. 0: it will run,
 * unless the service closes first. UV_EINVAL; UV_EAGAIN when max_queued wait to be taken by the loop, or max_armed have not
 * ended; UV_ECANCELED when the service is closed, or the handle empty; UV_ENOMEM. On an error `cb` is not called. */
TICKWHEEL_API TICKWHEEL_MUST_CHECK int tw_remote_post(const tw_remote_t* remote, tw_remote_cb cb, void* arg,
                                                      uint64_t timeout);
TICKWHEEL_API TICKWHEEL_MUST_CHECK int tw_remote_post_ns(const tw_remote_t* remote, tw_remote_cb cb, void* arg,
                                                         uint64_t timeout_ns);

/* As tw_remote_post, and `timer` can cancel it; UV_EINVAL also when that is null. It need not be initialised, is overwritten,
 * and on an error is empty. It is written before this returns, but maybe after `cb` has run. */
TICKWHEEL_API TICKWHEEL_MUST_CHECK int tw_remote_arm(const tw_remote_t* remote, tw_remote_cb cb, void* arg,
                                                     uint64_t timeout, tw_remote_timer_t* timer);
TICKWHEEL_API TICKWHEEL_MUST_CHECK int tw_remote_arm_ns(const tw_remote_t* remote, tw_remote_cb cb, void* arg,
                                                        uint64_t timeout_ns, tw_remote_timer_t* timer);

/* What became of a posted timer. */
enum tw_outcome {
  TW_CANCELLED = 0, /* by this timer: the callback has not run and never will */
  TW_TOO_LATE = 1,  /* the callback runs, or has run; also of an empty one */
  TW_CLOSED = 2     /* the service was closed first: the callback has not run and never will */
};

/* Any thread, several at once. Exactly one of this, the callback and the closing of the service wins; asked again it answers
 * the same. Does not wait for a callback that runs. An outcome, or UV_EINVAL for null. */
TICKWHEEL_API int tw_remote_timer_cancel(tw_remote_timer_t* timer);
/* Lets go of it, and leaves it armed. Once for each; leaves it empty. Null: nothing. */
TICKWHEEL_API void tw_remote_timer_release(tw_remote_timer_t* timer);

/* On the loop's thread. 0; UV_EINVAL; UV_ECANCELED when the service is closing, or closed. On an error it is empty. */
TICKWHEEL_API TICKWHEEL_MUST_CHECK int tw_hold_init(tw_service_t* service, tw_hold_t* hold);
/* Any thread; leaves it empty. What was posted before is delivered before the loop may end. Null: nothing. */
TICKWHEEL_API void tw_hold_release(tw_hold_t* hold);

#ifdef __cplusplus
}
#endif

#endif
