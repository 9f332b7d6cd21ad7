// The commonest client in one object: calls that are attempted again, within limits of time, number and load.
//
// Each call ends exactly once: its answer arrives, or its handler is told that no attempt is left. Until then the policy makes the
// attempts, each with an id and a deadline of its own. Derive the state of a call from `policy_call`:
//
//   struct lookup : tickwheel::policy_call {
//     using policy_call::policy_call;
//     int send(tickwheel::call_attempt a) noexcept;     // sends it with a.id. 0, or a UV_ code: this attempt has failed
//     void answered(reply r) noexcept;
//     void on_failed(int error) noexcept;               // the error of the last attempt; may `delete this`
//   };
//
//   class client {
//     int begin() noexcept {
//       return calls_.open({.capacity = 10'000, .max_attempts = 3, .attempt_timeout = 300ms, .total_timeout = 1s});
//     }
//     int ask(lookup& l, tickwheel::deadline until) noexcept { return calls_.start(l, until); }
//     void on_reply(const reply& r) noexcept {
//       if (r.is_overloaded()) calls_.fail(r.id, UV_EAGAIN);                // worth another attempt
//       else if (lookup* l = calls_.complete(r.id)) l->answered(r);         // null: late, repeated, or of the attempt that lost
//     }
//     void on_lost() noexcept { calls_.fail_all(UV_ECONNRESET); }           // each call is attempted again
//     tickwheel::call_policy<&lookup::send, &lookup::on_failed> calls_;
//   };
//
// A *hedge* is a second attempt that begins while the first one still waits. The call takes the answer that arrives first. It
// cuts off the slowest answers, at the price of some load. It is off by default, because only a call that may be made twice, such
// as a read, allows it. Remember that a retry also makes a call twice: an attempt that got no answer may have been served.
//
// To retry what is no call with an answer, such as a connection, use a `retry_timer`. For calls with one attempt, `pending_calls`.
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/core/detail/splitmix64.hpp>
#include <tickwheel/net/backoff.hpp>
#include <tickwheel/net/deadline.hpp>
#include <tickwheel/net/detail/answer_times.hpp>
#include <tickwheel/net/pending_calls.hpp>
#include <tickwheel/net/retry_budget.hpp>
#include <tickwheel/net/retry_timer.hpp>
#include <tickwheel/uv/timer.hpp>

#include <boost/intrusive/list.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace tickwheel {

/// The options of a call_policy. An aggregate; the defaults suit a client of a nearby service.
struct call_policy_options {
  /// No limit on the attempts of a call.
  static constexpr unsigned unlimited = retry_options::unlimited;

  /// The most calls that may be pending. Must be positive.
  std::size_t capacity = 0;

  /// The most attempts of a call, including the first and a hedge. Must be positive.
  unsigned max_attempts = 3;

  /// The time of each attempt. An attempt without an answer then has failed. It never exceeds the time that the call has left. Must
  /// be positive. nanoseconds::max(): no limit of its own.
  std::chrono::nanoseconds attempt_timeout = std::chrono::seconds{2};

  /// The time of a call with all its attempts. A deadline that `start` is given may only shorten it. Must be positive.
  /// nanoseconds::max(): no limit.
  std::chrono::nanoseconds total_timeout = std::chrono::seconds{10};

  /// The delays between a failure and the next attempt, with their jitter.
  backoff_options backoff{};

  /// Limits retries and hedges of all calls together: each takes a token.
  retry_budget_options budget{};

  /// A budget to use instead, which several policies share, for instance those of one server. Null: a budget of its own. Requires:
  /// it outlives the use of the policy.
  retry_budget* shared_budget = nullptr;

  /// Zero: no hedges. Otherwise a hedge begins when the first attempt has waited for as long as this share of the last 1,024 answers
  /// took, such as 0.95. Must be in 0..1. Set it only if a call may be made twice.
  double hedge_quantile = 0;

  /// The time after which a hedge begins until there were 100 answers. Must be positive.
  std::chrono::nanoseconds hedge_delay = std::chrono::milliseconds{100};

