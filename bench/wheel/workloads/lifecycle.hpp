// Destroys and constructs timers, one after the other.
#pragma once

#include "../experiment/experiment.hpp"
#include "../experiment/script.hpp"
#include "../experiment/subject.hpp"
#include "../experiment/workload.hpp"

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tickwheel::bench {

/// Timed: the timer of a random connection is destroyed, armed or not, and a new one is constructed in its place. The new one is armed
/// uniformly in 1..60 s, and half of the time cancelled at once. An operation is all of that, with all work of advancing. So half of
/// the timers are armed at any time, and half of the destroyed ones are.
///
/// Before: all are armed. Then as many operations run as are timed.
struct lifecycle {
  static constexpr std::string_view name = "lifecycle";

  static script plan(std::size_t connections) {
    script s;
    script_writer writer{connections, {2 * operations_per_run * an_operation}};
    write_first_arms(s, writer);
    nanoseconds now{};
    for (auto* const list : {&s.warm_up, &s.timed}) {
      list->reserve(operations_per_run);
      for (std::size_t i = 0; i < operations_per_run; ++i) {
        now += an_operation;
        const std::uint32_t c = writer.draw_connection(now);
        list->push_back({c, writer.draw_delay_us(now)});
        writer.destroy(c, now);
        writer.arm(c, now + microseconds{list->back().delay_us}, now);
        if (list->back().heads()) writer.cancel(c, now);
      }
    }
    writer.conclude(s);
    return s;
  }

  static std::size_t items(const script& s) { return s.timed.size(); }

  template <renewable_subject S>
  static void prepare(experiment<S>& e) {
    run_first_arms(e);
    e.timed = e.steps_of(e.plan.warm_up);
    run(e);
    e.timed = e.steps_of(e.plan.timed);
  }

  template <renewable_subject S>
  static void run(experiment<S>& e) {
    for (const auto& step : e.timed) {
      e.subject.advance_to(e.now += an_operation);
      e.subject.renew(*step.to);
      benchmark::ClobberMemory();
      e.subject.arm(*step.to, step.delay());
      benchmark::ClobberMemory();
      if (step.heads()) e.seen.cancels += e.subject.cancel(*step.to);
      benchmark::ClobberMemory();
    }
  }
};

}  // namespace tickwheel::bench
