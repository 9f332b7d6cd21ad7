// Handlers with an argument, such as the phase that ran out or the reason to leave.
#pragma once

#include <tickwheel/uv/detail/member_call.hpp>

namespace tickwheel {

/// `Member` is a pointer to a noexcept member function that takes an `Argument` by value. libuv's C frames call it, and cannot be
/// unwound. Declare the handler before the timer that calls it, and do not overload it.
template <auto Member, class Argument>
concept noexcept_argument_handler =
    detail::valid(detail::member_handler<decltype(Member), Argument>::is_noexcept,
                  "the handler is not a noexcept member function with one argument of this type");

}  // namespace tickwheel
