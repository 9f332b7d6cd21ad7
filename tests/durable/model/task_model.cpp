#include "task_model.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <utility>

namespace durable_model {

namespace {

constexpr unsigned most_losses = 3;
constexpr nanos end_of_range = 7'258'118'400'000'000'000;  // 2200-01-01
constexpr std::size_t most_seen = 1000;

bool is_over(row_state s) { return s == row_state::finished || s == row_state::cancelled; }

span hull(span a, span b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)}; }
bool holds(span s, nanos t) { return s.lo <= t && t <= s.hi; }

// The first period after `now` and after `due`.
nanos period_after(nanos due, nanos period, nanos now) {
  nanos next = due;
  if (now > due) next += (now - due) / period * period;
  return period >= end_of_range - next ? never : next + period;
}

}  // namespace

const char* name_of(answer a) {
  constexpr const char* names[] = {"none",    "scheduled", "replaced",  "exists",      "ended",
                                   "running", "refused",   "cancelled", "finished",    "not_found",
                                   "revived", "not_dead",  "stale",     "unavailable", "unknown"};
  return names[static_cast<std::size_t>(a)];
}

span store_times::range(nanos from, nanos to) const {
  span all{at(to), at(to)};
  for (auto c = changes_.rbegin(); c != changes_.rend(); ++c) {
    if (c->at < from) return hull(all, {from + c->offset, from + c->offset});
    all = hull(all, {c->at + c->offset, c->at + c->offset});
    if (std::next(c) != changes_.rend()) all = hull(all, {c->at + std::next(c)->offset, c->at + std::next(c)->offset});
  }
  return all;
}

// --- rows

answer possible_row::mark_of(int number) const {
  for (std::size_t i = 0; i != marked; ++i)
    if (marks[i].number == number) return marks[i].is;
  return answer::none;
}

void possible_row::set_mark(const request& r, answer is) {
  erase_mark(r.number);
  if (marked == marks.size()) std::abort();  // more requests are open than members can have
  std::size_t place = marked++;
  for (; place != 0 && marks[place - 1].number > r.number; --place) marks[place] = marks[place - 1];
  marks[place] = {r.number, r.member, is};
}

void possible_row::erase_mark(int number) {
  const auto last = std::remove_if(marks.begin(), marks.begin() + marked, [=](mark m) { return m.number == number; });
  marked = static_cast<std::uint8_t>(last - marks.begin());
  std::fill(last, marks.end(), mark{});
}

