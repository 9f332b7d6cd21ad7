// The coroutines of tests, and an event that they await.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
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

/// Something that comes when the test says so. Who no longer waits is not resumed.
class event {
 public:
  void come(int value) {
    value_ = value;
    if (waiting_) std::exchange(waiting_, nullptr).resume();
  }
  bool is_awaited() const { return waiting_ != nullptr; }
  int begun = 0;

  class awaiter {
   public:
    explicit awaiter(event& e) : event_{e} {}
    awaiter(const awaiter&) = delete;
    awaiter& operator=(const awaiter&) = delete;
    ~awaiter() { event_.waiting_ = nullptr; }
    bool await_ready() const { return event_.value_.has_value(); }
    void await_suspend(std::coroutine_handle<> waiting) {
      ++event_.begun;
      event_.waiting_ = waiting;
    }
    int await_resume() { return *std::exchange(event_.value_, std::nullopt); }

   private:
    event& event_;
  };
  struct waited_for {
    event& self;
    awaiter operator co_await() const { return awaiter{self}; }
  };
  waited_for wait() { return {*this}; }

 private:
  std::optional<int> value_;
  std::coroutine_handle<> waiting_;
};
