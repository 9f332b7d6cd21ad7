// Cancels timers and arms them again, one after the other.
#pragma once

#include "../experiment/experiment.hpp"
#include "../experiment/op_barrier.hpp"
#include "../experiment/script.hpp"
#include "../experiment/subject.hpp"
#include "../experiment/workload.hpp"

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tickwheel::bench {

/// Timed: cancel the timer of a random connection and arm it for a new deadline, uniformly in 1..60 s from now. All work of advancing
/// is included.
///
/// Before: all are armed. Then as many operations run as are timed, so that the wheels' lazy links are as old as in the long run.
struct rearm {
  static constexpr std::string_view name = "rearm";

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
        const std::uint32_t us = writer.draw_delay_us(now);
        list->push_back({c, us});
        writer.cancel(c, now);
        writer.arm(c, now + microseconds{us}, now);
      }
    }
    writer.conclude(s);
    return s;
  }

  static std::size_t items(const script& s) { return s.timed.size(); }

  template <subject S>
  static void prepare(experiment<S>& e) {
    run_first_arms(e);
    e.timed = e.steps_of(e.plan.warm_up);
    run(e);
    e.timed = e.steps_of(e.plan.timed);
  }

  template <class OpBarrier = adjacent, subject S>
  static void run(experiment<S>& e) {
    for (const auto& step : e.timed) {
      e.subject.advance_to(e.now += an_operation);
      e.seen.cancels += e.subject.cancel(*step.to);
      benchmark::ClobberMemory();
      e.subject.arm(*step.to, step.delay());
      OpBarrier::end_operation();
    }
  }
};

}  // namespace tickwheel::bench
