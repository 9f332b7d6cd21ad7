// Coroutines on a loop: sleeps, and time limits for everything else that a coroutine awaits.
//
// Use them where a session reads best as one function from top to bottom. The umbrella header does not include this file. The
// coroutine's type (`task` below) and the other awaitables are yours, or those of your framework.
//
//   task poll(tickwheel::timer_service& timers, upstream& from) {
//     for (;;) {
//       const int error = co_await tickwheel::sleep_for(timers, 1s);
//       if (error != 0) co_return;
//       const auto answer = co_await tickwheel::with_timeout(timers, from.ask(), 200ms);
//       if (answer) use(*answer);             // otherwise `ask` was cancelled or did not begin: answer.error says which
//     }
//   }
//
// The timer lives in the coroutine's frame, as part of the awaiter. Nothing is allocated besides the frame. To cancel a suspended
// coroutine, destroy its frame: that cancels the timer.
//
// The loop resumes a coroutine in a pass, in the same way as it calls a handler. A coroutine is never resumed within the call
// that armed its timer or requested its stop. A resumed coroutine may do everything that a handler may: destroy its own frame and
// others, close or destroy the service. Exceptions cannot pass through libuv's C frames. If `unhandled_exception` of the promise
// lets one out while the loop resumes the coroutine, the process ends (std::terminate).
//
// Closing the service runs no handlers, so it resumes no coroutine. A coroutine that sleeps at that time stays suspended until
// the owner of its frame destroys it. Coroutines whose frames own themselves must end before the service closes. Let them sleep
// with a std::stop_token, request the stop, run the loop until the last of them has ended, and then close. That may take several
// iterations, because a pass is bounded.
#pragma once

#include <tickwheel/core/detail/nanoseconds.hpp>
#include <tickwheel/uv/timer.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <uv.h>

#include <version>

#if !defined(__cpp_impl_coroutine)
#error "tickwheel/uv/coroutine.hpp needs the coroutines of C++20"
#endif

#include <chrono>
#include <concepts>
#include <coroutine>
#include <optional>
#include <type_traits>
#include <utility>
#if defined(__cpp_lib_jthread)
#include <stop_token>
#endif

namespace tickwheel {

namespace detail {

// The end of a wait: a time point, or a duration. A closed service has no clock to count from. A wait that is made from a closed
// service counts from when it is awaited.
class wait_end {
 public:
  struct of_budget {};  // nothing begins once the time has passed

  wait_end(clock::time_point until) noexcept  // NOLINT(google-explicit-constructor): `sleep_until` passes a time point
      : ends_{until.time_since_epoch()} {}
  wait_end(clock::time_point until, of_budget) noexcept : ends_{until.time_since_epoch()}, is_of_budget_{true} {}
  wait_end(const timer_service& service, std::chrono::nanoseconds after) noexcept {
    if (after.count() <= 0) return;  // a zero delay: a time that has always passed
    from_await_ = !service.is_open();
    ends_ = from_await_ ? after : add_saturating(service.read_clock(), after).time_since_epoch();
  }

  // Returns the end of a wait that begins now. If the service is still closed, the result does not matter, because arming returns
  // UV_ECANCELED.
  clock::time_point from_now(const timer_service& service) const noexcept {
    const bool counts_from_now = from_await_ && service.is_open();
    return add_saturating(counts_from_now ? service.read_clock() : clock::time_point{}, ends_);
  }

  // Returns true if the wait must not begin. A closed service has no clock that could tell.
  bool is_spent(const timer_service& service) const noexcept {
    return is_of_budget_ && service.is_open() && service.now().time_since_epoch() >= ends_;
  }

 private:
  std::chrono::nanoseconds ends_ = std::chrono::nanoseconds::min();  // since the clock's epoch, or since the await
  bool from_await_ = false;
  bool is_of_budget_ = false;
};

class sleep_awaiter {
 public:
  sleep_awaiter(timer_service& service, wait_end until) noexcept
      : service_{service}, until_{until}, due_{service, *this} {}

