// Runs blocking work on libuv's thread pool, at once or after a delay, and returns to the loop with the result.
//
// Use it for work that must not run on the loop: to hash a password, to read a file, to call a library that waits. For short work
// that only has to happen later, use a `member_timer`.
//
//   class session {
//    public:
//     session(tickwheel::timer_service& timers, tickwheel::offload_pool& pool) : check_{timers, pool, *this} {}
//     int on_login(std::string password) {
//       return check_.run([p = std::move(password), id = id_]() noexcept { return matches(id, p); });    // now, on the pool
//     }
//     int recheck_later() {
//       return check_.arm(30s, [id = id_]() noexcept { return is_still_allowed(id); });                  // in 30 s
//     }
//    private:
//     void on_checked(int error, bool* allowed) noexcept;     // on the loop; may `delete this`
//     tickwheel::offload<&session::on_checked> check_;
//   };
//
// The work owns the data that it uses: its captures belong to it while it runs on another thread. The session that started it may
// be gone by then. Work never touches the loop, its timers or the session, except through objects made for other threads, such as
// a `remote_handle`. The loop thread destroys the work.
//
// Each run calls the handler exactly once, unless the run was cancelled, its owner was destroyed, or the pool was closed. Then
// the handler is not called, even if the work has already finished and its result is on the way.
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

/// A work, storage for its result, and libuv's request in one block. The block is first armed and then given to the pool.
class TICKWHEEL_API offload_task : public boost::intrusive::list_base_hook<> {
 public:
  offload_task() noexcept { request.data = this; }
  offload_task(const offload_task&) = delete;
  offload_task& operator=(const offload_task&) = delete;
  virtual ~offload_task() = default;

  /// Runs the work. Called on a thread of the pool.
  virtual void work() noexcept = 0;

  uv_work_t request{};
  offload_pool* pool = nullptr;   // the pool while in flight; null once the pool was closed
  offload_base* owner = nullptr;  // whose handler is called; null: none any more
};

}  // namespace detail

/// The options of an `offload_pool`. An aggregate.
struct offload_options {
  /// Limit of works that are with the pool at once, waiting for a thread or running. At least 1.
  ///
  /// The whole process shares libuv's pool, which has four threads unless UV_THREADPOOL_SIZE says otherwise. File operations and
  /// name lookups of libuv run there also. They wait for the work that is queued before them.
  std::size_t max_in_flight = 64;

  /// Returns a message that names the first invalid field, or null if all fields are valid.
  constexpr const char* problem() const noexcept {
    return max_in_flight == 0 ? "offload_options::max_in_flight is zero" : nullptr;
  }
};

/// Limits how much work one loop gives to libuv's thread pool. Work beyond the limit is refused at once with UV_EAGAIN. It is not
/// queued, because a longer wait for a full pool tells the caller nothing new.
///
/// *Thread safety:* the loop thread only, not checked. *Complexity:* O(1). *Errors:* `open` returns a UV_ code. *Lifetime:*
/// outlives the runs that it is asked for. Destroy it when no armed `offload` would still run on it. Work in flight does not
/// matter, because closing detaches it.
///
/// The loop outlives the pool. libuv returns all work to the loop, so run the loop until it ends: otherwise uv_loop_close returns
/// UV_EBUSY.
///
/// In the child of a fork the pool works as before. Work that was in flight at the fork belongs only to the parent. In the child
/// its handler is not called, it is not freed, and it keeps the child's loop alive. So fork when no work is in flight. A pool
/// thread that takes or has finished work at the moment of the fork holds the lock of libuv's pool. The child then waits for that
/// lock for ever when it cancels a run or closes the pool.
class TICKWHEEL_API offload_pool {
 public:
  offload_pool() noexcept = default;
  /// Calls `close`.
  ~offload_pool() { close(); }
  offload_pool(const offload_pool&) = delete;
  offload_pool& operator=(const offload_pool&) = delete;

  /// Opens the pool for `loop`. A closed pool can be opened again.
  ///
  /// 0: it is open.
  /// UV_EINVAL: `options.problem()` names an invalid field.
  /// UV_EALREADY: it is already open.
  [[nodiscard]] int open(uv_loop_t& loop, const offload_options& options = {}) noexcept;

