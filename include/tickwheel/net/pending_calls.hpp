// Calls that wait for an answer. Each ends exactly once: its answer arrives, or its deadline passes.
//
// A connection may have several outstanding calls, whose answers arrive in any order. It keeps them here by their correlation
// ids. Derive the state of a call from `pending_call`:
//
//   struct call : tickwheel::pending_call {
//     using pending_call::pending_call;
//     void answered(reply r) noexcept;
//     void on_failed(int error) noexcept;       // UV_ETIMEDOUT, or the error given to fail_all; may `delete this`
//   };
//
//   class connection {
//     int ask(call& c, const question& q, tickwheel::deadline until) noexcept {
//       if (const int error = calls_.start(c, ++last_id_, until)) return error;     // and nothing was sent
//       return send(last_id_, q, until.remaining(timers_.now()));
//     }
//     void on_reply(const reply& r) noexcept {
//       if (call* c = calls_.complete(r.id)) c->answered(r);       // null: it came too late, or was never asked for
//     }
//     void on_lost() noexcept { calls_.fail_all(UV_ECONNRESET); }
//     tickwheel::pending_calls<&call::on_failed> calls_;           // calls_.open(10'000) before the first
//   };
//
// An answer that waits in the socket when the deadline passes is in time: readable input is handled before any timer is judged.
#pragma once

#include <tickwheel/core/detail/check.hpp>
#include <tickwheel/net/deadline.hpp>
#include <tickwheel/net/detail/argument_handler.hpp>
#include <tickwheel/uv/timer.hpp>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>

namespace tickwheel {

class pending_call;

/// How the calls of a `pending_calls` have ended since it was opened. At any time `started == answered + expired + failed +
/// cancelled + pending`.
struct pending_calls_stats {
  std::uint64_t started = 0;    ///< by `start`, without an error
  std::uint64_t answered = 0;   ///< by `complete`
  std::uint64_t expired = 0;    ///< because their deadline passed
  std::uint64_t failed = 0;     ///< by `fail_all`
  std::uint64_t cancelled = 0;  ///< or destroyed, or pending when the container was closed
  std::uint64_t refused = 0;    ///< by `start`, with any error
  std::uint64_t unmatched = 0;  ///< answers that no pending call waits for: late, repeated, or never asked for
};

namespace detail {

class policy_calls;

// The part of pending_calls that does not depend on the type of a call: a hash table with one chain per bucket, linked through
// the calls. There are at least as many buckets as calls may be pending, so the chains are short. A doubly linked hook, or a
// stored hash, would cost each call more than it costs to walk past a neighbour.
class call_table {
 public:
  using failure = void (*)(pending_call&, int error) noexcept;

  // Reports name a call that has expired `handler`.
  call_table(failure failed, wheel_entry::callback handler) noexcept : failed_{failed}, handler_{handler} {}
  ~call_table() { close(); }
  call_table(const call_table&) = delete;
  call_table& operator=(const call_table&) = delete;

  [[nodiscard]] int open(std::size_t capacity) noexcept;
  void close() noexcept;
  bool is_open() const noexcept { return buckets_ != nullptr; }

  [[nodiscard]] int start(pending_call&, std::uint64_t id, tickwheel::deadline until,
                          const clock::time_point* now) noexcept;
  pending_call* find(std::uint64_t id) const noexcept;
  pending_call* complete(std::uint64_t id) noexcept;
  std::size_t fail_all(int error) noexcept;

  std::size_t pending() const noexcept { return pending_; }
  std::size_t capacity() const noexcept { return capacity_; }
  const pending_calls_stats& stats() const noexcept { return stats_; }
  bool validate(std::string* why) const;

 private:
  friend class tickwheel::pending_call;

  // A walk over all calls while handlers run. The handlers may start, end and destroy calls, begin walks of their own, and
  // destroy the table.
  struct walk {
    walk* outer;
    bool gone = false;
  };

  std::size_t bucket_count() const noexcept { return std::size_t{1} << (64 - shift_); }
  // Fibonacci hashing: ids that count up, and multiples of any number, get different buckets.
  pending_call*& bucket_of(std::uint64_t id) const noexcept { return buckets_[(id * 0x9e3779b97f4a7c15) >> shift_]; }

  [[nodiscard]] int admit(pending_call&, std::uint64_t id, tickwheel::deadline until,
                          const clock::time_point* now) const noexcept;
  void remove(pending_call&) noexcept;
  void cancel(pending_call&) noexcept;
  void expire(pending_call&) noexcept;
  pending_call* first_of_before(std::size_t bucket, std::uint64_t round) const noexcept;

