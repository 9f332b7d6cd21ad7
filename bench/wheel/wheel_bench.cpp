// Benchmarks of the wheel and of the timers of libuv, libevent, libev and Boost.Asio on the same work.
//
//   wheel_bench --benchmark_filter='rearm/.*/1000000'
//
// Names are workload/subject/N. N is the number of connections, and an operation of a workload is an item. Times are CPU times. Every
// subject runs the same script, drawn beforehand, under the same simulated time, and must reach the outcome of the script: counter
// `checksum`. Workloads whose name ends in _fenced run each operation by itself. The workload `floor` has no timers: it measures the
// cost of memory, see floor.hpp.
//
// Ten million connections take up to 5 GB of memory, and the slower subjects take minutes.
#include "../../tests/support/simulated_clock.hpp"
#include "subjects/asio.hpp"
#include "subjects/c_timer.hpp"
#include "subjects/libev.hpp"
#include "subjects/libevent.hpp"
#include "subjects/libuv.hpp"
#include "subjects/libuv_renewed.hpp"
#include "subjects/multimap.hpp"
#include "subjects/plain_hashed.hpp"
#include "subjects/plain_hierarchical.hpp"
#include "subjects/priority_queue.hpp"
#include "subjects/timer.hpp"
#include "subjects/wheel.hpp"
#include "subjects/wheel_polled.hpp"
#include "workloads/arm.hpp"
#include "workloads/arm_cancel.hpp"
#include "workloads/fire.hpp"
#include "workloads/floor.hpp"
#include "workloads/lifecycle.hpp"
#include "workloads/pause.hpp"
#include "workloads/rearm.hpp"
#include "workloads/request.hpp"
#include "workloads/serialized.hpp"
#include "workloads/sparse.hpp"
#include "workloads/touch.hpp"
#include "workloads/touch_30s.hpp"
#include "workloads/wait.hpp"
#ifdef TICKWHEEL_BENCH_ABSEIL
#include "subjects/btree.hpp"
#endif

#include <benchmark/benchmark.h>
#include <uv.h>
#include <boost/version.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace tickwheel::bench {

namespace {

template <class... S>
struct subjects {};

// Some outcome was not that of the script. Google Benchmark reports that, but would end with code 0.
bool failed = false;

using all_subjects = subjects<wheel_subject<default_shape>, wheel_subject<hashed_shape>, timer_subject<stamped_time>,
                              timer_subject<true_time>, c_timer_subject, libuv_subject, libevent_subject, libev_subject,
                              asio_subject, multimap_subject, priority_queue_subject>;
// These step through each tick. The ten hours of the workload `sparse` would take them minutes.
using plain_subjects = subjects<plain_hashed_subject, plain_hierarchical_subject>;
#ifdef TICKWHEEL_BENCH_ABSEIL
using installed_subjects = subjects<btree_subject>;
#else
using installed_subjects = subjects<>;
#endif
// The workloads with these do little else than arm, so an iteration of the loop is seen in them.
using polled_subjects = subjects<wheel_polled_subject>;
// A timer wherever a connection happens to have it: on two cache lines.
using split_subjects = subjects<timer_subject<stamped_time, 32>>;
using touched_subjects = subjects<libevent_common_subject>;
using waiting_subjects = subjects<timer_subject<true_time>, timer_subject<with_slack>, libuv_subject>;
using renewable_subjects =
    subjects<wheel_subject<default_shape>, wheel_subject<hashed_shape>, timer_subject<stamped_time>,
             timer_subject<true_time>, libuv_renewed_subject, libevent_subject, libev_subject, asio_subject>;

// The last script is kept, because the subjects of a workload come one after the other and drawing it takes a while. Earlier ones are
// not kept, because some are large.
template <class Workload>
const script& script_of(std::size_t connections) {
  struct drawn {
    script (*plan)(std::size_t);
    std::size_t connections;
    script what;
  };
  static std::unique_ptr<drawn> last;
  if (!last || last->plan != &Workload::plan || last->connections != connections) {
    last.reset();
    last = std::make_unique<drawn>(drawn{&Workload::plan, connections, Workload::plan(connections)});
  }
  return last->what;
}

// That many per iteration.
void count_items(benchmark::State& state, std::size_t items) {
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(items));
  using benchmark::Counter;
  state.counters["per_item"] =
      Counter{static_cast<double>(items), Counter::kIsIterationInvariantRate | Counter::kInvert};
}

// An iteration is a whole run of the script by a new subject. The preparation is not timed. Neither is the part that the simulation
// hides from Google Benchmark, which reads the true clock outside of it.
template <class Workload, class S>
void run(benchmark::State& state, std::size_t connections) {
  const script& plan = script_of<Workload>(connections);
  std::unique_ptr<experiment<S>> now;
  const auto came_out = [&] { return !now || now->result() == plan.expected; };
  for (auto _ : state) {
    state.PauseTiming();
    bool right;
    {
      const simulated_clock::scope simulated;
      right = came_out();
      now.reset();
      now = std::make_unique<experiment<S>>(plan, connections);
      Workload::prepare(*now);
    }
    if (!right) break;
    state.ResumeTiming();
    const simulated_clock::scope simulated;
    Workload::run(*now);
  }
  const simulated_clock::scope simulated;
  if (!came_out()) {
    state.SkipWithError("the outcome is not what the script leads to");
    failed = true;
  }
  state.counters["checksum"] = static_cast<double>(now->result().checksum());
  count_items(state, Workload::items(plan));
  if constexpr (requires { Workload::wakeups(*now); })
    state.counters["wakeups"] = static_cast<double>(Workload::wakeups(*now));
  now.reset();
  if constexpr (requires { Workload::template count<S>(plan, connections, state.counters); })
    Workload::template count<S>(plan, connections, state.counters);
}

