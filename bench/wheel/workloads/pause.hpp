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
/// Counters `p999`, `p9999` and `max`: how long such a step takes, in microseconds. They come from five further runs (fewer if they take
/// long), in which the clock is read at each step. The shortest of the runs counts for each step, because a step does the same work in
/// each run, and the machine disturbs others each time.
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
    std::vector<nanoseconds> shortest(static_cast<std::size_t>(end / step), nanoseconds::max());
    const nanoseconds begin = simulated_clock::true_now();
    for (int i = 0; i < runs && simulated_clock::true_now() - begin < long_enough; ++i) {
      experiment<S> e{plan, connections};
      prepare(e);
      nanoseconds before = simulated_clock::true_now();
      for (nanoseconds& of_step : shortest) {
        e.subject.advance_to(e.now += step);
        const nanoseconds after = simulated_clock::true_now();
        of_step = std::min(of_step, after - std::exchange(before, after));
      }
    }
    std::sort(shortest.begin(), shortest.end());
    const auto us_at = [&](double fraction) {
      const auto index = static_cast<std::size_t>(fraction * static_cast<double>(shortest.size() - 1));
      return std::chrono::duration<double, std::micro>{shortest[index]}.count();
    };
    counters["p999"] = us_at(0.999);
    counters["p9999"] = us_at(0.9999);
    counters["max"] = us_at(1);
  }
};

}  // namespace tickwheel::bench
