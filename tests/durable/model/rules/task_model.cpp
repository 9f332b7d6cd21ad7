#include "task_model.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <utility>

namespace durable_model {

namespace {

constexpr std::size_t most_seen = 1000;

}  // namespace

const char* name_of(answer a) {
  constexpr const char* names[] = {"none",    "scheduled", "replaced",  "exists",      "ended",
                                   "running", "refused",   "cancelled", "finished",    "not_found",
                                   "revived", "not_dead",  "stale",     "unavailable", "unknown"};
  return names[static_cast<std::size_t>(a)];
}

row_search task_model::search(row_search::predicate is_goal) const {
  row_search s{facts_, requests_, std::move(is_goal)};
  s.run(rows_);
  return s;
}

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
  for (possible_row& row : rows) row_search::merge(merged, std::move(row));
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

void task_model::note_late(const row_search& s) {
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
  if (is == answer::unknown) {
    // it was sent, so that earlier ones have ended
    const bool has_earlier = std::any_of(requests_.begin(), requests_.end(), [&](const request& r) {
      return r.is_over && r.member == asked.member && r.number < number;
    });
    if (has_earlier) {
      row_search s = search();
      note_late(s);
      note(s.all);
      rows_ = std::move(s.all);
      forget_earlier(asked.member, number);
      keep(std::move(rows_));
    }
    find(number)->is_over = true;
    return true;
  }
  row_search s = search([=](const possible_row& row) { return row.mark_of(number) == is; });
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
  row_search s = search();
  note_late(s);
  const span clock = clock_since(asked.issued);
  const auto fitting = [&](const possible_row& row) { return rules_.fits(row, shown, clock); };
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
  row_search s = search();
  const span clock = clock_since(asked.issued);
  const auto is_absent = [&](const possible_row& row) {
    return row.state != state || (is_over(state) && rules_.may_be_expired(row, clock));
  };
  const bool fits = has_seen_too_much_ ||
                    std::any_of(seen_.begin() + static_cast<std::ptrdiff_t>(asked.seen), seen_.end(), is_absent) ||
                    std::any_of(s.all.begin(), s.all.end(), is_absent);
  forget(number);
  return fits;
}

bool task_model::on_start(int holder, std::uint64_t token, unsigned attempt, nanos due, const std::string& payload) {
  row_search s = search([&](const possible_row& row) {
    return row.state == row_state::running && row.token == 0 && row.holder == holder && row.attempts == attempt &&
           holds(row.due, due) && facts_.contents[static_cast<std::size_t>(row.content)].payload == payload;
  });
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
  row_search s = search();
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
  row_search s = search();
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
  row_search s = search();
  const span clock = clock_since(facts_.now);
  return std::any_of(s.all.begin(), s.all.end(),
                     [&](const possible_row& row) { return rules_.fits(row, shown, clock); });
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
