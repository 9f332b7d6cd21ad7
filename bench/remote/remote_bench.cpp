// Benchmarks of handing timers to a loop from other threads.
//
//   remote_bench --benchmark_filter='post/.*/1/'
//
// Names are workload/subject/producers. An item is a handler that is to run on the loop thread 100 ms later. It begins in a
// producer's thread, and ends on the loop's, when its timer is armed in the loop's wheel. In `post` the 100 ms count from the posting
// of each item, which reads the clock. In `post_at` they count from one time stamp for all items of a burst.
//
// The producers start at once, and post a burst of 65,536 items together. The loop's thread, which is Google Benchmark's, runs the
// loop until the last item is in the wheel. The time is real time, from the start to that moment.
//
// Every subject arms the same timers in the same wheel, makes one allocation per item, and accepts at most 65,536 waiting items. A
// refused item is posted again: counter `refused`. `floor` differs: it has one producer and no allocations, and shows the least cost
// of handing over. After each burst, not timed, the timers expire, and each item must have run once: counter `checksum`. Counter
// `wakeups`: how often an item woke the loop. On a machine that others use as well, read `producer_ns`, the CPU time of a producer
// per item. The column CPU is the loop thread's.
#include "../support/connection.hpp"
#include "post_floor.hpp"
#include "post_locked.hpp"
#include "post_tickwheel.hpp"
#include "producers.hpp"

#include <tickwheel/uv/remote.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <benchmark/benchmark.h>
#include <uv.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace tickwheel::bench {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t items = 1 << 16;
constexpr std::size_t max_queued = items;
constexpr auto delay = 100ms;  // long enough for a burst to be in the wheel before its first item is due

// Some item did not run, or ran twice. Google Benchmark reports that, but would end with code 0.
bool failed = false;

/// A loop with its timers, on this thread.
class station {
 public:
  station() {
    if (uv_loop_init(&loop) != 0 || timers.open(loop, {.max_queued = max_queued}) != 0) std::abort();
    hold_ = timers.hold();
  }
  ~station() {
    hold_.release();
    timers.close();
    uv_run(&loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&loop) != 0) std::abort();
  }
  station(const station&) = delete;
  station& operator=(const station&) = delete;

  template <class Until>
  void turn(Until until) {
    while (!until(timers.stats())) uv_run(&loop, UV_RUN_ONCE);
  }

  uv_loop_t loop;
  timer_service timers;

 private:
  remote_hold hold_;
};

std::uint64_t sum_of_all_items() {
  tally all;
  for (std::size_t id = 0; id < items; ++id) all.add(id);
  return all.sum;
}

struct post {
  static constexpr const char* name = "post";
  static clock::time_point due(clock::time_point) noexcept { return clock::now() + delay; }
};

struct post_at {
  static constexpr const char* name = "post_at";
  static clock::time_point due(clock::time_point burst) noexcept { return burst + delay; }
};

template <class Workload, class Subject>
void run(benchmark::State& state, unsigned threads) {
  station here;
  Subject subject{here.loop, here.timers, max_queued};
  clock::time_point stamp;
  producers them{threads, items, [&](std::size_t id) {
                   return subject.post_at(Workload::due(stamp), [id]() noexcept { expired.add(id); });
                 }};
  const std::uint64_t expected = sum_of_all_items();
  std::uint64_t wakeups = 0;
  const auto burst = [&] {
    const std::uint64_t armed = here.timers.stats().armed + items;
    stamp = clock::now();
    them.go();
    // if the machine stood still for longer than the delay, some items run without having been in the wheel
    here.turn([&](const service_stats& s) { return s.armed == armed || expired.count == items; });
  };
  const auto prepare = [&] {
    expired = {};
    them.get_ready();
  };
  const auto has_come_out = [&] {
    here.turn([&](const service_stats& s) { return s.pending == 0; });
    return expired.count == items && expired.sum == expected;
  };

  prepare();
  burst();  // the first burst of all makes queues and heaps as large as they become
  bool right = has_come_out();
  const std::chrono::nanoseconds busy_before = them.busy();
  for (auto _ : state) {
    state.PauseTiming();
    if (!right) break;
    prepare();
    const std::uint64_t before = subject.wakeups();
    state.ResumeTiming();
    burst();
    state.PauseTiming();
    wakeups += subject.wakeups() - before;
    right = has_come_out();
    state.ResumeTiming();
  }
  if (!right) {
    state.SkipWithError("some item did not run, or ran twice");
    failed = true;
  }
  const auto count = state.iterations() * static_cast<std::int64_t>(items);
  state.SetItemsProcessed(count);
  using benchmark::Counter;
  state.counters["checksum"] = static_cast<double>(expired.sum);
  state.counters["per_item"] =
      Counter{static_cast<double>(items), Counter::kIsIterationInvariantRate | Counter::kInvert};
  state.counters["producer_ns"] = static_cast<double>((them.busy() - busy_before).count()) / static_cast<double>(count);
  state.counters["refused"] = static_cast<double>(them.refused()) / static_cast<double>(count);
  state.counters["wakeups"] = static_cast<double>(wakeups) / static_cast<double>(count);
}

template <class Workload, class Subject>
void add(unsigned threads) {
  const std::string name =
      std::string{Workload::name} + '/' + std::string{Subject::name} + '/' + std::to_string(threads);
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { run<Workload, Subject>(state, threads); })
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
}

template <class Workload>
void add_all(unsigned threads) {
  add<Workload, post_tickwheel>(threads);
  add<Workload, post_mutex_vector>(threads);
  add<Workload, post_uv_async_each>(threads);
}

}  // namespace

}  // namespace tickwheel::bench

int main(int argc, char** argv) {
  using namespace tickwheel::bench;
  // A tenth of a second is long enough, because a run is already a large batch. Arguments of the user come later.
  std::vector<char*> arguments{argv, argv + argc};
  std::string min_time = "--benchmark_min_time=0.1";
  arguments.insert(arguments.begin() + 1, min_time.data());
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 1;
  benchmark::AddCustomContext("libuv", uv_version_string());
  benchmark::AddCustomContext("items", std::to_string(items) + " a burst");
  for (const unsigned threads : {1U, 2U}) {
    add_all<post>(threads);
    add_all<post_at>(threads);
  }
  add<post_at, post_floor>(1);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return failed ? 1 : 0;
}
