/* tickwheel for C: timers of a libuv loop with libuv's own function names, on one timing wheel.
 *
 * Use it in place of uv_timer_t if there are many timers. tw_timer_start, tw_timer_stop and the others return the same as
 * uv_timer_start and uv_timer_stop do. docs/from-uv-timer.md compares them call by call, and lists the differences.
 *
 *   static void on_timeout(tw_timer_t* timer) { hang_up((connection*)timer->data); }
 *
 *   tw_service_t timers;                                      // one per loop
 *   int error = tw_service_init(loop, &timers);
 *   ...
 *   tw_timer_init(&timers, &connection->timeout);             // embedded in the object that waits
 *   connection->timeout.data = connection;
 *   tw_timer_start(&connection->timeout, on_timeout, 60000, 0);
 *   ...
 *   tw_timer_touch(&connection->timeout);                     // bytes arrived: another 60 s
 *   ...
 *   tw_timer_close(&connection->timeout, on_timer_closed);    // the callback may free the connection
 *   ...
 *   tw_service_close(&timers, NULL);
 *   uv_run(loop, UV_RUN_DEFAULT);                             // runs the close callbacks
 *
 * Thread safety: a service and its timers belong to the thread that opened the service. From the loop's first poll on, they
 * belong to the thread that runs the loop. Call tw_service_use_on_this_thread if callbacks use timers before that poll, and after
 * you have joined the loop's thread. A call on another thread that changes a service or a timer stops the process with a message
 * on stderr, until the service is closing. A call that only reads is not checked. Other threads use a tw_remote_t.
 *
 * Complexity: every call is O(1), with these exceptions: opening a service is O(slots), closing one is O(timers), tw_service_dump is
 * O(slots + timers), and a call that writes the name of a callback is O(names).
 *
 * Allocation: only these calls allocate: opening a service, a post, tw_service_dump, and closing a timer whose service is gone.
 *
 * System calls: only these calls make one:
 * - opening and closing a service;
 * - a post, its cancelling, or the release of a hold, if it must wake the loop, also on the loop's own thread;
 * - tw_service_dump, which writes to a file;
 * - with TW_WAKE_BY_TIMERFD: any call after which the loop must wake earlier, and tw_service_after_fork.
 *
 * Clock reads: opening a service, tw_service_after_fork, tw_timer_start, tw_timer_again, and a post with a timeout read the
 * clock. In a callback of a timer or a post these read it at most once: tw_service_stats, tw_service_lateness_ns,
 * tw_service_handler_time_ns, tw_service_why, tw_service_why_text and tw_service_close. Other functions that read the clock say so.
 *
 * Errors: a function that returns a code returns 0 or a UV_E code. It returns UV_EINVAL for a null pointer where a handle or a
 * callback is needed. In other functions, a null handle stops the process with a message on stderr that names the handle. A
 * violation of a `Requires:` that says "checked" does the same.
 *
 * Lifetime: you provide the memory of each handle. It stays at its address from init until the close callback. All functions
 * except the inits require that the handle was initialised, and that its close callback has not been called. For a timer that
 * cannot be checked. For a service it is checked while its memory is zero, or is as the close callback found it. Such a service
 * is closing and owns no handle. Functions that return a code return UV_ECANCELED for it; all others stop the process.
 *
 * Time: milliseconds as in libuv. Functions whose names end in _ns take or return nanoseconds. No callback runs before its time
 * has passed on the steady clock, counted from the call and not from uv_now. A callback is late by at most one tick (131 us by
 * default), one millisecond of the poll, and the time that the loop is busy. After a block, the wait described below is added. A
 * timer that is due in more than 292 years is active, but never expires in practice.
 *
 * Callbacks run after the poll, when the loop has handled the pending I/O. Timers that are due at different times run in the
 * order of those times. If the loop is late, they run in any order. A block is a time of more than 2 ms between two polls. After
 * a block, callbacks wait until two polls in a row leave nothing readable. They wait for at most twice the longest block, and at
 * most one second. Timeouts of 0 do not wait for that, and run in the order of their starts. One that waits for its callback, and is
 * started with 0 again after the poll has begun, keeps its place. Callbacks may call any function of this header, for any timer,
 * also their own.
 *
 * C99 or newer. uv.h also needs the POSIX parts of the C library: use -std=gnu99, or define _POSIX_C_SOURCE=200809L.
 */