  failure failed_;
  wheel_entry::callback handler_;
  std::unique_ptr<pending_call*[]> buckets_;  // null: closed
  unsigned shift_ = 0;                        // 64 - log2 of the number of buckets
  std::size_t pending_ = 0;
  std::size_t capacity_ = 0;
  std::uint64_t round_ = 0;  // number of calls of fail_all, which fails the calls started in an earlier round
  walk* walks_ = nullptr;    // the walks in progress
  pending_calls_stats stats_;
};

}  // namespace detail

/// The base of a call: it has the hook, the timer and the id by which a `pending_calls` knows the call. 88 bytes.
///
/// *Thread safety:* the loop thread only, checked. *Complexity:* O(1) on average. *Errors:* none. *Lifetime:* neither copies nor
/// moves. It may be destroyed at any time, which cancels it: before or after the container and the service, also in its own
/// handler.
class pending_call {
 public:
  /// Requires: `service` belongs to the loop on which the container is used, and outlives every start.
  explicit pending_call(timer_service& service) noexcept : expiry_{service, *this} {}
  ~pending_call() { cancel(); }
  pending_call(const pending_call&) = delete;
  pending_call& operator=(const pending_call&) = delete;

  /// Returns true if it was pending: its caller no longer needs the answer. No handler runs, the id is free at once, and a later
  /// answer counts as unmatched.
  bool cancel() noexcept {
    if (in_ == nullptr) return false;
    in_->cancel(*this);
    return true;
  }

  /// Returns true from `start` until it is answered, fails or is cancelled. In its handler it is no longer pending.
  bool pending() const noexcept { return in_ != nullptr; }

  /// Returns the id of the last start; 0 if it was never started.
  std::uint64_t id() const noexcept { return id_; }

  /// Returns when it expires: its deadline, rounded up to a tick. `time_point::max()`: it never expires in practice, or is not
  /// pending.
  clock::time_point expires_at() const noexcept { return expiry_.deadline(); }

  /// Keeps the loop alive while it is pending. Idempotent.
  void ref() noexcept { expiry_.ref(); }
  /// Does not keep the loop alive any more. Idempotent.
  void unref() noexcept { expiry_.unref(); }
  /// Returns true if it keeps the loop alive while it is pending; true at first.
  bool has_ref() const noexcept { return expiry_.has_ref(); }

 private:
  friend class detail::call_table;
  friend class detail::policy_calls;  // to know whether the service was closed

  // A member, not a base: a class that derives from a call would inherit the timer's names, such as `deadline`.
  struct expiry : timer {
    expiry(timer_service& on, pending_call& call) noexcept
        : timer{on, detail::callback_of_type<&run, pending_call>::get()}, of{call} {}
    using timer::refuse_when_closed;
    using timer::report_as;
    using timer::service;
    static void run(wheel_entry& entry) noexcept {
      pending_call& call = static_cast<expiry&>(timer::from(entry)).of;
      call.in_->expire(call);
    }
    pending_call& of;
  };

  expiry expiry_;
  pending_call* next_ = nullptr;  // of the same bucket
  detail::call_table* in_ = nullptr;
  std::uint64_t id_ = 0;
  std::uint64_t round_ = 0;
};

static_assert(sizeof(void*) != 8 || sizeof(pending_call) <= 88);

namespace detail {

template <>
inline constexpr bool stays_in_place<pending_call> = true;

}  // namespace detail

/// `Member` is a pointer to a noexcept member function of a call that takes an int, the UV_ code. libuv's C frames call it, and
/// cannot be unwound. Do not overload it.
template <auto Member>
concept noexcept_failure_handler = noexcept_argument_handler<Member, int>;

/// The calls of one connection, or of one loop, that wait for their answers, by correlation id.
///
/// The handler tells a call that it gets no answer: with UV_ETIMEDOUT if its deadline has passed, or with the error given to
/// `fail_all`. It runs once for each call that was started and not completed, cancelled or destroyed before. By then the call is
/// not pending: it may be started again, or destroyed. The handler may do anything: start, complete, cancel and destroy any call,
/// and close or destroy the container and the service.
///
/// Choose ids that are unique among the pending ones. Counting up is best, because the id of a late answer is then not soon used
/// again. One multiplication spreads the ids over the buckets, so do not let a peer choose them.
///
/// *Thread safety:* the loop thread only; arming and cancelling a timer check that. *Complexity:* `start`, `complete`, `find` and
/// cancelling are O(1) on average and allocate nothing. `fail_all` and `close` are O(capacity), in one call. *Errors:* UV_ codes,
/// as each function says. *Lifetime:* it may be destroyed at any time, also in a handler. Pending calls are then cancelled, and
/// no handler runs. Once the service is closed, pending calls do not expire any more; everything else still works.
template <auto Member, class = decltype(Member)>
requires noexcept_failure_handler<Member>
class pending_calls : private detail::call_table {
 public:
  /// The type of a call. Derives from `pending_call`.
  using call = typename detail::member_handler<decltype(Member), int>::owner;

