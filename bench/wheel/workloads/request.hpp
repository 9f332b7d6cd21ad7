// Arms a timeout for each request, and cancels it when the answer arrives.
#pragma once

#include "../experiment/experiment.hpp"
#include "../experiment/op_barrier.hpp"
#include "../experiment/script.hpp"
#include "../experiment/subject.hpp"
#include "../experiment/workload.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

namespace tickwheel::bench {

/// Timed: arm the timer of a random connection that awaits no answer for 5 s, and cancel the timer of a connection whose answer
/// arrives. An answer arrives at most 1000 operations after its request, in random order. So 500 timers are armed at any time, and none
/// expires. All work of advancing is included.
///
/// Before: as many operations run as are timed, so that the wheels' lazy links are as old as in the long run.
struct request {
  static constexpr std::string_view name = "request";
  static constexpr microseconds limit = 5s;
  /// Requests are answered in batches of this many, each in an order of its own.
  static constexpr std::size_t in_flight = 500;

  static script plan(std::size_t connections) {
    script s;
    script_writer writer{connections, {2 * operations_per_run * an_operation}};
    std::mt19937_64 random{20'240'301};
    std::vector<bool> waits(connections, false);
    std::vector<std::uint32_t> asked, answered;
    const auto draw = [&](nanoseconds now) {
      for (;;)
        if (const std::uint32_t c = writer.draw_connection(now); !waits[c]) return c;
    };
    const auto ask = [&](std::vector<operation>& list, nanoseconds now) {
      asked.push_back(draw(now));
      waits[asked.back()] = true;
      list.push_back({asked.back(), static_cast<std::uint32_t>(limit.count())});
      writer.arm(asked.back(), now + limit, now);
    };
    while (asked.size() < std::min(in_flight, connections / 2)) ask(s.first, 0ns);  // at least two connections
    nanoseconds now{};
    for (auto* const list : {&s.warm_up, &s.timed}) {
      list->reserve(2 * operations_per_run);
      for (std::size_t i = 0; i < operations_per_run; ++i) {
        now += an_operation;
        if (answered.empty()) {
          answered.swap(asked);
          std::shuffle(answered.begin(), answered.end(), random);
        }
        ask(*list, now);
        list->push_back({answered.back(), 0});
        writer.cancel(answered.back(), now);
        waits[answered.back()] = false;
        answered.pop_back();
      }
    }
    writer.conclude(s);
    return s;
  }

  static std::size_t items(const script& s) { return s.timed.size() / 2; }

  template <subject S>
  static void prepare(experiment<S>& e) {
    run_first_arms(e);
    e.timed = e.steps_of(e.plan.warm_up);
    run(e);
    e.timed = e.steps_of(e.plan.timed);
  }

  template <class OpBarrier = adjacent, subject S>
  static void run(experiment<S>& e) {
    for (std::size_t i = 0; i < e.timed.size(); i += 2) {
      e.subject.advance_to(e.now += an_operation);
      e.subject.arm(*e.timed[i].to, limit);
      benchmark::ClobberMemory();
      e.seen.cancels += e.subject.cancel(*e.timed[i + 1].to);
      OpBarrier::end_operation();
    }
  }
};

}  // namespace tickwheel::bench
