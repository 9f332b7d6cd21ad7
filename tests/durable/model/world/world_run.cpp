// Carries out the operations of a run, checks each, and lets everything end.
#include "world.hpp"

#include <algorithm>
#include <utility>

namespace durable_model {

void world::step() {
  node& n = any_node();
  switch (const std::size_t what = decide_.below(100); what) {
    case 0:
    case 1: {  // a restart
      const bool crashes = faults_ != nullptr && n.member >= 0 && !n.is_crashed && decide_.one_in(2);
      if (crashes) {
        const bool keeps = decide_.one_in(2);
        note("%s crashes, unconfirmed writes are %s", n.name.c_str(), keeps ? "kept" : "lost");
        faults_->crash(n.name, keeps);
        n.is_crashed = true;
        facts_.members[static_cast<std::size_t>(n.member)].gone_at = never;
        if (decide_.one_in(2)) return;
      }
      close(n, decide_.one_in(2));
      if (decide_.one_in(2)) open(n);
      return;
    }
    case 2:
      n.closes_next = n.member >= 0;
      return;
    case 3:
      if (decide_.one_in(4)) drain(n);
      return;
    case 4:
      if (n.scheduler == nullptr) return;
      n.is_paused = !n.is_paused;
      note("%s %s", n.name.c_str(), n.is_paused ? "pauses" : "resumes");
      n.is_paused ? n.scheduler->pause() : n.scheduler->resume();
      return;
    case 5:
      return ask_invalid(n);
    case 6:
      return list(n);
    case 7:
      if (decide_.one_in(4)) stall();
      return;
    case 8: {
      if (!may_shift_) return;
      const nanos by = decide_.pick<nanos>(
          {ms, -ms, options_.window.count(), -options_.window.count(), hour, -hour, options_.keep_finished.count()});
      note("clock %lld", static_cast<long long>(by));
      database_->shift(by);
      const nanos offset = database_->now() - facts_.now;
      facts_.clock.set(facts_.now, offset);
      least_offset_ = std::min(least_offset_, offset);
      greatest_offset_ = std::max(greatest_offset_, offset);
      return;
    }
    default:
      if (n.member < 0 && decide_.one_in(4)) return open(n);
      if (what < 28) return schedule(n, durable::on_conflict::keep);
      if (what < 34) return schedule(n, durable::on_conflict::replace);
      if (what < 42) return cancel(n, any_id());
      if (what < 45) return revive(n, any_id());
      if (what < 50) return get(n, any_id());
      if (what < 55) return finish_by_token(n, any_id());
      if (what < 65) {
        if (held_.empty()) return;
        const std::size_t i = decide_.below(held_.size());
        held h = std::move(held_[i]);
        held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
        return end(std::move(h), static_cast<unsigned>(decide_.below(6)));
      }
      if (what < 70) return disturb();
      if (what < 72 && is_crowd_) return schedule_many(n);
      return move_time();
  }
}

void world::check_deadlines() {
  for (const auto& [number, r] : open_) {
    if (r.what == verb::finish) continue;
    if (r.issued + options_.request_timeout.count() + patience + behind_ < facts_.now)
      fail("request %d was not answered within the timeout", number);
    return;
  }
}

// Costly checks are made in each sixteenth or sixty-fourth call: `operations_` stands still while a world settles.
void world::check() {
  ++checks_;
  settle_closed();
  if (mismatch_) return;
  check_deadlines();
  for (const node& n : nodes_) {
    if (n.scheduler == nullptr) continue;
    if (checks_ % 16 != 0) continue;
    const durable::scheduler_stats s = n.scheduler->stats();
    if (s.requests != n.requests) fail("%s has %zu requests, expected %zu", n.name.c_str(), s.requests, n.requests);
    if (s.running > options_.max_running) fail("%s runs too many", n.name.c_str());
    if (s.loaded > options_.max_loaded) fail("%s has loaded too many", n.name.c_str());
    if (s.started != n.started) fail("%s: stats count other starts", n.name.c_str());
    std::string why;
    if (!n.scheduler->validate(&why)) fail("%s: %s", n.name.c_str(), why.c_str());
  }
  if (checks_ % 64 == 0) {
    std::string why;
    if (!timers_.validate(&why)) fail("timers: %s", why.c_str());
  }
  if (faults_ == nullptr) return;
  if (database_->now() != facts_.clock.at(facts_.now)) fail("the clock of the database is off");
  if (faults_->open_calls(store_verb::put) + faults_->open_calls(store_verb::cancel) +
          faults_->open_calls(store_verb::revive) ==
      0) {
    for (std::size_t i = 0; i != ids_; ++i) {
      if (!is_unsure_[i]) continue;
      models_[i].on_quiet();
      is_unsure_[i] = false;
    }
  }
  if (checks_ % 16 == 0) {
    std::string why;
    if (!faults_->validate(&why)) fail("database: %s", why.c_str());
    const int id = any_id();
    const auto info = faults_->info(name_of_id(id));
    const shown_row row = info ? shown(*info) : shown_row{};
    fits(models_[static_cast<std::size_t>(id)].shows(info ? &row : nullptr), id, "in the database");
  }
}

// Faults that were planned for later calls are still there.
template <class Ask>
void world::ask_until_decided(Ask&& ask) {
  is_decided_ = false;
  for (int tries = 0; tries != 100 && !is_decided_ && !mismatch_; ++tries) {
    if (faults_ != nullptr) faults_->answer_lost();
    const auto is_request = [](const auto& each) { return each.second.what != verb::finish; };
    if (std::none_of(open_.begin(), open_.end(), is_request)) ask();
    advance(ms);
    check();
  }
  if (!is_decided_) fail("a request was not answered although all faults are over");
}

// All faults end, and everything runs on; a node that could not join tries again within a second. Then nothing may be left that
// had to start.
void world::settle() {
  note("settle");
  is_calm_ = true;
  if (faults_ != nullptr) {
    for (const node& n : nodes_) faults_->outage(n.name, false);
    faults_->outage(false);
    for (std::size_t v = 0; v != durable::store_verbs; ++v) {
      faults_->carry_out_after(static_cast<store_verb>(v), 0ns);
      faults_->answer_after(static_cast<store_verb>(v), 0ns);
    }
  }
  for (node& n : nodes_) {
    if (n.member >= 0 && (n.is_crashed || n.is_draining)) close(n, false);
    check();
    if (n.member < 0) open(n);
    if (n.is_paused) n.scheduler->resume();
    n.is_paused = n.closes_next = false;
  }
  while (!held_.empty()) {
    held h = std::move(held_.back());
    held_.pop_back();
    end(std::move(h), 0);
  }
  const nanos poll = options_.poll.count();
  const auto run_for = [&](nanos by) {
    for (nanos left = by; left > 0 && !mismatch_; left -= 4 * poll) {
      if (faults_ != nullptr) faults_->answer_lost();
      advance(std::min(left, 4 * poll));
      check();
    }
  };
  run_for((faults_ != nullptr ? 3 * second : 0) + options_.lease.count() * 3 + options_.request_timeout.count() +
          10 * poll);
  for (std::size_t i = 0; i != ids_ && !mismatch_; ++i) {
    ask_until_decided([&] { get(nodes_.front(), static_cast<int>(i)); });
    if (!last_read_ || last_read_->period == 0) continue;
    ask_until_decided([&] { cancel(nodes_.front(), static_cast<int>(i)); });
  }
  // Tasks that wait for a place in memory start one after the other.
  run_for(options_.lease.count() * 2 + options_.window.count() * 10 + options_.retry.cap.count() + 20 * poll);
  const nanos late = options_.window.count() * 2 + 12 * poll + 100 * ms;
  const auto is_overdue = [&] {
    return last_read_ && last_read_->state == row_state::pending &&
           last_read_->next < facts_.clock.at(facts_.now) - late;
  };
  // A slow look for tasks that came late, which took up to two seconds, puts off the next one.
  const nanos next_look = 2 * second * durable::detail::limits.pause_in_round + 20 * poll;
  for (std::size_t i = 0; i != ids_ && !mismatch_; ++i) {
    const int id = static_cast<int>(i);
    ask_until_decided([&] { get(nodes_.front(), id); });
    if (is_overdue()) {
      run_for(next_look);
      ask_until_decided([&] { get(nodes_.front(), id); });
    }
    if (!last_read_) continue;
    if (last_read_->state == row_state::running) fits(false, id, "is running at the end");
    if (is_overdue()) fits(false, id, "was not started");
  }
  if (mismatch_) return;
  for (const node& n : nodes_) {
    const durable::scheduler_stats s = n.scheduler->stats();
    if (s.scheduled != n.scheduled)
      fail("%s: stats count %llu scheduled, expected %llu", n.name.c_str(),
           static_cast<unsigned long long>(s.scheduled), static_cast<unsigned long long>(n.scheduled));
    if (s.unavailable != n.unavailable)
      fail("%s: stats count %llu unavailable, expected %llu", n.name.c_str(),
           static_cast<unsigned long long>(s.unavailable), static_cast<unsigned long long>(n.unavailable));
    if (!n.has_joined) fail("%s has not joined", n.name.c_str());
    if (s.requests != 0 || s.running != 0) fail("%s is not idle", n.name.c_str());
  }
  if (!open_.empty()) fail("request %d was never answered", open_.begin()->first);
}

void world::run(std::uint64_t operations) {
  while (operations_ < operations && !mismatch_ && !decide_.is_over()) {
    ++operations_;
    step();
    check();
  }
  if (!mismatch_) settle();
}

comparison world::result() { return {std::move(mismatch_), operations_, starts_, std::move(trace_)}; }

}  // namespace durable_model