  /// Decides the jitter. The same seed gives the same delays if the same calls fail in the same order. Zero: a seed of the time and
  /// the object's address.
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
  std::uint64_t hedges_refused = 0;  ///< hedges that were due and not begun: no token, or `max_armed` timers were armed
  std::uint64_t hedges_won = 0;      ///< calls that were answered by their hedge
  std::uint64_t expired = 0;         ///< attempts whose deadline passed
  std::uint64_t unmatched =
      0;  ///< answers and failures of no waiting attempt: it had lost, or they were late or repeated
};

/// An attempt that a call shall make now.
struct call_attempt {
  std::uint64_t id = 0;   ///< tells this attempt from all others: the answer must come with it. Ids count up from 1
  deadline until{};       ///< when it fails without an answer: send what remains of it, if the protocol can
  unsigned number = 1;    ///< counts the attempts of the call from 1
  bool is_hedge = false;  ///< true: the first attempt still waits
};

class policy_call;

namespace detail {

// One of the two attempts of a call that may wait at the same time.
class policy_attempt : public pending_call {
 public:
  policy_attempt(timer_service& service, policy_call& of) noexcept : pending_call{service}, of_{of} {}

 private:
  friend class policy_calls;

  void on_failed(int error) noexcept;

  policy_call& of_;
  clock::time_point begun_{};
  deadline until_{};
};

}  // namespace detail

/// The base of a call that a `call_policy` attempts. It may be started on any policy, and again once it has ended. 416 bytes.
///
/// *Thread safety:* the loop thread only, checked. *Complexity:* O(1) on average. *Errors:* none. *Lifetime:* neither copies nor
/// moves. It may be destroyed at any time, which cancels it: before or after the policy and the service, also in its own handlers.
class TICKWHEEL_API policy_call {
 public:
  /// Requires: `service` belongs to the loop on which the policy is used, and outlives every start.
  explicit policy_call(timer_service& service) noexcept;
  ~policy_call() { cancel(); }
  policy_call(const policy_call&) = delete;
  policy_call& operator=(const policy_call&) = delete;

  /// Ends it without a result: no handler runs, and no attempt follows. Later answers count as unmatched. A token that was taken for
  /// the next attempt is not given back. Returns true if it was pending.
  bool cancel() noexcept;

  /// Returns true from `start` until it is answered, has failed or is cancelled. In `Failed` it is no longer pending.
  bool pending() const noexcept { return in_ != nullptr; }

  /// Returns how many attempts were begun since the last start. Stays readable after the end.
  unsigned attempts() const noexcept { return attempts_; }

  /// Returns the deadline of all attempts of the last start.
  deadline until() const noexcept { return until_; }

  /// Returns `scheduled`, or why no attempt follows the one that failed last: in `Failed` the reason to give up. Before the first
  /// failure it is `not_started`.
  retry_result last_retry() const noexcept { return last_retry_; }

  /// Returns when something happens next if no answer comes, rounded up to a tick: an attempt expires or begins. `time_point::max()`:
  /// it is not pending, its attempt never expires in practice, or its service was closed.
  clock::time_point due_at() const noexcept;

  /// Keeps the loop alive while it is pending. Idempotent.
  void ref() noexcept;
  /// Does not keep the loop alive any more. Idempotent.
  void unref() noexcept;
  /// Returns true if it keeps the loop alive while it is pending; true at first.
  bool has_ref() const noexcept { return next_.has_ref(); }

 private:
  friend class detail::policy_calls;
  friend class detail::policy_attempt;

  // Due when a hedge begins, if the first attempt waits, and otherwise when the next attempt begins.
  struct next_attempt : timer {
    next_attempt(timer_service& on, policy_call& call) noexcept : timer{on, &run}, of{call} {}
    using timer::refuse_when_closed;
    using timer::service;
    static void run(wheel_entry&) noexcept;
    policy_call& of;
  };

  detail::policy_attempt regular_;  // the first attempt, and each retry
  detail::policy_attempt hedge_;
  next_attempt next_;
  std::optional<backoff> wait_;                // made when the first retry is due
  boost::intrusive::list_member_hook<> link_;  // of the pending calls
  detail::policy_calls* in_ = nullptr;
  deadline until_{};
  clock::time_point not_before_{};  // the peer has asked for no attempt before
  std::uint64_t round_ = 0;
  unsigned attempts_ = 0;
  retry_result last_retry_ = retry_result::not_started;
};

