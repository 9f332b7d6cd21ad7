// The base of a call that a `call_policy` attempts, and the part of a call_policy that does not depend on the type of its calls.
#pragma once

#include <tickwheel/core/detail/check.hpp>
#include <tickwheel/core/detail/nanoseconds.hpp>
#include <tickwheel/core/detail/splitmix64.hpp>
#include <tickwheel/net/backoff.hpp>
#include <tickwheel/net/call_policy_options.hpp>
#include <tickwheel/net/deadline.hpp>
#include <tickwheel/net/detail/answer_times.hpp>
#include <tickwheel/net/pending_calls.hpp>
#include <tickwheel/net/retry_budget.hpp>
#include <tickwheel/net/retry_timer.hpp>
#include <tickwheel/uv/timer.hpp>

#include <boost/intrusive/list.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace tickwheel {

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

/// The base of a call that a `call_policy` attempts. It may be started on any policy, and again once it has ended. 408 bytes.
///
/// *Thread safety:* the loop thread only, checked. *Complexity:* O(1) on average. *Errors:* none. *Lifetime:* neither copies nor
/// moves. It may be destroyed at any time, which cancels it: before or after the policy and the service, also in its own
/// handlers.
class policy_call {
 public:
  /// Requires: `service` belongs to the loop on which the policy is used, and outlives every start.
  explicit policy_call(timer_service& service) noexcept;
  ~policy_call() { cancel(); }
  policy_call(const policy_call&) = delete;
  policy_call& operator=(const policy_call&) = delete;

  /// Ends it without a result: no handler runs, and no attempt follows. Later answers count as unmatched. A token that was taken
  /// for the next attempt is not given back. Returns true if it was pending.
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

