// For coroutines on a loop: sleeping, and a limit on whatever else they wait for.
//
// Use it where a session reads best as one function from top to bottom. It is not in the umbrella: include it where it is
// needed. The coroutine's type, its `task`, is yours or your framework's, and so is what it waits for besides time.
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
// The timer lives in the coroutine's frame, as part of what is awaited. Nothing is allocated beside the frame. Destroying the
// frame is how a suspended coroutine is cancelled, and cancels the timer.
//
// A coroutine is resumed by the loop, in a pass, as a handler is called; never within the call that armed the timer or
// asked it to stop. What handlers may do it may: destroy its own frame and others, close or destroy the service. As
// nothing can be thrown through libuv's C frames, a promise whose `unhandled_exception` lets an exception out on a
// resume by the loop ends the process (std::terminate).
//
// Closing the service runs no handler, hence resumes nobody: who sleeps at that time stays suspended until the frame's
// owner destroys it. Coroutines whose frames own themselves are to end before: have them sleep with a std::stop_token,
// request the stop, let the loop turn, and close.
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

// Until when somebody waits: a time, or a while. A closed service has no clock to count from, so a wait that is made of one
// counts from when it is awaited.
class wait_end {
 public:
  wait_end(clock::time_point until) noexcept  // NOLINT(google-explicit-constructor): what it is in `sleep_until`
      : ends_{until.time_since_epoch()} {}
  wait_end(const timer_service& service, std::chrono::nanoseconds after) noexcept {
    if (after.count() <= 0) return;  // a zero delay: a time that has passed, whatever the time
    from_await_ = !service.is_open();
    ends_ = from_await_ ? after : add_saturating(service.read_clock(), after).time_since_epoch();
  }

  // For who begins to wait now. Of a service that is still closed it does not matter: arming answers UV_ECANCELED.
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
    // the last thing done: from here on the frame may be resumed, and be gone
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

/// What `sleep_for` and `sleep_until` answer: to be awaited, once or several times, each until that same time, unless
/// `sleep_for` was called of a closed service. A value; the timer is in what awaiting it makes of it.
///
/// *Thread safety:* the loop thread only, checked. *Complexity:* O(1), nothing is allocated. *Errors:* what `co_await`
/// results in. *Lifetime:* the service outlives the wait's beginning; afterwards it may be closed and destroyed, and then
/// the coroutine is not resumed.
class [[nodiscard]] sleep_awaitable {
 public:
  /// What `sleep_until(service, until)` answers.
  sleep_awaitable(timer_service& service, detail::wait_end until) noexcept : service_{&service}, until_{until} {}

  /// 0 when the time has come. At once, without having waited: UV_ECANCELED when the service is closed, UV_ENOBUFS when
  /// `max_armed` timers are armed.
  detail::sleep_awaiter operator co_await() const noexcept { return {*service_, until_}; }

  /// Tells coroutines that slept from other handlers in `timer_service::why`, `dump` and `on_slow_handler`.
  static timer::callback handler() noexcept { return detail::sleep_awaiter::handler(); }

 private:
  timer_service* service_;
  detail::wait_end until_;
};

/// Suspends the coroutine that awaits it until `after`, any std::chrono duration, has passed since this call: never early,
/// late as a timer may be. Zero or less is a zero delay: until the loop's next pass, so that I/O has its turn; never ready at
/// once. What is too long for the clock saturates: in effect for ever. The wait keeps the loop alive, as an armed timer does. Reads the
/// clock. A closed service has no clock: what is made of one, and awaited once it is open, counts from each await.
template <class Rep, class Period>
sleep_awaitable sleep_for(timer_service& service, std::chrono::duration<Rep, Period> after) noexcept {
  return {service, detail::wait_end{service, detail::to_nanoseconds(after)}};
}

/// As above, until `when`: `sleep_until(service, service.now() + 5s)` counts from the beginning of the loop iteration.
/// A time that has passed: until the next pass. Reads no clock.
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
/// *Thread safety:* the loop thread only, checked; also for who requests the stop, so post that from another thread.
/// *Complexity:* O(1), nothing is allocated but by std::stop_source. *Errors:* what `co_await` results in. *Lifetime:* as
/// of `sleep_awaitable`; the stop may be requested when the service is long gone, and then resumes nobody.
class [[nodiscard]] stoppable_sleep_awaitable {
 public:
  /// What `sleep_until(service, until, stop)` answers.
  stoppable_sleep_awaitable(timer_service& service, detail::wait_end until, std::stop_token stop) noexcept
      : service_{&service}, until_{until}, stop_{std::move(stop)} {}

  /// 0 when the time has come. UV_ECANCELED at once when the stop was requested before, and in the loop's next pass when
  /// it is requested meanwhile. Else as of `sleep_awaitable`.
  detail::stoppable_sleep_awaiter operator co_await() const noexcept { return {*service_, until_, stop_}; }

