/* The C interface, compiled as C: what a program relies on that has used uv_timer_t until now. */
#include "check.h"

#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tickwheel/tickwheel.h>
#include <unistd.h>
#include <uv.h>

/* --- a loop with a service, and timers that count ------------------------------------------------------------------------ */

static uv_loop_t loop;
static tw_service_t service;
static int service_closed;

static void on_service_closed(tw_service_t* s) {
  CHECK(s == &service);
  ++service_closed;
}

static void init_loop(void) {
  service_closed = 0;
  memset(&service, 0x5a, sizeof service); /* what was there before does not matter */
  CHECK_EQUAL(uv_loop_init(&loop), 0);
}

static void open_service_with(const tw_service_options_t* options) {
  init_loop();
  CHECK_EQUAL(tw_service_init_with(&loop, &service, options, sizeof *options), 0);
}

static void open_service(void) {
  init_loop();
  CHECK_EQUAL(tw_service_init(&loop, &service), 0);
}

static void run(void) { uv_run(&loop, UV_RUN_DEFAULT); }

static void end_loop(void) {
  run();
  CHECK_EQUAL(uv_loop_close(&loop), 0);
}

static void close_service(void) {
  tw_service_close(&service, on_service_closed);
  CHECK_EQUAL(service_closed, 0);
  end_loop();
  CHECK_EQUAL(service_closed, 1);
}

typedef struct {
  tw_timer_t timer;
  int ran;
  int closed;
  int order; /* of the closing */
  tw_timer_cb then;
} counted;

static int closings;

static void on_closed(tw_timer_t* t) {
  counted* c = (counted*)t->data;
  ++c->closed;
  c->order = ++closings;
}

static void on_timeout(tw_timer_t* t) {
  counted* c = (counted*)t->data;
  ++c->ran;
  if (c->then != NULL) c->then(t);
}

static void init(counted* c) {
  memset(c, 0x5a, sizeof *c);
  CHECK_EQUAL(tw_timer_init(&service, &c->timer), 0);
  c->timer.data = c;
  c->ran = c->closed = c->order = 0;
  c->then = NULL;
}

static void close_timer(counted* c) { tw_timer_close(&c->timer, on_closed); }

static int start(counted* c, uint64_t timeout, uint64_t repeat) {
  return tw_timer_start(&c->timer, on_timeout, timeout, repeat);
}

/* Runs the loop, and says how often `c` has run by then. */
static int run_of(const counted* c) {
  run();
  return c->ran;
}

static void close_it(tw_timer_t* t) { tw_timer_close(t, on_closed); }
static void close_its_service(tw_timer_t* t) {
  (void)t;
  tw_service_close(&service, on_service_closed);
}

/* --- kinds of tests ------------------------------------------------------------------------------------------------------ */

static counted first, second; /* for the test: initialised, and closed afterwards if they are not */

/* What `first` answers that is closing, or whose service is: it stays inactive, and keeps what it is told. */
static void check_answers_of_ended(int start_code, int again_code, uint64_t due, int loses_ref) {
  CHECK_EQUAL(start(&first, 1, 0), start_code);
  CHECK_EQUAL(tw_timer_again(&first.timer), again_code);
  CHECK_EQUAL(tw_timer_stop(&first.timer), 0);
  CHECK_EQUAL(tw_timer_touch(&first.timer), 0);
  CHECK(!tw_timer_is_active(&first.timer));
  tw_timer_set_repeat(&first.timer, 7);
  CHECK_EQUAL(tw_timer_get_repeat(&first.timer), 7);
  CHECK(tw_timer_get_due_in(&first.timer) <= due);
  tw_timer_unref(&first.timer);
  CHECK_EQUAL(tw_timer_has_ref(&first.timer), !loses_ref);
  tw_timer_ref(&first.timer);
  CHECK(tw_timer_has_ref(&first.timer));
}

static void set_up(const tw_service_options_t* options) {
  if (options == NULL)
    open_service();
  else
    open_service_with(options);
  init(&first);
  init(&second);
}
static void close_unless_closed(counted* c) {
  if (c->closed == 0 && !tw_timer_is_closing(&c->timer)) close_timer(c);
}
static void tear_down(void) {
  close_unless_closed(&first);
  close_unless_closed(&second);
  close_service();
}

/* The test begins with an open service and two timers, and closes the service itself. */
#define OPENED_TEST(name) FIXTURE_TEST(name, set_up(NULL), (void)0)
#define OPENED_TEST_WITH(name, ...) FIXTURE_TEST(name, set_up(&(const tw_service_options_t){__VA_ARGS__}), (void)0)
/* Both are closed after it. */
#define TIMER_TEST(name) FIXTURE_TEST(name, set_up(NULL), tear_down())
#define TIMER_TEST_WITH(name, ...) FIXTURE_TEST(name, set_up(&(const tw_service_options_t){__VA_ARGS__}), tear_down())

/* --- start, stop, repeat ------------------------------------------------------------------------------------------------- */

TEST(version_is_that_of_the_header) { CHECK(strcmp(tw_version_string(), TICKWHEEL_VERSION) == 0); }

TIMER_TEST(timer_runs_once_and_never_early) {
  uv_sleep(15); /* the loop's own time is behind now */
  const uint64_t before = uv_hrtime();
  CHECK_EQUAL(start(&first, 10, 0), 0);
  CHECK(tw_timer_is_active(&first.timer));
  CHECK_EQUAL(run_of(&first), 1);
  CHECK(uv_hrtime() - before >= 10 * 1000000);
  CHECK(!tw_timer_is_active(&first.timer));
}

TIMER_TEST(nanosecond_timeout_is_never_early) {
  const uint64_t before = uv_hrtime();
  CHECK_EQUAL(tw_timer_start_ns(&first.timer, on_timeout, 1500000, 0), 0);
  CHECK(tw_timer_get_due_in_ns(&first.timer) <= 1500000);
  CHECK_EQUAL(run_of(&first), 1);
  CHECK(uv_hrtime() - before >= 1500000);
}

static void stop_after_three(tw_timer_t* t) {
  counted* c = (counted*)t->data;
  CHECK(tw_timer_is_active(t)); /* armed again before it is called */
  if (c->ran == 3) CHECK_EQUAL(tw_timer_stop(t), 0);
}

TIMER_TEST(repeat_goes_on_until_stop_in_callback) {
  first.then = stop_after_three;
  CHECK_EQUAL(start(&first, 0, 2), 0);
  CHECK_EQUAL(run_of(&first), 3);
  CHECK(!tw_timer_is_active(&first.timer));
}

static void stop_the_other(tw_timer_t* t) {
  CHECK_EQUAL(tw_timer_stop(t == &first.timer ? &second.timer : &first.timer), 0);
}

TIMER_TEST(timer_of_same_pass_can_be_stopped) {
  first.then = second.then = stop_the_other;
  CHECK_EQUAL(start(&first, 1, 0), 0);
  CHECK_EQUAL(start(&second, 1, 0), 0);
  uv_sleep(5);
  run();
  CHECK_EQUAL(first.ran + second.ran, 1); /* whichever expired first */
  CHECK(!tw_timer_is_active(&first.timer));
  CHECK(!tw_timer_is_active(&second.timer));
}

TIMER_TEST(again_without_repeat_changes_nothing) {
  CHECK_EQUAL(start(&first, 2, 0), 0);
  CHECK_EQUAL(tw_timer_again(&first.timer), 0);
  CHECK(tw_timer_is_active(&first.timer));
  CHECK_EQUAL(run_of(&first), 1);
  CHECK_EQUAL(tw_timer_again(&first.timer), 0);
  CHECK(!tw_timer_is_active(&first.timer));
}

