// A completion is the callable that a request calls once, with its answer.
#pragma once

#include <tickwheel/uv/detail/member_call.hpp>

#include <concepts>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace tickwheel::durable::detail {

/// Holds a callable on the heap. Empty if there was no memory for it.
///
/// *Thread safety:* none. *Complexity:* one allocation, unless it is empty. *Errors:* none. *Lifetime:* movable.
template <class... Arguments>
class completion {
 public:
  /// Calls nothing.
  completion() noexcept = default;

  /// Empty if there was no memory for the callable, or if making it failed.
  template <class F>
  requires(!std::same_as<std::decay_t<F>, completion>)
      // NOLINTNEXTLINE(bugprone-forwarding-reference-overload): its constraint leaves moves out
      explicit completion(F&& call) noexcept {
    using callable = std::decay_t<F>;
#if defined(__cpp_exceptions)  // without exceptions making it cannot fail, and clang refuses `try`
    if constexpr (!std::is_nothrow_constructible_v<callable, F>) {
      try {
        held_ = std::make_unique<holder<callable>>(std::forward<F>(call));
      } catch (...) {
        held_.reset();
      }
      return;
    }
#endif
    held_.reset(new (std::nothrow) holder<callable>{std::forward<F>(call)});
  }

  /// Returns true if it holds a callable.
  explicit operator bool() const noexcept { return held_ != nullptr; }

  /// Calls the callable, and destroys it. Does nothing if it is empty.
  void operator()(Arguments... arguments) noexcept {
    if (const auto once = std::move(held_)) once->call(std::move(arguments)...);
  }

 private:
  struct base {
    virtual ~base() = default;
    virtual void call(Arguments...) noexcept = 0;
  };
  template <class F>
  struct holder final : base {
    template <class G>
    // NOLINTNEXTLINE(bugprone-forwarding-reference-overload): made of its callable only
    explicit holder(G&& call) noexcept(std::is_nothrow_constructible_v<F, G>) : callable{std::forward<G>(call)} {}
    void call(Arguments... arguments) noexcept override { callable(std::move(arguments)...); }
    F callable;
  };

  std::unique_ptr<base> held_;
};

/// A callable that answers a request. It takes `Arguments`, and is noexcept, because libuv's C frames cannot be unwound.
template <class F, class... Arguments>
concept answers_with = tickwheel::detail::valid(std::is_invocable_v<std::decay_t<F>&, Arguments...>,
                                                "the callable must take the answer of this request") &&
    tickwheel::detail::valid(std::is_nothrow_invocable_v<std::decay_t<F>&, Arguments...>,
                             "the callable must be noexcept: the loop calls it");

}  // namespace tickwheel::durable::detail
