// One timer, far away.
#pragma once

#include "../experiment/experiment.hpp"
#include "../experiment/script.hpp"
#include "../experiment/subject.hpp"
#include "../experiment/workload.hpp"

#include <chrono>
#include <cstddef>
#include <string_view>

namespace tickwheel::bench {

/// Timed: one timer is armed for ten hours from now, and the ten hours are crossed at once. Nothing else is armed.
///
/// Counter `wakeups`: how often the subject wakes up in those ten hours if each sleep is as long as it asks for.
struct sparse {
  static constexpr std::string_view name = "sparse";
  static constexpr microseconds gap = 10h;
  static constexpr std::size_t operations = 1000;

  static script plan(std::size_t connections) {
    script s;
    script_writer writer{connections, {operations * crossing}};
    nanoseconds now{};
    for (std::size_t i = 0; i < operations; ++i) {
      writer.arm(0, now + gap, now);
      now += crossing;
    }
    writer.conclude(s);
    return s;
  }

  static std::size_t items(const script&) { return operations; }

  template <subject S>
  static void prepare(experiment<S>&) {}

  template <subject S>
  static void run(experiment<S>& e) {
    for (std::size_t i = 0; i < operations; ++i) {
      e.subject.arm(e.subject[0], gap);
      e.subject.jump_to(e.now += crossing);
    }
  }

  template <subject S>
  static std::size_t wakeups(experiment<S>& e) {
    e.subject.arm(e.subject[0], gap);
    return e.subject.step_out();
  }

 private:
  static constexpr nanoseconds crossing = gap + script_writer::margin * 2;
};

}  // namespace tickwheel::bench
