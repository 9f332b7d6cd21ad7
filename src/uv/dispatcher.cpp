#include <tickwheel/uv/detail/dispatcher.hpp>

#include "binding_watch.hpp"
#include "probes.hpp"

#include <tickwheel/core/detail/nanoseconds.hpp>
#include <tickwheel/uv/detail/forwarding_timer.hpp>
#include <tickwheel/uv/detail/post_queue.hpp>
#include <tickwheel/uv/timer.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tickwheel::detail {

namespace {

// How many dead links an iteration drops from an otherwise idle wheel.
constexpr std::size_t sweep_per_turn = 512;

// How many dead links, and slots that all timers left, are dropped after a pass that found nothing: as many as a quarter of
// all slots, so that few such passes follow each other. At most 16,384, because the pass must end soon.
[[gnu::cold]] std::size_t sweep_in_vain(const wheel_geometry& shape) noexcept {
  return std::clamp(shape.levels * shape.slots / 4, 512U, 16384U);
}

// At most so many visits pass between two clock reads. Moves between slots are short, and many in a row overlap their cache
// misses.
constexpr std::size_t visits_per_stretch = 256;

// Returns how many handlers fit into `left`, but at least one, if each takes as long as the last ones: `ran` of them took `took`.
[[gnu::cold]] std::size_t handlers_that_fit(std::size_t ran, std::chrono::nanoseconds took,
                                            std::chrono::nanoseconds left) noexcept {
  const std::int64_t each = std::max<std::int64_t>(took.count() / static_cast<std::int64_t>(ran), 1);
  return static_cast<std::size_t>(std::clamp<std::int64_t>(left.count() / each, 1, handler_log::capacity));
}

}  // namespace

[[gnu::cold]] void dispatcher::open(const service_options& options) noexcept {
  verdict_ = verdict_stamp{options.io_wait};
  judging_ = false;
  next_turn_ = turn_of::slots;
  immediates_left_ = false;
  running_immediates_ = false;
  traces_handlers_ = false;
  work_per_pass_ = options.work_per_pass;
  time_per_pass_ = options.time_per_pass;
  stall_grace_ = options.stall_grace;
  handlers_are_short_ = false;
  passes_ = carried_ = wakeups_ = stalls_ = 0;
  stalled_ = {};
  load_.open(timers_.time().stamp());
  slowest_in_longest_ = {};
  driver_tells_unread_ = timers_.source().left_unread() != driver::unread::unknown;
  timers_.entries().on_fire(fire_hook(), this);
}

[[gnu::cold]] void dispatcher::count(service_stats& stats) const noexcept {
  stats.passes = passes_;
  stats.carried = carried_;
  stats.wakeups = wakeups_;
  stats.stalls = stalls_;
  stats.stalled = stalled_;
  stats.busy = load_.busy();
  stats.idle = load_.idle();
  stats.slowest_in_longest = slowest_in_longest_;
  stats.iterations = {load_.iterations(), tick_length::at_most(std::chrono::nanoseconds{1})};
}

inline void dispatcher::begin_handler(expiry_report::handler_id handler, clock::time_point due,
                                      std::chrono::nanoseconds rounding) noexcept {
  timers_.alive().give_up_place();
  log_.begin(handler, due, rounding);
}

// The wheel knows neither loop nor clock. It says when a timer fires.
template <bool forwards>
void dispatcher::on_fire(void* context, wheel_entry& entry, tick deadline) noexcept {
  dispatcher& self = *static_cast<dispatcher*>(context);
  timer& t = timer::from(entry);
  if (!t.has_ref()) self.timers_.alive().remove_unref();
  const timeline& ticks = self.timers_.ticks();
  clock::time_point due = ticks.begin_of_passed(deadline);
  expiry_report::handler_id handler = nullptr;
  std::chrono::nanoseconds rounding{};
  if (!post_delivery::owns(t)) {
    handler = forwards ? forwarding_timer::target_of(t) : entry.handler();
    if (!self.running_immediates_) rounding = ticks.length().duration();
  } else {
    handler = forwards ? post_delivery::target_of(t) : post_delivery::handler_of(t);
    const clock::time_point asked = post_delivery::due_of(t);
    const tick due_tick = std::min(deadline, ticks.ceil(asked));    // the loop may have taken it after that tick
    due = due_tick == 0 ? asked : ticks.begin_of_passed(due_tick);  // 0: it was due before the service was opened
    rounding = due - asked;
  }
  self.begin_handler(handler, due, rounding);
  if (self.log_.must_look_at_clock()) [[unlikely]]
    self.timers_.entries().stop_pass();
}