  /// A closed container: call `open` before the first `start`.
  pending_calls() noexcept : call_table{&fail, handler()} {}

  /// Tells the handler of a call that has expired from others, in `timer_service::why`, `on_slow_handler` and metrics. `dump` writes
  /// all pending calls as `tickwheel::pending_call`.
  static wheel_entry::callback handler() noexcept {
    static_cast<void>(&handler_name_);  // so that it exists
    return handler_id();
  }

  /// Makes room for `capacity` pending calls: allocates between 8 and 16 bytes for each, once.
  ///
  /// 0: it is open. On an error nothing has changed.
  /// UV_EINVAL: `capacity` is zero.
  /// UV_EALREADY: it is already open.
  /// UV_ENOMEM: there is no memory.
  [[nodiscard]] int open(std::size_t capacity) noexcept { return call_table::open(capacity); }

  /// Cancels the pending calls. No handler runs, and starting a call answers UV_ECANCELED. Idempotent; it may be opened again.
  using call_table::close;
  /// Returns true between `open` and `close`.
  using call_table::is_open;

  /// Lets `c` wait for the answer with this `id` until `until` has passed. Start a call before you send it, so that a refused
  /// call is not sent. Reads the clock.
  ///
  /// 0: it is pending. On an error only the count of refused calls has changed, and the handler does not run for it.
  /// UV_ETIMEDOUT: `until` has passed.
  /// UV_ENOBUFS: `capacity` calls are pending, or `max_armed` timers are armed.
  /// UV_EEXIST: a pending call has this id.
  /// UV_EALREADY: `c` is already pending.
  /// UV_ECANCELED: the container or the service is closed.
  [[nodiscard]] int start(call& c, std::uint64_t id, tickwheel::deadline until) noexcept {
    return call_table::start(c, id, until, nullptr);
  }

  /// As above, judged by `now`, such as `timer_service::now()`. Reads the clock only if the loop must wake up earlier.
  [[nodiscard]] int start(call& c, std::uint64_t id, tickwheel::deadline until, clock::time_point now) noexcept {
    return call_table::start(c, id, until, &now);
  }

  /// Reports an answer with this `id`. Returns the call that waited for it. That call is no longer pending and its handler will
  /// not run; the caller handles the answer. Returns null if no call waits: the answer is late, repeated, or was never asked for.
  /// Drop such an answer; it is counted.
  [[nodiscard]] call* complete(std::uint64_t id) noexcept { return static_cast<call*>(call_table::complete(id)); }

  /// Returns the pending call with this `id`, which stays pending. Null if there is none.
  call* find(std::uint64_t id) const noexcept { return static_cast<call*>(call_table::find(id)); }

  /// Fails all pending calls, for instance when the connection is lost. Runs the handler of each with `error`, in no order, and
  /// returns their number. A call that a handler starts meanwhile, such as a retry, is not failed. One that a handler cancels is
  /// not notified. Requires: `error` is not 0 (checked).
  std::size_t fail_all(int error) noexcept { return call_table::fail_all(error); }

  /// Returns the number of pending calls.
  using call_table::pending;
  /// Returns the capacity given to `open`; zero if closed.
  using call_table::capacity;
  /// Returns the counts since `open`. They stay readable after `close`.
  using call_table::stats;

  /// Checks every invariant. Returns false if one is broken, and `why` says which. O(capacity).
  bool validate(std::string* why = nullptr) const { return call_table::validate(why); }

 private:
  static wheel_entry::callback handler_id() noexcept {
    return reinterpret_cast<wheel_entry::callback>(reinterpret_cast<void (*)()>(&fail));
  }
  TICKWHEEL_LOCAL inline static const named_handler handler_name_{handler_id(), detail::name_of_member<Member>()};

