// Runs blocking work on libuv's thread pool, now or later, and brings the result back to the loop.
//
// Use it for work that must not run on the loop: hashing a password, reading a file, calling a library that waits. For short
// work that only has to happen later, use a `member_timer`.
//
//   class session {
//    public:
//     session(tickwheel::timer_service& timers, tickwheel::offload_pool& pool) : check_{timers, pool, *this} {}
//     void on_login(std::string password) {
//       check_.run([p = std::move(password), id = id_]() noexcept { return matches(id, p); });    // now, on the pool
//     }
//     void recheck_later() {
//       check_.arm(30s, [id = id_]() noexcept { return is_still_allowed(id); });                   // in 30 s
//     }
//    private:
//     void on_checked(int error, bool* allowed) noexcept;     // on the loop; may `delete this`
//     tickwheel::offload<&session::on_checked> check_;
//   };
//
// The work owns its captures. It runs on another thread, and the session that asked for it may be gone by then. The work must
// not touch the loop, its timers or the session, except through objects made for other threads, such as a `remote_handle`. It
// is destroyed on the loop's thread.
//
// The handler is called exactly once for each run. It is not called if the run was cancelled, its owner destroyed, or the pool
// closed, even if the work was finished and its result on the way.
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/uv/timer.hpp>

#include <uv.h>
#include <boost/intrusive/list.hpp>

#include <chrono>
#include <cstddef>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

namespace tickwheel {

class offload_base;
class offload_pool;

namespace detail {

/// Work, room for its result, and libuv's request, in one block.
class TICKWHEEL_API offload_task : public boost::intrusive::list_base_hook<> {
 public:
  offload_task() noexcept { request.data = this; }
  offload_task(const offload_task&) = delete;
  offload_task& operator=(const offload_task&) = delete;
  virtual ~offload_task() = default;

  /// Called on a thread of the pool.
  virtual void work() noexcept = 0;

  uv_work_t request{};
  offload_pool* pool = nullptr;   // set while in flight; null once the pool was closed
  offload_base* owner = nullptr;  // called at the end; null: nobody
};

}  // namespace detail

/// An aggregate.
struct offload_options {
  /// The number of works that may be with the pool at once, queued or running; at least 1. The pool has four threads unless
  /// UV_THREADPOOL_SIZE says otherwise. The whole process shares it: file operations and name lookups wait behind queued work.
  std::size_t max_in_flight = 64;

  /// Returns a message that names the first invalid field, or null if all fields are valid.
  constexpr const char* problem() const noexcept {
    return max_in_flight == 0 ? "offload_options::max_in_flight is zero" : nullptr;
  }
};

/// One loop's bound on its work with the pool. Work beyond the bound is refused with UV_EAGAIN at once, not queued, because
/// waiting longer for a full pool gains nothing.
///
/// *Thread safety:* the loop thread only, not checked. *Complexity:* O(1). *Errors:* `open` answers a UV_ code. *Lifetime:*
/// outlives the runs asked of it: destroy it when nothing is armed that would run on it. What is in flight does not matter, as
/// closing lets go of it. The loop outlives it, and is to be run until it ends, or uv_loop_close answers UV_EBUSY: libuv
/// returns what is with the pool to the loop. In the child of a fork it works as before. Work that was in flight then is only
/// the parent's. It is neither answered nor freed in the child, and keeps the child's loop alive. Fork when none is in flight.
/// A thread that takes work, or has done it, at that moment has the lock of libuv's pool. The child then waits for that lock
/// for ever when it cancels a run or closes the pool.
class TICKWHEEL_API offload_pool {
 public:
  offload_pool() noexcept = default;
  /// Closes.
  ~offload_pool() { close(); }
  offload_pool(const offload_pool&) = delete;
  offload_pool& operator=(const offload_pool&) = delete;

  /// Opens the pool. A closed pool can be opened again. Returns 0.
  /// UV_EINVAL: `options.problem()` names an invalid field.
  /// UV_EALREADY: the pool is open.
  [[nodiscard]] int open(uv_loop_t& loop, const offload_options& options = {}) noexcept;