static_assert(sizeof(void*) != 8 || sizeof(policy_call) <= 416);

namespace detail {

template <>
inline constexpr bool stays_in_place<policy_call> = true;

/// `Pointer` is a pointer to a member function that can make an attempt.
template <class Pointer>
inline constexpr bool makes_attempt = false;
template <class Owner>
inline constexpr bool makes_attempt<int (Owner::*)(call_attempt) noexcept> = true;
template <class Owner>
inline constexpr bool makes_attempt<int (Owner::*)(call_attempt) const noexcept> = true;

// The part of call_policy that does not depend on the type of a call.
//
// It is built on pending_calls, for the attempts, and on the timer, backoff and retry_budget that a retry_timer is made of. A
// retry_timer itself knows neither an attempt that it has not scheduled, which a hedge is, nor the options of a policy that a call
// is started on later.
class TICKWHEEL_API policy_calls {
 public:
  using attempt_call = int (*)(policy_call&, call_attempt) noexcept;
  using failure_call = void (*)(policy_call&, int error) noexcept;

  policy_calls(attempt_call attempt, failure_call give_up) noexcept;
  ~policy_calls();
  policy_calls(const policy_calls&) = delete;
  policy_calls& operator=(const policy_calls&) = delete;

  [[nodiscard]] int open(const call_policy_options&) noexcept;
  void close() noexcept;
  bool is_open() const noexcept { return capacity_ != 0; }

  [[nodiscard]] int start(policy_call&, deadline until) noexcept;
  policy_call* complete(std::uint64_t id) noexcept;
  policy_call* find(std::uint64_t id) const noexcept;
  bool fail(std::uint64_t id, int error, std::chrono::nanoseconds at_least) noexcept;
  std::size_t fail_all(int error) noexcept;

  std::size_t pending() const noexcept { return calls_.size(); }
  std::size_t capacity() const noexcept { return capacity_; }
  const call_policy_stats& stats() const noexcept { return stats_; }
  const retry_budget& budget() const noexcept { return *budget_; }
  std::chrono::nanoseconds hedge_delay() const noexcept;
  bool validate(std::string* why) const;

 private:
  friend class tickwheel::policy_call;
  friend class policy_attempt;

  // A function that has called a handler and goes on afterwards. The handler may close or destroy the policy.
  struct running {
    running* outer;
    bool gone = false;
  };

  struct failure {
    int error = 0;           // 0: there is none
    bool may_retry = false;  // false: the service is closed or destroyed, so do not ask it
  };

  [[nodiscard]] int try_start(policy_call&, deadline until) noexcept;
  [[nodiscard]] int begin(policy_attempt&, deadline of_call, clock::time_point now) noexcept;
  [[nodiscard]] failure send(policy_attempt&) noexcept;
  void arm_hedge(policy_call&, clock::time_point now) noexcept;
  void next_due(policy_call&) noexcept;
  [[nodiscard]] bool begin_hedge(policy_call&) noexcept;
  [[nodiscard]] int begin_retry(policy_call&) noexcept;

  static bool drop(policy_attempt&) noexcept;
  void failed(policy_call&, failure) noexcept;
  [[nodiscard]] bool goes_on(policy_call&, failure) noexcept;
  [[nodiscard]] retry_result schedule_retry(policy_call&) noexcept;
  void measure(const policy_attempt&) noexcept;
  void cancel(policy_call&) noexcept;
  void end(policy_call&) noexcept;

  attempt_call attempt_;
  failure_call failed_;
  pending_calls<&policy_attempt::on_failed> attempts_;  // those that wait for an answer
  answer_times times_;                                  // open if there are hedges
  boost::intrusive::list<policy_call, boost::intrusive::member_hook<policy_call, boost::intrusive::list_member_hook<>,
                                                                    &policy_call::link_>>
      calls_;  // the pending ones
  call_policy_options options_{};
  retry_budget own_budget_{};
  retry_budget* budget_ = &own_budget_;
  splitmix64 random_{0};
  std::uint64_t last_id_ = 0;
  std::uint64_t round_ = 0;   // number of calls of fail_all, which fails the calls started in an earlier round
  std::size_t capacity_ = 0;  // 0: closed
  running* running_ = nullptr;
  call_policy_stats stats_{};
};

}  // namespace detail