  /// Cancels all work in flight. Work that no thread has started never runs. Running work runs to its end. No handler is called.
  /// An armed `offload` gets UV_ECANCELED when its time has come. Idempotent. O(works in flight).
  void close() noexcept;

  /// Returns true between `open` and `close`.
  bool is_open() const noexcept { return loop_ != nullptr; }

  /// Returns the number of works with the pool since the last `open`. Cancelled work counts until it has ended, because it
  /// occupies a place until then.
  std::size_t in_flight() const noexcept { return in_flight_.size(); }
  /// Returns the number of works that were refused since the last `open` because the limit was reached.
  std::size_t refused() const noexcept { return refused_; }

 private:
  friend class offload_base;

  [[nodiscard]] int submit(detail::offload_task& task) noexcept;
  static void on_work(uv_work_t* request) noexcept;
  static void on_returned(uv_work_t* request, int status) noexcept;

  uv_loop_t* loop_ = nullptr;  // null: closed
  std::size_t max_in_flight_ = 0;
  std::size_t refused_ = 0;
  boost::intrusive::list<detail::offload_task> in_flight_;
};

/// Base of `offload`: the part that does not depend on the handler. Embed an `offload` instead. *Thread safety, complexity,
/// errors, lifetime:* as `offload`.
class TICKWHEEL_API offload_base : private timer {
 public:
  /// Cancels the run. Its handler is not called. Work that no thread of the pool has started never runs. Running work runs to its
  /// end, and its result is dropped. Returns true if it was armed or in flight.
  bool cancel() noexcept;

  /// Returns true while it waits for its time.
  bool armed() const noexcept { return timer::armed(); }
  /// Returns true from when the work is given to the pool until the handler is called.
  bool in_flight() const noexcept { return task_ != nullptr && task_->pool != nullptr; }

  using timer::callback;
  using timer::deadline;
  using timer::handler;
  using timer::has_ref;  ///< as `timer`
  using timer::ref;      ///< as `timer`
  using timer::unref;    ///< as `timer`

 protected:
  using task = detail::offload_task;  ///< a work and storage for its result
  /// Calls the handler with an error, or with a task that has a result.
  using teller = void (*)(offload_base&, int error, task*) noexcept;

  /// Requires: `expires` only calls `expire`; `tell` is not null; `service` and `pool` outlive every `arm` and `run`.
  offload_base(timer_service& service, callback expires, offload_pool& pool, teller tell) noexcept
      : timer{service, expires}, pool_{pool}, tell_{tell} {}
  ~offload_base() { cancel(); }

  /// As `offload::arm`. Takes ownership of `made`, and frees it on an error. `made` is null if memory was short.
  [[nodiscard]] int arm(task* made, std::chrono::nanoseconds after) noexcept;
  /// As `offload::run`. Takes ownership of `made`, as `arm` does.
  [[nodiscard]] int run(task* made) noexcept;

  /// Gives the work to the pool.
  static void expire(wheel_entry& entry) noexcept;

 private:
  friend class offload_pool;

  static void let_go(task* of) noexcept;

  offload_pool& pool_;
  teller tell_;
  task* task_ = nullptr;  // armed or in flight
};

