#include "row_model.hpp"

#include <algorithm>

namespace crash {

namespace {

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

void row_model::start() noexcept {
  ++generation_;
  is_alive_ = true;
}

void row_model::end() {
  is_alive_ = false;
  open_.clear();
  std::vector<possible_row> before;
  before.swap(rows_);
  for (possible_row row : before) {
    row.applied = 0;
    row.results = {};
    add(row);
  }
}

void row_model::elapse(interval during) {
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
    if (std::find(saved_.begin(), saved_.end(), row) == saved_.end()) saved_.push_back(row);
  }
}

void row_model::restore() { rows_ = saved_; }

void row_model::add(const possible_row& row) {
  if (std::find(rows_.begin(), rows_.end(), row) == rows_.end()) rows_.push_back(row);
}

void row_model::add_result(possible_row row, std::uint32_t result) {
  row.results.at(row.applied) = result;
  ++row.applied;
  add(row);
}

// Adds each row that one hidden step makes of `row`.
void row_model::reach(const possible_row& row, interval during) {
  if (!is_alive_) return;
  apply_next(row, during);
  if (row.at == state::pending && row.not_before <= during.to) {
    possible_row begun = row;
    begun.at = state::running;
    begun.is_entered = false;
    begun.token = 0;
    begun.generation = generation_;
    ++begun.attempts;
    // the due of a period that is not known yet has passed; a known one may be ahead after a revive and a step of the clock
    if (begun.due_to > begun.due_from) begun.due_to = std::max(begun.due_from, std::min(begun.due_to, during.to));
    add(begun);
  }
  if (row.at == state::running && (row.generation != generation_ || (rules_.has_doubts && !row.is_entered))) {
    const bool is_doubted = row.generation == generation_;
    possible_row back = row;
    back.is_entered = false;
    back.token = 0;
    back.at = state::pending;
    if (row.stop) {
      end_row(back, state::cancelled, during);
    } else if (is_doubted) {
      --back.attempts;
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
  if (is_forgotten(row, during)) {
    possible_row forgotten;
    forgotten.applied = row.applied;
    forgotten.results = row.results;
    add(forgotten);
    if (rules_.has_doubts) repeat_finishes(row);
  }
}

// A finish whose answer was lost is sent again. It finds no row if that was forgotten meanwhile, because the clock was set forward.
void row_model::repeat_finishes(const possible_row& row) {
  for (std::size_t i = 0; i != row.applied; ++i) {
    if (!is_finish(open_[i].what.what) || row.results.at(i) != outcome(answer::finished)) continue;
    possible_row repeated = row;
    repeated.results.at(i) = outcome(answer::stale);
    add(repeated);
  }
}

bool row_model::is_forgotten(const possible_row& row, interval during) const noexcept {
  const bool is_over = row.at == state::finished || row.at == state::cancelled;
  return is_over && during.to - row.gone >= rules_.keep_finished;
}

void row_model::apply_next(const possible_row& row, interval during) {
  if (row.applied == open_.size()) return;
  const open_request& next = open_[row.applied];
  apply(next.what, row, during);
  // a forgotten row counts as none, and is known again after the clock was set back
  if (is_forgotten(row, during)) {
    if (next.what.what == verb::cancel || next.what.what == verb::revive || next.what.what == verb::get)
      add_result(row, outcome(answer::not_found));
    else if (next.what.what != verb::keep && next.what.what != verb::replace)
      add_result(row, outcome(answer::stale));
  }
  // without faults each request takes effect
  if (next.is_given_up || rules_.has_doubts) add_result(row, outcome(answer::unavailable));
}

void row_model::apply(const request& r, possible_row row, interval during) {
  switch (r.what) {
    case verb::keep:
    case verb::replace: {
      answer result = answer::scheduled;
      const bool is_alive = row.at == state::pending || row.at == state::running;
      if (row.at != state::none) {
        if (r.what == verb::keep) return add_result(row, outcome(is_alive ? answer::exists : answer::ended));
        if (row.at == state::running) return add_result(row, outcome(answer::running));
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
      return add_result(put, outcome(result));
    }
    case verb::cancel:
      switch (row.at) {
        case state::none:
          return add_result(row, outcome(answer::not_found));
        case state::pending:
        case state::dead:
          end_row(row, state::cancelled, during);
          return add_result(row, outcome(answer::cancelled));
        case state::running:
          row.stop = true;
          return add_result(row, outcome(answer::running));
        case state::finished:
          return add_result(row, outcome(answer::finished));
        case state::cancelled:
          return add_result(row, outcome(answer::cancelled));
      }
      return;
    case verb::revive:
      if (row.at == state::none) return add_result(row, outcome(answer::not_found));
      if (row.at != state::dead) return add_result(row, outcome(answer::not_dead));
      row.at = state::pending;
      row.not_before = during.from;
      row.attempts = row.lost = 0;
      return add_result(row, outcome(answer::revived));
    case verb::get:
      return add_result(row, row.at == state::none ? outcome(answer::not_found) : outcome(answer::ok, seen(row)));
    case verb::done:
    case verb::again:
    case verb::fail:
    case verb::bury:
      return finish(r, row, during);
  }
}

void row_model::finish(const request& r, possible_row row, interval during) {
  if (row.at != state::none && row.ended == r.token) return add_result(row, outcome(answer::finished));
  if (row.at != state::running || !row.is_entered || row.token != r.token)
    return add_result(row, outcome(answer::stale));
  row.ended = r.token;
  row.token = 0;
  row.is_entered = false;
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
  add_result(row, outcome(answer::finished));
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
  row.generation = 0;
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
  open_.push_back({r});
  return true;
}

bool row_model::reject(const request& r) {
  const std::size_t at = position(r);
  if (at == open_.size()) return false;
  const auto had_none = [at](const possible_row& row) {
    return row.applied <= at || row.results.at(at) == outcome(answer::unavailable);
  };
  if (!keep_if(had_none)) return false;
  open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(at));
  forget_results(at, 1);
  return true;
}

// Takes the results of `count` requests out, from the one at `from` on.
void row_model::forget_results(std::size_t from, std::size_t count) {
  std::vector<possible_row> before;
  before.swap(rows_);
  for (possible_row row : before) {
    if (row.applied > from) {
      const auto begin = row.results.begin() + static_cast<std::ptrdiff_t>(from);
      std::fill(std::move(begin + static_cast<std::ptrdiff_t>(count), row.results.end(), begin), row.results.end(), 0);
      row.applied = static_cast<std::uint8_t>(row.applied - count);
    }
    add(row);
  }
}

bool row_model::give(const request& r, answer result, const seen_row& row_of_answer) {
  const std::size_t at = position(r);
  if (at == open_.size()) return false;
  if (result == answer::unavailable) return reject(r);
  if (result == answer::unknown) {
    open_[at].is_given_up = true;
    return true;
  }
  const std::uint32_t given = outcome(result, promised(row_of_answer));
  if (!keep_if([&](const possible_row& row) { return row.applied > at && row.results.at(at) == given; })) return false;
  // those before it have been given up: they have no effect any more, because the later one has had its own
  open_.erase(open_.begin(), open_.begin() + static_cast<std::ptrdiff_t>(at + 1));
  forget_results(0, at + 1);
  return true;
}

bool row_model::enter(std::uint64_t token, unsigned attempt, nanoseconds due, std::uint32_t number) {
  return keep_if([&](possible_row& row) {
    const bool fits = row.at == state::running && !row.is_entered && row.generation == generation_ &&
                      row.attempts == attempt && row.number == number && due >= row.due_from && due <= row.due_to &&
                      (row.period == 0 || (due - row.first_due) % row.period == 0);
    if (!fits) return false;
    row.is_entered = true;
    row.token = token;
    row.due_from = row.due_to = due;
    return true;
  });
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
