// Calls that wait for an answer: each ends when its answer arrives or when its deadline passes, exactly one of the two.
//
// A connection that has several calls out at once, over which answers come in any order, keeps them here by their
// correlation ids. Derive what a call has to remember from `pending_call`:
//
//   struct call : tickwheel::pending_call {
//     using pending_call::pending_call;
//     void answered(reply r) noexcept;
//     void on_failed(int error) noexcept;       // UV_ETIMEDOUT, or what fail_all was given; may `delete this`
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
// An answer that waits in the socket when the deadline passes is in time: what was readable is handled before any timer
// is judged.
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
#include <string>
#include <utility>

namespace tickwheel {

class pending_call;

/// What became of the calls of a `pending_calls` since it was opened. At any time
/// `started == answered + expired + failed + cancelled + pending`.
struct pending_calls_stats {
  std::uint64_t started = 0;    ///< by `start`, without an error
  std::uint64_t answered = 0;   ///< by `complete`
  std::uint64_t expired = 0;    ///< their deadline passed
  std::uint64_t failed = 0;     ///< by `fail_all`
  std::uint64_t cancelled = 0;  ///< or destroyed, or pending when the container was closed
  std::uint64_t refused = 0;    ///< by `start`, with whatever error
  std::uint64_t unmatched = 0;  ///< answers to no pending call: late, repeated, or never asked for
};

namespace detail {

// The part of pending_calls that does not depend on the type of a call: a hash table with a chain a bucket, linked through the
// calls. There are at least as many buckets as calls may be pending, so that a chain is short. A doubly linked hook, or
// keeping the hash, would cost each call more than walking past a neighbour does.
class call_table {
 public:
  using failure = void (*)(pending_call&, int error) noexcept;

  explicit call_table(failure failed) noexcept : failed_{failed} {}
  ~call_table() { close(); }
  call_table(const call_table&) = delete;
  call_table& operator=(const call_table&) = delete;

  int open(std::size_t capacity) noexcept;
  void close() noexcept;
  bool is_open() const noexcept { return buckets_ != nullptr; }

  int start(pending_call&, std::uint64_t id, tickwheel::deadline until, const clock::time_point* now) noexcept;
  pending_call* find(std::uint64_t id) const noexcept;
  pending_call* complete(std::uint64_t id) noexcept;
  std::size_t fail_all(int error) noexcept;

  std::size_t pending() const noexcept { return pending_; }
  std::size_t capacity() const noexcept { return capacity_; }
  const pending_calls_stats& stats() const noexcept { return stats_; }
  bool validate(std::string* why) const;

 private:
  friend class tickwheel::pending_call;

  // A walk over all calls while handlers run, which may start, end and destroy calls, walk themselves, and destroy us.
  struct walk {
    walk* outer;
    bool gone = false;
  };

  std::size_t bucket_count() const noexcept { return std::size_t{1} << (64 - shift_); }
  // Fibonacci hashing: ids that count up, and multiples of anything, go to buckets of their own.
  pending_call*& bucket_of(std::uint64_t id) const noexcept { return buckets_[(id * 0x9e3779b97f4a7c15) >> shift_]; }

  int admit(pending_call&, std::uint64_t id, tickwheel::deadline until, const clock::time_point* now) const noexcept;
  void remove(pending_call&) noexcept;
  void cancel(pending_call&) noexcept;
  void expire(pending_call&) noexcept;
  pending_call* first_of_before(std::size_t bucket, std::uint64_t round) const noexcept;

