// Counts how often a loop wakes up for its timers.
#pragma once

#include "../experiment/experiment.hpp"
#include "../experiment/script.hpp"
#include "../experiment/subject.hpp"
#include "../experiment/workload.hpp"

#include <chrono>
#include <cstddef>
#include <string_view>

namespace tickwheel::bench {

/// Timed: all connections, in random order, are armed uniformly in 1..60 s, and expire, on a loop that has nothing else to do and sleeps
/// in between.
///
/// Counter `wakeups`: how often it wakes up for that.
struct wait {
  static constexpr std::string_view name = "wait";
  static constexpr nanoseconds end = 67s;  // the last one is due by then, with a tenth of slack

  static script plan(std::size_t connections) { return script_of_first_arms(connections, {end}); }

  static std::size_t items(const script& s) { return s.first.size(); }

  template <subject S>
  static void prepare(experiment<S>&) {}

  template <subject S>
  static void run(experiment<S>& e) {
    run_first_arms(e);
    e.subject.run_out(end);
  }

  template <subject S>
  static std::size_t wakeups(experiment<S>& e) {
    run_first_arms(e);
    return e.subject.step_out();
  }
};

}  // namespace tickwheel::bench