  // NOLINTNEXTLINE(readability-convert-member-functions-to-static): the language calls it on an object
  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> waiting) noexcept {
    waiting_ = waiting;
    // arming is the last step: from here on the frame may be resumed, and be gone
    error_ = due_.arm_at(until_.from_now(service_));
    return error_ == 0;
  }
  int await_resume() const noexcept { return error_; }

  static timer::callback handler() noexcept { return member_timer<&sleep_awaiter::wake>::handler(); }

 private:
  void wake() noexcept { waiting_.resume(); }

  const timer_service& service_;
  wait_end until_;
  std::coroutine_handle<> waiting_;
  int error_ = 0;
  member_timer<&sleep_awaiter::wake> due_;
};

}  // namespace detail

/// Result of `sleep_for` and `sleep_until`. It is a value. It may be awaited once or several times, each time until the same time
/// point. If `sleep_for` was called with a closed service, each await counts from its own start. The timer is in the awaiter.
///
/// *Thread safety:* the loop thread only, checked. *Complexity:* O(1), no allocation. *Errors:* the result of `co_await`.
/// *Lifetime:* the service outlives the beginning of the wait. Afterwards it may be closed and destroyed. Then the coroutine is
/// not resumed.
class [[nodiscard]] sleep_awaitable {
 public:
  /// The result of `sleep_until(service, until)`.
  sleep_awaitable(timer_service& service, detail::wait_end until) noexcept : service_{&service}, until_{until} {}

  /// Results in 0 when the time has come, or in an error. On an error the coroutine continues at once, without having waited.
  ///
  /// UV_ECANCELED: the service is closed.
  /// UV_ENOBUFS: `max_armed` timers are armed.
  detail::sleep_awaiter operator co_await() const noexcept { return {*service_, until_}; }

  /// Identifies the handler that resumes sleeping coroutines in `timer_service::why`, `dump` and `on_slow_handler`.
  static timer::callback handler() noexcept { return detail::sleep_awaiter::handler(); }

 private:
  timer_service* service_;
  detail::wait_end until_;
};

/// Returns an awaitable that suspends the coroutine until `after`, any std::chrono duration, has passed since this call. Reads
/// the clock. The wait keeps the loop alive, as an armed timer does.
///
/// It is never early, and late by at most as much as a timer. A duration of zero or less is a zero delay: the coroutine continues
/// in the loop's next pass, so that I/O has its turn. It is never ready at once. A duration that is too long for the clock
/// saturates: the wait never ends in practice.
///
/// A closed service has no clock. If the awaitable was made from a closed service and is awaited after `open`, each await counts
/// from its own start.
template <class Rep, class Period>
sleep_awaitable sleep_for(timer_service& service, std::chrono::duration<Rep, Period> after) noexcept {
  return {service, detail::wait_end{service, detail::to_nanoseconds(after)}};
}

/// As above, until `when`: `sleep_until(service, service.now() + 5s)` counts from the beginning of the loop iteration. If `when`
/// has passed, the coroutine continues in the next pass. Reads the clock only if the loop must wake up earlier.
inline sleep_awaitable sleep_until(timer_service& service, clock::time_point when) noexcept { return {service, when}; }

#if defined(__cpp_lib_jthread)

namespace detail {

class stoppable_sleep_awaiter {
 public:
  stoppable_sleep_awaiter(timer_service& service, wait_end until, std::stop_token stop) noexcept
      : service_{service}, stop_{std::move(stop)}, until_{until}, due_{service, *this} {}

  bool await_ready() noexcept {
    if (stop_.stop_requested()) error_ = UV_ECANCELED;
    return error_ != 0;
  }
  bool await_suspend(std::coroutine_handle<> waiting) noexcept {
    waiting_ = waiting;
    on_stop_.emplace(std::move(stop_), stopped{*this});
    if (const int error = due_.arm_at(until_.from_now(service_))) error_ = error;
    return error_ == 0;
  }
  int await_resume() const noexcept { return error_; }

