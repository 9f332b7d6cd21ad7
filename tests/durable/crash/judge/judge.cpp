#include "judge.hpp"

#include "row_model.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace crash {

namespace {

constexpr std::size_t most_lines = 16;  // that a violation shows
constexpr nanoseconds one_hour = 3'600'000'000'000;

// The times that the clock showed between lines.
class timeline {
 public:
  explicit timeline(const journal& of) : events_{of.events} {
    for (std::size_t i = 0; i != events_.size(); ++i)
      if (events_[i].kind == event_kind::clock) clocks_.push_back(i);
  }
  // After event `a`, and at or before `b`.
  interval between(std::size_t a, std::size_t b) const {
    interval during{std::min(events_[a].wall, events_[b].wall), std::max(events_[a].wall, events_[b].wall)};
    for (auto c = std::upper_bound(clocks_.begin(), clocks_.end(), a); c != clocks_.end() && *c <= b; ++c) {
      during.from = std::min(during.from, events_[*c].wall);
      during.to = std::max({during.to, events_[*c].before, events_[*c].wall});
    }
    return during;
  }

 private:
  const std::vector<event>& events_;
  std::vector<std::size_t> clocks_;
};

// Returns the places of events that are the first one of their process after that was stopped or slow. Such a process may have read
// the clock before, and go on with what it has decided then.
std::unordered_set<std::size_t> after_standstills(const std::vector<event>& events) {
  std::unordered_set<std::size_t> found;
  std::unordered_set<unsigned> stood_still;
  for (std::size_t i = 0; i != events.size(); ++i) {
    const event& e = events[i];
    if (e.kind == event_kind::trouble && (e.cause == "stopped" || e.cause == "slow"))
      stood_still.insert(e.process);
    else if (stood_still.erase(e.process) != 0)
      found.insert(i);
  }
  return found;
}

struct judgement {
  std::string promise;
  std::string text;
};

bool any(const std::vector<possible_row>& rows, auto&& is) { return std::any_of(rows.begin(), rows.end(), is); }

std::string possibilities(const std::vector<possible_row>& rows) {
  std::string text;
  const std::size_t shown = std::min<std::size_t>(rows.size(), 4);
  for (std::size_t i = 0; i != shown; ++i) text += (i == 0 ? "" : "; or ") + describe(rows[i]);
  if (shown != rows.size()) text += "; or " + std::to_string(rows.size() - shown) + " others";
  return text;
}

// Says which promise a start breaks that fits no row. `rows`: those that were possible.
judgement of_start(const event& e, const std::vector<possible_row>& rows, bool is_early) {
  const auto is = [](state s) { return [s](const possible_row& row) { return row.at == s; }; };
  if (is_early) return {"D2", "started before it was due"};
  const bool waits = any(rows, is(state::pending)) ||
                     any(rows, [](const possible_row& row) { return row.at == state::running && !row.is_entered; });
  if (waits) {
    const auto matches_number = [&](const possible_row& row) { return row.number == e.number; };
    const auto is_periodic = [](const possible_row& row) { return row.period != 0; };
    if (!any(rows, matches_number)) return {"D1", "started with the payload of another order"};
    const auto matches_attempt = [&](const possible_row& row) {
      if (row.at == state::pending) return row.attempts + 1U == e.attempt;
      return row.at == state::running && !row.is_entered && row.attempts == e.attempt;
    };
    if (!any(rows, matches_attempt)) return {"D10", "started with a wrong number of attempts"};
    return {any(rows, is_periodic) ? "D12" : "D1", "started with a due time that is not its own"};
  }
  if (any(rows, [](const possible_row& row) { return row.at == state::running && !row.stop; }))
    return {"D3", "started while its last start went on"};
  if (any(rows, is(state::cancelled)) || any(rows, [](const possible_row& row) { return row.stop; }))
    return {"D4", "started after a confirmed cancel"};
  if (any(rows, is(state::dead))) return {"D10", "started although it is dead"};
  if (any(rows, is(state::finished))) return {"D11", "started again after its end"};
  return {"D11", "started although no task of this id was accepted"};
}

judgement of_answer(const event& e, const std::vector<possible_row>& rows) {
  const std::string text =
      std::string{"the answer to "} + to_string(e.asked.what) + " is " + to_string(e.result) + ", which cannot be";
  const auto is = [](state s) { return [s](const possible_row& row) { return row.at == s; }; };
  switch (e.asked.what) {
    case verb::keep:
    case verb::replace:
      if (e.result == answer::scheduled && any(rows, [](const possible_row& row) {
            return row.at == state::pending || row.at == state::running || row.at == state::dead;
          }))
        return {"D1", text + ": an earlier task was forgotten"};
      return {"D11", text};
    case verb::cancel:
      if (e.result == answer::not_found && !any(rows, is(state::none))) return {"D1", text};
      if (e.result == answer::finished && any(rows, [](const possible_row& row) { return row.period != 0; }))
        return {"D12", text + ": a periodic task ends only by cancel"};
      return {"D4", text};
    case verb::revive:
      return {"D10", text};
    case verb::get:
      if (e.result == answer::not_found) return {"D1", text};
      if (any(rows, [&](const possible_row& row) { return row.at == e.row.at; }))
        return {"D10", text + ": the attempts are wrong"};
      return {e.row.at == state::finished && any(rows, [](const possible_row& row) { return row.period != 0; }) ? "D12"
                                                                                                                : "D11",
              text + " " + to_string(e.row.at)};
    case verb::done:
    case verb::again:
    case verb::fail:
    case verb::bury:
      return {"D3", text};
  }
  return {"D11", text};
}

class court {
 public:
  court(const journal& j, judging how)
      : journal_{j}, how_{how}, times_{j}, after_standstills_{after_standstills(j.events)} {}