// An iteration visits each connection of the pattern. Nothing must be made anew for it.
template <class Pattern>
void run_floor(benchmark::State& state, std::size_t connections) {
  visits all{connections};
  Pattern::prepare(all);
  std::uint64_t passes = 0;
  for (auto _ : state) Pattern::run(all, ++passes);
  if (!Pattern::right(all, passes)) {
    state.SkipWithError("not every connection was visited as it should be");
    failed = true;
  }
  count_items(state, all.steps.size());
}

template <class Pattern>
void add_floor(std::initializer_list<std::size_t> sizes) {
  for (const std::size_t n : sizes) {
    const std::string name = "floor/" + std::string{Pattern::name} + '/' + std::to_string(n);
    benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
      run_floor<Pattern>(state, n);
    })->Unit(benchmark::kMillisecond);
  }
}

template <class Workload, class S>
void add(std::size_t connections) {
  const std::string name = std::string{Workload::name} + '/' + std::string{S::name} + '/' + std::to_string(connections);
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
    run<Workload, S>(state, connections);
  })->Unit(benchmark::kMillisecond);
}

template <class Workload, class... S>
void add_all(subjects<S...>, std::initializer_list<std::size_t> sizes) {
  for ([[maybe_unused]] const std::size_t n : sizes) (add<Workload, S>(n), ...);
}

// All subjects of a workload, one after the other.
template <class Workload>
void add_with_plain(std::initializer_list<std::size_t> sizes) {
  add_all<Workload>(all_subjects{}, sizes);
  add_all<Workload>(plain_subjects{}, sizes);
  add_all<Workload>(installed_subjects{}, sizes);
}

void add_benchmarks() {
  const auto sizes = {std::size_t{1000}, std::size_t{10'000}, std::size_t{100'000}, std::size_t{1'000'000},
                      std::size_t{10'000'000}};
  const auto up_to_a_million = {std::size_t{1000}, std::size_t{10'000}, std::size_t{100'000}, std::size_t{1'000'000}};
  add_floor<floor_store>(sizes);
  add_floor<floor_store_each>(sizes);
  add_floor<floor_update>(sizes);
  add_floor<floor_array>(sizes);
  add_floor<floor_chase>(sizes);
  add_floor<floor_store_fenced>(sizes);
  add_floor<floor_fence>({1});
  add_with_plain<rearm>(sizes);
  add_all<rearm>(polled_subjects{}, sizes);
  add_with_plain<arm_cancel>(sizes);
  add_with_plain<touch>(sizes);
  add_all<touch>(polled_subjects{}, sizes);
  add_all<touch>(touched_subjects{}, sizes);
  add_with_plain<request>(up_to_a_million);
  add_all<request>(polled_subjects{}, up_to_a_million);
  add_with_plain<touch_30s>(up_to_a_million);
  add_all<touch_30s>(polled_subjects{}, up_to_a_million);
  add_all<touch_30s>(touched_subjects{}, up_to_a_million);
  add_with_plain<arm>(sizes);
  add_all<arm>(polled_subjects{}, sizes);
  add_with_plain<fire>(sizes);
  add_all<fire>(split_subjects{}, up_to_a_million);
  add_with_plain<pause>(sizes);
  add_all<wait>(waiting_subjects{}, {100'000});
  add_all<sparse>(all_subjects{}, {1});
  add_all<sparse>(installed_subjects{}, {1});
  add_all<lifecycle>(renewable_subjects{}, sizes);
  add_all<lifecycle>(plain_subjects{}, sizes);
  add_all<serialized<rearm>>(all_subjects{}, sizes);
  add_all<serialized<touch>>(all_subjects{}, sizes);
  add_all<serialized<touch>>(touched_subjects{}, sizes);
  add_all<serialized<arm>>(all_subjects{}, sizes);
}

std::string describe(const wheel_geometry& g) {
  return std::to_string(g.levels) + " x " + std::to_string(g.slots) + " slots";
}

void add_context() {
  using wheels = wheel_subject<default_shape>;
  benchmark::AddCustomContext("tick", std::to_string(wheels::length.duration().count()) + " ns");
  benchmark::AddCustomContext("wheel", describe(default_shape::geometry));
  benchmark::AddCustomContext("wheel_hashed", describe(hashed_shape::geometry));
  benchmark::AddCustomContext("connection", std::to_string(sizeof(wheels::connection)) + " bytes");
  benchmark::AddCustomContext("libuv", uv_version_string());
  benchmark::AddCustomContext("libevent", event_get_version());
  benchmark::AddCustomContext("libev", std::to_string(ev_version_major()) + '.' + std::to_string(ev_version_minor()));
  benchmark::AddCustomContext("boost", BOOST_LIB_VERSION);
}

}  // namespace

}  // namespace tickwheel::bench

int main(int argc, char** argv) {
  simulated_clock::require_effect();
  // A tenth of a second is long enough, because a run is already a large batch. Arguments of the user come later.
  std::vector<char*> arguments{argv, argv + argc};
  std::string min_time = "--benchmark_min_time=0.1";
  arguments.insert(arguments.begin() + 1, min_time.data());
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 1;
  tickwheel::bench::add_context();
  tickwheel::bench::add_benchmarks();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return tickwheel::bench::failed ? 1 : 0;
}
