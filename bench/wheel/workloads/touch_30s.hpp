// Moves idle timers of which each is touched every 30 s on average, and some expire.
#pragma once

#include "../experiment/experiment.hpp"
#include "../experiment/op_barrier.hpp"
#include "../experiment/script.hpp"
#include "../experiment/subject.hpp"
#include "../experiment/workload.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tickwheel::bench {

/// Timed: the idle timer of a random connection is moved to 60 s from now, or armed if it has expired. Each connection is touched every
/// 30 s on average, at random. So an eighth of the touches finds that the timer has expired. The operations come in bursts of 32, as
/// from one poll, and time stands still within a burst. All work of advancing is included.
///
/// A burst comes every 32 * 30 s / N: every 0.96 s with a thousand connections, every 0.96 ms with a million. What expires in between
/// expires when the next burst comes.
///
/// Before: the connections arrive over 50 s, one after the other. Then operations run for more than a minute, after which no timer has
/// its first deadline.
struct touch_30s {
  static constexpr std::string_view name = "touch_30s";
  static constexpr microseconds limit = 60s;
  static constexpr nanoseconds mean = 30s;
  static constexpr std::int64_t burst = 32;
  /// Two of the slots in which the default wheel keeps timers of a minute, as operations_per_run.
  static constexpr nanoseconds unit{std::int64_t{1} << 32};
  static constexpr nanoseconds arrivals = 50s;
  static constexpr nanoseconds before = 26 * unit;
  static_assert(before > arrivals + limit + script_writer::margin);
  static constexpr std::int64_t least_operations = 1'000'000;

  /// A burst comes every `interval` from the last arrival on, until `end`.
  struct schedule {
    explicit schedule(std::size_t connections)
        : interval{mean * burst / static_cast<std::int64_t>(connections)},
          end{before + unit * std::max<std::int64_t>(1, interval * (least_operations / burst) / unit)} {}

    /// No operation arms a timer for about the end, because subjects may not agree on whether it has expired there.
    bool operates_at(nanoseconds now) const noexcept {
      return std::chrono::abs(now + limit - end) > script_writer::margin;
    }

    nanoseconds interval;
    nanoseconds end;
  };

  static script plan(std::size_t connections) {
    script s;
    const schedule times{connections};
    script_writer writer{connections, {times.end}};
    constexpr auto us = static_cast<std::uint32_t>(limit.count());
    nanoseconds now{};
    for (const std::uint32_t c : writer.shuffled()) {
      now += arrivals / static_cast<std::int64_t>(connections);
      s.first.push_back({c, us});
      writer.arm(c, now + limit, now);
    }
    now = arrivals;
    const auto write = [&](std::vector<operation>& list, nanoseconds until) {
      while (now + times.interval <= until) {
        now += times.interval;
        if (!times.operates_at(now)) continue;
        for (std::int64_t i = 0; i < burst; ++i) {
          const std::uint32_t c = writer.draw_connection(now);
          list.push_back({c, us});
          writer.arm(c, now + limit, now);
        }
      }
    };
    write(s.warm_up, before);
    write(s.timed, times.end);
    writer.conclude(s);
    return s;
  }

  static std::size_t items(const script& s) { return s.timed.size(); }

  template <subject S>
  static void prepare(experiment<S>& e) {
    for (const operation& o : e.plan.first) {
      e.subject.advance_to(e.now += arrivals / static_cast<std::int64_t>(e.plan.first.size()));
      e.subject.arm(e.subject[o.connection], limit);
    }
    e.subject.advance_to(e.now = arrivals);
    e.timed = e.steps_of(e.plan.warm_up);
    run_until(e, before);
    e.timed = e.steps_of(e.plan.timed);
  }

  template <class OpBarrier = adjacent, subject S>
  static void run(experiment<S>& e) {
    const schedule times{e.plan.first.size()};
    run_until<OpBarrier>(e, times.end);
    e.subject.advance_to(e.now = times.end);
  }

 private:
  template <class OpBarrier = adjacent, subject S>
  static void run_until(experiment<S>& e, nanoseconds until) {
    const schedule times{e.plan.first.size()};
    auto step = e.timed.begin();
    while (e.now + times.interval <= until) {
      e.subject.advance_to(e.now += times.interval);
      if (!times.operates_at(e.now)) continue;
      for (std::size_t i = 0; i < burst; ++i, ++step) {
        e.subject.arm(*step->to, limit);
        OpBarrier::end_operation();
      }
    }
  }
};

}  // namespace tickwheel::bench
