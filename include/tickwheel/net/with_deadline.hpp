// Awaits something until a deadline passes, as a step of a chain that shares one budget.
//
// Use it where a `deadline` was handed down. A step whose deadline has passed is not begun:
//
//   task answer(tickwheel::timer_service& timers, request r) {
//     const auto until = tickwheel::deadline::after(2s, timers);
//     const auto user = co_await tickwheel::with_deadline(timers, users.find(r.user), until);
//     if (!user) co_return refuse(r, user.error);
//     const auto page = co_await tickwheel::with_deadline(timers, pages.render(*user), until);   // has the rest of the budget
//     if (!page) co_return refuse(r, page.error);
//     send(*page);
//   }
//
// `with_timeout` does the same with a duration. The operations of `awaitable_tcp.hpp` take a deadline themselves, at a lower cost.
#pragma once

#include <tickwheel/net/deadline.hpp>
#include <tickwheel/uv/coroutine.hpp>

#include <utility>

namespace tickwheel {

/// Returns an awaitable that awaits `awaitable` until `until` passes. Exactly one of `awaitable` and the deadline resumes the
/// coroutine. Results in a `timed_result`. `awaitable` must meet what `with_timeout` requires.
///
/// A deadline that has passed by `timer_service::now()` ends the wait before it begins: `awaitable` is not started, and its value is
/// not taken even if it is ready. Otherwise it is as `with_timeout`. `deadline::never()` is a limit that never ends. It counts in
/// `max_armed`.
///
/// If there is no value, `error` of the result says why:
/// UV_ETIMEDOUT: the deadline passed. The awaitable was not started, or it was destroyed before the coroutine continued.
/// UV_ENOBUFS: `max_armed` timers are armed. The coroutine continues at once, and `awaitable` did not begin to wait.
/// UV_ECANCELED: the service is closed. The coroutine continues at once, and `awaitable` did not begin to wait.
/// A write of a `tcp_socket` may have sent a part of the bytes, as `with_timeout` says.
template <owned_awaitable Awaitable>
timed_awaitable<Awaitable> with_deadline(timer_service& service, Awaitable awaitable, deadline until) {
  return {service, std::move(awaitable), detail::wait_end{until.when, detail::wait_end::of_budget{}}};
}

}  // namespace tickwheel
