// Retries an operation: with a longer delay each time, before its deadline, and within a budget for all retries together.
//
// It decides whether there is a next attempt, and when. Its owner knows how to make an attempt, and whether an error deserves
// another. The owner makes the first attempt at once, and asks for the next one when an attempt has failed:
//
//   class lookup {
//    public:
//     explicit lookup(client& c) : retry_{c.timers, *this, {.max_attempts = 4}, &c.budget} {}
//     int begin(tickwheel::deadline until) noexcept {
//       if (const int error = retry_.start(until)) return error;
//       send();
//       return 0;
//     }
//     void on_failed(int error) noexcept {
//       if (ends_retries(retry_.retry())) give_up(error);  // too late, too often, or too many
//     }
//     void on_answer() noexcept { retry_.cancel(); }
//    private:
//     void send() noexcept;                           // the handler: one attempt
//     tickwheel::retry_timer<&lookup::send> retry_;
//   };
//
// `retry` tells at once, not after the wait, whether the next attempt could still begin in time. A caller with one second left
// does not spend it waiting for an attempt that will not be made.
#pragma once

#include <tickwheel/core/detail/splitmix64.hpp>
#include <tickwheel/net/backoff.hpp>
#include <tickwheel/net/deadline.hpp>
#include <tickwheel/net/retry_budget.hpp>
#include <tickwheel/uv/timer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

namespace tickwheel {

/// The options of a retry timer. An aggregate.
struct retry_options {
  /// No limit on the attempts, for a connection that must be kept up.
  static constexpr unsigned unlimited = std::numeric_limits<unsigned>::max();

  /// The most attempts, including the first. Must be positive.
  unsigned max_attempts = 3;

  /// The delays between the attempts.
  backoff_options backoff{};

  /// Returns a message that names the first invalid field, or null if all fields are valid. Use it to check options that a user
  /// has configured.
  constexpr const char* problem() const noexcept {
    return max_attempts == 0 ? "retry_options::max_attempts is zero" : backoff.problem();
  }
};

/// The answer of `retry_timer::retry`. `scheduled` and `already_waiting` mean that the handler will be called. All others mean: give up.
enum class retry_result : std::uint8_t {
  scheduled,        ///< the handler will be called, once
  past_deadline,    ///< the next attempt would not begin before the deadline
  out_of_attempts,  ///< `max_attempts` attempts were made
  out_of_budget,    ///< the budget is empty
  limit_reached,    ///< `max_armed` timers are armed
  already_waiting,  ///< it already waits for the next attempt: one failure was reported twice
  not_started,      ///< not started, cancelled, or the service is closed
};

/// Returns true if no further attempt follows: the caller gives up.
constexpr bool ends_retries(retry_result answer) noexcept {
  return answer != retry_result::scheduled && answer != retry_result::already_waiting;
}

/// Calls a member function of its owner when the next attempt is due.
///
/// *Thread safety:* as `timer`. *Complexity:* as `timer`; `start` and `retry` read the clock. *Errors:* `start` answers a UV_
/// code, `retry` a `retry_result`. *Lifetime:* as `timer`: it may be destroyed at any time, also in its handler.
template <auto Member, class F = decltype(Member)>
requires noexcept_member_handler<Member>
class retry_timer : private timer, private detail::member_call<retry_timer<Member, F>, Member> {
 public:
  using retry_timer::member_call::handler;         ///< identifies its handler; see `timer::handler`
  using typename retry_timer::member_call::owner;  ///< the class of the handler

  /// With a `budget`, each start deposits in it and each retry withdraws from it. The jitter's seed is made of the time and the
  /// object's address.
  ///
  /// Requires: `self` lives as long as this timer, and so does `budget` unless it is null. Requires: `options` are valid. This is
  /// checked: otherwise the process stops with the message of `problem`.
  retry_timer(timer_service& service, owner& self, const retry_options& options = {},
              retry_budget* budget = nullptr) noexcept
      : retry_timer{service, self, options, budget, detail::seed_of(this)} {}