  static timer::callback handler() noexcept { return member_timer<&stoppable_sleep_awaiter::wake>::handler(); }

 private:
  struct stopped {
    stoppable_sleep_awaiter& self;
    void operator()() const noexcept { self.stop(); }
  };

  // The timer is moved to the next pass. The coroutine is not resumed here, because the caller that requests the stop may hold
  // objects that the coroutine would destroy.
  void stop() noexcept {
    if (!due_.armed()) return;
    error_ = UV_ECANCELED;
    (void)due_.arm_at(clock::time_point{});  // cannot fail: it is armed
  }
  void wake() noexcept { waiting_.resume(); }

  const timer_service& service_;
  std::stop_token stop_;
  wait_end until_;
  std::coroutine_handle<> waiting_;
  int error_ = 0;
  member_timer<&stoppable_sleep_awaiter::wake> due_;
  std::optional<std::stop_callback<stopped>> on_stop_;
};

}  // namespace detail

/// A `sleep_awaitable` that ends early when a stop is requested.
///
/// *Thread safety:* the loop thread only, checked. The stop must also be requested on the loop thread: post the request from
/// other threads. *Complexity:* O(1); only std::stop_source allocates. *Errors:* the result of `co_await`. *Lifetime:* as
/// `sleep_awaitable`. The stop may be requested after the service is gone; it then resumes no coroutine.
class [[nodiscard]] stoppable_sleep_awaitable {
 public:
  /// The result of `sleep_until(service, until, stop)`.
  stoppable_sleep_awaitable(timer_service& service, detail::wait_end until, std::stop_token stop) noexcept
      : service_{&service}, until_{until}, stop_{std::move(stop)} {}

  /// Results in 0 when the time has come, or in an error as `sleep_awaitable`.
  ///
  /// UV_ECANCELED: a stop was requested. If that was before the wait, the coroutine continues at once; otherwise in the loop's
  /// next pass.
  detail::stoppable_sleep_awaiter operator co_await() const noexcept { return {*service_, until_, stop_}; }

  /// As `sleep_awaitable::handler`.
  static timer::callback handler() noexcept { return detail::stoppable_sleep_awaiter::handler(); }

 private:
  timer_service* service_;
  detail::wait_end until_;
  std::stop_token stop_;
};

/// As `sleep_for` and `sleep_until` without a token. A requested stop also ends the wait, with UV_ECANCELED.
template <class Rep, class Period>
stoppable_sleep_awaitable sleep_for(timer_service& service, std::chrono::duration<Rep, Period> after,
                                    std::stop_token stop) noexcept {
  return {service, detail::wait_end{service, detail::to_nanoseconds(after)}, std::move(stop)};
}
inline stoppable_sleep_awaitable sleep_until(timer_service& service, clock::time_point when,
                                             std::stop_token stop) noexcept {
  return {service, when, std::move(stop)};
}

#endif

/// Result of an await with a time limit: the value, or the reason why there is none.
///
/// *Thread safety:* a value. *Complexity:* that of the value. *Errors:* none. *Lifetime:* refers to no other object.
template <class T>
struct [[nodiscard]] timed_result {
  /// 0: there is a value.
  /// UV_ETIMEDOUT: the time was up first.
  /// UV_ECANCELED, UV_ENOBUFS: the limit could not be armed, and the awaitable did not begin to wait.
  int error = 0;
  std::optional<T> value;  ///< set if `error` is 0

  /// Returns true if the time was up first.
  bool timed_out() const noexcept { return error == UV_ETIMEDOUT; }
  /// Returns true if the awaitable completed in time.
  explicit operator bool() const noexcept { return error == 0; }
  /// Returns the value. Requires: the awaitable completed in time.
  T& operator*() noexcept { return *value; }
  /// Returns the value. Requires: the awaitable completed in time.
  const T& operator*() const noexcept { return *value; }
  /// Gives access to members of the value. Requires: the awaitable completed in time.
  T* operator->() noexcept { return &*value; }
  /// Gives access to members of the value. Requires: the awaitable completed in time.
  const T* operator->() const noexcept { return &*value; }
};

