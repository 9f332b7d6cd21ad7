// The chaos harness: nodes that share a PostgreSQL server schedule, cancel and start tasks while processes, connections and the server
// break. A judge compares the journal with the promises.
//
//   chaos --node PROGRAM --client PROGRAM --directory PLACE [--nodes N] [--rounds N] [--seconds N] [--seed S] [--tasks N]
//         [--faults NAME,NAME...] [--standby synchronous|asynchronous] [--faketime LIBRARY] [--takeover MS]
//         [--length MS] [--hold MS] [--rate N]
//
//   exit code 0   no promise was broken
//             1   one was: the report names it, with the lines of the journal
//             2   asked for something impossible, or a round could not be carried out
//             77  PostgreSQL is not installed
#include "../crash/judge/journal.hpp"
#include "../crash/judge/judge.hpp"
#include "judge/repeats.hpp"
#include "round.hpp"

#include <signal.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <string_view>

namespace {

using namespace std::chrono_literals;

struct settings {
  chaos::round_options round;
  std::string directory;
  std::string faketime;
  std::size_t rounds = 10;
  std::chrono::seconds seconds = std::chrono::hours{24};
  std::chrono::milliseconds takeover = 1600ms;  // at most: the lease, two polls and half a second
  std::uint64_t seed = std::random_device{}();
};

[[noreturn]] void refuse(const std::string& why) {
  std::fprintf(stderr, "chaos: %s\n", why.c_str());
  std::exit(2);  // NOLINT(concurrency-mt-unsafe): there is one thread
}

std::uint64_t number_of(const std::string& option, std::string_view word) {
  std::uint64_t n = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
  if (error != std::errc{} || end != word.data() + word.size())
    refuse(option + " is '" + std::string{word} + "'; it must be a whole number");
  return n;
}

std::vector<chaos::fault> faults_of(std::string_view names) {
  std::vector<chaos::fault> found;
  while (!names.empty()) {
    const auto end = std::min(names.find(','), names.size());
    const auto name = names.substr(0, end);
    names.remove_prefix(std::min(end + 1, names.size()));
    std::size_t i = 0;
    while (i != chaos::faults && name != chaos::to_string(static_cast<chaos::fault>(i))) ++i;
    if (i == chaos::faults) refuse("there is no fault '" + std::string{name} + "'");
    found.push_back(static_cast<chaos::fault>(i));
  }
  return found;
}

chaos::standby standby_of(const std::string& name) {
  if (name == "synchronous") return chaos::standby::synchronous;
  if (name == "asynchronous") return chaos::standby::asynchronous;
  refuse("--standby is '" + name + "'; it must be synchronous or asynchronous");
}

// An asynchronous standby loses the last answers. No token is given twice nevertheless, and nothing starts early.
void judge_lost_answers(crash::verdict& v) {
  std::erase_if(v.violations, [](const crash::violation& broken) {
    return broken.promise != "D2" && broken.text.find("was used before") == std::string::npos;
  });
  v.lost = v.after_cancel = 0;
}

settings read_settings(int count, char** words) {
  settings s;
  for (int i = 1; i < count; i += 2) {
    const std::string option = words[i];
    if (i + 1 == count) refuse(option + " has no value");
    const std::string value = words[i + 1];
    if (option == "--node")
      s.round.node = value;
    else if (option == "--client")
      s.round.client = value;
    else if (option == "--directory")
      s.directory = value;
    else if (option == "--nodes")
      s.round.nodes = number_of(option, value);
    else if (option == "--rounds")
      s.rounds = number_of(option, value);
    else if (option == "--seconds")
      s.seconds = std::chrono::seconds{number_of(option, value)};
    else if (option == "--takeover")
      s.takeover = std::chrono::milliseconds{number_of(option, value)};
    else if (option == "--seed")
      s.seed = number_of(option, value);
    else if (option == "--length")
      s.round.length = std::chrono::milliseconds{number_of(option, value)};
    else if (option == "--hold")
      s.round.hold = std::chrono::milliseconds{number_of(option, value)};
    else if (option == "--rate")
      s.round.rate = number_of(option, value);
    else if (option == "--tasks")
      s.round.tasks = number_of(option, value);
    else if (option == "--faketime")
      s.faketime = value;
    else if (option == "--standby")
      s.round.follows = standby_of(value);
    else if (option == "--faults")
      s.round.only = faults_of(value);
    else
      refuse("unknown option " + option);
  }
  if (s.round.node.empty() || s.round.client.empty() || s.directory.empty())
    refuse("--node, --client and --directory are needed");
  if (s.round.nodes < 2 || s.round.nodes > 8) refuse("--nodes must be 2 to 8");
  return s;
}

struct totals {
  crash::verdict sum;
  std::size_t rounds = 0;
  std::size_t running = 0;  // rows that nobody ran in the end
  std::size_t effects = 0;
  std::size_t effects_twice = 0;
  std::map<chaos::fault, std::size_t> faults;
  std::map<std::string, std::size_t> repeats;
  std::size_t takeovers = 0;
  std::size_t judged_takeovers = 0;             // in rounds with kills only, on a machine that kept up
  std::chrono::nanoseconds longest_takeover{};  // of them
  std::chrono::nanoseconds longest_under_faults{};

