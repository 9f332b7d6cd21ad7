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

static void open_service_with(const tw_service_options_t* options) {
  service_closed = 0;
  memset(&service, 0x5a, sizeof service); /* what was there before does not matter */
  CHECK_EQUAL(uv_loop_init(&loop), 0);
  CHECK_EQUAL(tw_service_init_with(&loop, &service, options, sizeof *options), 0);
}

static void open_service(void) {
  service_closed = 0;
  memset(&service, 0x5a, sizeof service);
  CHECK_EQUAL(uv_loop_init(&loop), 0);
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

static void stop_it(tw_timer_t* t) { CHECK_EQUAL(tw_timer_stop(t), 0); }
static void close_it(tw_timer_t* t) { tw_timer_close(t, on_closed); }
static void close_its_service(tw_timer_t* t) {
  (void)t;
  tw_service_close(&service, on_service_closed);
}

/* --- start, stop, repeat ------------------------------------------------------------------------------------------------- */

static void the_version_is_that_of_the_header(void) { CHECK(strcmp(tw_version_string(), TICKWHEEL_VERSION) == 0); }

static void a_timer_runs_once_and_never_early(void) {
  counted c;
  open_service();
  init(&c);
  uv_sleep(15); /* the loop's own time is behind now */
  const uint64_t before = uv_hrtime();
  CHECK_EQUAL(start(&c, 10, 0), 0);
  CHECK(tw_timer_is_active(&c.timer));
  run();
  CHECK_EQUAL(c.ran, 1);
  CHECK(uv_hrtime() - before >= 10 * 1000000);
  CHECK(!tw_timer_is_active(&c.timer));
  close_timer(&c);
  close_service();
}

static void nanoseconds_are_no_less_exact(void) {
  counted c;
  open_service();
  init(&c);
  const uint64_t before = uv_hrtime();
  CHECK_EQUAL(tw_timer_start_ns(&c.timer, on_timeout, 1500000, 0), 0);
  const uint64_t due = tw_timer_get_due_in_ns(&c.timer);
  CHECK(due <= 1500000);
  run();
  CHECK_EQUAL(c.ran, 1);
  CHECK(uv_hrtime() - before >= 1500000);
  close_timer(&c);
  close_service();
}

static void stop_after_three(tw_timer_t* t) {
  counted* c = (counted*)t->data;
  CHECK(tw_timer_is_active(t)); /* armed again before it is called */
  if (c->ran == 3) CHECK_EQUAL(tw_timer_stop(t), 0);
}

static void a_repeat_goes_on_until_it_is_stopped_in_its_callback(void) {
  counted c;
  open_service();
  init(&c);
  c.then = stop_after_three;
  CHECK_EQUAL(start(&c, 0, 2), 0);
  run();
  CHECK_EQUAL(c.ran, 3);
  CHECK(!tw_timer_is_active(&c.timer));
  close_timer(&c);
  close_service();
}

static void start_anew_until_three(tw_timer_t* t) {
  counted* c = (counted*)t->data;
  CHECK(!tw_timer_is_active(t));
  if (c->ran < 3) CHECK_EQUAL(start(c, 0, 0), 0);
}

static void a_callback_may_start_its_timer_anew(void) {
  counted c;
  open_service();
  init(&c);
  c.then = start_anew_until_three;
  CHECK_EQUAL(start(&c, 0, 0), 0);
  run();
  CHECK_EQUAL(c.ran, 3);
  close_timer(&c);
  close_service();
}

static void a_stopped_timer_does_not_run(void) {
  counted c, other;
  open_service();
  init(&c);
  init(&other);
  CHECK_EQUAL(start(&c, 1, 1), 0);
  CHECK_EQUAL(start(&other, 5, 0), 0);
  CHECK_EQUAL(tw_timer_stop(&c.timer), 0);
  CHECK_EQUAL(tw_timer_stop(&c.timer), 0);
  CHECK(!tw_timer_is_active(&c.timer));
  run();
  CHECK_EQUAL(c.ran, 0);
  CHECK_EQUAL(other.ran, 1);
  close_timer(&c);
  close_timer(&other);
  close_service();
}

static counted pair[2];
static void stop_the_other(tw_timer_t* t) { CHECK_EQUAL(tw_timer_stop(&pair[t == &pair[0].timer].timer), 0); }

static void one_that_is_due_in_the_same_pass_can_be_stopped(void) {
  open_service();
  for (int i = 0; i != 2; ++i) {
    init(&pair[i]);
    pair[i].then = stop_the_other;
    CHECK_EQUAL(start(&pair[i], 1, 0), 0);
  }
  uv_sleep(5);
  run();
  CHECK_EQUAL(pair[0].ran + pair[1].ran, 1); /* whichever was first */
  CHECK(!tw_timer_is_active(&pair[0].timer));
  CHECK(!tw_timer_is_active(&pair[1].timer));
  close_timer(&pair[0]);
  close_timer(&pair[1]);
  close_service();
}

static void starting_an_active_timer_moves_it(void) {
  counted c;
  open_service();
  init(&c);
  CHECK_EQUAL(start(&c, 100000, 0), 0);
  CHECK_EQUAL(start(&c, 1, 0), 0);
  run();
  CHECK_EQUAL(c.ran, 1);
  close_timer(&c);
  close_service();
}

static void a_start_without_a_callback_changes_nothing(void) {
  counted c;
  open_service();
  init(&c);
  CHECK_EQUAL(tw_timer_start(&c.timer, NULL, 1, 7), UV_EINVAL);
  CHECK(!tw_timer_is_active(&c.timer));
  CHECK_EQUAL(tw_timer_get_repeat(&c.timer), 0);
  CHECK_EQUAL(start(&c, 2, 0), 0);
  CHECK_EQUAL(tw_timer_start(&c.timer, NULL, 100000, 7), UV_EINVAL);
  CHECK(tw_timer_is_active(&c.timer));
  CHECK_EQUAL(tw_timer_get_repeat(&c.timer), 0);
  run();
  CHECK_EQUAL(c.ran, 1);
  close_timer(&c);
  close_service();
}

static void again_needs_a_start_before(void) {
  counted c;
  open_service();
  init(&c);
  CHECK_EQUAL(tw_timer_again(&c.timer), UV_EINVAL);
  tw_timer_set_repeat(&c.timer, 5);
  CHECK_EQUAL(tw_timer_again(&c.timer), UV_EINVAL);
  CHECK(!tw_timer_is_active(&c.timer));
  close_timer(&c);
  close_service();
}

static void again_without_a_repeat_leaves_it_as_it_is(void) {
  counted c;
  open_service();
  init(&c);
  CHECK_EQUAL(start(&c, 2, 0), 0);
  CHECK_EQUAL(tw_timer_again(&c.timer), 0);
  CHECK(tw_timer_is_active(&c.timer));
  run();
  CHECK_EQUAL(c.ran, 1);
  CHECK_EQUAL(tw_timer_again(&c.timer), 0);
  CHECK(!tw_timer_is_active(&c.timer));
  close_timer(&c);
  close_service();
}

static void again_waits_for_the_repeat(void) {
  counted c;
  open_service();
  init(&c);
  c.then = stop_it;
  CHECK_EQUAL(start(&c, 100000, 2), 0);
  CHECK_EQUAL(tw_timer_again(&c.timer), 0);
  CHECK(tw_timer_get_due_in(&c.timer) <= 2);
  run();
  CHECK_EQUAL(c.ran, 1);
  CHECK_EQUAL(tw_timer_again(&c.timer), 0); /* also when it was stopped */
  run();
  CHECK_EQUAL(c.ran, 2);
  close_timer(&c);
  close_service();
}

static void repeats_are_kept_in_nanoseconds(void) {
  counted c;
  open_service();
  init(&c);
  CHECK_EQUAL(tw_timer_get_repeat(&c.timer), 0);
  tw_timer_set_repeat(&c.timer, 5);
  CHECK_EQUAL(tw_timer_get_repeat(&c.timer), 5);
  CHECK_EQUAL(tw_timer_get_repeat_ns(&c.timer), 5000000);
  tw_timer_set_repeat_ns(&c.timer, 1000001);
  CHECK_EQUAL(tw_timer_get_repeat_ns(&c.timer), 1000001);
  CHECK_EQUAL(tw_timer_get_repeat(&c.timer), 2);
  tw_timer_set_repeat(&c.timer, UINT64_MAX);
  CHECK(tw_timer_get_repeat(&c.timer) == UINT64_MAX);
  CHECK(tw_timer_get_repeat_ns(&c.timer) == UINT64_MAX);
  close_timer(&c);
  close_service();
}

static void what_is_too_far_away_is_active_and_never_due(void) {
  counted c;
  open_service();
  init(&c);
  CHECK_EQUAL(start(&c, UINT64_MAX, UINT64_MAX), 0);
  CHECK(tw_timer_is_active(&c.timer));
  CHECK(tw_timer_get_due_in(&c.timer) > (uint64_t)200 * 365 * 86400 * 1000);
  uv_run(&loop, UV_RUN_NOWAIT);
  CHECK_EQUAL(c.ran, 0);
  CHECK_EQUAL(tw_timer_touch(&c.timer), 0);
  CHECK(tw_timer_is_active(&c.timer));
  close_timer(&c);
  close_service();
}

static void due_in_counts_down_and_rounds_up(void) {
  counted c;
  open_service();
  init(&c);
  CHECK_EQUAL(tw_timer_get_due_in(&c.timer), 0);
  CHECK_EQUAL(start(&c, 100000, 0), 0);
  const uint64_t first = tw_timer_get_due_in(&c.timer);
  CHECK(first <= 100000 && first > 90000);
  uv_sleep(2);
  CHECK(tw_timer_get_due_in(&c.timer) < 100000);
  CHECK(tw_timer_get_due_in_ns(&c.timer) <= 100000ull * 1000000 - 2000000);
  CHECK_EQUAL(tw_timer_stop(&c.timer), 0);
  CHECK(tw_timer_get_due_in(&c.timer) > 0); /* of one that was stopped: how long it would have been */
  close_timer(&c);
  close_service();
}

static void touching_one_that_waits_for_its_repeat_gives_it_the_repeat(void) {
  counted c;
  open_service();
  init(&c);
  CHECK_EQUAL(start(&c, 0, 50000), 0);
  while (c.ran == 0) uv_run(&loop, UV_RUN_ONCE);
  CHECK_EQUAL(tw_timer_touch(&c.timer), 0);
  const uint64_t due = tw_timer_get_due_in(&c.timer);
  CHECK(due > 40000 && due <= 50000);
  close_timer(&c);
  close_service();
}

static void touching_one_that_is_not_active_does_nothing(void) {
  counted c;
  open_service();
  init(&c);
  CHECK_EQUAL(tw_timer_touch(&c.timer), 0);
  CHECK(!tw_timer_is_active(&c.timer));
  CHECK_EQUAL(start(&c, 1, 0), 0);
  run();
  CHECK_EQUAL(tw_timer_touch(&c.timer), 0);
  CHECK(!tw_timer_is_active(&c.timer));
  run();
  CHECK_EQUAL(c.ran, 1);
  close_timer(&c);
  close_service();
}

static void init_leaves_data_alone(void) {
  int mine;
  tw_timer_t t;
  open_service();
  t.data = &mine;
  CHECK_EQUAL(tw_timer_init(&service, &t), 0);
  CHECK(t.data == &mine);
  tw_timer_close(&t, NULL);
  close_service();
}

/* --- references ------------------------------------------------------------------------------------------------------------ */

static void a_timer_without_a_reference_does_not_hold_the_loop(void) {
  counted c;
  open_service();
  init(&c);
  CHECK(tw_timer_has_ref(&c.timer));
  CHECK_EQUAL(start(&c, 100000, 0), 0);
  CHECK(uv_loop_alive(&loop));
  tw_timer_unref(&c.timer);
  tw_timer_unref(&c.timer);
  CHECK(!tw_timer_has_ref(&c.timer));
  CHECK(!uv_loop_alive(&loop));
  tw_timer_ref(&c.timer);
  CHECK(tw_timer_has_ref(&c.timer));
  CHECK(uv_loop_alive(&loop));
  close_timer(&c);
  close_service();
}

static void a_service_without_a_reference_does_not_hold_the_loop(void) {
  counted c;
  open_service();
  init(&c);
  CHECK(tw_service_has_ref(&service));
  CHECK_EQUAL(start(&c, 100000, 0), 0);
  tw_service_unref(&service);
  CHECK(!tw_service_has_ref(&service));
  CHECK(!uv_loop_alive(&loop));
  tw_service_ref(&service);
  CHECK(uv_loop_alive(&loop));
  close_timer(&c);
  close_service();
}

/* --- closing --------------------------------------------------------------------------------------------------------------- */

static void closing_stops_at_once_and_tells_later_in_order(void) {
  counted a, b, never_started;
  open_service();
  closings = 0;
  init(&a);
  init(&b);
  init(&never_started);
  CHECK_EQUAL(start(&a, 0, 1), 0);
  CHECK_EQUAL(start(&b, 0, 1), 0);
  CHECK(!tw_timer_is_closing(&a.timer));
  close_timer(&b);
  close_timer(&a);
  close_timer(&never_started);
  CHECK(tw_timer_is_closing(&a.timer));
  CHECK(!tw_timer_is_active(&a.timer));
  CHECK_EQUAL(closings, 0);
  CHECK(uv_loop_alive(&loop));
  run();
  CHECK_EQUAL(b.order, 1);
  CHECK_EQUAL(a.order, 2);
  CHECK_EQUAL(never_started.order, 3);
  CHECK_EQUAL(a.ran + b.ran, 0);
  close_service();
}

static void a_closing_timer_answers_as_libuvs(void) {
  counted c;
  open_service();
  init(&c);
  CHECK_EQUAL(start(&c, 5, 5), 0);
  close_timer(&c);
  CHECK_EQUAL(start(&c, 1, 0), UV_EINVAL);
  CHECK_EQUAL(tw_timer_stop(&c.timer), 0);
  CHECK_EQUAL(tw_timer_again(&c.timer), 0);
  CHECK_EQUAL(tw_timer_touch(&c.timer), 0);
  CHECK(!tw_timer_is_active(&c.timer));
  tw_timer_set_repeat(&c.timer, 7);
  CHECK_EQUAL(tw_timer_get_repeat(&c.timer), 7);
  CHECK(tw_timer_get_due_in(&c.timer) <= 5);
  tw_timer_unref(&c.timer);
  CHECK(!tw_timer_has_ref(&c.timer));
  tw_timer_ref(&c.timer);
  CHECK(tw_timer_has_ref(&c.timer));
  run();
  CHECK_EQUAL(c.ran, 0);
  CHECK_EQUAL(c.closed, 1);
  close_service();
}

static void a_timer_may_be_closed_in_its_own_callback(void) {
  counted c;
  open_service();
  init(&c);
  c.then = close_it;
  CHECK_EQUAL(start(&c, 0, 1), 0);
  run();
  CHECK_EQUAL(c.ran, 1);
  CHECK_EQUAL(c.closed, 1);
  close_service();
}

static int freed;
static void free_it(tw_timer_t* t) {
  free(t);
  ++freed;
}

static void a_close_callback_may_free_the_timer(void) {
  open_service();
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
  close_service();
}

static counted closed_by_another;
static void close_the_other(tw_timer_t* t) {
  on_closed(t);
  close_timer(&closed_by_another);
  CHECK_EQUAL(closed_by_another.closed, 0);
}

static void a_close_callback_may_close_others_which_are_told_later(void) {
  counted c;
  open_service();
  init(&c);
  init(&closed_by_another);
  tw_timer_close(&c.timer, close_the_other);
  uv_run(&loop, UV_RUN_NOWAIT);
  CHECK_EQUAL(c.closed, 1);
  CHECK_EQUAL(closed_by_another.closed, 0);
  CHECK(uv_loop_alive(&loop));
  run();
  CHECK_EQUAL(closed_by_another.closed, 1);
  close_service();
}

static void init_again(tw_timer_t* t) {
  on_closed(t);
  CHECK_EQUAL(tw_timer_init(&service, t), 0);
  CHECK_EQUAL(tw_timer_start(t, on_timeout, 1, 0), 0);
}

static void what_was_closed_may_be_initialised_anew(void) {
  counted c;
  open_service();
  init(&c);
  tw_timer_close(&c.timer, init_again);
  run();
  CHECK_EQUAL(c.closed, 1);
  CHECK_EQUAL(c.ran, 1);
  close_timer(&c);
  close_service();
}

static void nobody_need_be_told(void) {
  counted c;
  open_service();
  init(&c);
  tw_timer_close(&c.timer, NULL);
  tw_service_close(&service, NULL);
  end_loop();
  CHECK_EQUAL(c.closed + service_closed, 0);
}

/* --- closing the service ----------------------------------------------------------------------------------------------------- */

static void a_loop_is_not_closed_before_its_service(void) {
  open_service();
  CHECK_EQUAL(uv_loop_close(&loop), UV_EBUSY);
  tw_service_close(&service, NULL);
  CHECK_EQUAL(uv_loop_close(&loop), UV_EBUSY);
  end_loop();
}

static void closing_the_service_stops_its_timers_and_starts_none(void) {
  counted c, other;
  open_service();
  init(&c);
  init(&other);
  CHECK_EQUAL(start(&c, 0, 1), 0);
  CHECK(!tw_service_is_closing(&service));
  tw_service_close(&service, on_service_closed);
  CHECK(tw_service_is_closing(&service));
  CHECK(!tw_timer_is_active(&c.timer));
  CHECK_EQUAL(start(&c, 1, 0), UV_ECANCELED);
  CHECK_EQUAL(tw_timer_start_ns(&c.timer, on_timeout, 1, 0), UV_ECANCELED);
  CHECK_EQUAL(tw_timer_again(&c.timer), UV_ECANCELED);
  CHECK_EQUAL(tw_timer_stop(&c.timer), 0);
  CHECK_EQUAL(tw_timer_touch(&c.timer), 0);
  CHECK(!tw_timer_is_active(&c.timer));
  CHECK(!tw_timer_is_closing(&c.timer));
  CHECK_EQUAL(tw_timer_init(&service, &other.timer), UV_ECANCELED);
  tw_timer_set_repeat(&c.timer, 7);
  CHECK_EQUAL(tw_timer_get_repeat(&c.timer), 7);
  CHECK(tw_timer_get_due_in(&c.timer) <= 1);
  tw_timer_unref(&c.timer);
  CHECK(!tw_timer_has_ref(&c.timer));
  tw_timer_ref(&c.timer);
  CHECK(tw_timer_has_ref(&c.timer));
  tw_service_unref(&service);
  CHECK(!tw_service_has_ref(&service));
  tw_service_ref(&service);
  CHECK(tw_service_has_ref(&service));
  tw_service_use_on_this_thread(&service);
  CHECK_EQUAL(tw_service_after_fork(&service), UV_ECANCELED);
  end_loop();
  CHECK_EQUAL(c.ran, 0);
  CHECK_EQUAL(service_closed, 1);
}

static counted told_before;
static void on_closed_last(tw_service_t* s) {
  on_service_closed(s);
  CHECK_EQUAL(told_before.closed, 1);
}

static void a_service_is_closed_after_the_timers_that_were_closed_before(void) {
  open_service();
  init(&told_before);
  tw_service_close(&service, on_closed_last);
  close_timer(&told_before);
  end_loop();
  CHECK_EQUAL(service_closed, 1);
}

static void a_timer_may_be_closed_when_its_service_is_gone(void) {
  counted c;
  open_service();
  init(&c);
  CHECK_EQUAL(start(&c, 1, 1), 0);
  tw_service_close(&service, on_service_closed);
  run();
  CHECK_EQUAL(service_closed, 1);
  memset(&service, 0x5a, sizeof service);
  CHECK_EQUAL(start(&c, 1, 0), UV_ECANCELED);
  CHECK_EQUAL(tw_timer_again(&c.timer), UV_ECANCELED);
  CHECK_EQUAL(tw_timer_stop(&c.timer), 0);
  CHECK_EQUAL(tw_timer_touch(&c.timer), 0);
  CHECK(!tw_timer_is_active(&c.timer));
  CHECK(!tw_timer_is_closing(&c.timer));
  tw_timer_set_repeat(&c.timer, 7);
  CHECK_EQUAL(tw_timer_get_repeat(&c.timer), 7);
  CHECK(tw_timer_get_due_in(&c.timer) <= 1);
  tw_timer_unref(&c.timer);
  CHECK(tw_timer_has_ref(&c.timer)); /* as before: nothing is there any more to tell */
  tw_timer_ref(&c.timer);
  close_timer(&c);
  CHECK_EQUAL(c.closed, 0);
  CHECK_EQUAL(start(&c, 1, 0), UV_EINVAL);
  end_loop();
  CHECK_EQUAL(c.closed, 1);
  CHECK_EQUAL(c.ran, 0);
}

static void a_timers_callback_may_close_the_service(void) {
  counted c, other;
  open_service();
  init(&c);
  init(&other);
  c.then = close_its_service;
  CHECK_EQUAL(start(&c, 1, 1), 0);
  CHECK_EQUAL(start(&other, 5, 1), 0);
  end_loop();
  CHECK_EQUAL(c.ran, 1);
  CHECK_EQUAL(other.ran, 0);
  CHECK_EQUAL(service_closed, 1);
}

static void close_service_of_closed(tw_timer_t* t) {
  on_closed(t);
  tw_service_close(&service, on_service_closed);
  CHECK_EQUAL(service_closed, 0);
}

static void a_close_callback_may_close_the_service(void) {
  counted c;
  open_service();
  init(&c);
  tw_timer_close(&c.timer, close_service_of_closed);
  end_loop();
  CHECK_EQUAL(c.closed, 1);
  CHECK_EQUAL(service_closed, 1);
}

static void free_service(tw_service_t* s) {
  free(s);
  ++service_closed;
}

static void a_services_close_callback_may_free_it(void) {
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

static void a_closed_service_may_be_opened_anew(void) {
  open_service();
  tw_service_close(&service, reopen);
  run();
  CHECK_EQUAL(service_closed, 1);
  service_closed = 0;
  close_service();
}

static void close_what_is_not_ours(uv_handle_t* h, void* arg) {
  int* left = (int*)arg;
  if (tw_service_owns(&service, h))
    ++*left;
  else if (!uv_is_closing(h))
    uv_close(h, NULL);
}

static void a_walk_can_tell_what_is_the_services(void) {
  uv_timer_t other;
  counted c;
  int left = 0;
  open_service();
  init(&c);
  uv_timer_init(&loop, &other);
  close_timer(&c);
  uv_walk(&loop, close_what_is_not_ours, &left);
  CHECK(left > 0);
  CHECK(uv_is_closing((uv_handle_t*)&other));
  CHECK(!tw_service_owns(&service, NULL));
  run();
  CHECK_EQUAL(c.closed, 1);
  close_service();
}

static void note_what_is_the_services(uv_handle_t* h, void* arg) {
  if (tw_service_owns(&service, h)) *(uv_handle_t**)arg = h;
}

static void what_is_the_services_is_not_while_it_is_closing(void) {
  uv_handle_t* its = NULL;
  open_service();
  uv_walk(&loop, note_what_is_the_services, &its);
  CHECK(its != NULL);
  tw_service_close(&service, on_service_closed);
  CHECK(!tw_service_owns(&service, its));
  CHECK(uv_is_closing(its));
  end_loop();
}

static void a_walk_may_close_the_rest_when_the_service_is_closed(void) {
  uv_timer_t other;
  int left = 0;
  open_service();
  uv_timer_init(&loop, &other);
  tw_service_close(&service, on_service_closed);
  run();
  CHECK_EQUAL(service_closed, 1);
  uv_walk(&loop, close_what_is_not_ours, &left);
  CHECK_EQUAL(left, 0);
  CHECK(uv_is_closing((uv_handle_t*)&other));
  end_loop();
}

static void a_loop_that_was_closed_has_no_service(void) {
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

static void no_more_timers_are_active_than_max_armed(void) {
  const tw_service_options_t options = {.max_armed = 1};
  counted c, other;
  open_service_with(&options);
  init(&c);
  init(&other);
  CHECK_EQUAL(start(&c, 100000, 0), 0);
  CHECK_EQUAL(start(&other, 1, 7), UV_ENOBUFS);
  CHECK(!tw_timer_is_active(&other.timer));
  CHECK_EQUAL(tw_timer_get_repeat(&other.timer), 0);
  CHECK_EQUAL(counts().refused, 1);
  CHECK_EQUAL(start(&c, 200000, 0), 0); /* it has its place */
  CHECK_EQUAL(tw_timer_stop(&c.timer), 0);
  CHECK_EQUAL(start(&other, 1, 0), 0);
  CHECK_EQUAL(tw_timer_again(&c.timer), 0); /* it has no repeat */
  tw_timer_set_repeat(&c.timer, 5);
  CHECK_EQUAL(tw_timer_again(&c.timer), UV_ENOBUFS);
  close_timer(&c);
  close_timer(&other);
  close_service();
}

static void a_pass_does_no_more_than_work_per_pass(void) {
  const tw_service_options_t options = {.work_per_pass = 1};
  counted several[3];
  open_service_with(&options);
  for (int i = 0; i != 3; ++i) {
    init(&several[i]);
    CHECK_EQUAL(start(&several[i], 1, 0), 0);
  }
  uv_sleep(5); /* so that one pass finds all of them */
  run();
  CHECK_EQUAL(several[0].ran + several[1].ran + several[2].ran, 3);
  CHECK(counts().carried >= 2);
  for (int i = 0; i != 3; ++i) close_timer(&several[i]);
  close_service();
}

static void a_pass_ends_after_time_per_pass(void) {
  const tw_service_options_t options = {.time_per_pass_ns = 1};
  counted both[2];
  open_service_with(&options);
  for (int i = 0; i != 2; ++i) {
    init(&both[i]);
    CHECK_EQUAL(start(&both[i], 1, 0), 0);
  }
  uv_sleep(5); /* so that one pass finds both */
  run();
  CHECK_EQUAL(both[0].ran + both[1].ran, 2);
  CHECK(counts().carried >= 1);
  for (int i = 0; i != 2; ++i) close_timer(&both[i]);
  close_service();
}

static void take_two_milliseconds(tw_timer_t* t) {
  (void)t;
  uv_sleep(2);
}

static void slow_callbacks_and_stalls_are_those_beyond_the_options(void) {
  const tw_service_options_t strict = {.slow_handler_ns = 2000000, .stall_grace_ns = 1000};
  const tw_service_options_t patient = {.slow_handler_ns = UINT64_MAX, .stall_grace_ns = UINT64_MAX};
  for (int i = 0; i != 2; ++i) {
    counted c;
    open_service_with(i == 0 ? &strict : &patient);
    init(&c);
    c.then = take_two_milliseconds;
    CHECK_EQUAL(start(&c, 0, 0), 0);
    run();
    CHECK_EQUAL(start(&c, 0, 0), 0);
    run();
    CHECK_EQUAL(counts().slow_handlers, i == 0 ? 2 : 0);
    CHECK_EQUAL(counts().stalls != 0, i == 0);
    CHECK_EQUAL(counts().stalled_ns != 0, i == 0);
    close_timer(&c);
    close_service();
  }
}

static void timers_are_due_at_the_end_of_a_tick(void) {
  const tw_service_options_t options = {.tick_ns = 100000000}; /* rounded down: 2^26 ns */
  counted c;
  const uint64_t before = uv_hrtime();
  open_service_with(&options);
  init(&c);
  CHECK_EQUAL(start(&c, 1, 0), 0);
  run();
  CHECK(uv_hrtime() - before >= 1u << 26);
  close_timer(&c);
  close_service();
}

#ifdef __linux__
static void count_polled(uv_handle_t* h, void* arg) {
  if (h->type == UV_POLL && tw_service_owns(&service, h)) ++*(int*)arg;
}

static void a_timerfd_wakes_the_loop_when_it_was_asked_for(void) {
  const tw_service_options_t options = {.wakeup = TW_WAKE_BY_TIMERFD};
  counted c;
  int polled = 0;
  open_service_with(&options);
  uv_walk(&loop, count_polled, &polled);
  CHECK_EQUAL(polled, 1);
  init(&c);
  CHECK_EQUAL(start(&c, 1, 0), 0);
  run();
  CHECK_EQUAL(c.ran, 1);
  close_timer(&c);
  close_service();
}
#endif

static void take_twenty_milliseconds(tw_timer_t* t) {
  (void)t;
  uv_sleep(20);
}

/* After a block a timer waits for two polls that leave nothing behind, or for one. */
static void timers_wait_for_input_as_io_wait_says(void) {
  const tw_service_options_t patient = {.io_wait = 1};
  const tw_service_options_t hasty = {.io_wait = TW_IO_WAIT_NONE};
  for (int i = 0; i != 2; ++i) {
    counted blocks, late;
    open_service_with(i == 0 ? &patient : &hasty);
    init(&blocks);
    init(&late);
    blocks.then = take_twenty_milliseconds;
    CHECK_EQUAL(start(&blocks, 1, 0), 0);
    CHECK_EQUAL(start(&late, 10, 0), 0);
    run();
    CHECK_EQUAL(late.ran, 1);
    CHECK_EQUAL(counts().passes, i == 0 ? 3 : 2);
    close_timer(&blocks);
    close_timer(&late);
    close_service();
  }
}

static void options_that_cannot_be_are_refused(void) {
  const tw_service_options_t refused[] = {
      {.slots = 3},
      {.levels = UINT64_MAX},
      {.levels = (1ull << 32) + 3}, /* what 32 bits keep of it could be */
      {.slots = (1ull << 32) + 1024},
  };
  CHECK_EQUAL(uv_loop_init(&loop), 0);
  for (size_t i = 0; i != sizeof refused / sizeof refused[0]; ++i) {
    CHECK_EQUAL(tw_service_init_with(&loop, &service, &refused[i], sizeof refused[i]), UV_EINVAL);
    CHECK(tw_service_is_closing(&service)); /* nothing is to be closed */
  }
  end_loop();
}

static void options_without_their_size_are_refused(void) {
  const tw_service_options_t options = {.max_armed = 1};
  CHECK_EQUAL(uv_loop_init(&loop), 0);
  CHECK_EQUAL(tw_service_init_with(&loop, &service, &options, 0), UV_EINVAL);
  CHECK_EQUAL(tw_service_init_with(&loop, &service, &options, sizeof options - 4), UV_EINVAL);
  CHECK(tw_service_is_closing(&service));
  end_loop();
}

static void a_wakeup_that_a_later_version_may_know_is_not_supported(void) {
  const tw_service_options_t options = {.wakeup = TW_WAKE_BY_TIMERFD + 1};
  CHECK_EQUAL(uv_loop_init(&loop), 0);
  CHECK_EQUAL(tw_service_init_with(&loop, &service, &options, sizeof options), UV_ENOTSUP);
  CHECK(tw_service_is_closing(&service));
  end_loop();
}

static void the_shape_of_the_wheel_may_be_chosen(void) {
  const tw_service_options_t options = {.levels = 1, .slots = 64};
  counted c;
  open_service_with(&options);
  init(&c);
  CHECK_EQUAL(start(&c, 20, 0), 0); /* more than a turn of the wheel */
  run();
  CHECK_EQUAL(c.ran, 1);
  close_timer(&c);
  close_service();
}

static void options_of_an_older_program_are_taken(void) {
  const tw_service_options_t options = {.max_armed = 1, .slots = 3};
  counted c, other;
  service_closed = 0;
  CHECK_EQUAL(uv_loop_init(&loop), 0);
  CHECK_EQUAL(tw_service_init_with(&loop, &service, &options, offsetof(tw_service_options_t, max_queued)), 0);
  init(&c);
  init(&other);
  CHECK_EQUAL(start(&c, 1, 0), 0);
  CHECK_EQUAL(start(&other, 1, 0), UV_ENOBUFS);
  close_timer(&c);
  close_timer(&other);
  close_service();
}

static void options_of_a_newer_program_are_taken_as_long_as_they_are_known(void) {
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

static void there_need_be_no_options(void) {
  service_closed = 0;
  CHECK_EQUAL(uv_loop_init(&loop), 0);
  CHECK_EQUAL(tw_service_init_with(&loop, &service, NULL, sizeof(tw_service_options_t)), 0);
  close_service();
}

static void count_when_closed(tw_service_t* s) {
  tw_service_stats_t stats;
  on_service_closed(s);
  CHECK_EQUAL(tw_service_stats(s, &stats, sizeof stats), UV_ECANCELED);
}

static void what_was_counted_can_be_asked_until_the_service_is_closed(void) {
  counted ran, stopped, left;
  open_service();
  init(&ran);
  init(&stopped);
  init(&left);
  ran.then = stop_after_three;
  CHECK_EQUAL(start(&ran, 0, 1), 0);
  CHECK_EQUAL(start(&stopped, 100000, 0), 0);
  CHECK_EQUAL(tw_timer_stop(&stopped.timer), 0);
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

static void an_older_program_is_told_what_it_knows_and_a_newer_one_no_more(void) {
  struct {
    tw_service_stats_t known;
    uint64_t unknown;
  } stats;
  counted c;
  open_service();
  init(&c);
  CHECK_EQUAL(start(&c, 100000, 0), 0);
  memset(&stats, 0x5a, sizeof stats);
  CHECK_EQUAL(tw_service_stats(&service, &stats.known, offsetof(tw_service_stats_t, fired)), 0);
  CHECK_EQUAL(stats.known.armed, 1);
  CHECK_EQUAL(stats.known.fired, 0x5a5a5a5a5a5a5a5a);
  CHECK_EQUAL(tw_service_stats(&service, &stats.known, sizeof stats), 0);
  CHECK_EQUAL(stats.known.pending, 1);
  CHECK_EQUAL(stats.unknown, 0);
  close_timer(&c);
  close_service();
}

static void how_long_callbacks_took_and_how_late_they_were_is_told(void) {
  counted c, late;
  open_service();
  init(&c);
  init(&late);
  CHECK_EQUAL(tw_service_handler_time_ns(&service, 1), 0);
  CHECK_EQUAL(tw_service_lateness_ns(&service, 1), 0);
  c.then = take_two_milliseconds;
  CHECK_EQUAL(start(&c, 0, 0), 0);
  CHECK_EQUAL(start(&late, 1, 0), 0);
  uv_sleep(5);
  run();
  CHECK(tw_service_handler_time_ns(&service, 1) >= 2000000);
  CHECK(tw_service_lateness_ns(&service, 1) >= 3000000);
  CHECK(tw_service_lateness_ns(&service, 0.5) <= tw_service_lateness_ns(&service, 1));
  close_timer(&c);
  close_timer(&late);
  close_service();
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

static void another_thread_posts_to_a_loop_that_is_held(void) {
  uv_thread_t other;
  int ran = 0;
  open_service();
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
  close_service();
}

static void a_posted_timer_is_cancelled_or_runs_or_is_closed_with_the_service(void) {
  tw_remote_timer_t cancelled, late, closed;
  int ran = 0;
  open_service();
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

static void a_released_timer_runs_all_the_same(void) {
  tw_remote_timer_t t;
  int ran = 0;
  open_service();
  loop_thread = uv_thread_self();
  CHECK_EQUAL(tw_remote_init(&service, &remote), 0);
  CHECK_EQUAL(tw_remote_arm(&remote, add_one, &ran, 1, &t), 0);
  tw_remote_timer_release(&t);
  CHECK_EQUAL(tw_hold_init(&service, &hold), 0);
  tw_hold_release(&hold);
  run();
  CHECK_EQUAL(ran, 1);
  tw_remote_release(&remote);
  close_service();
}

static void no_more_posts_wait_than_max_queued(void) {
  const tw_service_options_t options = {.max_queued = 1};
  tw_remote_timer_t t;
  int ran = 0;
  open_service_with(&options);
  CHECK_EQUAL(tw_remote_init(&service, &remote), 0);
  CHECK_EQUAL(tw_remote_post(&remote, add_one, &ran, 0), 0);
  CHECK_EQUAL(tw_remote_post(&remote, add_one, &ran, 0), UV_EAGAIN);
  CHECK_EQUAL(tw_remote_arm(&remote, add_one, &ran, 0, &t), UV_EAGAIN);
  CHECK_EQUAL(tw_remote_timer_cancel(&t), TW_TOO_LATE); /* empty */
  CHECK_EQUAL(counts().remote_accepted, 1);
  CHECK_EQUAL(counts().remote_refused, 2);
  tw_service_close(&service, on_service_closed);
  CHECK_EQUAL(counts().remote_cancelled, 1);
  end_loop();
  CHECK_EQUAL(ran, 0);
  tw_remote_release(&remote);
}

static void a_copy_of_an_empty_remote_is_empty(void) {
  tw_remote_t empty = {NULL}, copy;
  CHECK_EQUAL(tw_remote_copy(&empty, &copy), 0);
  CHECK_EQUAL(tw_remote_post(&copy, add_one, NULL, 0), UV_ECANCELED);
  tw_remote_release(&copy);
}

static void a_remote_outlives_its_service_and_is_refused(void) {
  tw_remote_t copy;
  tw_remote_timer_t t;
  open_service();
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

static void null_is_refused_where_a_code_is_returned(void) {
  counted c;
  tw_remote_timer_t t;
  tw_service_stats_t stats;
  open_service();
  init(&c);
  CHECK_EQUAL(tw_service_init(&loop, NULL), UV_EINVAL);
  CHECK_EQUAL(tw_service_init_with(&loop, NULL, NULL, 0), UV_EINVAL);
  CHECK_EQUAL(tw_service_stats(NULL, &stats, sizeof stats), UV_EINVAL);
  CHECK_EQUAL(tw_service_stats(&service, NULL, sizeof stats), UV_EINVAL);
  CHECK_EQUAL(tw_service_after_fork(NULL), UV_EINVAL);
  CHECK_EQUAL(tw_timer_init(NULL, &c.timer), UV_EINVAL);
  CHECK_EQUAL(tw_timer_init(&service, NULL), UV_EINVAL);
  CHECK_EQUAL(tw_timer_start(NULL, on_timeout, 1, 0), UV_EINVAL);
  CHECK_EQUAL(tw_timer_start_ns(NULL, on_timeout, 1, 0), UV_EINVAL);
  CHECK_EQUAL(tw_timer_start_ns(&c.timer, NULL, 1, 0), UV_EINVAL);
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
  close_timer(&c);
  close_service();
}

/* Runs `misuse` in a child, which must stop with a line that begins "tickwheel: " and has `named` in it. */
static void stops(const char* what, void (*misuse)(void), const char* named) {
  int out[2];
  char said[512];
  size_t length = 0;
  ssize_t got;
  int status = 0;
  fflush(stdout);
  CHECK_EQUAL(pipe(out), 0);
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGABRT, SIG_DFL);
    dup2(out[1], STDERR_FILENO);
    misuse();
    _exit(0);
  }
  close(out[1]);
  while (length < sizeof said - 1 && (got = read(out[0], said + length, sizeof said - 1 - length)) > 0)
    length += (size_t)got;
  said[length] = '\0';
  close(out[0]);
  CHECK_EQUAL(waitpid(child, &status, 0), child);
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT || strstr(said, "tickwheel: ") == NULL ||
      strstr(said, named) == NULL) {
    printf("%s: was to stop and name '%s'; it said '%s'\n", what, named, said);
    ++failures;
  }
}
#define STOPS(misuse, named) stops(#misuse, misuse, named)

static void is_active_of_null(void) { tw_timer_is_active(NULL); }
static void is_closing_of_null(void) { tw_timer_is_closing(NULL); }
static void has_ref_of_null(void) { tw_timer_has_ref(NULL); }
static void ref_of_null(void) { tw_timer_ref(NULL); }
static void unref_of_null(void) { tw_timer_unref(NULL); }
static void set_repeat_of_null(void) { tw_timer_set_repeat(NULL, 1); }
static void set_repeat_ns_of_null(void) { tw_timer_set_repeat_ns(NULL, 1); }
static void get_repeat_of_null(void) { tw_timer_get_repeat(NULL); }
static void get_repeat_ns_of_null(void) { tw_timer_get_repeat_ns(NULL); }
static void get_due_in_of_null(void) { tw_timer_get_due_in(NULL); }
static void get_due_in_ns_of_null(void) { tw_timer_get_due_in_ns(NULL); }
static void close_of_null(void) { tw_timer_close(NULL, NULL); }
static void service_close_of_null(void) { tw_service_close(NULL, NULL); }
static void service_is_closing_of_null(void) { tw_service_is_closing(NULL); }
static void service_ref_of_null(void) { tw_service_ref(NULL); }
static void service_unref_of_null(void) { tw_service_unref(NULL); }
static void service_has_ref_of_null(void) { tw_service_has_ref(NULL); }
static void service_owns_of_null(void) { tw_service_owns(NULL, NULL); }
static void service_use_of_null(void) { tw_service_use_on_this_thread(NULL); }
static void lateness_of_null(void) { tw_service_lateness_ns(NULL, 1); }
static void handler_time_of_null(void) { tw_service_handler_time_ns(NULL, 1); }

static void null_is_a_violated_precondition_elsewhere(void) {
  STOPS(is_active_of_null, "tw_timer_t was null");
  STOPS(is_closing_of_null, "tw_timer_t was null");
  STOPS(has_ref_of_null, "tw_timer_t was null");
  STOPS(ref_of_null, "tw_timer_t was null");
  STOPS(unref_of_null, "tw_timer_t was null");
  STOPS(set_repeat_of_null, "tw_timer_t was null");
  STOPS(set_repeat_ns_of_null, "tw_timer_t was null");
  STOPS(get_repeat_of_null, "tw_timer_t was null");
  STOPS(get_repeat_ns_of_null, "tw_timer_t was null");
  STOPS(get_due_in_of_null, "tw_timer_t was null");
  STOPS(get_due_in_ns_of_null, "tw_timer_t was null");
  STOPS(close_of_null, "tw_timer_t was null");
  STOPS(service_close_of_null, "tw_service_t was null");
  STOPS(service_is_closing_of_null, "tw_service_t was null");
  STOPS(service_ref_of_null, "tw_service_t was null");
  STOPS(service_unref_of_null, "tw_service_t was null");
  STOPS(service_has_ref_of_null, "tw_service_t was null");
  STOPS(service_owns_of_null, "tw_service_t was null");
  STOPS(service_use_of_null, "tw_service_t was null");
  STOPS(lateness_of_null, "tw_service_t was null");
  STOPS(handler_time_of_null, "tw_service_t was null");
}

static counted misused;

static void close_twice(void) {
  close_timer(&misused);
  close_timer(&misused);
}
static void close_service_twice(void) {
  tw_service_close(&service, NULL);
  tw_service_close(&service, NULL);
}

static void closing_twice_is_a_violated_precondition(void) {
  open_service();
  init(&misused);
  STOPS(close_twice, "tw_timer_close: it is closing already");
  STOPS(close_service_twice, "tw_service_close: it is closing already");
  close_timer(&misused);
  close_service();
}

static void ref_of_closed(void) { tw_service_ref(&service); }
static void unref_of_closed(void) { tw_service_unref(&service); }
static void has_ref_of_closed(void) { tw_service_has_ref(&service); }
static void use_of_closed(void) { tw_service_use_on_this_thread(&service); }
static void close_of_closed(void) { tw_service_close(&service, NULL); }
static void lateness_of_closed(void) { tw_service_lateness_ns(&service, 1); }
static void handler_time_of_closed(void) { tw_service_handler_time_ns(&service, 1); }

static void a_closed_service_is_known_by_its_memory(void) {
  tw_timer_t t;
  tw_service_stats_t stats;
  open_service();
  close_service();
  for (int i = 0; i != 2; ++i) {
    CHECK(tw_service_is_closing(&service));
    CHECK(!tw_service_owns(&service, NULL));
    CHECK_EQUAL(tw_timer_init(&service, &t), UV_ECANCELED);
    CHECK_EQUAL(tw_remote_init(&service, &remote), UV_ECANCELED);
    CHECK_EQUAL(tw_hold_init(&service, &hold), UV_ECANCELED);
    CHECK_EQUAL(tw_service_after_fork(&service), UV_ECANCELED);
    CHECK_EQUAL(tw_service_stats(&service, &stats, sizeof stats), UV_ECANCELED);
    STOPS(ref_of_closed, "tw_service_t was null, or closed");
    STOPS(unref_of_closed, "tw_service_t was null, or closed");
    STOPS(has_ref_of_closed, "tw_service_t was null, or closed");
    STOPS(use_of_closed, "tw_service_t was null, or closed");
    STOPS(close_of_closed, "tw_service_t was null, or closed");
    STOPS(lateness_of_closed, "tw_service_t was null, or closed");
    STOPS(handler_time_of_closed, "tw_service_t was null, or closed");
    memset(&service, 0, sizeof service); /* as one that was never opened */
  }
}

static void on_another_thread(void (*call)(void*)) {
  uv_thread_t other;
  uv_thread_create(&other, call, NULL);
  uv_thread_join(&other);
}
static void start_elsewhere(void* unused) {
  (void)unused;
  ignore(start(&misused, 1, 0));
}
static void stop_elsewhere(void* unused) {
  (void)unused;
  tw_timer_stop(&misused.timer);
}
static void again_elsewhere(void* unused) {
  (void)unused;
  ignore(tw_timer_again(&misused.timer));
}
static void touch_elsewhere(void* unused) {
  (void)unused;
  tw_timer_touch(&misused.timer);
}
static void set_repeat_elsewhere(void* unused) {
  (void)unused;
  tw_timer_set_repeat(&misused.timer, 1);
}
static void set_repeat_ns_elsewhere(void* unused) {
  (void)unused;
  tw_timer_set_repeat_ns(&misused.timer, 1);
}
static void ref_elsewhere(void* unused) {
  (void)unused;
  tw_timer_ref(&misused.timer);
}
static void unref_elsewhere(void* unused) {
  (void)unused;
  tw_timer_unref(&misused.timer);
}
static void close_elsewhere(void* unused) {
  (void)unused;
  close_timer(&misused);
}
static void hold_elsewhere(void* unused) {
  (void)unused;
  ignore(tw_hold_init(&service, &hold));
}
static void service_ref_elsewhere(void* unused) {
  (void)unused;
  tw_service_ref(&service);
}
static void service_unref_elsewhere(void* unused) {
  (void)unused;
  tw_service_unref(&service);
}
static void service_close_elsewhere(void* unused) {
  (void)unused;
  tw_service_close(&service, NULL);
}
static void init_elsewhere(void* unused) {
  tw_timer_t t;
  (void)unused;
  ignore(tw_timer_init(&service, &t));
}

static const struct {
  const char* name;
  void (*call)(void*);
} calls_elsewhere[] = {
    {"start", start_elsewhere},
    {"stop", stop_elsewhere},
    {"again", again_elsewhere},
    {"touch", touch_elsewhere},
    {"set_repeat", set_repeat_elsewhere},
    {"set_repeat_ns", set_repeat_ns_elsewhere},
    {"ref", ref_elsewhere},
    {"unref", unref_elsewhere},
    {"close", close_elsewhere},
    {"hold", hold_elsewhere},
    {"service_ref", service_ref_elsewhere},
    {"service_unref", service_unref_elsewhere},
    {"service_close", service_close_elsewhere},
    {"init", init_elsewhere},
};
static void (*call_elsewhere)(void*);
static void call_it_elsewhere(void) { on_another_thread(call_elsewhere); }

static void use_and_start_elsewhere(void* unused) {
  (void)unused;
  tw_service_use_on_this_thread(&service);
  CHECK_EQUAL(start(&misused, 1, 0), 0);
  run();
  CHECK_EQUAL(misused.ran, 1);
}

static void another_thread_is_named_unless_the_service_was_handed_over(void) {
  open_service();
  init(&misused);
  for (int active = 0; active != 2; ++active) {
    for (size_t i = 0; i != sizeof calls_elsewhere / sizeof calls_elsewhere[0]; ++i) {
      call_elsewhere = calls_elsewhere[i].call;
      stops(calls_elsewhere[i].name, call_it_elsewhere,
            "wrong thread: a service, or a timer of it, was used on a thread that does not run its loop "
            "(tw_service_use_on_this_thread hands it over)");
    }
    CHECK_EQUAL(start(&misused, 100, 0), 0);
  }
  CHECK_EQUAL(tw_timer_stop(&misused.timer), 0);
  on_another_thread(use_and_start_elsewhere);
  tw_service_use_on_this_thread(&service);
  close_timer(&misused);
  close_service();
}

static void run_elsewhere(void* unused) {
  (void)unused;
  run();
}
static void close_the_service(void) { tw_service_close(&service, on_service_closed); }

static void who_joined_the_loops_thread_takes_the_service_over_and_closes_it(void) {
  open_service();
  init(&misused);
  CHECK_EQUAL(start(&misused, 1, 0), 0);
  on_another_thread(run_elsewhere);
  CHECK_EQUAL(misused.ran, 1);
  STOPS(close_the_service, "wrong thread");
  tw_service_use_on_this_thread(&service);
  close_timer(&misused);
  close_service();
}

static void a_forked_child_has_timers_of_its_own(void) {
  counted c;
  int status = 0;
  open_service();
  init(&c);
  CHECK_EQUAL(start(&c, 5, 0), 0);
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    if (uv_loop_fork(&loop) != 0 || tw_service_after_fork(&service) != 0) _exit(2);
    run();
    _exit(c.ran == 1 ? 0 : 3);
  }
  run();
  CHECK_EQUAL(c.ran, 1);
  CHECK_EQUAL(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status));
  CHECK_EQUAL(WEXITSTATUS(status), 0);
  close_timer(&c);
  close_service();
}

int main(int argc, char** argv) {
  choose_tests(argc, argv);
  RUN(the_version_is_that_of_the_header);
  RUN(a_timer_runs_once_and_never_early);
  RUN(nanoseconds_are_no_less_exact);
  RUN(a_repeat_goes_on_until_it_is_stopped_in_its_callback);
  RUN(a_callback_may_start_its_timer_anew);
  RUN(a_stopped_timer_does_not_run);
  RUN(one_that_is_due_in_the_same_pass_can_be_stopped);
  RUN(starting_an_active_timer_moves_it);
  RUN(a_start_without_a_callback_changes_nothing);
  RUN(again_needs_a_start_before);
  RUN(again_without_a_repeat_leaves_it_as_it_is);
  RUN(again_waits_for_the_repeat);
  RUN(repeats_are_kept_in_nanoseconds);
  RUN(what_is_too_far_away_is_active_and_never_due);
  RUN(due_in_counts_down_and_rounds_up);
  RUN(touching_one_that_waits_for_its_repeat_gives_it_the_repeat);
  RUN(touching_one_that_is_not_active_does_nothing);
  RUN(init_leaves_data_alone);
  RUN(a_timer_without_a_reference_does_not_hold_the_loop);
  RUN(a_service_without_a_reference_does_not_hold_the_loop);
  RUN(closing_stops_at_once_and_tells_later_in_order);
  RUN(a_closing_timer_answers_as_libuvs);
  RUN(a_timer_may_be_closed_in_its_own_callback);
  RUN(a_close_callback_may_free_the_timer);
  RUN(a_close_callback_may_close_others_which_are_told_later);
  RUN(what_was_closed_may_be_initialised_anew);
  RUN(nobody_need_be_told);
  RUN(a_loop_is_not_closed_before_its_service);
  RUN(closing_the_service_stops_its_timers_and_starts_none);
  RUN(a_service_is_closed_after_the_timers_that_were_closed_before);
  RUN(a_timer_may_be_closed_when_its_service_is_gone);
  RUN(a_timers_callback_may_close_the_service);
  RUN(a_close_callback_may_close_the_service);
  RUN(a_services_close_callback_may_free_it);
  RUN(a_closed_service_may_be_opened_anew);
  RUN(a_walk_can_tell_what_is_the_services);
  RUN(what_is_the_services_is_not_while_it_is_closing);
  RUN(a_walk_may_close_the_rest_when_the_service_is_closed);
  RUN(a_loop_that_was_closed_has_no_service);
  RUN(no_more_timers_are_active_than_max_armed);
  RUN(a_pass_does_no_more_than_work_per_pass);
  RUN(a_pass_ends_after_time_per_pass);
  RUN(slow_callbacks_and_stalls_are_those_beyond_the_options);
  RUN(timers_are_due_at_the_end_of_a_tick);
#ifdef __linux__
  RUN(a_timerfd_wakes_the_loop_when_it_was_asked_for);
#endif
  RUN(timers_wait_for_input_as_io_wait_says);
  RUN(options_that_cannot_be_are_refused);
  RUN(options_without_their_size_are_refused);
  RUN(a_wakeup_that_a_later_version_may_know_is_not_supported);
  RUN(the_shape_of_the_wheel_may_be_chosen);
  RUN(options_of_an_older_program_are_taken);
  RUN(options_of_a_newer_program_are_taken_as_long_as_they_are_known);
  RUN(there_need_be_no_options);
  RUN(what_was_counted_can_be_asked_until_the_service_is_closed);
  RUN(an_older_program_is_told_what_it_knows_and_a_newer_one_no_more);
  RUN(how_long_callbacks_took_and_how_late_they_were_is_told);
  RUN(another_thread_posts_to_a_loop_that_is_held);
  RUN(a_posted_timer_is_cancelled_or_runs_or_is_closed_with_the_service);
  RUN(a_released_timer_runs_all_the_same);
  RUN(no_more_posts_wait_than_max_queued);
  RUN(a_copy_of_an_empty_remote_is_empty);
  RUN(a_remote_outlives_its_service_and_is_refused);
  RUN(null_is_refused_where_a_code_is_returned);
  RUN(null_is_a_violated_precondition_elsewhere);
  RUN(closing_twice_is_a_violated_precondition);
  RUN(a_closed_service_is_known_by_its_memory);
  RUN(another_thread_is_named_unless_the_service_was_handed_over);
  RUN(who_joined_the_loops_thread_takes_the_service_over_and_closes_it);
  RUN(a_forked_child_has_timers_of_its_own);
  return report();
}
