// Runs scenarios: durable_simulation --help
#include "scenario.hpp"
#include "shrinker.hpp"
#include "sizing.hpp"
#include "world.hpp"

#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

namespace {

using namespace simulation;

struct settings {
  std::uint64_t first = 1;
  std::uint64_t seeds = 100;
  unsigned nodes = 0;
  double seconds = 0;
  std::string events;
  std::string journal;
  bool shrinks = true;
  bool sizes = false;
};

void write(const std::string& file, const std::string& text) {
  if (!file.empty()) std::ofstream{file} << text;
}

// Returns true if nothing is broken.
bool report(const scenario& s, const result& r, const settings& with) {
  write(with.journal, r.journal);
  if (r.broken.empty()) return true;
  std::printf("FAILED in seed %llu\n%s", static_cast<unsigned long long>(s.seed), r.broken.c_str());
  if (!with.shrinks) return false;
  const shrunk least = shrink(s, r);
  write(with.journal, least.how.journal);
  std::printf(
      "\nThe least scenario that breaks the same promise has %zu of %zu events; %zu runs have found it:\n%s\n%s\n",
      least.what.events.size(), s.events.size(), least.runs, to_text(least.what).c_str(), least.how.broken.c_str());
  return false;
}

int run_file(const settings& with) {
  std::ifstream file{with.events};
  const std::string text{std::istreambuf_iterator<char>{file}, {}};
  std::string why = "it cannot be read";
  const std::optional<scenario> s = file ? from_text(text, why) : std::nullopt;
  if (!s) {
    std::fprintf(stderr, "simulation: %s: %s\n", with.events.c_str(), why.c_str());
    return 2;
  }
  const result r = run(*s);
  if (!report(*s, r, with)) return 1;
  std::printf("%zu events, %zu starts, nothing is broken\n", s->events.size(), r.starts);
  return 0;
}

int run_seeds(const settings& with) {
  const auto begin = std::chrono::steady_clock::now();
  const auto passed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  result all;
  std::uint64_t seeds = 0;
  for (; seeds != with.seeds && (with.seconds == 0 || passed() < with.seconds); ++seeds) {
    const scenario s = make_scenario(with.first + seeds, with.nodes);
    const result r = run(s);
    if (!report(s, r, with)) return 1;
    all.simulated += r.simulated;
    all.tasks += r.tasks;
    all.starts += r.starts;
    all.burials += r.burials;
    all.late_starts += r.late_starts;
  }
  const double days = static_cast<double>(all.simulated) / static_cast<double>(second) / 86'400;
  std::printf(
      "%llu seeds from %llu on, %.2f days simulated in %.1f s: %zu tasks, %zu starts, %zu of them after a burial, %zu "
      "burials; nothing is broken\n",
      static_cast<unsigned long long>(seeds), static_cast<unsigned long long>(with.first), days, passed(), all.tasks,
      all.starts, all.late_starts, all.burials);
  return 0;
}

}  // namespace

int main(int count, char** words) {
  settings with;
  CLI::App app{"Simulates durable schedulers that share a store, and judges what they do."};
  app.add_option("--seeds", with.seeds, "how many seeds to run; 100 by default");
  app.add_option("--seed", with.first, "the first seed; 1 by default");
  app.add_option("--seconds", with.seconds, "starts no seed after so many seconds")->check(CLI::PositiveNumber);
  app.add_option("--nodes", with.nodes, "the number of nodes; by default each seed has 3 to 7")
      ->check(CLI::Range(1, 100));
  app.add_option("--events", with.events, "runs the scenario in this file");
  app.add_option("--journal", with.journal, "writes the journal of the last run to this file");
  app.add_flag("!--no-shrink", with.shrinks, "shows a failure as it was found");
  app.add_flag("--sizing", with.sizes, "prints tables for the sizing of a cluster");
  CLI11_PARSE(app, count, words);
  if (with.sizes) {
    sizing_options size;
    if (with.nodes != 0) size.nodes = with.nodes;
    std::fputs(size_cluster(size).c_str(), stdout);
    return 0;
  }
  return with.events.empty() ? run_seeds(with) : run_file(with);
}
