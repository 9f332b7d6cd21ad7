// Tells the operator of the problems of a store that does not do so itself.
#pragma once

#include <tickwheel/durable/scheduler.hpp>
#include <tickwheel/uv/timer.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace timer_server {

/// Looks at a scheduler once a second, and tells its problem when that changes. A store keeps its last problem, also once that is over. So
/// that requests fail without a new problem is told as well, at most once a minute. After either it tells once that the store is back: in
/// the first second in which the store has confirmed a write, and no request has failed.
///
/// *Thread safety:* the loop's thread only. *Lifetime:* `timers` and the scheduler outlive it. It does not keep the loop alive.
class store_watch {
 public:
  using tell_function = std::function<void(std::string_view problem)>;

  store_watch(tickwheel::timer_service& timers, const tickwheel::durable::scheduler& scheduler, tell_function tell)
      : timers_{timers}, scheduler_{scheduler}, tell_{std::move(tell)}, next_{timers, *this} {
    next_.unref();
  }

  /// Begins to look. Returns 0, or the UV_ code of the timer.
  int start() noexcept;

 private:
  void look() noexcept;

  tickwheel::timer_service& timers_;
  const tickwheel::durable::scheduler& scheduler_;
  tell_function tell_;
  tickwheel::member_timer<&store_watch::look> next_;
  std::string told_;  // the last problem
  std::optional<tickwheel::clock::time_point> told_at_;
  std::uint64_t unavailable_ = 0, confirmed_ = 0;  // requests that failed, and writes, at the last look
  bool is_away_ = false;                           // the last line was about a problem
};

}  // namespace timer_server