#ifndef TICKWHEEL_TICKWHEEL_H
#define TICKWHEEL_TICKWHEEL_H

#include <tickwheel/core/export.h>
#include <tickwheel/version.h>

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <uv.h>

/* Marks a call that can fail. gcc and clang warn if the result is not used (-Wunused-result, on by default). gcc warns despite a
 * cast to void. A program that defines this macro as empty before it includes this header gets no such warning.
 *
 * Not marked are tw_timer_stop and tw_timer_touch: they fail only for a null timer, and no program checks uv_timer_stop, whose place
 * they take. Not marked is tw_remote_timer_cancel: most callers do not need its outcome. Not marked is tw_service_dump, whose output
 * shows what is missing. */
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

/* Returns the version of the linked library, "major.minor.patch". TICKWHEEL_VERSION is the version of this header. Any thread. */
TICKWHEEL_API const char* tw_version_string(void);

/* --- the service: the timers of one loop ------------------------------------------------------------------------------ */

/* The timers of one loop. */
typedef struct tw_service_s tw_service_t;
/* One timer. */
typedef struct tw_timer_s tw_timer_t;

/* Called when the service is closed. Its memory may then be reused. */
typedef void (*tw_service_close_cb)(tw_service_t* service);
/* Called when the time has passed, on the loop's thread, after the poll. */
typedef void (*tw_timer_cb)(tw_timer_t* timer);
/* Called when the timer is closed. Its memory may then be reused. */
typedef void (*tw_timer_close_cb)(tw_timer_t* timer);

/* The timers of one loop. 32 bytes on 64-bit platforms; the rest is on the heap. */
struct tw_service_s {
  void* data; /* yours; the library never touches it */
  void* private_[3];
};

/* Opens the timers of `loop` with default options. Uses about 245 KiB. Requires: the service is not open.
 *
 * 0: it is open. On an error there is nothing to close.
 * UV_EINVAL: a pointer is null, or the loop was closed.
 * UV_ENOMEM: no memory.
 * UV_EMFILE, UV_ENFILE: no descriptor is left for the loop's first async handle. */
TICKWHEEL_API TICKWHEEL_MUST_CHECK int tw_service_init(uv_loop_t* loop, tw_service_t* service);

/* The option `wakeup`: which kind of handle wakes the loop for its timers. */
enum tw_wake_by {
  TW_WAKE_BY_UV_TIMER = 0, /* a uv_timer_t: everywhere, to the millisecond */
  TW_WAKE_BY_TIMERFD = 1   /* only on Linux, to the nanosecond; one descriptor, one system call per wakeup */
};

/* Value of the option `io_wait`: after a block, timers wait for only one poll, even if that poll leaves input unread. */
#define TW_IO_WAIT_NONE UINT64_MAX

/* The options of a service. A value of 0 means the default, so set only the options that you want to change.
 *
 *   const tw_service_options_t options = {.tick_ns = 1000000, .max_armed = 200000};
 *   int error = tw_service_init_with(loop, &timers, &options, sizeof options);
 *
 * They are the options of service_options in tickwheel/uv/service_options.hpp, which describes each in detail. The comments below
 * end with the default. */
