// Moves idle timers, one after the other.
#pragma once

#include "../experiment/experiment.hpp"
#include "../experiment/op_barrier.hpp"
#include "../experiment/script.hpp"
#include "../experiment/subject.hpp"
#include "../experiment/workload.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tickwheel::bench {

/// Timed: the idle timer of a random connection is moved to 60 s from now. All work of advancing is included.
///
/// Before: the connections arrive over 50 s, one after the other. Each is then touched twice, the last time just before. So all idle
/// timers expire in about 60 s. The wheels visit their lazy links one after the other, as in the long run.
struct touch {
  static constexpr std::string_view name = "touch";
  static constexpr microseconds limit = 60s;
  static constexpr nanoseconds arrivals = 50s;
  static constexpr nanoseconds begin = 70s;

  static script plan(std::size_t connections) {
    script s;
    script_writer writer{connections, {begin + operations_per_run * an_operation}};
    constexpr auto us = static_cast<std::uint32_t>(limit.count());
    for (const std::uint32_t c : writer.shuffled()) {
      s.first.push_back({c, us});
      writer.arm(c, begin + limit, begin);
    }
    s.timed.reserve(operations_per_run);
    nanoseconds now = begin;
    for (std::size_t i = 0; i < operations_per_run; ++i) {
      now += an_operation;
      const std::uint32_t c = writer.draw_connection(now);
      s.timed.push_back({c, us});
      writer.arm(c, now + limit, now);
    }
    writer.conclude(s);
    return s;
  }

  static std::size_t items(const script& s) { return s.timed.size(); }

  template <subject S>
  static void prepare(experiment<S>& e) {
    const auto interval = arrivals / static_cast<std::int64_t>(e.plan.first.size());
    for (const operation& o : e.plan.first) {
      e.subject.advance_to(e.now += interval);
      e.subject.arm(e.subject[o.connection], limit);
    }
    run_first_arms(e);
    for (; e.now < begin; e.now += 1ms) e.subject.advance_to(e.now);
    e.subject.advance_to(e.now = begin);
    run_first_arms(e);
    e.timed = e.steps_of(e.plan.timed);
  }

  template <class OpBarrier = adjacent, subject S>
  static void run(experiment<S>& e) {
    for (const auto& step : e.timed) {
      e.subject.advance_to(e.now += an_operation);
      e.subject.arm(*step.to, limit);
      OpBarrier::end_operation();
    }
  }
};

}  // namespace tickwheel::bench