  failure failed_;
  std::unique_ptr<pending_call*[]> buckets_;  // null: closed
  unsigned shift_ = 0;                        // 64 - log2 of how many there are
  std::size_t pending_ = 0;
  std::size_t capacity_ = 0;
  std::uint64_t round_ = 0;  // how often fail_all was called: what it fails was started in an earlier one
  walk* walks_ = nullptr;    // those that are going on
  pending_calls_stats stats_;
};

}  // namespace detail

/// What a call derives from: the hook, the timer and the id by which a `pending_calls` has it. 88 bytes.
///
/// *Thread safety:* the loop thread only, checked. *Complexity:* O(1) on average. *Errors:* none. *Lifetime:* stays
/// where it is; may be destroyed at any time, which cancels it, before or after the container and the service, in its
/// own handler too.
class pending_call {
 public:
  /// Requires: `service` is that of the loop which the container is used on, and outlives every start.
  explicit pending_call(timer_service& service) noexcept : expiry_{service, *this} {}
  ~pending_call() { cancel(); }
  pending_call(const pending_call&) = delete;
  pending_call& operator=(const pending_call&) = delete;

  /// True when it was pending: its caller is not interested any more. No handler runs, its id is free at once, and an
  /// answer that comes later is counted as unmatched.
  bool cancel() noexcept {
    if (in_ == nullptr) return false;
    in_->cancel(*this);
    return true;
  }

  /// True from `start` until it is answered, has failed or is cancelled. Not any more within its handler.
  bool pending() const noexcept { return in_ != nullptr; }

  /// What it was started with last; 0 when it never was.
  std::uint64_t id() const noexcept { return id_; }

  /// When it expires: its deadline, rounded up to a tick. `time_point::max()`: in effect never, or not pending.
  clock::time_point expires_at() const noexcept { return expiry_.deadline(); }

  /// Whether it keeps the loop alive while it is pending. It does until `unref()`.
  void ref() noexcept { expiry_.ref(); }
  /// See `ref`.
  void unref() noexcept { expiry_.unref(); }
  /// See `ref`; true at first.
  bool has_ref() const noexcept { return expiry_.has_ref(); }

 private:
  friend class detail::call_table;

  // A member, not a base: what derives from a call would inherit its names, and mean that when it says `deadline`.
  struct expiry : timer {
    expiry(timer_service& on, pending_call& call) noexcept : timer{on, &run}, of{call} {}
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

/// `Member` is a pointer to a member function of a call that takes an int, the UV_ code, and is declared noexcept:
/// libuv's C frames, which call it, cannot be unwound. Do not overload it.
template <auto Member>
concept noexcept_failure_handler = noexcept_argument_handler<Member, int>;

/// The calls of one connection, or of one loop, that wait for their answers, by correlation id. The handler tells a
/// call that no answer will be taken any more: UV_ETIMEDOUT when its deadline has passed, or what `fail_all` was given.
/// It runs once for a call that was started and not completed, cancelled or destroyed before. By then the call is not
/// pending: it may be started again, or destroyed. The handler may do anything: start, complete, cancel and destroy any
/// call, and close or destroy the container and the service.
///
/// Ids are yours to choose, unique among the pending ones; counting up is best, as the id of a late answer then does
/// not come again soon. They are spread over buckets by one multiplication: do not let a peer choose them.
///
/// *Thread safety:* the loop thread only, checked where a timer is armed or cancelled. *Complexity:* `start`,
/// `complete`, `find` and cancelling are O(1) on average and allocate nothing; `fail_all` and `close` are O(capacity), in
/// one go. *Errors:* UV_ codes, as each function says. *Lifetime:* may be destroyed at any time, in a handler too;
/// pending calls are then cancelled, no handler runs. Once the service is closed pending calls do not expire any more,
/// and all else still works.
template <auto Member, class = decltype(Member)>
requires noexcept_failure_handler<Member>
class pending_calls : private detail::call_table {
 public:
  /// Derives from `pending_call`.
  using call = typename detail::member_handler<decltype(Member), int>::owner;

  /// Closed: `open` it.
  pending_calls() noexcept : call_table{&fail} {}

  /// Makes room for `capacity` pending calls: allocates between 8 and 16 bytes for each, once. 0; UV_EINVAL when `capacity` is
  /// zero; UV_ENOMEM; UV_EALREADY when it is open. On an error nothing has changed.
  [[nodiscard]] int open(std::size_t capacity) noexcept { return call_table::open(capacity); }

