// The functions of tickwheel.h for services and timers, except those that a server calls for each request: timer.cpp has these. They
// handle null pointers and convert units of time. They are in a file of their own, so that the functions they call are not inlined
// into each of them: that saves 2.6 of 14 KB.
#include "service_block.hpp"
#include "timer.hpp"

#include <tickwheel/tickwheel.h>
#include <tickwheel/version.hpp>

#include <uv.h>

#include <cstdint>

using tickwheel::c::from_ms;
using tickwheel::c::service_block;
using tickwheel::c::timer;
using tickwheel::c::to_ms;

const char* tw_version_string() { return tickwheel::version(); }

void tw_service_close(tw_service_t* handle, tw_service_close_cb cb) {
  service_block& s = service_block::of(handle);
  tickwheel::detail::require(!s.is_closing(), "tw_service_close: it is closing already");
  s.check_thread();
  s.close(cb);
}

int tw_service_is_closing(const tw_service_t* handle) {
  tickwheel::detail::require(handle != nullptr, "a tw_service_t was null");
  return service_block::find_open(*handle) == nullptr;
}

void tw_service_ref(tw_service_t* handle) {
  service_block& s = service_block::of(handle);
  s.check_thread();
  s.timers().ref();
}
void tw_service_unref(tw_service_t* handle) {
  service_block& s = service_block::of(handle);
  s.check_thread();
  s.timers().unref();
}
int tw_service_has_ref(const tw_service_t* handle) { return service_block::of(handle).timers().has_ref(); }

int tw_service_owns(const tw_service_t* handle, const uv_handle_t* h) {
  tickwheel::detail::require(handle != nullptr, "a tw_service_t was null");
  service_block* const s = service_block::find_open(*handle);
  return s != nullptr && s->timers().owns(h);
}

void tw_service_use_on_this_thread(tw_service_t* handle) {
  if (service_block& s = service_block::of(handle); !s.is_closing()) s.timers().use_on_this_thread();
}

int tw_service_after_fork(tw_service_t* handle) {
  if (handle == nullptr) return UV_EINVAL;
  service_block* const s = service_block::find_open(*handle);
  if (s == nullptr) return UV_ECANCELED;
  s->timers().after_fork();
  return 0;
}

int tw_timer_init(tw_service_t* service, tw_timer_t* handle) {
  if (service == nullptr || handle == nullptr) return UV_EINVAL;
  service_block* const of = service_block::find_open(*service);
  if (of == nullptr) return UV_ECANCELED;
  of->check_thread();
  timer::make(*of, *handle);
  return 0;
}

int tw_timer_start(tw_timer_t* handle, tw_timer_cb cb, uint64_t timeout, uint64_t repeat) {
  return tw_timer_start_ns(handle, cb, from_ms(timeout), from_ms(repeat));
}

int tw_timer_again(tw_timer_t* handle) { return handle == nullptr ? UV_EINVAL : timer::of(handle).again(); }

void tw_timer_set_repeat(tw_timer_t* handle, uint64_t repeat) { timer::of(handle).set_repeat(from_ms(repeat)); }
void tw_timer_set_repeat_ns(tw_timer_t* handle, uint64_t repeat) { timer::of(handle).set_repeat(repeat); }
uint64_t tw_timer_get_repeat(const tw_timer_t* handle) { return to_ms(timer::of(handle).repeat()); }
uint64_t tw_timer_get_repeat_ns(const tw_timer_t* handle) { return timer::of(handle).repeat(); }

uint64_t tw_timer_get_due_in(const tw_timer_t* handle) { return to_ms(timer::of(handle).due_in()); }
uint64_t tw_timer_get_due_in_ns(const tw_timer_t* handle) { return timer::of(handle).due_in(); }

void tw_timer_ref(tw_timer_t* handle) { timer::of(handle).set_ref(true); }
void tw_timer_unref(tw_timer_t* handle) { timer::of(handle).set_ref(false); }
int tw_timer_has_ref(const tw_timer_t* handle) { return timer::of(handle).has_ref(); }

void tw_timer_close(tw_timer_t* handle, tw_timer_close_cb cb) {
  timer& t = timer::of(handle);
  tickwheel::detail::require(!t.is_closing(), "tw_timer_close: it is closing already");
  t.close(cb);
}

int tw_timer_is_closing(const tw_timer_t* handle) { return timer::of(handle).is_closing(); }