TIMER_TEST(repeats_are_kept_in_nanoseconds) {
  CHECK_EQUAL(tw_timer_get_repeat(&first.timer), 0);
  tw_timer_set_repeat(&first.timer, 5);
  CHECK_EQUAL(tw_timer_get_repeat(&first.timer), 5);
  CHECK_EQUAL(tw_timer_get_repeat_ns(&first.timer), 5000000);
  tw_timer_set_repeat_ns(&first.timer, 1000001);
  CHECK_EQUAL(tw_timer_get_repeat_ns(&first.timer), 1000001);
  CHECK_EQUAL(tw_timer_get_repeat(&first.timer), 2);
  tw_timer_set_repeat(&first.timer, UINT64_MAX);
  CHECK(tw_timer_get_repeat(&first.timer) == UINT64_MAX);
  CHECK(tw_timer_get_repeat_ns(&first.timer) == UINT64_MAX);
}

TIMER_TEST(timer_beyond_the_clock_is_never_due) {
  CHECK_EQUAL(start(&first, UINT64_MAX, UINT64_MAX), 0);
  CHECK(tw_timer_is_active(&first.timer));
  CHECK(tw_timer_get_due_in(&first.timer) > (uint64_t)200 * 365 * 86400 * 1000);
  uv_run(&loop, UV_RUN_NOWAIT);
  CHECK_EQUAL(first.ran, 0);
  CHECK_EQUAL(tw_timer_touch(&first.timer), 0);
  CHECK(tw_timer_is_active(&first.timer));
}

TIMER_TEST(due_in_counts_down_and_rounds_up) {
  CHECK_EQUAL(tw_timer_get_due_in(&first.timer), 0);
  CHECK_EQUAL(start(&first, 100000, 0), 0);
  const uint64_t due = tw_timer_get_due_in(&first.timer);
  CHECK(due <= 100000 && due > 90000);
  uv_sleep(2);
  CHECK(tw_timer_get_due_in(&first.timer) < 100000);
  CHECK(tw_timer_get_due_in_ns(&first.timer) <= 100000ull * 1000000 - 2000000);
  CHECK_EQUAL(tw_timer_stop(&first.timer), 0);
  CHECK(tw_timer_get_due_in(&first.timer) > 0); /* of one that was stopped: how long it would have been */
}

TIMER_TEST(touch_of_repeating_timer_gives_whole_repeat) {
  CHECK_EQUAL(start(&first, 0, 50000), 0);
  while (first.ran == 0) uv_run(&loop, UV_RUN_ONCE);
  CHECK_EQUAL(tw_timer_touch(&first.timer), 0);
  const uint64_t due = tw_timer_get_due_in(&first.timer);
  CHECK(due > 40000 && due <= 50000);
}

TIMER_TEST(touch_of_inactive_timer_does_nothing) {
  CHECK_EQUAL(tw_timer_touch(&first.timer), 0);
  CHECK(!tw_timer_is_active(&first.timer));
  CHECK_EQUAL(start(&first, 1, 0), 0);
  run();
  CHECK_EQUAL(tw_timer_touch(&first.timer), 0);
  CHECK(!tw_timer_is_active(&first.timer));
  CHECK_EQUAL(run_of(&first), 1);
}

TIMER_TEST(init_leaves_data_alone) {
  static tw_timer_t t; /* closed after the test */
  int mine;
  t.data = &mine;
  CHECK_EQUAL(tw_timer_init(&service, &t), 0);
  CHECK(t.data == &mine);
  tw_timer_close(&t, NULL);
}

/* --- references ------------------------------------------------------------------------------------------------------------ */

TIMER_TEST(unreferenced_timer_does_not_hold_the_loop) {
  CHECK(tw_timer_has_ref(&first.timer));
  CHECK_EQUAL(start(&first, 100000, 0), 0);
  CHECK(uv_loop_alive(&loop));
  tw_timer_unref(&first.timer);
  tw_timer_unref(&first.timer);
  CHECK(!tw_timer_has_ref(&first.timer));
  CHECK(!uv_loop_alive(&loop));
  tw_timer_ref(&first.timer);
  CHECK(tw_timer_has_ref(&first.timer));
  CHECK(uv_loop_alive(&loop));
}

TIMER_TEST(unreferenced_service_does_not_hold_the_loop) {
  CHECK(tw_service_has_ref(&service));
  CHECK_EQUAL(start(&first, 100000, 0), 0);
  tw_service_unref(&service);
  CHECK(!tw_service_has_ref(&service));
  CHECK(!uv_loop_alive(&loop));
  tw_service_ref(&service);
  CHECK(uv_loop_alive(&loop));
}

/* --- closing --------------------------------------------------------------------------------------------------------------- */

TIMER_TEST(close_callbacks_come_later_and_in_order) {
  counted never_started;
  closings = 0;
  init(&never_started);
  CHECK_EQUAL(start(&first, 0, 1), 0);
  CHECK_EQUAL(start(&second, 0, 1), 0);
  CHECK(!tw_timer_is_closing(&first.timer));
  close_timer(&second);
  close_timer(&first);
  close_timer(&never_started);
  CHECK(tw_timer_is_closing(&first.timer));
  CHECK(!tw_timer_is_active(&first.timer));
  CHECK_EQUAL(closings, 0);
  CHECK(uv_loop_alive(&loop));
  run();
  CHECK_EQUAL(second.order, 1);
  CHECK_EQUAL(first.order, 2);
  CHECK_EQUAL(never_started.order, 3);
  CHECK_EQUAL(first.ran + second.ran, 0);
}

TIMER_TEST(closing_timer_answers_as_that_of_libuv) {
  CHECK_EQUAL(start(&first, 5, 5), 0);
  close_timer(&first);
  check_answers_of_ended(UV_EINVAL, 0, 5, 1);
  CHECK_EQUAL(run_of(&first), 0);
  CHECK_EQUAL(first.closed, 1);
}

TIMER_TEST(timer_may_be_closed_in_own_callback) {
  first.then = close_it;
  CHECK_EQUAL(start(&first, 0, 1), 0);
  CHECK_EQUAL(run_of(&first), 1);
  CHECK_EQUAL(first.closed, 1);
}

static int freed;
static void free_it(tw_timer_t* t) {
  free(t);
  ++freed;
}

TIMER_TEST(close_callback_may_free_the_timer) {
  freed = 0;
  for (int i = 0; i != 3; ++i) {
    tw_timer_t* t = malloc(sizeof *t);
    CHECK_EQUAL(tw_timer_init(&service, t), 0);
    CHECK_EQUAL(tw_timer_start(t, on_timeout, 1000, 1000), 0);
    CHECK_EQUAL(tw_timer_stop(t), 0);
    tw_timer_close(t, free_it);
  }
  run();
  CHECK_EQUAL(freed, 3);
}

static void close_second(tw_timer_t* t) {
  on_closed(t);
  close_timer(&second);
  CHECK_EQUAL(second.closed, 0);
}

TIMER_TEST(close_callback_may_close_another_timer) {
  tw_timer_close(&first.timer, close_second);
  uv_run(&loop, UV_RUN_NOWAIT);
  CHECK_EQUAL(first.closed, 1);
  CHECK_EQUAL(second.closed, 0);
  CHECK(uv_loop_alive(&loop));
  run();
  CHECK_EQUAL(second.closed, 1);
}

static void init_again(tw_timer_t* t) {
  on_closed(t);
  CHECK_EQUAL(tw_timer_init(&service, t), 0);
  CHECK_EQUAL(tw_timer_start(t, on_timeout, 1, 0), 0);
}

TIMER_TEST(closed_timer_may_be_initialised_again) {
  tw_timer_close(&first.timer, init_again);
  run();
  CHECK_EQUAL(first.closed, 1);
  CHECK_EQUAL(first.ran, 1);
}

OPENED_TEST(close_callbacks_may_be_null) {
  tw_timer_close(&first.timer, NULL);
  tw_service_close(&service, NULL);
  end_loop();
  CHECK_EQUAL(first.closed + service_closed, 0);
}

/* --- closing the service ----------------------------------------------------------------------------------------------------- */

