// The options and counts of a call_policy, and the description of an attempt.
#pragma once

#include <tickwheel/net/backoff.hpp>
#include <tickwheel/net/deadline.hpp>
#include <tickwheel/net/retry_budget.hpp>
#include <tickwheel/net/retry_timer.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tickwheel {

/// The options of a call_policy. An aggregate; the defaults suit a client of a nearby service.
struct call_policy_options {
  /// No limit on the attempts of a call.
  static constexpr unsigned unlimited = retry_options::unlimited;

  /// The most calls that may be pending. Must be positive.
  std::size_t capacity = 0;

  /// The most attempts of a call, including the first and a hedge. Must be positive.
  unsigned max_attempts = 3;

  /// The time of each attempt. An attempt without an answer then has failed. It never exceeds the time that the call has left.
  /// Must be positive. nanoseconds::max(): no limit of its own.
  std::chrono::nanoseconds attempt_timeout = std::chrono::seconds{2};

  /// The time of a call with all its attempts. A deadline that `start` is given may only shorten it. Must be positive.
  /// nanoseconds::max(): no limit.
  std::chrono::nanoseconds total_timeout = std::chrono::seconds{10};

  /// The delays between a failure and the next attempt, with their jitter.
  backoff_options backoff{};

  /// Limits retries and hedges of all calls together: each takes a token.
  retry_budget_options budget{};

  /// A budget to use instead, which several policies share, for instance those of one server. Null: a budget of its own.
  /// Requires: it outlives the use of the policy.
  retry_budget* shared_budget = nullptr;

  /// Zero: no hedges. Otherwise a hedge begins when the first attempt has waited for as long as this share of the last 1,024
  /// answers took, such as 0.95. Must be in 0..1. Set it only if a call may be made twice.
  double hedge_quantile = 0;

  /// The time after which a hedge begins while there are fewer than 100 answers. Must be positive.
  std::chrono::nanoseconds hedge_delay = std::chrono::milliseconds{100};

  /// Decides the jitter. The same seed gives the same delays if the same calls fail in the same order. Zero: a seed of the time
  /// and the object's address.
  std::uint64_t seed = 0;

  /// Returns a message that names the first invalid field, or null if all fields are valid. Use it to check options that a user
  /// has configured.
  constexpr const char* problem() const noexcept {
    if (capacity == 0) return "call_policy_options::capacity is zero";
    if (max_attempts == 0) return "call_policy_options::max_attempts is zero";
    if (attempt_timeout.count() <= 0) return "call_policy_options::attempt_timeout is not positive";
    if (total_timeout.count() <= 0) return "call_policy_options::total_timeout is not positive";
    if (!(hedge_quantile >= 0 && hedge_quantile <= 1))  // negated, because NaN compares false with anything
      return "call_policy_options::hedge_quantile is not within 0..1";
    if (hedge_delay.count() <= 0) return "call_policy_options::hedge_delay is not positive";
    if (const char* const why = backoff.problem()) return why;
    return budget.problem();
  }
};

/// The counts of a call_policy since it was opened. At any time `started == answered + failed + cancelled + pending()`, and
/// `attempts == started + retries + hedges`.
struct call_policy_stats {
  std::uint64_t started = 0;    ///< calls whose first attempt was begun by `start`
  std::uint64_t answered = 0;   ///< calls that `complete` returned
  std::uint64_t failed = 0;     ///< calls without an answer: their handler was called, or `start` answered their error
  std::uint64_t cancelled = 0;  ///< calls that were cancelled or destroyed, or pending when the policy was closed
  std::uint64_t refused = 0;    ///< calls that `start` did not begin, with any error
  std::uint64_t attempts = 0;   ///< all attempts that were begun
  std::uint64_t retries = 0;    ///< attempts that were begun after others had failed
  std::uint64_t hedges = 0;     ///< attempts that were begun while the first one waited
  std::uint64_t hedges_refused = 0;  ///< hedges that were not begun: no token, or `max_armed` reached
  std::uint64_t hedges_won = 0;      ///< calls that were answered by their hedge
  std::uint64_t expired = 0;         ///< attempts whose deadline passed
  std::uint64_t unmatched = 0;  ///< answers and failures that no attempt waits for: late, repeated, or of the loser
};

/// An attempt that a call shall make now.
struct call_attempt {
  std::uint64_t id = 0;   ///< tells this attempt from all others: the answer must come with it. Ids count up from 1
  deadline until{};       ///< when it fails without an answer: send what remains of it, if the protocol can
  unsigned number = 1;    ///< counts the attempts of the call from 1
  bool is_hedge = false;  ///< true: the first attempt still waits
};

}  // namespace tickwheel