  /// Cancels what is pending: no handler runs, and starting a call answers UV_ECANCELED. Idempotent; it may be opened
  /// again.
  using call_table::close;
  /// True between `open` and `close`.
  using call_table::is_open;

  /// `c` waits for the answer with this `id` from now on, until `until` has passed. Start it before sending, so that
  /// what is refused is not sent.
  ///
  /// 0; UV_ETIMEDOUT when `until` has passed; UV_ENOBUFS when `capacity` calls are pending, or `max_armed` timers armed;
  /// UV_EEXIST when a pending one has this id; UV_EALREADY when `c` is pending; UV_ECANCELED when this or the service
  /// is closed. On an error nothing has changed but the count of refused ones, and the handler does not run for it.
  /// Reads the clock.
  [[nodiscard]] int start(call& c, std::uint64_t id, tickwheel::deadline until) noexcept {
    return call_table::start(c, id, until, nullptr);
  }

  /// As above, with the time to judge by, such as `timer_service::now()`. Reads no clock.
  [[nodiscard]] int start(call& c, std::uint64_t id, tickwheel::deadline until, clock::time_point now) noexcept {
    return call_table::start(c, id, until, &now);
  }

  /// An answer with this `id` has arrived. The call that waited for it, which is not pending any more: its handler will
  /// not run, and what is to be done with the answer is the caller's. Null when there is none, that is when the answer
  /// is late, has come before, or was never asked for: drop it, it is counted.
  [[nodiscard]] call* complete(std::uint64_t id) noexcept { return static_cast<call*>(call_table::complete(id)); }

  /// The pending call with this `id`, which stays pending; null when there is none.
  call* find(std::uint64_t id) const noexcept { return static_cast<call*>(call_table::find(id)); }

  /// The connection is lost: runs the handler of each pending call with `error`, in no order, and says of how many. A
  /// call that a handler meanwhile starts, that is a retry, is not failed, and one that a handler cancels is not told.
  /// Requires: `error` is not 0 (checked).
  std::size_t fail_all(int error) noexcept { return call_table::fail_all(error); }

  /// How many are pending.
  using call_table::pending;
  /// What `open` was given; zero when closed.
  using call_table::capacity;
  /// Since `open`; stays readable after `close`.
  using call_table::stats;

  /// Checks every invariant; false when one is broken, and `why` says which. O(capacity).
  bool validate(std::string* why = nullptr) const { return call_table::validate(why); }

 private:
  static void fail(pending_call& c, int error) noexcept {
    static_assert(std::derived_from<call, pending_call>, "what is kept in pending_calls derives from pending_call");
    (static_cast<call&>(c).*Member)(error);
  }
};

namespace detail {

inline int call_table::open(std::size_t capacity) noexcept {
  if (is_open()) return UV_EALREADY;
  if (capacity == 0) return UV_EINVAL;
  if (capacity > std::numeric_limits<std::size_t>::max() / (4 * sizeof(void*))) return UV_ENOMEM;
  const std::size_t buckets = std::bit_ceil(capacity < 2 ? 2 : capacity);  // two at least, as no shift is by 64
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

// 0 when the call may be started; its timer is armed then.
inline int call_table::admit(pending_call& c, std::uint64_t id, tickwheel::deadline until,
                             const clock::time_point* now) const noexcept {
  if (!is_open() || !c.expiry_.service().is_open()) return UV_ECANCELED;
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

// Neither in the table nor armed: from here on it may be started again, or destroyed.
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
  failed_(c, UV_ETIMEDOUT);
}

// Handlers may change any bucket, so that each is looked at from its beginning until it has nothing more of before.
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
      if (here.gone) return failed;  // closed, and maybe opened again, or destroyed
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
  for (std::size_t i = 0; is_open() && i != bucket_count(); ++i) {
    for (const pending_call* c = buckets_[i]; c != nullptr && linked <= capacity_; c = c->next_, ++linked) {
      if (c->in_ != this) broken = "a call is linked and not pending";
      if (&bucket_of(c->id_) != &buckets_[i]) broken = "a call is in the bucket of another id";
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