/// `Member` is a pointer to a noexcept member function of a call that takes a `call_attempt` by value and returns an int, 0 or a UV_
/// code. libuv's C frames call it, and cannot be unwound. Do not overload it.
template <auto Member>
concept noexcept_attempt_handler =
    detail::valid(detail::makes_attempt<decltype(Member)>,
                  "the handler is not a noexcept member function that takes a call_attempt and returns an int");

/// The calls of one client, each of which is attempted until it has an answer, or its limits are reached.
///
/// **Attempts.** `Attempt` is called for each attempt, by `start` for the first, and in a pass for the others. It sends the request.
/// An attempt fails when its deadline passes, when you report that with `fail` or `fail_all`, or when `Attempt` returns an error. A
/// failed attempt is forgotten: its answer would be unmatched. If another attempt of the call waits, the call waits for that one.
/// Otherwise the next attempt follows after the backoff's delay, if all of these allow it:
///
/// - fewer than `max_attempts` were begun,
/// - it would begin before the deadline of the call,
/// - the budget has a token. The token is taken when the delay begins.
///
/// If one of them does not, the call fails at once, with the error of the attempt that failed last.
///
/// **Results.** A call that was started has exactly one result. Either `complete` returns it, or `Failed` is called with a UV_ code, or
/// `start` answers the error of its only attempt. A call that is cancelled, destroyed, or pending at `close` has no other result. By
/// then it is not pending: it may be started again, or destroyed. The codes are yours, except these:
///
/// - UV_ETIMEDOUT: its last attempt expired, or the loop was so late that its deadline passed before the next attempt.
/// - UV_ENOBUFS: `max_armed` timers were armed when the next attempt was due.
///
/// **Hedges.** With `hedge_quantile`, a second attempt begins when the first one has waited for a while: for `hedge_delay()` at the start
/// of the call. It takes a token when it begins, counts in `max_attempts`, and has an `attempt_timeout` of its own. A call has one hedge at
/// most. It has none if its first attempt has failed, or expires before. The first answer is the result, and the other one is unmatched.
///
/// The time of an answer runs from the begin of its attempt to the loop iteration in which you report it. If a hedge wins while the
/// first attempt waits, the time runs from the begin of the first one. That attempt would have taken longer still, and a shorter time
/// would lower the quantile with each hedge.
///
/// Handlers may do anything: start, complete, fail, cancel and destroy any call, also their own, and close or destroy the policy and
/// the service. An answer may be reported in `Attempt` also, for instance from a cache.
///
/// *Thread safety:* the loop thread only; arming and cancelling a timer check that. *Complexity:* `start`, `complete`, `fail` and
/// cancelling are O(1) on average, and only `open` allocates. With hedges `complete` also sorts its time into the last 1,024: a search
/// of 10 steps, and a move of at most 8 KB. Reading the quantile is O(1). It is exact, and the same on each run. `fail_all` is
/// O(pending calls), `open` and `close` are O(capacity). `start`, `fail` and each attempt read the clock. *Errors:* UV_ codes, as each
/// function says. *Lifetime:* neither copies nor moves. It may be destroyed at any time, also in a handler; pending calls are then
/// cancelled. Once the service is closed or destroyed, attempts do not expire and none begins. An attempt that waits can still be
/// answered. If it fails, its call fails. A call between two attempts stays pending until you end it.
template <auto Attempt, auto Failed, class A = decltype(Attempt), class F = decltype(Failed)>
requires noexcept_attempt_handler<Attempt> && noexcept_failure_handler<Failed>
class call_policy : private detail::policy_calls {
 public:
  /// The type of a call. Derives from `policy_call`.
  using call = typename detail::member_handler<F, int>::owner;

  /// A closed policy: call `open` before the first `start`.
  call_policy() noexcept : policy_calls{&attempt, &failed} {}