void possible_row::set_hash() {
  std::uint64_t h = 0;
  const auto mix = [&h](auto value) { h = (h ^ static_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15U ^ h >> 29; };
  mix(static_cast<int>(state) | static_cast<int>(stop) << 4 | static_cast<int>(is_first) << 5);
  mix(std::uint64_t{attempts} << 32 | lost);
  mix(content);
  mix(error);
  mix(holder);
  mix(token);
  mix(ended);
  for (std::size_t i = 0; i != marked; ++i) mix(marks[i].number * 16 + static_cast<int>(marks[i].is));
  hash = h;
}

bool possible_row::is_like(const possible_row& o) const {
  return state == o.state && attempts == o.attempts && lost == o.lost && stop == o.stop && is_first == o.is_first &&
         content == o.content && error == o.error && holder == o.holder && token == o.token && ended == o.ended &&
         marked == o.marked && marks == o.marks;
}

// --- the search for reachable rows

// Begins with the rows that are possible, and follows each change that may have happened unseen. A row that `is_goal` accepts
// is a result, and its changes are not followed.
struct task_model::search {
  using predicate = bool (*)(const search&, const possible_row&);

  void add(possible_row&& row) {
    if (is_goal != nullptr && is_goal(*this, row))
      merge(goals, std::move(row));
    else
      merge(all, std::move(row), &is_done);
  }

  // Rows that differ in times only become one row with wider times.
  static void merge(row_list& rows, possible_row&& row, std::vector<bool>* is_done = nullptr) {
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

  row_list all;
  row_list goals;
  std::vector<late_start> late;
  std::vector<bool> is_done;
  predicate is_goal = nullptr;
  // of the goal
  int number = 0;
  answer wanted{};
  int holder = 0;
  unsigned attempt = 0;
  nanos due = 0;
  const std::string* payload = nullptr;
  const facts* of = nullptr;
};

span task_model::clock_since(nanos from) const { return facts_.clock.range(from, facts_.now); }

void task_model::reach(search& s) const {
  for (const possible_row& row : rows_) s.add(possible_row{row});
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (std::size_t i = 0; i != s.all.size(); ++i) {
      if (s.is_done[i]) continue;
      s.is_done[i] = true;
      goes_on = true;
      const possible_row row = s.all[i];  // the vector grows
      expand(s, row);
    }
  }
}

void task_model::expand(search& s, const possible_row& row) const {
  // Requests. A member has one request for the task with the store, and sends the next one when that has ended.
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
    apply(s, row, r);
  }

  const span clock = clock_since(row.since);
  if (row.state == row_state::pending && row.at.lo <= clock.hi) {
    for (std::size_t m = 0; m != facts_.members.size(); ++m) {
      if (!facts_.members[m].is_open || !facts_.members[m].starts) continue;
      possible_row next = row;
      next.state = row_state::running;
      if (next.is_first) next.due.hi = latest_due(next, clock.hi);
      next.at.hi = std::min(next.at.hi, clock.hi);
      ++next.attempts;
      next.holder = static_cast<int>(m);
      next.token = 0;
      next.begun = row.since;
      s.add(std::move(next));
    }
  }
  if (row.state == row_state::running) {
    const member& holder = facts_.members[static_cast<std::size_t>(row.holder)];
    if (row.token == 0 && holder.is_open) {  // the answer of its begin was lost, or it was too late to call the handler
      possible_row next = row;
      --next.attempts;
      become(next, row_state::pending, clock);
      s.add(std::move(next));
    }
    // A request that was answered since then does not mean that it was started in the next session.
    if (!holder.is_open || row.begun <= holder.gone_at) {
      possible_row next = row;
      if (row.token == 0 && holder.is_open) {
        const late_start late{row.holder, row.attempts, row.content};
        if (std::find(s.late.begin(), s.late.end(), late) == s.late.end()) s.late.push_back(late);
      }
      ++next.lost;
      const bool is_used_up = next.attempts >= facts_.max_attempts;
      const bool is_periodic = facts_.contents[static_cast<std::size_t>(row.content)].period != 0;
      if (next.lost >= most_losses || (is_used_up && !is_periodic))
        become(next, row_state::dead, clock);
      else if (is_used_up)
        next_period(next, clock);
      else
        become(next, row_state::pending, clock);
      s.add(std::move(next));
    }
  }
  if (is_over(row.state) && may_be_expired(row, clock)) {  // purged
    possible_row next = row;
    become(next, row_state::none, clock);
    s.add(std::move(next));
  }
}

// Returns the latest time at which the row may be due and not after `now`. Its periods begin a multiple of the period apart: if
// the end of the span is no beginning of a period, the next period is later than the end says.
nanos task_model::latest_due(const possible_row& row, nanos now) const {
  const nanos period = facts_.contents[static_cast<std::size_t>(row.content)].period;
  if (row.due.hi <= now || period == 0) return std::min(row.due.hi, now);
  return row.due.lo + (now - row.due.lo) / period * period;
}