  verdict run() {
    out_.tasks = journal_.ids;
    if (!journal_.problem.empty()) {
      out_.violations.push_back({"journal", {}, journal_.problem, {journal_.lines.size() - 1}});
      return std::move(out_);
    }
    sort_events();
    check_tokens();
    for (const auto& id : order_) {
      if (auto broken = judge_task(id)) out_.violations.push_back(*broken);
    }
    return std::move(out_);
  }

 private:
  // Events that concern all tasks.
  static bool is_turn(event_kind k) {
    return k == event_kind::start || k == event_kind::end || k == event_kind::trouble || k == event_kind::joined ||
           k == event_kind::buried || k == event_kind::backup || k == event_kind::saved || k == event_kind::restored;
  }

  // `last`: the event up to which the model has come.
  void take_turn(row_model& model, std::size_t turn, std::size_t& last) const {
    model.elapse(times_.between(last, turn));
    last = turn;
    const event& e = journal_.events[turn];
    switch (e.kind) {
      case event_kind::start:
        return model.start(e.process);
      case event_kind::end:
        return model.end(e.process);
      case event_kind::trouble:
        return model.trouble(e.process);
      case event_kind::joined:
        return model.join(e.process);
      case event_kind::buried:
        return model.bury(e.process);
      case event_kind::backup:
        return model.begin_backup();
      case event_kind::saved:
        return model.end_backup();
      case event_kind::restored:
        return model.restore();
      default:
        return;
    }
  }

  void sort_events() {
    for (std::size_t i = 0; i != journal_.events.size(); ++i) {
      const event& e = journal_.events[i];
      if (is_turn(e.kind)) turns_.push_back(i);
      if (e.kind == event_kind::quiet) quiet_ = i;
      if (e.id.empty()) continue;
      auto& of_id = tasks_[e.id];
      if (of_id.empty()) order_.push_back(e.id);
      of_id.push_back(i);
    }
  }

  violation accuse(judgement what, std::string_view id, std::size_t until) const {
    violation v{std::move(what.promise), std::string{id}, std::move(what.text), {}};
    const auto known = tasks_.find(id);
    if (known != tasks_.end())
      for (const std::size_t i : known->second)
        if (i <= until) v.lines.push_back(journal_.events[i].line);
    if (v.lines.size() > most_lines) v.lines.erase(v.lines.begin(), v.lines.end() - most_lines);
    return v;
  }

  // A token is unique in the store.
  void check_tokens() {
    std::unordered_map<std::uint64_t, std::size_t> used;
    for (std::size_t i = 0; i != journal_.events.size(); ++i) {
      const event& e = journal_.events[i];
      if (e.kind != event_kind::entered) continue;
      ++out_.starts;
      const auto [other, is_new] = used.emplace(e.token, i);
      if (is_new) continue;
      ++out_.tokens_twice;
      violation v{"D3",
                  std::string{e.id},
                  "the token " + std::to_string(e.token) + " was used before",
                  {journal_.events[other->second].line, e.line}};
      out_.violations.push_back(std::move(v));
    }
  }

