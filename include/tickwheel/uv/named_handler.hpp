// The names of handlers, for people.
//
// Handlers that are member functions and callables have names by themselves: "session::on_idle". A plain function has one while a
// `named_handler` lives. Otherwise its place is written, as addr2line takes it: "server+0x1ea66".
//
//   tickwheel::named_handler name{&on_tick, "on_tick"};    // at namespace scope, beside the function
//   std::clog << tickwheel::handler_name{slow.handler};    // the handler on_tick
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/core/wheel_entry.hpp>

#include <cstddef>
#include <iosfwd>
#include <string_view>

namespace tickwheel {

/// Gives a handler a name, for as long as it lives. A plugin that is unloaded takes its names along: they are static objects of the
/// plugin, and names are only read while somebody asks for one. Of several names for one handler the latest counts.
///
/// *Thread safety:* any thread, also while others ask for names. *Complexity:* O(1); takes a lock. *Errors:* none.
/// *Lifetime:* neither copies nor moves. The text outlives it.
class TICKWHEEL_API named_handler {
 public:
  /// Names `handler`. An empty name counts as none.
  named_handler(wheel_entry::callback handler, std::string_view name) noexcept;
  ~named_handler();
  named_handler(const named_handler&) = delete;
  named_handler& operator=(const named_handler&) = delete;

 private:
  /// @cond the function is documented below
  friend void write_name(wheel_entry::callback, char*, std::size_t) noexcept;
  /// @endcond

  wheel_entry::callback handler_;
  std::string_view name_;
  named_handler* next_ = nullptr;
  named_handler** here_ = nullptr;  // the pointer to this object
};

/// Writes the name of `handler`, or its place in its module, or its address. Writes at most `size` bytes, the last of which is a zero.
/// The text is UTF-8: each other byte of the name becomes `?`, and no code point is cut. Requires: `size` is at least 1. O(names),
/// allocates nothing. *Any thread.*
TICKWHEEL_API void write_name(wheel_entry::callback handler, char* to, std::size_t size) noexcept;

/// Returns a name for a handler, or null: it is then written as `write_name` does.
using handler_names = const char* (*)(wheel_entry::callback) noexcept;

/// Written to a stream as "the handler session::on_idle".
struct handler_name {
  wheel_entry::callback handler;  ///< as `timer::handler()` returns it
  handler_names names = nullptr;  ///< is asked first, if it is not null

  /// Writes the name. Throws what the stream throws.
  friend TICKWHEEL_API std::ostream& operator<<(std::ostream&, const handler_name&);
};

namespace detail {

#if defined(__GNUC__)
template <auto Member>
constexpr const char* function_of_member() noexcept {
  return __PRETTY_FUNCTION__;
}
template <class Type>
constexpr const char* function_of_type() noexcept {
  return __PRETTY_FUNCTION__;
}
#else
template <auto Member>
constexpr const char* function_of_member() noexcept {
  return "";
}
template <class Type>
constexpr const char* function_of_type() noexcept {
  return "";
}
#endif

/// Returns the template argument in the name of a function: of "f() [with auto Member = &session::on_idle]" it is "session::on_idle".
constexpr std::string_view argument_in(std::string_view function) noexcept {
  const std::size_t begin = function.find(" = ");
  if (begin == std::string_view::npos) return {};
  std::string_view argument = function.substr(begin + 3);
  argument.remove_suffix(1);
  if (argument.starts_with('&')) argument.remove_prefix(1);
  return argument;
}

/// Returns the name of a member function. Empty if the compiler does not tell it.
template <auto Member>
constexpr std::string_view name_of_member() noexcept {
  return argument_in(function_of_member<Member>());
}
/// Returns the name of a type, for handlers that are callables.
template <class Type>
constexpr std::string_view name_of_type() noexcept {
  return argument_in(function_of_type<Type>());
}

/// Gives `Run` the name of the type `Of`, in a program that calls `get`.
template <wheel_entry::callback Run, class Of>
class callback_of_type {
 public:
  static wheel_entry::callback get() noexcept {
    static_cast<void>(&handler_name_);  // so that it exists
    return Run;
  }

 private:
  TICKWHEEL_LOCAL inline static const named_handler handler_name_{Run, name_of_type<Of>()};
};

}  // namespace detail

}  // namespace tickwheel