  void add(const crash::verdict& v, const chaos::round_result& r, const chaos::repeats& again) {
    ++rounds;
    sum.tasks += v.tasks;
    sum.starts += v.starts;
    sum.lost += v.lost;
    sum.early += v.early;
    sum.after_cancel += v.after_cancel;
    sum.tokens_twice += v.tokens_twice;
    effects += r.effects;
    effects_twice += r.effects_twice;
    for (const auto& [f, n] : r.made) faults[f] += n;
    for (const auto& [cause, n] : again.by_cause) repeats[cause] += n;
    takeovers += again.takeovers;
    const bool is_judged = r.has_only_kills && !again.is_slow;
    if (is_judged) judged_takeovers += again.takeovers;
    auto& longest = is_judged ? longest_takeover : longest_under_faults;
    longest = std::max(longest, again.longest_takeover);
  }

  void print(double seconds) const {
    const auto ms = [](std::chrono::nanoseconds t) { return static_cast<long long>(t / 1ms); };
    std::printf("%6s %8s %8s %5s %6s %13s %12s %8s %8s %14s %8s\n", "rounds", "tasks", "starts", "lost", "early",
                "after cancel", "token twice", "running", "effects", "effects twice", "seconds");
    std::printf("%6zu %8zu %8zu %5zu %6zu %13zu %12zu %8zu %8zu %14zu %8.0f\n", rounds, sum.tasks, sum.starts, sum.lost,
                sum.early, sum.after_cancel, sum.tokens_twice, running, effects, effects_twice, seconds);
    std::printf("faults:");
    for (const auto& [f, n] : faults) std::printf(" %s %zu", chaos::to_string(f), n);
    std::printf("\nrepeated starts:");
    for (const auto& [cause, n] : repeats) std::printf(" %s %zu", cause.c_str(), n);
    std::printf("\ntakeovers: %zu, %zu of them judged, which took at most %lld ms; others %lld ms\n", takeovers,
                judged_takeovers, ms(longest_takeover), ms(longest_under_faults));
  }
};

}  // namespace

int main(int count, char** words) {
  const settings s = read_settings(count, words);
  if (!conformance::test_server::find_programs()) {
    std::puts("skipped: PostgreSQL's programs are missing; install the package postgresql");
    return conformance::skipped;
  }
  (void)signal(SIGPIPE, SIG_IGN);
  std::filesystem::create_directories(s.directory);
  chaos::shared_servers servers{s.faketime};
  totals all;
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t seed = s.seed;
  int code = 0;
  for (; all.rounds != s.rounds && std::chrono::steady_clock::now() - begin < s.seconds; ++seed) {
    const chaos::round_result r = chaos::run_round(s.round, servers, seed);
    const crash::journal j = crash::read_journal(r.journal);
    // a round that could not be carried out has no lists
    crash::verdict v = crash::judge(j, r.problem.empty() ? crash::judging::events_and_lists : crash::judging::events);
    const chaos::repeats again = chaos::find_repeats(j);
    if (s.round.follows == chaos::standby::asynchronous) judge_lost_answers(v);
    for (const std::string& broken : r.broken) v.violations.push_back({"effects", {}, broken, {}});
    if (r.has_only_kills && !again.is_slow && again.longest_takeover > s.takeover)
      v.violations.push_back({"D5",
                              again.slowest,
                              "the takeover took " + std::to_string(again.longest_takeover / 1ms) +
                                  " ms; it must take " + std::to_string(s.takeover / 1ms) + " ms at most",
                              {}});
    for (const crash::event& e : j.events)
      all.running += e.kind == crash::event_kind::row && e.row.at == crash::state::running;
    all.add(v, r, again);
    if (v.violations.empty() && r.problem.empty()) continue;
    code = v.violations.empty() ? 2 : 1;
    const std::string kept = s.directory + "/chaos-" + std::to_string(seed) + ".journal";
    std::ofstream{kept} << r.journal;
    if (!r.problem.empty()) std::printf("chaos: %s\n", r.problem.c_str());
    if (!r.activity.empty()) std::printf("nothing went on; the server did this:\n%s", r.activity.c_str());
    std::printf("%sthe journal is %s\n\n", crash::report(j, v, 5).c_str(), kept.c_str());
    break;
  }
  all.print(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  if (code == 0)
    std::printf("PASSED: %zu rounds from seed %llu\n", all.rounds, static_cast<unsigned long long>(s.seed));
  else
    std::printf("FAILED in round %zu: repeat it with --rounds 1 --seed %llu\n", all.rounds,
                static_cast<unsigned long long>(seed));
  return code;
}