/// Result of an await that has no value.
template <>
struct [[nodiscard]] timed_result<void> {
  /// 0: it completed in time.
  /// UV_ETIMEDOUT: the time was up first.
  /// UV_ECANCELED, UV_ENOBUFS: the limit could not be armed, and the awaitable did not begin to wait.
  int error = 0;

  /// Returns true if the time was up first.
  bool timed_out() const noexcept { return error == UV_ETIMEDOUT; }
  /// Returns true if the awaitable completed in time.
  explicit operator bool() const noexcept { return error == 0; }
};

namespace detail {

// Finds the awaiter as the language does for the operand of co_await, except for `await_transform`.
template <class Awaitable>
decltype(auto) get_awaiter(Awaitable&& awaitable) {
  if constexpr (requires { std::forward<Awaitable>(awaitable).operator co_await(); })
    return std::forward<Awaitable>(awaitable).operator co_await();
  else if constexpr (requires { operator co_await(std::forward<Awaitable>(awaitable)); })
    return operator co_await(std::forward<Awaitable>(awaitable));
  else
    return std::forward<Awaitable>(awaitable);
}

/// An awaitable and its awaiter, which are destroyed together.
template <class Awaitable>
struct operation {
  explicit operation(Awaitable&& from)
      : awaitable(std::move(from)), awaiter(get_awaiter(std::forward<Awaitable>(awaitable))) {}

  Awaitable awaitable;
  decltype(get_awaiter(std::declval<Awaitable>())) awaiter;  // may be a reference to `awaitable`
};

}  // namespace detail

/// An awaitable that `with_timeout` accepts. It can be moved, because it is handed over. It stops waiting when it is destroyed:
/// no compiler can check that. See `with_timeout`.
template <class A>
concept owned_awaitable = std::move_constructible<A> && requires(detail::operation<A>& o) {
  static_cast<bool>(o.awaiter.await_ready());
  o.awaiter.await_resume();
};

namespace detail {

template <owned_awaitable Awaitable>
class timeout_awaiter {
  using resumed_with = decltype(std::declval<operation<Awaitable>&>().awaiter.await_resume());
  static_assert(!std::is_lvalue_reference_v<resumed_with>,
                "with_timeout hands on values: what it awaits must not result in a reference to what it destroys");
  using result = timed_result<std::remove_cvref_t<resumed_with>>;

 public:
  timeout_awaiter(timer_service& service, Awaitable&& awaitable, wait_end until)
      : service_{service}, awaited_{std::in_place, std::move(awaitable)}, until_{until}, limit_{service, *this} {}

  bool await_ready() {
    if (!until_.is_spent(service_)) return static_cast<bool>(awaited_->awaiter.await_ready());
    error_ = UV_ETIMEDOUT;
    return true;
  }

  // Arms the limit first, so that nothing is started without one. The limit cannot expire before control returns to the loop.
  // Suspends the awaiter last, because it may resume the coroutine at once, and the coroutine may destroy this object.
  template <class Promise>
  auto await_suspend(std::coroutine_handle<Promise> waiting) {
    using answer = decltype(awaited_->awaiter.await_suspend(waiting));
    waiting_ = waiting;
    error_ = limit_.arm_at(until_.from_now(service_));
    if constexpr (std::is_void_v<answer>) {
      if (error_ != 0) return false;
      awaited_->awaiter.await_suspend(waiting);
      return true;
    } else if constexpr (std::is_same_v<answer, bool>) {
      return error_ == 0 && awaited_->awaiter.await_suspend(waiting);
    } else {
      if (error_ != 0) return std::coroutine_handle<>{waiting};
      return std::coroutine_handle<>{awaited_->awaiter.await_suspend(waiting)};
    }
  }

  static timer::callback handler() noexcept { return member_timer<&timeout_awaiter::expire>::handler(); }

