// Runs what is due, in passes.
//
// A pass follows a poll. Timers in the wheel's slots, posted calls and zero delays take turns in it, so that none starves
// another. Timers are judged as of a stamp that was taken before the poll: see verdict_stamp.hpp.
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/core/wheel_entry.hpp>
#include <tickwheel/uv/detail/armed_timers.hpp>
#include <tickwheel/uv/detail/handler_log.hpp>
#include <tickwheel/uv/detail/loop_load.hpp>
#include <tickwheel/uv/detail/post_delivery.hpp>
#include <tickwheel/uv/detail/verdict_stamp.hpp>
#include <tickwheel/uv/driver.hpp>
#include <tickwheel/uv/expiry_report.hpp>
#include <tickwheel/uv/service_options.hpp>
#include <tickwheel/uv/service_stats.hpp>
#include <tickwheel/uv/slow_handler.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tickwheel {
class binding_watch;
}

namespace tickwheel::detail {

/// The part of a service that its driver calls.
///
/// *Thread safety:* the loop thread. *Complexity:* O(1), except `pass`, which does at most `service_options::work_per_pass` visits.
/// *Lifetime:* may end in a `pass`.
class TICKWHEEL_API dispatcher final : public driver::client {
 public:
  /// Dispatches for `service`, which is only passed on to the timers of posted calls.
  explicit dispatcher(timer_service& service) noexcept : posts_{service, timers_, log_} {}
  dispatcher(const dispatcher&) = delete;
  dispatcher& operator=(const dispatcher&) = delete;

  /// Begins anew on the driver of the timers, which are open.
  void open(const service_options&) noexcept;

  armed_timers& timers() noexcept { return timers_; }
  const armed_timers& timers() const noexcept { return timers_; }
  post_delivery& posts() noexcept { return posts_; }
  const post_delivery& posts() const noexcept { return posts_; }
  handler_log& log() noexcept { return log_; }
  /// Returns the log, up to date. Reads the clock in a handler.
  const handler_log& settled_log() const noexcept {
    log_.settle();
    return log_;
  }

  /// The time as of which the running handler was judged, or else the last one.
  clock::time_point judged_at() const noexcept { return judged_at_.time; }
  /// As `judged_at`, on responsive time.
  clock::time_point responsive_judged_at() const noexcept { return judged_at_.responsive; }

  /// Reports name targets from now on; see `forwarding_timer`. Requires: the service is closed.
  void identify_by_target() noexcept {
    timers_.identify_by_target();
    posts_.identify_by_target();
  }
  /// Returns the handler of a timer, as reports name it.
  expiry_report::handler_id handler_of(timer&) const noexcept;

  /// Fills in what this counts.
  void count(service_stats&) const noexcept;

  // driver::client
  void on_resumed(clock::time_point left, clock::time_point entered) noexcept override;
  bool on_iteration(clock::time_point now) noexcept override;
  bool on_wakeup(clock::time_point now) noexcept override;
  bool due(clock::time_point now) const noexcept override;
  void on_pass_requested() noexcept override;
  bool one_poll_is_enough(clock::time_point now) const noexcept override;
  void pass(clock::time_point stamp) noexcept override;

 private:
  // The kinds of work that take turns in a pass.
  enum class turn_of : std::uint8_t { slots, posts, immediates };
  static constexpr unsigned turns = 3;
  static constexpr turn_of following(turn_of t) noexcept {
    return static_cast<turn_of>((static_cast<unsigned>(t) + 1) % turns);
  }

  bool take_activity() noexcept;
  void begin_verdicts(clock::time_point stamp, clock::time_point now) noexcept;
  bool has_work(turn_of) const noexcept;
  bool find_next_turn() noexcept;
  std::size_t run_turn(std::size_t visits, clock::time_point stamp, const binding_watch&) noexcept;
  void begin_handler(expiry_report::handler_id, clock::time_point due, std::chrono::nanoseconds rounding) noexcept;
  void end_handlers(clock::time_point now) noexcept;
  clock::time_point take_poll_end(clock::time_point polled, std::chrono::nanoseconds error) noexcept;
  bool due(tick present) const noexcept;
  bool posts_due() const noexcept;
  void count_stall(std::chrono::nanoseconds stall) noexcept;
  void trace_stall(std::chrono::nanoseconds stall) const noexcept;
  wheel::fire_hook fire_hook() const noexcept;
  template <bool forwards>
  TICKWHEEL_LOCAL static void on_fire(void* context, wheel_entry&, tick deadline) noexcept;
  static void on_traced_fire(void* context, wheel_entry&, tick deadline) noexcept;
  void trace_handlers(bool on) noexcept;

  armed_timers timers_;  // first, so that what every arm uses is at the service's beginning

  verdict_stamp verdict_;
  verdict_stamp::moment judged_at_{};
  bool judging_ = false;  // timers that are due as of the verdict may not have run yet
  turn_of next_turn_ = turn_of::slots;
  bool immediates_left_ = false;  // some were collected and have not run
  bool running_immediates_ = false;
  bool traces_handlers_ = false;  // somebody traces them, as the last pass has seen

  // Whether timers were armed, cancelled or asked for the time, for drivers that cannot tell whether input is left.
  bool active_before_turn_ = false;
  bool driver_tells_unread_ = false;
  std::uint64_t arms_seen_ = 0;
  std::uint64_t ended_seen_ = 0;

  std::size_t work_per_pass_ = 0;
  std::chrono::nanoseconds time_per_pass_{};
  bool handlers_are_short_ = false;  // as many as a stretch may have fit into a pass, as the last ones have shown
  std::chrono::nanoseconds stall_grace_{};

  post_delivery posts_;
  mutable handler_log log_;  // is brought up to date when it is asked for
  loop_load load_;
  slow_handler slowest_in_longest_{};

  std::uint64_t passes_ = 0;
  std::uint64_t carried_ = 0;
  std::uint64_t wakeups_ = 0;
  std::uint64_t stalls_ = 0;
  std::chrono::nanoseconds stalled_{};
};

}  // namespace tickwheel::detail
