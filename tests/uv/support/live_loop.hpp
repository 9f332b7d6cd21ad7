// A libuv loop for a test, with callbacks in each of its phases. It must close cleanly in the end.
//
// All that holds on a live loop holds for each kind of wakeup. A test therefore opens its service `with_wakeup(options)`, and its
// program is run once for each.
#pragma once

#include <tickwheel/uv/service_options.hpp>

#include "socket_pair.hpp"

#include <uv.h>

#include <string_view>

/// Returns the kind of wakeup of this run: TICKWHEEL_TEST_WAKEUP names it; uv_timer by default.
inline tickwheel::wake_by wakeup_of_this_run() {
  const char* const asked = std::getenv("TICKWHEEL_TEST_WAKEUP");  // nothing sets the environment while tests run
  const std::string_view name = asked != nullptr ? asked : "uv_timer";
  EXPECT_TRUE(name == "uv_timer" || name == "timerfd") << "TICKWHEEL_TEST_WAKEUP=" << name;
  return name == "timerfd" ? tickwheel::wake_by::timerfd : tickwheel::wake_by::uv_timer;
}

inline tickwheel::service_options with_wakeup(tickwheel::service_options options = {}) {
  options.wakeup = wakeup_of_this_run();
  return options;
}

/// Blocks the loop, in a callback.
inline void block_for(std::chrono::nanoseconds time) { std::this_thread::sleep_for(time); }

/// Calls `call` for each handle of the loop, within a uv_walk.
template <class F>
void for_each_handle(uv_loop_t* loop, F call) {
  uv_walk(
      loop, [](uv_handle_t* h, void* arg) { (*static_cast<F*>(arg))(h); }, &call);
}

/// Closes each handle that is not closing, as a program does at its end.
inline void close_each_handle(uv_loop_t* loop) {
  for_each_handle(loop, [](uv_handle_t* h) {
    if (!uv_is_closing(h)) uv_close(h, nullptr);
  });
}

enum class phase { io, timer, idle, prepare, check, close };
inline constexpr phase all_phases[] = {phase::io,      phase::timer, phase::idle,
                                       phase::prepare, phase::check, phase::close};

inline const char* name_of(phase p) {
  constexpr const char* names[] = {"io", "timer", "idle", "prepare", "check", "close"};
  return names[static_cast<std::size_t>(p)];
}
inline std::ostream& operator<<(std::ostream& out, phase p) { return out << name_of(p); }

class live_loop {
 public:
  using action = std::function<void()>;

  /// A libuv handle of the test's, and what its callback does. The loop keeps it until its end.
  struct hook {
    uv_any_handle handle;
    action call;
    action closed;

    uv_handle_t* base() { return &handle.handle; }
    void close(action then = {}) {
      closed = std::move(then);
      if (!uv_is_closing(base()))
        uv_close(base(), [](uv_handle_t* h) {
          if (auto& self = of(h); self.closed) self.closed();
        });
    }
    void stop() {
      switch (handle.handle.type) {
        case UV_POLL:
          uv_poll_stop(&handle.poll);
          break;
        case UV_IDLE:
          uv_idle_stop(&handle.idle);
          break;
        case UV_PREPARE:
          uv_prepare_stop(&handle.prepare);
          break;
        case UV_CHECK:
          uv_check_stop(&handle.check);
          break;
        default:
          break;
      }
    }
    hook& unref() {
      uv_unref(base());
      return *this;
    }
    template <class H>
    static hook& of(H* h) {
      return *static_cast<hook*>(h->data);
    }
    template <class H>
    static void run(H* h) {
      if (auto& self = of(h); self.call) self.call();
    }
  };

  live_loop() { EXPECT_EQ(uv_loop_init(&loop_), 0); }
  ~live_loop() {
    if (!ended_) end();
  }
  live_loop(const live_loop&) = delete;
  live_loop& operator=(const live_loop&) = delete;

  operator uv_loop_t&() { return loop_; }
  uv_loop_t* get() { return &loop_; }

  /// Closes what the test opened, lets close callbacks run, and closes the loop: nothing may be left by then.
  void end() {
    for (hook& h : hooks_)
      if (!uv_is_closing(h.base())) h.close();
    run();
    EXPECT_EQ(uv_loop_close(&loop_), 0) << "some handle was left open";
    ended_ = true;
  }