OPENED_TEST(loop_closes_only_after_its_service) {
  CHECK_EQUAL(uv_loop_close(&loop), UV_EBUSY);
  tw_service_close(&service, NULL);
  CHECK_EQUAL(uv_loop_close(&loop), UV_EBUSY);
  end_loop();
}

OPENED_TEST(closing_service_stops_and_refuses_timers) {
  CHECK_EQUAL(start(&first, 0, 1), 0);
  CHECK(!tw_service_is_closing(&service));
  tw_service_close(&service, on_service_closed);
  CHECK(tw_service_is_closing(&service));
  CHECK(!tw_timer_is_active(&first.timer));
  check_answers_of_ended(UV_ECANCELED, UV_ECANCELED, 1, 1);
  CHECK_EQUAL(tw_timer_start_ns(&first.timer, on_timeout, 1, 0), UV_ECANCELED);
  CHECK(!tw_timer_is_closing(&first.timer));
  CHECK_EQUAL(tw_timer_init(&service, &second.timer), UV_ECANCELED);
  tw_service_unref(&service);
  CHECK(!tw_service_has_ref(&service));
  tw_service_ref(&service);
  CHECK(tw_service_has_ref(&service));
  tw_service_use_on_this_thread(&service);
  CHECK_EQUAL(tw_service_after_fork(&service), UV_ECANCELED);
  end_loop();
  CHECK_EQUAL(first.ran, 0);
  CHECK_EQUAL(service_closed, 1);
}

static void on_closed_last(tw_service_t* s) {
  on_service_closed(s);
  CHECK_EQUAL(first.closed, 1);
}

OPENED_TEST(service_closes_after_timers_closed_before) {
  tw_service_close(&service, on_closed_last);
  close_timer(&first);
  end_loop();
  CHECK_EQUAL(service_closed, 1);
}

OPENED_TEST(timer_may_be_closed_after_its_service) {
  CHECK_EQUAL(start(&first, 1, 1), 0);
  tw_service_close(&service, on_service_closed);
  run();
  CHECK_EQUAL(service_closed, 1);
  memset(&service, 0x5a, sizeof service);
  check_answers_of_ended(UV_ECANCELED, UV_ECANCELED, 1, 0); /* nothing is there any more to tell of a reference */
  CHECK(!tw_timer_is_closing(&first.timer));
  close_timer(&first);
  CHECK_EQUAL(first.closed, 0);
  CHECK_EQUAL(start(&first, 1, 0), UV_EINVAL);
  end_loop();
  CHECK_EQUAL(first.closed, 1);
  CHECK_EQUAL(first.ran, 0);
}

OPENED_TEST(timer_callback_may_close_the_service) {
  first.then = close_its_service;
  CHECK_EQUAL(start(&first, 1, 1), 0);
  CHECK_EQUAL(start(&second, 5, 1), 0);
  end_loop();
  CHECK_EQUAL(first.ran, 1);
  CHECK_EQUAL(second.ran, 0);
  CHECK_EQUAL(service_closed, 1);
}

static void close_service_of_closed(tw_timer_t* t) {
  on_closed(t);
  tw_service_close(&service, on_service_closed);
  CHECK_EQUAL(service_closed, 0);
}

OPENED_TEST(close_callback_may_close_the_service) {
  tw_timer_close(&first.timer, close_service_of_closed);
  end_loop();
  CHECK_EQUAL(first.closed, 1);
  CHECK_EQUAL(service_closed, 1);
}

static void free_service(tw_service_t* s) {
  free(s);
  ++service_closed;
}

TEST(close_callback_of_service_may_free_it) {
  tw_service_t* s = malloc(sizeof *s);
  service_closed = 0;
  CHECK_EQUAL(uv_loop_init(&loop), 0);
  CHECK_EQUAL(tw_service_init(&loop, s), 0);
  tw_service_close(s, free_service);
  end_loop();
  CHECK_EQUAL(service_closed, 1);
}

static void reopen(tw_service_t* s) {
  ++service_closed;
  CHECK_EQUAL(tw_service_init(&loop, s), 0);
}

TIMER_TEST(closed_service_may_be_opened_again) {
  tw_service_close(&service, reopen);
  run();
  CHECK_EQUAL(service_closed, 1);
  service_closed = 0;
}

static void close_what_is_not_ours(uv_handle_t* h, void* arg) {
  int* left = (int*)arg;
  if (tw_service_owns(&service, h))
    ++*left;
  else if (!uv_is_closing(h))
    uv_close(h, NULL);
}

TIMER_TEST(walk_tells_handles_of_the_service) {
  uv_timer_t other;
  int left = 0;
  uv_timer_init(&loop, &other);
  close_timer(&first);
  uv_walk(&loop, close_what_is_not_ours, &left);
  CHECK(left > 0);
  CHECK(uv_is_closing((uv_handle_t*)&other));
  CHECK(!tw_service_owns(&service, NULL));
  run();
  CHECK_EQUAL(first.closed, 1);
}

static void note_what_is_the_services(uv_handle_t* h, void* arg) {
  if (tw_service_owns(&service, h)) *(uv_handle_t**)arg = h;
}

OPENED_TEST(closing_service_owns_no_handle) {
  uv_handle_t* its = NULL;
  uv_walk(&loop, note_what_is_the_services, &its);
  CHECK(its != NULL);
  tw_service_close(&service, on_service_closed);
  CHECK(!tw_service_owns(&service, its));
  CHECK(uv_is_closing(its));
  end_loop();
}

OPENED_TEST(walk_after_close_may_close_all_handles) {
  uv_timer_t other;
  int left = 0;
  uv_timer_init(&loop, &other);
  tw_service_close(&service, on_service_closed);
  run();
  CHECK_EQUAL(service_closed, 1);
  uv_walk(&loop, close_what_is_not_ours, &left);
  CHECK_EQUAL(left, 0);
  CHECK(uv_is_closing((uv_handle_t*)&other));
  end_loop();
}

TEST(closed_loop_is_refused) {
  uv_loop_t ended;
  tw_service_t s;
  CHECK_EQUAL(uv_loop_init(&ended), 0);
  CHECK_EQUAL(uv_loop_close(&ended), 0);
  CHECK_EQUAL(tw_service_init(&ended, &s), UV_EINVAL);
  CHECK_EQUAL(tw_service_init(NULL, &s), UV_EINVAL);
}

/* --- options, and what was counted ---------------------------------------------------------------------------------------- */

static tw_service_stats_t counts(void) {
  tw_service_stats_t stats;
  memset(&stats, 0x5a, sizeof stats);
  CHECK_EQUAL(tw_service_stats(&service, &stats, sizeof stats), 0);
  return stats;
}

TIMER_TEST_WITH(max_armed_bounds_active_timers, .max_armed = 1) {
  CHECK_EQUAL(start(&first, 100000, 0), 0);
  CHECK_EQUAL(start(&second, 1, 7), UV_ENOBUFS);
  CHECK(!tw_timer_is_active(&second.timer));
  CHECK_EQUAL(tw_timer_get_repeat(&second.timer), 0);
  CHECK_EQUAL(counts().refused, 1);
  CHECK_EQUAL(start(&first, 200000, 0), 0); /* it has its place */
  CHECK_EQUAL(tw_timer_stop(&first.timer), 0);
  CHECK_EQUAL(start(&second, 1, 0), 0);
  CHECK_EQUAL(tw_timer_again(&first.timer), 0); /* it has no repeat */
  tw_timer_set_repeat(&first.timer, 5);
  CHECK_EQUAL(tw_timer_again(&first.timer), UV_ENOBUFS);
}

/* Each of them runs in a pass of its own. */
static void run_three_at_once(void) {
  static counted several[3]; /* closed after the test */
  for (int i = 0; i != 3; ++i) {
    init(&several[i]);
    CHECK_EQUAL(start(&several[i], 1, 0), 0);
  }
  uv_sleep(5); /* so that one pass finds all of them */
  run();
  CHECK_EQUAL(several[0].ran + several[1].ran + several[2].ran, 3);
  CHECK(counts().carried >= 2);
  for (int i = 0; i != 3; ++i) close_timer(&several[i]);
}

