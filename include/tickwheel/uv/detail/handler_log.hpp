// The handlers that a service has run: how long each took, which were slow, and why the last one was late.
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/core/detail/check.hpp>
#include <tickwheel/core/log_histogram.hpp>
#include <tickwheel/uv/detail/handler_clock.hpp>
#include <tickwheel/uv/detail/lateness_account.hpp>
#include <tickwheel/uv/driver.hpp>
#include <tickwheel/uv/handler_stats.hpp>
#include <tickwheel/uv/slow_handler.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tickwheel {
class binding_watch;
}

namespace tickwheel::detail {

/// Records the handlers of a service, which run in stretches: `begin_stretch`, then `begin` for each, then `end_stretch`. When a
/// handler begins is kept as a count, and is known as a time once the stretch has ended, or is settled.
///
/// *Thread safety:* the loop thread. *Complexity:* O(1), except `tell_slow`, and `end_stretch` and `settle`, which are O(handlers of
/// the stretch). Only `begin`, `end` and `settle` may read the clock. *Lifetime:* the driver lives as long as stretches begin.
class TICKWHEEL_API handler_log {
 public:
  using handler_id = expiry_report::handler_id;

  /// At most this many handlers may begin or end in a stretch, or end before `tell_slow` is called.
  static constexpr std::size_t capacity = 32;

  /// Forgets all handlers, but not the hook. Times are those of `on`. A handler that takes `slow` or longer counts as slow.
  void restart(driver& on, std::chrono::nanoseconds slow) noexcept {
    clock_.open(on);
    slow_ = slow;
    handlers_ = nullptr;
    looked_at_from_ = slow;
    lateness_ = lateness_account{slow};
    times_ = {};
    slow_handlers_ = 0;
    in_stretch_ = false;
    must_look_ = false;
    unsettled_count_ = 0;
    untold_count_ = 0;
  }

  /// From now on counts slow handlers in `table`, or all handlers.
  void count_in(handler_table& table, bool all) noexcept {
    handlers_ = &table;
    looked_at_from_ = all ? std::chrono::nanoseconds::min() : slow_;
    counts_all_ = all;
  }

  /// Sets the hook: `tell_slow` calls `hook(context, slow)` from now on. Null means no hook.
  void on_slow(slow_handler_hook hook, void* context) noexcept {
    hook_ = hook;
    context_ = context;
  }

  /// Handlers run from `now` on, the true time, until `must_look_at_clock`: once `handlers` have begun, or one has begun after
  /// about `time`. Requires: no stretch is under way (checked), and `handlers` is in 1..`capacity`.
  void begin_stretch(clock::time_point now, std::size_t handlers, std::chrono::nanoseconds time) noexcept {
    require(!in_stretch_, "timer_service: a handler ran the loop; uv_run must not be called from a callback");
    in_stretch_ = true;
    must_look_ = false;
    handlers_left_ = handlers;
    clock_.begin(now);
    look_at_ = clock_.moment_after(time);
  }

  /// Returns true if the stretch should end after the handler that has begun last.
  bool must_look_at_clock() const noexcept { return must_look_; }
  /// Returns how many more handlers may begin in this stretch.
  std::size_t handlers_left() const noexcept { return handlers_left_; }

  /// A handler is called, and the one before it, if any, has returned. The parameters are those of
  /// `lateness_account::begin_handler`.
  void begin(handler_id which, clock::time_point due, std::chrono::nanoseconds rounding) noexcept {
    keep(which, due, rounding, true);
  }

  /// The handler that has begun last is known as `which` from now on.
  void rename(handler_id which) noexcept {
    if (unsettled_count_ != 0)
      unsettled_[unsettled_count_ - 1].which = which;
    else
      lateness_.rename(which);
  }

  /// The handler that has begun last is not called after all, and something else runs. The handler before it has returned.
  void take_back() noexcept;

  /// The handler that ran, if any, has returned, and something else runs, which may take as long as a handler.
  void end() noexcept;

  /// The stretch ends at `now`, the true time. The handler that ran, if any, has returned.
  void end_stretch(clock::time_point now) noexcept {
    if (unsettled_count_ != 0 || lateness_.handler_runs()) record_stretch(now);
    in_stretch_ = false;
  }

  /// Brings the account and the counts up to date in the middle of a stretch. Does nothing if they are.
  void settle() noexcept;

  /// Returns true if there is a slow handler that the hook was not told of.
  bool has_untold() const noexcept { return untold_count_ != 0; }

  /// Calls the hook for each slow handler that it was not told of. Stops as soon as the binding has ended, and then touches
  /// nothing. Must not be called within the wheel's `advance`, because the hook may do everything that a handler may.
  void tell_slow(const binding_watch& binding) noexcept;

  /// Returns the account of the time between a deadline and its handler. Up to date after `settle` or `end_stretch`.
  lateness_account& lateness() noexcept { return lateness_; }
  const lateness_account& lateness() const noexcept { return lateness_; }

  /// Returns the histogram of handler times, in nanoseconds.
  const log_histogram& times() const noexcept { return times_; }

  /// Returns the number of slow handlers.
  std::uint64_t slow_handlers() const noexcept { return slow_handlers_; }

 private:
  static constexpr const char* too_many = "handler_log: more handlers ran than a stretch may have";

  // A moment at which a handler began, or at which the one before only ended.
  struct moment {
    handler_clock::count at;
    handler_id which;
    clock::time_point due;
    std::chrono::nanoseconds rounding;
    bool begins;
  };

  // Each field is written where it stays. A moment that is made elsewhere and copied in wider pieces waits in the processor until
  // all stores before it are done, and those of the wheel often miss the cache.
  void keep(handler_id which, clock::time_point due, std::chrono::nanoseconds rounding, bool begins) noexcept {
    require(unsettled_count_ < capacity, too_many);
    moment& m = unsettled_[unsettled_count_++];
    m.at = clock_.now();
    m.which = which;
    m.due = due;
    m.rounding = rounding;
    m.begins = begins;
    must_look_ = --handlers_left_ == 0 || static_cast<std::uint64_t>(m.at) >= look_at_;
  }
  void record_stretch(clock::time_point now) noexcept;
  void record_unsettled() noexcept;
  void end_handler(clock::time_point now) noexcept;
  [[gnu::cold]] void look_at(std::chrono::nanoseconds took) noexcept;

  handler_clock clock_;
  bool in_stretch_ = false;
  bool must_look_ = false;
  std::size_t handlers_left_ = 0;  // that may begin, or end alone, in this stretch
  std::uint64_t look_at_ = 0;
  std::array<moment, capacity> unsettled_{};  // of this stretch, in the order of time
  std::size_t unsettled_count_ = 0;

  std::chrono::nanoseconds slow_{};
  std::chrono::nanoseconds looked_at_from_{};  // `look_at` is called for handlers that take so long
  handler_table* handlers_ = nullptr;
  bool counts_all_ = false;
  lateness_account lateness_;
  slow_handler_hook hook_ = nullptr;
  void* context_ = nullptr;
  std::array<slow_handler, capacity> untold_{};
  std::size_t untold_count_ = 0;
  std::uint64_t slow_handlers_ = 0;
  log_histogram times_;
};

}  // namespace tickwheel::detail
