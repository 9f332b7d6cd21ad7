#include "row_search.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace durable_model {

void row_search::merge(row_list& rows, possible_row&& row, std::vector<bool>* is_done) {
  row.set_hash();
  for (std::size_t i = 0; i != rows.size(); ++i) {
    possible_row& known = rows[i];
    if (known.hash != row.hash || !known.is_like(row)) continue;
    const span due = hull(known.due, row.due), at = hull(known.at, row.at), gone = hull(known.gone, row.gone);
    const nanos since = std::min(known.since, row.since), begun = std::min(known.begun, row.begun);
    if (due == known.due && at == known.at && gone == known.gone && since == known.since && begun == known.begun)
      return;
    known.due = due;
    known.at = at;
    known.gone = gone;
    known.since = since;
    known.begun = begun;
    if (is_done != nullptr) (*is_done)[i] = false;
    return;
  }
  rows.push_back(std::move(row));
  if (is_done != nullptr) is_done->push_back(false);
}

void row_search::add(possible_row&& row) {
  if (is_goal_ && is_goal_(row))
    merge(goals, std::move(row));
  else
    merge(all, std::move(row), &is_done_);
}

void row_search::run(const row_list& from) {
  for (const possible_row& row : from) add(possible_row{row});
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (std::size_t i = 0; i != all.size(); ++i) {
      if (is_done_[i]) continue;
      is_done_[i] = true;
      goes_on = true;
      const possible_row row = all[i];  // the vector grows
      follow(row);
    }
  }
}

void row_search::follow(const possible_row& row) {
  follow_requests(row);
  const span clock = clock_since(row.since);
  if (row.state == row_state::pending && row.at.lo <= clock.hi) begin(row, clock);
  if (row.state == row_state::running) lose(row, clock);
  if (is_over(row.state) && rules_.may_be_expired(row, clock)) {  // purged
    possible_row next = row;
    rules_.become(next, row_state::none, clock);
    add(std::move(next));
  }
}

// A member has one request for the task with the store, and sends the next one when that has ended.
void row_search::follow_requests(const possible_row& row) {
  std::array<int, 8> heads{};
  std::size_t seen_heads = 0;
  for (const request& r : requests_) {
    if (r.what == verb::look) continue;
    const auto last = heads.begin() + static_cast<std::ptrdiff_t>(seen_heads);
    if (!facts_.is_behind && std::find(heads.begin(), last, r.member) != last) continue;  // waits
    if (!r.is_over && seen_heads != heads.size()) heads[seen_heads++] = r.member;
    if (r.what == verb::get) continue;
    const bool is_passed = std::any_of(row.marks.begin(), row.marks.begin() + row.marked, [&](possible_row::mark m) {
      return m.member == r.member && m.number > r.number;
    });
    if (is_passed || (r.what != verb::finish && row.mark_of(r.number) != answer::none)) continue;
    apply(row, r);
  }
}

// Any node may start it.
void row_search::begin(const possible_row& row, span clock) {
  for (std::size_t m = 0; m != facts_.members.size(); ++m) {
    if (!facts_.members[m].is_open || !facts_.members[m].starts) continue;
    possible_row next = row;
    next.state = row_state::running;
    if (next.is_first) next.due.hi = rules_.latest_due(next, clock.hi);
    next.at.hi = std::min(next.at.hi, clock.hi);
    ++next.attempts;
    next.holder = static_cast<int>(m);
    next.token = 0;
    next.begun = row.since;
    add(std::move(next));
  }
}

// A start may end without an answer.
void row_search::lose(const possible_row& row, span clock) {
  const member& holder = facts_.members[static_cast<std::size_t>(row.holder)];
  const bool may_be_given_back = row.token == 0 && holder.is_open;
  if (may_be_given_back) {  // the answer of its begin was lost, or it was too late to call the handler
    possible_row next = row;
    --next.attempts;
    rules_.become(next, row_state::pending, clock);
    add(std::move(next));
  }
  // A request that was answered since then does not mean that it was started in the next session.
  if (holder.is_open && row.begun > holder.gone_at) return;
  if (may_be_given_back) {
    const late_start start{row.holder, row.attempts, row.content};
    if (std::find(late.begin(), late.end(), start) == late.end()) late.push_back(start);
  }
  possible_row next = row;
  rules_.lose(next, clock);
  add(std::move(next));
}

