#include "row_rules.hpp"

#include <algorithm>

namespace durable_model {

namespace {

constexpr unsigned most_losses = 3;
constexpr nanos end_of_range = 7'258'118'400'000'000'000;  // 2200-01-01

// The first period after `now` and after `due`.
nanos period_after(nanos due, nanos period, nanos now) {
  nanos next = due;
  if (now > due) next += (now - due) / period * period;
  return period >= end_of_range - next ? never : next + period;
}

}  // namespace

void row_rules::become(possible_row& row, row_state to, span clock) const {
  if (row.stop && (to == row_state::pending || to == row_state::dead)) to = row_state::cancelled;
  row.state = to;
  row.stop = false;
  row.holder = -1;
  row.token = 0;
  row.begun = 0;
  if (to != row_state::pending) row.is_first = false;
  if (to == row_state::dead || is_over(to)) row.at = {never, never};
  if (is_over(to)) row.gone = clock;
  if (to == row_state::cancelled) row.attempts = row.lost = 0;  // of no meaning
  if (to != row_state::none) return;
  row.attempts = row.lost = 0;
  row.content = -1;
  row.error = 0;
  row.ended = 0;
  row.due = row.at = row.gone = {};
}

void row_rules::next_period(possible_row& row, span clock) const {
  const nanos period = content_of(row).period;
  const span next{period_after(row.due.lo, period, clock.lo), period_after(row.due.hi, period, clock.hi)};
  if (row.stop) return become(row, row_state::cancelled, clock);
  if (next.lo == never) return become(row, row_state::finished, clock);
  row.due = row.at = next;
  row.attempts = row.lost = 0;
  row.error = 0;
  row.is_first = true;
  become(row, row_state::pending, clock);
}

void row_rules::lose(possible_row& row, span clock) const {
  ++row.lost;
  const bool is_used_up = row.attempts >= facts_.max_attempts;
  const bool is_periodic = content_of(row).period != 0;
  if (row.lost >= most_losses || (is_used_up && !is_periodic)) return become(row, row_state::dead, clock);
  is_used_up ? next_period(row, clock) : become(row, row_state::pending, clock);
}

// Its periods begin a multiple of the period apart: if the end of the span is no beginning of a period, the next period is later than
// the end says.
nanos row_rules::latest_due(const possible_row& row, nanos now) const {
  const nanos period = content_of(row).period;
  if (row.due.hi <= now || period == 0) return std::min(row.due.hi, now);
  return row.due.lo + (now - row.due.lo) / period * period;
}

bool row_rules::may_be_expired(const possible_row& row, span clock) const {
  return row.gone.lo <= clock.hi - facts_.keep_finished;
}
bool row_rules::may_be_known(const possible_row& row, span clock) const {
  return row.gone.hi > clock.lo - facts_.keep_finished;
}

bool row_rules::fits(const possible_row& row, const shown_row* shown, span clock) const {
  if (shown == nullptr) return row.state == row_state::none || (is_over(row.state) && may_be_expired(row, clock));
  if (row.state != shown->state || row.content < 0) return false;
  if (is_over(row.state) && !may_be_known(row, clock)) return false;
  const content& what = content_of(row);
  if (!holds(row.due, shown->due) || what.period != shown->period || !holds(row.at, shown->next)) return false;
  if (row.stop != shown->cancelling || facts_.errors[static_cast<std::size_t>(row.error)] != shown->error) return false;
  if (shown->payload != (is_over(row.state) ? std::string{} : what.payload)) return false;
  return row.state == row_state::cancelled || (row.attempts == shown->attempts && row.lost == shown->lost);
}

}  // namespace durable_model