  /// Runs until nothing is alive or the loop is stopped. A loop that would never end fails the test instead.
  void run(std::chrono::milliseconds patience = std::chrono::seconds{10}) {
    hook& guard = add({});
    bool hangs = false;
    guard.call = [&] {
      hangs = true;
      stop();
    };
    start_timer(guard, patience).unref();
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_FALSE(hangs) << "the loop did not end";
    guard.call = {};
    if (uv_is_closing(guard.base())) return;  // a test's walk over all handles
    bool closed = false;
    guard.close([&] { closed = true; });
    for (int turns = 0; !closed && turns < 100; ++turns) uv_run(&loop_, UV_RUN_NOWAIT);
    EXPECT_TRUE(closed);
    guard.closed = {};
  }
  void run_for(std::chrono::milliseconds time) {
    after(time, [this] { stop(); });
    run();
  }
  void stop() { uv_stop(&loop_); }
  /// Runs iterations that do not wait until `done` returns true.
  template <class Done>
  void turn_until(Done done) {
    for (int turns = 0; !done(); ++turns) {
      ASSERT_LT(turns, 10'000);
      uv_run(&loop_, UV_RUN_NOWAIT);
    }
  }

  // callbacks of every iteration; they do not keep the loop alive
  hook& each_prepare(action call) {
    return start(&uv_any_handle::prepare, uv_prepare_init, uv_prepare_start, std::move(call)).unref();
  }
  hook& each_check(action call) {
    return start(&uv_any_handle::check, uv_check_init, uv_check_start, std::move(call)).unref();
  }

  // these do keep it alive
  hook& each_idle(action call) { return start(&uv_any_handle::idle, uv_idle_init, uv_idle_start, std::move(call)); }
  hook& on_readable(int fd, action call) {
    hook& h = add(std::move(call));
    EXPECT_EQ(uv_poll_init(&loop_, &h.handle.poll, fd), 0);
    h.base()->data = &h;
    uv_poll_start(&h.handle.poll, UV_READABLE, [](uv_poll_t* p, int, int) { hook::run(p); });
    return h;
  }
  /// A peer that sends a byte now, and another when one was read and `goes_on` returned true.
  hook& on_each_byte(std::function<bool()> goes_on) {
    const socket_pair& pair = pairs_.emplace_back();
    pair.peer_sends();
    return on_readable(pair.ours(), [&pair, goes_on = std::move(goes_on)] {
      EXPECT_TRUE(pair.receive());
      if (goes_on()) pair.peer_sends();
    });
  }
  /// Once, by a timer of libuv's own.
  hook& after(std::chrono::milliseconds delay, action call) {
    hook& h = add({});
    once(h, std::move(call));
    return start_timer(h, delay);
  }

  /// Runs `call` once, in the given phase, as soon as the loop comes to it.
  void once_in(phase p, action call) {
    switch (p) {
      case phase::timer:
        after(std::chrono::milliseconds{0}, std::move(call));
        return;
      case phase::close:
        each_idle({}).close(std::move(call));
        return;
      case phase::io: {
        const socket_pair& pair = pairs_.emplace_back();
        pair.peer_sends();
        once(on_readable(pair.ours(), {}), std::move(call));
        return;
      }
      case phase::idle:
        once(each_idle({}), std::move(call));
        return;
      case phase::prepare:
        once(keep_alive(each_prepare({})), std::move(call));
        return;
      case phase::check:
        // an idle handle beside it, or the loop would wait for something before it comes to its check phase
        hook& spin = each_idle({});
        hook& h = keep_alive(each_check({}));
        once(h, [&spin, call = std::move(call)] {
          spin.stop();
          call();
        });
        return;
    }
  }

 private:
  hook& add(action call) {
    hook& h = hooks_.emplace_back();
    h.call = std::move(call);
    return h;
  }
  template <class H>
  hook& start(H uv_any_handle::*handle, int (*init)(uv_loop_t*, H*), int (*begin)(H*, void (*)(H*)), action call) {
    hook& h = add(std::move(call));
    init(&loop_, &(h.handle.*handle));
    h.base()->data = &h;
    begin(&(h.handle.*handle), &hook::run<H>);
    return h;
  }
  hook& start_timer(hook& h, std::chrono::milliseconds delay) {
    uv_timer_init(&loop_, &h.handle.timer);
    h.base()->data = &h;
    // libuv counts from its own time, which may be stale; a test counts from now
    const auto stale = std::chrono::milliseconds{uv_hrtime() / 1'000'000 - uv_now(&loop_)};
    uv_timer_start(&h.handle.timer, &hook::run<uv_timer_t>, static_cast<std::uint64_t>((stale + delay).count()), 0);
    return h;
  }
  static hook& keep_alive(hook& h) {
    uv_ref(h.base());
    return h;
  }
  // stopped and not closed: a handle that is closing would keep this iteration from waiting, and hide that it waits for
  // too long
  static void once(hook& h, action call) {
    h.call = [&h, call = std::move(call)] {
      h.stop();
      call();
    };
  }

  uv_loop_t loop_;
  bool ended_ = false;
  std::deque<socket_pair> pairs_;
  std::deque<hook> hooks_;
};
