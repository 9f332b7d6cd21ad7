// Converts any std::chrono::duration to nanoseconds. It rounds up, and saturates instead of overflowing.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace tickwheel::detail {

/// Returns `a + b`. Saturates at nanoseconds::max() and nanoseconds::min().
constexpr std::chrono::nanoseconds add_saturating(std::chrono::nanoseconds a, std::chrono::nanoseconds b) noexcept {
  if (b.count() > 0 && a.count() > std::numeric_limits<std::int64_t>::max() - b.count())
    return std::chrono::nanoseconds::max();
  if (b.count() < 0 && a.count() < std::numeric_limits<std::int64_t>::min() - b.count())
    return std::chrono::nanoseconds::min();
  return a + b;
}

/// Returns `when + later`. Saturates at time_point::max() and time_point::min().
template <class Clock>
constexpr auto add_saturating(std::chrono::time_point<Clock, std::chrono::nanoseconds> when,
                              std::chrono::nanoseconds later) noexcept {
  return decltype(when){add_saturating(when.time_since_epoch(), later)};
}

/// Returns `d` in nanoseconds, rounded up: a timer may be late, but never early. Saturates beyond the range of 64-bit
/// nanoseconds, which is 292 years. A floating-point NaN becomes zero, because it is no reason to wait.
template <class Rep, class Period>
constexpr std::chrono::nanoseconds to_nanoseconds(std::chrono::duration<Rep, Period> d) noexcept {
  using std::chrono::nanoseconds;
  using in_nanoseconds = std::ratio_divide<Period, std::nano>;
  constexpr auto max = std::numeric_limits<std::int64_t>::max();
  if constexpr (std::is_floating_point_v<Rep>) {
    const auto ns = static_cast<long double>(d.count()) * in_nanoseconds::num / in_nanoseconds::den;
    constexpr auto min = std::numeric_limits<std::int64_t>::min();
    if (ns >= static_cast<long double>(max)) return nanoseconds::max();
    if (ns <= static_cast<long double>(min)) return nanoseconds::min();
    if (ns > 0 || ns < 0) {
      const auto whole = static_cast<std::int64_t>(ns);
      return nanoseconds{whole + (static_cast<long double>(whole) < ns)};
    }
    return nanoseconds::zero();  // also for NaN
  } else {
    static_assert(std::is_integral_v<Rep> && sizeof(Rep) <= 8,
                  "a duration counts in an integer or a floating-point type");
    using wide = std::conditional_t<std::is_unsigned_v<Rep>, std::uint64_t, std::int64_t>;
    constexpr auto num = static_cast<wide>(in_nanoseconds::num);
    constexpr auto den = static_cast<wide>(in_nanoseconds::den);
    // each group of `den` units is `num` nanoseconds; the rest is less than `num` nanoseconds and rounds up
    const auto groups = static_cast<wide>(d.count()) / den;
    const auto rest = static_cast<wide>(d.count()) % den;
    if (groups > static_cast<wide>(max) / num) return nanoseconds::max();
    if constexpr (std::is_signed_v<Rep>)
      if (groups < -(max / num)) return nanoseconds::min();
    std::int64_t rounded = 0;
    if constexpr (den != 1) {
      const auto part = static_cast<long double>(rest) * num / den;
      rounded = static_cast<std::int64_t>(part);
      rounded += static_cast<long double>(rounded) < part;
    }
    return add_saturating(nanoseconds{static_cast<std::int64_t>(groups * num)}, nanoseconds{rounded});
  }
}

}  // namespace tickwheel::detail
