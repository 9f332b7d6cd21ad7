// The workloads. Each says how its script is written, what goes before, and what is timed. Those that are also run with
// each operation by itself are told what is between two: see separation.hpp.
#pragma once

#include "../tests/support/simulated_clock.hpp"
#include "connection.hpp"
#include "experiment.hpp"
#include "script.hpp"
#include "separation.hpp"
#include "subject.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace tickwheel::bench {

using std::chrono::microseconds;
using std::chrono::nanoseconds;
using namespace std::chrono_literals;

/// The clock runs at 1 us an operation.
inline constexpr nanoseconds an_operation = 1us;

/// 2^32 ns at 1 us each: two of the slots in which the default wheel keeps timers of a minute. Such a slot is emptied
/// in one go, shortly before its time: a run of another length would miss some of that work, or count it twice.
inline constexpr std::size_t operations_per_run = (std::size_t{1} << 32) / 1000;

/// All connections are armed, uniformly in a range.
inline void write_first_arms(script& s, script_writer& writer, microseconds least = 1s, microseconds most = 60s) {
  for (const std::uint32_t c : writer.shuffled()) {
    const std::uint32_t us = writer.draw_delay_us(0ns, least, most);
    s.first.push_back({c, us});
    writer.arm(c, microseconds{us}, 0ns);
  }
}

/// The script of a workload in which each connection is armed once; what has run out is looked at when each of `marks` has
/// come.
inline script script_of_first_arms(std::size_t connections, std::vector<nanoseconds> marks, microseconds least = 1s,
                                   microseconds most = 60s) {
  script s;
  script_writer writer{connections, std::move(marks)};
  write_first_arms(s, writer, least, most);
  writer.conclude(s);
  return s;
}

template <subject S>
void run_first_arms(experiment<S>& e) {
  for (const operation& o : e.plan.first) e.subject.arm(e.subject[o.connection], microseconds{o.delay_us});
}

/// Timed: cancel the timer of a random connection and arm it to a new deadline, uniformly in 1..60 s from now. All
/// work of advancing is included.
///
/// Before: all are armed, and as many operations as are timed have been done, so that the wheels' lazy links are as old
/// as they are in the long run.
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

  template <class Separation = adjacent, subject S>
  static void run(experiment<S>& e) {
    for (const auto& step : e.timed) {
      e.subject.advance_to(e.now += an_operation);
      e.seen.cancels += e.subject.cancel(*step.to);
      benchmark::ClobberMemory();
      e.subject.arm(*step.to, step.delay());
      Separation::end_operation();
    }
  }
};

/// Timed: arm one timer for 5 s and cancel it; time stands still. All others are armed, uniformly in 1..60 s.
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

  template <class Separation = adjacent, subject S>
  static void run(experiment<S>& e) {
    auto& c = *e.timed.front().to;
    for (std::size_t i = 0; i < operations; ++i) {
      e.subject.arm(c, delay);
      benchmark::ClobberMemory();
      e.seen.cancels += e.subject.cancel(c);
      Separation::end_operation();
    }
  }
};

/// Timed: the idle timer of a random connection is moved to 60 s from now. All work of advancing is included.
///
/// Before: the connections arrive over 50 s, one after the other, and are touched twice since, the last time just now:
/// their idle timers are all about 60 s from running out, while the wheels' lazy links come up one after the other, as
/// they do in the long run.
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

  template <class Separation = adjacent, subject S>
  static void run(experiment<S>& e) {
    for (const auto& step : e.timed) {
      e.subject.advance_to(e.now += an_operation);
      e.subject.arm(*step.to, limit);
      Separation::end_operation();
    }
  }
};

/// Timed: all connections, in random order, are armed uniformly in 1..60 s. None was armed before; time stands still.
struct arm {
  static constexpr std::string_view name = "arm";

  static script plan(std::size_t connections) { return script_of_first_arms(connections, {0ns}); }

  static std::size_t items(const script& s) { return s.first.size(); }

  template <subject S>
  static void prepare(experiment<S>& e) {
    e.timed = e.steps_of(e.plan.first);
  }

  template <class Separation = adjacent, subject S>
  static void run(experiment<S>& e) {
    for (const auto& step : e.timed) {
      e.subject.arm(*step.to, step.delay());
      Separation::end_operation();
    }
  }
};

