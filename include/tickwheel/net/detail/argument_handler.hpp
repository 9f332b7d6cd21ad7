// Handlers that are told something: what ran out, why they are to go.
#pragma once

namespace tickwheel {
namespace detail {

template <class Function, class Argument>
struct argument_handler {
  static constexpr bool is_noexcept = false;
};
template <class R, class Owner, class Argument>
struct argument_handler<R (Owner::*)(Argument) noexcept, Argument> {
  static constexpr bool is_noexcept = true;
  using owner = Owner;
};

}  // namespace detail

/// `Member` is a pointer to a member function that takes an `Argument` by value and is declared noexcept: libuv's C
/// frames, which call it, cannot be unwound. Declare the handler before what calls it, and do not overload it.
template <auto Member, class Argument>
concept noexcept_argument_handler = detail::argument_handler<decltype(Member), Argument>::is_noexcept;

}  // namespace tickwheel
