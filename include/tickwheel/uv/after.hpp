// Runs a callable once, later, without an object that keeps it: fire and forget.
//
//   if (int error = timers.after(5s, [p = std::move(page)]() noexcept { p->expire(); })) return error;
//
// The service keeps the callable, and frees it after the call. Nobody can cancel it. So it must not use an object that may be gone
// by then. Take a `callback_timer` or a `member_timer` for anything that belongs to an object: destroying the object cancels it,
// and it allocates nothing. Take a `remote_handle` on another thread.
#pragma once

#include <tickwheel/uv/detail/detached_calls.hpp>
#include <tickwheel/uv/timer.hpp>

#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

namespace tickwheel {

namespace detail {

template <class F>
class delayed_call final : public detached_call, private timer {
 public:
  explicit delayed_call(timer_service& service) noexcept : timer{service, handler()} {}

  using timer::arm;
  template <class From>
  void hold(From&& from) noexcept {
    call_.emplace(std::forward<From>(from));
  }

 private:
  static callback handler() noexcept {
    static_cast<void>(&handler_name_);  // so that it exists
    return &expire;
  }

  // Unlinked before the call, which may close the service.
  static void expire(wheel_entry& entry) noexcept {
    const std::unique_ptr<delayed_call> self{static_cast<delayed_call*>(&timer::from(entry))};
    self->unlink();
    static_cast<void>((*self->call_)());
  }

  TICKWHEEL_LOCAL inline static const named_handler handler_name_{&expire, name_of_type<F>()};

  std::optional<F> call_;  // empty until the timer is armed: a refused callable stays with its caller
};

}  // namespace detail

template <class D, class F>
int timer_service::after(D delay, F&& call) noexcept {
  using callable = std::decay_t<F>;
  static_assert(std::is_nothrow_invocable_v<callable&>,
                "a callable of `after` must take no arguments and be noexcept: libuv's C frames cannot be unwound");
  static_assert(std::is_nothrow_constructible_v<callable, F> && std::is_nothrow_destructible_v<callable>,
                "a callable of `after` must move and be destroyed without exceptions; a copy of it must throw none");
  if constexpr (std::is_nothrow_invocable_v<callable&> && std::is_nothrow_constructible_v<callable, F>) {
    std::unique_ptr<detail::delayed_call<callable>> made{new (std::nothrow) detail::delayed_call<callable>{*this}};
    if (made == nullptr) return UV_ENOMEM;
    if (const int error = made->arm(delay)) return error;
    made->hold(std::forward<F>(call));
    detached_.add(*made.release());
  }
  return 0;
}

}  // namespace tickwheel
