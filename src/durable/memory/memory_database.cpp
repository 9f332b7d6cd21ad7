#include <tickwheel/durable/memory.hpp>

#include "memory_core.hpp"
#include "memory_node.hpp"

#include <tickwheel/core/detail/check.hpp>

#include <algorithm>
#include <utility>

namespace tickwheel::durable {

using tickwheel::detail::require;

memory_database::memory_database(std::uint16_t partitions, clock::time_point start)
    : core_{(require(partitions != 0, "a memory_database without partitions"),
             std::make_unique<detail::memory_core>(partitions, start))} {}
memory_database::~memory_database() = default;

clock::time_point memory_database::now() const noexcept { return core_->now(); }

void memory_database::shift_clock(std::chrono::nanoseconds by) noexcept {
  core_->now();
  core_->time.shift(by);
}

std::optional<task_info> memory_database::info(std::string_view id) const {
  const auto* const found = core_->table.find(id, core_->now());
  return found != nullptr ? std::optional{detail::memory_table::info_of(id, *found)} : std::nullopt;
}

std::optional<memory_row> memory_database::row(std::string_view id) const {
  const auto* const r = core_->table.find(id);
  if (r == nullptr) return std::nullopt;
  return memory_row{detail::memory_table::info_of(id, *r), r->rev, r->ended, r->session, r->partition};
}

std::size_t memory_database::size() const noexcept { return core_->table.size(); }
std::size_t memory_database::size(task_state s) const noexcept { return core_->table.size(s); }

partition_number memory_database::partition_of(std::string_view id) const noexcept {
  return core_->table.partition_of(id);
}
std::uint16_t memory_database::partitions() const noexcept { return core_->table.partitions(); }

session_number memory_database::owner_of(partition_number p) const noexcept {
  require(p < partitions(), "a partition that a memory_database does not have");
  return core_->table.owner_of(p);
}

std::vector<store_node> memory_database::nodes() const { return core_->table.nodes(); }

session_number memory_database::session_of(std::string_view node) const noexcept {
  return core_->table.session_of(node);
}

std::size_t memory_database::calls(store_verb v) const noexcept {
  return core_->calls[detail::memory_core::index_of(v)];
}

std::size_t memory_database::open_calls(store_verb v) const noexcept {
  std::size_t all = 0;
  for (const detail::memory_node* const n : core_->open_nodes) all += n->open_calls(v);
  return all;
}

void memory_database::on_call(std::function<void(store_verb, const store_call&)> look) {
  core_->look = std::move(look);
}

bool memory_database::validate(std::string* why) const { return core_->table.validate(why); }

void memory_database::carry_out_after(store_verb v, std::chrono::nanoseconds delay) noexcept {
  core_->carry_delay[detail::memory_core::index_of(v)] = delay;
}

void memory_database::answer_after(store_verb v, std::chrono::nanoseconds delay) noexcept {
  core_->answer_delay[detail::memory_core::index_of(v)] = delay;
}

void memory_database::fail_next(store_verb v, memory_fault how, std::size_t calls) {
  auto& planned = core_->faults[detail::memory_core::index_of(v)];
  planned.insert(planned.end(), calls, how);
}

void memory_database::answer_lost() {
  for (detail::memory_node* const n : core_->open_nodes) n->answer_lost();
}

void memory_database::outage(bool on) noexcept {
  core_->all_out = on;
  if (!on) return;
  for (detail::memory_node* const n : core_->open_nodes) n->lose_connection();
}

void memory_database::outage(std::string_view node, bool on) {
  if (!on) {
    core_->nodes_out.erase(std::string{node});
    return;
  }
  core_->nodes_out.emplace(node);
  for (detail::memory_node* const n : core_->open_nodes)
    if (n->name() == node) n->lose_connection();
}

void memory_database::tell_of(partition_number p) {
  for (detail::memory_node* const n : core_->open_nodes) n->tell_of(p);
}

void memory_database::fail_join(int error) noexcept { core_->join_error = error; }

void memory_database::refuse(std::function<bool(const task&)> refuses) { core_->refuses = std::move(refuses); }

bool memory_database::bury(session_number session) { return core_->bury(session); }

void memory_database::crash(bool keep_unconfirmed) {
  core_->crash([](const detail::memory_node&) { return true; }, keep_unconfirmed);
}

void memory_database::crash(std::string_view node, bool keep_unconfirmed) {
  core_->crash([=](const detail::memory_node& n) { return n.name() == node; }, keep_unconfirmed);
}

void memory_database::save() { core_->saved = core_->table; }

void memory_database::fail_over() {
  require(core_->saved.has_value(), "memory_database::fail_over without a save");
  core_->fail_over();
}

}  // namespace tickwheel::durable
