// What other threads posted to a service, on its way from the post_queue to its end.
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/core/wheel_entry.hpp>
#include <tickwheel/uv/detail/armed_timers.hpp>
#include <tickwheel/uv/detail/handler_log.hpp>
#include <tickwheel/uv/detail/inbox.hpp>
#include <tickwheel/uv/driver.hpp>
#include <tickwheel/uv/expiry_report.hpp>
#include <tickwheel/uv/service_stats.hpp>

#include <cstddef>
#include <cstdint>

namespace tickwheel {
class binding_watch;
class timer;
class timer_service;
}  // namespace tickwheel

namespace tickwheel::detail {

/// Posts are taken from the post_queue in batches and delivered in the order of posting. A call that is due runs at once. One with a
/// delay becomes a timer of the service.
///
/// *Thread safety:* the loop thread. *Complexity:* O(1), except `deliver`, which is O(visits), and `close`.
class TICKWHEEL_API post_delivery {
 public:
  /// Runs calls for `service`, whose timers are `timers`, and records each in `log`. Reads none of them yet.
  post_delivery(timer_service& service, armed_timers& timers, handler_log& log) noexcept
      : service_{service}, timers_{timers}, log_{log} {}
  ~post_delivery();
  post_delivery(const post_delivery&) = delete;
  post_delivery& operator=(const post_delivery&) = delete;

  /// Delivers what is posted to `from` from now on. Takes over a reference to it, and gives up the one to the post_queue before.
  /// Requires: nothing is left to be delivered.
  void open(post_queue& from) noexcept;

  /// Ends everything that has not run, wherever it is: the queue accepts nothing from here on. Requires: the wheel is
  /// still there. `forget` is to be called for what is in the wheel.
  void close() noexcept;
  /// Ends `t`, which is no longer linked to the wheel, if it is another thread's.
  void forget(timer& t) noexcept;

  /// The post_queue; null before the first `open`. It stays, closed, until the next one, so that handles may be made while it closes.
  post_queue* queue() const noexcept { return queue_; }

  /// Takes what was posted so far.
  void take() noexcept;
  /// From now on `batch_is_left` tells of what was taken so far.
  void begin_batch() noexcept { batch_end_ = taken_.back(); }
  /// Returns true if some of the batch was not delivered yet.
  bool batch_is_left() const noexcept { return batch_end_ != nullptr; }
  /// Returns true if something was taken and not delivered yet.
  bool any_left() const noexcept { return !taken_.empty(); }
  /// Returns true if the loop is needed for what was taken, or for holds.
  bool needs_loop() const noexcept { return has_holds_ || any_left(); }

  /// Delivers up to `visits`. What is due at `as_of` runs at once, and is reported as due no earlier than `stamp`. Touches nothing
  /// any more once the binding has ended.
  void deliver(std::size_t visits, clock::time_point as_of, clock::time_point stamp,
               const binding_watch& binding) noexcept;

  /// A hold was made.
  void expect_holds() noexcept { has_holds_ = true; }
  bool may_have_holds() const noexcept { return has_holds_; }

  /// Returns the number of armed timers that are other threads'.
  std::size_t armed() const noexcept { return armed_; }

  /// Returns true if `t` is another thread's.
  static bool owns(const timer& t) noexcept;
  /// Tells the handler of `t`, which is another thread's, from others.
  static expiry_report::handler_id handler_of(timer& t) noexcept;
  /// Returns when `t`, which is another thread's, was asked to run.
  static clock::time_point due_of(timer& t) noexcept;

  /// Fills in what this counts. `stats.cancelled` and `stats.fired` are those of the wheel.
  void count(service_stats& stats) const noexcept;

 private:
  void settle_notice(posted_operation&) noexcept;
  void withdraw(posted_operation&) noexcept;
  void arm(posted_operation&) noexcept;
  static void fire(wheel_entry&) noexcept;
  void disarm(posted_operation&) noexcept;
  void run(posted_operation&) noexcept;
  void end(posted_operation&) noexcept;

  timer_service& service_;
  armed_timers& timers_;
  handler_log& log_;

  post_queue* queue_ = nullptr;
  inbox_chain taken_;
  const inbox_link* batch_end_ = nullptr;
  bool has_holds_ = false;  // some remote_hold may be left
  std::size_t armed_ = 0;
  std::uint64_t expired_but_cancelled_ = 0;  // entries that the wheel fired when they had just been cancelled
  std::uint64_t ran_ = 0;
  std::uint64_t withdrawn_ = 0;
  std::uint64_t cancelled_ = 0;
};

}  // namespace tickwheel::detail
