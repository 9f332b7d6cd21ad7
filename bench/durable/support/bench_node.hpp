// A node of the benchmarks: a scheduler and its loop.
#pragma once

#include "bench_tasks.hpp"
#include "failure.hpp"

#include <tickwheel/durable/durable.hpp>
#include <tickwheel/uv/event_loop.hpp>
#include <tickwheel/uv/timer.hpp>

#include <time.h>
#include <uv.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tickwheel::bench {

class bench_node {
 public:
  explicit bench_node(std::unique_ptr<durable::store> tasks, durable::scheduler_options of = {})
      : options{patient(std::move(of))}, scheduler{loop.timers(), std::move(tasks), options} {
    if (const int error = loop.open()) fail_with("loop", error);
    scheduler.on_due([this](durable::execution run) noexcept { on_start ? on_start(std::move(run)) : run.done(); });
  }

  void open() {
    bool is_ready = false;
    const int error = scheduler.open([&](int result) noexcept {
      is_ready = true;
      if (result != 0) fail_with("open", result);
    });
    if (error != 0) fail_with("open", error);
    run_until([&] { return is_ready; });
  }
  /// Runs one iteration of the loop, and notes the CPU time that its callbacks took.
  void turn() {
    const auto before = cpu_time();
    loop.run(UV_RUN_ONCE);
    turns.push_back(cpu_time() - before);
  }
  void run_until(const std::function<bool()>& done) {
    while (!done()) turn();
  }
  /// Runs the loop until another process has made `done` true.
  void wait_until(const std::function<bool()>& done) {
    callback_timer tick{loop.timers(), [](timer& self) noexcept { (void)self.arm(std::chrono::milliseconds{1}); }};
    (void)tick.arm(std::chrono::milliseconds{1});
    run_until(done);
  }
  void run_for(std::chrono::nanoseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    wait_until([=] { return std::chrono::steady_clock::now() >= end; });
  }

  /// Schedules tasks with the numbers from `first` on, with 8,000 in flight.
  void schedule(std::uint64_t first, std::size_t count, durable::clock::time_point due) {
    in_flight(count, [&](std::size_t i, std::size_t& answered) {
      return scheduler.schedule({id_of(first + i), due, payload, {}}, [&](durable::schedule_result r) noexcept {
        if (r != durable::schedule_result::scheduled) fail("schedule answers " + std::string{to_string(r)});
        ++answered;
      });
    });
  }
  /// Cancels pending tasks with the numbers from `first` on, with 8,000 in flight.
  void cancel(std::uint64_t first, std::size_t count) {
    in_flight(count, [&](std::size_t i, std::size_t& answered) {
      return scheduler.cancel(id_of(first + i), [&](durable::cancel_result r) noexcept {
        if (r != durable::cancel_result::cancelled) fail("cancel answers " + std::string{to_string(r)});
        ++answered;
      });
    });
  }

  durable::scheduler_options options;
  event_loop loop;
  durable::scheduler scheduler;
  std::function<void(durable::execution)> on_start;
  std::vector<std::chrono::nanoseconds> turns;  // of the thread's CPU time

 private:
  static std::chrono::nanoseconds cpu_time() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return std::chrono::seconds{t.tv_sec} + std::chrono::nanoseconds{t.tv_nsec};
  }

  static constexpr std::size_t most_in_flight = 8000;

  // on a busy disk a request may take longer than users would wait
  static durable::scheduler_options patient(durable::scheduler_options of) {
    of.request_timeout = std::chrono::minutes{5};
    return of;
  }
  [[noreturn]] void fail_with(const char* what, int error) const noexcept {
    fail(std::string{what} + ": " + uv_strerror(error) + ": " + std::string{scheduler.problem()});
  }
  template <class Ask>
  void in_flight(std::size_t count, const Ask& ask) {
    std::size_t asked = 0;
    std::size_t answered = 0;
    while (answered != count) {
      for (; asked != count && asked - answered < most_in_flight; ++asked)
        if (const int error = ask(asked, answered)) fail_with("request", error);
      turn();
    }
  }
};

}  // namespace tickwheel::bench
