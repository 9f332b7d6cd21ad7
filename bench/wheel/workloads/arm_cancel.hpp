// Arms a timer and cancels it, as for a request that is answered.
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

/// Timed: arm one timer for 5 s and cancel it. Time stands still. All others are armed, uniformly in 1..60 s.
struct arm_cancel {
  static constexpr std::string_view name = "arm_cancel";
  static constexpr microseconds delay = 5s;
  static constexpr std::size_t operations = 1'000'000;

  static script plan(std::size_t connections) {
    script s;
    script_writer writer{connections, {0ns}};
    write_first_arms(s, writer);
    const std::uint32_t c = s.first.back().connection;
    s.timed.push_back({c, static_cast<std::uint32_t>(delay.count())});
    for (std::size_t i = 0; i < operations; ++i) {
      writer.arm(c, delay, 0ns);
      writer.cancel(c, 0ns);
    }
    writer.conclude(s);
    return s;
  }

  static std::size_t items(const script&) { return operations; }

  template <subject S>
  static void prepare(experiment<S>& e) {
    run_first_arms(e);
    e.timed = e.steps_of(e.plan.timed);
    e.subject.cancel(*e.timed.front().to);
  }

  template <class OpBarrier = adjacent, subject S>
  static void run(experiment<S>& e) {
    auto& c = *e.timed.front().to;
    for (std::size_t i = 0; i < operations; ++i) {
      e.subject.arm(c, delay);
      benchmark::ClobberMemory();
      e.seen.cancels += e.subject.cancel(c);
      OpBarrier::end_operation();
    }
  }
};

}  // namespace tickwheel::bench
