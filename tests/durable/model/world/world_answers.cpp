// Answers to requests, and the calls that the database gets.
#include "world.hpp"

#include <algorithm>
#include <cstdlib>

namespace durable_model {

std::optional<world::open_request> world::take(int number, bool is_decided) {
  refresh();
  const auto found = open_.find(number);
  if (found == open_.end()) {
    fail("request %d was answered twice, or was never accepted", number);
    return std::nullopt;
  }
  if (is_asking_) fail("request %d was answered within a request", number);
  const open_request r = found->second;
  if (r.what != verb::finish) is_decided_ = is_decided;
  node& n = nodes_[static_cast<std::size_t>(r.node)];
  if (r.member != n.member) fail("request %d was answered after its scheduler was closed", number);
  if (r.is_counted) {
    --n.requests;
    n.bytes -= r.bytes;
  }
  if (n.is_closing) {
    if (number < n.last_answered) fail("request %d was answered out of order by close", number);
    n.last_answered = number;
  } else if (r.id >= 0 && is_decided) {
    for (const auto& [other, o] : open_) {
      if (other >= number) break;
      if (o.id == r.id && o.member == r.member)
        fail("request %d was answered before request %d of the same id", number, other);
    }
  }
  open_.erase(found);
  return r;
}

void world::on_answer(int number, answer a) {
  if (is_ending_) return;
  const auto r = take(number, a != answer::unavailable && a != answer::unknown);
  if (!r) return;
  note("%d: %s", number, durable_model::name_of(a));
  node& n = nodes_[static_cast<std::size_t>(r->node)];
  if (a == answer::unknown && r->what == verb::finish && !n.is_closing) fail("a finish was answered unknown");
  if (a == answer::unknown) is_unsure_[static_cast<std::size_t>(r->id)] = true;
  if (a == answer::scheduled || a == answer::replaced) ++n.scheduled;
  if ((a == answer::unknown || a == answer::unavailable) && r->what != verb::finish) ++n.unavailable;
  fits(models_[static_cast<std::size_t>(r->id)].on_answer(number, a), r->id, durable_model::name_of(a));
  if (!is_calm_) in_callable(n);
}

void world::on_read(int number, durable::read_result result, const durable::task_info* info) {
  if (is_ending_) return;
  const auto r = take(number, result != durable::read_result::unavailable);
  if (!r) return;
  note("%d: read %s %s attempts %u lost %u next %lld error %s", number, to_string(result), to_string(info->state),
       info->attempts, info->lost, static_cast<long long>(count(info->next)), info->last_error.c_str());
  node& n = nodes_[static_cast<std::size_t>(r->node)];
  task_model& model = models_[static_cast<std::size_t>(r->id)];
  if (result == durable::read_result::unavailable) {
    ++n.unavailable;
    model.on_answer(number, answer::unavailable);
  } else {
    const shown_row row = shown(*info);
    const bool is_found = result == durable::read_result::ok;
    last_read_ = is_found ? std::optional{row} : std::nullopt;
    if (is_found && info->what.id != name_of_id(r->id)) fail("get answered the task %s", info->what.id.c_str());
    fits(model.on_read(number, is_found ? &row : nullptr), r->id, "read");
  }
  if (!is_calm_) in_callable(n);
}

void world::on_listed(int number, durable::read_result result, const std::vector<durable::task_info>& all) {
  if (is_ending_) return;
  const auto r = take(number, result != durable::read_result::unavailable);
  if (!r) return;
  note("%d: list %s %zu", number, to_string(result), all.size());
  node& n = nodes_[static_cast<std::size_t>(r->node)];
  if (result == durable::read_result::unavailable) {
    ++n.unavailable;
    for (task_model& m : models_) m.on_answer(number, answer::unavailable);
    return;
  }
  if (all.size() > r->limit) fail("list answered more than its limit");
  std::vector<bool> is_listed(ids_);
  std::string before = r->after;
  for (const durable::task_info& i : all) {
    if (i.what.id <= before) fail("list: %s is out of order", i.what.id.c_str());
    before = i.what.id;
    if (of(i.state) != r->state) fail("list: %s is in another state", i.what.id.c_str());
    const int id = std::atoi(i.what.id.c_str() + 1);
    if (id < 0 || static_cast<std::size_t>(id) >= ids_) return fail("list: unknown id %s", i.what.id.c_str());
    is_listed[static_cast<std::size_t>(id)] = true;
    const shown_row row = shown(i);
    fits(models_[static_cast<std::size_t>(id)].on_read(number, &row), id, "listed");
  }
  for (std::size_t i = 0; i != ids_; ++i) {
    if (is_listed[i]) continue;
    const std::string name = name_of_id(static_cast<int>(i));
    const bool is_in_page = name > r->after && (all.size() < r->limit || name < before);
    if (is_in_page)
      fits(models_[i].on_absent(number, r->state), static_cast<int>(i), "not listed");
    else
      models_[i].on_answer(number, answer::unavailable);
  }
}

// Looks at each call of the memory_database.
void world::look_at(store_verb v, const durable::store_call& c) {
  switch (v) {
    case store_verb::join: {  // its former session is over
      refresh();
      const std::string& name = static_cast<const durable::join_call&>(c).name;
      for (const node& n : nodes_)
        if (n.name == name && n.member >= 0) facts_.members[static_cast<std::size_t>(n.member)].gone_at = facts_.now;
      return;
    }
    case store_verb::bury:
      for (const node& n : nodes_)
        if (n.member >= 0 && faults_->session_of(n.name) == static_cast<const durable::bury_call&>(c).session)
          facts_.members[static_cast<std::size_t>(n.member)].gone_at = never;
      return;
    case store_verb::begin: {
      const auto& call = static_cast<const durable::begin_call&>(c);
      if (call.items.size() > std::min<std::size_t>(1000, options_.max_running)) fail("a begin of too many tasks");
      for (const node& n : nodes_) {
        if (faults_->session_of(n.name) != call.session) continue;
        if (n.is_paused || !n.starts) fail("%s begins while it is paused, or without a handler", n.name.c_str());
        if (n.is_draining && n.member >= 0 && !n.is_closing) fail("%s begins while it drains", n.name.c_str());
      }
      return;
    }
    case store_verb::put: {
      const auto& call = static_cast<const durable::put_call&>(c);
      std::size_t bytes = 0;
      for (const auto& item : call.items) bytes += item.what.id.size() + item.what.payload.size();
      if (call.items.size() > 1000 || (bytes > (4U << 20) && call.items.size() > 1)) fail("a put is too large");
      return;
    }
    case store_verb::finish:
      if (static_cast<const durable::finish_call&>(c).items.size() > 1000) fail("a finish is too large");
      return;
    default:
      return;
  }
}

}  // namespace durable_model