// A service of the C interface has a hook of its own, so that the timers of others pay nothing for it.
[[gnu::cold]] wheel::fire_hook dispatcher::fire_hook() const noexcept {
  return timers_.forwards() ? &on_fire<true> : &on_fire<false>;
}

[[gnu::cold]] expiry_report::handler_id dispatcher::handler_of(timer& t) const noexcept {
  if (post_delivery::owns(t)) return timers_.forwards() ? post_delivery::target_of(t) : post_delivery::handler_of(t);
  return timers_.forwards() ? forwarding_timer::target_of(t) : t.handler();
}

[[gnu::cold]] void dispatcher::on_traced_fire(void* context, wheel_entry& entry, tick deadline) noexcept {
  static_cast<dispatcher*>(context)->fire_hook()(context, entry, deadline);
  handler_log& log = static_cast<dispatcher*>(context)->log_;
  log.settle();
  const lateness_account& account = log.lateness();
  probes::fire(&entry, account.handler(), account.report());
}

[[gnu::cold]] void dispatcher::trace_handlers(bool on) noexcept {
  traces_handlers_ = on;
  timers_.entries().on_fire(on ? &on_traced_fire : fire_hook(), this);
}

void dispatcher::end_handlers(clock::time_point now) noexcept {
  timers_.alive().give_up_place();
  log_.end_stretch(now);
}

[[gnu::cold, gnu::noinline]] void dispatcher::trace_stall(std::chrono::nanoseconds stall) const noexcept {
  probes::stall(stall, log_.lateness().slowest_since(timers_.source().poll_ended_at()));
}

void dispatcher::count_stall(std::chrono::nanoseconds stall) noexcept {
  if (stall.count() <= 0) return;
  ++stalls_;
  stalled_ += stall;
  if (probes::traced()) [[unlikely]]
    trace_stall(stall);
}

// A driver that rounds the end of its poll up hides short iterations. A time that was read after that poll does not.
inline clock::time_point dispatcher::take_poll_end(clock::time_point polled, std::chrono::nanoseconds error) noexcept {
  const clock::time_point first_read = timers_.time().take_first_read();
  return error.count() == 0 ? polled : std::min(polled, first_read);
}

// Idle time leaves out all of it, because nobody was listening.
[[gnu::cold]] void dispatcher::on_resumed(clock::time_point left, clock::time_point entered) noexcept {
  const driver& source = timers_.source();
  const clock::time_point polled = source.poll_ended_at();
  const std::chrono::nanoseconds busy = left - polled;
  count_stall(busy > stall_grace_ ? busy - stall_grace_ : std::chrono::nanoseconds{});
  const std::chrono::nanoseconds error = source.poll_ended_error();
  verdict_.busy_for(busy, error);
  const clock::time_point poll_end = take_poll_end(polled, error);
  if (load_.resume(poll_end, left, entered)) slowest_in_longest_ = log_.lateness().slowest_since(poll_end);
  timers_.time().resume(polled, entered);
  log_.lateness().resumed(entered);
}

bool dispatcher::on_iteration(clock::time_point now) noexcept {
  timers_.use_on_this_thread();  // a loop opened on one thread may be run by another
  if (!driver_tells_unread_) active_before_turn_ = take_activity();
  const driver& source = timers_.source();
  const clock::time_point polled = source.poll_ended_at();
  const std::chrono::nanoseconds error = source.poll_ended_error();
  const clock::time_point poll_end = take_poll_end(polled, error);
  if (load_.end_iteration(poll_end, now)) slowest_in_longest_ = log_.lateness().slowest_since(poll_end);
  count_stall(timers_.time().end_iteration(polled, now));
  verdict_.busy_for(now - polled, error);
  log_.lateness().polled(polled);
  wheel& entries = timers_.entries();
  immediates_left_ = entries.collect_immediates();
  const tick present = timers_.tick_to_reach(now);
  if (entries.armed() == 0)
    entries.sweep(sweep_per_turn);
  else if (entries.next_expiry() <= present)
    return true;
  if (posts_due()) return true;  // a delayed one may have been due since the wheel's time
  if (entries.armed() != 0)
    entries.advance(present, 0);  // nothing is due: the cursor moves, so that the next timers are placed well
  return false;
}

