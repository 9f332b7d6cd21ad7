#include <tickwheel/uv/timer_service.hpp>

#include "loop_driver.hpp"

#include <tickwheel/uv/detail/mailbox.hpp>
#include <tickwheel/uv/remote.hpp>
#include <tickwheel/uv/timer.hpp>

namespace tickwheel {

timer_service::~timer_service() { close(); }

int timer_service::open(uv_loop_t& loop, const service_options& options) noexcept {
  if (is_open()) return UV_EALREADY;
  if (options.problem() != nullptr) return UV_EINVAL;
  // the driver last: one that is made and not used takes an iteration of the loop to go
  detail::mailbox* mailbox = nullptr;
  if (const int error = make_parts(options, mailbox)) return error;
  driver* made = nullptr;
  if (const int error = make_loop_driver(loop, options.wakeup, made)) {
    timers_.drop_wheel();
    mailbox->release();
    return error;
  }
  start(*made, *mailbox, options);
  return 0;
}

int timer_service::open(driver& on, const service_options& options) noexcept {
  if (is_open()) return UV_EALREADY;
  if (options.problem() != nullptr || on.now() < clock::time_point{}) return UV_EINVAL;
  if (on.bound() != nullptr) return UV_EBUSY;
  detail::mailbox* mailbox = nullptr;
  if (const int error = make_parts(options, mailbox)) return error;
  start(on, *mailbox, options);
  return 0;
}

int timer_service::make_parts(const service_options& options, detail::mailbox*& mailbox) noexcept {
  if (const int error = timers_.make_wheel(options.geometry)) return error;
  mailbox = detail::mailbox::make(options.max_queued, options.max_armed);
  if (mailbox != nullptr) return 0;
  timers_.drop_wheel();
  return UV_ENOMEM;
}

void timer_service::start(driver& on, detail::mailbox& mailbox, const service_options& options) noexcept {
  mailbox.open(on);
  posts_.open(mailbox);
  stats_ = {};
  on.bind(dispatcher_);
  timers_.open(on, options);
  dispatcher_.open(options);
  log_.restart(options.slow_handler);
  refresh_stats();
}

void timer_service::close() noexcept {
  if (!is_open()) return;
  driver& source = timers_.source();
  timers_.close();
  posts_.close();
  timers_.entries().clear([this](wheel_entry& entry) noexcept { posts_.forget(timer::from(entry)); });
  timers_.alive().forget_unref();
  refresh_stats();
  stats_.remote_accepted = stats_.remote_ran + stats_.remote_withdrawn + stats_.remote_cancelled;
  timers_.drop_wheel();
  source.unbind();
}

const service_stats& timer_service::stats() const noexcept {
  refresh_stats();
  return stats_;
}

void timer_service::refresh_stats() const noexcept {
  if (!timers_.has_wheel()) return;
  const wheel& entries = timers_.entries();
  const wheel_counts counts = entries.counts();
  stats_.armed = counts.armed;
  stats_.cancelled = counts.cancelled;
  stats_.fired = counts.fired;
  stats_.pending = entries.armed();
  stats_.refused = timers_.refused();
  stats_.lateness = {entries.lateness(), timers_.ticks().length()};
  stats_.slow_handlers = log_.slow_handlers();
  stats_.handler_time = {log_.times(), tick_length::at_most(std::chrono::nanoseconds{1})};
  dispatcher_.count(stats_);
  posts_.count(stats_);
}

const expiry_report& timer_service::why() const noexcept { return report_ = log_.lateness().report(); }

void timer_service::ref() noexcept {
  timers_.alive().set_ref(true);
  timers_.update_hold();
}

void timer_service::unref() noexcept {
  timers_.alive().set_ref(false);
  timers_.update_hold();
}

remote_handle timer_service::remote() const noexcept { return remote_handle{posts_.box()}; }

remote_hold timer_service::hold() noexcept {
  if (!is_open()) return {};
  check_thread();
  remote_hold held{posts_.box()};
  posts_.expect_holds();
  timers_.alive().set_others(true);
  timers_.update_hold();
  return held;
}

void timer_service::after_fork() noexcept {
  timers_.use_on_this_thread();
  timers_.source().after_fork();
  timers_.time().read();
  // the wakeup for the last hold that was released is lost, and only a pass finds out
  if (posts_.may_have_holds())
    timers_.source().pass_again();
  else if (!timers_.in_pass())
    timers_.schedule();
}

timer* timer_service::own_timer(wheel_entry& entry) noexcept {
  timer& t = timer::from(entry);
  return detail::post_delivery::owns(t) ? nullptr : &t;
}

}  // namespace tickwheel