  static void fail(pending_call& c, int error) noexcept {
    static_assert(std::derived_from<call, pending_call>, "a call in pending_calls must derive from pending_call");
    (static_cast<call&>(c).*Member)(error);
  }
};

namespace detail {

inline int call_table::open(std::size_t capacity) noexcept {
  if (is_open()) return UV_EALREADY;
  if (capacity == 0) return UV_EINVAL;
  if (capacity > std::numeric_limits<std::size_t>::max() / (4 * sizeof(void*))) return UV_ENOMEM;
  const std::size_t buckets = std::bit_ceil(capacity < 2 ? 2 : capacity);  // at least two: no shift by 64
  buckets_.reset(new (std::nothrow) pending_call* [buckets] {});
  if (!is_open()) return UV_ENOMEM;
  shift_ = 64 - static_cast<unsigned>(std::countr_zero(buckets));
  capacity_ = capacity;
  stats_ = {};
  return 0;
}

inline void call_table::close() noexcept {
  if (!is_open()) return;
  for (; walks_ != nullptr; walks_ = walks_->outer) walks_->gone = true;
  for (std::size_t i = 0; pending_ != 0; ++i)
    while (buckets_[i] != nullptr) cancel(*buckets_[i]);
  buckets_.reset();
  capacity_ = 0;
}

inline int call_table::start(pending_call& c, std::uint64_t id, tickwheel::deadline until,
                             const clock::time_point* now) noexcept {
  if (const int error = admit(c, id, until, now)) {
    ++stats_.refused;
    return error;
  }
  pending_call*& first = bucket_of(id);
  c.next_ = std::exchange(first, &c);
  c.in_ = this;
  c.id_ = id;
  c.round_ = round_;
  ++pending_;
  ++stats_.started;
  return 0;
}

// Returns 0 if the call may be started; its timer is then armed.
inline int call_table::admit(pending_call& c, std::uint64_t id, tickwheel::deadline until,
                             const clock::time_point* now) const noexcept {
  if (!c.expiry_.service().is_open()) return c.expiry_.refuse_when_closed();
  if (!is_open()) return UV_ECANCELED;
  if (c.pending()) return UV_EALREADY;
  if (until.passed(now != nullptr ? *now : c.expiry_.service().read_clock())) return UV_ETIMEDOUT;
  if (pending_ == capacity_) return UV_ENOBUFS;
  if (find(id) != nullptr) return UV_EEXIST;
  return c.expiry_.arm_at(until.when);
}

inline pending_call* call_table::find(std::uint64_t id) const noexcept {
  if (!is_open()) return nullptr;
  pending_call* c = bucket_of(id);
  while (c != nullptr && c->id_ != id) c = c->next_;
  return c;
}

inline pending_call* call_table::complete(std::uint64_t id) noexcept {
  pending_call* const c = find(id);
  if (c == nullptr) {
    ++stats_.unmatched;
    return nullptr;
  }
  remove(*c);
  ++stats_.answered;
  return c;
}

// Afterwards the call is neither in the table nor armed: it may be started again, or destroyed.
inline void call_table::remove(pending_call& c) noexcept {
  pending_call** link = &bucket_of(c.id_);
  while (*link != &c) link = &(*link)->next_;
  *link = c.next_;
  c.in_ = nullptr;
  c.expiry_.cancel();
  --pending_;
}

inline void call_table::cancel(pending_call& c) noexcept {
  remove(c);
  ++stats_.cancelled;
}

inline void call_table::expire(pending_call& c) noexcept {
  remove(c);
  ++stats_.expired;
  c.expiry_.report_as(handler_);
  failed_(c, UV_ETIMEDOUT);
}

// Handlers may change any bucket. So each bucket is read from its beginning until it has no call of an earlier round.
inline std::size_t call_table::fail_all(int error) noexcept {
  require(error != 0, "pending_calls::fail_all was given 0 for an error");
  if (!is_open()) return 0;
  const std::uint64_t until_round = ++round_;
  walk here{walks_};
  walks_ = &here;
  std::size_t failed = 0;
  for (std::size_t i = 0; i != bucket_count() && pending_ != 0; ++i) {
    while (pending_call* const c = first_of_before(i, until_round)) {
      remove(*c);
      ++stats_.failed;
      ++failed;
      failed_(*c, error);
      if (here.gone) return failed;  // closed, and perhaps opened again, or destroyed
    }
  }
  walks_ = here.outer;
  return failed;
}

inline pending_call* call_table::first_of_before(std::size_t bucket, std::uint64_t round) const noexcept {
  pending_call* c = buckets_[bucket];
  while (c != nullptr && c->round_ >= round) c = c->next_;
  return c;
}

inline bool call_table::validate(std::string* why) const {
  const char* broken = nullptr;
  std::size_t linked = 0;
  const std::span<pending_call* const> buckets{buckets_.get(), is_open() ? bucket_count() : 0};
  for (pending_call* const& first : buckets) {
    for (const pending_call* c = first; c != nullptr && linked <= capacity_; c = c->next_, ++linked) {
      if (c->in_ != this) broken = "a call is linked and not pending";
      if (&bucket_of(c->id_) != &first) broken = "a call is in the bucket of another id";
    }
  }
  if (linked != pending_) broken = "the count of pending calls is off";
  if (pending_ > capacity_) broken = "more calls are pending than may be";
  if (stats_.started != stats_.answered + stats_.expired + stats_.failed + stats_.cancelled + pending_)
    broken = "some call has ended in no way, or in two";
  if (broken != nullptr && why != nullptr) *why = broken;
  return broken == nullptr;
}

}  // namespace detail

}  // namespace tickwheel
