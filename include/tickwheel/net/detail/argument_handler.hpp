// Handlers that are told something: what ran out, why they are to go.
#pragma once

#include <tickwheel/uv/detail/member_call.hpp>

namespace tickwheel {

/// `Member` is a pointer to a member function that takes an `Argument` by value and is declared noexcept: libuv's C
/// frames, which call it, cannot be unwound. Declare the handler before what calls it, and do not overload it.
template <auto Member, class Argument>
concept noexcept_argument_handler =
    detail::valid(detail::member_handler<decltype(Member), Argument>::is_noexcept,
                  "the handler is not a noexcept member function with one argument of this type");

}  // namespace tickwheel