TIMER_TEST_WITH(work_per_pass_bounds_a_pass, .work_per_pass = 1) { run_three_at_once(); }
TIMER_TEST_WITH(time_per_pass_bounds_a_pass, .time_per_pass_ns = 1) { run_three_at_once(); }

static void take_two_milliseconds(tw_timer_t* t) {
  (void)t;
  uv_sleep(2);
}

TEST(options_say_what_is_slow_and_what_is_a_stall) {
  const tw_service_options_t strict = {.slow_handler_ns = 2000000, .stall_grace_ns = 1000};
  const tw_service_options_t patient = {.slow_handler_ns = UINT64_MAX, .stall_grace_ns = UINT64_MAX};
  for (int i = 0; i != 2; ++i) {
    set_up(i == 0 ? &strict : &patient);
    first.then = take_two_milliseconds;
    CHECK_EQUAL(start(&first, 0, 0), 0);
    run();
    CHECK_EQUAL(start(&first, 0, 0), 0);
    run();
    CHECK_EQUAL(counts().slow_handlers, i == 0 ? 2 : 0);
    CHECK_EQUAL(counts().stalls != 0, i == 0);
    CHECK_EQUAL(counts().stalled_ns != 0, i == 0);
    tear_down();
  }
}

TEST(timers_are_due_at_the_end_of_a_tick) {
  const uint64_t before = uv_hrtime(); /* before set_up, where the first tick begins */
  set_up(&(const tw_service_options_t){.tick_ns = 100000000});
  CHECK_EQUAL(start(&first, 1, 0), 0);
  run();
  CHECK(uv_hrtime() - before >= 1u << 26); /* the tick, rounded down */
  tear_down();
}

#ifdef __linux__
static void count_polled(uv_handle_t* h, void* arg) {
  if (h->type == UV_POLL && tw_service_owns(&service, h)) ++*(int*)arg;
}

TIMER_TEST_WITH(timerfd_wakes_the_loop_if_asked_for, .wakeup = TW_WAKE_BY_TIMERFD) {
  int polled = 0;
  uv_walk(&loop, count_polled, &polled);
  CHECK_EQUAL(polled, 1);
  CHECK_EQUAL(start(&first, 1, 0), 0);
  CHECK_EQUAL(run_of(&first), 1);
}
#endif

static void take_twenty_milliseconds(tw_timer_t* t) {
  (void)t;
  uv_sleep(20);
}

/* After a block a timer waits for two polls that leave nothing behind, or for one. */
TEST(timers_wait_for_input_as_io_wait_says) {
  const tw_service_options_t patient = {.io_wait = 1};
  const tw_service_options_t hasty = {.io_wait = TW_IO_WAIT_NONE};
  for (int i = 0; i != 2; ++i) {
    set_up(i == 0 ? &patient : &hasty);
    first.then = take_twenty_milliseconds;
    CHECK_EQUAL(start(&first, 1, 0), 0);
    CHECK_EQUAL(start(&second, 10, 0), 0);
    run();
    CHECK_EQUAL(second.ran, 1);
    CHECK_EQUAL(counts().passes, i == 0 ? 3 : 2);
    tear_down();
  }
}

static void check_refused(const tw_service_options_t* options, size_t size, int code) {
  CHECK_EQUAL(uv_loop_init(&loop), 0);
  CHECK_EQUAL(tw_service_init_with(&loop, &service, options, size), code);
  CHECK(tw_service_is_closing(&service)); /* nothing is to be closed */
  end_loop();
}

TEST(invalid_options_are_refused) {
  const tw_service_options_t refused[] = {
      {.slots = 3},
      {.levels = UINT64_MAX},
      {.levels = (1ull << 32) + 3}, /* what 32 bits keep of it could be */
      {.slots = (1ull << 32) + 1024},
  };
  for (size_t i = 0; i != sizeof refused / sizeof refused[0]; ++i)
    check_refused(&refused[i], sizeof refused[i], UV_EINVAL);
}

TEST(options_without_valid_size_are_refused) {
  const tw_service_options_t options = {.max_armed = 1};
  check_refused(&options, 0, UV_EINVAL);
  check_refused(&options, sizeof options - 4, UV_EINVAL);
}

TEST(unknown_wakeup_is_not_supported) {
  const tw_service_options_t options = {.wakeup = TW_WAKE_BY_TIMERFD + 1};
  check_refused(&options, sizeof options, UV_ENOTSUP);
}

TIMER_TEST_WITH(levels_and_slots_shape_the_wheel, .levels = 1, .slots = 64) {
  CHECK_EQUAL(start(&first, 20, 0), 0); /* more than a turn of the wheel */
  CHECK_EQUAL(run_of(&first), 1);
}

TEST(options_of_an_older_program_are_taken) {
  const tw_service_options_t options = {.max_armed = 1, .slots = 3};
  counted c, other;
  init_loop();
  CHECK_EQUAL(tw_service_init_with(&loop, &service, &options, offsetof(tw_service_options_t, max_queued)), 0);
  init(&c);
  init(&other);
  CHECK_EQUAL(start(&c, 1, 0), 0);
  CHECK_EQUAL(start(&other, 1, 0), UV_ENOBUFS);
  close_timer(&c);
  close_timer(&other);
  close_service();
}

TEST(unknown_options_of_newer_program_are_refused) {
  struct {
    tw_service_options_t known;
    uint64_t unknown;
  } options = {{.max_armed = 1}, 0};
  service_closed = 0;
  CHECK_EQUAL(uv_loop_init(&loop), 0);
  options.unknown = 1;
  CHECK_EQUAL(tw_service_init_with(&loop, &service, &options.known, sizeof options), UV_ENOTSUP);
  CHECK(tw_service_is_closing(&service));
  options.unknown = 0;
  CHECK_EQUAL(tw_service_init_with(&loop, &service, &options.known, sizeof options), 0);
  close_service();
}

TEST(options_may_be_null) {
  init_loop();
  CHECK_EQUAL(tw_service_init_with(&loop, &service, NULL, sizeof(tw_service_options_t)), 0);
  close_service();
}

static void count_when_closed(tw_service_t* s) {
  tw_service_stats_t stats;
  on_service_closed(s);
  CHECK_EQUAL(tw_service_stats(s, &stats, sizeof stats), UV_ECANCELED);
}

OPENED_TEST(stats_are_readable_until_close_callback) {
  counted left;
  init(&left);
  first.then = stop_after_three;
  CHECK_EQUAL(start(&first, 0, 1), 0);
  CHECK_EQUAL(start(&second, 100000, 0), 0);
  CHECK_EQUAL(tw_timer_stop(&second.timer), 0);
  run();
  CHECK_EQUAL(start(&left, 100000, 0), 0);
  tw_service_stats_t stats = counts();
  CHECK_EQUAL(stats.fired, 3);
  CHECK_EQUAL(stats.cancelled, 2);
  CHECK_EQUAL(stats.pending, 1);
  CHECK_EQUAL(stats.armed, 6);
  CHECK(stats.passes >= 3);
  CHECK(stats.wakeups >= 1);
  tw_service_close(&service, count_when_closed);
  stats = counts();
  CHECK_EQUAL(stats.cancelled, 3);
  CHECK_EQUAL(stats.pending, 0);
  end_loop();
  CHECK_EQUAL(service_closed, 1);
}

TIMER_TEST(stats_size_may_be_older_or_newer) {
  struct {
    tw_service_stats_t known;
    uint64_t unknown;
  } stats;
  CHECK_EQUAL(start(&first, 100000, 0), 0);
  memset(&stats, 0x5a, sizeof stats);
  CHECK_EQUAL(tw_service_stats(&service, &stats.known, offsetof(tw_service_stats_t, fired)), 0);
  CHECK_EQUAL(stats.known.armed, 1);
  CHECK_EQUAL(stats.known.fired, 0x5a5a5a5a5a5a5a5a);
  CHECK_EQUAL(tw_service_stats(&service, &stats.known, sizeof stats), 0);
  CHECK_EQUAL(stats.known.pending, 1);
  CHECK_EQUAL(stats.unknown, 0);
}

