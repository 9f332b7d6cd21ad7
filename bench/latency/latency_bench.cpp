// Measures how late timers are by the true clock: on a loop that has nothing else to do, and on a loop under load.
//
//   latency_bench --timers 6000 --load
//
//   tickwheel         timer::arm
//   timerfd           the same, on a loop that is woken by a timerfd, at a tick of 2^16 ns
//   libuv             uv_timer_start, of the milliseconds rounded up
//   libevent          event_add
//   libevent_precise  the same, with EVENT_BASE_FLAG_PRECISE_TIMER: the exact clock, and a timerfd
//   libev             ev_timer_start
//
// That number of timers is always armed, each with a random delay in microseconds. Each timer is armed again when it has expired.
// Lateness counts to the clock in the handler, from the clock when the timer was armed plus its delay. A timer that expires before
// that counts as early, and as 0 late. Repetitions are interleaved, and taken together.
//
//   idle   a timer arms itself again, and the loop sleeps in between
//   load   in each iteration of the loop an I/O handler receives a byte, works for 100 us, and arms the timers that have expired
//          since it last ran, as a server arms its timeouts: in I/O handlers, and after work. The next byte is already there, so
//          the loop never sleeps.
//
// Percentiles are those of a log-scale histogram: upper bounds, at most 1/8 above. The program ends with 1 if some timer did not
// expire as often as it was armed, or if one of tickwheel's was early.
//
// --json FILE writes {"subjects": [{"name", "condition", "early", "fired", "p50_us", "p99_us", "max_us", "cdf"}, ...]};
// `cdf` has pairs: microseconds, and the part of the timers that was not later.
#include "../../examples/support/command_line.hpp"
#include "../support/json_file.hpp"
#include "live_libev.hpp"
#include "live_libevent.hpp"
#include "live_libuv.hpp"
#include "live_timer.hpp"

#include <tickwheel/core/log_histogram.hpp>

#include <uv.h>

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
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
  bool load = false;
  unsigned work_us = 100;
  json_file json;
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
std::unique_ptr<live_subject> make_precise(std::size_t timers, live_listener& listener) {
  return std::make_unique<live_libevent>(timers, listener, libevent_clock::precise);
}
const std::array entrants{
    entrant{"tickwheel", false, &make<live_timer>},
#ifdef __linux__
    entrant{"timerfd", false, &make_timerfd},
#endif
    entrant{"libuv", true, &make<live_libuv>},        entrant{"libevent", true, &make<live_libevent>},
    entrant{"libevent_precise", true, &make_precise}, entrant{"libev", true, &make<live_libev>},
};

/// The results of a subject, in all repetitions.
struct result {
  log_histogram late;  // ns
  std::uint64_t early = 0;
  nanoseconds earliest{};
  std::uint64_t wrong = 0;  // timers that expired without being armed, and those that did not expire
};

/// A message that is always there: a byte that is sent again once it was received.
class echo {
 public:
  echo() {
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_.data()) != 0) std::abort();
    send();
  }
  ~echo() {
    for (const int fd : ends_) ::close(fd);
  }
  echo(const echo&) = delete;
  echo& operator=(const echo&) = delete;

  int descriptor() const noexcept { return ends_[0]; }
  void receive() noexcept {
    char byte;
    if (::read(ends_[0], &byte, 1) != 1) std::abort();
  }
  void send() noexcept {
    if (::write(ends_[1], "o", 1) != 1) std::abort();
  }

 private:
  std::array<int, 2> ends_{};
};

/// One repetition: each timer expires as often as asked for.
class trial final : public live_listener {
 public:
  trial(const options& o, const entrant& e, bool load, unsigned seed, result& out)
      : options_{o},
        load_{load},
        random_{seed},
        waiting_(o.timers, wait{{}, false, o.fires}),
        left_{std::uint64_t{o.timers} * o.fires},
        out_{out},
        subject_{e.make(o.timers, *this)} {}

  void run() {
    // a timer that does not expire is reported, and not waited for
    give_up_ = clock::now() + options_.longest * options_.fires + 1min;
    for (std::size_t i = 0; i < waiting_.size(); ++i) arm(i);
    if (load_) subject_->watch(io_.descriptor());
    subject_->run();
    out_.wrong += left_;
  }

  void on_due(std::size_t timer) noexcept override {
    wait& w = waiting_[timer];
    const nanoseconds late = clock::now() - w.due;
    if (!w.armed) {
      ++out_.wrong;
      return;
    }
    w.armed = false;
    if (late < 0ns) {
      ++out_.early;
      out_.earliest = std::min(out_.earliest, late);
    }
    out_.late.record(static_cast<std::uint64_t>(std::max(late, 0ns).count()));
    if (--left_ == 0) subject_->stop();
    if (w.fires_left == 0) return;
    if (load_)
      came_.push_back(timer);
    else
      arm(timer);
  }

  void on_readable() noexcept override {
    io_.receive();
    const clock::time_point end = clock::now() + microseconds{options_.work_us};
    while (clock::now() < end) {
    }
    for (const std::size_t timer : came_) arm(timer);
    came_.clear();
    io_.send();
    if (clock::now() > give_up_) subject_->stop();
  }

