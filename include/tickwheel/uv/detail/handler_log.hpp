// The handlers that a service has run: how long each took, which were slow, and why the last one was late.
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/core/log_histogram.hpp>
#include <tickwheel/uv/detail/lateness_account.hpp>
#include <tickwheel/uv/slow_handler.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tickwheel {
class binding_watch;
}

namespace tickwheel::detail {

/// Records the handlers of a service.
///
/// *Thread safety:* the loop thread. *Complexity:* O(1), except `tell_slow`. Reads no clock: the caller passes the time.
class TICKWHEEL_API handler_log {
 public:
  using handler_id = expiry_report::handler_id;

  /// At most this many handlers may end before `tell_slow` is called.
  static constexpr std::size_t capacity = 32;

  /// Forgets all handlers, but not the hook. A handler that takes `slow` or longer counts as slow.
  void restart(std::chrono::nanoseconds slow) noexcept {
    slow_ = slow;
    lateness_ = lateness_account{slow};
    times_ = {};
    slow_handlers_ = 0;
    untold_count_ = 0;
  }

  /// Sets the hook: `tell_slow` calls `hook(context, slow)` from now on. Null means no hook.
  void on_slow(slow_handler_hook hook, void* context) noexcept {
    hook_ = hook;
    context_ = context;
  }

  /// A handler is called at `now`, and the one before it, if any, has returned. The other parameters are those of
  /// `lateness_account::begin_handler`.
  void begin(handler_id which, clock::time_point due, std::chrono::nanoseconds rounding,
             clock::time_point now) noexcept {
    end(now);
    lateness_.begin_handler(which, due, rounding, now);
  }

  /// The handler that ran, if any, has returned by `now`.
  void end(clock::time_point now) noexcept {
    if (!lateness_.handler_runs()) return;
    const std::chrono::nanoseconds took = lateness_.end_handler(now);
    times_.record(static_cast<std::uint64_t>(took.count()));
    if (took < slow_) return;
    ++slow_handlers_;
    if (hook_ != nullptr) untold_[untold_count_++] = {lateness_.handler(), took};
  }

  /// Returns true if there is a slow handler that the hook was not told of.
  bool has_untold() const noexcept { return untold_count_ != 0; }

  /// Calls the hook for each slow handler that it was not told of. Stops as soon as the binding has ended, and then touches
  /// nothing. Must not be called within the wheel's `advance`, because the hook may do everything that a handler may.
  void tell_slow(const binding_watch& binding) noexcept;

  /// Returns the account of the time between a deadline and its handler.
  lateness_account& lateness() noexcept { return lateness_; }
  const lateness_account& lateness() const noexcept { return lateness_; }

  /// Returns the histogram of handler times, in nanoseconds.
  const log_histogram& times() const noexcept { return times_; }

  /// Returns the number of slow handlers.
  std::uint64_t slow_handlers() const noexcept { return slow_handlers_; }

 private:
  std::chrono::nanoseconds slow_{};
  lateness_account lateness_;
  slow_handler_hook hook_ = nullptr;
  void* context_ = nullptr;
  std::array<slow_handler, capacity> untold_{};
  std::size_t untold_count_ = 0;
  std::uint64_t slow_handlers_ = 0;
  log_histogram times_;
};

}  // namespace tickwheel::detail
