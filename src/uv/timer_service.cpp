#include <tickwheel/uv/timer_service.hpp>

#include "loop_driver.hpp"

#include <tickwheel/uv/detail/post_queue.hpp>
#include <tickwheel/uv/remote.hpp>
#include <tickwheel/uv/timer.hpp>

#include <utility>

namespace tickwheel {

timer_service::~timer_service() {
  close();
  detail::require(!is_open(),
                  "timer_service: the destructor of a posted callable opened it again while it was destroyed");
}

int timer_service::open(uv_loop_t& loop, const service_options& options) noexcept {
  timers().expect_open();
  if (is_open()) return UV_EALREADY;
  if (options.problem() != nullptr) return UV_EINVAL;
  // makes the driver last: a driver that was made and is not used needs an iteration of the loop to free itself
  detail::post_queue* queue = nullptr;
  if (const int error = make_parts(options, queue)) return error;
  driver* made = nullptr;
  if (const int error = make_loop_driver(loop, options.wakeup, made)) {
    timers().drop_wheel();
    queue->release();
    return error;
  }
  start(*made, *queue, options);
  return 0;
}

int timer_service::open(driver& on, const service_options& options) noexcept {
  timers().expect_open();
  if (is_open()) return UV_EALREADY;
  if (options.problem() != nullptr || on.now() < clock::time_point{}) return UV_EINVAL;
  if (on.bound() != nullptr) return UV_EBUSY;
  detail::post_queue* queue = nullptr;
  if (const int error = make_parts(options, queue)) return error;
  start(on, *queue, options);
  return 0;
}

int timer_service::make_parts(const service_options& options, detail::post_queue*& queue) noexcept {
  if (const int error = timers().make_wheel(options.geometry)) return error;
  queue = detail::post_queue::make(options.max_queued, options.max_armed);
  if (queue != nullptr) return 0;
  timers().drop_wheel();
  return UV_ENOMEM;
}

void timer_service::start(driver& on, detail::post_queue& queue, const service_options& options) noexcept {
  queue.open(on);
  dispatcher_.posts().open(queue);
  stats_ = {};
  stats_.max_armed = options.max_armed;
  stats_.max_queued = options.max_queued;
  on.bind(dispatcher_);
  timers().open(on, options);
  dispatcher_.open(options);
  dispatcher_.log().restart(on, options.slow_handler);
  dispatcher_.log().count_in(stats_.handlers, options.count_handlers);
  refresh_stats();
}

void timer_service::close() noexcept {
  if (!is_open()) return;
  driver& source = timers().source();
  timers().close();
  detail::post_delivery& posts = dispatcher_.posts();
  // their callables are destroyed last, and may destroy the service
  detail::ended_operations ended;
  const detail::detached_calls detached{std::move(detached_)};
  posts.close(ended);
  timers().entries().clear([&](wheel_entry& entry) noexcept { posts.forget(timer::from(entry), ended); });
  timers().alive().forget_unref();
  refresh_stats();  // settles the log of handlers: why() may be asked when the driver is gone
  stats_.remote_accepted = stats_.remote_ran + stats_.remote_withdrawn + stats_.remote_cancelled;
  stats_.remote_queued = 0;
  timers().drop_wheel();
  source.unbind();
}

const service_stats& timer_service::stats() const noexcept {
  refresh_stats();
  return stats_;
}

void timer_service::refresh_stats() const noexcept {
  if (!timers().has_wheel()) return;
  const wheel& entries = timers().entries();
  const wheel_counts counts = entries.counts();
  stats_.armed = counts.armed;
  stats_.cancelled = counts.cancelled;
  stats_.fired = counts.fired;
  stats_.pending = entries.armed();
  stats_.refused = timers().refused();
  stats_.lateness = {entries.lateness(), timers().ticks().length()};
  const detail::handler_log& log = dispatcher_.settled_log();
  stats_.slow_handlers = log.slow_handlers();
  stats_.handler_time = {log.times(), tick_length::at_most(std::chrono::nanoseconds{1})};
  dispatcher_.count(stats_);
  dispatcher_.posts().count(stats_);
}

const expiry_report& timer_service::why() const noexcept {
  return report_ = dispatcher_.settled_log().lateness().report();
}

void timer_service::ref() noexcept {
  timers().alive().set_ref(true);
  timers().update_hold();
}

void timer_service::unref() noexcept {
  timers().alive().set_ref(false);
  timers().update_hold();
}

remote_handle timer_service::remote() const noexcept { return remote_handle{dispatcher_.posts().queue()}; }

remote_hold timer_service::hold() noexcept {
  if (!is_open()) return {};
  check_thread();
  remote_hold held{dispatcher_.posts().queue()};
  dispatcher_.posts().expect_holds();
  timers().alive().set_others(dispatcher_.posts().needs_loop());
  timers().update_hold();
  return held;
}

void timer_service::after_fork() noexcept {
  if (!is_open()) return;
  timers().use_on_this_thread();
  timers().source().after_fork();
  timers().time().read();
  // the wakeup for the last released hold is lost, and only a pass notices the release
  if (dispatcher_.posts().may_have_holds())
    timers().source().continue_pass();
  else if (!timers().in_pass())
    timers().schedule();
}

timer* timer_service::own_timer(wheel_entry& entry) noexcept {
  timer& t = timer::from(entry);
  return detail::post_delivery::owns(t) ? nullptr : &t;
}

}  // namespace tickwheel
