#include "memory_core.hpp"

#include "memory_node.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tickwheel::durable::detail {

void memory_clock::read(const timer_service& timers) {
  if (!timers.is_open()) return;
  const tickwheel::clock::time_point reading = timers.read_clock();
  if (last_ && reading <= *last_) return;
  if (last_) now_ += reading - *last_;
  last_ = reading;
}

void memory_clock::start(const timer_service& timers) {
  if (last_ && timers.read_clock() < *last_) last_.reset();
  read(timers);
}

void memory_core::add(memory_node& n) {
  if (open_nodes.empty()) time.start(*n.timers());
  open_nodes.push_back(&n);
}

void memory_core::remove(memory_node& n) {
  now();
  std::erase(open_nodes, &n);
}

clock::time_point memory_core::now() {
  for (const memory_node* const n : open_nodes) time.read(*n->timers());
  return time.now();
}

std::optional<memory_fault> memory_core::count(store_verb verb, const store_call& c) {
  ++calls[index_of(verb)];
  if (look) look(verb, c);
  std::deque<memory_fault>& planned = faults[index_of(verb)];
  if (planned.empty()) return std::nullopt;
  const memory_fault first = planned.front();
  planned.pop_front();
  return first;
}

bool memory_core::is_out(const memory_node& n) const { return all_out || nodes_out.contains(n.name()); }

void memory_core::carry_out(memory_node& n, store_verb verb, store_call& c) {
  unconfirmed& noted = unconfirmed_.emplace_back(unconfirmed{&c, &n, {}, {}});
  table.note_in(&noted.writes);
  c.now = now();
  execute(n, verb, c);
  table.note_in(nullptr);
  note_looks(noted, verb, c);
}

// The rows that decide a call's results. The other verbs have none: the store checks again what follows from their results.
void memory_core::note_looks(unconfirmed& noted, store_verb verb, const store_call& c) {
  const auto look_at = [&](const std::string& id) { noted.looks.emplace_back(memory_table::row_change{id, {}}); };
  switch (verb) {
    case store_verb::finish:
      for (const auto& item : static_cast<const finish_call&>(c).items) look_at(item.id);
      return;
    case store_verb::put:
      for (const auto& item : static_cast<const put_call&>(c).items) look_at(item.what.id);
      return;
    case store_verb::cancel:
      for (const auto& id : static_cast<const cancel_call&>(c).ids) look_at(id);
      return;
    case store_verb::revive:
      for (const auto& id : static_cast<const revive_call&>(c).ids) look_at(id);
      return;
    case store_verb::get:
      for (const auto& id : static_cast<const get_call&>(c).ids) look_at(id);
      return;
    case store_verb::list:
      noted.has_seen_all = true;
      return;
    default:
      return;
  }
}

bool memory_core::unconfirmed::needs_one_of(const changes& earlier) const {
  if (has_seen_all && !earlier.empty()) return true;
  return std::any_of(earlier.begin(), earlier.end(), [&](const memory_table::change& e) {
    const auto is_same = [&](const memory_table::change& own) { return memory_table::are_of_one(own, e); };
    return std::any_of(writes.begin(), writes.end(), is_same) || std::any_of(looks.begin(), looks.end(), is_same);
  });
}

// `to`: only this session; 0: all.
void memory_core::tell_others_to_look(const memory_node& n, session_number to) {
  for (memory_node* const other : open_nodes)
    if (other != &n) other->tell_to_look(to);
}

