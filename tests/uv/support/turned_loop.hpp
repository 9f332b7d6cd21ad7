// A libuv loop that a test turns itself, on manual time. It is exact to the nanosecond. It runs its phases in either of libuv's
// orders, whichever libuv is installed.
//
// The loop, its handles and the functions that start and stop them are libuv's. Only uv_run is replaced, in public terms: it
// calls the callbacks of active handles phase by phase, and at the poll moves the clock by uv_backend_timeout. The program
// must be linked with simulated_clock.cpp.
#pragma once

#include "../../support/simulated_clock.hpp"
#include "live_loop.hpp"

#include <tickwheel/uv/driver.hpp>

#include <uv.h>

#include <map>

/// Up to 1.44, iterations begin with the timers. From 1.45 on they end with them, after the poll.
enum class loop_order { timers_first, timers_last };
inline constexpr loop_order both_orders[] = {loop_order::timers_first, loop_order::timers_last};
inline const char* name_of(loop_order order) {
  return order == loop_order::timers_first ? "timers_first" : "timers_last";
}
inline std::ostream& operator<<(std::ostream& out, loop_order order) { return out << name_of(order); }

/// Where in its phase a callback of the test's runs: before that of tickwheel, or after it.
enum class place { before, after };
inline constexpr place both_places[] = {place::before, place::after};
inline const char* name_of(place p) { return p == place::before ? "before" : "after"; }
inline std::ostream& operator<<(std::ostream& out, place p) { return out << name_of(p); }

class turned_loop {
 public:
  using action = std::function<void()>;
  using time_point = tickwheel::clock::time_point;
  using nanoseconds = std::chrono::nanoseconds;