TIMER_TEST(busy_and_idle_time_are_told) {
  first.then = take_two_milliseconds;
  CHECK_EQUAL(start(&first, 20, 0), 0);
  run();
  CHECK_EQUAL(start(&second, 0, 0), 0); /* the iteration that it took counts once the loop runs again */
  run();
  const tw_service_stats_t stats = counts();
  CHECK(stats.busy_ns >= 2000000);
  CHECK(stats.idle_ns >= 15000000);
  CHECK(stats.iterations >= 2);
  CHECK(stats.longest_ns >= 2000000);
  CHECK(stats.longest_ns <= stats.busy_ns);
}

TIMER_TEST(lateness_and_handler_time_are_told) {
  CHECK_EQUAL(tw_service_handler_time_ns(&service, 1), 0);
  CHECK_EQUAL(tw_service_lateness_ns(&service, 1), 0);
  first.then = take_two_milliseconds;
  CHECK_EQUAL(start(&first, 0, 0), 0);
  CHECK_EQUAL(start(&second, 1, 0), 0);
  uv_sleep(5);
  run();
  CHECK(tw_service_handler_time_ns(&service, 1) >= 2000000);
  CHECK(tw_service_lateness_ns(&service, 1) >= 3000000);
  CHECK(tw_service_lateness_ns(&service, 0.5) <= tw_service_lateness_ns(&service, 1));
}

/* --- other threads ----------------------------------------------------------------------------------------------------------- */

static tw_remote_t remote;
static tw_hold_t hold;
static uv_thread_t loop_thread;

static void add_one(void* arg) {
  uv_thread_t self = uv_thread_self();
  CHECK(uv_thread_equal(&self, &loop_thread));
  ++*(int*)arg;
}

static void post_and_let_go(void* arg) {
  tw_remote_t mine;
  CHECK_EQUAL(tw_remote_copy(&remote, &mine), 0);
  uv_sleep(3);
  CHECK_EQUAL(tw_remote_post(&mine, add_one, arg, 0), 0);
  CHECK_EQUAL(tw_remote_post(&mine, add_one, arg, 2), 0);
  CHECK_EQUAL(tw_remote_post_ns(&mine, add_one, arg, 1000), 0);
  tw_remote_release(&mine);
  tw_hold_release(&hold);
}

TIMER_TEST(other_thread_posts_to_a_held_loop) {
  uv_thread_t other;
  int ran = 0;
  loop_thread = uv_thread_self();
  CHECK_EQUAL(tw_remote_init(&service, &remote), 0);
  CHECK_EQUAL(tw_hold_init(&service, &hold), 0);
  CHECK(uv_loop_alive(&loop));
  CHECK_EQUAL(uv_thread_create(&other, post_and_let_go, &ran), 0);
  run(); /* until the hold is released, and what was posted has run */
  uv_thread_join(&other);
  CHECK_EQUAL(ran, 3);
  tw_remote_release(&remote);
  tw_hold_release(&hold); /* again: nothing */
}

OPENED_TEST(remote_timer_is_cancelled_runs_or_closes) {
  tw_remote_timer_t cancelled, late, closed;
  int ran = 0;
  loop_thread = uv_thread_self();
  CHECK_EQUAL(tw_remote_init(&service, &remote), 0);
  CHECK_EQUAL(tw_hold_init(&service, &hold), 0);
  CHECK_EQUAL(tw_remote_arm(&remote, add_one, &ran, 0, &cancelled), 0);
  CHECK_EQUAL(tw_remote_timer_cancel(&cancelled), TW_CANCELLED);
  CHECK_EQUAL(tw_remote_timer_cancel(&cancelled), TW_CANCELLED);
  CHECK_EQUAL(tw_remote_arm_ns(&remote, add_one, &ran, 1, &late), 0);
  while (ran == 0) uv_run(&loop, UV_RUN_ONCE);
  CHECK_EQUAL(tw_remote_timer_cancel(&late), TW_TOO_LATE);
  CHECK_EQUAL(tw_remote_arm(&remote, add_one, &ran, 100000, &closed), 0);
  tw_hold_release(&hold);
  tw_service_close(&service, on_service_closed);
  CHECK_EQUAL(counts().remote_accepted, 3);
  CHECK_EQUAL(counts().remote_withdrawn, 1);
  CHECK_EQUAL(counts().remote_ran, 1);
  CHECK_EQUAL(counts().remote_cancelled, 1);
  end_loop();
  CHECK_EQUAL(service_closed, 1);
  CHECK_EQUAL(tw_remote_timer_cancel(&closed), TW_CLOSED);
  CHECK_EQUAL(ran, 1);
  tw_remote_timer_release(&cancelled);
  tw_remote_timer_release(&late);
  tw_remote_timer_release(&closed);
  CHECK_EQUAL(tw_remote_timer_cancel(&closed), TW_TOO_LATE); /* empty */
  tw_remote_timer_release(&closed);
  tw_remote_release(&remote);
}

TIMER_TEST(released_remote_timer_still_runs) {
  tw_remote_timer_t t;
  int ran = 0;
  loop_thread = uv_thread_self();
  CHECK_EQUAL(tw_remote_init(&service, &remote), 0);
  CHECK_EQUAL(tw_remote_arm(&remote, add_one, &ran, 1, &t), 0);
  tw_remote_timer_release(&t);
  CHECK_EQUAL(tw_hold_init(&service, &hold), 0);
  tw_hold_release(&hold);
  run();
  CHECK_EQUAL(ran, 1);
  tw_remote_release(&remote);
}

OPENED_TEST_WITH(max_queued_bounds_waiting_posts, .max_queued = 1) {
  tw_remote_timer_t t;
  int ran = 0;
  CHECK_EQUAL(tw_remote_init(&service, &remote), 0);
  CHECK_EQUAL(tw_remote_post(&remote, add_one, &ran, 0), 0);
  CHECK_EQUAL(tw_remote_post(&remote, add_one, &ran, 0), UV_EAGAIN);
  CHECK_EQUAL(tw_remote_arm(&remote, add_one, &ran, 0, &t), UV_EAGAIN);
  CHECK_EQUAL(tw_remote_timer_cancel(&t), TW_TOO_LATE); /* empty */
  CHECK_EQUAL(counts().remote_accepted, 1);
  CHECK_EQUAL(counts().remote_refused, 2);
  CHECK_EQUAL(counts().remote_queued, 1);
  tw_service_close(&service, on_service_closed);
  CHECK_EQUAL(counts().remote_queued, 0);
  CHECK_EQUAL(counts().remote_cancelled, 1);
  end_loop();
  CHECK_EQUAL(ran, 0);
  tw_remote_release(&remote);
}

TEST(copy_of_empty_remote_is_empty) {
  tw_remote_t empty = {NULL}, copy;
  CHECK_EQUAL(tw_remote_copy(&empty, &copy), 0);
  CHECK_EQUAL(tw_remote_post(&copy, add_one, NULL, 0), UV_ECANCELED);
  tw_remote_release(&copy);
}