 private:
  struct wait {
    clock::time_point due;
    bool armed;
    unsigned fires_left;
  };

  void arm(std::size_t timer) noexcept {
    const microseconds range = options_.longest - options_.shortest;
    const microseconds delay =
        options_.shortest + microseconds{random_() % (static_cast<std::uint64_t>(range.count()) + 1)};
    wait& w = waiting_[timer];
    --w.fires_left;
    w.armed = true;
    w.due = clock::now() + delay;
    subject_->arm(timer, delay);
  }

  const options& options_;
  const bool load_;
  std::mt19937_64 random_;
  std::vector<wait> waiting_;
  std::vector<std::size_t> came_;
  std::uint64_t left_;
  clock::time_point give_up_;
  echo io_;
  result& out_;
  std::unique_ptr<live_subject> subject_;
};

double us(std::uint64_t ns) { return static_cast<double>(ns) / 1000; }

/// Microseconds, and the part of the timers that was not later, at the bounds of the buckets that are not empty.
nlohmann::json cdf_of(const result& r) {
  nlohmann::json points = nlohmann::json::array();
  const auto add = [&](std::uint64_t ns, std::uint64_t count) {
    points.push_back({us(ns), static_cast<double>(count) / static_cast<double>(r.late.count())});
  };
  if (r.early != 0) add(0, r.early);
  std::uint64_t before = 0;
  constexpr std::uint64_t exact_below = 16, buckets_an_octave = 8;
  for (std::uint64_t bound = exact_below - 1; before < r.late.count();
       bound += std::bit_floor(bound + 1) / buckets_an_octave) {
    const std::uint64_t count = r.late.count_up_to(bound);
    if (count != before && count > r.early) add(std::min(bound, r.late.max()), count);
    before = count;
  }
  return points;
}

int report(const options& o, bool load, const std::array<result, entrants.size()>& results, nlohmann::json& figures) {
  const char* const condition = load ? "load" : "idle";
  std::printf("%-16s %9s %9s %9s %8s %8s %8s %8s %8s\n", condition, "fires", "early", "by up to", "p50", "p90", "p99",
              "p99.9", "max");
  const std::uint64_t expected = std::uint64_t{o.timers} * o.fires * o.repetitions;
  int code = 0;
  for (std::size_t e = 0; e < entrants.size(); ++e) {
    const result& r = results[e];
    const char* const name = entrants[e].name;
    std::printf("%-16s %9llu %9llu %9.1f %8.0f %8.0f %8.0f %8.0f %8.0f\n", name,
                static_cast<unsigned long long>(r.late.count()), static_cast<unsigned long long>(r.early),
                us(static_cast<std::uint64_t>(-r.earliest.count())), us(r.late.percentile(0.5)),
                us(r.late.percentile(0.9)), us(r.late.percentile(0.99)), us(r.late.percentile(0.999)),
                us(r.late.max()));
    figures["subjects"].push_back({{"name", name},
                                   {"condition", condition},
                                   {"early", r.early},
                                   {"early_by_us", us(static_cast<std::uint64_t>(-r.earliest.count()))},
                                   {"fired", r.late.count()},
                                   {"p50_us", us(r.late.percentile(0.5))},
                                   {"p99_us", us(r.late.percentile(0.99))},
                                   {"max_us", us(r.late.max())},
                                   {"cdf", cdf_of(r)}});
    if (r.late.count() != expected || r.wrong != 0 || (r.early != 0 && !entrants[e].may_be_early)) {
      std::fprintf(stderr, "latency_bench: %s: a timer did not come, came unasked, or came early\n", name);
      code = 1;
    }
  }
  return code;
}

int run(const options& o) {
  std::printf("%zu timers of %lld to %lld ms; how late, in us; libuv %s, libevent %s, libev %d.%d\n", o.timers,
              static_cast<long long>(o.shortest.count()), static_cast<long long>(o.longest.count()),
              uv_version_string(), event_get_version(), ev_version_major(), ev_version_minor());
  if (o.load) std::printf("load: a handler of %u us in each iteration of the loop\n", o.work_us);
  nlohmann::json figures{{"timers", o.timers}, {"work_us", o.work_us}};
  int code = 0;
  for (const bool load : {false, true}) {
    if (load && !o.load) continue;
    std::array<result, entrants.size()> results;
    for (unsigned i = 0; i < o.repetitions; ++i)
      for (std::size_t e = 0; e < entrants.size(); ++e) trial{o, entrants[e], load, i, results[e]}.run();
    code |= report(o, load, results, figures);
  }
  return o.json.write(figures) ? code : exit_bad_usage;
}

}  // namespace

}  // namespace tickwheel::bench

int main(int argc, char** argv) {
  tickwheel::bench::options o;
  CLI::App app{"How late timers are on a loop that has nothing else to do, and on one under load.", "latency_bench"};
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
  app.add_flag("--load", o.load, "measure under load, too");
  app.add_option("--work-us", o.work_us, "how long an I/O handler works under load, in microseconds")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  o.json.add_option(app);
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  if (o.longest < o.shortest) {
    std::fprintf(stderr, "latency_bench: --longest: is less than --shortest\n");
    return exit_bad_usage;
  }
  return tickwheel::bench::run(o);
}