typedef struct tw_service_options_s {
  uint64_t tick_ns;          /* length of a tick, rounded down to a power of two; 131072 */
  uint64_t max_armed;        /* limit of active timers: starting one more returns UV_ENOBUFS; no limit */
  uint64_t max_queued;       /* limit of posts that the loop has not taken: one more returns UV_EAGAIN; 65536 */
  uint64_t work_per_pass;    /* limit of callbacks and moves between slots before I/O has its turn; 1024 */
  uint64_t time_per_pass_ns; /* how long a pass may run before I/O has its turn; 1000000, a millisecond */
  uint64_t stall_grace_ns;   /* a loop iteration that takes longer is a stall; 10000000. 1: almost no grace */
  uint64_t slow_handler_ns;  /* a callback that takes this long or longer counts as slow; 1000000 */
  uint64_t levels;           /* levels of the wheel, see tickwheel/core/wheel_geometry.hpp; 3. 1: a hashed wheel */
  uint64_t slots;            /* slots of a level, a power of two; 1024 */
  uint64_t wakeup;           /* a TW_WAKE_BY constant; TW_WAKE_BY_UV_TIMER */
  uint64_t io_wait;          /* how long timers wait for input after a block, in block lengths; 2. Or TW_IO_WAIT_NONE */
} tw_service_options_t;

/* As tw_service_init, with options. Null means no options. `size` is sizeof *options: a later version may have more options, and
 * accepts those of a program that was compiled before.
 *
 * Returns as tw_service_init, and:
 * UV_EINVAL: `levels` or `slots` are invalid for a wheel, or `size` is 0 or not a multiple of 8.
 * UV_ENOTSUP: this library does not know an option or the `wakeup` yet, or the system has no timerfd.
 * With TW_WAKE_BY_TIMERFD also:
 * UV_EMFILE, UV_ENFILE: no descriptor is left for the timerfd.
 * UV_ENOSPC: the user may have no more descriptors polled. Then run one loop iteration before uv_loop_close, which returns
 * UV_EBUSY until then. */
TICKWHEEL_API TICKWHEEL_MUST_CHECK int tw_service_init_with(uv_loop_t* loop, tw_service_t* service,
                                                            const tw_service_options_t* options, size_t size);

/* Stops all timers at once: their callbacks do not run any more. Starting a timer and posts of other threads return UV_ECANCELED
 * from now on. Calls that were posted before are dropped. `cb`, which may be null, is called in the loop's closing phase, after
 * the close callbacks of timers that were closed before. Afterwards the memory of the service may be reused.
 *
 * Timers that are still open may be closed at any time before or after that, while the loop lives. You need not close a timer to
 * forget it: its memory may be freed once `cb` was called. Until then, each call returns as for a timer that is not active.
 *
 * May be called in any callback. Requires: the service is not closing, and the calling thread is the loop's (both checked). If
 * you have joined that thread, call tw_service_use_on_this_thread first. */
TICKWHEEL_API void tw_service_close(tw_service_t* service, tw_service_close_cb cb);

/* Returns true from tw_service_close on, also in its close callback. Also true for a service that was never opened, or failed to
 * open. */
TICKWHEEL_API int tw_service_is_closing(const tw_service_t* service);

/* Sets or returns whether active timers keep the loop alive. They do until tw_service_unref. Calling ref or unref several times
 * has the effect of one call. */
TICKWHEEL_API void tw_service_ref(tw_service_t* service);
TICKWHEEL_API void tw_service_unref(tw_service_t* service);
TICKWHEEL_API int tw_service_has_ref(const tw_service_t* service);

/* Returns true for a libuv handle of this service. Use it in a uv_walk that closes all other handles, and must leave these open.
 * Returns false from tw_service_close on, when these handles are closing: test uv_is_closing first. May also be called when the
 * service is closed. */
TICKWHEEL_API int tw_service_owns(const tw_service_t* service, const uv_handle_t* handle);

/* Makes the calling thread the loop's thread. Call it in two cases:
 * - callbacks use timers before the loop's first poll on a thread;
 * - you have joined the thread that ran the loop, and close what is left.
 * No effect if the service is closing. Requires: no other thread uses the service. */
TICKWHEEL_API void tw_service_use_on_this_thread(tw_service_t* service);