void memory_core::execute(memory_node& n, store_verb verb, store_call& c) {
  switch (verb) {
    case store_verb::join: {
      auto& join = static_cast<join_call&>(c);
      join.error = join_error;
      if (join_error != 0) return n.set_problem("memory_database: fail_join");
      // the session of a closed store, or of this one, is not alive
      const session_number former = table.session_of(join.name);
      const bool is_of_another = std::any_of(open_nodes.begin(), open_nodes.end(), [&](const memory_node* other) {
        return other != &n && other->has_session(former);
      });
      if (!is_of_another) table.remove(former);
      table.join(join, c.now);
      if (join.error == 0) return n.set_session(join.session);
      return n.set_problem("memory_database: another node has the name " + join.name);
    }
    case store_verb::renew:
      if (table.renew(static_cast<renew_call&>(c), c.now)) tell_others_to_look(n, 0);
      return;
    case store_verb::bury:
      if (table.bury(static_cast<bury_call&>(c))) tell_others_to_look(n, 0);
      return;
    case store_verb::acquire:
      return table.acquire(static_cast<acquire_call&>(c));
    case store_verb::release:
      return tell_others_to_look(n, table.release(static_cast<release_call&>(c)));
    case store_verb::load:
      return table.load(static_cast<load_call&>(c), c.now);
    case store_verb::begin:
      return table.begin(static_cast<begin_call&>(c), c.now);
    case store_verb::finish:
      return table.finish(static_cast<finish_call&>(c), c.now);
    case store_verb::recover:
      return table.recover(static_cast<recover_call&>(c), c.now);
    case store_verb::put:
      return table.put(static_cast<put_call&>(c), c.now, refuses);
    case store_verb::cancel:
      return table.cancel(static_cast<cancel_call&>(c), c.now);
    case store_verb::revive:
      return table.revive(static_cast<revive_call&>(c), c.now);
    case store_verb::get:
      return table.get(static_cast<get_call&>(c), c.now);
    case store_verb::list:
      return table.list(static_cast<list_call&>(c), c.now);
    case store_verb::purge:
      return table.purge(static_cast<purge_call&>(c), c.now);
  }
}

void memory_core::confirm(const store_call& c) {
  const auto confirmed =
      std::find_if(unconfirmed_.begin(), unconfirmed_.end(), [&](const unconfirmed& u) { return u.call == &c; });
  if (confirmed == unconfirmed_.end()) return;
  if (c.status != store_status::ok) {  // its results are not delivered
    confirmed->looks.clear();
    confirmed->has_seen_all = false;
  }
  // the calls that it needs cannot be rolled back any more, and neither can those that they need
  auto earlier = std::next(confirmed);
  std::list<unconfirmed> needing;
  needing.splice(needing.end(), unconfirmed_, confirmed);
  while (earlier != unconfirmed_.begin()) {
    const auto u = std::prev(earlier);
    if (std::any_of(needing.begin(), needing.end(),
                    [&](const unconfirmed& later) { return later.needs_one_of(u->writes); }))
      needing.splice(needing.end(), unconfirmed_, u);
    else
      earlier = u;
  }
}

bool memory_core::bury(session_number session) {
  const bool is_member = table.member(session) != nullptr;
  bury_call burial{nullptr};
  burial.status = store_status::ok;
  table.note_in(&unconfirmed_.emplace_back(unconfirmed{&burial, nullptr, {}, {}}).writes);
  table.remove(session);
  table.note_in(nullptr);
  confirm(burial);
  return is_member;
}

void memory_core::crash(const std::function<bool(const memory_node&)>& crashes, bool keep_unconfirmed) {
  for (memory_node* const n : open_nodes)
    if (crashes(*n)) n->crash();
  std::vector<const unconfirmed*> kept;
  // NOLINTNEXTLINE(modernize-loop-convert): backwards
  for (auto u = unconfirmed_.rbegin(); u != unconfirmed_.rend(); ++u) {
    const auto needs_it = [&](const unconfirmed* later) { return later->needs_one_of(u->writes); };
    const bool is_rolled_back =
        crashes(*u->by) && !keep_unconfirmed && std::none_of(kept.begin(), kept.end(), needs_it);
    if (!is_rolled_back) {
      if (crashes(*u->by)) {  // nobody learns of its results
        u->looks.clear();
        u->has_seen_all = false;
      }
      kept.push_back(&*u);
      continue;
    }
    for (auto write = u->writes.rbegin(); write != u->writes.rend(); ++write) table.undo(*write);
  }
  unconfirmed_.remove_if([&](const unconfirmed& u) { return crashes(*u.by); });
}

void memory_core::fail_over() {
  memory_table before = *saved;
  before.skip_numbers_of(table);
  table = std::move(before);
  unconfirmed_.clear();
  for (memory_node* const n : open_nodes) n->fail_over();
}

}  // namespace tickwheel::durable::detail