  /// As above, with the reproducible jitter of `seed`.
  retry_timer(timer_service& service, owner& self, const retry_options& options, retry_budget* budget,
              std::uint64_t seed) noexcept
      : timer{service, handler()},
        retry_timer::member_call{self},
        budget_{budget},
        backoff_{options.backoff, seed},
        max_attempts_{options.max_attempts} {
    const char* const why = options.problem();
    detail::require(why == nullptr, why);
  }

  /// Begins a new operation; the caller makes the first attempt now. An operation in progress is dropped, so a pooled object is
  /// reused by starting it. Reads the clock.
  ///
  /// 0: it is started. On an error nothing has changed.
  /// UV_ETIMEDOUT: `until` has passed, so nothing should be attempted.
  /// UV_ECANCELED: the service is closed.
  [[nodiscard]] int start(tickwheel::deadline until = tickwheel::deadline::never()) noexcept {
    if (!service().is_open()) return refuse_when_closed();
    if (until.passed(service().read_clock())) return UV_ETIMEDOUT;
    timer::cancel();
    until_ = until;
    backoff_.reset();
    attempts_ = 1;
    going_on_ = true;
    if (budget_ != nullptr) budget_->deposit();
    return 0;
  }

  /// Reports that the attempt has failed, and schedules the next one after the backoff's delay. It waits for `at_least`, any
  /// std::chrono duration, if that is longer: for a server that says when to retry. Reads the clock.
  ///
  /// On any answer except `scheduled` nothing has changed. If `ends_retries` is true of it, the caller gives up; after
  /// `already_waiting` it does nothing. When the handler is called, the deadline may
  /// be about to pass. If the loop was late, it may have passed. `pending_calls` and `deadline_timer` then refuse to start the
  /// attempt.
  template <class D = std::chrono::nanoseconds>
  [[nodiscard]] retry_result retry(D at_least = D::zero()) noexcept {
    if (!going_on_ || !service().is_open()) return retry_result::not_started;
    if (timer::armed()) return retry_result::already_waiting;
    if (max_attempts_ != retry_options::unlimited && attempts_ >= max_attempts_) return retry_result::out_of_attempts;
    const auto now = service().read_clock();
    backoff next = backoff_;
    const auto when = detail::add_saturating(now, std::max(next.next(), detail::to_nanoseconds(at_least)));
    if (until_.passed(when)) return retry_result::past_deadline;
    if (budget_ != nullptr && budget_->available(now) == 0) {
      (void)budget_->withdraw(now);  // which counts the refusal
      return retry_result::out_of_budget;
    }
    if (timer::arm_at(when) != 0) return retry_result::limit_reached;  // the service is open, so that is the reason
    if (budget_ != nullptr) (void)budget_->withdraw(now);  // last: a retry refused for another reason takes nothing
    backoff_ = next;
    return retry_result::scheduled;
  }

  /// Ends the operation: no attempt follows, and `retry` answers `not_started` until it is started again. Returns true if it
  /// waited for the next attempt.
  bool cancel() noexcept {
    going_on_ = false;
    return timer::cancel();
  }

  /// Returns true while it waits for the next attempt.
  bool armed() const noexcept { return timer::armed(); }

  /// Returns how many attempts were begun since `start`, including the first. It stays readable after the end. Zero if it was
  /// never started.
  unsigned attempts() const noexcept { return attempts_; }

  /// Returns the deadline of the last start.
  tickwheel::deadline until() const noexcept { return until_; }

  /// Returns when the next attempt is due, rounded up to a tick. `time_point::max()`: it does not wait for one.
  using timer::deadline;

  using timer::callback;
  using timer::has_ref;  ///< as of `timer`
  using timer::ref;      ///< as of `timer`
  using timer::unref;    ///< as of `timer`

 private:
  friend typename retry_timer::member_call;

  void expired() noexcept {
    if (attempts_ != std::numeric_limits<unsigned>::max()) ++attempts_;
    this->call();
  }

  retry_budget* budget_;
  backoff backoff_;
  tickwheel::deadline until_;
  unsigned max_attempts_;
  unsigned attempts_ = 0;
  bool going_on_ = false;
};

namespace detail {

template <auto Member, class F>
inline constexpr bool stays_in_place<retry_timer<Member, F>> = true;

}  // namespace detail
}  // namespace tickwheel