/* Makes timers run in the child of a fork as in the parent. Call it in the child after uv_loop_fork, and not in a callback of a
 * timer. The calling thread becomes the loop's thread. timer_service::after_fork, in tickwheel/uv/timer_service.hpp, says which
 * calls of other threads do not work in the child.
 *
 * 0: success.
 * UV_EINVAL: `service` is null.
 * UV_ECANCELED: the service is closing or closed. */
TICKWHEEL_API TICKWHEEL_MUST_CHECK int tw_service_after_fork(tw_service_t* service);

/* Counters of a service since it was opened. `armed == fired + cancelled + pending`. Posts that wait for their time count as
 * timers. The fields named remote count all posts, and no timers. service_stats in tickwheel/uv/service_stats.hpp describes each
 * in detail. */
typedef struct tw_service_stats_s {
  uint64_t armed;            /* times a timer became active; each repeat counts */
  uint64_t fired;            /* callbacks that ran */
  uint64_t cancelled;        /* timers that were stopped, or still active at close */
  uint64_t pending;          /* timers that are active now */
  uint64_t refused;          /* starts refused with UV_ENOBUFS */
  uint64_t passes;           /* passes: checks for due timers */
  uint64_t carried;          /* passes that reached their limit and left work for the next one */
  uint64_t wakeups;          /* times the loop was woken for timers */
  uint64_t stalls;           /* iterations of the loop that took longer than stall_grace_ns */
  uint64_t stalled_ns;       /* total time of those beyond stall_grace_ns */
  uint64_t slow_handlers;    /* callbacks that took slow_handler_ns or longer */
  uint64_t remote_accepted;  /* posts */
  uint64_t remote_refused;   /* posts refused with UV_EAGAIN */
  uint64_t remote_ran;       /* posts whose callback ran */
  uint64_t remote_withdrawn; /* posts cancelled */
  uint64_t remote_cancelled; /* posts that had not run when the service closed */
  uint64_t busy_ns;          /* time of the loop outside of its polls; may miss a millisecond of each iteration */
  uint64_t idle_ns;          /* time of the loop in its polls */
  uint64_t iterations;       /* iterations of the loop; one whose poll ends because a timer is due may count as two */
  uint64_t longest_ns;       /* the longest busy time of an iteration */
  uint64_t remote_queued;    /* posts that the loop has not taken yet */
} tw_service_stats_t;

/* Writes the counters to `stats`. `size` is sizeof *stats. A later version may have more counters: those that this version does
 * not know are set to 0. Copies about 12 KB of histograms.
 *
 * 0: success.
 * UV_EINVAL: a pointer is null.
 * UV_ECANCELED: the service is closed. The last time to ask is between tw_service_close and its callback. */
TICKWHEEL_API TICKWHEEL_MUST_CHECK int tw_service_stats(const tw_service_t* service, tw_service_stats_t* stats,
                                                        size_t size);

/* Returns a quantile: the first function of how late callbacks ran (in steps of a tick), the second of how long they took. The
 * result is a value that `fraction` (0 to 1) of the callbacks did not exceed, or up to 1/8 more. For a `fraction` of 1 it is the
 * maximum. Returns 0 if no callback has run. */
TICKWHEEL_API uint64_t tw_service_lateness_ns(const tw_service_t* service, double fraction);
TICKWHEEL_API uint64_t tw_service_handler_time_ns(const tw_service_t* service, double fraction);

/* --- timers ------------------------------------------------------------------------------------------------------------ */

/* One timer, to be embedded in your object. 152 bytes on 64-bit platforms. */
struct tw_timer_s {
  void* data; /* yours; the library never touches it, not even in tw_timer_init */
  union {
    uint64_t words[18];
    void* pointer;
  } private_;
};

/* Initialises a timer that is not active. Requires: it was not initialised before, or was closed and its close callback was
 * called.
 *
 * 0: success.
 * UV_EINVAL: a pointer is null.
 * UV_ECANCELED: the service is closing or closed. Then there is no timer to close. */
TICKWHEEL_API TICKWHEEL_MUST_CHECK int tw_timer_init(tw_service_t* service, tw_timer_t* timer);