// Sets the new state of a row; `at` is the caller's if it is pending.
void task_model::become(possible_row& row, row_state to, span clock) const {
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

void task_model::next_period(possible_row& row, span clock) const {
  const nanos period = facts_.contents[static_cast<std::size_t>(row.content)].period;
  const span next{period_after(row.due.lo, period, clock.lo), period_after(row.due.hi, period, clock.hi)};
  if (row.stop) return become(row, row_state::cancelled, clock);
  if (next.lo == never) return become(row, row_state::finished, clock);
  row.due = row.at = next;
  row.attempts = row.lost = 0;
  row.error = 0;
  row.is_first = true;
  become(row, row_state::pending, clock);
}

bool task_model::may_be_expired(const possible_row& row, span clock) const {
  return row.gone.lo <= clock.hi - facts_.keep_finished;
}
bool task_model::may_be_known(const possible_row& row, span clock) const {
  return row.gone.hi > clock.lo - facts_.keep_finished;
}

// The table: a request for a row.
void task_model::apply(search& s, const possible_row& row, const request& r) const {
  possible_row base = row;
  base.since = std::max(row.since, r.issued);
  const span clock = clock_since(base.since);
  const auto add = [&](possible_row next, answer a) {
    if (r.is_over && next.is_like(row)) return;  // nobody learns of it
    next.set_mark(r, a);
    s.add(std::move(next));
  };
  const auto put = [&](answer a, std::uint64_t ended) {
    const content& what = facts_.contents[static_cast<std::size_t>(r.content)];
    if (what.is_refused) return add(base, answer::refused);
    possible_row next = base;
    become(next, row_state::none, clock);
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
    become(next, to, clock);
    add(std::move(next), a);
  };

  const bool is_tombstone = is_over(row.state);
  const bool is_none = row.state == row_state::none || (is_tombstone && may_be_expired(row, clock));
  const bool is_known = row.state != row_state::none && (!is_tombstone || may_be_known(row, clock));
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
      if (row.state == row_state::running && row.token == r.token && r.token != 0) return end_start(s, base, r, clock);
      return add(base, row.ended == r.token && r.token != 0 ? answer::finished : answer::stale);
    case verb::get:
    case verb::look:
      return;
  }
}

void task_model::end_start(search& s, possible_row row, const request& r, span clock) const {
  row.ended = r.token;
  if (r.how != ending::done && r.error != 0) row.error = r.error;
  const bool is_periodic = facts_.contents[static_cast<std::size_t>(row.content)].period != 0;
  switch (r.how) {
    case ending::done:
      is_periodic ? next_period(row, clock) : become(row, row_state::finished, clock);
      break;
    case ending::again:
      if (r.gives_back) --row.attempts;
      row.at = r.at;
      row.is_first = false;
      become(row, row_state::pending, clock);
      break;
    case ending::dead:
      become(row, row_state::dead, clock);
      break;
  }
  if (!r.is_over)
    row.set_mark(r, answer::finished);  // with `is_over` nobody learns of it, and it changes nothing again
  s.add(std::move(row));
}

// --- what a program sees

void task_model::ask(request r) {
  r.issued = facts_.now;
  if (r.what == verb::get || r.what == verb::look) {
    ++reads_;
    r.seen = seen_.size();
  }
  requests_.push_back(r);
}

request* task_model::find(int number) {
  const auto found =
      std::find_if(requests_.begin(), requests_.end(), [=](const request& r) { return r.number == number; });
  return found != requests_.end() ? &*found : nullptr;
}

void task_model::forget(int number) {
  const request* const r = find(number);
  if (r == nullptr) return;
  if ((r->what == verb::get || r->what == verb::look) && --reads_ == 0) {
    seen_.clear();
    has_seen_too_much_ = false;
  }
  requests_.erase(requests_.begin() + (r - requests_.data()));
  for (possible_row& row : rows_) row.erase_mark(number);
}

// Earlier requests of the member that were answered `unknown` have ended: a later one has taken effect.
void task_model::forget_earlier(int member, int number) {
  std::vector<int> over;
  for (const request& r : requests_)
    if (r.is_over && r.member == member && r.number < number) over.push_back(r.number);
  for (const int n : over) forget(n);
}

void task_model::keep(row_list&& rows) {
  row_list merged;
  merged.reserve(rows.size());
  for (possible_row& row : rows) search::merge(merged, std::move(row));
  rows_ = std::move(merged);
  // the end of a start that is over, of which nobody is told
  std::vector<int> over;
  for (const request& r : requests_)
    if (r.is_over && r.what == verb::finish &&
        std::none_of(rows_.begin(), rows_.end(), [&](const possible_row& row) { return row.token == r.token; }))
      over.push_back(r.number);
  for (const int number : over) forget(number);
}

