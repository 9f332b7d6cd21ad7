// Arms all timers.
#pragma once

#include "../experiment/experiment.hpp"
#include "../experiment/op_barrier.hpp"
#include "../experiment/script.hpp"
#include "../experiment/subject.hpp"
#include "../experiment/workload.hpp"

#include <cstddef>
#include <string_view>

namespace tickwheel::bench {

/// Timed: all connections, in random order, are armed uniformly in 1..60 s. None was armed before; time stands still.
struct arm {
  static constexpr std::string_view name = "arm";

  static script plan(std::size_t connections) { return script_of_first_arms(connections, {0ns}); }

  static std::size_t items(const script& s) { return s.first.size(); }

  template <subject S>
  static void prepare(experiment<S>& e) {
    e.timed = e.steps_of(e.plan.first);
  }

  template <class OpBarrier = adjacent, subject S>
  static void run(experiment<S>& e) {
    for (const auto& step : e.timed) {
      e.subject.arm(*step.to, step.delay());
      OpBarrier::end_operation();
    }
  }
};

}  // namespace tickwheel::bench
