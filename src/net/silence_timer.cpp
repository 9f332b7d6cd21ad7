#include <tickwheel/net/detail/silence_timer.hpp>

#include <tickwheel/core/detail/nanoseconds.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace tickwheel::detail {

int silence_timer::begin(const idle_limit& limit, int checks) noexcept {
  if (limit.problem() != nullptr) return UV_EINVAL;
  if (!service().is_open()) return refuse_when_closed();
  // for the whole iteration, so that a touch that follows is not older than the start
  const clock::time_point now = service().update_now();
  if (const int error = timer::arm_verdict_at(add_saturating(now, limit.minimum() / checks))) return error;
  ask_before_moving(&soonest);
  limit_ = limit;
  checks_ = static_cast<std::int8_t>(checks);
  last_ = service().responsive_now();
  noticed_at_ = never_noticed;
  is_paused_ = is_put_off_ = false;
  return 0;
}

// One that was put off is judged also if it is paused again after a poll. Otherwise nobody would judge a peer whose owner pauses and
// resumes in each loop iteration.
bool silence_timer::check_expired() noexcept {
  if (is_paused_ && !is_put_off_) {
    check_later();
    return false;
  }
  is_put_off_ = false;
  const clock::time_point now = judged_at();
  const std::chrono::nanoseconds silence = now - counts_from();
  if (silence < limit_.now()) {
    is_paused_ ? check_later() : timer::arm_again_at(next_check(service().judged_at(), silence));
    return false;
  }
  consecutive_timeouts_ = consecutive_timeouts() + 1;
  // The verdict may be as of a time long ago, and a handler before it may have been slow. The next limit counts from this call, and a
  // touch that follows is not older.
  service().update_now();
  noticed_at_ = std::max(now, service().responsive_now());
  timer::keep_place();
  return true;
}

// The wheel calls this when it moves the timer down, about a tenth of a second before it is due. A timer that was touched
// meanwhile is then moved, and not called. Otherwise all timers that were started together would expire together, however many
// were touched.
tick silence_timer::soonest(void* service, wheel_entry& entry) noexcept {
  const timer& t = timer::from(entry);
  if (!is_patient(t)) return entry.deadline();
  const auto& self = static_cast<const silence_timer&>(t);
  if (self.checks_ != 1) return entry.deadline();  // it expires to check for activity that is not reported
  const auto& timers = *static_cast<const timer_service*>(service);
  return tick_of(timers, add_saturating(self.counts_from() + timers.stalled_for(), self.limit_.minimum()));
}

void silence_timer::touch_first() noexcept { last_ = service().responsive_now(); }

void silence_timer::check_later() noexcept {
  is_put_off_ = false;
  timer::arm_again_at(next_check(service().judged_at(), std::chrono::nanoseconds{}));
}

int silence_timer::notify_again() noexcept {
  if (limit_.problem() != nullptr) return UV_EINVAL;
  if (armed()) return 0;
  if (!service().is_open()) return refuse_when_closed();
  is_put_off_ = false;
  const clock::time_point opened = service().opened_at();
  // A pause goes on if the handler was called during it. Any other one ended when the service was closed.
  if (noticed_at_ < std::max(changed_at_, opened)) is_paused_ = false;
  // Responsive time began anew if the service was opened again since, and before that nobody listened.
  if (counts_from() < opened) (last_ < noticed_at_ ? noticed_at_ : last_) = opened;
  return arm_verdict_at(add_saturating(counts_from() + service().stalled_for(), longest_step()));
}

void silence_timer::pause() noexcept {
  if (!armed() || paused()) return;
  service().check_thread_in_debug();
  // Without a poll since it was resumed, its peer could not be read. Activity since then has refuted the verdict: a limit that has run
  // out anew is judged after this pause.
  const bool is_refuted = changed_at_ - counts_from() < limit_.now();
  if (is_refuted || !has_polled_since(put_off_at_)) is_put_off_ = false;
  is_paused_ = true;
  changed_at_ = service().responsive_now();
}

void silence_timer::resume() noexcept {
  if (!armed()) is_paused_ = false;  // the pause outlived a verdict, and would go on with `notify_again`
  if (!paused()) return;
  // The pause does not count. The later one of the two times shows whether there was activity since the last notification. That
  // order is kept.
  const bool was_noticed = last_ < noticed_at_;
  const clock::time_point from = counts_from();
  const clock::time_point now = service().responsive_now();
  const std::chrono::nanoseconds silence = std::max(changed_at_ - from, std::chrono::nanoseconds{});
  const std::chrono::nanoseconds paused = std::max(now - silence - from, std::chrono::nanoseconds{});
  last_ += paused;
  if (was_noticed) noticed_at_ += paused;
  is_paused_ = false;
  changed_at_ = now;
  const clock::time_point due = next_check(service().now(), now - counts_from());
  const bool is_due = is_known_to_have_passed(due), was_put_off = is_put_off_;
  is_put_off_ = is_due;
  if (was_put_off && is_due) return;  // it is armed as an earlier resume has armed it
  if (!is_due) return timer::arm_again_at(due);
  put_off_at_ = polls();
  // The loop has not polled for what came during the pause. An armed timer is not refused.
  static_cast<void>(timer::arm_verdict_at(due));
}

// The rest of the limit is the earliest time at which it can run out. A scaled limit may shrink to its minimum before that. So it
// is checked when the minimum has passed, and from then on once per minimum.
clock::time_point silence_timer::next_check(clock::time_point now, std::chrono::nanoseconds silence) const noexcept {
  const std::chrono::nanoseconds least = limit_.minimum();
  std::chrono::nanoseconds rest = add_saturating(limit_.now(), -silence);
  if (limit_.is_scaled()) rest = std::min(rest, silence < least ? add_saturating(least, -silence) : least);
  if (checks_ != 1) rest = std::min(rest, longest_step());
  return add_saturating(now, rest);
}

}  // namespace tickwheel::detail
