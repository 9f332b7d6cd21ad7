// The coroutines of tests.
#pragma once

#include <coroutine>
#include <exception>
#include <utility>

/// A promise of a coroutine that returns nothing and throws nothing.
struct void_promise {
  void return_void() noexcept {}
  void unhandled_exception() noexcept { std::terminate(); }
};

/// A coroutine that runs at once, and whose frame the test owns.
class routine {
 public:
  struct promise_type : void_promise {
    routine get_return_object() { return routine{std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
  };

  routine(routine&& other) noexcept : frame_{std::exchange(other.frame_, nullptr)} {}
  ~routine() { destroy(); }

  bool done() const { return frame_.done(); }
  void destroy() {
    if (frame_) std::exchange(frame_, nullptr).destroy();
  }

 private:
  explicit routine(std::coroutine_handle<promise_type> frame) : frame_{frame} {}
  std::coroutine_handle<promise_type> frame_;
};

/// A coroutine whose frame goes when it returns.
struct detached {
  struct promise_type : void_promise {
    detached get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
  };
};