  explicit turned_loop(loop_order order) : order_{order} {
    // not on a millisecond, so that what libuv rounds off makes a difference
    simulated_clock::set(std::chrono::seconds{1000} + nanoseconds{345'678});
    EXPECT_EQ(uv_loop_init(&loop_), 0);
    EXPECT_EQ(now().time_since_epoch(), simulated_clock::now()) << "the clock is not the test's";
    // The first uv_async_t of a loop has it watch a descriptor, and uv_backend_timeout answers 0 until it does.
    EXPECT_EQ(uv_async_init(&loop_, &watched_, nullptr), 0);
    EXPECT_EQ(uv_poll_init(&loop_, &input_, unread_.ours()), 0);
    EXPECT_EQ(uv_poll_start(&input_, UV_READABLE, [](uv_poll_t*, int, int) {}), 0);
    uv_run(&loop_, UV_RUN_NOWAIT);
    uv_unref(reinterpret_cast<uv_handle_t*>(&watched_));
    uv_unref(reinterpret_cast<uv_handle_t*>(&input_));
  }
  ~turned_loop() {
    uv_close(reinterpret_cast<uv_handle_t*>(&watched_), nullptr);
    uv_close(reinterpret_cast<uv_handle_t*>(&input_), nullptr);
    uv_run(&loop_, UV_RUN_DEFAULT);  // close callbacks
    EXPECT_EQ(uv_loop_close(&loop_), 0) << "some handle was left open";
  }
  turned_loop(const turned_loop&) = delete;
  turned_loop& operator=(const turned_loop&) = delete;

  operator uv_loop_t&() { return loop_; }

  static time_point now() { return tickwheel::clock::now(); }
  /// Blocks, in a callback.
  static void block(nanoseconds time) { simulated_clock::set(simulated_clock::now() + time); }

  /// From `when` on there is something to read; `call` is what the next poll then calls, in the order of the times.
  void readable_at(time_point when, action call) { events_.emplace(when, std::move(call)); }

  /// Calls `call` once, when the loop comes to that phase at `when` or later. The loop does not sleep past it.
  void once_in(phase where, place side, time_point when, action call) {
    hooks_.push_back({where, side, when, std::move(call)});
  }

  /// A poll handles at most so many of what there is to read, as libuv takes at most 32 datagrams from a socket. The loop's
  /// descriptor is readable until all was.
  void read_at_most(std::size_t events) { most_ = events; }

  /// Polls that end by their timeout return late by a part of it, up to 100 ms: Linux allows itself a thousandth, or five of a
  /// process that is niced.
  void sleep_late(int per_mille) { late_per_mille_ = per_mille; }

  /// One iteration. Requires: not called from a callback.
  void turn() {
    if (order_ == loop_order::timers_first) {
      uv_update_time(&loop_);
      run_timers();
    }
    run(phase::idle, [this] { call_active(UV_IDLE); });
    run(phase::prepare, [this] { call_active(UV_PREPARE); });
    wait();
    run(phase::io, [this] { read(); });
    run(phase::check, [this] { call_active(UV_CHECK); });
    run(phase::close, [] {});
    if (order_ == loop_order::timers_last) {
      uv_update_time(&loop_);
      run_timers();
    }
  }

  /// Turns until nothing holds the loop.
  void run() {
    if (order_ == loop_order::timers_last) {  // as UV_RUN_DEFAULT does, for the sake of those who knew the other order
      uv_update_time(&loop_);
      run_timers();
    }
    for (int turns = 0; uv_loop_alive(&loop_) != 0; ++turns) {
      ASSERT_LT(turns, 100'000) << "the loop does not end";
      turn();
    }
  }

 private:
  struct hook {
    phase where;
    place side;
    time_point when;
    action call;
  };

  // The callbacks of a phase, those of the test's before and after it.
  template <class Callbacks>
  void run(phase where, Callbacks callbacks) {
    run_hooks(where, place::before);
    callbacks();
    run_hooks(where, place::after);
  }
  // Hooks that they add run in the next iteration.
  void run_hooks(phase where, place side) {
    const auto is_due = [=](const hook& h) { return h.where == where && h.side == side && h.when <= now(); };
    std::vector<hook> due;
    std::copy_if(hooks_.begin(), hooks_.end(), std::back_inserter(due), is_due);
    std::erase_if(hooks_, is_due);
    for (const hook& h : due) h.call();
  }

  std::vector<uv_handle_t*> active(uv_handle_type type) {
    std::vector<uv_handle_t*> found;
    for_each_handle(&loop_, [&](uv_handle_t* h) {
      if (h->type == type && uv_is_active(h) != 0) found.push_back(h);
    });
    return found;
  }
  void call_active(uv_handle_type type) {
    for (uv_handle_t* const h : active(type)) {
      if (uv_is_active(h) == 0) continue;  // stopped by one before it
      if (type == UV_IDLE) reinterpret_cast<uv_idle_t*>(h)->idle_cb(reinterpret_cast<uv_idle_t*>(h));
      if (type == UV_PREPARE) reinterpret_cast<uv_prepare_t*>(h)->prepare_cb(reinterpret_cast<uv_prepare_t*>(h));
      if (type == UV_CHECK) {
        show_unread(now());
        reinterpret_cast<uv_check_t*>(h)->check_cb(reinterpret_cast<uv_check_t*>(h));
      }
    }
  }

  // By the loop's own time, which stands still meanwhile: a timer that is started with zero in its callback is due again,
  // which is what libuv 1.44 never leaves this phase for.
  void run_timers() {
    run(phase::timer, [this] {
      for (int calls = 0;; ++calls) {
        ASSERT_LT(calls, 100'000) << "the timer phase does not end";
        uv_timer_t* first = nullptr;
        for (uv_handle_t* const h : active(UV_TIMER)) {
          auto* const t = reinterpret_cast<uv_timer_t*>(h);
          if (t->timeout <= uv_now(&loop_) && (first == nullptr || t->timeout < first->timeout)) first = t;
        }
        if (first == nullptr) return;
        uv_timer_stop(first);
        uv_timer_again(first);  // one that repeats
        first->timer_cb(first);
      }
    });
  }

  // As long as libuv would: for its timeout, or until there is something to read.
  void wait() {
    time_point until = time_point::max();
    if (const int timeout = uv_backend_timeout(&loop_); timeout >= 0) {
      const std::chrono::milliseconds wait{timeout};
      until = now() + wait + std::min<nanoseconds>(wait * late_per_mille_ / 1000, std::chrono::milliseconds{100});
    }
    if (!events_.empty()) until = std::min(until, events_.begin()->first);
    for (const hook& h : hooks_) until = std::min(until, h.when);
    if (until == time_point::max()) {
      ADD_FAILURE() << "the loop would wait for ever";
      return;
    }
    if (until > now()) simulated_clock::set(until.time_since_epoch());
    uv_update_time(&loop_);
    polled_at_ = now();
  }
  // Reads the input that was there when the poll returned. Input that comes while its callbacks run waits for the next poll.
  void read() {
    for (std::size_t left = most_; left != 0 && has_event(polled_at_); --left) {
      const auto next = events_.extract(events_.begin());
      next.mapped()();
    }
    unread_.receive();
    shows_unread_ = false;
    show_unread(polled_at_);
  }
  // From now on the loop's descriptor is readable if there is input that had come by then.
  void show_unread(time_point by) {
    if (shows_unread_ || !has_event(by)) return;
    unread_.peer_sends();
    shows_unread_ = true;
  }
  bool has_event(time_point by) const { return !events_.empty() && events_.begin()->first <= by; }

  simulated_clock::scope simulated_;
  loop_order order_;
  int late_per_mille_ = 0;
  uv_loop_t loop_;
  uv_async_t watched_;
  uv_poll_t input_;
  socket_pair unread_;  // a byte waits while there is something to read
  bool shows_unread_ = false;
  std::size_t most_ = ~std::size_t{0};
  std::multimap<time_point, action> events_;
  std::vector<hook> hooks_;
  time_point polled_at_{};
};