  /// As of `sleep_awaitable`.
  static timer::callback handler() noexcept { return detail::stoppable_sleep_awaiter::handler(); }

 private:
  timer_service* service_;
  detail::wait_end until_;
  std::stop_token stop_;
};

/// As `sleep_for` and `sleep_until` without a token; a stop that is requested ends the wait with UV_ECANCELED.
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

/// What came of something that was awaited with a limit: its value, or why there is none.
///
/// *Thread safety:* a value. *Complexity:* the value's. *Errors:* none. *Lifetime:* refers to nothing.
template <class T>
struct [[nodiscard]] timed_result {
  int error = 0;  ///< 0; UV_ETIMEDOUT; UV_ECANCELED or UV_ENOBUFS when there could be no limit: it was not begun
  std::optional<T> value;  ///< set when `error` is 0

  /// True when the time was up first.
  bool timed_out() const noexcept { return error == UV_ETIMEDOUT; }
  /// True when it came in time.
  explicit operator bool() const noexcept { return error == 0; }
  /// The value. Requires: it came in time.
  T& operator*() noexcept { return *value; }
  /// The value. Requires: it came in time.
  const T& operator*() const noexcept { return *value; }
  /// The value's members. Requires: it came in time.
  T* operator->() noexcept { return &*value; }
  /// The value's members. Requires: it came in time.
  const T* operator->() const noexcept { return &*value; }
};

/// Of what has no value.
template <>
struct [[nodiscard]] timed_result<void> {
  int error = 0;  ///< 0; UV_ETIMEDOUT; UV_ECANCELED or UV_ENOBUFS when there could be no limit: it was not begun

  /// True when the time was up first.
  bool timed_out() const noexcept { return error == UV_ETIMEDOUT; }
  /// True when it came in time.
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

/// Can be awaited with a limit: can be moved, as it is handed over, and stops waiting when it is destroyed, which no compiler
/// can check; see `with_timeout`.
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

/// What `with_timeout` answers: to be awaited once. Something with a limit has a limit itself: `with_timeout` takes it, too.
///
/// *Thread safety:* the loop thread only, checked. *Complexity:* O(1) besides what is awaited; nothing is allocated.
/// *Errors:* what `co_await` results in, and what the awaited throws. *Lifetime:* as of `sleep_awaitable`.
template <owned_awaitable Awaitable>
class [[nodiscard]] timed_awaitable {
 public:
  /// What `with_timeout` answers whose limit ends at `until`.
  timed_awaitable(timer_service& service, Awaitable&& awaitable, detail::wait_end until)
      : service_{&service}, awaitable_(std::move(awaitable)), until_{until} {}

  /// A `timed_result` of what the awaited results in.
  detail::timeout_awaiter<Awaitable> operator co_await() && { return {*service_, std::move(awaitable_), until_}; }

  /// As of `sleep_awaitable`, one for each type that is awaited.
  static timer::callback handler() noexcept { return detail::timeout_awaiter<Awaitable>::handler(); }

 private:
  timer_service* service_;
  Awaitable awaitable_;
  detail::wait_end until_;
};

/// Awaits `awaitable`, until `after`, any std::chrono duration, has passed since this call, or of a service that was closed
/// then, since the await. Exactly one of the two resumes the coroutine. What is ready at once needs no timer, and comes even
/// from a closed service. With a limit of zero or less it is begun, and has until the loop's next pass. Reads the clock.
///
///   const auto got = co_await tickwheel::with_timeout(timers, socket.read(), 30s);
///   if (!got) co_return;
///   use(*got);
///
/// When the time is up the awaitable and its awaiter are destroyed, then the coroutine goes on, with UV_ETIMEDOUT. With
/// UV_ENOBUFS, at `max_armed`, and UV_ECANCELED, from a closed service, it goes on at once, and the awaitable was not
/// begun. When the service closes meanwhile the limit is gone, and the awaitable alone resumes the coroutine.
///
/// Requires: destroying `awaitable`, and what `operator co_await` made of it, ends the wait: afterwards it resumes nobody, and
/// writes to nothing that may be gone. Sleeps are such, what `with_timeout` answers, and any task that owns its frame and
/// awaits only such. One whose request goes on when the object is gone, and then resumes the coroutine, is not.
template <owned_awaitable Awaitable, class Rep, class Period>
timed_awaitable<Awaitable> with_timeout(timer_service& service, Awaitable awaitable,
                                        std::chrono::duration<Rep, Period> after) {
  const detail::wait_end until{service, detail::to_nanoseconds(after)};
  return {service, std::move(awaitable), until};
}

}  // namespace tickwheel