OPENED_TEST(remote_outlives_its_service) {
  tw_remote_t copy;
  tw_remote_timer_t t;
  CHECK_EQUAL(tw_remote_init(&service, &remote), 0);
  CHECK_EQUAL(tw_remote_copy(&remote, &copy), 0);
  tw_remote_release(&remote);
  CHECK_EQUAL(tw_remote_post(&remote, add_one, NULL, 0), UV_ECANCELED); /* empty */
  tw_service_close(&service, NULL);
  CHECK_EQUAL(tw_remote_post(&copy, add_one, NULL, 0), UV_ECANCELED);
  CHECK_EQUAL(tw_remote_init(&service, &remote), UV_ECANCELED);
  CHECK_EQUAL(tw_remote_post(&remote, add_one, NULL, 0), UV_ECANCELED);
  CHECK_EQUAL(tw_hold_init(&service, &hold), UV_ECANCELED);
  tw_hold_release(&hold);
  end_loop();
  CHECK_EQUAL(tw_remote_arm(&copy, add_one, NULL, 5, &t), UV_ECANCELED);
  CHECK_EQUAL(tw_remote_timer_cancel(&t), TW_TOO_LATE);
  tw_remote_timer_release(&t);
  tw_remote_release(&copy);
}

/* --- bad input ------------------------------------------------------------------------------------------------------------- */

TIMER_TEST(null_answers_EINVAL) {
  tw_remote_timer_t t;
  tw_service_stats_t stats;
  CHECK_EQUAL(tw_service_init(&loop, NULL), UV_EINVAL);
  CHECK_EQUAL(tw_service_init_with(&loop, NULL, NULL, 0), UV_EINVAL);
  CHECK_EQUAL(tw_service_stats(NULL, &stats, sizeof stats), UV_EINVAL);
  CHECK_EQUAL(tw_service_stats(&service, NULL, sizeof stats), UV_EINVAL);
  CHECK_EQUAL(tw_service_after_fork(NULL), UV_EINVAL);
  CHECK_EQUAL(tw_timer_init(NULL, &first.timer), UV_EINVAL);
  CHECK_EQUAL(tw_timer_init(&service, NULL), UV_EINVAL);
  CHECK_EQUAL(tw_timer_start(NULL, on_timeout, 1, 0), UV_EINVAL);
  CHECK_EQUAL(tw_timer_start_ns(NULL, on_timeout, 1, 0), UV_EINVAL);
  CHECK_EQUAL(tw_timer_start_ns(&first.timer, NULL, 1, 0), UV_EINVAL);
  CHECK_EQUAL(tw_timer_stop(NULL), UV_EINVAL);
  CHECK_EQUAL(tw_timer_again(NULL), UV_EINVAL);
  CHECK_EQUAL(tw_timer_touch(NULL), UV_EINVAL);
  CHECK_EQUAL(tw_remote_init(NULL, &remote), UV_EINVAL);
  CHECK_EQUAL(tw_remote_init(&service, NULL), UV_EINVAL);
  CHECK_EQUAL(tw_remote_init(&service, &remote), 0);
  CHECK_EQUAL(tw_remote_copy(NULL, &remote), UV_EINVAL);
  CHECK_EQUAL(tw_remote_copy(&remote, NULL), UV_EINVAL);
  CHECK_EQUAL(tw_remote_post(NULL, add_one, NULL, 0), UV_EINVAL);
  CHECK_EQUAL(tw_remote_post(&remote, NULL, NULL, 0), UV_EINVAL);
  CHECK_EQUAL(tw_remote_post_ns(NULL, add_one, NULL, 0), UV_EINVAL);
  CHECK_EQUAL(tw_remote_post_ns(&remote, NULL, NULL, 0), UV_EINVAL);
  CHECK_EQUAL(tw_remote_arm(NULL, add_one, NULL, 0, &t), UV_EINVAL);
  CHECK_EQUAL(tw_remote_arm(&remote, NULL, NULL, 0, &t), UV_EINVAL);
  CHECK_EQUAL(tw_remote_timer_cancel(&t), TW_TOO_LATE);
  CHECK_EQUAL(tw_remote_arm(&remote, add_one, NULL, 0, NULL), UV_EINVAL);
  CHECK_EQUAL(tw_remote_arm_ns(NULL, add_one, NULL, 0, &t), UV_EINVAL);
  CHECK_EQUAL(tw_remote_arm_ns(&remote, NULL, NULL, 0, &t), UV_EINVAL);
  CHECK_EQUAL(tw_remote_arm_ns(&remote, add_one, NULL, 0, NULL), UV_EINVAL);
  CHECK_EQUAL(tw_remote_timer_cancel(NULL), UV_EINVAL);
  CHECK_EQUAL(tw_hold_init(NULL, &hold), UV_EINVAL);
  CHECK_EQUAL(tw_hold_init(&service, NULL), UV_EINVAL);
  tw_remote_release(NULL);
  tw_remote_timer_release(NULL);
  tw_hold_release(NULL);
  tw_remote_release(&remote);
}

/* --- reports ------------------------------------------------------------------------------------------------------------- */

static char text[256];

/* What is in a file that a function writes. */
static void read_back(FILE* from, char* to, size_t size) {
  rewind(from);
  to[fread(to, 1, size - 1, from)] = '\0';
}

static void block_the_loop(tw_timer_t* t) {
  (void)t;
  uv_sleep(5);
}
static void take_five_milliseconds(tw_timer_t* t) {
  (void)t;
  uv_sleep(5);
}
static void post_that_blocks(void* arg) {
  (void)arg;
  uv_sleep(5);
}
static void function_without_name(tw_timer_t* t) { (void)t; }

static tw_why_t why_late;
static void ask_why(tw_timer_t* t) {
  (void)t;
  CHECK_EQUAL(tw_service_why(&service, &why_late, sizeof why_late), 0);
  CHECK(tw_service_why_text(&service, text, sizeof text) == text);
}

TW_NAME_TIMER_CB(block_the_loop);
TW_NAME_REMOTE_CB(post_that_blocks);

/* `second` expires while `blocks` keeps the loop, and asks why. */
static void expire_late(tw_timer_cb blocks) {
  CHECK_EQUAL(tw_timer_start(&first.timer, blocks, 10, 0), 0);
  CHECK_EQUAL(tw_timer_start(&second.timer, ask_why, 11, 0), 0);
  run();
}

TIMER_TEST(why_names_callback_that_blocked) {
  expire_late(block_the_loop);
  CHECK_EQUAL(why_late.stalled_by, TW_STALLED_BY_HANDLER);
  CHECK(why_late.handler == (tw_handler_t)block_the_loop);
  CHECK(why_late.stalled_by_ns >= 3000000);
  CHECK(why_late.stall_ns >= why_late.stalled_by_ns);
  CHECK_EQUAL(why_late.late_ns, why_late.rounding_ns + why_late.poll_ns + why_late.carried_ns + why_late.stall_ns);
  CHECK(strstr(text, "ms late: rounding 0.13, poll ") != NULL);
  CHECK(strstr(text, "(the handler block_the_loop)") != NULL);
}

TIMER_TEST(why_text_is_cut_at_its_size) {
  expire_late(block_the_loop);
  char cut[6] = "xxxxx";
  CHECK(tw_service_why_text(&service, cut, 5) == cut);
  CHECK(strncmp(cut, text, 4) == 0);
  CHECK_EQUAL(cut[4], 0);
  CHECK(tw_service_why_text(&service, cut, 0) == cut);
  CHECK(strncmp(cut, text, 4) == 0);
}

/* The text in a buffer of any size is the beginning of the whole one, and ends between two characters. */
TIMER_TEST(why_text_is_cut_between_characters) {
  static const char end[] = "(the handler caf\xc3\xa9 \xe2\x82\xac)";
  char cut[sizeof text];
  tw_name_t name;
  tw_name_timer_cb(&name, take_five_milliseconds, "caf\xc3\xa9 \xe2\x82\xac");
  expire_late(take_five_milliseconds);
  const size_t whole = strlen(text);
  CHECK(whole > sizeof end && strcmp(text + whole - (sizeof end - 1), end) == 0);
  for (size_t size = 1; size <= whole + 1; ++size) {
    size_t length = size - 1;
    while (((unsigned char)text[length] & 0xc0) == 0x80) --length;
    CHECK(tw_service_why_text(&service, cut, size) == cut);
    CHECK_EQUAL(strlen(cut), length);
    CHECK(strncmp(cut, text, length) == 0);
  }
  tw_name_release(&name);
}

