// A timer neither copies nor moves, so a std::vector cannot hold one. The compiler says so in a few lines, instead of in sixty
// lines about the standard library.
#pragma once

#include <vector>

namespace tickwheel::detail {

/// True for the timers of this library. It asks for the name of a type and not for its bases, because a vector may be of a
/// class that is not complete yet.
template <class>
inline constexpr bool stays_in_place = false;

}  // namespace tickwheel::detail

template <class T, class Allocator>
requires tickwheel::detail::stays_in_place<T>
class std::vector<T, Allocator> {
  static_assert(!tickwheel::detail::stays_in_place<T>,
                "a timer neither copies nor moves: use a std::deque or std::list");
};
