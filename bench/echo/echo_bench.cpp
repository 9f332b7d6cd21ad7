// Measures the cost of an idle timeout on every connection of an echo server, per message.
//
//   echo_bench --connections 1000 --burst 1000
//
//   none        no timers
//   tickwheel   an idle_timeout on every connection, touched on every message
//   libuv       a uv_timer_t on every connection, restarted on every message
//   awaitable   a coroutine for every connection, with tickwheel's sockets, and a limit on every read and write
//
// Clients and server run on this thread in turns, on TCP sockets. Each client of a burst sends one message. The server's loop runs
// until it has echoed them all, and then the clients check the echo. Only the server's turns are measured. In each mode the same
// work precedes each of them. Repetitions are interleaved. Each prints one line per mode:
//
//   <mode> <user-space instructions per message> <CPU ns per message, the kernel's included>
//
// A message has a length and a sum, which the server checks: the least that a server does to know what it received. With --bare it
// echoes bytes as they come. There is then little but libuv, whose share of a message is 300 instructions. The last lines give the
// same results for that. Each iteration of the loop costs a timer_service about 490 instructions, which the messages of a burst
// share. Visits are not counted. There is one per limit and connection.
//
// The processor counts the instructions if it has a counter. Otherwise valgrind's callgrind counts them, and a line says so.
// callgrind runs this program again with the same options, and counts exactly the server's turns. Lines that begin with # are for
// people: the last ones compare the medians of all. --json FILE writes these medians, without --bare:
// {"rows": [{"name", "messages", "instructions_per_message", "cpu_ns_per_message"}, ...]}. `instructions_per_message` is null if
// they could not be counted. `messages` is their number in a repetition.
#include "../../examples/support/command_line.hpp"
#include "../../examples/support/descriptor_limit.hpp"
#include "../support/callgrind.hpp"
#include "../support/instruction_counter.hpp"
#include "../support/json_file.hpp"
#include "../support/loopback.hpp"
#include "awaitable_echo.hpp"
#include "echo_message.hpp"
#include "echo_server.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace tickwheel::bench {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

struct options {
  unsigned connections = 1000;
  unsigned burst = 1000;
  unsigned rounds = 50;
  unsigned counted_rounds = 20;  // under callgrind
  unsigned repetitions = 5;
  milliseconds idle_limit = 5s;
  bool bare = false;
  std::string count;  // only this mode, for callgrind
  json_file json;
};

constexpr std::size_t message_size = 512;
constexpr unsigned warm_up_rounds = 3;

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "echo_bench: %s\n", why.c_str());
  std::exit(exit_bad_usage);
}

/// The other ends, with sockets of their own.
class clients {
 public:
  /// Connects `count` clients; `serve(int)` is given the server's end of each.
  template <class Serve>
  clients(unsigned count, Serve serve) {
    loopback to;
    for (unsigned i = 0; i < count; ++i) {
      const std::optional<loopback::ends> made = to.connect();
      if (!made) fail("cannot connect");
      sockets_.push_back(made->ours);
      serve(made->theirs);
    }
  }
  ~clients() {
    for (const int fd : sockets_) ::close(fd);
  }
  clients(const clients&) = delete;
  clients& operator=(const clients&) = delete;

  /// Each of the next `burst` clients sends a message.
  void send(unsigned burst) {
    ++message_.back();
    seal_message(message_.data(), message_.size());
    for (unsigned i = 0; i < burst; ++i)
      if (::write(sockets_[(first_ + i) % sockets_.size()], message_.data(), message_.size()) != message_size)
        fail("cannot send");
  }

  /// The clients receive their messages back.
  void check(unsigned burst) {
    std::array<char, message_size> echo;
    for (unsigned i = 0; i < burst; ++i) {
      const int fd = sockets_[(first_ + i) % sockets_.size()];
      if (::recv(fd, echo.data(), echo.size(), MSG_WAITALL) != message_size || echo != message_) fail("a wrong echo");
    }
    first_ = (first_ + burst) % sockets_.size();
  }

 private:
  std::vector<int> sockets_;
  std::size_t first_ = 0;
  std::array<char, message_size> message_{};
};

