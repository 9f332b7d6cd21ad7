// How late timers are on a loop that has nothing else to do, by the true clock.
//
//   latency_bench --timers 6000
//
//   tickwheel   timer::arm
//   timerfd     the same, on a loop that is woken by a timerfd, at a tick of 2^16 ns
//   libuv       uv_timer_start, of the milliseconds rounded up
//
// So many timers are armed at any time, each with a random delay, in microseconds; each arms itself again when it has
// come. Lateness is from the time asked for, which is the clock when it was armed plus the delay, to the clock in the
// handler; who came before is counted as early, and is not among the late. Repetitions are interleaved, and taken together.
//
// Percentiles are those of a log-scale histogram: upper bounds, at most 1/8 above. The program ends with 1 when some timer
// did not come as often as it was armed, or one of tickwheel's came early.
#include "../examples/command_line.hpp"
#include "subjects/live_libuv.hpp"
#include "subjects/live_timer.hpp"

#include <tickwheel/core/log_histogram.hpp>

#include <uv.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <vector>

namespace tickwheel::bench {

namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

struct options {
  std::size_t timers = 6000;
  unsigned fires = 10;
  unsigned repetitions = 3;
  milliseconds shortest = 1ms;
  milliseconds longest = 500ms;
};

struct entrant {
  const char* name;
  bool may_be_early;
  std::unique_ptr<live_subject> (*make)(std::size_t timers, live_listener&);
};
template <class Subject>
std::unique_ptr<live_subject> make(std::size_t timers, live_listener& listener) {
  return std::make_unique<Subject>(timers, listener);
}
std::unique_ptr<live_subject> make_timerfd(std::size_t timers, live_listener& listener) {
  const service_options by_timerfd{.tick = nanoseconds{1 << 16}, .wakeup = wake_by::timerfd};
  return std::make_unique<live_timer>(timers, listener, by_timerfd);
}
const std::array entrants{
    entrant{"tickwheel", false, &make<live_timer>},
#ifdef __linux__
    entrant{"timerfd", false, &make_timerfd},
#endif
    entrant{"libuv", true, &make<live_libuv>},
};

/// What came of a subject, in all repetitions.
struct result {
  log_histogram late;  // ns
  std::uint64_t fired = 0;
  std::uint64_t early = 0;
  nanoseconds earliest{};
};

/// One repetition: each timer comes as often as asked for.
class trial final : public live_listener {
 public:
  trial(const options& o, const entrant& e, unsigned seed, result& out)
      : options_{o},
        random_{seed},
        waiting_(o.timers, wait{{}, o.fires}),
        out_{out},
        subject_{e.make(o.timers, *this)} {}

  void run() {
    for (std::size_t i = 0; i < waiting_.size(); ++i) arm(i);
    subject_->run();
  }

  void on_due(std::size_t timer) noexcept override {
    const nanoseconds late = clock::now() - waiting_[timer].due;
    ++out_.fired;
    if (late < 0ns) {
      ++out_.early;
      out_.earliest = std::min(out_.earliest, late);
    } else {
      out_.late.record(static_cast<std::uint64_t>(late.count()));
    }
    if (waiting_[timer].fires_left != 0) arm(timer);
  }

 private:
  struct wait {
    clock::time_point due;
    unsigned fires_left;
  };

  void arm(std::size_t timer) noexcept {
    const microseconds range = options_.longest - options_.shortest;
    const microseconds delay =
        options_.shortest + microseconds{random_() % (static_cast<std::uint64_t>(range.count()) + 1)};
    --waiting_[timer].fires_left;
    waiting_[timer].due = clock::now() + delay;
    subject_->arm(timer, delay);
  }

  const options& options_;
  std::mt19937_64 random_;
  std::vector<wait> waiting_;
  result& out_;
  std::unique_ptr<live_subject> subject_;
};

double us(std::uint64_t ns) { return static_cast<double>(ns) / 1000; }

int run(const options& o) {
  std::array<result, entrants.size()> results;
  for (unsigned i = 0; i < o.repetitions; ++i)
    for (std::size_t e = 0; e < entrants.size(); ++e) trial{o, entrants[e], i, results[e]}.run();

  std::printf("%zu timers of %lld to %lld ms on an idle loop, libuv %s; how late, in us\n", o.timers,
              static_cast<long long>(o.shortest.count()), static_cast<long long>(o.longest.count()),
              uv_version_string());
  std::printf("%-10s %9s %9s %9s %8s %8s %8s %8s %8s\n", "", "fires", "early", "by up to", "p50", "p90", "p99", "p99.9",
              "max");
  const std::uint64_t expected = std::uint64_t{o.timers} * o.fires * o.repetitions;
  int code = 0;
  for (std::size_t e = 0; e < entrants.size(); ++e) {
    const result& r = results[e];
    std::printf("%-10s %9llu %9llu %9.1f %8.0f %8.0f %8.0f %8.0f %8.0f\n", entrants[e].name,
                static_cast<unsigned long long>(r.fired), static_cast<unsigned long long>(r.early),
                us(static_cast<std::uint64_t>(-r.earliest.count())), us(r.late.percentile(0.5)),
                us(r.late.percentile(0.9)), us(r.late.percentile(0.99)), us(r.late.percentile(0.999)),
                us(r.late.max()));
    if (r.fired != expected || (r.early != 0 && !entrants[e].may_be_early)) {
      std::fprintf(stderr, "latency_bench: %s: a timer did not come, came twice, or came early\n", entrants[e].name);
      code = 1;
    }
  }
  return code;
}

}  // namespace

}  // namespace tickwheel::bench

int main(int argc, char** argv) {
  tickwheel::bench::options o;
  CLI::App app{"How late timers are on a loop that has nothing else to do.", "latency_bench"};
  app.add_option("--timers", o.timers, "how many are armed at a time")
      ->capture_default_str()
      ->check(CLI::Range(1, 10'000'000));
  app.add_option("--fires", o.fires, "how often each comes, a repetition")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--repetitions", o.repetitions, "of each subject, interleaved")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  using std::chrono::milliseconds;
  add_duration(app, "--shortest", o.shortest, milliseconds{1}, milliseconds{1},
               "the least delay: milliseconds, or with a unit [1ms]");
  add_duration(app, "--longest", o.longest, milliseconds{1}, milliseconds{1},
               "the longest delay: milliseconds, or with a unit [500ms]");
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  if (o.longest < o.shortest) {
    std::fprintf(stderr, "latency_bench: --longest: is less than --shortest\n");
    return exit_bad_usage;
  }
  return tickwheel::bench::run(o);
}
