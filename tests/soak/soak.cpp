// Everything at once, for as long as you like. Thousands of loopback connections come and go on two loops, with idle timeouts, deadlines
// and retries. Meanwhile other threads post, arm and cancel. The peers record what they do, and every verdict is compared with that.
//
//   soak --duration 10m
//
// Prints a line every ten seconds, and a summary. It stops by itself, and on SIGINT or SIGTERM.
//
//   exit code 0   nothing was wrong
//             1   something was wrong, and the last line says what
//             2   asked for something impossible

#include "../../examples/support/command_line.hpp"
#include "../../examples/support/descriptor_limit.hpp"
#include "../support/allocation_probe.hpp"
#include "bursts.hpp"
#include "clients.hpp"
#include "memory_trend.hpp"
#include "server.hpp"
#include "workers.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <future>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;
using soak::in_ms;
using std::chrono::milliseconds;

// The permitted growth of memory per second. At the default rate, a leak of 16 bytes per connection would be twice as much. A third of it
// is the freed memory that the allocator keeps, most of it in the first minutes.
constexpr double most_growth = 16 * 1024;
constexpr double least_trend_seconds = 20;  // a shorter one means nothing

constexpr unsigned addresses = 8;  // that each loop listens on
constexpr unsigned answering_threads = 2;
constexpr std::size_t most_jobs = 4096;
constexpr std::size_t remote_operations = 2048;

struct options {
  milliseconds duration = 1min;
  unsigned connections = 8000;
  unsigned rate = 2000;
  unsigned loops = 2;
  milliseconds margin = 2s;
  bool no_stalls = false;
  bool bursts = false;
  std::uint64_t seed = 1;
};

volatile std::sig_atomic_t interrupted = 0;

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator{"/proc/self/fd"}, std::filesystem::directory_iterator{});
}

// The descriptors that libuv opens with its first loop and never closes.
int keep_libuvs_own_descriptors() {
  uv_loop_t first;
  const int error = uv_loop_init(&first);
  return error != 0 ? error : uv_loop_close(&first);
}

class watch {
 public:
  watch() = default;

  double seconds() const { return std::chrono::duration<double>(soak::clock::now() - began_).count(); }

  /// Runs until `end`, an interruption or an error. Samples memory once per second, after a warm-up.
  void wait(soak::shared& with, milliseconds duration) {
    const double end = std::chrono::duration<double>(duration).count();
    const double warm = std::max(20.0, end / 10);
    double next_sample = 1, next_line = 10;
    while (seconds() < end && interrupted == 0 && with.wrong.count() == 0) {
      std::this_thread::sleep_for(50ms);
      if (seconds() >= next_sample) {
        next_sample += 1;
        const double bytes = soak::resident_bytes();
        if (seconds() > warm) memory.add(seconds(), bytes);
      }
      if (seconds() >= next_line) {
        next_line += 10;
        line(with);
      }
    }
  }

  void line(const soak::shared& with) const {
    std::printf(
        "%6.0f s %6jd open %9ju opened %9ju idle %8ju aged %9ju calls %9ju armed elsewhere %6.1f MiB %8.1f ms late\n",
        seconds(), std::intmax_t{with.connected}, std::uintmax_t{with.opened}, std::uintmax_t{with.idle},
        std::uintmax_t{with.aged}, std::uintmax_t{with.calls}, std::uintmax_t{with.armed},
        soak::resident_bytes() / (1 << 20), in_ms(with.latest_idle.get()));
  }

  soak::memory_trend memory;

 private:
  const soak::time_point began_ = soak::clock::now();
};

// Waits for something that must end. If it does not, that is the last line, because nothing around it can be destroyed.
template <class Ends>
void within_a_minute(const char* what, Ends ends) {
  const auto ended = std::async(std::launch::async, ends);
  if (ended.wait_for(1min) == std::future_status::ready) return;
  std::printf("wrong: %s did not end within a minute\n", what);
  std::fflush(stdout);
  _exit(1);
}