nanoseconds cpu_time() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return std::chrono::seconds{t.tv_sec} + nanoseconds{t.tv_nsec};
}

struct result {
  double instructions = std::numeric_limits<double>::quiet_NaN();  // per message
  double cpu_ns = 0;                                               // per message
  double turns = 0;                                                // of the loop, per message
};

}  // namespace

// callgrind counts this function, by its name, and all that it calls.
extern "C" [[gnu::noinline]] void echo_bench_counted(void (*turn)(void*), void* server) { turn(server); }

namespace {

template <class Server>
result measure(const options& o, unsigned rounds, const instruction_counter& counter) {
  Server server{o.idle_limit, o.bare};
  clients peers{o.connections, [&](int fd) { server.serve(fd); }};
  const auto turn = [](void* s) { static_cast<Server*>(s)->turn(); };
  const auto play = [&](auto turn_once) {
    const std::uint64_t all = server.echoed() + o.burst * message_size;
    peers.send(o.burst);
    while (server.echoed() < all) turn_once();
    peers.check(o.burst);
  };
  for (unsigned i = 0; i < warm_up_rounds; ++i) play([&] { server.turn(); });

  std::uint64_t turns = 0;
  nanoseconds busy{};
  const std::uint64_t counted_before = counter.count().value_or(0);
  for (unsigned i = 0; i < rounds; ++i) {
    play([&] {
      ++turns;
      const nanoseconds before = cpu_time();
      counter.start();
      echo_bench_counted(turn, &server);
      counter.stop();
      busy += cpu_time() - before;
    });
  }
  if (server.idle() != 0) fail("a connection was found idle: choose a longer --idle-limit");
  const double messages = static_cast<double>(o.burst) * rounds;
  result r;
  r.cpu_ns = static_cast<double>(busy.count()) / messages;
  r.turns = static_cast<double>(turns) / messages;
  if (const auto counted = counter.count()) r.instructions = static_cast<double>(*counted - counted_before) / messages;
  return r;
}

struct mode {
  const char* name;
  result (*measure)(const options&, unsigned rounds, const instruction_counter&);
};
template <class Server>
constexpr mode of() {
  return {Server::name, &measure<Server>};
}
constexpr mode modes[] = {of<echo_server<no_timers>>(), of<echo_server<touched_tickwheel>>(),
                          of<echo_server<restarted_libuv>>(), of<awaitable_echo>()};

/// Runs this program under callgrind. If that fails, returns NaN and prints a line that says why.
double count_by_callgrind(const options& o, const char* name) {
  const std::string arguments = std::string{"--count "} + name + " --connections " + std::to_string(o.connections) +
                                " --burst " + std::to_string(o.burst) + " --counted-rounds " +
                                std::to_string(o.counted_rounds) + " --idle-limit 1h" + (o.bare ? " --bare" : "");
  double collected = std::nan("");
  std::string last;
  const auto read = [&](const char* line) {
    constexpr const char* total = "Collected : ";
    if (const char* at = std::strstr(line, total); at != nullptr)
      collected = std::strtod(at + std::strlen(total), nullptr);
    if (std::strlen(line) > 20) last = line;  // valgrind puts a number before each line, and some lines are empty
  };
  const bool counted =
      run_under_callgrind("--callgrind-out-file=/dev/null --toggle-collect='echo_bench_counted*'", arguments, read);
  if (counted) return collected / (static_cast<double>(o.burst) * o.counted_rounds);
  std::fprintf(stderr, "echo_bench: instructions were not counted: %s", last.c_str());
  return std::nan("");
}

double median(std::vector<double> all) {
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

result measure_once(const options& o, const mode& m, const instruction_counter& counter) {
  result r = m.measure(o, o.rounds, counter);
  if (!counter.available()) r.instructions = count_by_callgrind(o, m.name);
  return r;
}

/// The medians of all repetitions, by mode.
std::vector<result> medians(const std::vector<std::vector<result>>& repetitions) {
  std::vector<result> of(std::size(modes));
  for (std::size_t m = 0; m < of.size(); ++m) {
    for (double result::*const what : {&result::instructions, &result::cpu_ns, &result::turns}) {
      std::vector<double> all;
      all.reserve(repetitions.size());
      for (const auto& repetition : repetitions) all.push_back(repetition[m].*what);
      of[m].*what = median(all);
    }
  }
  return of;
}

/// Compares each mode with the first, which has no timers.
void compare(const std::vector<result>& by_mode) {
  const result& base = by_mode.front();
  for (std::size_t m = 0; m < by_mode.size(); ++m) {
    const result& r = by_mode[m];
    std::printf("# %-9s %8.1f instructions, %+7.1f, %+.2f %%   %8.1f ns, %+.1f %%   %.0f messages an iteration\n",
                modes[m].name, r.instructions, r.instructions - base.instructions,
                100 * (r.instructions / base.instructions - 1), r.cpu_ns, 100 * (r.cpu_ns / base.cpu_ns - 1),
                1 / r.turns);
  }
}

int run(const options& o) {
  const instruction_counter counter;
  if (!o.count.empty()) {
    for (const mode& m : modes)
      if (o.count == m.name) m.measure(o, o.counted_rounds, counter);
    return 0;
  }
  std::printf("# %u connections, bursts of %u messages of %zu bytes%s, libuv %s\n", o.connections, o.burst,
              message_size, o.bare ? ", bare" : "", uv_version_string());
  std::printf("# instructions: %s\n", counter.available()
                                          ? "of the processor's counter"
                                          : "counted by callgrind, as no counter of the processor is available");
  std::vector<std::vector<result>> repetitions;
  for (unsigned i = 0; i < o.repetitions; ++i) {
    auto& repetition = repetitions.emplace_back();
    for (const mode& m : modes) {
      const result r = repetition.emplace_back(measure_once(o, m, counter));
      std::printf("%s %.1f %.1f\n", m.name, r.instructions, r.cpu_ns);
      std::fflush(stdout);
    }
  }
  const std::vector<result> all = medians(repetitions);
  compare(all);
  nlohmann::json figures;
  for (std::size_t m = 0; m < all.size(); ++m)
    figures["rows"].push_back(
        {{"name", modes[m].name},
         {"messages", std::uint64_t{o.burst} * (counter.available() ? o.rounds : o.counted_rounds)},
         {"instructions_per_message", all[m].instructions},
         {"cpu_ns_per_message", all[m].cpu_ns}});
  if (!o.json.write(figures)) return exit_bad_usage;
  if (o.bare) return 0;
  std::printf("# bare, one repetition:\n");
  options bare = o;
  bare.bare = true;
  repetitions.resize(1);
  repetitions[0].clear();
  for (const mode& m : modes) repetitions[0].push_back(measure_once(bare, m, counter));
  compare(medians(repetitions));
  return 0;
}

}  // namespace

}  // namespace tickwheel::bench