bool dispatcher::on_wakeup(clock::time_point now) noexcept {
  ++wakeups_;
  if (due(now)) return true;
  timers_.schedule(now);
  return false;
}

bool dispatcher::due(clock::time_point now) const noexcept { return due(timers_.ticks().floor(now)); }

inline bool dispatcher::due(tick present) const noexcept {
  return timers_.entries().next_expiry() <= present || posts_due();
}

inline bool dispatcher::posts_due() const noexcept { return posts_.any_left() || !posts_.queue()->seems_empty(); }

void dispatcher::on_pass_requested() noexcept { ++wakeups_; }

bool dispatcher::one_poll_is_enough(clock::time_point now) const noexcept {
  const driver& source = timers_.source();
  return verdict_.one_poll_is_enough(now - source.poll_ended_at(), source.poll_ended_error());
}

// Returns true if timers were used since the last call. For drivers that cannot tell what a poll has left unread.
bool dispatcher::take_activity() noexcept {
  const wheel& entries = timers_.entries();
  const bool counted = entries.arms() != arms_seen_ || entries.ended() != ended_seen_;
  arms_seen_ = entries.arms();
  ended_seen_ = entries.ended();
  const bool armed_after = timers_.take_armed_after();
  return timers_.time().take_was_read() || armed_after || counted;
}

// A poll has ended. The first pass of a stamp takes the calls that were posted by then: they go before the verdicts.
void dispatcher::begin_verdicts(clock::time_point stamp, clock::time_point now) noexcept {
  posts_.take();
  if (!verdict_.waits()) {
    verdict_.begin({stamp, timers_.time().less_stalls(stamp)});
    posts_.begin_batch();
  }
  if (!verdict_.waits_for_input()) return;
  driver& source = timers_.source();
  verdict_.busy_for(now - source.poll_ended_at(),
                    source.poll_ended_error());  // a block in an I/O callback extends the wait
  if (verdict_.has_waited_enough(now)) return;
  switch (source.left_unread()) {
    case driver::unread::nothing:
      return verdict_.polled(true);
    case driver::unread::something:
      return verdict_.polled(false);
    case driver::unread::unknown:
      return verdict_.polled(!(take_activity() || active_before_turn_));
  }
}

