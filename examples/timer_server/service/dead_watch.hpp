// Tells the operator that more timers are dead. A timer whose last call was cut by a crash is found dead by the store, so nobody else tells.
#pragma once

#include <tickwheel/durable/scheduler.hpp>
#include <tickwheel/uv/timer.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <cstdint>
#include <functional>
#include <utility>

namespace timer_server {

/// Looks once a second at the number of dead timers, and tells it when it has grown. The scheduler knows it as of its last renewal. At
/// the start it tells of timers that are dead already.
///
/// *Thread safety:* the loop's thread only. *Lifetime:* `timers` and the scheduler outlive it. It does not keep the loop alive.
class dead_watch {
 public:
  /// Takes the number of all dead timers in the store.
  using tell_function = std::function<void(std::uint64_t dead)>;

  dead_watch(tickwheel::timer_service& timers, const tickwheel::durable::scheduler& scheduler, tell_function tell)
      : scheduler_{scheduler}, tell_{std::move(tell)}, next_{timers, *this} {
    next_.unref();
  }

  /// Begins to look. Returns 0, or the UV_ code of the timer.
  int start() noexcept;

 private:
  void look() noexcept;

  const tickwheel::durable::scheduler& scheduler_;
  tell_function tell_;
  tickwheel::interval_timer<&dead_watch::look> next_;
  std::uint64_t dead_ = 0;  // at the last look
};

}  // namespace timer_server