int main(int argc, char** argv) {
  tickwheel::bench::options o;
  CLI::App app{"What an idle timeout on every connection costs an echo server, a message.", "echo_bench"};
  app.add_option("--connections", o.connections, "how many there are")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000));
  app.add_option("--burst", o.burst, "how many of them have a message for one turn of the server's loop")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000));
  app.add_option("--rounds", o.rounds, "bursts a repetition")->capture_default_str()->check(CLI::Range(1, 1'000'000));
  app.add_option("--counted-rounds", o.counted_rounds, "bursts a repetition under callgrind")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--repetitions", o.repetitions, "of each mode, interleaved")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  add_duration(app, "--idle-limit", o.idle_limit, std::chrono::milliseconds{1}, std::chrono::milliseconds{1},
               "of each connection: milliseconds, or with a unit [5s]");
  app.add_flag("--bare", o.bare, "echo bytes as they come");
  app.add_option("--count", o.count, "measure this mode alone and print nothing: what callgrind is given to run");
  o.json.add_option(app);
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  if (o.burst > o.connections) {
    std::fprintf(stderr, "echo_bench: --burst: there are no more than --connections\n");
    return exit_bad_usage;
  }
  if (const std::string why = too_many_descriptors(rlim_t{2} * o.connections); !why.empty()) {
    std::fprintf(stderr, "echo_bench: --connections: both ends of them: %s\n", why.c_str());
    return exit_bad_usage;
  }
  return tickwheel::bench::run(o);
}