/* Calls `cb` once `timeout` ms have passed since this call, and then every `repeat` ms unless `repeat` is 0. A timeout of 0 is
 * due in the next pass over the timers, never in the running one. The poll before that pass does not wait. An active timer starts
 * anew. Reads the clock.
 *
 * Repeats do not drift: each counts from when the last one was due. If that time has already passed, the missed repeats are
 * skipped, and the next one is due one `repeat` from now. Each repeat reads the clock to check that.
 *
 * 0: it is active. On an error nothing has changed.
 * UV_EINVAL: `timer` or `cb` is null, or the timer is closing.
 * UV_ECANCELED: the service is closing or closed.
 * UV_ENOBUFS: max_armed timers are active, and this is not one of them. */
TICKWHEEL_API TICKWHEEL_MUST_CHECK int tw_timer_start(tw_timer_t* timer, tw_timer_cb cb, uint64_t timeout,
                                                      uint64_t repeat);
TICKWHEEL_API TICKWHEEL_MUST_CHECK int tw_timer_start_ns(tw_timer_t* timer, tw_timer_cb cb, uint64_t timeout_ns,
                                                         uint64_t repeat_ns);

/* Stops the timer. Its callback does not run until the timer is started again, even if it was already due.
 *
 * 0: it is stopped, or was not active.
 * UV_EINVAL: `timer` is null. */
TICKWHEEL_API int tw_timer_stop(tw_timer_t* timer);

/* Starts the timer anew, with its repeat as the timeout. No effect if the repeat is 0, or the timer is closing. Reads the clock.
 *
 * 0: success, or no effect.
 * UV_EINVAL: the timer was never started, or is null.
 * UV_ECANCELED, UV_ENOBUFS: as tw_timer_start. */
TICKWHEEL_API TICKWHEEL_MUST_CHECK int tw_timer_again(tw_timer_t* timer);

/* Gives an active timer its whole time again: its timeout, or the repeat once it waits for that. An idle timeout calls this for
 * each message. The time counts from this loop iteration, for which the clock is read once. The cost is a few comparisons and a
 * store. It never makes a timer due earlier, even if the timer was started later in this iteration. No effect on a timer that is
 * not active.
 *
 * 0: success, or no effect.
 * UV_EINVAL: `timer` is null. */
TICKWHEEL_API int tw_timer_touch(tw_timer_t* timer);

/* Sets the repeat that starts after the next callback. An active timer is not moved. In the timer's own callback, the next call
 * is already scheduled with the previous repeat. */
TICKWHEEL_API void tw_timer_set_repeat(tw_timer_t* timer, uint64_t repeat);
TICKWHEEL_API void tw_timer_set_repeat_ns(tw_timer_t* timer, uint64_t repeat_ns);
/* Returns the repeat. The milliseconds are rounded up if it was set in nanoseconds. A repeat of more than 2^64 ns (584 years)
 * never ends: UINT64_MAX. */
TICKWHEEL_API uint64_t tw_timer_get_repeat(const tw_timer_t* timer);
TICKWHEEL_API uint64_t tw_timer_get_repeat_ns(const tw_timer_t* timer);

/* Returns the time until the timer is due, rounded up. 0 if it has passed, or the timer was never started. For a stopped timer,
 * returns how long it would have been. Reads the clock. */
TICKWHEEL_API uint64_t tw_timer_get_due_in(const tw_timer_t* timer);
TICKWHEEL_API uint64_t tw_timer_get_due_in_ns(const tw_timer_t* timer);

/* Returns true from the start until the timer is stopped, runs without a repeat, or its service is closing. */
TICKWHEEL_API int tw_timer_is_active(const tw_timer_t* timer);

/* Sets or returns whether the timer keeps the loop alive while it is active. It does until tw_timer_unref. No effect once its
 * service is closed. */
TICKWHEEL_API void tw_timer_ref(tw_timer_t* timer);
TICKWHEEL_API void tw_timer_unref(tw_timer_t* timer);
TICKWHEEL_API int tw_timer_has_ref(const tw_timer_t* timer);

