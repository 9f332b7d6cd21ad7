#include "row_model.hpp"

#include <algorithm>

namespace crash {

namespace {

// A process that was stopped or cut off joins anew, and may be taken for dead again.
constexpr unsigned losses_of_a_trouble = 2;

// The result of a request in one word: the answer, and for `ok` the row.
std::uint32_t outcome(answer a, const seen_row& row = {}) noexcept {
  return static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(row.at) << 8 | std::uint32_t{row.attempts} << 16 |
         std::uint32_t{row.lost} << 24 | (row.cancelling ? 1U << 31 : 0);
}

seen_row seen(const possible_row& row) noexcept {
  const bool is_over = row.at == state::finished || row.at == state::cancelled;
  return {row.at, is_over ? std::uint8_t{0} : row.attempts, is_over ? std::uint8_t{0} : row.lost, !is_over && row.stop};
}

// The journal has more fields of an ended row than the promises fix.
seen_row promised(seen_row row) noexcept {
  if (row.at == state::finished || row.at == state::cancelled) return {.at = row.at};
  return row;
}

bool is_finish(verb v) noexcept { return v == verb::done || v == verb::again || v == verb::fail || v == verb::bury; }

}  // namespace

std::string describe(const possible_row& row) {
  std::string text = to_string(row.at);
  if (row.at == state::none) return text;
  if (row.stop) text += " and cancelled";
  if (row.is_entered) text += " with token " + std::to_string(row.token);
  text += ", attempts " + std::to_string(row.attempts) + ", lost " + std::to_string(row.lost);
  if (row.at == state::pending || row.at == state::running) text += ", due from " + std::to_string(row.due_from);
  return text + ", put by order " + std::to_string(row.number);
}

void row_model::start(unsigned process) {
  active_.insert(process);
  if (rules_.shared != sharing::sessions) join(process);
}

void row_model::join(unsigned process) {
  sessions_.join(process);
  merge_lost();
}

void row_model::bury(unsigned process) {
  sessions_.bury(process);
  merge_lost();
}

void row_model::trouble(unsigned process) noexcept {
  possible_losses_ += losses_of_a_trouble;
  sessions_.doubt(process);
}

void row_model::end(unsigned process) {
  sessions_.silence(process);
  if (rules_.shared == sharing::cluster) {
    trouble(process);
    for (std::size_t i = 0; i != open_.size(); ++i)
      if (open_[i].what.process == process) give_up(i);
  } else {
    active_.erase(process);
    std::vector<bool> leaving(open_.size(), false);
    for (std::size_t i = 0; i != open_.size(); ++i) leaving[i] = open_[i].what.process == process;
    forget(leaving);
    if (rules_.shared == sharing::none) sessions_.bury(process);
  }
  merge_lost();
}

// It does not matter any more which session has run a row if that is gone and silent. Rows that differ only in that become one.
void row_model::merge_lost() {
  std::vector<possible_row> before;
  before.swap(rows_);
  for (possible_row& row : before) {
    if (sessions_.may_be_gone(row.session) && sessions_.is_silent(row.session)) row.session = some_session;
    std::erase_if(row.lost_starts, [this](const lost_start& s) { return sessions_.is_silent(s.session); });
    add(row);
  }
}

void row_model::elapse(interval during) {
  latest_ = during.to;
  for (open_request& r : open_) r.asked_after = std::min(r.asked_after, during.from);
  for (std::size_t i = 0; i < rows_.size(); ++i) reach(possible_row{rows_[i]}, during);
  if (is_saving_) save();
}

void row_model::begin_backup() {
  saved_.clear();
  is_saving_ = true;
  save();
}

void row_model::end_backup() {
  save();
  is_saving_ = false;
}

// Also what is refuted later: the copy may have been made before.
void row_model::save() {
  for (possible_row row : rows_) {
    row.applied = 0;
    row.results = {};
    row.lost_starts.clear();
    if (std::find(saved_.begin(), saved_.end(), row) == saved_.end()) saved_.push_back(row);
  }
}

void row_model::restore() { rows_ = saved_; }

void row_model::add(const possible_row& row) {
  if (std::find(rows_.begin(), rows_.end(), row) == rows_.end()) rows_.push_back(row);
}

// Nobody asks for the result of what was given up.
void row_model::add_result(possible_row row, std::size_t at, std::uint32_t result) {
  row.results.at(at) = open_[at].is_given_up ? 0 : result;
  row.applied |= 1U << at;
  add(row);
}

// Adds each row that one hidden step makes of `row`.
void row_model::reach(const possible_row& row, interval during) {
  if (active_.empty()) return;
  apply_next(row, during);
  if (row.at == state::pending && row.not_before <= during.to) {
    for (session_index s = 0; s != sessions_.size(); ++s)
      if (sessions_.begins(s)) begin(row, s, during);
  }
  if (row.at == state::running) {
    if (sessions_.may_be_gone(row.session)) recover(row, during);
    if (rules_.has_doubts && !row.is_entered && sessions_.begins(row.session)) give_back(row, during);
  }
  if (is_forgotten(row, during)) {
    possible_row forgotten;
    forgotten.applied = row.applied;
    forgotten.results = row.results;
    forgotten.lost_starts = row.lost_starts;
    add(forgotten);
  }
  if (rules_.has_doubts || rules_.shared != sharing::none) repeat_finishes(row, during);
}

void row_model::begin(const possible_row& row, session_index by, interval during) {
  possible_row begun = row;
  begun.at = state::running;
  begun.is_entered = false;
  begun.token = 0;
  begun.session = by;
  ++begun.attempts;
  // the due of a period that is not known yet has passed; a known one may be ahead after a revive and a step of the clock
  if (begun.due_to > begun.due_from) begun.due_to = std::max(begun.due_from, std::min(begun.due_to, during.to));
  add(begun);
}

void row_model::recover(const possible_row& row, interval during) {
  if (rules_.shared == sharing::cluster && row.lost >= possible_losses_) return;
  possible_row back = row;
  back.is_entered = false;
  back.token = 0;
  back.session = some_session;
  back.at = state::pending;
  if (!row.is_entered && row.session != some_session && !sessions_.is_silent(row.session))
    back.lost_starts.push_back(
        {row.session, row.attempts, row.number, row.due_from, row.due_to, row.first_due, row.period});
  if (row.stop) {
    end_row(back, state::cancelled, during);
  } else {
    ++back.lost;
    if (back.lost >= rules_.most_lost)
      back.at = state::dead;
    else if (back.attempts >= rules_.max_attempts && back.period != 0)
      next_period(back, during);
    else if (back.attempts >= rules_.max_attempts)
      back.at = state::dead;
  }
  add(back);
}

// The session that has begun a row takes that back.
void row_model::give_back(const possible_row& row, interval during) {
  possible_row back = row;
  back.token = 0;
  back.session = some_session;
  back.at = state::pending;
  if (row.stop)
    end_row(back, state::cancelled, during);
  else
    --back.attempts;
  add(back);
}

// A finish whose answer was lost is sent again. It finds no row if that was forgotten meanwhile, because the clock was set forward.
// In a cluster another start of the row may have ended meanwhile.
void row_model::repeat_finishes(const possible_row& row, interval during) {
  const bool is_gone = is_forgotten(row, during);
  for (std::size_t i = 0; i != open_.size(); ++i) {
    const request& r = open_[i].what;
    const bool has_finished = (row.applied >> i & 1U) != 0 && row.results.at(i) == outcome(answer::finished);
    if (!has_finished || !is_finish(r.what)) continue;
    if (!is_gone && (row.ended == r.token || rules_.shared == sharing::none)) continue;
    possible_row repeated = row;
    repeated.results.at(i) = outcome(answer::stale);
    add(repeated);
  }
}

bool row_model::is_forgotten(const possible_row& row, interval during) const noexcept {
  const bool is_over = row.at == state::finished || row.at == state::cancelled;
  return is_over && during.to - row.gone >= rules_.keep_finished;
}

// A statement of a server reads the clock before its commit. Others may still read the former row in between.
interval row_model::time_of(const open_request& r, interval during) const noexcept {
  return rules_.shared == sharing::cluster ? interval{r.asked_after, during.to} : during;
}

// The requests of a process take effect in their order, and those of two processes in any.
void row_model::apply_next(const possible_row& row, interval during) {
  std::unordered_set<unsigned> waiting;
  for (std::size_t i = 0; i != open_.size(); ++i) {
    const open_request& next = open_[i];
    if ((row.applied >> i & 1U) != 0 || !waiting.insert(next.what.process).second) continue;
    apply(next, i, row, time_of(next, during));
    // a forgotten row counts as none, and is known again after the clock was set back
    if (is_forgotten(row, during)) {
      if (next.what.what == verb::cancel || next.what.what == verb::revive || next.what.what == verb::get)
        add_result(row, i, outcome(answer::not_found));
      else if (next.what.what != verb::keep && next.what.what != verb::replace)
        add_result(row, i, outcome(answer::stale));
    }
    // without faults each request takes effect
    if (next.is_given_up || rules_.has_doubts) add_result(row, i, outcome(answer::unavailable));
  }
}

void row_model::apply(const open_request& asked, std::size_t at, possible_row row, interval during) {
  const request& r = asked.what;
  switch (r.what) {
    case verb::keep:
    case verb::replace: {
      answer result = answer::scheduled;
      const bool is_alive = row.at == state::pending || row.at == state::running;
      if (row.at != state::none) {
        if (r.what == verb::keep) return add_result(row, at, outcome(is_alive ? answer::exists : answer::ended));
        if (row.at == state::running) return add_result(row, at, outcome(answer::running));
        result = answer::replaced;
      }
      possible_row put;
      put.at = state::pending;
      put.number = r.number;
      put.due_from = put.due_to = put.first_due = put.not_before = r.due;
      put.period = r.period;
      put.ended = row.ended;
      put.applied = row.applied;
      put.results = row.results;
      put.lost_starts = row.lost_starts;
      return add_result(put, at, outcome(result));
    }
    case verb::cancel:
      switch (row.at) {
        case state::none:
          return add_result(row, at, outcome(answer::not_found));
        case state::pending:
        case state::dead:
          end_row(row, state::cancelled, during);
          return add_result(row, at, outcome(answer::cancelled));
        case state::running:
          row.stop = true;
          return add_result(row, at, outcome(answer::running));
        case state::finished:
          return add_result(row, at, outcome(answer::finished));
        case state::cancelled:
          return add_result(row, at, outcome(answer::cancelled));
      }
      return;
    case verb::revive:
      if (row.at == state::none) return add_result(row, at, outcome(answer::not_found));
      if (row.at != state::dead) return add_result(row, at, outcome(answer::not_dead));
      row.at = state::pending;
      row.not_before = during.from;
      row.attempts = row.lost = 0;
      return add_result(row, at, outcome(answer::revived));
    case verb::get:
      return add_result(row, at, row.at == state::none ? outcome(answer::not_found) : outcome(answer::ok, seen(row)));
    case verb::done:
    case verb::again:
    case verb::fail:
    case verb::bury:
      return finish(r, at, row, during);
  }
}

void row_model::finish(const request& r, std::size_t at, possible_row row, interval during) {
  if (row.at != state::none && row.ended == r.token) return add_result(row, at, outcome(answer::finished));
  if (row.at != state::running || !row.is_entered || row.token != r.token)
    return add_result(row, at, outcome(answer::stale));
  row.ended = r.token;
  row.token = 0;
  row.is_entered = false;
  row.session = some_session;
  if (r.what == verb::done && row.period == 0) {
    end_row(row, state::finished, during);
  } else if (row.stop) {
    end_row(row, state::cancelled, during);
  } else if (r.what == verb::done) {
    next_period(row, during);
  } else if (r.what == verb::bury) {
    row.at = state::dead;
  } else if (r.what == verb::fail && row.attempts >= rules_.max_attempts) {
    if (row.period != 0)
      next_period(row, during);
    else
      row.at = state::dead;
  } else {
    row.at = state::pending;
    row.not_before = 0;  // a delay is no promise, and counts from the scheduler's estimate of the time
    if (r.what == verb::again) --row.attempts;
  }
  add_result(row, at, outcome(answer::finished));
}

// The next due is the first of the period after the time of the write.
void row_model::next_period(possible_row& row, interval during) const noexcept {
  row.at = state::pending;
  row.attempts = row.lost = 0;
  row.due_from = std::max(row.due_from + row.period, during.from + 1);
  row.due_to = std::max(row.due_to, during.to) + row.period;
  row.not_before = row.due_from;
}

void row_model::end_row(possible_row& row, state at, interval during) const noexcept {
  row.at = at;
  row.stop = false;
  row.token = 0;
  row.is_entered = false;
  row.gone = during.from;
  // these are not compared, and fewer rows differ without them
  row.attempts = row.lost = 0;
  row.session = some_session;
}

std::size_t row_model::position(const request& r) const noexcept {
  std::size_t at = 0;
  while (at != open_.size() &&
         (open_[at].what.number != r.number || (r.number == 0 && open_[at].what.token != r.token)))
    ++at;
  return at;
}

bool row_model::has_open_requests() const noexcept {
  return std::any_of(open_.begin(), open_.end(), [](const open_request& r) { return !r.is_given_up; });
}

template <class F>
bool row_model::keep_if(F&& fits) {
  std::vector<possible_row> before = rows_;
  std::erase_if(rows_, [&](possible_row& row) { return !fits(row); });
  if (!rows_.empty()) return true;
  rows_ = std::move(before);
  return false;
}

bool row_model::ask(const request& r) {
  if (open_.size() == possible_row::most_asked) {
    overrun_ = true;
    return true;
  }
  open_.push_back({.what = r, .asked_after = latest_});
  return true;
}

bool row_model::reject(const request& r) {
  const std::size_t at = position(r);
  if (at == open_.size()) return false;
  const auto had_none = [at](const possible_row& row) {
    return (row.applied >> at & 1U) == 0 || row.results.at(at) == outcome(answer::unavailable);
  };
  if (!keep_if(had_none)) return false;
  std::vector<bool> leaving(open_.size(), false);
  leaving[at] = true;
  forget(leaving);
  return true;
}

// It takes effect now, later or never.
void row_model::give_up(std::size_t at) {
  open_[at].is_given_up = true;
  std::vector<possible_row> before;
  before.swap(rows_);
  for (possible_row row : before) {
    row.results.at(at) = 0;
    add(row);
  }
}

// Takes requests and their results out.
void row_model::forget(const std::vector<bool>& leaving) {
  std::vector<possible_row> before;
  before.swap(rows_);
  for (const possible_row& row : before) {
    possible_row kept = row;
    kept.applied = 0;
    kept.results = {};
    std::size_t to = 0;
    for (std::size_t i = 0; i != leaving.size(); ++i) {
      if (leaving[i]) continue;
      kept.applied |= (row.applied >> i & 1U) << to;
      kept.results.at(to++) = row.results.at(i);
    }
    add(kept);
  }
  std::size_t to = 0;
  for (std::size_t i = 0; i != leaving.size(); ++i)
    if (!leaving[i]) open_[to++] = open_[i];
  open_.resize(to);
}

bool row_model::give(const request& r, answer result, const seen_row& row_of_answer) {
  const std::size_t at = position(r);
  if (at == open_.size()) return false;
  if (result == answer::unavailable) return reject(r);
  if (result == answer::unknown) {
    give_up(at);
    return true;
  }
  const std::uint32_t given = outcome(result, promised(row_of_answer));
  const auto fits = [&](const possible_row& row) {
    return (row.applied >> at & 1U) != 0 && row.results.at(at) == given;
  };
  if (!keep_if(fits)) return false;
  // those of the process before it have been given up: they have no effect any more, because the later one has had its own
  std::vector<bool> leaving(open_.size(), false);
  for (std::size_t i = 0; i <= at; ++i) leaving[i] = open_[i].what.process == r.process;
  forget(leaving);
  return true;
}

// A finish that was given up has no effect once its start is over in all possible rows.
void row_model::forget_late_finishes() {
  std::vector<bool> leaving(open_.size(), false);
  for (std::size_t i = 0; i != open_.size(); ++i) {
    const request& r = open_[i].what;
    const auto is_its = [&](const possible_row& row) { return row.is_entered && row.token == r.token; };
    leaving[i] = open_[i].is_given_up && is_finish(r.what) && std::none_of(rows_.begin(), rows_.end(), is_its);
  }
  if (std::find(leaving.begin(), leaving.end(), true) != leaving.end()) forget(leaving);
}

bool row_model::is_start(const possible_row& row, const start_seen& s) const noexcept {
  return row.at == state::running && !row.is_entered && !sessions_.is_silent(row.session) &&
         sessions_.belongs_to(row.session, s.process) && row.attempts == s.attempt && row.number == s.number &&
         s.due >= row.due_from && s.due <= row.due_to && (row.period == 0 || (s.due - row.first_due) % row.period == 0);
}

bool row_model::is_late_start(const lost_start& lost, const start_seen& s) const noexcept {
  return sessions_.belongs_to(lost.session, s.process) && lost.attempt == s.attempt && lost.number == s.number &&
         s.due >= lost.due_from && s.due <= lost.due_to &&
         (lost.period == 0 || (s.due - lost.first_due) % lost.period == 0);
}

bool row_model::enter(const start_seen& s) {
  std::vector<possible_row> entered;
  for (const possible_row& row : rows_) {
    if (!is_start(row, s)) continue;
    possible_row& now = entered.emplace_back(row);
    now.is_entered = true;
    now.token = s.token;
    now.session = sessions_.of(s.process);
    now.due_from = now.due_to = s.due;
  }
  const bool is_late = enter_late(s);
  if (!is_late && entered.empty()) return false;
  if (!is_late) rows_.clear();
  for (const possible_row& row : entered) add(row);
  forget_late_finishes();
  return true;
}

bool row_model::enter_late(const start_seen& s) {
  std::vector<possible_row> before = rows_;
  rows_.clear();
  for (const possible_row& row : before) {
    for (std::size_t i = 0; i != row.lost_starts.size(); ++i) {
      if (!is_late_start(row.lost_starts[i], s)) continue;
      possible_row late = row;
      late.lost_starts.erase(late.lost_starts.begin() + static_cast<std::ptrdiff_t>(i));
      add(late);
      break;
    }
  }
  if (!rows_.empty()) return true;
  rows_ = std::move(before);
  return false;
}

bool row_model::list(const seen_row& listed) {
  return keep_if([&](const possible_row& row) { return seen(row) == promised(listed); });
}

bool row_model::list_nothing() {
  return keep_if([](const possible_row& row) { return row.at == state::none; });
}

bool row_model::is_quiet() {
  return keep_if([](const possible_row& row) { return row.at != state::pending && row.at != state::running; });
}

}  // namespace crash
