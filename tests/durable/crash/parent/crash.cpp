// The crash harness: lets a child schedule, cancel, execute and finish tasks, kills it at random moments, starts it again until all is
// quiet, and judges the journal.
//
//   crash --child PROGRAM --directory PLACE [--mode kill|power|abort|faults|clock] [--rounds N] [--seconds N] [--seed S]
//         [--tasks N] [--faketime LIBRARY]
//
//   --seconds     no round begins after so many seconds
//   --faketime    for the mode clock; by default libfaketime is searched in the system's folders
//
//   exit code 0   no promise was broken
//             1   one was: the report names it, with the lines of the journal
//             2   asked for something impossible, or a round could not be carried out
//             77  skipped, because libfaketime is missing
#include "../judge/journal.hpp"
#include "../judge/judge.hpp"
#include "round.hpp"

#include <signal.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace {

struct settings {
  crash::round_options round;
  std::size_t rounds = 10;
  std::chrono::seconds seconds = std::chrono::hours{24};
  std::uint64_t seed = std::random_device{}();
  std::string mode = "kill";
};

[[noreturn]] void refuse(const std::string& why) {
  std::fprintf(stderr, "crash: %s\n", why.c_str());
  std::exit(2);  // NOLINT(concurrency-mt-unsafe): there is one thread
}

std::uint64_t number_of(const std::string& option, std::string_view word) {
  std::uint64_t n = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
  if (error != std::errc{} || end != word.data() + word.size())
    refuse(option + " is '" + std::string{word} + "'; it must be a whole number");
  return n;
}

// Returns libfaketime for programs with threads. Empty: it is not installed.
std::string find_faketime() {
  std::error_code missing;
  for (const std::filesystem::path folder : {"/usr/lib", "/usr/lib64"}) {
    std::vector<std::filesystem::path> places{folder};
    for (const auto& entry : std::filesystem::directory_iterator{folder, missing}) places.push_back(entry.path());
    for (const auto& place : places)
      if (auto library = place / "faketime/libfaketimeMT.so.1"; std::filesystem::exists(library, missing))
        return library;
  }
  return {};
}

settings read_settings(int count, char** words) {
  settings s;
  for (int i = 1; i < count; i += 2) {
    const std::string option = words[i];
    if (i + 1 == count) refuse(option + " has no value");
    const std::string value = words[i + 1];
    if (option == "--child")
      s.round.child = value;
    else if (option == "--directory")
      s.round.directory = value;
    else if (option == "--faketime")
      s.round.faketime = value;
    else if (option == "--mode")
      s.mode = value;
    else if (option == "--rounds")
      s.rounds = number_of(option, value);
    else if (option == "--seconds")
      s.seconds = std::chrono::seconds{number_of(option, value)};
    else if (option == "--seed")
      s.seed = number_of(option, value);
    else if (option == "--tasks")
      s.round.tasks = number_of(option, value);
    else
      refuse("unknown option " + option);
  }
  if (s.mode == "kill")
    s.round.how = crash::mode::kill;
  else if (s.mode == "power")
    s.round.how = crash::mode::power;
  else if (s.mode == "abort")
    s.round.how = crash::mode::abort;
  else if (s.mode == "faults")
    s.round.how = crash::mode::faults;
  else if (s.mode == "clock")
    s.round.how = crash::mode::clock;
  else
    refuse("--mode is '" + s.mode + "'; it must be kill, power, abort, faults or clock");
  if (s.round.how == crash::mode::clock && s.round.faketime.empty() && (s.round.faketime = find_faketime()).empty()) {
    std::puts("skipped: libfaketime is missing; install the package faketime");
    std::exit(77);  // NOLINT(concurrency-mt-unsafe): there is one thread
  }
  if (s.round.child.empty() || s.round.directory.empty()) refuse("--child and --directory are needed");
  return s;
}

// A task that aborts its process is dead after three losses, and no other is.
void judge_deaths(const crash::journal& j, const std::vector<std::string>& poison, crash::verdict& v) {
  std::size_t dead = 0;
  for (const crash::event& e : j.events) {
    if (e.kind != crash::event_kind::row || e.row.at != crash::state::dead) continue;
    ++dead;
    const bool is_poison = std::find(poison.begin(), poison.end(), e.id) != poison.end();
    if (!is_poison)
      v.violations.push_back({"D10", std::string{e.id}, "it is dead, and has not aborted the process", {e.line}});
    else if (e.row.lost != 3)
      v.violations.push_back({"D10", std::string{e.id}, "it is dead, and has not lost three nodes", {e.line}});
  }
  if (dead < poison.size())
    v.violations.push_back(
        {"D10", {}, std::to_string(poison.size() - dead) + " tasks that abort the process are not dead", {}});
}

}  // namespace

int main(int count, char** words) {
  const settings s = read_settings(count, words);
  (void)signal(SIGPIPE, SIG_IGN);
  std::filesystem::create_directories(s.round.directory);
  crash::verdict sum;
  std::size_t kills = 0;
  std::size_t rounds = 0;
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t seed = s.seed;
  int code = 0;
  for (; rounds != s.rounds && code == 0 && std::chrono::steady_clock::now() - begin < s.seconds; ++seed) {
    const crash::round_result r = crash::run_round(s.round, seed);
    const crash::journal j = crash::read_journal(r.journal);
    crash::verdict v = crash::judge(j);
    if (s.round.how == crash::mode::abort && r.problem.empty()) judge_deaths(j, r.poison, v);
    if (!r.broken.empty()) v.violations.push_back({"file", {}, r.broken, {}});
    ++rounds;
    kills += r.kills;
    sum.tasks += v.tasks;
    sum.starts += v.starts;
    sum.lost += v.lost;
    sum.early += v.early;
    sum.after_cancel += v.after_cancel;
    sum.tokens_twice += v.tokens_twice;
    if (v.violations.empty() && r.problem.empty()) continue;
    code = v.violations.empty() ? 2 : 1;
    const std::string kept = s.round.directory + "/" + s.mode + "-" + std::to_string(seed) + ".journal";
    std::ofstream{kept} << r.journal;
    if (!r.problem.empty()) std::printf("crash: %s\n", r.problem.c_str());
    std::printf("%sthe journal is %s\n\n", crash::report(j, v, 5).c_str(), kept.c_str());
    break;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%-6s %8s %10s %10s %8s %6s %6s %13s %12s %8s\n", "mode", "rounds", "tasks", "starts", "kills", "lost",
              "early", "after cancel", "token twice", "seconds");
  std::printf("%-6s %8zu %10zu %10zu %8zu %6zu %6zu %13zu %12zu %8.0f\n", s.mode.c_str(), rounds, sum.tasks, sum.starts,
              kills, sum.lost, sum.early, sum.after_cancel, sum.tokens_twice, seconds);
  if (code == 0)
    std::printf("PASSED: %zu rounds from seed %llu\n", rounds, static_cast<unsigned long long>(s.seed));
  else
    std::printf("FAILED in round %zu: repeat it with --mode %s --rounds 1 --seed %llu\n", rounds, s.mode.c_str(),
                static_cast<unsigned long long>(seed));
  return code;
}