bool dispatcher::has_work(turn_of whose) const noexcept {
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

// Returns false if nobody has work. The stamp that waits is judged here, as soon as everything before it is done.
bool dispatcher::find_next_turn() noexcept {
  if (verdict_.waits() && !verdict_.waits_for_input() && !posts_.batch_is_left()) {
    verdict_.judge();
    judging_ = timers_.entries().next_in_slots() <= timers_.ticks().floor(verdict_.judged().time);
  }
  for (unsigned looked_at = 0; !has_work(next_turn_); next_turn_ = following(next_turn_))
    if (++looked_at == turns) return false;
  return true;
}

// Makes up to `visits`, and returns how many it has made. Stops when it is time to look at the clock. Touches nothing once the binding
// has ended.
std::size_t dispatcher::run_turn(std::size_t visits, clock::time_point stamp, const binding_watch& binding) noexcept {
  judged_at_ = next_turn_ == turn_of::slots ? verdict_.judged()
                                            : verdict_stamp::moment{stamp, timers_.time().less_stalls(stamp)};
  const tick present = timers_.tick_to_reach(judged_at_.time);
  switch (next_turn_) {
    case turn_of::slots: {
      std::size_t left = visits;
      const bool done = timers_.entries().advance_within(present, left).done;
      if (!binding.ended()) judging_ = !done;
      return visits - left;
    }
    case turn_of::posts:
      return posts_.deliver(visits, verdict_.waits_for_input() ? verdict_.judged().time : stamp, stamp, binding);
    case turn_of::immediates: {
      running_immediates_ = true;
      visits = std::min(visits, log_.handlers_left());
      const auto [ran, done] = timers_.entries().run_immediates(present, visits);
      if (binding.ended()) break;
      running_immediates_ = false;
      immediates_left_ = !done;
      return done ? ran : visits;
    }
  }
  return visits;
}

// If a pass is cut, the next one begins with another turn, because with a work bound of one there is only one turn per pass.
void dispatcher::pass(clock::time_point stamp) noexcept {
  driver& source = timers_.source();
  const binding_watch binding{source};
  clock::time_point now = source.now();
  const clock::time_point stop = add_saturating(now, time_per_pass_);
  log_.lateness().begin_pass(now);
  if (probes::exist && (probes::traced() || traces_handlers_)) [[unlikely]]
    trace_handlers(probes::traced());
  ++passes_;
  timers_.begin_pass(stamp);
  timers_.time().keep_stamps();
  timers_.time().has_polled_by(now);
  begin_verdicts(stamp, now);
  wheel& entries = timers_.entries();
  // If nothing in the slots is due, the cursor moves to the present, where handlers arm. `on_iteration` left that to posts and
  // immediates. But not before posts that wait for input as timers do, because they are due earlier.
  if ((entries.armed() == 0 || posts_.any_left() || immediates_left_) && !verdict_.waits_for_input()) {
    const tick present = timers_.tick_to_reach(stamp);
    if (entries.armed() == 0 || entries.next_in_slots() > present) entries.advance(present, 0);
  }
  bool in_vain = true;
  bool left = find_next_turn();
  const turn_of first = next_turn_;
  // Until the next clock read. One at first, unless the last ones of the pass before were short: all may be slow.
  std::size_t handlers = handlers_are_short_ ? handler_log::capacity : 1;
  std::size_t turn_left = handler_log::capacity;  // how many handlers the kind whose turn it is may still run
  for (std::size_t work = work_per_pass_; left;) {
    const clock::time_point began = now;
    const std::size_t most = std::min(handlers, turn_left);
    log_.begin_stretch(began, most, (stop - began) / 2);
    const std::size_t visits = run_turn(std::min(work, visits_per_stretch), stamp, binding);
    if (binding.ended()) return;
    const std::size_t ran = most - log_.handlers_left();
    now = source.now();
    end_handlers(now);
    if (log_.has_untold()) {
      log_.tell_slow(binding);
      if (binding.ended()) return;
      const clock::time_point told = source.now();
      log_.lateness().interrupted(now, told);
      now = told;
    }
    work -= visits;
    if (ran != 0) {
      in_vain = false;
      handlers_are_short_ = now - began <= (stop - now) / std::int64_t{handler_log::capacity};
      handlers = handlers_are_short_ ? handler_log::capacity : handlers_that_fit(ran, now - began, stop - now);
    }
    turn_left -= std::min(ran, turn_left);
    if (ran == 0 || turn_left == 0 || !has_work(next_turn_)) {
      next_turn_ = following(next_turn_);
      turn_left = handler_log::capacity;
    }
    left = find_next_turn();
    if (work == 0 || now >= stop) break;
  }
  if (left) ++carried_;
  // The slots that come next may be as empty.
  if (!left && in_vain && !verdict_.waits()) entries.sweep(sweep_in_vain(entries.geometry()));
  next_turn_ = left ? following(first) : turn_of::slots;  // the first kind has more turns, or longer ones
  if (!driver_tells_unread_) {
    take_activity();          // this pass's own activity does not count
    timers_.time().expire();  // so that the next query of the time is noticed
  }
  // If no round of immediates is under way, the immediates that are left are new. They need a pass soon, but nothing was cut.
  const bool only_new = !judging_ && !posts_.any_left() && !entries.in_immediate_round();
  const bool again = (left && !only_new) || verdict_.waits();
  // Timers that are due by now, but were not by the stamp, wait for no poll either.
  log_.lateness().end_pass(now, again || entries.next_expiry() <= timers_.ticks().floor(now));
  timers_.end_pass();
  if (!again && posts_.queue()->sleep())
    timers_.schedule(now);
  else
    source.continue_pass();  // also if something was posted meanwhile, by a thread that did not wake us
  timers_.alive().set_others(posts_.needs_loop());
  timers_.update_hold();
}

}  // namespace tickwheel::detail