namespace detail {

template <class Pointer>
struct offload_handler : member_handler<Pointer, int> {
  using result = void;
};
template <class R, class Owner, class Result>
struct offload_handler<R (Owner::*)(int, Result*) noexcept>
    : member_handler<R (Owner::*)(int, Result*) noexcept, int, Result*> {
  using result = Result;
};
template <class R, class Owner, class Result>
struct offload_handler<R (Owner::*)(int, Result*) const noexcept>
    : member_handler<R (Owner::*)(int, Result*) const noexcept, int, Result*> {
  using result = Result;
};

// The base of an `offload`, which calls its handler.
template <class Derived, auto Member, class Result>
using offload_call = std::conditional_t<std::is_void_v<Result>, member_call<Derived, Member, int>,
                                        member_call<Derived, Member, int, Result*>>;

// Work with storage for the value that it returns.
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
concept noexcept_offload_handler =
    detail::valid(detail::offload_handler<decltype(Member)>::is_noexcept,
                  "the handler must be a noexcept member function that takes an int, or an int and a Result*");

/// `Work` can be called without arguments and is noexcept. `Result` can be made from the returned value without an exception.
/// Moving a `Work` or a `Result` throws nothing.
template <class Work, class Result>
concept noexcept_offload_work = std::is_nothrow_invocable_r_v<Result, Work&> &&
    std::is_nothrow_move_constructible_v<Work> &&
    (std::is_void_v<Result> || std::is_nothrow_move_constructible_v<Result>);

/// Runs one work at a time, now or later, and calls a member function of its owner with the result.
///
/// The handler is called on the loop thread. It gets 0 and a pointer to the result. It may move from the result, which is gone
/// when the handler returns. After an `arm`, the handler may get an error and no result instead:
/// UV_EAGAIN: the limit of the pool was reached when the time had come.
/// UV_ECANCELED: the pool was closed when the time had come.
///
/// *Thread safety:* the loop thread only, except for the work. *Complexity:* `arm` and `run` allocate one block for the work and
/// its result. Giving the work to the pool takes libuv's mutex and wakes a thread. All other calls are O(1), no allocation.
/// *Errors:* listed at each function.
///
/// *Lifetime:* may be destroyed at any time, also in its handler, which cancels it. Its memory is freed once the pool has
/// finished with the work. When the timer service closes, armed work does not run. Work in flight still calls the handler,
/// because it belongs to the loop. Once the service is destroyed, only `run`, `cancel`, `armed`, `in_flight` and the destructor
/// may be called.
template <auto Member, class F = decltype(Member)>
requires noexcept_offload_handler<Member>
class offload : public offload_base,
                private detail::offload_call<offload<Member, F>, Member, typename detail::offload_handler<F>::result> {
 public:
  using typename offload::member_call::owner;  ///< the class of the handler
  /// The type that the work returns, and that the handler gets a pointer to.
  using result = typename detail::offload_handler<F>::result;

  /// An idle `offload`. Requires: `self` lives as long as this object; `pool` outlives each `arm` and `run`.
  offload(timer_service& service, offload_pool& pool, owner& self) noexcept
      : offload_base{service, handler(), pool, &tell}, offload::member_call{self} {}

  /// Tells its handler from others; see `timer::handler`.
  static callback handler() noexcept {
    static_cast<void>(&handler_name_);  // so that it exists
    return &expires;
  }

  /// Gives `work` to the pool once `after` has passed. If a work is armed or in flight, that one is first cancelled.
  ///
  /// 0: it is armed. On an error nothing has changed.
  /// UV_ENOMEM: no memory for the work.
  /// UV_ENOBUFS, UV_ECANCELED: as `timer::arm`.
  template <class D, noexcept_offload_work<result> Work>
  [[nodiscard]] int arm(D after, Work work) noexcept {
    return offload_base::arm(make(work), detail::to_nanoseconds(after));
  }

  /// Gives `work` to the pool now. If a work is armed or in flight, that one is cancelled.
  ///
  /// 0: the pool has the work. On an error nothing has changed, and the handler is not called.
  /// UV_ENOMEM: no memory for the work.
  /// UV_EAGAIN: the limit of the pool is reached. A run that this one would replace still counts.
  /// UV_ECANCELED: the pool is closed.
  template <noexcept_offload_work<result> Work>
  [[nodiscard]] int run(Work work) noexcept {
    return offload_base::run(make(work));
  }

 private:
  template <class Work>
  static task* make(Work& work) noexcept {
    return new (std::nothrow) detail::offload_work<result, Work>{std::move(work)};
  }

  // each offload has a function of its own, by which reports tell it from others
  static void expires(tickwheel::wheel_entry& entry) noexcept { offload_base::expire(entry); }

  TICKWHEEL_LOCAL inline static const named_handler handler_name_{&expires, detail::name_of_member<Member>()};

  static void tell(offload_base& base, int error, [[maybe_unused]] task* done) noexcept {
    auto& self = static_cast<offload&>(base);
    if constexpr (std::is_void_v<result>)
      self.call(error);
    else
      self.call(error, done != nullptr ? static_cast<detail::offload_result<result>*>(done)->result() : nullptr);
  }
};

namespace detail {

template <auto Member, class F>
inline constexpr bool stays_in_place<offload<Member, F>> = true;

}  // namespace detail

}  // namespace tickwheel