  /// Returns when something happens next if no answer comes, rounded up to a tick: an attempt expires or begins.
  /// `time_point::max()`: it is not pending, its attempt never expires in practice, or its service was closed.
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
    next_attempt(timer_service& on, policy_call& call) noexcept
        : timer{on, detail::callback_of_type<&run, policy_call>::get()}, of{call} {}
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

static_assert(sizeof(void*) != 8 || sizeof(policy_call) <= 408);

namespace detail {

template <>
inline constexpr bool stays_in_place<policy_call> = true;

// The part of call_policy that does not depend on the type of a call.
//
// It is built on pending_calls, for the attempts, and on the timer, backoff and retry_budget that a retry_timer is made of. A
// retry_timer itself knows neither an attempt that it has not scheduled, which a hedge is, nor the options of a policy that a call
// is started on later.
class policy_calls {
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
  [[nodiscard]] bool begin_hedge(policy_call&, clock::time_point now) noexcept;
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

inline policy_call::policy_call(timer_service& service) noexcept
    : regular_{service, *this}, hedge_{service, *this}, next_{service, *this} {}

inline bool policy_call::cancel() noexcept {
  if (in_ == nullptr) return false;
  in_->cancel(*this);
  return true;
}

inline clock::time_point policy_call::due_at() const noexcept {
  return std::min({regular_.expires_at(), hedge_.expires_at(), next_.deadline()});
}

inline void policy_call::ref() noexcept {
  regular_.ref();
  hedge_.ref();
  next_.ref();
}

inline void policy_call::unref() noexcept {
  regular_.unref();
  hedge_.unref();
  next_.unref();
}

inline void policy_call::next_attempt::run(wheel_entry& entry) noexcept {
  policy_call& call = static_cast<next_attempt&>(timer::from(entry)).of;
  call.in_->next_due(call);
}

namespace detail {

// The container of the attempts calls this only when one has expired.
inline void policy_attempt::on_failed(int error) noexcept {
  policy_calls& policy = *of_.in_;
  ++policy.stats_.expired;
  policy.failed(of_, {.error = error, .may_retry = true});
}

inline policy_calls::policy_calls(attempt_call attempt, failure_call give_up) noexcept
    : attempt_{attempt}, failed_{give_up} {}

inline policy_calls::~policy_calls() { close(); }

inline int policy_calls::open(const call_policy_options& options) noexcept {
  if (is_open()) return UV_EALREADY;
  if (options.problem() != nullptr) return UV_EINVAL;
  const bool hedges = options.hedge_quantile > 0;
  if (hedges && options.capacity > std::numeric_limits<std::size_t>::max() / 2) return UV_ENOMEM;
  if (const int error = attempts_.open(hedges ? 2 * options.capacity : options.capacity)) return error;
  if (hedges && !times_.open()) {
    attempts_.close();
    return UV_ENOMEM;
  }
  options_ = options;
  own_budget_ = retry_budget{options.budget};
  budget_ = options.shared_budget != nullptr ? options.shared_budget : &own_budget_;
  random_ = splitmix64{options.seed != 0 ? options.seed : seed_of(this)};
  capacity_ = options.capacity;
  stats_ = {};
  return 0;
}

inline void policy_calls::close() noexcept {
  if (!is_open()) return;
  for (; running_ != nullptr; running_ = running_->outer) running_->gone = true;
  while (!calls_.empty()) cancel(calls_.front());
  attempts_.close();
  times_.close();
  capacity_ = 0;
}

inline int policy_calls::start(policy_call& c, deadline until) noexcept {
  if (const int error = try_start(c, until)) {
    ++stats_.refused;
    return error;
  }
  const failure result = send(c.regular_);
  if (result.error == 0 || goes_on(c, result)) return 0;
  end(c);
  ++stats_.failed;
  return result.error;
}

// Returns 0 if the first attempt was begun. Otherwise nothing has changed.
inline int policy_calls::try_start(policy_call& c, deadline until) noexcept {
  if (!c.next_.service().is_open()) return c.next_.refuse_when_closed();
  if (!is_open()) return UV_ECANCELED;
  if (c.pending()) return UV_EALREADY;
  const clock::time_point now = c.next_.service().read_clock();
  const deadline of_call = tighter(until, deadline::after(options_.total_timeout, now));
  if (of_call.passed(now)) return UV_ETIMEDOUT;
  if (calls_.size() == capacity_) return UV_ENOBUFS;
  if (const int error = begin(c.regular_, of_call, now)) return error;
  c.in_ = this;
  c.until_ = of_call;
  c.not_before_ = clock::time_point::min();
  c.round_ = round_;
  c.attempts_ = 1;
  c.last_retry_ = retry_result::not_started;
  c.wait_.reset();
  calls_.push_back(c);
  ++stats_.started;
  budget_->deposit();
  arm_hedge(c, now);
  return 0;
}

// Lets an attempt wait for its answer. It is to be sent next.
inline int policy_calls::begin(policy_attempt& a, deadline of_call, clock::time_point now) noexcept {
  const deadline until = tighter(of_call, deadline::after(options_.attempt_timeout, now));
  if (const int error = attempts_.start(a, last_id_ + 1, until, now)) return error;
  ++last_id_;
  a.begun_ = now;
  a.until_ = until;
  ++stats_.attempts;
  return 0;
}

// Returns the failure of an attempt that could not be sent. Only then the call and the policy are certain to exist still.
inline policy_calls::failure policy_calls::send(policy_attempt& a) noexcept {
  const std::uint64_t id = a.id();
  running here{running_};
  running_ = &here;
  const int error =
      attempt_(a.of_, {.id = id, .until = a.until_, .number = a.of_.attempts_, .is_hedge = &a == &a.of_.hedge_});
  if (here.gone) return {};
  running_ = here.outer;
  if (error == 0 || attempts_.find(id) == nullptr) return {};  // it was sent, or it has ended already
  return {.error = error, .may_retry = drop(a)};
}

inline void policy_calls::arm_hedge(policy_call& c, clock::time_point now) noexcept {
  if (!times_.is_open() || options_.max_attempts == 1) return;
  const clock::time_point when = add_saturating(now, hedge_delay());
  if (c.regular_.until_.passed(when)) return;
  if (c.next_.arm_at(when) != 0) ++stats_.hedges_refused;
}

inline void policy_calls::next_due(policy_call& c) noexcept {
  const bool hedge = c.regular_.pending();
  if (hedge) {
    const clock::time_point now = c.next_.service().read_clock();
    if (c.regular_.until_.passed(now)) return;  // this pass is so late that the first attempt also expires in it
    if (!begin_hedge(c, now)) {
      ++stats_.hedges_refused;
      return;
    }
    ++stats_.hedges;
  } else {
    if (const int error = begin_retry(c)) {
      c.last_retry_ = error == UV_ETIMEDOUT ? retry_result::past_deadline : retry_result::limit_reached;
      end(c);
      ++stats_.failed;
      failed_(c, error);
      return;
    }
    ++stats_.retries;
  }
  ++c.attempts_;
  const failure result = send(hedge ? c.hedge_ : c.regular_);
  if (result.error != 0) failed(c, result);
}

inline bool policy_calls::begin_hedge(policy_call& c, clock::time_point now) noexcept {
  if (budget_->available(now) == 0) {
    (void)budget_->withdraw(now);  // which counts the refusal
    return false;
  }
  if (begin(c.hedge_, c.until_, now) != 0) return false;
  (void)budget_->withdraw(now);  // last: a hedge that was refused for another reason takes nothing
  return true;
}

inline int policy_calls::begin_retry(policy_call& c) noexcept {
  return begin(c.regular_, c.until_, c.next_.service().read_clock());
}

inline policy_call* policy_calls::find(std::uint64_t id) const noexcept {
  policy_attempt* const a = attempts_.find(id);
  return a != nullptr ? &a->of_ : nullptr;
}

inline policy_call* policy_calls::complete(std::uint64_t id) noexcept {
  policy_attempt* const a = attempts_.find(id);
  if (a == nullptr) {
    ++stats_.unmatched;
    return nullptr;
  }
  policy_call& c = a->of_;
  if (times_.is_open()) measure(*a);
  if (a == &c.hedge_) ++stats_.hedges_won;
  end(c);
  ++stats_.answered;
  return &c;
}

inline bool policy_calls::fail(std::uint64_t id, int error, std::chrono::nanoseconds at_least) noexcept {
  require(error != 0, "call_policy::fail was given 0 for an error");
  policy_attempt* const a = attempts_.find(id);
  if (a == nullptr) {
    ++stats_.unmatched;
    return false;
  }
  policy_call& c = a->of_;
  const bool is_open = drop(*a);
  if (is_open && at_least.count() > 0)
    c.not_before_ = std::max(c.not_before_, add_saturating(c.next_.service().read_clock(), at_least));
  failed(c, {.error = error, .may_retry = is_open});
  return true;
}

// Handlers may start and end any call. So each call goes to the end of the list when its turn comes, until one of this round is the
// first.
inline std::size_t policy_calls::fail_all(int error) noexcept {
  require(error != 0, "call_policy::fail_all was given 0 for an error");
  const std::uint64_t round = ++round_;
  running here{running_};
  running_ = &here;
  std::size_t dropped = 0;
  while (!calls_.empty() && calls_.front().round_ < round) {
    policy_call& c = calls_.front();
    c.round_ = round;
    calls_.splice(calls_.end(), calls_, calls_.begin());
    bool is_open = false;
    const std::size_t before = dropped;
    for (policy_attempt* const a : {&c.regular_, &c.hedge_}) {
      if (!a->pending()) continue;
      is_open = drop(*a);
      ++dropped;
    }
    if (dropped == before) continue;
    failed(c, {.error = error, .may_retry = is_open});
    if (here.gone) return dropped;
  }
  running_ = here.outer;
  return dropped;
}

inline std::chrono::nanoseconds policy_calls::hedge_delay() const noexcept {
  if (!times_.is_open()) return std::chrono::nanoseconds::max();
  return times_.size() < answer_times::least ? options_.hedge_delay : times_.quantile(options_.hedge_quantile);
}

// Ends the wait of an attempt. Returns true if its service is open. The service may be gone, so its timers know that.
inline bool policy_calls::drop(policy_attempt& a) noexcept {
  const bool is_open = a.expiry_.armed();
  a.cancel();
  return is_open;
}

// An attempt of this call has failed. Nothing of the policy may be used afterwards.
inline void policy_calls::failed(policy_call& c, failure why) noexcept {
  if (goes_on(c, why)) return;
  end(c);
  ++stats_.failed;
  failed_(c, why.error);
}

// Returns true if another attempt waits, or will follow.
inline bool policy_calls::goes_on(policy_call& c, failure why) noexcept {
  if (c.regular_.pending() || c.hedge_.pending()) return true;
  c.next_.cancel();  // a hedge
  c.last_retry_ = why.may_retry ? schedule_retry(c) : retry_result::not_started;
  return c.last_retry_ == retry_result::scheduled;
}

inline retry_result policy_calls::schedule_retry(policy_call& c) noexcept {
  if (options_.max_attempts != call_policy_options::unlimited && c.attempts_ >= options_.max_attempts)
    return retry_result::out_of_attempts;
  const clock::time_point now = c.next_.service().read_clock();
  if (!c.wait_) c.wait_.emplace(options_.backoff, random_.next());
  const clock::time_point when = std::max(add_saturating(now, c.wait_->next()), c.not_before_);
  if (c.until_.passed(when)) return retry_result::past_deadline;
  if (budget_->available(now) == 0) {
    (void)budget_->withdraw(now);  // which counts the refusal
    return retry_result::out_of_budget;
  }
  if (c.next_.arm_at(when) != 0) return retry_result::limit_reached;  // the service is open, so that is the reason
  (void)budget_->withdraw(now);  // last: a retry that was refused for another reason takes nothing
  return retry_result::scheduled;
}

inline void policy_calls::measure(const policy_attempt& a) noexcept {
  if (!a.expiry_.armed()) return;  // its service may be gone
  const policy_call& c = a.of_;
  const clock::time_point since =
      c.regular_.pending() ? c.regular_.begun_ : a.begun_;  // a hedge is never the older one
  times_.add(std::max(c.next_.service().now() - since, std::chrono::nanoseconds::zero()));
}

inline void policy_calls::cancel(policy_call& c) noexcept {
  end(c);
  ++stats_.cancelled;
}

// Afterwards the call waits for nothing: it may be started again, or destroyed.
inline void policy_calls::end(policy_call& c) noexcept {
  c.regular_.cancel();
  c.hedge_.cancel();
  c.next_.cancel();
  c.in_ = nullptr;
  calls_.erase(calls_.iterator_to(c));
}

inline bool policy_calls::validate(std::string* why) const {
  const char* broken = nullptr;
  std::size_t waiting = 0;
  for (const policy_call& c : calls_) {
    if (c.in_ != this) broken = "a call is linked and not pending";
    if (options_.max_attempts != call_policy_options::unlimited && c.attempts_ > options_.max_attempts)
      broken = "a call has had more attempts than it may";
    if (c.hedge_.pending() && !times_.is_open()) broken = "a call has a hedge that is not allowed";
    if (c.regular_.pending() && c.hedge_.pending() && c.next_.armed()) broken = "a third attempt is to follow two";
    for (const policy_attempt* const a : {&c.regular_, &c.hedge_}) {
      if (!a->pending()) continue;
      ++waiting;
      if (attempts_.find(a->id()) != a) broken = "an attempt is not found by its id";
    }
  }
  if (waiting != attempts_.pending()) broken = "the count of waiting attempts is off";
  if (calls_.size() > capacity_) broken = "more calls are pending than may be";
  if (stats_.started != stats_.answered + stats_.failed + stats_.cancelled + calls_.size())
    broken = "some call has ended in no way, or in two";
  if (stats_.attempts != stats_.started + stats_.retries + stats_.hedges)
    broken = "some attempt is of no kind, or of two";
  if (!times_.validate()) broken = "the answer times are not sorted";
  if (broken == nullptr) return attempts_.validate(why);
  if (why != nullptr) *why = broken;
  return false;
}

}  // namespace detail

}  // namespace tickwheel
