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
//       if (retry_.retry() != 0) give_up(error);      // too late, too often, or too many
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

/// Calls a member function of its owner when it is time for another attempt.
///
/// *Thread safety:* as `timer`. *Complexity:* as `timer`; `start` and `retry` read the clock. *Errors:* UV_ codes, as each
/// function says. *Lifetime:* as `timer`: may be destroyed at any time, in its handler too.
template <auto Member, class = decltype(Member)>
requires noexcept_member_handler<Member>
class retry_timer : private timer {
 public:
  /// The class that `Member` is of.
  using owner = typename detail::member_handler<decltype(Member)>::owner;

  /// With a `budget`, what is started deposits in it, and each retry takes from it. Requires: `self` lives as long as
  /// this does, and so does `budget`, unless null; `options` are valid (checked; the process stops with what
  /// `problem` says). The jitter is seeded by the time and the object's address.
  retry_timer(timer_service& service, owner& self, const retry_options& options = {},
              retry_budget* budget = nullptr) noexcept
      : retry_timer{service, self, options, budget, detail::seed_of(this)} {}

  /// As above, with the jitter of `seed`, to see it again.
  retry_timer(timer_service& service, owner& self, const retry_options& options, retry_budget* budget,
              std::uint64_t seed) noexcept
      : timer{service, &run},
        self_{self},
        budget_{budget},
        backoff_{options.backoff, seed},
        most_{options.max_attempts} {
    const char* const why = options.problem();
    detail::require(why == nullptr, why);
  }

  /// A new operation begins, whose first attempt the caller makes now. One that was going on is forgotten, so that a
  /// pooled object is used again by starting it. 0; UV_ETIMEDOUT when `until` has passed, and nothing should be
  /// attempted; UV_ECANCELED when the service is closed. On an error nothing has changed.
  int start(tickwheel::deadline until = tickwheel::deadline::never()) noexcept {
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
  ///   0              it will be called, once
  ///   UV_ETIMEDOUT   it would not begin before the deadline
  ///   UV_ERANGE      there were as many attempts as there may be
  ///   UV_EAGAIN      the budget is empty
  ///   UV_ENOBUFS     `max_armed` timers are armed
  ///   UV_EALREADY    it is waiting for the next attempt: one failure was reported twice
  ///   UV_ECANCELED   not started, cancelled, or the service is closed
  ///
  /// On an error nothing has changed, and the caller gives up. When it is called the deadline may be about to pass, or, if the
  /// loop was late, have passed. An attempt that starts with a `pending_calls` or a `deadline_timer` is told so.
  template <class D = std::chrono::nanoseconds>
  int retry(D at_least = D::zero()) noexcept {
    if (!going_on_ || !service().is_open()) return UV_ECANCELED;
    if (timer::armed()) return UV_EALREADY;
    if (most_ != retry_options::unlimited && attempts_ >= most_) return UV_ERANGE;
    const auto now = service().read_clock();
    backoff next = backoff_;
    const auto when = detail::add_saturating(now, std::max(next.next(), detail::to_nanoseconds(at_least)));
    if (until_.passed(when)) return UV_ETIMEDOUT;
    if (const int error = timer::arm_at(when)) return error;
    if (budget_ != nullptr && !budget_->withdraw(now)) {  // last, so that nothing else wastes what it takes
      timer::cancel();
      return UV_EAGAIN;
    }
    backoff_ = next;
    return 0;
  }

  /// The operation is over: no attempt follows, and `retry` answers UV_ECANCELED, until it is started again. True when
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

  /// Tells its handler from others; see `timer::handler`.
  static callback handler() noexcept { return &run; }

 private:
  static void run(wheel_entry& entry) noexcept {
    auto& self = static_cast<retry_timer&>(timer::from(entry));
    if (self.attempts_ != std::numeric_limits<unsigned>::max()) ++self.attempts_;
    (self.self_.*Member)();
  }

  owner& self_;
  retry_budget* budget_;
  backoff backoff_;
  tickwheel::deadline until_;
  unsigned most_;
  unsigned attempts_ = 0;
  bool going_on_ = false;
};

}  // namespace tickwheel
