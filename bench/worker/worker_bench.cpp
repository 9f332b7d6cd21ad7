// Measures timers that other threads arm on a loop, as callers of a timer thread see them. WorkerBench.java does the same with Netty.
//
//   worker_bench --callers 2
//
//   fire     each caller arms its share of 100,000 timers as fast as it can, for 0.1 to 2 s, and all of them expire
//   cancel   each caller arms a timer for 5 s, and cancels the one it armed 1000 timers before; none expires
//
// The loop's thread is the worker. CPU times are per timer: of the callers, of the worker, and of the whole process. The rate is of
// arming, from the start of the first caller to the end of the last one. Lateness counts to the clock in the handler, from the clock
// before the call plus the delay. A handler that runs before that counts as early, and as 0 late. Each load runs twice, and the first
// run is not reported: memory and, in Java, compiled code are then as in the long run.
//
// The program ends with 1 if some timer did not expire as often as it should, or if one was early.
//
// --json FILE writes {"rows": [{"name", "load", "callers", "timers", "caller_ns", "worker_ns", "process_ns", "per_second", "early",
// "late_p50_us", "late_p99_us", "late_max_us"}, ...]}; a load without expiries has no lateness.
#include "../../examples/support/command_line.hpp"
#include "../support/json_file.hpp"

#include <tickwheel/uv/remote.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <uv.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <thread>
#include <vector>

namespace tickwheel::bench {

namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

struct options {
  unsigned callers = 1;
  std::size_t timers = 100'000;
  json_file json;
};

nanoseconds cpu_time(clockid_t of) {
  timespec t{};
  clock_gettime(of, &t);
  return std::chrono::seconds{t.tv_sec} + nanoseconds{t.tv_nsec};
}

struct figures {
  nanoseconds callers{}, worker{}, process{}, arming{};
  std::size_t fired = 0, early = 0;
  std::vector<nanoseconds> late;

  double late_us(double fraction) const {
    return std::chrono::duration<double, std::micro>{
        late[static_cast<std::size_t>(fraction * static_cast<double>(late.size() - 1))]}
        .count();
  }
};

/// A loop on this thread, its timers, and threads that arm them.
class station {
 public:
  station(unsigned callers, std::size_t timers) : callers_{callers}, all_{timers} {
    if (uv_loop_init(&loop_) != 0 || timers_.open(loop_, {.max_queued = timers}) != 0) std::abort();
    hold_ = timers_.hold();
    std::mt19937_64 random{20'240'302};
    std::uniform_int_distribution<std::int64_t> delay{nanoseconds{100ms}.count(), nanoseconds{2s}.count()};
    for (std::size_t i = 0; i < timers; ++i) delays_.emplace_back(delay(random));
  }
  ~station() {
    hold_.release();
    timers_.close();
    uv_run(&loop_, UV_RUN_DEFAULT);
    if (uv_loop_close(&loop_) != 0) std::abort();
  }
  station(const station&) = delete;
  station& operator=(const station&) = delete;

  figures fire() {
    figures out;
    out.late.reserve(all_);
    const auto arm = [this, &out](const remote_handle& to, std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) {
        const clock::time_point due = clock::now() + delays_[i];
        insist([&] {
          return to.post(delays_[i], [due, &out]() noexcept {
            const nanoseconds late = clock::now() - due;
            out.early += late < 0ns;
            out.late.push_back(std::max(late, 0ns));
          });
        });
      }
    };
    run(out, arm, [&] { return out.late.size() == all_; });
    out.fired = out.late.size();
    std::sort(out.late.begin(), out.late.end());
    return out;
  }

  figures cancel() {
    figures out;
    const std::uint64_t withdrawn = timers_.stats().remote_withdrawn + all_;
    const auto arm = [&out](const remote_handle& to, std::size_t first, std::size_t last) {
      std::array<remote_timer, 1000> asked;
      for (std::size_t i = first; i < last; ++i) {
        remote_timer& one = asked[i % asked.size()];
        one.cancel();
        insist([&] {
          return to.arm(
              5s, [&out]() noexcept { ++out.fired; }, one);
        });
      }
    };
    run(out, arm, [&] { return timers_.stats().remote_withdrawn == withdrawn || out.fired != 0; });
    return out;
  }