void task_model::note(const row_list& rows) {
  if (reads_ == 0) return;
  for (request& r : requests_) r.is_exact = false;
  if (seen_.size() + rows.size() > most_seen)
    has_seen_too_much_ = true;
  else
    seen_.insert(seen_.end(), rows.begin(), rows.end());
}

void task_model::note_late(const search& s) {
  for (const late_start& late : s.late)
    if (std::find(late_.begin(), late_.end(), late) == late_.end()) late_.push_back(late);
}

bool task_model::on_answer(int number, answer is) {
  const request* const known = find(number);
  if (known == nullptr) return false;
  const request asked = *known;
  if (asked.what == verb::get || asked.what == verb::look) {
    forget(number);
    return is == answer::unavailable;
  }
  if (is == answer::unavailable) {
    std::erase_if(rows_, [=](const possible_row& row) { return row.mark_of(number) != answer::none; });
    forget(number);
    return !rows_.empty();
  }
  search s;
  s.of = &facts_;
  if (is == answer::unknown) {
    // it was sent, so that earlier ones have ended
    const bool has_earlier = std::any_of(requests_.begin(), requests_.end(), [&](const request& r) {
      return r.is_over && r.member == asked.member && r.number < number;
    });
    if (has_earlier) {
      reach(s);
      note_late(s);
      note(s.all);
      rows_ = std::move(s.all);
      forget_earlier(asked.member, number);
      keep(std::move(rows_));
    }
    find(number)->is_over = true;
    return true;
  }
  s.number = number;
  s.wanted = is;
  s.is_goal = [](const search& in, const possible_row& row) { return row.mark_of(in.number) == in.wanted; };
  reach(s);
  note_late(s);
  note(s.all);
  note(s.goals);
  if (s.goals.empty()) return false;
  rows_ = std::move(s.goals);
  forget(number);
  forget_earlier(asked.member, number);
  keep(std::move(rows_));
  return true;
}

bool task_model::on_read(int number, const shown_row* shown) {
  const request* const known = find(number);
  if (known == nullptr) return false;
  const request asked = *known;
  search s;
  reach(s);
  note_late(s);
  const span clock = clock_since(asked.issued);
  const auto fitting = [&](const possible_row& row) { return fits(row, shown, clock); };
  bool is_seen =
      has_seen_too_much_ || std::any_of(seen_.begin() + static_cast<std::ptrdiff_t>(asked.seen), seen_.end(), fitting);
  is_seen = std::any_of(s.all.begin(), s.all.end(), fitting) || is_seen;
  forget(number);
  if (asked.what == verb::look || !asked.is_exact) return is_seen;
  // nothing else has happened since the call: only the rows that fit are left, but other reads may have seen those before
  note(s.all);
  std::erase_if(s.all, [&](const possible_row& row) { return !fitting(row); });
  if (s.all.empty()) return false;
  rows_ = std::move(s.all);
  forget_earlier(asked.member, number);
  keep(std::move(rows_));
  return true;
}

bool task_model::on_absent(int number, row_state state) {
  const request* const known = find(number);
  if (known == nullptr) return false;
  const request asked = *known;
  search s;
  reach(s);
  const span clock = clock_since(asked.issued);
  const auto is_absent = [&](const possible_row& row) {
    return row.state != state || (is_over(state) && may_be_expired(row, clock));
  };
  const bool fits = has_seen_too_much_ ||
                    std::any_of(seen_.begin() + static_cast<std::ptrdiff_t>(asked.seen), seen_.end(), is_absent) ||
                    std::any_of(s.all.begin(), s.all.end(), is_absent);
  forget(number);
  return fits;
}