/* Stops the timer and calls `cb`, unless it is null, in the loop's closing phase, never within this call. Afterwards the memory
 * may be freed, or initialised anew. The loop stays alive until then.
 *
 * Close callbacks of a service's timers run in the order in which they were closed. If the service was gone by then, the last one
 * runs first, as in libuv.
 *
 * Requires: the timer is not closing. If the service is gone, there is memory for a libuv handle. Both are checked. */
TICKWHEEL_API void tw_timer_close(tw_timer_t* timer, tw_timer_close_cb cb);

/* Returns true from tw_timer_close on. */
TICKWHEEL_API int tw_timer_is_closing(const tw_timer_t* timer);

/* --- other threads ------------------------------------------------------------------------------------------------------ */

/* Posts calls to one service from any thread, also from several at once. It may outlive service and loop, and then returns
 * UV_ECANCELED. Not for use in a signal handler. A plain copy of the struct is not a second handle: use tw_remote_copy. Release
 * each handle once. */
typedef struct tw_remote_s {
  void* private_;
} tw_remote_t;

/* A posted timer, written by tw_remote_arm, to cancel it. It keeps 128 bytes allocated until it is released. */
typedef struct tw_remote_timer_s {
  void* private_[2];
} tw_remote_timer_t;

/* Keeps a loop alive while some thread still intends to post to it. */
typedef struct tw_hold_s {
  void* private_;
} tw_hold_t;

/* Called on the loop's thread with the `arg` of the post. */
typedef void (*tw_remote_cb)(void* arg);

/* Initialises a handle. Call it on the loop's thread, or before other threads are started. On an error the handle is empty: posts
 * return UV_ECANCELED, and it need not be released.
 *
 * 0: success.
 * UV_EINVAL: a pointer is null.
 * UV_ECANCELED: the service is closing or closed. */
TICKWHEEL_API TICKWHEEL_MUST_CHECK int tw_remote_init(tw_service_t* service, tw_remote_t* remote);
/* Makes `to` a second handle. Any thread. Returns 0, or UV_EINVAL for null. Requires: `to` is not yet initialised, or is
 * empty. */
TICKWHEEL_API TICKWHEEL_MUST_CHECK int tw_remote_copy(const tw_remote_t* from, tw_remote_t* to);
/* Releases the handle and leaves it empty. Any thread. Does nothing if `remote` is null. */
TICKWHEEL_API void tw_remote_release(tw_remote_t* remote);

/* Calls `cb(arg)` on the loop's thread once `timeout` ms have passed since this call. With a timeout of 0, calls it in the next
 * pass.
 *
 * 0: `cb` will run, unless the service closes first. A loop that is not alive does not poll, so `cb` then waits: a tw_hold_t keeps
 * the loop alive. On an error `cb` is not called.
 * UV_EINVAL: `remote` or `cb` is null.
 * UV_EAGAIN: max_queued posts wait until the loop takes them, or max_armed posts have not ended.
 * UV_ECANCELED: the service is closed, or the handle is empty.
 * UV_ENOMEM: no memory. */
TICKWHEEL_API TICKWHEEL_MUST_CHECK int tw_remote_post(const tw_remote_t* remote, tw_remote_cb cb, void* arg,
                                                      uint64_t timeout);
TICKWHEEL_API TICKWHEEL_MUST_CHECK int tw_remote_post_ns(const tw_remote_t* remote, tw_remote_cb cb, void* arg,
                                                         uint64_t timeout_ns);

/* As tw_remote_post, and sets `timer`, which can cancel the call. Returns UV_EINVAL also if `timer` is null. `timer` need not be
 * initialised, is overwritten, and on an error is empty. It is written before this function returns, but maybe after `cb` has
 * run. */
TICKWHEEL_API TICKWHEEL_MUST_CHECK int tw_remote_arm(const tw_remote_t* remote, tw_remote_cb cb, void* arg,
                                                     uint64_t timeout, tw_remote_timer_t* timer);
