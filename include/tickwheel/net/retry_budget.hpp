// Limits how many retries all operations together may make, to a share of the requests. So retries never become the load.
//
// A server that is slow because it is overloaded gets three times the load if each request is tried three times. A budget
// prevents that. Each request deposits a part of a retry, and each retry withdraws a whole one. If the budget is empty, a failed
// operation has failed.
//
//   tickwheel::retry_budget budget{{.percent = 20, .per_second = 10}};      // one for all operations on that server
//   budget.deposit();                                   // for each new request
//   if (!budget.withdraw(timers.now())) return;         // before each retry
//
// A `retry_timer` with a budget makes both calls.
#pragma once

#include <tickwheel/core/detail/check.hpp>
#include <tickwheel/uv/driver.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace tickwheel {

/// The options of a retry budget. An aggregate.
struct retry_budget_options {
  /// How many retries a hundred requests earn.
  unsigned percent = 20;

  /// How many retries are earned per second in addition, for clients that make few requests. 0: none.
  unsigned per_second = 0;

  /// The most retries that the budget can hold, and its content at first. So it is also the burst that a server sees right after
  /// it fails. Must be positive.
  unsigned max_tokens = 100;

  /// Returns a message that names the first invalid field, or null if all fields are valid. Use it to check options that a user
  /// has configured.
  constexpr const char* problem() const noexcept {
    if (max_tokens == 0) return "retry_budget_options::max_tokens is zero";
    if (percent == 0 && per_second == 0) return "retry_budget_options::percent and per_second are both zero";
    return nullptr;
  }
};

/// A token bucket that many operations share. It counts exactly, in integers. After n requests in t seconds it has granted at
/// most `max_tokens + n * percent / 100 + t * per_second` retries.
///
/// *Thread safety:* none; one per loop, or one thread at a time. *Complexity:* O(1), no allocation, no system call, no clock
/// read. *Errors:* none. *Lifetime:* a value, but it outlives the objects that refer to it.
class retry_budget {
 public:
  /// A full budget. Requires: `options` are valid. This is checked: otherwise the process stops with the message of `problem`.
  explicit retry_budget(const retry_budget_options& options = {}) noexcept : options_{options}, balance_{full()} {
    const char* const why = options.problem();
    detail::require(why == nullptr, why);
  }

  /// Reports a new request, which is not a retry, and adds the part of a retry that it earns.
  void deposit() noexcept { balance_ = std::min(balance_ + options_.percent, full()); }

  /// Takes one retry and returns true, or returns false if none is left. `now` is the time of the loop, `timer_service::now()`. A
  /// time before an earlier one earns nothing.
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

  /// Returns how many retries may be made now.
  unsigned available(clock::time_point now) noexcept {
    earn(now);
    return static_cast<unsigned>(balance_ / whole);
  }

  /// Returns how many retries were granted.
  std::uint64_t withdrawn() const noexcept { return withdrawn_; }
  /// Returns how many retries were refused.
  std::uint64_t refused() const noexcept { return refused_; }

  /// Returns the options that it was made with.
  const retry_budget_options& options() const noexcept { return options_; }

 private:
  static constexpr std::uint64_t whole = 100;  // the balance is in hundredths of a retry
  static constexpr std::uint64_t second = 1'000'000'000;

  std::uint64_t full() const noexcept { return std::uint64_t{options_.max_tokens} * whole; }

  // Adds the retries earned by the time since the last call. A remainder of less than a hundredth counts in the next call.
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
    // enough to fill it from empty; below that the product is at most 2^33 retries of 2^30 ns
    if (elapsed >= (options_.max_tokens / rate + 1) * second) {
      balance_ = full();
      return;
    }
    constexpr std::uint64_t hundredth = second / whole;  // in ns, at one retry per second
    const std::uint64_t earned = elapsed * rate + rest_;
    balance_ = std::min(balance_ + earned / hundredth, full());
    rest_ = earned % hundredth;
  }

  retry_budget_options options_;
  std::uint64_t balance_;
  std::uint64_t withdrawn_ = 0;
  std::uint64_t refused_ = 0;
  clock::time_point earned_at_{};
  std::uint64_t rest_ = 0;  // earned by time, and less than a hundredth
  bool has_earned_ = false;
};

}  // namespace tickwheel
