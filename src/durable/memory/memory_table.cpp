#include "memory_table.hpp"

#include <uv.h>

#include <algorithm>
#include <limits>

namespace tickwheel::durable::detail {

namespace {

using time = memory_table::time;

// A task whose node was lost so often is dead.
constexpr unsigned most_losses = 3;

// No task is due at this time or later.
constexpr time end_of_range = std::chrono::sys_days{std::chrono::year{2200} / 1 / 1};

bool is_ended(task_state s) { return s == task_state::finished || s == task_state::cancelled; }

time after(time now, std::chrono::nanoseconds by) { return by > time::max() - now ? time::max() : now + by; }

// The first period after `now`, and after the current one: a clock that was set back does not repeat it. No value: it would begin
// beyond the range of tasks.
std::optional<time> next_period(time due, std::chrono::nanoseconds period, time now) {
  time current = due;
  if (now > due) current += (now - due) / period * period;
  if (period >= end_of_range - current) return std::nullopt;
  return current + period;
}

bool report(std::string* why, std::string what) {
  if (why != nullptr) *why = std::move(what);
  return false;
}

}  // namespace

// Follows the store's clock in microseconds, so that a database that lost its last writes gives no number twice.
revision memory_table::next_number(time now) {
  const auto us = std::chrono::floor<std::chrono::microseconds>(now.time_since_epoch()).count();
  last_number_ = std::max(last_number_ + 1, us > 0 ? static_cast<revision>(us) : revision{0});
  return last_number_;
}

std::chrono::nanoseconds memory_table::keep_finished() const {
  if (nodes_.empty()) return last_keep_finished_;
  const auto longest = std::max_element(nodes_.begin(), nodes_.end(), [](const auto& a, const auto& b) {
    return a.second.keep_finished < b.second.keep_finished;
  });
  return longest->second.keep_finished;
}

bool memory_table::has_expired(const row& r, time now) const {
  return is_ended(r.state) && r.gone <= now - keep_finished();
}

// An expired row is as good as none.
memory_table::position memory_table::find_known(std::string_view id, time now) {
  const auto found = rows_.find(id);
  return found != rows_.end() && has_expired(found->second, now) ? rows_.end() : found;
}

bool memory_table::is_owner(session_number session, partition_number p) const {
  return session != 0 && p < owners_.size() && owners_[p] == session;
}

// FNV-1a
partition_number memory_table::partition_of(std::string_view id) const {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return static_cast<partition_number>(hash % owners_.size());
}

// Writes

pending_row memory_table::pending_of(const std::string& id, const row& r) {
  return {
      r.partition, id, r.rev, r.at, static_cast<std::uint32_t>(r.payload.size()), static_cast<std::uint16_t>(r.lost)};
}

void memory_table::link(const std::string& id, const row& r) {
  if (r.state == task_state::pending) pending_.insert({r.partition, r.at, id});
  if (r.state == task_state::running) running_.insert(id);
  if (r.state == task_state::dead) ++dead_;
  if (is_ended(r.state)) ended_.emplace(r.gone, id);
}

void memory_table::unlink(const std::string& id, const row& r) {
  if (r.state == task_state::pending) pending_.erase({r.partition, r.at, id});
  if (r.state == task_state::running) running_.erase(id);
  if (r.state == task_state::dead) --dead_;
  if (is_ended(r.state)) ended_.erase({r.gone, id});
}

template <class F>
void memory_table::write(position p, F&& transition) {
  auto& [id, r] = *p;
  if (journal_ != nullptr) journal_->push_back(row_change{id, r});
  unlink(id, r);
  transition(r);
  link(id, r);
}

void memory_table::erase(position p) {
  if (journal_ != nullptr) journal_->push_back(row_change{p->first, p->second});
  unlink(p->first, p->second);
  rows_.erase(p);
}

void memory_table::set_owner(partition_number p, session_number to) {
  if (journal_ != nullptr) journal_->push_back(owner_change{p, owners_[p]});
  owners_[p] = to;
}

void memory_table::note_node(session_number session, const std::string& name) {
  if (journal_ == nullptr) return;
  const node* const known = member(session);
  journal_->push_back(node_change{session, name, known != nullptr ? std::optional{*known} : std::nullopt});
}

void memory_table::undo(const change& c) {
  if (const auto* const of_row = std::get_if<row_change>(&c)) {
    if (const auto p = rows_.find(of_row->id); p != rows_.end()) {
      unlink(p->first, p->second);
      rows_.erase(p);
    }
    if (!of_row->before) return;
    rows_.emplace(of_row->id, *of_row->before);
    link(of_row->id, *of_row->before);
  } else if (const auto* const of_node = std::get_if<node_change>(&c)) {
    nodes_.erase(of_node->session);
    if (of_node->before)
      nodes_.emplace(of_node->session, *of_node->before);
    else  // it has not joined, so nobody could hand partitions to it
      std::replace(owners_.begin(), owners_.end(), of_node->session, session_number{0});
  } else if (const auto* const of_owner = std::get_if<owner_change>(&c)) {
    // A node that was buried meanwhile owns nothing.
    owners_[of_owner->partition] = member(of_owner->before) != nullptr ? of_owner->before : 0;
  }
}

bool memory_table::are_of_one(const change& a, const change& b) {
  if (a.index() != b.index()) return false;
  if (const auto* const of_row = std::get_if<row_change>(&a)) return of_row->id == std::get<row_change>(b).id;
  if (const auto* const of_node = std::get_if<node_change>(&a)) return of_node->name == std::get<node_change>(b).name;
  return std::get<owner_change>(a).partition == std::get<owner_change>(b).partition;
}

// Transitions of a row. Each sets a new rev.

void memory_table::make_pending(row& r, time at, time now) {
  if (r.stop) return make_ended(r, task_state::cancelled, now);
  r.state = task_state::pending;
  r.at = at;
  r.session = 0;
  r.rev = next_number(now);
}

void memory_table::make_dead(row& r, time now) {
  if (r.stop) return make_ended(r, task_state::cancelled, now);
  r.state = task_state::dead;
  r.at = time::max();
  r.session = 0;
  r.rev = next_number(now);
}

void memory_table::make_ended(row& r, task_state how, time now) {
  r.state = how;
  r.at = time::max();
  r.session = 0;
  r.stop = false;
  r.gone = now;
  r.payload.clear();
  r.rev = next_number(now);
}

void memory_table::start_next_period(row& r, time now) {
  if (r.stop) return make_ended(r, task_state::cancelled, now);
  const std::optional<time> next = next_period(r.due, r.period, now);
  if (!next) return make_ended(r, task_state::finished, now);
  r.due = *next;
  r.attempts = r.lost = 0;
  r.error.clear();
  make_pending(r, *next, now);
}

void memory_table::finish(row& r, const finish_call::item& how, time now) {
  r.ended = how.token;
  if (how.how != outcome::done && !how.error.empty()) r.error = how.error;
  switch (how.how) {
    case outcome::done:
      if (r.period != std::chrono::nanoseconds::zero()) return start_next_period(r, now);
      return make_ended(r, task_state::finished, now);
    case outcome::again:
      if (how.gives_attempt_back && r.attempts != 0) --r.attempts;
      return make_pending(r, how.at, now);
    case outcome::dead:
      return make_dead(r, now);
  }
}

// Nodes and partitions

void memory_table::join(join_call& c, time now) {
  if (const session_number known = session_of(c.name); known != 0) {
    if (nodes_.at(known).expires > now) {
      c.error = UV_EEXIST;
      return;
    }
    remove(known);
  }
  c.error = 0;
  c.session = next_number(now);
  c.partitions = partitions();
  note_node(c.session, c.name);
  nodes_.emplace(c.session, node{c.name, next_number(now), after(now, c.lease), c.lease, c.keep_finished});
}

bool memory_table::renew(renew_call& c, time now) {
  c.nodes.clear();
  c.partitions.clear();
  c.free_partitions = 0;
  c.dead = 0;
  c.is_buried = member(c.session) == nullptr;
  if (c.is_buried) return false;
  node& own = nodes_.at(c.session);
  note_node(c.session, own.name);
  own.beat = next_number(now);
  own.expires = after(now, c.lease);
  own.lease = c.lease;
  const bool is_first = !std::exchange(own.has_renewed, true);
  const bool did_start = std::exchange(own.is_starting, c.is_starting);
  c.nodes = nodes();
  for (partition_number p = 0; p < partitions(); ++p)
    if (owners_[p] == c.session) c.partitions.push_back(p);
  c.free_partitions = static_cast<std::uint16_t>(std::count(owners_.begin(), owners_.end(), session_number{0}));
  c.dead = std::min<std::uint64_t>(dead_, most_dead_counted);
  return is_first ? c.is_starting : did_start && !c.is_starting;
}

bool memory_table::bury(bury_call& c) {
  const bool owned_any = std::count(owners_.begin(), owners_.end(), c.session) != 0;
  if (const node* const other = member(c.session); other != nullptr && other->beat == c.beat) remove(c.session);
  c.is_buried = member(c.session) == nullptr;
  return owned_any && c.is_buried;
}

void memory_table::remove(session_number session) {
  const node* const gone = member(session);
  if (gone == nullptr) return;
  last_keep_finished_ = gone->keep_finished;
  for (partition_number p = 0; p < partitions(); ++p)
    if (owners_[p] == session) set_owner(p, 0);
  note_node(session, gone->name);  // after its partitions: `undo` goes backwards, and gives them to members alone
  nodes_.erase(session);
}

void memory_table::acquire(acquire_call& c) {
  c.partitions.clear();
  if (member(c.session) == nullptr) return;
  for (partition_number p = 0; p < partitions() && c.partitions.size() < c.limit; ++p) {
    if (owners_[p] != 0) continue;
    set_owner(p, c.session);
    c.partitions.push_back(p);
  }
}

session_number memory_table::release(release_call& c) {
  const node* const next = member(c.to);
  const session_number to = next != nullptr && next->is_starting ? c.to : 0;
  for (const partition_number p : c.partitions)
    if (is_owner(c.session, p)) set_owner(p, to);
  return to;
}

// Starts

void memory_table::load(load_call& c, time now) const {
  c.rows.clear();
  const time last = after(now, c.window);
  for (const load_range& range : c.ranges) {
    const place from{range.partition, range.at, range.id};
    auto p = range.id.empty() ? pending_.lower_bound(from) : pending_.upper_bound(from);
    for (std::size_t left = c.page; left != 0 && p != pending_.end(); --left, ++p) {
      if (p->partition != range.partition || p->at > last) break;
      c.rows.push_back(pending_of(p->id, rows_.at(p->id)));
    }
  }
}

void memory_table::begin(begin_call& c, time now) {
  c.starts.clear();
  for (std::size_t i = 0; i < c.items.size(); ++i) {
    const auto& [id, rev] = c.items[i];
    const auto p = rows_.find(id);
    if (p == rows_.end()) continue;
    const row& r = p->second;
    if (r.state != task_state::pending || r.rev != rev || r.at > now || !is_owner(c.session, r.partition)) continue;
    write(p, [&](row& started) {
      started.state = task_state::running;
      started.session = c.session;
      started.rev = next_number(now);
      ++started.attempts;
    });
    c.starts.push_back({i, r.rev, r.attempts, r.lost, r.due, r.period, r.payload});
  }
}

void memory_table::finish(finish_call& c, time now) {
  c.results.clear();
  c.pending.clear();
  for (const finish_call::item& item : c.items) {
    const auto p = find_known(item.id, now);
    finish_result answer = finish_result::stale;
    if (p != rows_.end() && item.token != 0) {
      if (p->second.state == task_state::running && p->second.rev == item.token) {
        write(p, [&](row& r) { finish(r, item, now); });
        if (p->second.state == task_state::pending) c.pending.push_back(pending_of(p->first, p->second));
      }
      if (p->second.ended == item.token) answer = finish_result::finished;
    }
    c.results.push_back(answer);
  }
}

void memory_table::recover(recover_call& c, time now) {
  c.recovered = c.died = 0;
  if (member(c.session) == nullptr) return;
  for (const std::string& id : c.doubted) {
    const auto p = rows_.find(id);
    if (p == rows_.end() || p->second.state != task_state::running || p->second.session != c.session) continue;
    write(p, [&](row& r) {
      --r.attempts;
      make_pending(r, r.at, now);
    });
  }
  const std::vector<std::string> running{running_.begin(), running_.end()};  // the loop changes the set
  for (const std::string& id : running) {
    const auto p = rows_.find(id);
    if (!is_owner(c.session, p->second.partition) || member(p->second.session) != nullptr) continue;
    write(p, [&](row& r) {
      ++r.lost;
      if (r.lost >= most_losses || (r.attempts >= c.max_attempts && r.period == std::chrono::nanoseconds::zero()))
        make_dead(r, now);
      else if (r.attempts >= c.max_attempts)
        start_next_period(r, now);
      else
        make_pending(r, r.at, now);
    });
    if (p->second.state == task_state::pending) ++c.recovered;
    if (p->second.state == task_state::dead) ++c.died;
  }
}

// Requests

void memory_table::put(put_call& c, time now, const std::function<bool(const task&)>& refuses) {
  c.results.clear();
  for (const put_call::item& item : c.items) {
    put_call::answered& answer = c.results.emplace_back();
    const auto known = find_known(item.what.id, now);
    if (known != rows_.end()) {
      const task_state s = known->second.state;
      const bool is_alive = s == task_state::pending || s == task_state::running;
      if (item.conflict == on_conflict::keep)
        answer.result = is_alive ? schedule_result::exists : schedule_result::ended;
      else
        answer.result = s == task_state::running ? schedule_result::running : schedule_result::replaced;
    }
    const bool is_written = answer.result == schedule_result::scheduled || answer.result == schedule_result::replaced;
    if (is_written && refuses && refuses(item.what)) answer.result = schedule_result::refused;
    if (!is_written || answer.result == schedule_result::refused) continue;

    row fresh;
    fresh.partition = answer.partition = partition_of(item.what.id);
    fresh.at = fresh.due = item.what.due;
    fresh.period = item.what.period;
    fresh.payload = item.what.payload;
    fresh.rev = answer.rev = next_number(now);
    if (known != rows_.end()) fresh.ended = known->second.ended;
    if (const auto there = rows_.find(item.what.id); there != rows_.end()) {
      write(there, [&](row& r) { r = std::move(fresh); });
    } else {
      if (journal_ != nullptr) journal_->push_back(row_change{item.what.id, std::nullopt});
      link(item.what.id, fresh);
      rows_.emplace(item.what.id, std::move(fresh));
    }
  }
}

void memory_table::cancel(cancel_call& c, time now) {
  c.results.clear();
  for (const std::string& id : c.ids) {
    cancel_result& answer = c.results.emplace_back(cancel_result::not_found);
    const auto p = find_known(id, now);
    if (p == rows_.end()) continue;
    switch (p->second.state) {
      case task_state::pending:
      case task_state::dead:
        write(p, [&](row& r) { make_ended(r, task_state::cancelled, now); });
        answer = cancel_result::cancelled;
        break;
      case task_state::running:
        write(p, [](row& r) { r.stop = true; });
        answer = cancel_result::running;
        break;
      case task_state::finished:
        answer = cancel_result::finished;
        break;
      case task_state::cancelled:
        answer = cancel_result::cancelled;
        break;
    }
  }
}

void memory_table::revive(revive_call& c, time now) {
  c.results.clear();
  for (const std::string& id : c.ids) {
    revive_call::answered& answer = c.results.emplace_back();
    const auto p = find_known(id, now);
    answer.result = p == rows_.end() ? revive_result::not_found : revive_result::not_dead;
    if (p == rows_.end() || p->second.state != task_state::dead) continue;
    write(p, [&](row& r) {
      r.attempts = r.lost = 0;
      r.error.clear();
      make_pending(r, now, now);
    });
    answer = {revive_result::revived, p->second.rev, p->second.partition};
  }
}

task_info memory_table::info_of(std::string_view id, const row& r) {
  return {.what = {.id = std::string{id}, .due = r.due, .payload = r.payload, .period = r.period},
          .state = r.state,
          .next = r.at,
          .attempts = r.attempts,
          .lost = r.lost,
          .cancelling = r.stop,
          .last_error = r.error};
}

void memory_table::get(get_call& c, time now) const {
  c.results.clear();
  for (const std::string& id : c.ids) {
    const row* const r = find(id, now);
    c.results.push_back(r != nullptr ? std::optional{info_of(id, *r)} : std::nullopt);
  }
}

void memory_table::list(list_call& c, time now) const {
  c.results.clear();
  for (auto p = rows_.upper_bound(c.after); p != rows_.end() && c.results.size() < c.limit; ++p)
    if (p->second.state == c.state && !has_expired(p->second, now)) c.results.push_back(info_of(p->first, p->second));
}

void memory_table::purge(purge_call& c, time now) {
  c.purged = 0;
  while (c.purged < c.limit && !ended_.empty()) {
    const auto oldest = rows_.find(ended_.begin()->second);
    if (!has_expired(oldest->second, now)) break;
    erase(oldest);
    ++c.purged;
  }
}

// Reading

const memory_table::row* memory_table::find(std::string_view id) const {
  const auto p = rows_.find(id);
  return p != rows_.end() ? &p->second : nullptr;
}

const memory_table::row* memory_table::find(std::string_view id, time now) const {
  const row* const r = find(id);
  return r != nullptr && !has_expired(*r, now) ? r : nullptr;
}

const memory_table::node* memory_table::member(session_number session) const {
  const auto p = nodes_.find(session);
  return p != nodes_.end() ? &p->second : nullptr;
}

session_number memory_table::session_of(std::string_view name) const {
  for (const auto& [session, n] : nodes_)
    if (n.name == name) return session;
  return 0;
}

std::vector<store_node> memory_table::nodes() const {
  std::vector<store_node> all;
  for (const auto& [session, n] : nodes_) {
    const auto owned = std::count(owners_.begin(), owners_.end(), session);
    all.push_back(
        {session, n.beat, n.expires, n.lease, static_cast<std::uint16_t>(owned), n.is_starting && n.has_renewed});
  }
  return all;
}

std::size_t memory_table::size(task_state s) const {
  switch (s) {
    case task_state::pending:
      return pending_.size();
    case task_state::running:
      return running_.size();
    case task_state::dead:
      return dead_;
    default:
      return static_cast<std::size_t>(
          std::count_if(rows_.begin(), rows_.end(), [s](const auto& each) { return each.second.state == s; }));
  }
}

bool memory_table::validate(std::string* why) const {
  std::size_t pending = 0, running = 0, dead = 0, ended = 0;
  std::set<revision> revisions;
  for (const auto& [id, r] : rows_) {
    const auto broken = [&, &name = id](const char* what) { return report(why, "task " + name + ": " + what); };
    if (r.partition != partition_of(id)) return broken("not in its partition");
    if (r.rev == 0 || r.rev > last_number_) return broken("its rev was never given");
    if (!revisions.insert(r.rev).second) return broken("another row has its rev");
    if (r.ended > r.rev) return broken("its last answered token is greater than its rev");
    if ((r.session != 0) != (r.state == task_state::running))
      return broken("a session without a start, or the reverse");
    if (r.stop && r.state != task_state::running) return broken("marked with stop, but not running");
    if (r.lost > most_losses) return broken("lost too often");
    if (r.lost == most_losses && (r.state == task_state::pending || r.state == task_state::running))
      return broken("alive after the last loss");
    if ((r.at == time::max()) != (r.state == task_state::dead || is_ended(r.state)))
      return broken("a time without a next start, or the reverse");
    switch (r.state) {
      case task_state::pending:
        ++pending;
        if (!pending_.contains({r.partition, r.at, id})) return broken("pending, but not in the order of starts");
        break;
      case task_state::running:
        ++running;
        if (!running_.contains(id)) return broken("running, but not among these");
        if (r.attempts == 0) return broken("running without an attempt");
        break;
      case task_state::dead:
        ++dead;
        break;
      case task_state::finished:
      case task_state::cancelled:
        ++ended;
        if (!ended_.contains({r.gone, id})) return broken("ended, but not in the order of ends");
        if (!r.payload.empty()) return broken("ended, with a payload");
        break;
    }
  }
  if (pending != pending_.size()) return report(why, "the order of starts has a row that is not pending");
  if (running != running_.size()) return report(why, "a row that does not run is among the running ones");
  if (dead != dead_) return report(why, "the number of dead tasks is wrong");
  if (ended != ended_.size()) return report(why, "the order of ends has a row that has not ended");
  std::set<std::string_view> names;
  for (const auto& [session, n] : nodes_) {
    if (session == 0 || session > last_number_) return report(why, "node " + n.name + ": its session was never given");
    if (!names.insert(n.name).second) return report(why, "node " + n.name + ": another node has its name");
  }
  for (const session_number owner : owners_)
    if (owner != 0 && member(owner) == nullptr) return report(why, "the owner of a partition is no member");
  return true;
}

}  // namespace tickwheel::durable::detail
