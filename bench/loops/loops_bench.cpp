// Measures two loops on two threads beside one loop alone: they share nothing, so neither should slow the other down.
//
//   loops_bench --repetitions 5
//
//   timer    each operation moves the timer of a random connection, by arm_at, to 1 to 60 ms from now; after 1000 operations the loop
//            turns once, and runs the handlers that are due
//   memory   each operation changes the line of a random connection, without any timers or loop: the limit of the machine itself
//
// A thread is pinned to a processor. Each repetition measures the first processor alone, the second one alone, and both at once, for each
// workload and N in turn. The figure is the CPU time of a thread per operation. The ratio is that of medians, with both to alone, on the
// same processor.
//
// Each processor must be a core of its own and free. If the ratio of `memory` is above 1, the two share a cache, a core or the bandwidth.
// With fewer than two processors the program says so and measures nothing. It ends with 1 if some timer was not where it should be.
//
// --json FILE writes {"rows": [{"workload", "n", "processor", "alone_ns", "together_ns", "ratio", "repetitions"}, ...]}.
#include "../../examples/support/command_line.hpp"
#include "../support/connection.hpp"
#include "../support/json_file.hpp"

#include <tickwheel/uv/timer.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <uv.h>

#include <pthread.h>
#include <sched.h>

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
#include <string>
#include <thread>
#include <vector>

namespace tickwheel::bench {

namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;
using std::chrono::nanoseconds;

constexpr std::size_t operations = 1'000'000;
constexpr std::size_t rounds = 10;  // of these operations, per repetition
constexpr std::size_t per_turn = 1000;

struct options {
  unsigned repetitions = 5;
  std::vector<std::size_t> connections{1000, 10'000, 100'000};
  json_file json;
};

std::atomic<bool> failed{false};

nanoseconds thread_time() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return std::chrono::seconds{t.tv_sec} + nanoseconds{t.tv_nsec};
}

struct step {
  std::uint32_t connection;
  std::uint32_t delay_us;
};

std::vector<step> draw_steps(std::size_t n) {
  std::mt19937_64 random{20'240'303};
  std::uniform_int_distribution<std::uint32_t> which{0, static_cast<std::uint32_t>(n - 1)}, delay{1000, 60'000};
  std::vector<step> steps(operations);
  for (step& s : steps) s = {which(random), delay(random)};
  return steps;
}

/// One loop and its timers. Everything is on the thread that makes it. The handlers count in the loop's own memory.
class timer_loop {
 public:
  explicit timer_loop(std::size_t n) : connections_{n, timers_, &run, fired_} {
    if (uv_loop_init(&loop_) != 0 || timers_.open(loop_) != 0) std::abort();
  }
  ~timer_loop() {
    // each arm of an unarmed timer ended by its handler, or is pending
    const service_stats s = timers_.stats();
    if (s.armed != fired_ + s.pending || s.fired != fired_) failed = true;
    for (const auto& c : connections_) c->cancel();
    timers_.close();
    uv_run(&loop_, UV_RUN_DEFAULT);
    if (uv_loop_close(&loop_) != 0) std::abort();
  }
  timer_loop(const timer_loop&) = delete;
  timer_loop& operator=(const timer_loop&) = delete;

  void operate(const std::vector<step>& steps) {
    std::size_t left = per_turn;
    for (const step& s : steps) {
      (void)connections_[s.connection].arm_at(timers_.now() + microseconds{s.delay_us});
      if (--left != 0) continue;
      left = per_turn;
      uv_run(&loop_, UV_RUN_NOWAIT);
    }
  }

 private:
  struct counting_timer : timer {
    counting_timer(timer_service& service, callback run, std::uint64_t& counter) noexcept
        : timer{service, run}, fired{&counter} {}
    std::uint64_t* fired;
  };
  static void run(wheel_entry& e) noexcept { ++*static_cast<counting_timer&>(timer::from(e)).fired; }

  uv_loop_t loop_{};
  timer_service timers_;
  std::uint64_t fired_ = 0;
  connections<connection<counting_timer>> connections_;
};

class plain_memory {
 public:
  explicit plain_memory(std::size_t n) : connections_{n} {}
  void operate(const std::vector<step>& steps) {
    for (const step& s : steps) {
      connections_[s.connection].value += s.delay_us;
      asm volatile("" ::: "memory");
    }
  }

 private:
  struct line {
    std::uint64_t value = 0;
  };
  connections<connection<line>> connections_;
};

void pin(std::size_t processor) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  if (pthread_setaffinity_np(pthread_self(), sizeof one, &one) != 0) std::abort();
}

