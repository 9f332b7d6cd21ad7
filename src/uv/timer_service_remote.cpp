// What other threads posted, on its way from the inbox to its end.
#include "binding_watch.hpp"

#include <tickwheel/uv/detail/mailbox.hpp>
#include <tickwheel/uv/detail/remote_node.hpp>
#include <tickwheel/uv/remote.hpp>
#include <tickwheel/uv/timer.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <algorithm>
#include <new>

namespace tickwheel {

remote_handle timer_service::remote() const noexcept { return remote_handle{mailbox_}; }

remote_hold timer_service::hold() noexcept {
  if (!is_open()) return {};
  check_thread();
  remote_hold held{mailbox_};
  has_holds_ = true;
  update_hold();
  return held;
}

void timer_service::take_posted() noexcept {
  // Asked before taking: what was posted before the last release is then among what is taken.
  if (has_holds_) has_holds_ = mailbox_->has_holds();
  posted_.append(mailbox_->drain());
}

// Delivers up to `visits` of what was taken, and touches nothing any more once the binding has ended.
void timer_service::deliver(std::size_t visits, clock::time_point stamp, const binding_watch& binding) noexcept {
  for (; visits != 0; --visits) {
    detail::inbox_link* const link = posted_.pop();
    if (link == nullptr) break;
    if (link == batch_end_) batch_end_ = nullptr;
    if (posted_.front() != nullptr) __builtin_prefetch(detail::remote_node::of(*posted_.front()).waiting, 1);
    detail::remote_node& node = detail::remote_node::of(*link);
    if (node.delivered) {
      settle_notice(node);
      continue;
    }
    node.delivered = true;
    mailbox_->count_delivered();
    // one with a delay is a timer, and waits for input like any other
    if (node.due > (verdict_.waits_for_input() ? verdict_.judged().time : stamp)) {
      arm_remote(node);
    } else if (node.change_by_loop(detail::remote_state::queued, detail::remote_state::ran)) {
      // a time before the clock's epoch is one that has passed, too
      const bool at_once = node.due == clock::time_point::min();
      begin_handler(handler_of(node), at_once ? stamp : std::max(node.due, clock::time_point{}), {});
      run_remote(node);
      if (binding.ended()) return;
    } else {
      withdraw(node);
    }
  }
}

// Its link is free from here on, and a notice may come from another thread before this returns: the next pass reads it.
void timer_service::arm_remote(detail::remote_node& node) noexcept {
  if (!node.change_by_loop(detail::remote_state::queued, detail::remote_state::armed)) {
    withdraw(node);
    return;
  }
  ++remote_armed_;
  timer& wait = *::new (static_cast<void*>(node.waiting)) timer{*this, &fire_remote, timer::of_remote{}};
  wheel_->arm(wait.entry(), tick_of(node.due));
}

void timer_service::fire_remote(wheel_entry& entry) noexcept {
  timer& wait = timer::from(entry);
  timer_service& self = wait.service();
  detail::remote_node& node = detail::remote_node::of(wait);
  self.disarm_remote(node);
  if (node.change_by_loop(detail::remote_state::armed, detail::remote_state::ran)) {
    self.run_remote(node);
    return;
  }
  // Cancelled, and the notice is on its way, or about to be: the node, and our reference, is left to it.
  ++self.fired_in_vain_;
  ++self.stats_.remote_withdrawn;
  self.mailbox_->count_ended();
  node.abandon();
}

// Not armed any more, and out of the wheel: who holds the last reference, on whatever thread, has only memory to free.
void timer_service::disarm_remote(detail::remote_node& node) noexcept {
  --remote_armed_;
  timer& wait = node.wait();
  wheel_->cancel(wait.entry());
  wait.~timer();
}

void timer_service::settle_notice(detail::remote_node& node) noexcept {
  if (node.is_abandoned()) {
    node.release();
    return;
  }
  disarm_remote(node);
  withdraw(node);
}

// A node that was cancelled, and is in no wheel.
void timer_service::withdraw(detail::remote_node& node) noexcept {
  ++stats_.remote_withdrawn;
  mailbox_->count_ended();
  node.release();
}

// Only to tell it from others. By way of the type that compilers take for "any function".
expiry_report::handler_id timer_service::handler_of(const detail::remote_node& node) noexcept {
  return reinterpret_cast<expiry_report::handler_id>(reinterpret_cast<void (*)()>(node.run));
}

// The handler may close or destroy the service; the node is on its own by then, and freed when the handler, which is
// part of it, has returned.
void timer_service::run_remote(detail::remote_node& node) noexcept {
  ++stats_.remote_ran;
  mailbox_->count_ended();
  node.run(node.callable);
  node.release();
}

// Counts a node that has not run, wherever it was, and lets it go.
void timer_service::close_remote(detail::remote_node& node) noexcept {
  using detail::remote_state;
  if (node.delivered) {
    if (node.is_abandoned()) {
      node.release();  // counted before
      return;
    }
    disarm_remote(node);
  }
  const remote_state from = node.delivered ? remote_state::armed : remote_state::queued;
  if (node.change_by_loop(from, remote_state::closed))
    ++stats_.remote_cancelled;
  else
    ++stats_.remote_withdrawn;
  node.release();
}

}  // namespace tickwheel
