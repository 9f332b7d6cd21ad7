// For coroutines on a loop: sleeping, and time limits on anything else that they await.
//
// Use it where a session reads best as one function from top to bottom. The umbrella does not include it. The coroutine's
// type, its `task`, is yours or your framework's, and so is everything that it awaits besides time.
//
//   task poll(tickwheel::timer_service& timers, upstream& from) {
//     for (;;) {
//       const int error = co_await tickwheel::sleep_for(timers, 1s);
//       if (error != 0) co_return;
//       const auto answer = co_await tickwheel::with_timeout(timers, from.ask(), 200ms);
//       if (answer) use(*answer);             // else `ask` was cancelled, or not begun: answer.error says which
//     }
//   }
//
// The timer lives in the coroutine's frame, as part of the awaited object. Nothing is allocated besides the frame. Destroying
// the frame cancels a suspended coroutine and its timer.
//
// The loop resumes a coroutine in a pass, as it calls a handler, never within the call that armed the timer or requested the
// stop. The coroutine may do what a handler may: destroy its own frame and others, close or destroy the service. Nothing can
// be thrown through libuv's C frames. So if the promise's `unhandled_exception` lets an exception out when the loop resumes the
// coroutine, the process ends (std::terminate).
//
// Closing the service runs no handler, so it resumes no coroutine. A coroutine that sleeps then stays suspended until the
// frame's owner destroys it. Coroutines whose frames own themselves must end before. Let them sleep with a std::stop_token,
// request the stop, run the loop, and close.
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

// The end of a wait: a time, or a duration. A closed service has no clock to count from, so a wait that is made with it counts
// from the time at which it is awaited.
class wait_end {
 public:
  wait_end(clock::time_point until) noexcept  // NOLINT(google-explicit-constructor): what it is in `sleep_until`
      : ends_{until.time_since_epoch()} {}
  wait_end(const timer_service& service, std::chrono::nanoseconds after) noexcept {
    if (after.count() <= 0) return;  // a zero delay: a time that has passed, whatever the time
    from_await_ = !service.is_open();
    ends_ = from_await_ ? after : add_saturating(service.read_clock(), after).time_since_epoch();
  }

  // The end of a wait that begins now. If the service is still closed, it does not matter: arming returns UV_ECANCELED.
  clock::time_point from_now(const timer_service& service) const noexcept {
    const bool counts_from_now = from_await_ && service.is_open();
    return add_saturating(counts_from_now ? service.read_clock() : clock::time_point{}, ends_);
  }

 private:
  std::chrono::nanoseconds ends_ = std::chrono::nanoseconds::min();  // since the clock's epoch, or since it is awaited
  bool from_await_ = false;
};

class sleep_awaiter {
 public:
  sleep_awaiter(timer_service& service, wait_end until) noexcept
      : service_{service}, until_{until}, due_{service, *this} {}

