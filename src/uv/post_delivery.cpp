#include <tickwheel/uv/detail/post_delivery.hpp>

#include "binding_watch.hpp"

#include <tickwheel/uv/detail/post_queue.hpp>
#include <tickwheel/uv/detail/posted_operation.hpp>
#include <tickwheel/uv/timer.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <algorithm>
#include <new>

namespace tickwheel::detail {

namespace {

// Only to tell it from others. By way of the type that compilers take for "any function".
expiry_report::handler_id handler_of(const posted_operation& node) noexcept {
  return reinterpret_cast<expiry_report::handler_id>(reinterpret_cast<void (*)()>(node.run));
}

}  // namespace

bool post_delivery::owns(const timer& t) noexcept { return t.is_remote(); }

expiry_report::handler_id post_delivery::handler_of(timer& t) noexcept {
  return detail::handler_of(posted_operation::of(t));
}

clock::time_point post_delivery::due_of(timer& t) noexcept { return posted_operation::of(t).due; }

post_delivery::~post_delivery() {
  if (queue_ != nullptr) queue_->release();
}

void post_delivery::open(post_queue& from) noexcept {
  if (queue_ != nullptr) queue_->release();
  queue_ = &from;
  batch_end_ = nullptr;
  has_holds_ = false;
  expired_but_cancelled_ = ran_ = withdrawn_ = cancelled_ = 0;
}

// First what waits and the notices, so that what is in the wheel then is there and nowhere else.
void post_delivery::close() noexcept {
  taken_.append(queue_->close());
  while (inbox_link* link = taken_.pop()) end(posted_operation::of(*link));
}

void post_delivery::forget(timer& t) noexcept {
  if (owns(t)) end(posted_operation::of(t));
}

void post_delivery::count(service_stats& stats) const noexcept {
  stats.fired -= expired_but_cancelled_;
  stats.cancelled += expired_but_cancelled_;
  stats.remote_accepted = queue_->accepted();
  stats.remote_refused = queue_->refused();
  stats.remote_ran = ran_;
  stats.remote_withdrawn = withdrawn_;
  stats.remote_cancelled = cancelled_;
}

void post_delivery::take() noexcept {
  // Asked before taking: what was posted before the last release is then among what is taken.
  if (has_holds_) has_holds_ = queue_->has_holds();
  taken_.append(queue_->take_all());
}

void post_delivery::deliver(std::size_t visits, clock::time_point as_of, clock::time_point stamp,
                            const binding_watch& binding) noexcept {
  for (; visits != 0; --visits) {
    inbox_link* const link = taken_.pop();
    if (link == nullptr) break;
    if (link == batch_end_) batch_end_ = nullptr;
    if (taken_.front() != nullptr) __builtin_prefetch(posted_operation::of(*taken_.front()).waiting, 1);
    posted_operation& node = posted_operation::of(*link);
    if (node.delivered) {
      settle_notice(node);
      continue;
    }
    node.delivered = true;
    queue_->count_delivered();
    // one with a delay is a timer, and waits for input like any other
    if (node.due > as_of) {
      arm(node);
    } else if (node.change_by_loop(operation_state::queued, operation_state::ran)) {
      // a time before the clock's epoch is one that has passed, too
      const bool at_once = node.due == clock::time_point::min();
      log_.begin(detail::handler_of(node), at_once ? stamp : std::max(node.due, clock::time_point{}), {},
                 timers_.source().now());
      run(node);
      if (binding.ended()) return;
    } else {
      withdraw(node);
    }
  }
}

// Its link is free from here on, and a notice may come from another thread before this returns: the next pass reads it.
void post_delivery::arm(posted_operation& node) noexcept {
  if (!node.change_by_loop(operation_state::queued, operation_state::armed)) {
    withdraw(node);
    return;
  }
  ++armed_;
  timer& wait = *::new (static_cast<void*>(node.waiting)) timer{service_, &fire, timer::of_remote{}};
  timers_.entries().arm(wait.entry(), timers_.ticks().ceil(node.due));
}

void post_delivery::fire(wheel_entry& entry) noexcept {
  timer& wait = timer::from(entry);
  post_delivery& self = wait.service().dispatcher_.posts();
  posted_operation& node = posted_operation::of(wait);
  self.disarm(node);
  if (node.change_by_loop(operation_state::armed, operation_state::ran)) {
    self.run(node);
    return;
  }
  // Cancelled, and the notice is on its way, or about to be: the node, and our reference, is left to it.
  ++self.expired_but_cancelled_;
  ++self.withdrawn_;
  self.queue_->count_ended();
  node.abandon();
}

// Not armed any more, and out of the wheel: who holds the last reference, on whatever thread, has only memory to free.
void post_delivery::disarm(posted_operation& node) noexcept {
  --armed_;
  timer& wait = node.wait();
  timers_.entries().cancel(wait.entry());
  wait.~timer();
}

void post_delivery::settle_notice(posted_operation& node) noexcept {
  if (node.is_abandoned()) {
    node.release();
    return;
  }
  disarm(node);
  withdraw(node);
}

// A node that was cancelled, and is in no wheel.
void post_delivery::withdraw(posted_operation& node) noexcept {
  ++withdrawn_;
  queue_->count_ended();
  node.release();
}

// The handler may close or destroy the service; the node is on its own by then, and freed when the handler, which is
// part of it, has returned.
void post_delivery::run(posted_operation& node) noexcept {
  ++ran_;
  queue_->count_ended();
  node.run(node.callable);
  node.release();
}

// Counts a node that has not run, wherever it was, and lets it go.
void post_delivery::end(posted_operation& node) noexcept {
  if (node.delivered) {
    if (node.is_abandoned()) {
      node.release();  // counted before
      return;
    }
    disarm(node);
  }
  const operation_state from = node.delivered ? operation_state::armed : operation_state::queued;
  if (node.change_by_loop(from, operation_state::closed))
    ++cancelled_;
  else
    ++withdrawn_;
  node.release();
}

}  // namespace tickwheel::detail
