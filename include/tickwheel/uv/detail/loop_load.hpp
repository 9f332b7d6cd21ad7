// How busy a loop is: its time in polls, and its time outside of them.
//
// Two readings of the clock that exist anyway bound each iteration. One is taken before each poll. The end of the poll is the
// driver's, or the first time that the service read after it, whichever is earlier. No iteration reads the clock for this.
#pragma once

#include <tickwheel/core/log_histogram.hpp>
#include <tickwheel/uv/driver.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace tickwheel::detail {

/// Divides the time of a loop into iterations. `busy() + idle()` is the time from `open`, or the last `resume`, to the last
/// `end_iteration`, plus earlier such spans.
///
/// *Thread safety:* the loop thread. *Complexity:* O(1). Reads no clock: the caller passes the time. *Lifetime:* a value.
class loop_load {
 public:
  using nanoseconds = std::chrono::nanoseconds;

  /// Begins anew at `now`. No poll has begun.
  void open(clock::time_point now) noexcept {
    *this = {};
    began_ = now;
  }

  /// An iteration ends at `now`, and the next poll begins. Its own poll ended at `polled`. Returns true if no iteration before it
  /// was busy for as long.
  bool end_iteration(clock::time_point polled, clock::time_point now) noexcept {
    const nanoseconds all = std::max(now - began_, nanoseconds{});
    const nanoseconds busy = std::clamp(now - polled, nanoseconds{}, all);
    const std::uint64_t longest = iterations_.max();
    idle_ += all - busy;
    began_ = now;
    iterations_.record(static_cast<std::uint64_t>(busy.count()));
    return iterations_.max() != longest;
  }

  /// Nobody ran the loop from `left` until `entered`, which is neither busy nor idle.
  /// Returns as `end_iteration`.
  bool resume(clock::time_point polled, clock::time_point left, clock::time_point entered) noexcept {
    const bool longest = left > began_ && end_iteration(polled, left);
    began_ = entered;
    return longest;
  }

  /// Returns the time outside of polls.
  nanoseconds busy() const noexcept { return nanoseconds{static_cast<nanoseconds::rep>(iterations_.sum())}; }
  /// Returns the time in polls.
  nanoseconds idle() const noexcept { return idle_; }
  /// Returns the busy time of each iteration, in nanoseconds.
  const log_histogram& iterations() const noexcept { return iterations_; }

 private:
  clock::time_point began_{};  // when the poll of the running iteration began
  nanoseconds idle_{};
  log_histogram iterations_;
};

}  // namespace tickwheel::detail