TICKWHEEL_API TICKWHEEL_MUST_CHECK int tw_remote_arm_ns(const tw_remote_t* remote, tw_remote_cb cb, void* arg,
                                                        uint64_t timeout_ns, tw_remote_timer_t* timer);

/* Result of tw_remote_timer_cancel. */
enum tw_outcome {
  TW_CANCELLED = 0, /* cancelled by this timer: the callback has not run and never will */
  TW_TOO_LATE = 1,  /* the callback is running or has run, or `timer` is empty */
  TW_CLOSED = 2     /* the service was closed first: the callback has not run and never will */
};

/* Cancels a posted timer. Any thread, several at once. Exactly one of this call, the callback and the closing of the service
 * wins. A second call returns the same outcome. Does not wait for a callback that is running. Returns an outcome, or UV_EINVAL
 * for null. */
TICKWHEEL_API int tw_remote_timer_cancel(tw_remote_timer_t* timer);
/* Releases the posted timer, which stays armed, and leaves `timer` empty. Call it once for each. Does nothing if `timer` is
 * null. */
TICKWHEEL_API void tw_remote_timer_release(tw_remote_timer_t* timer);

/* Initialises a hold. Call it on the loop's thread. On an error the hold is empty.
 *
 * 0: success.
 * UV_EINVAL: a pointer is null.
 * UV_ECANCELED: the service is closing or closed. */
TICKWHEEL_API TICKWHEEL_MUST_CHECK int tw_hold_init(tw_service_t* service, tw_hold_t* hold);
/* Releases the hold and leaves it empty. Any thread. Calls that were posted before are delivered before the loop may end. Does
 * nothing if `hold` is null. */
TICKWHEEL_API void tw_hold_release(tw_hold_t* hold);

/* --- reports -------------------------------------------------------------------------------------------------------------- */

/* Identifies a callback of a timer or of a post: its address. Compare it with that of yours, as in
 * `handler == (tw_handler_t)on_timeout`. Do not call it. */
typedef void (*tw_handler_t)(void);

/* The cause of a stall. */
enum tw_stalled_by {
  TW_STALLED_BY_NOBODY = 0,         /* there was no stall */
  TW_STALLED_BY_LOOP_CALLBACKS = 1, /* callbacks of the loop that are not ours; or the process had no processor */
  TW_STALLED_BY_HANDLER = 2         /* a callback of a timer or of a post */
};

/* Why a callback runs late. `late_ns == rounding_ns + poll_ns + carried_ns + stall_ns`. expiry_report in
 * tickwheel/uv/expiry_report.hpp describes each part in detail. */
typedef struct tw_why_s {
  uint64_t late_ns;       /* how late it runs, at most */
  uint64_t rounding_ns;   /* up to a tick, because deadlines are kept in ticks */
  uint64_t poll_ns;       /* from when it was due until the loop woke */
  uint64_t carried_ns;    /* while other callbacks ran, I/O had its turn, or input was read after a block */
  uint64_t stall_ns;      /* while the loop was away from its timers */
  uint64_t stalled_by;    /* a TW_STALLED_BY constant: the cause of the largest part of `stall_ns` */
  uint64_t stalled_by_ns; /* that part */
  tw_handler_t handler;   /* the callback, for TW_STALLED_BY_HANDLER; otherwise null */
} tw_why_t;

/* In a callback of a timer or of a post: writes to `why` how late it runs, and why. Elsewhere: the same of the last callback. `size` is
 * sizeof *why. A later version may have more fields: those that this version does not know are set to 0.
 *
 * 0: success.
 * UV_EINVAL: a pointer is null.
 * UV_ECANCELED: the service is closed. The last time to ask is between tw_service_close and its callback. */
TICKWHEEL_API TICKWHEEL_MUST_CHECK int tw_service_why(const tw_service_t* service, tw_why_t* why, size_t size);