  std::optional<violation> judge_task(std::string_view id) {
    const auto& mine = tasks_[id];
    row_model model{{.max_attempts = journal_.max_attempts,
                     .keep_finished = journal_.keep_finished,
                     .has_doubts = journal_.has_doubts,
                     .shared = journal_.shared}};
    std::size_t last = 0;
    std::uint64_t last_token = 0;
    auto turn = turns_.begin();
    const auto pass = [&](std::size_t until) {
      for (; turn != turns_.end() && *turn < until; ++turn) take_turn(model, *turn, last);
    };
    bool was_listed = false;
    for (const std::size_t i : mine) {
      const event& e = journal_.events[i];
      pass(i);
      if (e.kind == event_kind::row) {
        if (how_ == judging::events) continue;
        if (std::exchange(was_listed, true)) return accuse({"D1", "it was listed twice"}, id, i);
      }
      const auto during = times_.between(last, i);
      model.elapse(during);
      last = i;
      switch (e.kind) {
        case event_kind::asked:
          (void)model.ask(e.asked);
          break;
        case event_kind::rejected:
          if (!model.reject(e.asked)) return accuse({"D9", "a rejected request has had an effect"}, id, i);
          break;
        case event_kind::answered:
          if (model.give(e.asked, e.result, e.row)) break;
          return accuse_answer(e, model, id, i);
        case event_kind::entered: {
          const row_model::start_seen seen{e.process, e.token, e.attempt, e.due, e.number};
          // Only a start that was recovered before its handler was entered may be older than another. Without `sessions` the
          // model does not tell of those, but then no process enters such a handler after it has written any other line.
          if (e.token <= last_token) {
            if (model.enter_late(seen) || after_standstills_.contains(i)) break;
            return accuse({"D3", "its token does not grow"}, id, i);
          }
          last_token = e.token;
          if (model.enter(seen)) break;
          row_model at_any_time = model;
          at_any_time.elapse({during.from, std::max(during.to, e.due) + one_hour});
          const bool is_early = at_any_time.enter(seen);
          return accuse_start(e, model, is_early, id, i);
        }
        case event_kind::row:
          if (model.list(e.row)) break;
          return accuse_list(e.row, model, id, i);
        default:
          break;
      }
    }
    return judge_end(model, id, last, was_listed);
  }

  std::optional<violation> judge_end(row_model& model, std::string_view id, std::size_t last, bool was_listed) {
    if (!quiet_) return std::nullopt;
    if (last < *quiet_) {
      const auto turn = std::upper_bound(turns_.begin(), turns_.end(), last);
      for (auto t = turn; t != turns_.end() && *t < *quiet_; ++t) take_turn(model, *t, last);
      model.elapse(times_.between(last, *quiet_));
    }
    if (model.is_overrun()) return accuse({"journal", "too many requests were open at a time"}, id, *quiet_);
    if (model.has_open_requests()) return accuse({"D9", "a request was never answered"}, id, *quiet_);
    const auto could_be = possibilities(model.rows());
    if (!model.is_quiet()) {
      ++out_.lost;
      const bool is_periodic = any(model.rows(), [](const possible_row& row) { return row.period != 0; });
      return accuse({is_periodic ? "D12" : "D1", "it did not start: it should be " + could_be}, id, *quiet_);
    }
    if (how_ == judging::events || was_listed) return std::nullopt;
    model.elapse(times_.between(*quiet_, journal_.events.size() - 1));  // a tombstone may be forgotten before the lists
    if (model.list_nothing()) return std::nullopt;
    const bool is_live = any(model.rows(), [](const possible_row& row) { return row.at == state::dead; });
    return accuse({is_live ? "D1" : "D11", "no list has it: it should be " + could_be}, id, journal_.events.size());
  }

  violation accuse_answer(const event& e, const row_model& model, std::string_view id, std::size_t at) {
    judgement what = of_answer(e, model.rows());
    if (what.promise == "D1") ++out_.lost;
    what.text += ". The row could be " + possibilities(model.rows());
    return accuse(std::move(what), id, at);
  }

  violation accuse_start(const event& e, const row_model& model, bool is_early, std::string_view id, std::size_t at) {
    judgement what = of_start(e, model.rows(), is_early);
    out_.early += what.promise == "D2";
    out_.after_cancel += what.promise == "D4";
    what.text += ". The row could be " + possibilities(model.rows());
    return accuse(std::move(what), id, at);
  }

  violation accuse_list(const seen_row& row, const row_model& model, std::string_view id, std::size_t at) const {
    const bool died = row.at == state::dead;
    return accuse(
        {died ? "D10" : "D11", std::string{"it is listed as "} + to_string(row.at) + " with " +
                                   std::to_string(row.attempts) + " attempts and " + std::to_string(row.lost) +
                                   " lost. The row could be " + possibilities(model.rows())},
        id, at);
  }

  const journal& journal_;
  judging how_;
  timeline times_;
  std::unordered_set<std::size_t> after_standstills_;
  verdict out_;
  std::vector<std::size_t> turns_;
  std::optional<std::size_t> quiet_;
  std::unordered_map<std::string_view, std::vector<std::size_t>> tasks_;
  std::vector<std::string_view> order_;
};

}  // namespace

verdict judge(const journal& j, judging how) { return court{j, how}.run(); }

std::string report(const journal& j, const verdict& v, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i != std::min(most, v.violations.size()); ++i) {
    const violation& broken = v.violations[i];
    text += broken.promise + " is broken" + (broken.id.empty() ? "" : " for " + broken.id) + ": " + broken.text + "\n";
    for (const std::size_t line : broken.lines)
      if (line < j.lines.size())
        text += "  line " + std::to_string(line + 1) + ": " + std::string{j.lines[line]} + "\n";
  }
  if (v.violations.size() > most) text += "and " + std::to_string(v.violations.size() - most) + " more\n";
  return text;
}

}  // namespace crash