// The table: a request for a row.
void row_search::apply(const possible_row& row, const request& r) {
  possible_row base = row;
  base.since = std::max(row.since, r.issued);
  const span clock = clock_since(base.since);
  const auto add = [&](possible_row next, answer a) {
    if (r.is_over && next.is_like(row)) return;  // nobody learns of it
    next.set_mark(r, a);
    this->add(std::move(next));
  };
  const auto put = [&](answer a, std::uint64_t ended) {
    const content& what = facts_.contents[static_cast<std::size_t>(r.content)];
    if (what.is_refused) return add(base, answer::refused);
    possible_row next = base;
    rules_.become(next, row_state::none, clock);
    next.state = row_state::pending;
    next.is_first = true;
    next.content = r.content;
    next.due = next.at = {what.due, what.due};
    next.ended = ended;
    add(std::move(next), a);
  };
  const auto end = [&](row_state to, answer a) {
    possible_row next = base;
    next.stop = false;
    rules_.become(next, to, clock);
    add(std::move(next), a);
  };

  const bool is_tombstone = is_over(row.state);
  const bool is_none = row.state == row_state::none || (is_tombstone && rules_.may_be_expired(row, clock));
  const bool is_known = row.state != row_state::none && (!is_tombstone || rules_.may_be_known(row, clock));
  if (is_none) {
    switch (r.what) {
      case verb::keep:
      case verb::replace:
        put(answer::scheduled, 0);
        break;
      case verb::cancel:
      case verb::revive:
        add(base, answer::not_found);
        break;
      case verb::finish:
        add(base, answer::stale);
        break;
      case verb::get:
      case verb::look:
        break;
    }
  }
  if (!is_known) return;
  switch (r.what) {
    case verb::keep:
      return add(base,
                 row.state == row_state::pending || row.state == row_state::running ? answer::exists : answer::ended);
    case verb::replace:
      return row.state == row_state::running ? add(base, answer::running) : put(answer::replaced, row.ended);
    case verb::cancel:
      switch (row.state) {
        case row_state::pending:
        case row_state::dead:
          return end(row_state::cancelled, answer::cancelled);
        case row_state::running: {
          possible_row next = base;
          next.stop = true;
          return add(std::move(next), answer::running);
        }
        case row_state::finished:
          return add(base, answer::finished);
        case row_state::cancelled:
          return add(base, answer::cancelled);
        case row_state::none:
          return;
      }
      return;
    case verb::revive: {
      if (row.state != row_state::dead) return add(base, answer::not_dead);
      possible_row next = base;
      next.state = row_state::pending;
      next.at = clock;
      next.attempts = next.lost = 0;
      next.error = 0;
      return add(std::move(next), answer::revived);
    }
    case verb::finish:
      if (row.state == row_state::running && row.token == r.token && r.token != 0) return end_start(base, r, clock);
      return add(base, row.ended == r.token && r.token != 0 ? answer::finished : answer::stale);
    case verb::get:
    case verb::look:
      return;
  }
}

void row_search::end_start(possible_row row, const request& r, span clock) {
  row.ended = r.token;
  if (r.how != ending::done && r.error != 0) row.error = r.error;
  const bool is_periodic = facts_.contents[static_cast<std::size_t>(row.content)].period != 0;
  switch (r.how) {
    case ending::done:
      is_periodic ? rules_.next_period(row, clock) : rules_.become(row, row_state::finished, clock);
      break;
    case ending::again:
      if (r.gives_back) --row.attempts;
      row.at = r.at;
      row.is_first = false;
      rules_.become(row, row_state::pending, clock);
      break;
    case ending::dead:
      rules_.become(row, row_state::dead, clock);
      break;
  }
  if (!r.is_over)
    row.set_mark(r, answer::finished);  // with `is_over` nobody learns of it, and it changes nothing again
  add(std::move(row));
}

}  // namespace durable_model