bool task_model::on_start(int holder, std::uint64_t token, unsigned attempt, nanos due, const std::string& payload) {
  search s;
  s.of = &facts_;
  s.holder = holder;
  s.attempt = attempt;
  s.due = due;
  s.payload = &payload;
  s.is_goal = [](const search& in, const possible_row& row) {
    return row.state == row_state::running && row.token == 0 && row.holder == in.holder && row.attempts == in.attempt &&
           holds(row.due, in.due) && in.of->contents[static_cast<std::size_t>(row.content)].payload == *in.payload;
  };
  reach(s);
  note(s.all);
  row_list next;
  for (possible_row& row : s.goals) {
    row.token = token;
    row.due = {due, due};
    next.push_back(row);
  }
  // its task may have been recovered before the handler was called
  note_late(s);
  const auto late = std::find_if(late_.begin(), late_.end(), [&](const late_start& l) {
    return l.holder == holder && l.attempt == attempt &&
           facts_.contents[static_cast<std::size_t>(l.content)].payload == payload;
  });
  if (late != late_.end()) {
    late_.erase(late);
    next.insert(next.end(), rows_.begin(), rows_.end());
  }
  note(next);
  if (next.empty()) return false;
  keep(std::move(next));
  return true;
}

void task_model::on_close(int member) {
  search s;
  reach(s);
  note_late(s);
  note(s.all);
  rows_ = std::move(s.all);
  std::vector<int> over;
  for (const request& r : requests_)
    if (r.member == member) over.push_back(r.number);
  for (const int number : over) forget(number);
  std::erase_if(late_, [=](const late_start& l) { return l.holder == member; });
  keep(std::move(rows_));
}

void task_model::on_quiet() {
  const auto is_ended = [](const request& r) { return r.is_over && r.what != verb::finish; };  // a finish is repeated
  if (std::none_of(requests_.begin(), requests_.end(), is_ended)) return;
  search s;
  reach(s);
  note_late(s);
  note(s.all);
  rows_ = std::move(s.all);
  std::vector<int> over;
  for (const request& r : requests_)
    if (is_ended(r)) over.push_back(r.number);
  for (const int number : over) forget(number);
  keep(std::move(rows_));
}

bool task_model::shows(const shown_row* shown) const {
  search s;
  reach(s);
  const span clock = clock_since(facts_.now);
  return std::any_of(s.all.begin(), s.all.end(), [&](const possible_row& row) { return fits(row, shown, clock); });
}

bool task_model::fits(const possible_row& row, const shown_row* shown, span clock) const {
  if (shown == nullptr) return row.state == row_state::none || (is_over(row.state) && may_be_expired(row, clock));
  if (row.state != shown->state || row.content < 0) return false;
  if (is_over(row.state) && !may_be_known(row, clock)) return false;
  const content& what = facts_.contents[static_cast<std::size_t>(row.content)];
  if (!holds(row.due, shown->due) || what.period != shown->period || !holds(row.at, shown->next)) return false;
  if (row.stop != shown->cancelling || facts_.errors[static_cast<std::size_t>(row.error)] != shown->error) return false;
  if (shown->payload != (is_over(row.state) ? std::string{} : what.payload)) return false;
  return row.state == row_state::cancelled || (row.attempts == shown->attempts && row.lost == shown->lost);
}

std::string task_model::describe() const {
  constexpr const char* names[] = {"none", "pending", "running", "dead", "finished", "cancelled"};
  std::string all;
  for (const possible_row& row : rows_) {
    char line[400];
    std::snprintf(line, sizeof line,
                  "  %s attempts %u lost %u stop %d content %d error %d holder %d token %llu ended %llu due %lld..%lld "
                  "at %lld..%lld gone %lld..%lld since %lld marks %u\n",
                  names[static_cast<std::size_t>(row.state)], row.attempts, row.lost, row.stop, row.content, row.error,
                  row.holder, static_cast<unsigned long long>(row.token), static_cast<unsigned long long>(row.ended),
                  static_cast<long long>(row.due.lo), static_cast<long long>(row.due.hi),
                  static_cast<long long>(row.at.lo), static_cast<long long>(row.at.hi),
                  static_cast<long long>(row.gone.lo), static_cast<long long>(row.gone.hi),
                  static_cast<long long>(row.since), row.marked);
    all += line;
  }
  for (const request& r : requests_) {
    char line[200];
    std::snprintf(line, sizeof line, "  open: number %d verb %d member %d content %d token %llu how %d over %d\n",
                  r.number, static_cast<int>(r.what), r.member, r.content, static_cast<unsigned long long>(r.token),
                  static_cast<int>(r.how), r.is_over);
    all += line;
  }
  return all;
}

}  // namespace durable_model