void summarise(const options& o, const soak::shared& with, const watch& w, const std::deque<soak::server>& servers) {
  std::printf("\n%.0f s, seed %ju\n", w.seconds(), std::uintmax_t{o.seed});
  std::printf("connections       %12ju opened, %ju left by themselves, %ju could not be made\n",
              std::uintmax_t{with.opened}, std::uintmax_t{with.left}, std::uintmax_t{with.not_connected});
  std::printf("messages          %12ju\n", std::uintmax_t{with.messages});
  std::printf(
      "idle verdicts     %12ju right, the latest %.1f ms beyond limit and stalls; %ju had a message on its way\n",
      std::uintmax_t{with.idle}, in_ms(with.latest_idle.get()), std::uintmax_t{with.brink});
  std::printf("deadlines         %12ju\n", std::uintmax_t{with.aged});
  std::printf(
      "calls             %12ju: %ju answered, %ju given up after %ju retries, %ju cut by their connection's end; "
      "%ju answers too late\n",
      std::uintmax_t{with.calls}, std::uintmax_t{with.answered}, std::uintmax_t{with.gave_up},
      std::uintmax_t{with.retries}, std::uintmax_t{with.calls_cut}, std::uintmax_t{with.unmatched});
  std::printf("of other threads  %12ju armed, %ju fired, %ju cancelled, %ju posts refused\n",
              std::uintmax_t{with.armed}, std::uintmax_t{with.fired}, std::uintmax_t{with.cancelled},
              std::uintmax_t{with.refused});
  for (const soak::server& s : servers) {
    const auto& t = s.stats();
    std::printf(
        "loop              %12ju timers fired, late p50 %.2f ms, p99 %.2f ms, max %.1f ms; %ju posts ran; "
        "%ju passes carried over; %ju stalls, %.0f ms\n",
        std::uintmax_t{t.fired}, in_ms(t.lateness.percentile(0.5)), in_ms(t.lateness.percentile(0.99)),
        in_ms(t.lateness.max()), std::uintmax_t{t.remote_ran}, std::uintmax_t{t.carried}, std::uintmax_t{t.stalls},
        in_ms(t.stalled));
  }
  std::printf("memory            %12.1f MiB resident, ", soak::resident_bytes() / (1 << 20));
  if (w.memory.seconds() >= least_trend_seconds)
    std::printf("%+.2f KiB/s over %.0f s, at most %.0f\n", w.memory.slope() / 1024, w.memory.seconds(),
                most_growth / 1024);
  else
    std::printf("too short a time to see a trend\n");
}

// Returns 0 or a UV_ code. Everything that is made here is destroyed when it returns.
int run(const options& o, soak::shared& with, watch& w) {
  bounded_queue<soak::job> jobs{most_jobs};
  std::deque<soak::server> servers;
  std::vector<std::vector<sockaddr_in>> at;
  std::vector<tickwheel::remote_handle> loops;
  for (unsigned i = 0; i < o.loops; ++i) {
    soak::server& s = servers.emplace_back(with, i, jobs, !o.no_stalls, o.seed);
    if (const int error = s.listen(addresses)) return error;
    at.push_back(s.listens_at());
    loops.push_back(s.remote());
  }
  for (soak::server& s : servers) s.start();
  soak::clients clients{with, {o.connections, o.rate, o.seed}, std::move(at)};
  soak::remote_arms arms{with, std::move(loops), remote_operations, o.seed};
  std::vector<std::thread> answering;
  for (unsigned i = 0; i < answering_threads; ++i)
    answering.emplace_back([&with, &jobs, seed = o.seed + i] { soak::answer_jobs(with, jobs, seed); });
  std::thread arming{[&arms] { arms.run(); }};
  std::thread connecting{[&clients] { clients.run(); }};

  soak::bursts bursts{with};
  if (o.bursts) bursts.start();

  w.wait(with, o.duration);

  // first the peers, which wait for their verdicts; then the threads that post; then the loops, with the timers of other threads
  clients.stop();
  within_a_minute("the clients", [&] { connecting.join(); });
  if (o.bursts) {
    bursts.stop();
    within_a_minute("the loop under bursts", [&] { bursts.join(); });
  }
  arms.stop();
  within_a_minute("the thread that arms", [&] { arming.join(); });
  jobs.close();
  for (std::thread& t : answering) within_a_minute("a thread that answers", [&] { t.join(); });
  for (soak::server& s : servers) s.stop();
  for (soak::server& s : servers) within_a_minute("a loop", [&] { s.join(); });
  arms.end();
  if (with.calls != with.answered + with.gave_up + with.calls_cut)
    with.wrong.report("%ju calls began, but %ju ended", std::uintmax_t{with.calls},
                      std::uintmax_t{with.answered + with.gave_up + with.calls_cut});
  if (w.memory.seconds() >= least_trend_seconds && w.memory.slope() > most_growth)
    with.wrong.report("memory grows by %.1f KiB/s, at most %.0f may be", w.memory.slope() / 1024, most_growth / 1024);
  summarise(o, with, w, servers);
  if (o.bursts) {
    const soak::burst_counts& b = bursts.counts();
    std::printf(
        "under bursts      %12ju datagrams, %ju peers evicted; %ju calls, %ju expired; %ju zero delays; %ju forks\n",
        std::uintmax_t{b.datagrams}, std::uintmax_t{b.evicted}, std::uintmax_t{b.calls}, std::uintmax_t{b.expired},
        std::uintmax_t{b.hops}, std::uintmax_t{b.forks});
  }
  return 0;
}

