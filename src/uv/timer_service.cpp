#include <tickwheel/uv/timer_service.hpp>

#include "binding_watch.hpp"
#include "loop_driver.hpp"

#include <tickwheel/core/detail/nanoseconds.hpp>
#include <tickwheel/uv/detail/mailbox.hpp>
#include <tickwheel/uv/detail/remote_node.hpp>
#include <tickwheel/uv/remote.hpp>
#include <tickwheel/uv/timer.hpp>

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

namespace tickwheel {

namespace {

// How many dead links one turn of an otherwise idle wheel drops.
constexpr std::size_t sweep_per_turn = 256;

// At most so many visits pass between looks at the clock. A look costs about as much as one visit.
constexpr std::size_t longest_stride = detail::handler_log::capacity;

// The earliest tick of [from, to] that is a multiple of the largest power of two: ticks that many ranges share, so that
// deadlines with slack gather on few ticks.
tick most_shared(tick from, tick to) noexcept {
  if (from == 0 || from >= to) return from;
  const tick unit = std::bit_floor((from - 1) ^ to);
  return to & ~(unit - 1);
}

}  // namespace

timer_service::~timer_service() { close(); }

int timer_service::open(uv_loop_t& loop, const service_options& options) noexcept {
  if (is_open()) return UV_EALREADY;
  if (options.problem() != nullptr) return UV_EINVAL;
  // the driver last: one that is made and not used takes a turn of the loop to go
  detail::mailbox* mailbox = nullptr;
  if (const int error = make_parts(options, mailbox)) return error;
  driver* made = nullptr;
  if (const int error = make_loop_driver(loop, options.wakeup, made)) {
    wheel_.reset();
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
  if (const int error = make_wheel(options)) return error;
  mailbox = detail::mailbox::make(options.max_queued, options.max_armed);
  if (mailbox != nullptr) return 0;
  wheel_.reset();
  return UV_ENOMEM;
}

int timer_service::make_wheel(const service_options& options) noexcept {
#if defined(__cpp_exceptions)
  try {
    wheel_.emplace(options.geometry);
  } catch (const std::bad_alloc&) {
    return UV_ENOMEM;
  }
#else
  wheel_.emplace(options.geometry);
#endif
  return 0;
}

void timer_service::start(driver& on, detail::mailbox& mailbox, const service_options& options) noexcept {
  mailbox.open(on);
  posts_.open(mailbox);
  options_ = options;
  stats_ = {};
  thread_ = detail::this_thread();
  alive_.restart(options.max_armed);
  wake_ = never;
  verdict_ = detail::verdict_stamp{options.io_wait};
  judging_ = false;
  next_turn_ = turn_of::slots;
  immediates_left_ = false;
  running_immediates_ = false;
  on.bind(*this);
  driver_ = &on;
  clock_.open(on, options.stall_grace);
  driver_tells_unread_ = on.left_unread() != driver::unread::unknown;
  timeline_ = {clock_.stamp(), tick_length::at_most(options.tick)};
  log_.restart(options.slow_handler);
  wheel_->on_fire(&on_fire, this);
  refresh_stats();
}

void timer_service::close() noexcept {
  if (!is_open()) return;
  driver* const was = driver_;
  driver_ = nullptr;
  thread_ = nullptr;
  clock_.close();
  posts_.close(*this);
  wheel_->clear([this](wheel_entry& entry) noexcept { posts_.forget(*this, timer::from(entry)); });
  alive_.forget_unref();
  refresh_stats();
  stats_.remote_accepted = stats_.remote_ran + stats_.remote_withdrawn + stats_.remote_cancelled;
  wheel_.reset();
  was->unbind();
}

const service_stats& timer_service::stats() const noexcept {
  refresh_stats();
  return stats_;
}

void timer_service::refresh_stats() const noexcept {
  if (!wheel_) return;
  const wheel_counts counts = wheel_->counts();
  stats_.armed = counts.armed;
  stats_.cancelled = counts.cancelled;
  stats_.fired = counts.fired;
  stats_.pending = wheel_->armed();
  stats_.lateness = {wheel_->lateness(), timeline_.length()};
  stats_.slow_handlers = log_.slow_handlers();
  stats_.handler_time = {log_.times(), tick_length::at_most(std::chrono::nanoseconds{1})};
  posts_.count(stats_);
}

void timer_service::ref() noexcept {
  alive_.set_ref(true);
  update_hold();
}

void timer_service::unref() noexcept {
  alive_.set_ref(false);
  update_hold();
}

remote_handle timer_service::remote() const noexcept { return remote_handle{posts_.box()}; }

remote_hold timer_service::hold() noexcept {
  if (!is_open()) return {};
  check_thread();
  remote_hold held{posts_.box()};
  posts_.expect_holds();
  update_hold();
  return held;
}

void timer_service::after_fork() noexcept {
  thread_ = detail::this_thread();
  driver_->after_fork();
  clock_.read();
  // the ring of a last hold that was released is lost, and only a pass finds out
  if (posts_.may_have_holds())
    driver_->pass_again();
  else if (wake_ != 0)
    schedule();
}

int timer_service::arm_after(timer& t, std::chrono::nanoseconds after, std::chrono::nanoseconds slack) noexcept {
  if (!is_open()) return UV_ECANCELED;
  armed_after_ = true;
  const clock::time_point now = driver_->now();
  if (after.count() <= 0 && slack.count() <= 0) return arm_immediate(t, now);
  const auto due = detail::add_saturating(now, after);
  tick deadline = tick_of(due);
  if (slack.count() > 0) {
    const tick latest = std::max(deadline, timeline_.floor(detail::add_saturating(due, slack)));
    const tick armed = t.wheel_entry::deadline();
    deadline = deadline <= armed && armed <= latest ? armed : most_shared(deadline, latest);
  }
  return t.has_ref() ? arm_tick(t, deadline) : arm_slow_path(t, deadline);
}

// Of any timer, in any state: what `arm_tick` leaves out because the counts say that it cannot matter.
int timer_service::arm_slow_path(timer& t, tick deadline) noexcept {
  if (const int error = admit(t)) return error;
  if (wheel_->armed() == 0) skip_idle_time();
  wheel_->arm(t.entry(), deadline);
  update_hold();
  wake_sooner();
  return 0;
}

int timer_service::arm_at_slow_path(timer& t, clock::time_point when) noexcept {
  return when <= clock_.stamp() ? arm_immediate(t, clock_.stamp()) : arm_slow_path(t, tick_of(when));
}

// It stands in no tick: one ahead of the clock would make its neighbours early. `since` may be of an earlier iteration. The
// time of the last poll is then nearer, though it may be later than the true one.
int timer_service::arm_immediate(timer& t, clock::time_point since) noexcept {
  if (const int error = admit(t)) return error;
  const clock::time_point polled = driver_->polled() - driver_->polled_error();
  wheel_->arm_immediate(t.entry(), timeline_.floor(std::max(since, polled)));
  update_hold();
  if (wake_ == never)
    schedule();
  else if (wake_ != 0)
    driver_->pass_soon();
  return 0;
}

// A place for one that is to be armed: 0, or why there is none.
int timer_service::admit(timer& t) noexcept {
  if (!is_open()) return UV_ECANCELED;
  check_thread();
  if (t.armed()) return 0;
  if (alive_.places_left(*wheel_) == 0) {
    ++stats_.refused;
    return UV_ENOBUFS;
  }
  if (!t.has_ref()) alive_.add_unref();
  return 0;
}

// Of a timer that is armed or has just come up, and so has its place: other threads' timers, which are never refused once
// they were accepted, may have made more of them than `max_armed` meanwhile.
void timer_service::arm_again(timer& t, tick deadline) noexcept {
  check_thread();
  if (!t.armed() && !t.has_ref()) alive_.add_unref();
  if (alive_.keeps_place(t)) alive_.give_up_place();
  wheel_->arm(t.entry(), deadline);
  update_hold();
  wake_sooner();
}

bool timer_service::cancel_slow_path(timer& t) noexcept {
  check_thread();
  if (!t.has_ref()) alive_.remove_unref();
  return cancel(t);
}

// The first timer after none: the wheel's time, which stood still, is brought up to date before it is placed. Not while a
// pass runs, or is to follow, which does that.
void timer_service::skip_idle_time() noexcept {
  if (wake_ != 0) wheel_->advance(timeline_.floor(now()), 0);
}

void timer_service::set_ref(timer& t, bool on) noexcept {
  if (t.has_ref() == on) return;
  t.service_ ^= timer::unref_bit;
  if (!t.armed()) return;
  check_thread();
  if (on)
    alive_.remove_unref();
  else
    alive_.add_unref();
  update_hold();
}

// The wheel, which knows neither loop nor clock, says when one fires.
void timer_service::on_fire(void* service, wheel_entry& entry, tick deadline) noexcept {
  timer_service& self = *static_cast<timer_service*>(service);
  timer& t = timer::from(entry);
  if (!t.has_ref()) self.alive_.remove_unref();
  const clock::time_point due = self.time_of(deadline);
  if (!t.is_remote()) {
    self.begin_handler(entry.handler(), due,
                       self.running_immediates_ ? std::chrono::nanoseconds{} : self.tick_duration());
  } else {
    self.begin_handler(detail::post_delivery::handler_of(t), due, due - detail::post_delivery::due_of(t));
  }
}

// When the next handler begins, or the turn is over: one look at the clock serves both.
void timer_service::begin_handler(expiry_report::handler_id handler, clock::time_point due,
                                  std::chrono::nanoseconds rounding) noexcept {
  alive_.give_up_place();
  log_.begin(handler, due, rounding, driver_->now());
}

void timer_service::end_handler(clock::time_point now) noexcept {
  alive_.give_up_place();
  log_.end(now);
}

const expiry_report& timer_service::why() const noexcept { return report_ = log_.lateness().report(); }

void timer_service::update_hold() noexcept {
  if (is_open() && alive_.update(*wheel_, posts_.needs_loop())) driver_->hold(alive_.held());
}

void timer_service::schedule() noexcept {
  if (wheel_->next_expiry() <= wheel_->now()) driver_->pass_soon();
  wake_ = wheel_->next_in_slots();
  if (wake_ == never)
    driver_->rest();
  else
    driver_->wake_at(time_of(wake_));
}

// At once, not at the next turn of the loop: without an armed libuv timer the loop may end before it.
void timer_service::wake_sooner() noexcept {
  if (wheel_->expiry_bound() < wake_) schedule();
}

void timer_service::count_stall(std::chrono::nanoseconds stall) noexcept {
  if (stall.count() <= 0) return;
  ++stats_.stalls;
  stats_.stalled += stall;
}

// Idle time leaves out all of it, because nobody was listening.
void timer_service::resumed(clock::time_point left, clock::time_point entered) noexcept {
  const clock::time_point polled = driver_->polled();
  const std::chrono::nanoseconds busy = left - polled;
  count_stall(busy > options_.stall_grace ? busy - options_.stall_grace : std::chrono::nanoseconds{});
  verdict_.busy_for(busy, driver_->polled_error());
  clock_.resume(polled, entered);
  log_.lateness().resumed(entered);
}

void timer_service::turn(clock::time_point now) noexcept {
  thread_ = detail::this_thread();  // a loop opened on one thread may be run by another
  active_before_turn_ = take_activity();
  const clock::time_point polled = driver_->polled();
  count_stall(clock_.end_iteration(polled, now));
  verdict_.busy_for(now - polled, driver_->polled_error());
  log_.lateness().polled(polled);
  immediates_left_ = wheel_->collect_immediates();
  const tick present = timeline_.floor(now);
  if (wheel_->armed() == 0) {
    wheel_->sweep(sweep_per_turn);
  } else if (present < wheel_->next_expiry()) {
    wheel_->advance(present, 0);  // nothing is due: the cursor moves, so that what is armed next is placed well
  }
}

bool timer_service::woken(clock::time_point now) noexcept {
  ++stats_.wakeups;
  if (due(now)) return true;
  schedule();
  return false;
}

bool timer_service::due(clock::time_point now) const noexcept {
  return wheel_->next_expiry() <= timeline_.floor(now) || posts_.any_left() || !posts_.box()->seems_empty();
}

void timer_service::rung() noexcept { ++stats_.wakeups; }

// Whether timers were touched since this was asked last, for drivers that cannot tell what a poll has left.
bool timer_service::take_activity() noexcept {
  const bool counted = wheel_->arms() != arms_seen_ || wheel_->ended() != ended_seen_;
  arms_seen_ = wheel_->arms();
  ended_seen_ = wheel_->ended();
  const bool armed_after = std::exchange(armed_after_, false);
  return clock_.take_was_read() || armed_after || counted;
}

// A poll has ended. The first pass of a stamp takes what was posted by then: that goes before the verdicts.
void timer_service::begin_verdicts(clock::time_point stamp, clock::time_point now) noexcept {
  posts_.take();
  if (!verdict_.waits()) {
    verdict_.begin({stamp, clock_.less_stalls(stamp)});
    posts_.begin_batch();
  }
  if (!verdict_.waits_for_input()) return;
  verdict_.busy_for(now - driver_->polled(), driver_->polled_error());  // what I/O callbacks block extends the wait
  if (verdict_.has_waited_enough(now)) return;
  switch (driver_->left_unread()) {
    case driver::unread::nothing:
      return verdict_.polled(true);
    case driver::unread::something:
      return verdict_.polled(false);
    case driver::unread::unknown:
      return verdict_.polled(!(take_activity() || active_before_turn_));
  }
}

bool timer_service::has_work(turn_of whose) const noexcept {
  switch (whose) {
    case turn_of::slots:
      return judging_;
    case turn_of::posts:
      return posts_.any_left();
    case turn_of::immediates:
      return immediates_left_;
  }
  return false;
}

// False if nobody has work. Here the stamp that waits is judged, as soon as what goes before it is done.
bool timer_service::find_next_turn() noexcept {
  if (verdict_.waits() && !verdict_.waits_for_input() && !posts_.batch_is_left()) {
    verdict_.judge();
    judging_ = wheel_->next_in_slots() <= timeline_.floor(verdict_.judged().time);
  }
  for (unsigned looked_at = 0; !has_work(next_turn_); next_turn_ = following(next_turn_))
    if (++looked_at == turns) return false;
  return true;
}

// Does up to `visits`, and touches nothing any more once the binding has ended.
void timer_service::run_turn(std::size_t visits, clock::time_point stamp, const binding_watch& binding) noexcept {
  const auto as_of = next_turn_ == turn_of::slots ? verdict_.judged()
                                                  : detail::verdict_stamp::moment{stamp, clock_.less_stalls(stamp)};
  judged_at_ = as_of.time;
  responsive_judged_at_ = as_of.responsive;
  const tick present = timeline_.floor(judged_at_);
  switch (next_turn_) {
    case turn_of::slots: {
      const bool done = wheel_->advance(present, visits).done;
      if (!binding.ended()) judging_ = !done;
      return;
    }
    case turn_of::posts:
      return posts_.deliver(*this, visits, verdict_.waits_for_input() ? verdict_.judged().time : stamp, stamp, binding);
    case turn_of::immediates: {
      running_immediates_ = true;
      const bool done = wheel_->run_immediates(present, visits).done;
      if (binding.ended()) return;
      running_immediates_ = false;
      immediates_left_ = !done;
      return;
    }
  }
}

// Slots, posted calls and immediates have turns, so that none starves another. If a pass is cut, the next one begins with
// another, because a bound of one leaves but one turn a pass.
void timer_service::pass(clock::time_point stamp) noexcept {
  driver& turned_by = *driver_;
  const binding_watch binding{turned_by};
  clock::time_point now = turned_by.now();
  const clock::time_point stop = detail::add_saturating(now, options_.time_per_pass);
  log_.lateness().begin_pass(now);
  ++stats_.passes;
  wake_ = 0;
  clock_.keep_stamps();
  begin_verdicts(stamp, now);
  // to the present, where handlers arm; but posted calls that wait for input like timers are due before it
  if (wheel_->armed() == 0 && !verdict_.waits_for_input()) wheel_->advance(timeline_.floor(stamp), 0);
  bool left = find_next_turn();
  const turn_of first = next_turn_;
  std::size_t stride = 1;  // visits until the clock is looked at: one at first, as handlers may be slow
  for (std::size_t work = options_.work_per_pass; left;) {
    const std::size_t visits = std::min(work, stride);
    run_turn(visits, stamp, binding);
    if (binding.ended()) return;
    now = turned_by.now();
    end_handler(now);
    if (log_.has_untold()) {
      log_.tell_slow(binding);
      if (binding.ended()) return;
      now = turned_by.now();
    }
    work -= visits;
    stride = std::min(2 * stride, longest_stride);
    next_turn_ = following(next_turn_);
    left = find_next_turn();
    if (work == 0 || now >= stop) break;
  }
  if (left) ++stats_.carried;
  next_turn_ = left ? following(first) : turn_of::slots;  // who begins has more turns, or longer ones
  take_activity();                                        // our own does not count
  if (!driver_tells_unread_) clock_.expire();             // so that the next who asks for the time is noticed
  // Without a round of immediates under way, those that are left are new: they need a pass soon, and nothing was cut.
  const bool only_new = !judging_ && !posts_.any_left() && !wheel_->in_immediate_round();
  const bool again = (left && !only_new) || verdict_.waits();
  log_.lateness().end_pass(now, again);
  if (!again && posts_.box()->sleep())
    schedule();
  else
    turned_by.pass_again();  // or something was posted meanwhile, by a thread that did not wake us
  update_hold();
}

}  // namespace tickwheel