  /// Makes room for `capacity` calls: allocates 8 to 16 bytes for each. With hedges, it allocates twice that, and 16 KB.
  ///
  /// 0: it is open. On an error nothing has changed.
  /// UV_EINVAL: `options` are invalid; `options.problem()` names the field.
  /// UV_EALREADY: it is already open.
  /// UV_ENOMEM: there is no memory.
  [[nodiscard]] int open(const call_policy_options& options) noexcept { return policy_calls::open(options); }

  /// Cancels the pending calls. No handler runs, and starting a call answers UV_ECANCELED. Idempotent; it may be opened again.
  using policy_calls::close;
  /// Returns true between `open` and `close`.
  using policy_calls::is_open;

  /// Makes the first attempt, and goes on until there is a result, `total_timeout` or `until` has passed. `Attempt` is called before
  /// this returns, so the call may have ended by then, or be destroyed, if the handler does that. Reads the clock.
  ///
  /// 0: it is started. On an error it is not pending, and `Failed` is not called for it.
  /// The error of `Attempt`: the first attempt has failed, and no other is allowed. It counts as failed.
  ///
  /// After one of these, no attempt was made, and only the count of refused calls has changed:
  /// UV_ETIMEDOUT: `until` has passed.
  /// UV_ENOBUFS: `capacity` calls are pending, or `max_armed` timers are armed.
  /// UV_EALREADY: `c` is already pending.
  /// UV_ECANCELED: the policy or the service is closed.
  [[nodiscard]] int start(call& c, deadline until = deadline::never()) noexcept {
    return policy_calls::start(c, until);
  }

  /// Reports the answer to the attempt with this `id`. Returns its call, which has ended; the caller handles the answer. An error that
  /// is worth no other attempt is also an answer. Returns null if no attempt with this id waits: the answer is late, repeated, was never
  /// asked for, or another attempt was answered first. Drop such an answer; it is counted.
  [[nodiscard]] call* complete(std::uint64_t id) noexcept { return static_cast<call*>(policy_calls::complete(id)); }

  /// Returns the call of the attempt with this `id`, which goes on waiting. Null if none waits.
  [[nodiscard]] call* find(std::uint64_t id) const noexcept { return static_cast<call*>(policy_calls::find(id)); }

  /// Reports that the attempt with this `id` has failed, and that another one is worthwhile. No retry of the call begins before
  /// `at_least`, any std::chrono duration, has passed: for a server that says when to retry. May call `Failed`. Reads the clock.
  /// Returns true if the attempt was waiting. Requires: `error` is not 0 (checked).
  template <class D = std::chrono::nanoseconds>
  bool fail(std::uint64_t id, int error, D at_least = D::zero()) noexcept {
    return policy_calls::fail(id, error, detail::to_nanoseconds(at_least));
  }

  /// Reports that all waiting attempts have failed, for instance when the connection is lost, and returns their number. Their calls
  /// are attempted again, as far as the limits allow. Calls that wait for their next attempt go on waiting, and attempts that handlers
  /// begin meanwhile have not failed. May call `Failed`. Reads the clock for each. Requires: `error` is not 0 (checked).
  std::size_t fail_all(int error) noexcept { return policy_calls::fail_all(error); }

  /// Returns the number of pending calls.
  using policy_calls::pending;
  /// Returns the capacity given to `open`; zero if closed.
  using policy_calls::capacity;
  /// Returns the counts since `open`. They stay readable after `close`.
  using policy_calls::stats;
  /// Returns the budget of retries and hedges: its own, or the shared one.
  using policy_calls::budget;
  /// Returns how long the first attempt of a call that is started now waits before its hedge begins. nanoseconds::max(): no hedges.
  using policy_calls::hedge_delay;

  /// Checks every invariant. Returns false if one is broken, and `why` says which. O(capacity).
  bool validate(std::string* why = nullptr) const { return policy_calls::validate(why); }

 private:
  static int attempt(policy_call& c, call_attempt a) noexcept {
    static_assert(std::derived_from<call, policy_call>, "a call of a call_policy must derive from policy_call");
    return (static_cast<call&>(c).*Attempt)(a);
  }
  static void failed(policy_call& c, int error) noexcept { (static_cast<call&>(c).*Failed)(error); }
};

}  // namespace tickwheel