TIMER_TEST(why_of_older_program_is_taken) {
  struct {
    uint64_t late_ns, after;
  } older = {0, 7};
  tw_why_t newer[2];
  expire_late(block_the_loop);
  CHECK_EQUAL(tw_service_why(&service, (tw_why_t*)&older, sizeof older.late_ns), 0);
  CHECK_EQUAL(older.late_ns, why_late.late_ns);
  CHECK_EQUAL(older.after, 7);
  memset(newer, 0x5a, sizeof newer);
  CHECK_EQUAL(tw_service_why(&service, newer, sizeof newer), 0);
  CHECK_EQUAL(newer[0].late_ns, why_late.late_ns);
  CHECK_EQUAL(newer[1].late_ns, 0);
}

static tw_handler_t slow[4];
static size_t slow_count;
static void note_slow(tw_service_t* s, tw_handler_t handler, uint64_t took_ns) {
  CHECK(s == &service);
  CHECK(took_ns >= 5000000);
  slow[slow_count++ % 4] = handler;
}

TIMER_TEST(slow_callbacks_of_timers_and_posts_are_told) {
  slow_count = 0;
  tw_service_on_slow_handler(&service, note_slow);
  CHECK_EQUAL(tw_timer_start(&first.timer, block_the_loop, 0, 0), 0);
  run();
  CHECK_EQUAL(slow_count, 1);
  CHECK(slow[0] == (tw_handler_t)block_the_loop);
  CHECK_EQUAL(tw_remote_init(&service, &remote), 0);
  for (uint64_t timeout = 0; timeout != 2; ++timeout) {
    CHECK_EQUAL(tw_hold_init(&service, &hold), 0);
    CHECK_EQUAL(tw_remote_post(&remote, post_that_blocks, NULL, timeout), 0);
    tw_hold_release(&hold);
    run();
    CHECK_EQUAL(slow_count, 2 + timeout);
    CHECK(slow[1 + timeout] == (tw_handler_t)post_that_blocks);
  }
  tw_remote_release(&remote);
  tw_service_on_slow_handler(&service, NULL);
  CHECK_EQUAL(tw_timer_start(&first.timer, block_the_loop, 0, 0), 0);
  run();
  CHECK_EQUAL(slow_count, 3);
}

static void close_slow(tw_service_t* s, tw_handler_t handler, uint64_t took_ns) {
  (void)handler;
  (void)took_ns;
  tw_service_close(s, on_service_closed);
}

OPENED_TEST(slow_callback_may_be_followed_by_close_of_service) {
  tw_service_on_slow_handler(&service, close_slow);
  CHECK_EQUAL(tw_timer_start(&first.timer, block_the_loop, 0, 0), 0);
  end_loop();
  CHECK_EQUAL(service_closed, 1);
}

TIMER_TEST(dump_counts_active_timers_by_callback) {
  char dumped[4096];
  FILE* const file = tmpfile();
  CHECK_EQUAL(tw_timer_start(&first.timer, block_the_loop, 500, 0), 0);
  CHECK_EQUAL(tw_timer_start(&second.timer, function_without_name, 5000, 0), 0);
  CHECK_EQUAL(tw_remote_init(&service, &remote), 0);
  CHECK_EQUAL(tw_remote_post(&remote, post_that_blocks, NULL, 5000), 0);
  uv_run(&loop, UV_RUN_NOWAIT); /* takes the post */
  uv_run(&loop, UV_RUN_NOWAIT);
  CHECK_EQUAL(tw_service_dump(&service, file), 0);
  read_back(file, dumped, sizeof dumped);
  fclose(file);
  CHECK(strstr(dumped, "timer_service: open") == dumped);
  CHECK(strstr(dumped, "armed for the handler block_the_loop: 1 in up to 1 s\n") != NULL);
  CHECK(strstr(dumped, "armed for the handler post_that_blocks: 1 in 1 to 10 s\n") != NULL);
  CHECK(strstr(dumped, "armed for the handler c_tests+0x") != NULL); /* static: its place */
  tw_remote_release(&remote);
}

TIMER_TEST(dump_says_that_file_is_full) {
  FILE* const full = fopen("/dev/full", "w");
  if (full == NULL) return; /* only Linux has it */
  setvbuf(full, NULL, _IONBF, 0);
  CHECK_EQUAL(tw_service_dump(&service, full), UV_EIO);
  fclose(full);
}

TIMER_TEST(dump_that_is_buffered_says_that_file_is_full) {
  FILE* const full = fopen("/dev/full", "w");
  if (full == NULL) return; /* only Linux has it */
  CHECK_EQUAL(tw_service_dump(&service, full), UV_EIO);
  fclose(full);
}

TIMER_TEST(dump_is_written_when_it_answers) {
  char dumped[4096];
  char path[] = "/tmp/tickwheel_dump_XXXXXX";
  const int written = mkstemp(path);
  FILE* const file = fdopen(dup(written), "w");
  CHECK_EQUAL(tw_service_dump(&service, file), 0);
  CHECK(pread(written, dumped, sizeof dumped, 0) > 0);
  fclose(file);
  close(written);
  unlink(path);
}

static const char* name_of(tw_timer_cb cb) { return tw_handler_name((tw_handler_t)cb, text, sizeof text); }

TEST(name_counts_until_it_is_released) {
  tw_name_t old_name, new_name, empty_name;
  CHECK(strstr(name_of(function_without_name), "c_tests+0x") == text);
  tw_name_timer_cb(&old_name, function_without_name, "old");
  CHECK(strcmp(name_of(function_without_name), "old") == 0);
  tw_name_timer_cb(&new_name, function_without_name, "new");
  tw_name_timer_cb(&empty_name, function_without_name, NULL);
  CHECK(strcmp(name_of(function_without_name), "new") == 0);
  tw_name_release(&new_name);
  tw_name_release(&new_name); /* is empty by now */
  CHECK(strcmp(name_of(function_without_name), "old") == 0);
  tw_name_release(&empty_name);
  tw_name_release(&old_name);
  CHECK(strstr(name_of(function_without_name), "c_tests+0x") == text);
  tw_name_release(NULL);
}

TEST(handler_name_is_cut_at_its_size) {
  char name[6] = "xxxxx";
  CHECK(tw_handler_name((tw_handler_t)block_the_loop, name, 6) == name);
  CHECK(strcmp(name, "block") == 0);
  CHECK(tw_handler_name((tw_handler_t)post_that_blocks, name, 0) == name);
  CHECK(strcmp(name, "block") == 0);
}

TIMER_TEST(reports_without_service_or_place_answer_EINVAL) {
  CHECK_EQUAL(tw_service_why(NULL, &why_late, sizeof why_late), UV_EINVAL);
  CHECK_EQUAL(tw_service_why(&service, NULL, sizeof why_late), UV_EINVAL);
  CHECK_EQUAL(tw_service_dump(NULL, stdout), UV_EINVAL);
  CHECK_EQUAL(tw_service_dump(&service, NULL), UV_EINVAL);
}

TEST(nameless_callbacks_stop_the_process) {
  tw_name_t name;
  STOPS(tw_name_timer_cb(NULL, block_the_loop, "it"), "a tw_name_t was null");
  STOPS(tw_name_timer_cb(&name, NULL, "it"), "a callback that is to be named was null");
  STOPS(tw_name_remote_cb(&name, NULL, "it"), "a callback that is to be named was null");
}

