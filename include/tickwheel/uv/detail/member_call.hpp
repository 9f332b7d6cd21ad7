// The part that all timers share which call a member function of the object they are embedded in.
#pragma once

#include <tickwheel/core/wheel_entry.hpp>

namespace tickwheel::detail {

/// Returns `is_valid`. Compilers show the call, and with it `message`, if it makes a constraint fail.
consteval bool valid(bool is_valid, const char* /*message*/) noexcept { return is_valid; }

template <class>
inline constexpr bool takes_arguments = false;
template <class R, class Owner, bool IsNoexcept, class First, class... Others>
inline constexpr bool takes_arguments<R (Owner::*)(First, Others...) noexcept(IsNoexcept)> = true;

template <class Function, class... Arguments>
struct member_handler {
  static constexpr bool is_noexcept = false;
};
template <class R, class Owner, class... Arguments>
struct member_handler<R (Owner::*)(Arguments...) noexcept, Arguments...> {
  static constexpr bool is_noexcept = true;
  using owner = Owner;
};

/// Calls `Member` of its owner. A timer derives from it, as `Derived`, and befriends it; `Derived::expired` says what an expiry
/// of the timer does, by default it calls `Member`.
template <class Derived, auto Member, class... Arguments>
class member_call {
 public:
  /// The class that `Member` is of.
  using owner = typename member_handler<decltype(Member), Arguments...>::owner;

  explicit member_call(owner& self) noexcept : self_{self} {}

  /// Tells its handler from others; see `timer::handler`.
  static wheel_entry::callback handler() noexcept { return &run; }

  owner& self() noexcept { return self_; }
  void call(Arguments... arguments) noexcept { (self_.*Member)(arguments...); }
  void expired() noexcept { call(); }

 private:
  static void run(wheel_entry& entry) noexcept { static_cast<Derived&>(Derived::from(entry)).expired(); }

  owner& self_;
};

}  // namespace tickwheel::detail
