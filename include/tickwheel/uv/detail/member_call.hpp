// The part that all timers share which call a member function of the object they are embedded in.
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/core/wheel_entry.hpp>
#include <tickwheel/uv/named_handler.hpp>

#include <type_traits>

namespace tickwheel::detail {

/// Returns `is_valid`. Compilers show the call, and with it `message`, if it makes a constraint fail.
consteval bool valid(bool is_valid, const char* /*message*/) noexcept { return is_valid; }

/// `Pointer`, to a member function, can be called without arguments on an `Object`, an lvalue if it is a reference.
template <class Pointer, class Object>
concept takes_nothing = requires(Object&& object, Pointer member) {
  (static_cast<Object&&>(object).*member)();
};

/// True for a pointer to a member function that takes arguments, however it is qualified.
template <class>
inline constexpr bool takes_arguments = false;
template <class Function, class Owner>
requires std::is_function_v<Function>
inline constexpr bool takes_arguments<Function Owner::*> =
    !takes_nothing<Function Owner::*, Owner&> && !takes_nothing<Function Owner::*, Owner>;

/// Tells whether a pointer to a member can be a handler that takes these arguments, and the class that it is a member of.
template <class Pointer, class... Arguments>
struct member_handler {
  static constexpr bool is_noexcept = false;
};
template <class R, class Owner, class... Arguments>
struct member_handler<R (Owner::*)(Arguments...) noexcept, Arguments...> {
  static constexpr bool is_noexcept = true;
  using owner = Owner;
};
template <class R, class Owner, class... Arguments>
struct member_handler<R (Owner::*)(Arguments...) const noexcept, Arguments...> {
  static constexpr bool is_noexcept = true;
  using owner = Owner;
};

/// Calls `Member` of its owner. A timer derives from it, as `Derived`, and befriends it; `Derived::expired` says what an expiry
/// of the timer does, by default it calls `Member`.
template <class Derived, auto Member, class... Arguments>
class member_call {
 public:
  /// The class of which `Member` is a member.
  using owner = typename member_handler<decltype(Member), Arguments...>::owner;

  explicit member_call(owner& self) noexcept : self_{self} {}

  /// Tells its handler from others; see `timer::handler`.
  static wheel_entry::callback handler() noexcept {
    static_cast<void>(&handler_name_);  // so that it exists
    return &run;
  }

  owner& self() noexcept { return self_; }
  void call(Arguments... arguments) noexcept { (self_.*Member)(arguments...); }
  void expired() noexcept { call(); }

 private:
  static void run(wheel_entry& entry) noexcept { static_cast<Derived&>(Derived::from(entry)).expired(); }

  // One per module: an object that modules share would keep gcc's plugins from being unloaded.
  TICKWHEEL_LOCAL inline static const named_handler handler_name_{&run, name_of_member<Member>()};

  owner& self_;
};

}  // namespace tickwheel::detail