  /// Cancels all that is in flight: work that no thread has begun never runs, what runs does so to its end, and no
  /// handler is called. What is armed is answered with UV_ECANCELED when its time has come. Idempotent; O(in flight).
  void close() noexcept;

  /// Returns true between `open` and `close`.
  bool is_open() const noexcept { return loop_ != nullptr; }

  /// How many works are with the pool, those included that nobody waits for any more: they take their place until they
  /// have ended. Of this opening.
  std::size_t in_flight() const noexcept { return in_flight_.size(); }
  /// Returns the number of works that were refused at the bound.
  std::size_t refused() const noexcept { return refused_; }

 private:
  friend class offload_base;

  int submit(detail::offload_task& task) noexcept;
  static void on_work(uv_work_t* request) noexcept;
  static void on_returned(uv_work_t* request, int status) noexcept;

  uv_loop_t* loop_ = nullptr;  // null: closed
  std::size_t max_in_flight_ = 0;
  std::size_t refused_ = 0;
  boost::intrusive::list<detail::offload_task> in_flight_;
};

/// What does not depend on the handler; `offload` is the one to embed. *Thread safety, complexity, errors, lifetime:* as
/// `offload`.
class TICKWHEEL_API offload_base : private timer {
 public:
  /// Cancels the run: the handler is not called. Returns true if it was armed or in flight. Work that no thread of the pool has
  /// begun never runs. Work that runs is not interrupted.
  bool cancel() noexcept;

  /// Returns true while it waits for its time.
  bool armed() const noexcept { return timer::armed(); }
  /// Returns true from the time at which the work is given to the pool until the handler is called.
  bool in_flight() const noexcept { return task_ != nullptr && task_->pool != nullptr; }

  using timer::deadline;
  using timer::handler;
  using timer::has_ref;  ///< as of `timer`
  using timer::ref;      ///< as of `timer`
  using timer::unref;    ///< as of `timer`

 protected:
  using task = detail::offload_task;  ///< a work and room for its result
  /// Tells the handler: an error, or a task with its result.
  using teller = void (*)(offload_base&, int error, task*) noexcept;

  /// Requires: `tell` is not null; `service` and `pool` outlive every `arm` and `run`.
  offload_base(timer_service& service, offload_pool& pool, teller tell) noexcept
      : timer{service, &expire}, pool_{pool}, tell_{tell} {}
  ~offload_base() { cancel(); }

  /// As `offload::arm`. Takes what was made, null when memory was short, and frees it when it refuses it.
  int arm(task* made, std::chrono::nanoseconds after) noexcept;
  /// As `offload::run`, likewise.
  int run(task* made) noexcept;

 private:
  friend class offload_pool;

  static void expire(wheel_entry& entry) noexcept;
  static void let_go(task* of) noexcept;

  offload_pool& pool_;
  teller tell_;
  task* task_ = nullptr;  // armed or in flight
};

namespace detail {

template <class>
struct offload_handler {
  static constexpr bool is_noexcept = false;
  using result = void;
};
template <class R, class Owner>
struct offload_handler<R (Owner::*)(int) noexcept> {
  static constexpr bool is_noexcept = true;
  /// The class that `Member` is of.
  using owner = Owner;
  using result = void;
};
template <class R, class Owner, class Result>
struct offload_handler<R (Owner::*)(int, Result*) noexcept> {
  static constexpr bool is_noexcept = true;
  /// The class that `Member` is of.
  using owner = Owner;
  using result = Result;
};

// Work with a place for what it returns.
template <class Result>
class offload_result : public offload_task {
 public:
  Result* result() noexcept { return value_ ? &*value_ : nullptr; }

 protected:
  std::optional<Result> value_;
};
template <>
class offload_result<void> : public offload_task {};

template <class Result, class Work>
class offload_work final : public offload_result<Result> {
 public:
  explicit offload_work(Work&& work) noexcept : work_{std::move(work)} {}

