// Takes the operations of other threads from the post queue, and runs, arms or ends them.
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

/// Operations that `close` has ended, and whose callables it has not destroyed yet. Their destructors may do anything, also
/// destroy the service, so they run last, when `close` touches the service no more.
///
/// *Thread safety:* the loop thread. *Complexity:* O(1), except the destructor.
class TICKWHEEL_API ended_operations {
 public:
  ended_operations() noexcept = default;
  /// Destroys the callables in the order of `add`, and drops the loop's references.
  ~ended_operations();
  ended_operations(const ended_operations&) = delete;
  ended_operations& operator=(const ended_operations&) = delete;

  /// Takes over the loop's reference. Requires: `ended` has left the wheel, and the inbox.
  void add(posted_operation& ended) noexcept;

 private:
  posted_operation* front_ = nullptr;
  posted_operation* back_ = nullptr;
};

/// Operations are taken from the post queue in batches and delivered in the order of posting. A callable that is due runs at
/// once. A delayed one becomes a timer of the service.
///
/// *Thread safety:* the loop thread. *Complexity:* O(1), except `deliver`, which is O(visits), and `close`.
class TICKWHEEL_API post_delivery {
 public:
  /// Runs calls for `service`, whose timers are `timers`, and records each in `log`. Uses none of them yet.
  post_delivery(timer_service& service, armed_timers& timers, handler_log& log) noexcept;
  ~post_delivery();
  post_delivery(const post_delivery&) = delete;
  post_delivery& operator=(const post_delivery&) = delete;

  /// From now on delivers from `from`. Takes over a reference to it, and drops the one to the former queue. Requires: nothing is
  /// left to be delivered.
  void open(post_queue& from) noexcept;

  /// Closes the post queue, and ends all operations that have not run and are not armed. Callables that own something are left to
  /// `ended`. The caller then calls `forget` for each armed timer. Requires: there is still a wheel.
  void close(ended_operations& ended) noexcept;
  /// Ends `t` if it belongs to another thread's operation. Requires: `t` is not linked to the wheel.
  void forget(timer& t, ended_operations& ended) noexcept;

  /// Returns the post queue, or null before the first `open`. A closed queue stays until the next `open`, so that handles can
  /// be made while the service closes.
  post_queue* queue() const noexcept { return queue_; }

  /// Takes all operations that were posted so far.
  void take() noexcept;
  /// The operations taken so far are the batch of which `batch_is_left` tells.
  void begin_batch() noexcept { batch_end_ = taken_.back(); }
  /// Returns true if some of the batch was not delivered yet.
  bool batch_is_left() const noexcept { return batch_end_ != nullptr; }
  /// Returns true if something was taken and not delivered yet.
  bool any_left() const noexcept { return !taken_.empty(); }
  /// Returns true if the loop is needed for what was taken, or for holds.
  bool needs_loop() const noexcept { return has_holds_ || any_left(); }

  /// Delivers up to `visits` operations, and returns how many it has delivered. An operation that is due at `as_of` runs at once,
  /// and is reported as due no earlier than `stamp`. Stops when it is time to look at the clock. Touches nothing once the binding
  /// has ended.
  std::size_t deliver(std::size_t visits, clock::time_point as_of, clock::time_point stamp,
                      const binding_watch& binding) noexcept;

  /// A hold was made.
  void expect_holds() noexcept { has_holds_ = true; }
  bool may_have_holds() const noexcept { return has_holds_; }

  /// Returns the number of armed timers of other threads.
  std::size_t armed() const noexcept { return armed_; }

  /// Returns true if `t` is another thread's.
  static bool owns(const timer& t) noexcept;
  /// Returns a value that tells the callable's type from other handlers. Requires: `t` is another thread's.
  static expiry_report::handler_id handler_of(timer& t) noexcept;
  /// Returns the function that the callable calls. Requires: `t` is another thread's, and the callable begins with its address.
  static expiry_report::handler_id target_of(timer& t) noexcept;
  /// Callables begin with the addresses of the functions that they call, and reports name these.
  void identify_by_target() noexcept;
  /// Returns the time at which `t` was asked to run. Requires: `t` is another thread's.
  static clock::time_point due_of(timer& t) noexcept;

  /// Writes the counts of other threads' operations to `stats`. Requires: `stats.cancelled` and `stats.fired` are the wheel's.
  void count(service_stats& stats) const noexcept;

 private:
  bool deliver(posted_operation&, clock::time_point as_of, clock::time_point stamp, std::size_t handler_at) noexcept;
  bool settle_notice(posted_operation&) noexcept;
  bool withdraw(posted_operation&) noexcept;
  void arm(posted_operation&) noexcept;
  static void fire(wheel_entry&) noexcept;
  void abandon(posted_operation&) noexcept;
  void disarm(posted_operation&) noexcept;
  void run(posted_operation&) noexcept;
  void end(posted_operation&, ended_operations&) noexcept;

  timer_service& service_;
  armed_timers& timers_;
  handler_log& log_;

  post_queue* queue_ = nullptr;
  inbox_chain taken_;
  const inbox_link* batch_end_ = nullptr;
  std::size_t handler_at_;  // the place in an operation of what identifies its handler
  bool has_holds_ = false;  // a remote_hold may be left
  std::size_t armed_ = 0;
  std::uint64_t expired_but_cancelled_ = 0;  // timers that the wheel fired although they had been cancelled
  std::uint64_t ran_ = 0;
  std::uint64_t withdrawn_ = 0;
  std::uint64_t cancelled_ = 0;
};

}  // namespace tickwheel::detail