  // NOLINTNEXTLINE(readability-convert-member-functions-to-static): the language calls it on an object
  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> waiting) noexcept {
    waiting_ = waiting;
    // last, because from here on the frame may be resumed, and be gone
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

/// The result of `sleep_for` and `sleep_until`. It can be awaited several times, each time until the same time, unless
/// `sleep_for` was called with a closed service. A value: the timer is part of its awaiter.
///
/// *Thread safety:* the loop thread only, checked. *Complexity:* O(1), nothing is allocated. *Errors:* the result of
/// `co_await`. *Lifetime:* the service outlives the beginning of the wait. Afterwards it may be closed and destroyed, and then
/// the coroutine is not resumed.
class [[nodiscard]] sleep_awaitable {
 public:
  /// The result of `sleep_until(service, until)`.
  sleep_awaitable(timer_service& service, detail::wait_end until) noexcept : service_{&service}, until_{until} {}

  /// Results in 0 once the time has come. On an error it does not wait.
  /// UV_ECANCELED: the service is closed.
  /// UV_ENOBUFS: `max_armed` timers are armed.
  detail::sleep_awaiter operator co_await() const noexcept { return {*service_, until_}; }

  /// Returns a value that tells coroutines that slept from other handlers in `timer_service::why`, `dump` and `on_slow_handler`.
  static timer::callback handler() noexcept { return detail::sleep_awaiter::handler(); }

 private:
  timer_service* service_;
  detail::wait_end until_;
};

/// Suspends the coroutine that awaits it until `after`, any std::chrono duration, has passed since this call. Never early; late
/// as a timer may be. Zero or less is a zero delay: the wait lasts until the loop's next pass, so that I/O has its turn. A
/// duration that is too long for the clock saturates: the wait lasts in effect for ever. It keeps the loop alive, as an armed
/// timer does. Reads the clock. A closed service has no clock. A sleep that is made then, and awaited once the service is open,
/// counts from each await.
template <class Rep, class Period>
sleep_awaitable sleep_for(timer_service& service, std::chrono::duration<Rep, Period> after) noexcept {
  return {service, detail::wait_end{service, detail::to_nanoseconds(after)}};
}

/// As above, until `when`: `sleep_until(service, service.now() + 5s)` counts from the beginning of the loop iteration.
/// If the time has passed, the wait lasts until the next pass. Reads no clock.
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

  // Moved to the next pass, not resumed here: who requests the stop may hold things that the coroutine would destroy.
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
/// *Thread safety:* the loop thread only, checked. The stop is requested there as well, so post the request from another thread.
/// *Complexity:* O(1), nothing is allocated except by std::stop_source. *Errors:* the result of `co_await`. *Lifetime:* as of
/// `sleep_awaitable`. The stop may be requested after the service is gone, and then resumes no coroutine.
class [[nodiscard]] stoppable_sleep_awaitable {
 public:
  /// The result of `sleep_until(service, until, stop)`.
  stoppable_sleep_awaitable(timer_service& service, detail::wait_end until, std::stop_token stop) noexcept
      : service_{&service}, until_{until}, stop_{std::move(stop)} {}

  /// Results in 0 once the time has come.
  /// UV_ECANCELED: the stop was requested before, at once; or meanwhile, in the loop's next pass.
  /// Other errors are those of `sleep_awaitable`.
  detail::stoppable_sleep_awaiter operator co_await() const noexcept { return {*service_, until_, stop_}; }

  /// As of `sleep_awaitable`.
  static timer::callback handler() noexcept { return detail::stoppable_sleep_awaiter::handler(); }

 private:
  timer_service* service_;
  detail::wait_end until_;
  std::stop_token stop_;
};

/// As `sleep_for` and `sleep_until` without a token, but a requested stop ends the wait with UV_ECANCELED.
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

/// The result of an await with a time limit: a value, or the reason why there is none.
///
/// *Thread safety:* a value. *Complexity:* the value's. *Errors:* none. *Lifetime:* refers to nothing.
template <class T>
struct [[nodiscard]] timed_result {
  int error = 0;  ///< 0; UV_ETIMEDOUT; UV_ECANCELED or UV_ENOBUFS if the limit was refused and the wait not begun
  std::optional<T> value;  ///< set if `error` is 0

  /// Returns true if the limit came first.
  bool timed_out() const noexcept { return error == UV_ETIMEDOUT; }
  /// Returns true if the value came in time.
  explicit operator bool() const noexcept { return error == 0; }
  /// Returns the value. Requires: it came in time.
  T& operator*() noexcept { return *value; }
  /// Returns the value. Requires: it came in time.
  const T& operator*() const noexcept { return *value; }
  /// Accesses a member of the value. Requires: it came in time.
  T* operator->() noexcept { return &*value; }
  /// Accesses a member of the value. Requires: it came in time.
  const T* operator->() const noexcept { return &*value; }
};

/// The result of an awaitable without a value.
template <>
struct [[nodiscard]] timed_result<void> {
  int error = 0;  ///< 0; UV_ETIMEDOUT; UV_ECANCELED or UV_ENOBUFS if the limit was refused and the wait not begun

  /// Returns true if the limit came first.
  bool timed_out() const noexcept { return error == UV_ETIMEDOUT; }
  /// Returns true if the value came in time.
  explicit operator bool() const noexcept { return error == 0; }
};

namespace detail {

// What the language does to the operand of co_await, less `await_transform`.
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

/// An awaitable that can be awaited with a limit. It can be moved, because it is handed over. And it stops waiting when it is
/// destroyed, which no compiler can check; see `with_timeout`.
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

  bool await_ready() { return static_cast<bool>(awaited_->awaiter.await_ready()); }

  // The limit first, so that nothing is begun without one; it cannot come up before we are back in the loop. The awaited
  // last: it may resume the coroutine at once, and with it destroy this.
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
  // The loser goes before the coroutine goes on, which may await something else within the same expression.
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

/// The result of `with_timeout`. It can be awaited once, and with another limit by `with_timeout`.
///
/// *Thread safety:* the loop thread only, checked. *Complexity:* O(1) besides what is awaited; nothing is allocated.
/// *Errors:* the result of `co_await`, and the exceptions of the awaited. *Lifetime:* as of `sleep_awaitable`.
template <owned_awaitable Awaitable>
class [[nodiscard]] timed_awaitable {
 public:
  /// The result of a `with_timeout` whose limit ends at `until`.
  timed_awaitable(timer_service& service, Awaitable&& awaitable, detail::wait_end until)
      : service_{&service}, awaitable_(std::move(awaitable)), until_{until} {}

  /// Results in a `timed_result` of the result of the awaited.
  detail::timeout_awaiter<Awaitable> operator co_await() && { return {*service_, std::move(awaitable_), until_}; }

  /// As of `sleep_awaitable`, one for each type that is awaited.
  static timer::callback handler() noexcept { return detail::timeout_awaiter<Awaitable>::handler(); }

 private:
  timer_service* service_;
  Awaitable awaitable_;
  detail::wait_end until_;
};

/// Awaits `awaitable` until `after`, any std::chrono duration, has passed since this call, or since the await if the service was
/// closed then. Exactly one of the two resumes the coroutine. An awaitable that is ready needs no timer, and results in its
/// value even if the service is closed. With a limit of zero or less the awaitable is begun, and has until the loop's next pass.
/// Reads the clock.
///
///   const auto got = co_await tickwheel::with_timeout(timers, socket.read(), 30s);
///   if (!got) co_return;
///   use(*got);
///
/// UV_ETIMEDOUT: the limit came first. The awaitable and its awaiter are destroyed before the coroutine resumes.
/// UV_ENOBUFS: `max_armed` timers are armed. The coroutine continues at once, and the awaitable was not begun.
/// UV_ECANCELED: the service is closed. As for UV_ENOBUFS.
/// If the service closes during the wait, the limit is gone, and only the awaitable resumes the coroutine.
///
/// Requires: destroying `awaitable` and its awaiter ends the wait. Afterwards it resumes no coroutine, and writes to nothing that
/// may be gone. This holds for sleeps, for the result of `with_timeout`, and for any task that owns its frame and awaits only
/// such. It does not hold for an awaitable whose request goes on without it and then resumes the coroutine.
template <owned_awaitable Awaitable, class Rep, class Period>
timed_awaitable<Awaitable> with_timeout(timer_service& service, Awaitable awaitable,
                                        std::chrono::duration<Rep, Period> after) {
  const detail::wait_end until{service, detail::to_nanoseconds(after)};
  return {service, std::move(awaitable), until};
}

}  // namespace tickwheel