  result await_resume() {
    limit_.cancel();
    if (error_ != 0) {
      result none;
      none.error = error_;
      return none;
    }
    if constexpr (std::is_void_v<resumed_with>) {
      awaited_->awaiter.await_resume();
      return {};
    } else {
      return {0, awaited_->awaiter.await_resume()};
    }
  }

 private:
  // Destroys the awaitable before the coroutine continues, because the coroutine may await something else within the same
  // expression.
  void expire() noexcept {
    error_ = UV_ETIMEDOUT;
    awaited_.reset();
    waiting_.resume();
  }

  const timer_service& service_;
  std::optional<operation<Awaitable>> awaited_;
  wait_end until_;
  std::coroutine_handle<> waiting_;
  int error_ = 0;
  member_timer<&timeout_awaiter::expire> limit_;
};

}  // namespace detail

/// Result of `with_timeout`. It is awaited once. It may itself be passed to `with_timeout`.
///
/// *Thread safety:* the loop thread only, checked. *Complexity:* O(1) besides that of the awaitable; no allocation. *Errors:* the
/// result of `co_await`, and the exceptions of the awaitable. *Lifetime:* as `sleep_awaitable`.
template <owned_awaitable Awaitable>
class [[nodiscard]] timed_awaitable {
 public:
  /// The result of `with_timeout` with a limit that ends at `until`.
  timed_awaitable(timer_service& service, Awaitable&& awaitable, detail::wait_end until)
      : service_{&service}, awaitable_(std::move(awaitable)), until_{until} {}

  /// Results in a `timed_result` of the awaitable's result.
  detail::timeout_awaiter<Awaitable> operator co_await() && { return {*service_, std::move(awaitable_), until_}; }

  /// As `sleep_awaitable::handler`. Each type of awaitable has a handler of its own.
  static timer::callback handler() noexcept { return detail::timeout_awaiter<Awaitable>::handler(); }

 private:
  timer_service* service_;
  Awaitable awaitable_;
  detail::wait_end until_;
};

/// Returns an awaitable that awaits `awaitable` for at most `after`, any std::chrono duration. The time counts from this call, or
/// from the await if the service was closed at this call. Exactly one of `awaitable` and the limit resumes the coroutine. Reads
/// the clock.
///
/// An awaitable that is ready at once needs no timer, and gives its value even if the service is closed. With a limit of zero or
/// less, `awaitable` is started, and has until the loop's next pass.
///
///   const auto got = co_await tickwheel::with_timeout(timers, socket.read(), 30s);
///   if (!got) co_return;
///   use(*got);
///
/// If there is no value, `error` of the result says why:
/// UV_ETIMEDOUT: the time is up. The awaitable and its awaiter were destroyed before the coroutine continued.
/// UV_ENOBUFS: `max_armed` timers are armed. The coroutine continues at once, and `awaitable` did not begin to wait.
/// UV_ECANCELED: the service is closed. The coroutine continues at once, and `awaitable` did not begin to wait.
/// An awaitable that has not begun to wait was only asked by `await_ready` whether it is ready. A write of a `tcp_socket` sends in
/// that call what the socket takes. So close the socket after any of these errors, as after an error of the write itself.
///
/// If the service closes during the wait, the limit is gone. Then only `awaitable` resumes the coroutine.
///
/// Requires: destroying `awaitable`, and the result of its `operator co_await`, ends the wait. Afterwards it resumes no
/// coroutine, and writes to no object that may be gone. Sleeps meet this. So do the results of `with_timeout`, and tasks that own
/// their frames and await only such awaitables. An awaitable whose request outlives it, and then resumes the coroutine, does not
/// meet this.
template <owned_awaitable Awaitable, class Rep, class Period>
timed_awaitable<Awaitable> with_timeout(timer_service& service, Awaitable awaitable,
                                        std::chrono::duration<Rep, Period> after) {
  const detail::wait_end until{service, detail::to_nanoseconds(after)};
  return {service, std::move(awaitable), until};
}

}  // namespace tickwheel