/* Writes the same as a line for a log, with a zero at its end and no newline:
 *
 *   3.41 ms late: rounding 0.13, poll 0.90, carried 0.02, stall 2.36 (the handler on_flush)
 *
 * Writes at most `size` bytes, and cuts the rest. The text is UTF-8, and no character is cut. Returns `text`,
 * which may be null if `size` is 0. */
TICKWHEEL_API char* tw_service_why_text(const tw_service_t* service, char* text, size_t size);

/* Called for a callback that took the option `slow_handler_ns` or longer, after it has returned, in the same pass. May do everything
 * that a callback of a timer may. */
typedef void (*tw_slow_handler_cb)(tw_service_t* service, tw_handler_t handler, uint64_t took_ns);

/* Calls `cb` for each slow callback of timers and posts from now on; null: calls nothing any more. `cb` is not told of a callback that
 * closed the service, nor of slow ones among the 31 before that. No effect if the service is closing. */
TICKWHEEL_API void tw_service_on_slow_handler(tw_service_t* service, tw_slow_handler_cb cb);

/* Writes the state of the service to `out`: its counters, the number of active timers by callback and by when they are due, and the
 * slots of its wheel. Flushes `out`. For people: the form may change. Not for a hot path. Reads the clock.
 *
 * 0: success.
 * UV_EINVAL: a pointer is null.
 * UV_ECANCELED: the service is closed.
 * UV_EIO, UV_ENOMEM: not everything was written. */
TICKWHEEL_API int tw_service_dump(const tw_service_t* service, FILE* out);

/* The name of a callback. It is yours, and so is the text. A zero tw_name_t is empty. */
typedef struct tw_name_s {
  void* private_[5];
} tw_name_t;

/* Name a callback of timers, or of posts, until `name` is released. Reports and tw_handler_name then write `text`. Of several names
 * for one callback the latest counts. A text that is empty or null counts as none. Any thread, also while others ask for names.
 * Requires: `name` and `cb` are not null (checked); `name` is not yet initialised, or is empty. `name` stays at its address, and the
 * text unchanged, until `name` is released.
 *
 * A name may be released at any time. A plugin must release its names before it is unloaded: see TW_NAME_TIMER_CB. */
TICKWHEEL_API void tw_name_timer_cb(tw_name_t* name, tw_timer_cb cb, const char* text);
TICKWHEEL_API void tw_name_remote_cb(tw_name_t* name, tw_remote_cb cb, const char* text);
/* Withdraws the name, and leaves it empty. Any thread. Does nothing if `name` is null or empty. */
TICKWHEEL_API void tw_name_release(tw_name_t* name);

/* Name a function of this file while its program or plugin is loaded. Write one of these lines at file scope, below the function:
 *
 *   TW_NAME_TIMER_CB(on_timeout);
 *
 * Only for gcc and clang, which run functions when a module is loaded and unloaded. */
#if defined(__GNUC__)
#define TW_NAME_TIMER_CB(cb) TW_NAME_(cb, tw_name_timer_cb)
#define TW_NAME_REMOTE_CB(cb) TW_NAME_(cb, tw_name_remote_cb)
#define TW_NAME_(cb, name_it)                                                                               \
  static tw_name_t tw_name_of_##cb;                                                                         \
  __attribute__((constructor)) static void tw_name_begin_##cb(void) { name_it(&tw_name_of_##cb, cb, #cb); } \
  __attribute__((destructor)) static void tw_name_end_##cb(void) { tw_name_release(&tw_name_of_##cb); }     \
  struct tw_name_s /* takes the semicolon */
#endif

/* Writes the name of a callback, or its place in its module, such as "server+0x1ea66" for addr2line, or its address. Writes at most
 * `size` bytes, the last of which is a zero, and cuts the rest. The text is UTF-8: each other byte of a name is written as a question
 * mark, and no character is cut. Returns `text`, which may be null if `size` is 0. Any thread. */
TICKWHEEL_API char* tw_handler_name(tw_handler_t handler, char* text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
