// Tries an operation again: later each time, not beyond its deadline, and not beyond what all retries together may be.
//
// It says when, and whether at all; what an attempt is, and whether an error is worth another, its owner knows. The
// owner makes the first attempt at once, and asks for the next when one has failed:
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
//       if (retry_.retry() != tickwheel::retry_result::scheduled) give_up(error);      // too late, too often, or too many
//     }
//     void on_answer() noexcept { retry_.cancel(); }
//    private:
//     void send() noexcept;                           // the handler: one attempt
//     tickwheel::retry_timer<&lookup::send> retry_;
//   };
//
// It asks `retry` at once, rather than after the wait, whether the next attempt could still begin in time. A caller that has a
// second left does not spend it waiting for an attempt that will not be made.
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

/// An aggregate.
struct retry_options {
  /// As many as it takes: for a connection that is to be there.
  static constexpr unsigned unlimited = std::numeric_limits<unsigned>::max();

  /// How often the operation is attempted, the first time included. Must be positive.
  unsigned max_attempts = 3;

  /// How long to wait in between.
  backoff_options backoff{};

  /// What is wrong with the first field that is, by its name; null when nothing is. Ask it of what a user has
  /// configured.
  constexpr const char* problem() const noexcept {
    return max_attempts == 0 ? "retry_options::max_attempts is zero" : backoff.problem();
  }
};

/// The answer of `retry_timer::retry`. All but the first mean: give up.
enum class retry_result : std::uint8_t {
  scheduled,        ///< the handler will be called, once
  past_deadline,    ///< the next attempt would not begin before the deadline
  out_of_attempts,  ///< there were as many attempts as there may be
  out_of_budget,    ///< the budget is empty
  limit_reached,    ///< `max_armed` timers are armed
  already_waiting,  ///< it is waiting for the next attempt: one failure was reported twice
  not_started,      ///< not started, cancelled, or the service is closed
};

/// Calls a member function of its owner when it is time for another attempt.
///
/// *Thread safety:* as `timer`. *Complexity:* as `timer`; `start` and `retry` read the clock. *Errors:* `start` answers a UV_
/// code, `retry` a `retry_result`. *Lifetime:* as `timer`: may be destroyed at any time, in its handler too.
template <auto Member, class F = decltype(Member)>
requires noexcept_member_handler<Member>
class retry_timer : private timer, private detail::member_call<retry_timer<Member, F>, Member> {
 public:
  using retry_timer::member_call::handler;         ///< tells its handler from others; see `timer::handler`
  using typename retry_timer::member_call::owner;  ///< the class that `Member` is of

  /// With a `budget`, what is started deposits in it, and each retry takes from it. Requires: `self` lives as long as
  /// this does, and so does `budget`, unless null; `options` are valid (checked; the process stops with what
  /// `problem` says). The jitter is seeded by the time and the object's address.
  retry_timer(timer_service& service, owner& self, const retry_options& options = {},
              retry_budget* budget = nullptr) noexcept
      : retry_timer{service, self, options, budget, detail::seed_of(this)} {}

  /// As above, with the jitter of `seed`, to see it again.
  retry_timer(timer_service& service, owner& self, const retry_options& options, retry_budget* budget,
              std::uint64_t seed) noexcept
      : timer{service, handler()},
        retry_timer::member_call{self},
        budget_{budget},
        backoff_{options.backoff, seed},
        most_{options.max_attempts} {
    const char* const why = options.problem();
    detail::require(why == nullptr, why);
  }

  /// A new operation begins, whose first attempt the caller makes now. One that was going on is forgotten, so that a
  /// pooled object is used again by starting it. 0; UV_ETIMEDOUT when `until` has passed, and nothing should be
  /// attempted; UV_ECANCELED when the service is closed. On an error nothing has changed.
  [[nodiscard]] int start(tickwheel::deadline until = tickwheel::deadline::never()) noexcept {
    if (!service().is_open()) return UV_ECANCELED;
    if (until.passed(service().read_clock())) return UV_ETIMEDOUT;
    timer::cancel();
    until_ = until;
    backoff_.reset();
    attempts_ = 1;
    going_on_ = true;
    if (budget_ != nullptr) budget_->deposit();
    return 0;
  }

  /// The attempt has failed: calls the handler for the next one after the backoff's delay, or after `at_least`, any
  /// std::chrono duration, if that is longer: what the server asked for.
  ///
  /// On any answer but `scheduled` nothing has changed, and the caller gives up. When the handler is called the deadline may be
  /// about to pass, or, if the loop was late, have passed. An attempt that starts with a `pending_calls` or a `deadline_timer`
  /// is told so.
  template <class D = std::chrono::nanoseconds>
  [[nodiscard]] retry_result retry(D at_least = D::zero()) noexcept {
    if (!going_on_ || !service().is_open()) return retry_result::not_started;
    if (timer::armed()) return retry_result::already_waiting;
    if (most_ != retry_options::unlimited && attempts_ >= most_) return retry_result::out_of_attempts;
    const auto now = service().read_clock();
    backoff next = backoff_;
    const auto when = detail::add_saturating(now, std::max(next.next(), detail::to_nanoseconds(at_least)));
    if (until_.passed(when)) return retry_result::past_deadline;
    if (timer::arm_at(when) != 0) return retry_result::limit_reached;  // the service is open, so it is that
    if (budget_ != nullptr && !budget_->withdraw(now)) {  // last, so that nothing else wastes what it takes
      timer::cancel();
      return retry_result::out_of_budget;
    }
    backoff_ = next;
    return retry_result::scheduled;
  }

  /// The operation is over: no attempt follows, and `retry` answers `not_started`, until it is started again. True when
  /// it was waiting for one.
  bool cancel() noexcept {
    going_on_ = false;
    return timer::cancel();
  }

  /// True while it waits for the next attempt.
  bool armed() const noexcept { return timer::armed(); }

  /// How many attempts were begun since `start`, the first included; readable when it is over, too. Zero when it was
  /// never started.
  unsigned attempts() const noexcept { return attempts_; }

  /// What `start` was given last.
  tickwheel::deadline until() const noexcept { return until_; }

  /// When the next attempt is due, rounded up to a tick; `time_point::max()` when none is.
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
  unsigned most_;
  unsigned attempts_ = 0;
  bool going_on_ = false;
};

namespace detail {

template <auto Member, class F>
inline constexpr bool stays_in_place<retry_timer<Member, F>> = true;

}  // namespace detail
}  // namespace tickwheel
