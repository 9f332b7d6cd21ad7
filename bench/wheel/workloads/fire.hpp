// Lets all timers expire.
#pragma once

#include "../experiment/experiment.hpp"
#include "../experiment/op_barrier.hpp"
#include "../experiment/script.hpp"
#include "../experiment/subject.hpp"
#include "../experiment/workload.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <string_view>
#include <type_traits>

namespace tickwheel::bench {

/// Timed: all connections, armed uniformly in 1..60 s, expire. Every 10 s the expired ones are recorded.
///
/// A bare wheel is told each of the 465,393 ticks of that time. A loop runs by itself, just as in a program that has nothing else to do.
/// With few timers that favours the loops. Each of 1000 timers is one wait for a loop, and 465 ticks for a wheel. With 1,000,000 timers
/// some are due in each millisecond. The loops then wait 60,000 times and pay for a poll each time, the public timers for two. That is
/// little for libuv, and visible for the public timers.
struct fire {
  static constexpr std::string_view name = "fire";
  static constexpr nanoseconds marks[] = {10s, 20s, 30s, 40s, 50s, 61s};

  static script plan(std::size_t connections) {
    return script_of_first_arms(connections, {std::begin(marks), std::end(marks)});
  }

  static std::size_t items(const script& s) { return s.first.size(); }

  template <subject S>
  static void prepare(experiment<S>& e) {
    run_first_arms(e);
  }

  template <class OpBarrier = adjacent, subject S>
  static void run(experiment<S>& e) {
    for (const nanoseconds mark : marks) {
      if constexpr (std::is_same_v<OpBarrier, adjacent>)
        e.subject.run_out(mark);
      else
        run_in_steps<OpBarrier>(e, mark);
      if (mark != std::end(marks)[-1]) e.mark();
    }
  }

  /// In steps, operations are separated by a barrier when this many timers are due, on average.
  static constexpr std::size_t due_in_a_step = 17;

 private:
  template <class OpBarrier, subject S>
  static void run_in_steps(experiment<S>& e, nanoseconds mark) {
    const auto step = std::chrono::ceil<microseconds>(nanoseconds{59s} * due_in_a_step / e.plan.first.size());
    while (e.now < mark) {
      e.subject.run_out(e.now = std::min(e.now + step, mark));
      OpBarrier::end_operation();
    }
  }
};

}  // namespace tickwheel::bench
