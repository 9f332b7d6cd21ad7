// The interface of a workload: a script, a preparation, and a timed part.
//
// To add one, write a file in workloads/ and name the struct in wheel_bench.cpp. It has
//
//     name              the first part of the benchmarks' names
//     plan(n)           draws the script for n connections, with its required outcome
//     items(script)     the number of operations in it
//     prepare(e)        the preparation, untimed; the connections of the experiment are unarmed before it
//     run(e)            the timed part
//     run<OpBarrier>(e) the same with a barrier between operations, if it has operations; see op_barrier.hpp
//
// It may have `wakeups(e)`, how often the subject wakes up, or `count<Subject>(script, n, counters)`.
#pragma once

#include "experiment.hpp"
#include "script.hpp"
#include "subject.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tickwheel::bench {

using std::chrono::microseconds;
using std::chrono::nanoseconds;
using namespace std::chrono_literals;

/// The clock advances 1 us per operation.
inline constexpr nanoseconds an_operation = 1us;

/// 2^32 ns at 1 us each: two of the slots in which the default wheel keeps timers of a minute. Such a slot is emptied in one go,
/// shortly before its time. A run of another length would miss some of that work, or count it twice.
inline constexpr std::size_t operations_per_run = (std::size_t{1} << 32) / 1000;

/// Arms all connections, uniformly in a range.
inline void write_first_arms(script& s, script_writer& writer, microseconds least = 1s, microseconds most = 60s) {
  for (const std::uint32_t c : writer.shuffled()) {
    const std::uint32_t us = writer.draw_delay_us(0ns, least, most);
    s.first.push_back({c, us});
    writer.arm(c, microseconds{us}, 0ns);
  }
}

/// Returns the script of a workload in which each connection is armed once. The expired timers are recorded at each of `marks`.
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

}  // namespace tickwheel::bench
