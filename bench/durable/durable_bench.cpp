// Measures durable timers on one machine, beside the same writes without a scheduler.
//
//   durable_bench --pending 1000000 --folder /var/tmp
//   durable_bench --store postgres --nodes 2 --measure rates lateness
//
//   fsync             how long the disk takes for 64 KiB
//   raw schedule      bare SQLite or libpq: inserts in batches of 1,000, each batch durable
//   schedule          requests to a scheduler, with 8,000 of them in flight at each node
//   raw cancel        bare: cancels of pending tasks in batches of 1,000
//   cancel            cancels of the tasks of `schedule`, with 8,000 of them in flight
//   raw start+finish  bare: both writes of an execution, in batches of 1,000
//   start+finish      tasks that are due at once, started, and finished by their handlers
//   .. / raw          the ratio; each is the median of rounds that alternate
//   lateness RATE     from due to the handler, at so many starts per second, scheduled two seconds ahead
//   one tick          all tasks due at one moment: the longest time without a confirmed finish, from that moment on
//   callbacks         the CPU time of all callbacks of one iteration, meanwhile
//   recovery          from `open` of a store with overdue tasks to the first start, after a kill of the process that had it open
//
// Only if --measure names them:
//
//   bulk              lateness at 500 starts per second, without and while tasks are scheduled in bulk
//   memory            of a loaded task, and while tasks with payloads of 64 KiB start
//   verbs             load, begin and finish of the store without a scheduler, a call of 1,000 tasks at a time
//
// Only with PostgreSQL, if --measure names them:
//
//   snapshot          lateness while a snapshot is open
//   shares            from the join of a second node until each has from 40 to 60 % of the partitions
//   renewals          the rows that a node with 1,024 executions writes, per quarter of its lease
//   takeover          from the death of a node to the last start of its overdue tasks
//   load page         reading a page of all partitions while all tasks are due at one moment
//   peers             schedule, start and lateness of graphile-worker and BullMQ, from the folder --peers
//
// --json FILE writes {"store", "nodes", "notes", "rows": [{"name", "pending", "per_second", "p50_us", "p99_us", "max_us"}, ...]}.
#include "../../examples/support/command_line.hpp"
#include "subjects/sqlite_files.hpp"
#include "support/bench_options.hpp"
#include "support/disk_probe.hpp"
#include "support/figure_table.hpp"
#include "support/team.hpp"
#include "workloads/embedded.hpp"
#include "workloads/lateness.hpp"
#include "workloads/rates.hpp"
#include "workloads/verbs.hpp"

#ifdef TICKWHEEL_BENCH_POSTGRES
#include "subjects/postgres_server.hpp"
#include "workloads/cluster.hpp"
#include "workloads/peers.hpp"
#endif

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

