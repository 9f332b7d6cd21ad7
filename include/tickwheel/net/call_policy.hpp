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

#include <tickwheel/core/detail/nanoseconds.hpp>
#include <tickwheel/net/call_policy_options.hpp>
#include <tickwheel/net/policy_call.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>

namespace tickwheel {

namespace detail {

/// `Pointer` is a pointer to a member function that can make an attempt.
template <class Pointer>
inline constexpr bool makes_attempt = false;
template <class Owner>
inline constexpr bool makes_attempt<int (Owner::*)(call_attempt) noexcept> = true;
template <class Owner>
inline constexpr bool makes_attempt<int (Owner::*)(call_attempt) const noexcept> = true;

}  // namespace detail

/// `Member` is a pointer to a noexcept member function of a call that takes a `call_attempt` by value and returns an int, 0 or a
/// UV_ code. libuv's C frames call it, and cannot be unwound. Do not overload it.
template <auto Member>
concept noexcept_attempt_handler =
    detail::valid(detail::makes_attempt<decltype(Member)>,
                  "the handler must be a noexcept member function that takes a call_attempt and returns an int");

/// The calls of one client, each of which is attempted until it has an answer, or its limits are reached.
///
/// **Attempts.** `Attempt` is called for each attempt, by `start` for the first, and in a pass for the others. It sends the
/// request. An attempt fails when its deadline passes, when you report that with `fail` or `fail_all`, or when `Attempt` returns
/// an error. A failed attempt is forgotten: its answer would be unmatched. If another attempt of the call waits, the call waits
/// for that one. Otherwise the next attempt follows after the backoff's delay, if all of these allow it:
///
/// - fewer than `max_attempts` were begun,
/// - it would begin before the deadline of the call,
/// - the budget has a token. The token is taken when the delay begins.
///
/// If one of them does not, the call fails at once, with the error of the attempt that failed last.
///
/// **Results.** A call that was started has exactly one result. Either `complete` returns it, or `Failed` is called with a UV_
/// code, or `start` answers the error of its only attempt. A call that is cancelled, destroyed, or pending at `close` has no
/// other result. By then it is not pending: it may be started again, or destroyed. The codes are yours, except these:
///
/// - UV_ETIMEDOUT: its last attempt expired, or the loop was so late that its deadline passed before the next attempt.
/// - UV_ENOBUFS: `max_armed` timers were armed when the next attempt was due.
///
/// **Hedges.** With `hedge_quantile`, a second attempt begins when the first one has waited for a while: for `hedge_delay()` at
/// the start of the call. It takes a token when it begins, counts in `max_attempts`, and has an `attempt_timeout` of its own. A
/// call has one hedge at most. It has none if its first attempt has failed, or expires before. The first answer is the result,
/// and the other one is unmatched.
///
/// The time of an answer runs from the begin of its attempt to the loop iteration in which you report it. If a hedge wins while
/// the first attempt waits, the time runs from the begin of the first one. That attempt would have taken longer still, and a
/// shorter time would lower the quantile with each hedge.
///
/// Handlers may do anything: start, complete, fail, cancel and destroy any call, also their own, and close or destroy the policy
/// and the service. An answer may be reported in `Attempt` also, for instance from a cache.
///
/// *Thread safety:* the loop thread only; arming and cancelling a timer check that. *Complexity:* `start`, `complete`, `fail` and
/// cancelling are O(1) on average, and only `open` allocates. With hedges `complete` also sorts its time into the last 1,024: a
/// search of 10 steps, and a move of at most 8 KB. Reading the quantile is O(1). It is exact, and the same on each run.
/// `fail_all` is O(pending calls), `open` and `close` are O(capacity). `start`, `fail` and each attempt read the clock. *Errors:*
/// UV_ codes, as each function says. *Lifetime:* neither copies nor moves. It may be destroyed at any time, also in a handler;
/// pending calls are then cancelled. Once the service is closed or destroyed, attempts do not expire and none begins. An attempt
/// that waits can still be answered. If it fails, its call fails. A call between two attempts stays pending until you end it.
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

  /// Makes the first attempt, and goes on until there is a result, `total_timeout` or `until` has passed. `Attempt` is called
  /// before this returns, so the call may have ended by then, or be destroyed, if the handler does that. Reads the clock.
  ///
  /// 0: it is started. On an error `Failed` is not called for it, and it is not pending, unless it was already.
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

  /// Reports the answer to the attempt with this `id`. Returns its call, which has ended; the caller handles the answer. An error
  /// that is worth no other attempt is also an answer. Returns null if no attempt with this id waits: the answer is late,
  /// repeated, was never asked for, or another attempt was answered first. Drop such an answer; it is counted.
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

  /// Reports that all waiting attempts have failed, for instance when the connection is lost, and returns their number. Their
  /// calls are attempted again, as far as the limits allow. Calls that wait for their next attempt go on waiting, and attempts
  /// that handlers begin meanwhile have not failed. May call `Failed`. Reads the clock for each. Requires: `error` is not 0
  /// (checked).
  std::size_t fail_all(int error) noexcept { return policy_calls::fail_all(error); }

  /// Returns the number of pending calls.
  using policy_calls::pending;
  /// Returns the capacity given to `open`; zero if closed.
  using policy_calls::capacity;
  /// Returns the counts since `open`. They stay readable after `close`.
  using policy_calls::stats;
  /// Returns the budget of retries and hedges: its own, or the shared one.
  using policy_calls::budget;
  /// Returns how long the first attempt of a call that is started now waits before its hedge begins. nanoseconds::max()
  /// without `hedge_quantile`. With `max_attempts` of 1 there is no hedge, whatever it answers.
  using policy_calls::hedge_delay;

  /// Checks every invariant. Returns false if one is broken, and `why` says which. O(capacity).
  bool validate(std::string* why = nullptr) const { return policy_calls::validate(why); }

 private:
  static int attempt(policy_call& c, call_attempt a) noexcept {
    static_assert(std::derived_from<call, policy_call>, "a call of a call_policy must derive from policy_call");
    static_assert(
        requires(call & of) { (of.*Attempt)(a); },
        "the two handlers of a call_policy must be members of one class: name both in the class of the call");
    return (static_cast<call&>(c).*Attempt)(a);
  }
  static void failed(policy_call& c, int error) noexcept { (static_cast<call&>(c).*Failed)(error); }
};

}  // namespace tickwheel
