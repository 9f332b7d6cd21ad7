// The interface of a subject: timers of one kind in N connections, under simulated time that starts at 0.
//
// A subject is an adapter that is as thin as possible, because its cost is measured also. To add one, write a file in subjects/ and
// name the class in wheel_bench.cpp.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <optional>
#include <string_view>

namespace tickwheel::bench {

/// Every call is made within a `simulated_clock::scope`. Callbacks add the id of their connection to `expired`.
///
///     S(n)              allocates n connections with unarmed timers; the destructor frees them, armed or not
///     arm(c, delay)     arms the timer of `c`, or moves it if it is armed
///     cancel(c)         returns whether it was armed
///     advance_to(now)   is called after each microsecond; runs the due timers as often as the subject's loop would
///     jump_to(now)      crosses the time until `now` at once, and runs all timers that are due then
///     run_out(end)      lets time pass until `end`, as the subject's own loop does if it has nothing else to do
///     step_out()        goes from wakeup to wakeup until nothing is armed; returns the number of wakeups
///     due(c)            returns when the timer of `c` is due
template <class S>
concept subject = std::constructible_from<S, std::size_t> &&
    requires(S s, typename S::connection c, std::chrono::nanoseconds now, std::chrono::microseconds delay) {
  { S::name } -> std::convertible_to<std::string_view>;
  { s[std::size_t{}] } -> std::same_as<typename S::connection&>;
  s.arm(c, delay);
  { s.cancel(c) } -> std::same_as<bool>;
  s.advance_to(now);
  s.jump_to(now);
  s.run_out(now);
  { s.step_out() } -> std::same_as<std::size_t>;
  { s.due(c) } -> std::same_as<std::optional<std::chrono::nanoseconds>>;
};

/// `renew(c)` destroys the timer of `c`, armed or not, and constructs a new one in its place.
template <class S>
concept renewable_subject = subject<S> && requires(S s, typename S::connection c) {
  s.renew(c);
};

}  // namespace tickwheel::bench