int fail(const std::string& what) {
  std::fprintf(stderr, "soak: %s\n", what.c_str());
  return exit_bad_usage;
}

}  // namespace

int main(int argc, char** argv) {
  options o;
  CLI::App app{"Thousands of connections, timers and threads for a while; every verdict is checked.", "soak"};
  add_duration(app, "--duration", o.duration, 1s, 1s, "how long, in seconds, or with a unit (30s, 10m) [1m]");
  app.add_option("--connections", o.connections, "how many at once, at most; bounded by the descriptors, two each")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--rate", o.rate, "of opening them, a second")->capture_default_str()->check(CLI::Range(1, 100'000));
  app.add_option("--loops", o.loops, "each on a thread of its own")->capture_default_str()->check(CLI::Range(1, 16));
  add_duration(app, "--margin", o.margin, 1ms, 100ms,
               "how late a verdict may be, stalls of the loop not counted: what else the machine does [2s]");
  app.add_flag("--no-stalls", o.no_stalls, "do not block the loops now and then");
  app.add_flag("--bursts", o.bursts,
               "a third loop that is blocked while datagrams and posts pile up, with zero delays and forks");
  app.add_option("--seed", o.seed, "of what is up to chance")->capture_default_str();
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  if (o.duration > 7 * 24h) return fail("--duration: at most a week");

  constexpr unsigned others = 200;  // descriptors that are not connections
  const auto limit = std::min<rlim_t>(raise_descriptor_limit(), 10'000'000);
  if (limit <= others + 2) return fail("this process may have too few descriptors");
  o.connections = static_cast<unsigned>(std::min<rlim_t>(o.connections, (limit - others) / 2));

  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGINT, [](int) { interrupted = 1; });
  std::signal(SIGTERM, [](int) { interrupted = 1; });

  soak::shared with{o.connections, o.loops};
  with.margin = o.margin;
  watch w;
  w.memory.reserve(static_cast<std::size_t>(o.duration / 1s) + 1);
  // makes what is made only once and stays: by libuv, and by the first thread that is joined
  within_a_minute("a thread", [] {});
  if (const int error = keep_libuvs_own_descriptors()) return fail(uv_strerror(error));
  const auto descriptors = open_descriptors();
  const auto blocks = allocations::outstanding();
  if (const int error = run(o, with, w)) return fail(uv_strerror(error));
  if (const auto left = allocations::outstanding() - blocks; left != 0)
    with.wrong.report("%zu blocks of memory were not freed", left);
  if (const auto now = open_descriptors(); now != descriptors)
    with.wrong.report("%td descriptors were open before, and %td are now", descriptors, now);

  if (with.wrong.count() == 0) {
    std::printf("right\n");
    return 0;
  }
  std::printf("wrong: %s (%ju such findings)\n", with.wrong.first().data(), std::uintmax_t{with.wrong.count()});
  return 1;
}
