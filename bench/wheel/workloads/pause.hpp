// Lets timers expire tick by tick, and measures how long a tick takes.
#pragma once

#include "../../../tests/support/simulated_clock.hpp"
#include "../experiment/experiment.hpp"
#include "../experiment/script.hpp"
#include "../experiment/subject.hpp"
#include "../experiment/workload.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

namespace tickwheel::bench {

/// Timed: all connections, armed uniformly in 60..119 s, expire. Time advances by 2^17 ns, the default tick, at a time. So all timers
/// move down from the coarse slots.
///
/// Counters `p999`, `p9999` and `max`: how long such a step takes, in microseconds. They come from further runs in which the clock is
/// read at each step. The run with the smallest maximum of five counts (of fewer if they take long), because disturbances by the
/// machine take a millisecond or two.
struct pause {
  static constexpr std::string_view name = "pause";
  static constexpr nanoseconds step{1 << 17};
  static constexpr nanoseconds end = 120s;
  static constexpr int runs = 5;
  static constexpr nanoseconds long_enough = 10s;

  static script plan(std::size_t connections) { return script_of_first_arms(connections, {end}, 60s, 119s); }

  static std::size_t items(const script& s) { return s.first.size(); }

  template <subject S>
  static void prepare(experiment<S>& e) {
    run_first_arms(e);
  }

  template <subject S>
  static void run(experiment<S>& e) {
    while (e.now < end) e.subject.advance_to(e.now += step);
  }

  template <subject S>
  static void count(const script& plan, std::size_t connections, benchmark::UserCounters& counters) {
    std::vector<nanoseconds> best;
    const nanoseconds begin = simulated_clock::true_now();
    for (int i = 0; i < runs && simulated_clock::true_now() - begin < long_enough; ++i) {
      experiment<S> e{plan, connections};
      prepare(e);
      std::vector<nanoseconds> steps;
      steps.reserve(static_cast<std::size_t>(end / step) + 1);
      for (nanoseconds before = simulated_clock::true_now(); e.now < end;) {
        e.subject.advance_to(e.now += step);
        const nanoseconds after = simulated_clock::true_now();
        steps.push_back(after - std::exchange(before, after));
      }
      std::sort(steps.begin(), steps.end());
      if (best.empty() || steps.back() < best.back()) best = std::move(steps);
    }
    const auto us_at = [&](double fraction) {
      const auto index = static_cast<std::size_t>(fraction * static_cast<double>(best.size() - 1));
      return std::chrono::duration<double, std::micro>{best[index]}.count();
    };
    counters["p999"] = us_at(0.999);
    counters["p9999"] = us_at(0.9999);
    counters["max"] = us_at(1);
  }
};

}  // namespace tickwheel::bench