/// Timed: all connections, armed uniformly in 1..60 s, run out. Every 10 s it is looked at which have.
///
/// A bare wheel is told each of the 465,393 ticks of that time. A loop waits for as long as libuv asks for, as it does
/// in a program that has nothing else to do. With few timers that favours the loops: of 1000, each is one wait or two,
/// and 465 ticks for a wheel. With 1,000,000, some are due in each millisecond: the loops wait 60,000 times and pay for
/// a poll each time, which weighs little on libuv and visibly on the public timers.
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

  template <class Separation = adjacent, subject S>
  static void run(experiment<S>& e) {
    for (const nanoseconds mark : marks) {
      if constexpr (std::is_same_v<Separation, adjacent>)
        e.subject.run_out(mark);
      else
        run_in_steps<Separation>(e, mark);
      if (mark != std::end(marks)[-1]) e.mark();
    }
  }

  /// Here operations are apart when this many are, on average.
  static constexpr std::size_t due_in_a_step = 17;

 private:
  template <class Separation, subject S>
  static void run_in_steps(experiment<S>& e, nanoseconds mark) {
    const auto step = std::chrono::ceil<microseconds>(nanoseconds{59s} * due_in_a_step / e.plan.first.size());
    while (e.now < mark) {
      e.subject.run_out(e.now = std::min(e.now + step, mark));
      Separation::end_operation();
    }
  }
};

/// Timed: all connections, in random order, are armed uniformly in 1..60 s, and run out, on a loop that has nothing else
/// to do and sleeps in between.
///
/// Counter `wakeups`: how often it wakes up for that.
struct wait {
  static constexpr std::string_view name = "wait";
  static constexpr nanoseconds end = 67s;  // with a tenth of slack, the last one is due by then

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

/// Timed: all connections, armed uniformly in 60..119 s, run out, while time goes on by 2^17 ns, the default tick, at
/// a time: all of them come down from the coarse slots.
///
/// Counters `p999`, `p9999` and `max`: how long such a step takes, in microseconds. They are those of further runs with
/// a clock read at each step, the one with the smallest maximum of five (fewer if they take long), as what the machine
/// does meanwhile reaches a millisecond or two.
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

/// Timed: one timer is armed for ten hours from now, and the ten hours are crossed at once. Nothing else is armed.
///
/// Counter `wakeups`: how often the subject wakes up in those ten hours when it sleeps for as long as it asks for.
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

/// Timed: the timer of a random connection is destroyed, armed as it may be, and a new one is constructed in its
/// place, armed uniformly in 1..60 s, and, half of the time, cancelled at once. All work of advancing is included. An
/// operation is all of that. So half of the timers are armed at any time, and half of those destroyed are.
///
/// Before: all are armed, and as many operations as are timed have been done.
struct lifecycle {
  static constexpr std::string_view name = "lifecycle";

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
        list->push_back({c, writer.draw_delay_us(now)});
        writer.destroy(c, now);
        writer.arm(c, now + microseconds{list->back().delay_us}, now);
        if (list->back().heads()) writer.cancel(c, now);
      }
    }
    writer.conclude(s);
    return s;
  }

  static std::size_t items(const script& s) { return s.timed.size(); }

  template <renewable_subject S>
  static void prepare(experiment<S>& e) {
    run_first_arms(e);
    e.timed = e.steps_of(e.plan.warm_up);
    run(e);
    e.timed = e.steps_of(e.plan.timed);
  }

  template <renewable_subject S>
  static void run(experiment<S>& e) {
    for (const auto& step : e.timed) {
      e.subject.advance_to(e.now += an_operation);
      e.subject.renew(*step.to);
      benchmark::ClobberMemory();
      e.subject.arm(*step.to, step.delay());
      benchmark::ClobberMemory();
      if (step.heads()) e.seen.cancels += e.subject.cancel(*step.to);
      benchmark::ClobberMemory();
    }
  }
};

/// A workload with each of its operations by itself. The script is the same.
template <class Workload>
struct fenced : Workload {
  static inline const std::string name = std::string{Workload::name} + "_fenced";

  template <subject S>
  static void run(experiment<S>& e) {
    Workload::template run<isolated>(e);
  }
};

}  // namespace tickwheel::bench