/// Runs the workload on each of these processors at once. Returns the CPU time of each per operation, in ns.
template <class Workload>
std::vector<double> measure(const std::vector<step>& steps, std::size_t n, const std::vector<std::size_t>& processors) {
  std::vector<double> ns(processors.size());
  std::atomic<std::size_t> ready{0}, done{0};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < processors.size(); ++i)
    threads.emplace_back([&, i] {
      pin(processors[i]);
      const std::vector<step> own(steps.begin(), steps.end());  // in memory of its own
      Workload here{n};
      here.operate(own);
      ++ready;
      while (ready != processors.size()) std::this_thread::yield();
      const nanoseconds before = thread_time();
      for (std::size_t round = 0; round < rounds; ++round) here.operate(own);
      ns[i] = static_cast<double>((thread_time() - before).count()) / (operations * rounds);
      ++done;
      // the other one is measured beside a loop that works, until its end
      while (done != processors.size()) here.operate(own);
    });
  for (std::thread& t : threads) t.join();
  return ns;
}

struct workload {
  const char* name;
  std::vector<double> (*run)(const std::vector<step>&, std::size_t, const std::vector<std::size_t>&);
};
constexpr std::array workloads{workload{"timer", &measure<timer_loop>}, workload{"memory", &measure<plain_memory>}};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 != 0 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::vector<std::size_t> two_processors() {
  cpu_set_t allowed;
  std::vector<std::size_t> found;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return found;
  for (std::size_t i = 0; i < CPU_SETSIZE && found.size() < 2; ++i)
    if (CPU_ISSET(i, &allowed)) found.push_back(i);
  return found;
}

int run(const options& o) {
  const std::vector<std::size_t> processors = two_processors();
  nlohmann::json json;
  json["rows"] = nlohmann::json::array();
  if (processors.size() < 2) {
    std::puts("loops_bench: there is only one processor; nothing is measured");
    return o.json.write(json) ? 0 : exit_bad_usage;
  }
  struct result {
    std::array<std::vector<double>, 2> alone, together;
  };
  std::vector<result> results(workloads.size() * o.connections.size());
  for (unsigned repetition = 0; repetition < o.repetitions; ++repetition) {
    std::size_t at = 0;
    for (const workload& w : workloads)
      for (const std::size_t n : o.connections) {
        const std::vector<step> steps = draw_steps(n);
        result& r = results[at++];
        for (std::size_t i = 0; i < 2; ++i) r.alone[i].push_back(w.run(steps, n, {processors[i]})[0]);
        const std::vector<double> both = w.run(steps, n, processors);
        for (std::size_t i = 0; i < 2; ++i) r.together[i].push_back(both[i]);
      }
  }
  std::size_t at = 0;
  for (const workload& w : workloads)
    for (const std::size_t n : o.connections) {
      const result& r = results[at++];
      for (std::size_t i = 0; i < 2; ++i) {
        const double alone = median(r.alone[i]), together = median(r.together[i]);
        std::printf("%-8s %8zu connections, processor %zu: %7.2f ns alone, %7.2f ns with another loop, %.3fx\n", w.name,
                    n, processors[i], alone, together, together / alone);
        json["rows"].push_back({{"workload", w.name},
                                {"n", n},
                                {"processor", processors[i]},
                                {"alone_ns", alone},
                                {"together_ns", together},
                                {"ratio", together / alone},
                                {"repetitions", o.repetitions}});
      }
    }
  if (failed) {
    std::fputs("loops_bench: some timer neither fired nor is armed\n", stderr);
    return 1;
  }
  return o.json.write(json) ? 0 : exit_bad_usage;
}

}  // namespace

}  // namespace tickwheel::bench

int main(int argc, char** argv) {
  tickwheel::bench::options o;
  CLI::App app{"Two loops on two threads beside one loop alone.", "loops_bench"};
  app.add_option("--repetitions", o.repetitions, "how often each is measured")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_option("--connections", o.connections, "how many connections each loop has")
      ->capture_default_str()
      ->check(CLI::Range(1, 10'000'000));
  o.json.add_option(app);
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  return tickwheel::bench::run(o);
}
