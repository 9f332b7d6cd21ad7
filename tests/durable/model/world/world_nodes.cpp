// Schedulers open, close and drain.
#include "world.hpp"

#include <uv.h>

#include <algorithm>
#include <utility>

namespace durable_model {

void world::open(node& n) {
  if (n.scheduler == nullptr) {
    n.scheduler = std::make_unique<durable::scheduler>(timers_, database_->make_store(), n.options);
    n.started = n.scheduled = n.unavailable = 0;
    n.is_paused = false;
    const int index = static_cast<int>(&n - nodes_.data());
    if (n.starts)
      n.scheduler->on_due([this, index](durable::execution run) noexcept { on_start(index, std::move(run)); });
  }
  n.member = static_cast<int>(facts_.members.size());
  facts_.members.push_back({true, n.starts, -1});
  n.has_joined = n.is_draining = n.is_drained = n.is_crashed = n.is_closing = false;
  note("%s opens as member %d", n.name.c_str(), n.member);
  is_asking_ = true;
  const int error = n.scheduler->open([this, &n, opened = n.member](int result) noexcept {
    refresh();
    note("%s ready %d", n.name.c_str(), result);
    if (is_asking_) fail("ready was called within open");
    if (result == 0) {
      if (opened != n.member || n.has_joined) fail("ready was called twice, or too late");
      n.has_joined = true;
      return;
    }
    if (result != UV_ECANCELED || n.has_joined || !n.is_closing) fail("ready got %d", result);
  });
  is_asking_ = false;
  if (error != 0) fail("open answered %d", error);
}

void world::close(node& n, bool destroys) {
  if (n.scheduler == nullptr || n.is_closing) return;
  note("%s %s", n.name.c_str(), destroys ? "is destroyed" : "closes");
  const int member = n.member;
  if (member >= 0) facts_.members[static_cast<std::size_t>(member)].gone_at = never;
  n.is_closing = true;
  n.last_answered = 0;
  if (destroys) {
    const auto last = std::move(n.scheduler);
    if (member >= 0) last->close();
  } else {
    n.scheduler->close();
    if (n.scheduler->stats().requests != 0) fail("a closed scheduler has open requests");
  }
  n.is_closing = false;
  n.member = -1;
  n.closes_next = false;
  if (member < 0) return;
  for (const auto& [number, r] : open_)
    if (r.member == member && r.is_counted) fail("request %d was not answered when %s closed", number, n.name.c_str());
  std::erase_if(open_, [=](const auto& each) { return each.second.member == member; });
  n.requests = n.bytes = 0;
  closed_.push_back(member);
}

// In a callable the search for what may have happened would run in the middle of an answer.
void world::settle_closed() {
  for (const int m : std::exchange(closed_, {})) {
    for (task_model& model : models_) model.on_close(m);
    facts_.members[static_cast<std::size_t>(m)].is_open = false;
  }
}

void world::drain(node& n) {
  if (n.member < 0) return;
  const int expected = n.is_draining ? UV_EALREADY : 0;
  note("%s drains", n.name.c_str());
  const int error = n.scheduler->drain([this, &n, drained = n.member]() noexcept {
    refresh();
    note("%s drained", n.name.c_str());
    if (n.member != drained || n.is_drained) fail("drained was called twice, or too late");
    n.is_drained = true;
    if (std::any_of(held_.begin(), held_.end(), [=](const held& h) { return h.member == drained; }))
      fail("%s drained while an execution is held", n.name.c_str());
  });
  if (error != expected) fail("drain answered %d", error);
  n.is_draining = true;
}

// A callable may do anything.
void world::in_callable(node& n) {
  if (is_ending_ || n.member < 0 || n.is_closing) return;
  if (std::exchange(n.closes_next, false)) return close(n, decide_.one_in(2));
  if (open_.size() <= most_behind && decide_.one_in(4)) block();
  if (decide_.one_in(40)) {
    const int id = any_id();
    decide_.one_in(2) ? cancel(n, id) : get(n, id);
  }
}

// A slow callable: the turn ends in the middle of a batch.
void world::block() {
  has_blocked_ = facts_.is_behind = true;
  time_.block(duration(decide_.pick<nanos>({100 * us, 299 * us, 300 * us, ms})));
  database_->follow_clock();
  refresh();
}

}  // namespace durable_model
