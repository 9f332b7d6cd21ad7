// The end of a server whose tasks are durable: it waits for the work that runs, but not for ever.
#pragma once

#include <tickwheel/durable/scheduler.hpp>
#include <tickwheel/uv/timer.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <chrono>
#include <utility>

template <auto GiveBack, auto Over>
class scheduler_drain;

/// Drains a scheduler within a limit:
///
///   1. The scheduler starts nothing more, and waits until all executions have ended.
///   2. When the limit has passed, `GiveBack` of the owner ends those that still run with `retry_after(0s)`. That is no failure, and
///      does not count as an attempt. The owner ends starts that come later in the same way.
///   3. The store gets two seconds to confirm that.
///
/// Then it calls `Over` of the owner, which closes the scheduler. Ends that the store has not confirmed by then count as lost, as after
/// a crash. Each of the two is called once, `GiveBack` first, also if nothing runs.
///
/// Without a running execution only the handover to other nodes is left. A store that is lost takes none, and is waited for no longer
/// than two seconds.
///
/// *Thread safety:* the loop's thread only. *Lifetime:* the service, the scheduler and the owner outlive it.
template <class Owner, void (Owner::*GiveBack)() noexcept, void (Owner::*Over)() noexcept>
class scheduler_drain<GiveBack, Over> {
 public:
  static constexpr std::chrono::seconds longest_wait_for_store{2};

  scheduler_drain(tickwheel::timer_service& timers, tickwheel::durable::scheduler& scheduler, Owner& owner) noexcept
      : scheduler_{scheduler}, owner_{owner}, limit_{timers, *this}, look_{timers, *this} {}

  /// Begins. `has_joined`: the scheduler has joined its store. Before that it has started nothing, and `Over` is called within this
  /// call. So it is if the scheduler cannot drain.
  void start(std::chrono::nanoseconds limit, bool has_joined) noexcept {
    if (scheduler_.drain([this]() noexcept { end(); }) != 0 || !has_joined) return end();
    if (limit_.arm(limit) != 0 || look_.arm(longest_wait_for_store) != 0) end();
  }

  /// Does not wait for the limit any longer. Idempotent. Requires: it was started.
  void give_back() noexcept {
    if (std::exchange(is_given_back_, true)) return;
    limit_.cancel();
    (owner_.*GiveBack)();
    if (look_.arm(longest_wait_for_store) != 0) end();
  }

 private:
  void look() noexcept {
    if (is_given_back_ || scheduler_.stats().running == 0 || look_.arm(longest_wait_for_store) != 0) end();
  }

  void end() noexcept {
    if (std::exchange(is_over_, true)) return;
    if (!std::exchange(is_given_back_, true)) (owner_.*GiveBack)();
    limit_.cancel();
    look_.cancel();
    (owner_.*Over)();
  }

  tickwheel::durable::scheduler& scheduler_;
  Owner& owner_;
  tickwheel::member_timer<&scheduler_drain::give_back> limit_;
  tickwheel::member_timer<&scheduler_drain::look> look_;
  bool is_given_back_ = false, is_over_ = false;
};