namespace tickwheel::bench {

namespace {

using namespace std::chrono_literals;

/// The workloads of nodes that live through all of them.
void measure_nodes(const bench_options& o, const store_subject& subject, figure_table& out) {
  team nodes{o.nodes};
  bench_node node{subject.make_store()};
  node.open();
  nodes.meet(node);
  const std::uint64_t first = new_numbers(o.pending);
  node.schedule(first + nodes.first_of(o.pending), nodes.share_of(o.pending), far_away);
  nodes.meet(node);
  if (o.measures("rates")) {
    const auto raw = nodes.is_first() ? subject.make_raw(o.pending) : nullptr;
    measure_rates(o, nodes, node, raw.get(), out);
  }
  if (o.measures("lateness")) {
    for (const std::size_t rate : o.rates) {
      if (nodes.is_first()) subject.settle();
      auto late = lateness_of(nodes, node, rate, o.lateness_time);
      if (nodes.is_first()) out.add_times("lateness " + std::to_string(rate), std::move(late));
    }
  }
  if (o.measures("snapshot")) measure_snapshot(o, nodes, node, subject, out);
  if (o.measures("bulk")) measure_bulk(o, nodes, node, out);
  if (o.measures("tick")) {
    node.turns.clear();
    measure_one_tick(o, nodes, node, out);
    if (nodes.is_first()) out.add_times("callbacks", node.turns);
  }
}

/// Leaves overdue tasks behind, in a process that is killed while it has the store open.
void leave_overdue(const store_subject& subject) {
  constexpr std::size_t count = 1000;
  const std::uint64_t numbers = new_numbers(count);
  const pid_t child = ::fork();
  if (child < 0) fail("cannot fork");
  if (child == 0) {
    bench_node node{subject.make_store()};
    node.scheduler.pause();
    node.open();
    node.schedule(numbers, count, durable::clock::now());
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child || !WIFSIGNALED(status)) fail("recovery: the first process has failed");
}

void measure_recovery(const store_subject& subject, figure_table& out) {
  leave_overdue(subject);
  bench_node node{subject.make_store()};
  bool has_started = false;
  node.on_start = [&](durable::execution run) {
    has_started = true;
    run.done();
  };
  const auto before = std::chrono::steady_clock::now();
  node.open();
  node.run_until([&] { return has_started; });
  out.add_times("recovery", {std::chrono::steady_clock::now() - before});
}

#ifdef TICKWHEEL_BENCH_POSTGRES
void measure_cluster(const bench_options& o, const postgres_server& server, figure_table& out) {
  if (o.measures("shares")) measure_shares(server, out);
  if (o.measures("renewals")) measure_renewals(server, 1024, out);
  if (o.measures("takeover"))
    for (const auto lease : {1s, 10s}) measure_takeover(server, lease, o.takeovers, out);
  if (o.measures("load page")) measure_load_page(server, o.pending, out);
  if (o.measures("peers")) measure_peers(o, server, out);
}

#endif

int run(const bench_options& o) {
  figure_table out{o.pending};
  const auto fsyncs = measure_fsync(o.folder + "/durable_bench.fsync", 200);
  if (fsyncs.empty()) fail(o.folder + " cannot be written");
  out.add_times("fsync", fsyncs);

  // static: a program that fails stops the server
  static std::unique_ptr<store_subject> subject;
  if (o.store == "sqlite") {
    subject = std::make_unique<sqlite_files>(o.folder);
  } else {
#ifdef TICKWHEEL_BENCH_POSTGRES
    if (!postgres_server::is_installed()) fail("PostgreSQL's programs are missing; install the package postgresql");
    subject = std::make_unique<postgres_server>(o.folder);
#else
    fail("--store postgres: this build has no PostgreSQL store");
#endif
  }
  subject->describe(out);
  if (o.measures("rates") || o.measures("lateness") || o.measures("snapshot") || o.measures("bulk") ||
      o.measures("tick"))
    measure_nodes(o, *subject, out);
  if (o.measures("recovery")) measure_recovery(*subject, out);
  if (o.measures("memory")) measure_memory(o, *subject, out);
  if (o.measures("verbs")) measure_verbs(o, *subject, out);
#ifdef TICKWHEEL_BENCH_POSTGRES
  if (const auto* const server = dynamic_cast<const postgres_server*>(subject.get())) measure_cluster(o, *server, out);
#endif
  subject.reset();
  nlohmann::json figures = out.json();
  figures["store"] = o.store;
  figures["nodes"] = o.nodes;
  return o.json.write(figures) ? 0 : 1;
}

}  // namespace

}  // namespace tickwheel::bench

int main(int argc, char** argv) {
  using namespace tickwheel::bench;
  bench_options o;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a row is seen as soon as it is measured
  CLI::App app{"Measures durable timers on one machine", "durable_bench"};
  app.add_option("--store", o.store, "where the tasks are")->check(CLI::IsMember({"sqlite", "postgres"}));
  app.add_option("--nodes", o.nodes, "processes with a scheduler each")->check(CLI::Range(1, 3));
  app.add_option("--pending", o.pending, "tasks that wait meanwhile");
  app.add_option("--operations", o.operations, "operations of each measurement")->check(CLI::PositiveNumber);
  app.add_option("--rounds", o.rounds, "rounds that the operations are split into")->check(CLI::PositiveNumber);
  app.add_option("--rates", o.rates, "starts per second, of lateness")->check(CLI::PositiveNumber);
  app.add_option("--measure", o.parts, "which parts")->check(CLI::IsMember(all_parts));
  app.add_option("--takeovers", o.takeovers, "how often a node is killed, for each lease")->check(CLI::PositiveNumber);
  add_duration(app, "--snapshot-time", o.snapshot_time, std::chrono::seconds{1}, std::chrono::milliseconds{0},
               "how long a snapshot has been open when lateness is measured");
  add_duration(app, "--lateness-time", o.lateness_time, std::chrono::seconds{1}, std::chrono::milliseconds{100},
               "how long lateness is measured");
  app.add_option("--folder", o.folder, "where the files are written, which are removed at the end");
  app.add_option("--peers", o.peers, "the folder with the programs of the peers, and their packages");
  o.json.add_option(app);
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  if (o.store == "sqlite" && o.nodes != 1) {
    std::fputs("durable_bench: --nodes: a SQLite file has one node\n", stderr);
    return exit_bad_usage;
  }
  return run(o);
}
