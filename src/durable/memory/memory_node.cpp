#include "memory_node.hpp"

#include <tickwheel/core/detail/check.hpp>

#include <uv.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

namespace tickwheel::durable::detail {

using tickwheel::detail::require;

namespace {

// Verbs of one group take effect in the order of their calls.
enum class group : std::uint8_t { starts, requests, none };

constexpr group group_of(store_verb v) {
  switch (v) {
    case store_verb::begin:
    case store_verb::finish:
    case store_verb::release:
      return group::starts;
    case store_verb::put:
    case store_verb::cancel:
    case store_verb::revive:
    case store_verb::get:
    case store_verb::list:
      return group::requests;
    default:
      return group::none;
  }
}

constexpr bool share_order(store_verb a, store_verb b) {
  return a == b || (group_of(a) != group::none && group_of(a) == group_of(b));
}

constexpr bool is_read(store_verb v) { return v == store_verb::load || v == store_verb::get || v == store_verb::list; }

}  // namespace

int memory_node::open(timer_service& timers) noexcept {
  require(timers_ == nullptr, "a memory_store is opened twice");
  timer_.emplace(timers, *this);
  if (const int error = timer_->open(); error != 0) {
    timer_.reset();
    return error;
  }
  timers_ = &timers;
  has_joined_ = has_crashed_ = false;
  core_.add(*this);
  return 0;
}

void memory_node::close() noexcept {
  if (timers_ == nullptr) return;
  require(!is_answering_, "a memory_store is closed within on_answer");
  core_.remove(*this);
  timer_.reset();
  timers_ = nullptr;
  while (!calls_.empty()) {
    open_call& first = calls_.front();
    first.call->status = first.has_effect || has_crashed_ ? store_status::unknown : store_status::unavailable;
    answer(calls_.begin());
  }
}

memory_node::steady memory_node::read_clock() noexcept {
  if (timers_->is_open()) last_reading_ = timers_->read_clock();
  return last_reading_;
}

void memory_node::join(join_call& c) noexcept {
  name_ = c.name;
  add(store_verb::join, c);
}

void memory_node::add(store_verb verb, store_call& c) noexcept {
  require(timers_ != nullptr, "a verb of a memory_store is called while it is closed");
  const auto is_same = [&](const open_call& o) { return o.call == &c; };
  require(std::none_of(calls_.begin(), calls_.end(), is_same),
          "a memory_store is given a call that it has not answered");
  const steady now = read_clock();
  const std::size_t v = memory_core::index_of(verb);
  const std::optional<memory_fault> fault = core_.count(verb, c);
  calls_.push_back({&c, verb, next_number_++, now + core_.carry_delay[v],
                    now + std::max(core_.carry_delay[v], core_.answer_delay[v]), fault});
  if (!is_answering_) arm();
}

std::size_t memory_node::open_calls(store_verb verb) const {
  return static_cast<std::size_t>(
      std::count_if(calls_.begin(), calls_.end(), [=](const open_call& c) { return c.verb == verb; }));
}

// The first in time of all calls below a number. A call waits for those before it: to be carried out, and to be answered.
std::optional<memory_node::step> memory_node::next_step(std::uint64_t below) noexcept {
  std::optional<step> first;
  if (has_crashed_) return first;
  std::array<bool, store_verbs> must_wait_to_carry{}, must_wait_to_answer{};
  for (auto c = calls_.begin(); c != calls_.end() && c->number < below; ++c) {
    const std::size_t v = memory_core::index_of(c->verb);
    const bool can_step = c->is_carried ? !must_wait_to_answer[v] && !c->is_lost : !must_wait_to_carry[v];
    const steady at = c->is_carried ? c->answer_at : c->carry_at;
    if (can_step && (!first || at < first->at)) first = step{c, at};
    must_wait_to_answer[v] = true;
    for (std::size_t other = 0; other < store_verbs && !c->is_carried; ++other)
      if (share_order(c->verb, static_cast<store_verb>(other))) must_wait_to_carry[other] = true;
  }
  return first;
}

void memory_node::on_timer() noexcept {
  const std::uint64_t newer = next_number_;  // calls of `on_answer` wait for the next pass
  const steady now = read_clock();
  is_answering_ = true;
  while (const std::optional<step> next = next_step(newer)) {
    if (next->at > now) break;
    if (next->of->is_carried)
      answer(next->of);
    else
      carry_out(*next->of);
  }
  is_answering_ = false;
  arm();
}

void memory_node::arm() noexcept {
  if (const std::optional<step> next = next_step(next_number_))
    timer_->set_at_latest(
        std::max<std::chrono::nanoseconds>(next->at - read_clock(), std::chrono::nanoseconds::zero()));
  else
    timer_->unset();
}

void memory_node::carry_out(open_call& c) {
  c.is_carried = true;
  c.call->status = store_status::ok;
  const std::optional<memory_fault> fault = c.fault;
  if (core_.is_out(*this) || fault == memory_fault::unavailable || (!has_joined_ && c.verb != store_verb::join)) {
    c.call->status = store_status::unavailable;
    problem_ = core_.is_out(*this) ? "memory_database: outage"
               : fault             ? "memory_database: fail_next"
                                   : "memory_database: not joined";
    return;
  }
  c.is_lost = fault == memory_fault::lost_done || fault == memory_fault::lost_not_done;
  if (fault) {
    c.call->status = store_status::unknown;
    problem_ = "memory_database: fail_next";
  }
  if (fault == memory_fault::unknown_not_done || fault == memory_fault::lost_not_done) return;
  core_.carry_out(*this, c.verb, *c.call);
  c.has_effect = !is_read(c.verb);
  if (c.verb == store_verb::join && static_cast<const join_call&>(*c.call).error == 0) has_joined_ = true;
}

void memory_node::answer(open_calls_list::iterator c) noexcept {
  store_call& answered = *c->call;
  core_.confirm(answered);
  calls_.erase(c);
  answered.on_answer(answered);
}

void memory_node::lose_connection() {
  for (open_call& c : calls_)
    if (c.is_carried && !c.is_lost && c.call->status == store_status::ok)
      c.call->status = c.has_effect ? store_status::unknown : store_status::unavailable;
}

void memory_node::fail_over() {
  lose_connection();
  for (open_call& c : calls_)
    if (!c.is_carried) c.fault = memory_fault::unavailable;
}

void memory_node::answer_lost() {
  for (open_call& c : calls_) c.is_lost = false;
  if (timers_ != nullptr && !is_answering_) arm();
}

}  // namespace tickwheel::durable::detail

namespace tickwheel::durable {

std::unique_ptr<store> memory_store(std::shared_ptr<memory_database> database) {
  if (database == nullptr) database = std::make_shared<memory_database>(std::uint16_t{1}, clock::now());
  return std::make_unique<detail::memory_node>(std::move(database));
}

}  // namespace tickwheel::durable