 private:
  template <class Arm, class Until>
  void run(figures& out, Arm arm, Until until) {
    std::atomic<std::int64_t> busy{0};
    std::atomic<unsigned> ready{0}, done{0};
    std::atomic<bool> go{false};
    std::atomic<clock::rep> end{0};
    std::vector<std::thread> threads;
    for (unsigned c = 0; c < callers_; ++c)
      threads.emplace_back([&, c, to = timers_.remote()] {
        ++ready;
        while (!go) std::this_thread::yield();
        const nanoseconds before = cpu_time(CLOCK_THREAD_CPUTIME_ID);
        arm(to, all_ * c / callers_, all_ * (c + 1) / callers_);
        busy += (cpu_time(CLOCK_THREAD_CPUTIME_ID) - before).count();
        if (++done == callers_) end = clock::now().time_since_epoch().count();
      });
    while (ready != callers_) std::this_thread::yield();
    const nanoseconds process = cpu_time(CLOCK_PROCESS_CPUTIME_ID), worker = cpu_time(CLOCK_THREAD_CPUTIME_ID);
    const clock::time_point begin = clock::now();
    go = true;
    while (!until()) uv_run(&loop_, UV_RUN_ONCE);
    out.worker = cpu_time(CLOCK_THREAD_CPUTIME_ID) - worker;
    for (std::thread& t : threads) t.join();
    out.process = cpu_time(CLOCK_PROCESS_CPUTIME_ID) - process;
    out.callers = nanoseconds{busy};
    out.arming = clock::time_point{clock::duration{end}} - begin;
  }

  template <class F>
  static void insist(F arm) {
    for (;;) {
      const int error = arm();
      if (error == 0) return;
      if (error != UV_EAGAIN) std::abort();
      std::this_thread::yield();
    }
  }

  unsigned callers_;
  std::size_t all_;
  std::vector<nanoseconds> delays_;
  uv_loop_t loop_{};
  timer_service timers_;
  remote_hold hold_;
};

nlohmann::json row(const options& o, const char* load, const figures& f) {
  const auto per_timer = [&](nanoseconds time) {
    return static_cast<double>(time.count()) / static_cast<double>(o.timers);
  };
  nlohmann::json out{{"name", "tickwheel"},
                     {"load", load},
                     {"callers", o.callers},
                     {"timers", o.timers},
                     {"caller_ns", per_timer(f.callers)},
                     {"worker_ns", per_timer(f.worker)},
                     {"process_ns", per_timer(f.process)},
                     {"per_second", static_cast<double>(o.timers) / std::chrono::duration<double>(f.arming).count()},
                     {"early", f.early}};
  std::printf("%-8s caller %6.0f ns, worker %6.0f ns, process %6.0f ns, %5.2f M/s", load, per_timer(f.callers),
              per_timer(f.worker), per_timer(f.process), out["per_second"].get<double>() / 1e6);
  if (!f.late.empty()) {
    out["late_p50_us"] = f.late_us(0.5);
    out["late_p99_us"] = f.late_us(0.99);
    out["late_max_us"] = f.late_us(1);
    std::printf(", late by p50 %.0f us, p99 %.0f us, at most %.0f us, early %zu", f.late_us(0.5), f.late_us(0.99),
                f.late_us(1), f.early);
  }
  std::printf("\n");
  return out;
}

int run(const options& o) {
  station here{o.callers, o.timers};
  here.fire();
  const figures fired = here.fire();
  here.cancel();
  const figures cancelled = here.cancel();
  nlohmann::json json;
  json["rows"] = {row(o, "fire", fired), row(o, "cancel", cancelled)};
  if (fired.fired != o.timers || fired.early != 0 || cancelled.fired != 0) {
    std::fprintf(stderr, "worker_bench: %zu of %zu timers fired, %zu of them early; %zu that were cancelled fired\n",
                 fired.fired, o.timers, fired.early, cancelled.fired);
    return 1;
  }
  return o.json.write(json) ? 0 : exit_bad_usage;
}

}  // namespace

}  // namespace tickwheel::bench

int main(int argc, char** argv) {
  tickwheel::bench::options o;
  CLI::App app{"Timers that other threads arm on a loop.", "worker_bench"};
  app.add_option("--callers", o.callers, "how many threads arm timers")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  app.add_option("--timers", o.timers, "how many timers they arm together")
      ->capture_default_str()
      ->check(CLI::Range(1, 10'000'000));
  o.json.add_option(app);
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  return tickwheel::bench::run(o);
}
