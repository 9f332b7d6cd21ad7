/* What a program in C uses of tickwheel. */
#include <stdio.h>
#include <string.h>
#include <tickwheel/tickwheel.h>

static int ran = 0;
static int closed = 0;

static void on_closed(tw_timer_t* timer) { closed += timer->data == &ran; }

static void on_timeout(tw_timer_t* timer) {
  ++*(int*)timer->data;
  tw_timer_close(timer, on_closed);
}
TW_NAME_TIMER_CB(on_timeout);

int main(void) {
  char name[16];
  uv_loop_t loop;
  tw_service_t timers;
  tw_timer_t timer;
  if (strcmp(tw_version_string(), TICKWHEEL_VERSION) != 0) return 1;
  if (strcmp(tw_handler_name((tw_handler_t)on_timeout, name, sizeof name), "on_timeout") != 0) return 6;
  if (uv_loop_init(&loop) != 0 || tw_service_init(&loop, &timers) != 0) return 2;
  if (tw_timer_init(&timers, &timer) != 0) return 3;
  timer.data = &ran;
  if (tw_timer_start(&timer, on_timeout, 1, 0) != 0) return 4;
  uv_run(&loop, UV_RUN_DEFAULT);
  tw_service_close(&timers, NULL);
  uv_run(&loop, UV_RUN_DEFAULT);
  if (uv_loop_close(&loop) != 0 || ran != 1 || closed != 1) return 5;
  printf("C with tickwheel %s: ok\n", tw_version_string());
  return 0;
}