TEST(null_stops_the_process_elsewhere) {
  STOPS(tw_timer_is_active(NULL), "tw_timer_t was null");
  STOPS(tw_timer_is_closing(NULL), "tw_timer_t was null");
  STOPS(tw_timer_has_ref(NULL), "tw_timer_t was null");
  STOPS(tw_timer_ref(NULL), "tw_timer_t was null");
  STOPS(tw_timer_unref(NULL), "tw_timer_t was null");
  STOPS(tw_timer_set_repeat(NULL, 1), "tw_timer_t was null");
  STOPS(tw_timer_set_repeat_ns(NULL, 1), "tw_timer_t was null");
  STOPS(tw_timer_get_repeat(NULL), "tw_timer_t was null");
  STOPS(tw_timer_get_repeat_ns(NULL), "tw_timer_t was null");
  STOPS(tw_timer_get_due_in(NULL), "tw_timer_t was null");
  STOPS(tw_timer_get_due_in_ns(NULL), "tw_timer_t was null");
  STOPS(tw_timer_close(NULL, NULL), "tw_timer_t was null");
  STOPS(tw_service_close(NULL, NULL), "tw_service_t was null");
  STOPS(tw_service_is_closing(NULL), "tw_service_t was null");
  STOPS(tw_service_ref(NULL), "tw_service_t was null");
  STOPS(tw_service_unref(NULL), "tw_service_t was null");
  STOPS(tw_service_has_ref(NULL), "tw_service_t was null");
  STOPS(tw_service_owns(NULL, NULL), "tw_service_t was null");
  STOPS(tw_service_use_on_this_thread(NULL), "tw_service_t was null");
  STOPS(tw_service_lateness_ns(NULL, 1), "tw_service_t was null");
  STOPS(tw_service_handler_time_ns(NULL, 1), "tw_service_t was null");
  STOPS(tw_service_why_text(NULL, text, sizeof text), "tw_service_t was null");
  STOPS(tw_service_on_slow_handler(NULL, NULL), "tw_service_t was null");
}

OPENED_TEST(null_text_stops_the_process) {
  STOPS(tw_service_why_text(&service, NULL, 9), "tw_service_why_text: the text was null");
  STOPS(tw_handler_name((tw_handler_t)block_the_loop, NULL, 9), "tw_handler_name: the text was null");
  CHECK(tw_service_why_text(&service, NULL, 0) == NULL);
  CHECK(tw_handler_name((tw_handler_t)block_the_loop, NULL, 0) == NULL);
  close_service();
}

TIMER_TEST(second_close_stops_the_process) {
  STOPS((close_timer(&first), close_timer(&first)), "tw_timer_close: it is closing already");
  STOPS((tw_service_close(&service, NULL), tw_service_close(&service, NULL)),
        "tw_service_close: it is closing already");
}

OPENED_TEST(closed_service_is_known_by_its_memory) {
  tw_timer_t t;
  tw_service_stats_t stats;
  close_service();
  for (int i = 0; i != 2; ++i) {
    CHECK(tw_service_is_closing(&service));
    CHECK(!tw_service_owns(&service, NULL));
    CHECK_EQUAL(tw_timer_init(&service, &t), UV_ECANCELED);
    CHECK_EQUAL(tw_remote_init(&service, &remote), UV_ECANCELED);
    CHECK_EQUAL(tw_hold_init(&service, &hold), UV_ECANCELED);
    CHECK_EQUAL(tw_service_after_fork(&service), UV_ECANCELED);
    CHECK_EQUAL(tw_service_stats(&service, &stats, sizeof stats), UV_ECANCELED);
    CHECK_EQUAL(tw_service_why(&service, &why_late, sizeof why_late), UV_ECANCELED);
    CHECK_EQUAL(tw_service_dump(&service, stdout), UV_ECANCELED);
    STOPS(tw_service_why_text(&service, text, sizeof text), "tw_service_t was null, or closed");
    STOPS(tw_service_on_slow_handler(&service, NULL), "tw_service_t was null, or closed");
    STOPS(tw_service_ref(&service), "tw_service_t was null, or closed");
    STOPS(tw_service_unref(&service), "tw_service_t was null, or closed");
    STOPS(tw_service_has_ref(&service), "tw_service_t was null, or closed");
    STOPS(tw_service_use_on_this_thread(&service), "tw_service_t was null, or closed");
    STOPS(tw_service_close(&service, NULL), "tw_service_t was null, or closed");
    STOPS(tw_service_lateness_ns(&service, 1), "tw_service_t was null, or closed");
    STOPS(tw_service_handler_time_ns(&service, 1), "tw_service_t was null, or closed");
    memset(&service, 0, sizeof service); /* as one that was never opened */
  }
}

static void on_another_thread(void (*call)(void*)) {
  uv_thread_t other;
  uv_thread_create(&other, call, NULL);
  uv_thread_join(&other);
}

#define CALLS_ELSEWHERE(X)                                  \
  X(start, ignore(start(&first, 1, 0)))                     \
  X(stop, tw_timer_stop(&first.timer))                      \
  X(again, ignore(tw_timer_again(&first.timer)))            \
  X(touch, tw_timer_touch(&first.timer))                    \
  X(set_repeat, tw_timer_set_repeat(&first.timer, 1))       \
  X(set_repeat_ns, tw_timer_set_repeat_ns(&first.timer, 1)) \
  X(ref, tw_timer_ref(&first.timer))                        \
  X(unref, tw_timer_unref(&first.timer))                    \
  X(close, close_timer(&first))                             \
  X(hold, ignore(tw_hold_init(&service, &hold)))            \
  X(service_ref, tw_service_ref(&service))                  \
  X(service_unref, tw_service_unref(&service))              \
  X(service_close, tw_service_close(&service, NULL))        \
  X(on_slow, tw_service_on_slow_handler(&service, NULL))    \
  X(init, ignore(tw_timer_init(&service, &second.timer)))
#define DEFINE(name, call)                     \
  static void name##_elsewhere(void* unused) { \
    (void)unused;                              \
    call;                                      \
  }
CALLS_ELSEWHERE(DEFINE)
#define ROW(name, call) {#name, name##_elsewhere},
static const struct {
  const char* name;
  void (*call)(void*);
} calls_elsewhere[] = {CALLS_ELSEWHERE(ROW)};

static void use_and_start_elsewhere(void* unused) {
  (void)unused;
  tw_service_use_on_this_thread(&service);
  CHECK_EQUAL(start(&first, 1, 0), 0);
  run();
  CHECK_EQUAL(first.ran, 1);
}

TIMER_TEST(use_on_another_thread_stops_the_process) {
  for (int active = 0; active != 2; ++active) {
    for (size_t i = 0; i != sizeof calls_elsewhere / sizeof calls_elsewhere[0]; ++i) {
      STOPS_NAMED(
          calls_elsewhere[i].name, on_another_thread(calls_elsewhere[i].call),
          "wrong thread: a service, or a timer of it, was used on a thread that does not run its loop "
          "(post to it by timer_service::remote; if no thread runs the loop now, use_on_this_thread hands it over)");
    }
    CHECK_EQUAL(start(&first, 100, 0), 0);
  }
  CHECK_EQUAL(tw_timer_stop(&first.timer), 0);
  on_another_thread(use_and_start_elsewhere);
  tw_service_use_on_this_thread(&service);
}

static void run_elsewhere(void* unused) {
  (void)unused;
  run();
}

TIMER_TEST(joining_thread_takes_over_and_closes) {
  CHECK_EQUAL(start(&first, 1, 0), 0);
  on_another_thread(run_elsewhere);
  CHECK_EQUAL(first.ran, 1);
  STOPS(tw_service_close(&service, on_service_closed), "wrong thread");
  tw_service_use_on_this_thread(&service);
}

TIMER_TEST(forked_child_has_timers_of_its_own) {
  int status = 0;
  CHECK_EQUAL(start(&first, 5, 0), 0);
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    if (uv_loop_fork(&loop) != 0 || tw_service_after_fork(&service) != 0) _exit(2);
    run();
    _exit(first.ran == 1 ? 0 : 3);
  }
  CHECK_EQUAL(run_of(&first), 1);
  CHECK_EQUAL(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status));
  CHECK_EQUAL(WEXITSTATUS(status), 0);
}

int main(int argc, char** argv) {
  choose_tests(argc, argv);
  return run_tests();
}
