// How many retries all operations together may make: a share of the requests, so that retries never become the load.
//
// A server that is slow because it has too much to do gets three times as much if each request is tried three times.
// A budget stops that: each request deposits a part of a retry, each retry takes a whole one, and when there is none,
// what failed has failed.
//
//   tickwheel::retry_budget budget{{.percent = 20, .per_second = 10}};      // one for all operations on that server
//   budget.deposit();                                   // for each new request
//   if (!budget.withdraw(timers.now())) return;         // before each retry
//
// A `retry_timer` that is given one does both.
#pragma once

#include <tickwheel/core/detail/check.hpp>
#include <tickwheel/uv/driver.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace tickwheel {

/// An aggregate.
struct retry_budget_options {
  /// How many retries a hundred requests earn.
  unsigned percent = 20;

  /// How many retries a second are earned whatever the requests, for who makes few; 0: none.
  unsigned per_second = 0;

  /// How many retries can be saved up, and are there to begin with: the burst that a server which just went down sees.
  /// Must be positive.
  unsigned max_tokens = 100;

  /// What is wrong with the first field that is, by its name; null when nothing is. Ask it of what a user has
  /// configured.
  constexpr const char* problem() const noexcept {
    if (max_tokens == 0) return "retry_budget_options::max_tokens is zero";
    if (percent == 0 && per_second == 0) return "retry_budget_options::percent and per_second are both zero";
    return nullptr;
  }
};

/// A token bucket that many share. Counts in integers, exactly: after n requests in t seconds no more than
/// `most + n * percent / 100 + t * per_second` retries were granted.
///
/// *Thread safety:* none: one a loop, or one thread at a time. *Complexity:* O(1), no allocation, no system call, no
/// clock read. *Errors:* none. *Lifetime:* outlives what was given a reference to it; else a value.
class retry_budget {
 public:
  /// Begins full. Requires: `options` are valid (checked; the process stops with what `problem` says).
  explicit retry_budget(const retry_budget_options& options = {}) noexcept : options_{options}, balance_{full()} {
    const char* const why = options.problem();
    detail::require(why == nullptr, why);
  }

  /// A new request was made: not a retry.
  void deposit() noexcept { balance_ = std::min(balance_ + options_.percent, full()); }

  /// True when one retry may be made, which it takes. `now` is that of the loop, `timer_service::now()`; one that is
  /// before an earlier one earns nothing.
  bool withdraw(clock::time_point now) noexcept {
    earn(now);
    if (balance_ < whole) {
      ++refused_;
      return false;
    }
    balance_ -= whole;
    ++withdrawn_;
    return true;
  }

  /// How many retries may be made now.
  unsigned available(clock::time_point now) noexcept {
    earn(now);
    return static_cast<unsigned>(balance_ / whole);
  }

  /// How many retries were granted.
  std::uint64_t withdrawn() const noexcept { return withdrawn_; }
  /// How many were not.
  std::uint64_t refused() const noexcept { return refused_; }

  /// What it was made with.
  const retry_budget_options& options() const noexcept { return options_; }

 private:
  static constexpr std::uint64_t whole = 100;  // the balance is in hundredths of a retry
  static constexpr std::uint64_t second = 1'000'000'000;

  std::uint64_t full() const noexcept { return std::uint64_t{options_.max_tokens} * whole; }

  // What the time since the last call is worth; what is not enough for a hundredth is left to the next.
  void earn(clock::time_point now) noexcept {
    const std::uint64_t rate = options_.per_second;
    if (rate == 0) return;
    if (!has_earned_) {
      has_earned_ = true;
      earned_at_ = now;
    }
    if (now <= earned_at_) return;
    const auto elapsed = static_cast<std::uint64_t>((now - earned_at_).count());
    earned_at_ = now;
    // enough to fill it from empty; below that the product stays within 2^33 retries of 2^30 ns
    if (elapsed >= (options_.max_tokens / rate + 1) * second) {
      balance_ = full();
      return;
    }
    constexpr std::uint64_t hundredth = second / whole;  // in ns, at one retry a second
    const std::uint64_t earned = elapsed * rate + rest_;
    balance_ = std::min(balance_ + earned / hundredth, full());
    rest_ = earned % hundredth;
  }

  retry_budget_options options_;
  std::uint64_t balance_;
  std::uint64_t withdrawn_ = 0;
  std::uint64_t refused_ = 0;
  clock::time_point earned_at_{};
  std::uint64_t rest_ = 0;  // of what time has earned: less than a hundredth
  bool has_earned_ = false;
};

}  // namespace tickwheel