 private:
  void work() noexcept override {
    if constexpr (std::is_void_v<Result>)
      work_();
    else
      this->value_.emplace(work_());
  }

  Work work_;
};

}  // namespace detail

/// `Member` is a pointer to a member function `void (int error) noexcept` or `void (int error, Result*) noexcept`.
template <auto Member>
concept noexcept_offload_handler = detail::offload_handler<decltype(Member)>::is_noexcept;

/// `Work` can be called without arguments, is noexcept, and returns what `Result` can be made of without an exception.
/// Moving the one or the other throws nothing.
template <class Work, class Result>
concept noexcept_offload_work = std::is_nothrow_invocable_r_v<Result, Work&> &&
    std::is_nothrow_move_constructible_v<Work> &&
    (std::is_void_v<Result> || std::is_nothrow_move_constructible_v<Result>);

/// One work at a time, now or later, and a member function of its owner that is told the end of it.
///
/// The handler is called on the loop with 0 and the result, which it may move from and which is gone when it returns;
/// or, after an `arm`, with an error and no result: UV_EAGAIN when the time had come and the pool's bound was reached,
/// UV_ECANCELED when the pool was closed by then.
///
/// *Thread safety:* the loop thread only, but for the work. *Complexity:* `arm` and `run` allocate one block for the
/// work and its result; to give it to the pool takes libuv's mutex, and wakes a thread; the rest is O(1) and allocates nothing.
/// *Errors:* as said with each. *Lifetime:* may be
/// destroyed at any time, in its handler too, which cancels it; its memory is freed once the pool is through with the
/// work. When the timer service closes, what is armed is not run, and what is in flight is answered as usual: it is the
/// loop's. Once the service is destroyed only `run`, `cancel`, `armed`, `in_flight` and the destructor may be called.
template <auto Member, class = decltype(Member)>
requires noexcept_offload_handler<Member>
class offload : public offload_base {
 public:
  /// The class that `Member` is of.
  using owner = typename detail::offload_handler<decltype(Member)>::owner;
  /// What the work answers with, and the handler is given.
  using result = typename detail::offload_handler<decltype(Member)>::result;

  /// Requires: `self` lives as long as this does; `pool` outlives each `arm` and `run`.
  offload(timer_service& service, offload_pool& pool, owner& self) noexcept
      : offload_base{service, pool, &tell}, self_{self} {}

  /// Gives `work` to the pool once `after` has passed. Cancels a former run first. Returns 0. On an error nothing has changed.
  /// UV_ENOMEM: no memory for the work and its result.
  /// UV_ENOBUFS, UV_ECANCELED: as `timer::arm`.
  template <class D, noexcept_offload_work<result> Work>
  int arm(D after, Work work) noexcept {
    return offload_base::arm(make(work), detail::to_nanoseconds(after));
  }

  /// Gives `work` to the pool now. Otherwise as `arm`. On an error nothing has changed, and the handler is not called.
  /// UV_ENOMEM: as `arm`.
  /// UV_EAGAIN: the pool's bound is reached. A run that this one replaces still counts.
  /// UV_ECANCELED: the pool is closed.
  template <noexcept_offload_work<result> Work>
  int run(Work work) noexcept {
    return offload_base::run(make(work));
  }

 private:
  template <class Work>
  static task* make(Work& work) noexcept {
    return new (std::nothrow) detail::offload_work<result, Work>{std::move(work)};
  }

  static void tell(offload_base& base, int error, [[maybe_unused]] task* done) noexcept {
    auto& self = static_cast<offload&>(base);
    if constexpr (std::is_void_v<result>)
      (self.self_.*Member)(error);
    else
      (self.self_.*Member)(error,
                           done != nullptr ? static_cast<detail::offload_result<result>*>(done)->result() : nullptr);
  }

  owner& self_;
};

}  // namespace tickwheel
