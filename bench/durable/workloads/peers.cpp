#include "peers.hpp"

#include "../support/failure.hpp"

#include <nlohmann/json.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace tickwheel::bench {

namespace {

bool is_there(const std::string& program) {
  return std::system(("command -v " + program + " >/dev/null 2>&1").c_str()) == 0;
}

// Adds the rows that the program prints, a line each. A program that fails leaves a note.
void run_peer(const std::string& folder, const nlohmann::json& asked, const std::string& name, figure_table& out) {
  // no quote is in it
  FILE* const output = ::popen(("exec node '" + folder + "/peer.mjs' '" + asked.dump() + "'").c_str(), "r");
  if (output == nullptr) fail("cannot run node");
  std::string line;
  for (int c = std::getc(output); c != EOF; c = std::getc(output)) {
    if (c != '\n') {
      line += static_cast<char>(c);
      continue;
    }
    nlohmann::json row = nlohmann::json::parse(line, nullptr, false);
    if (row.is_discarded())
      std::printf("%s\n", line.c_str());
    else if (row.contains("note"))
      out.add_note(row["note"], row["text"]);
    else
      out.add_row(std::move(row));
    line.clear();
  }
  const int status = ::pclose(output);
  if (status != 0) out.add_note(name, "failed, and has no further rows");
}

}  // namespace

void measure_peers(const bench_options& o, const postgres_server& server, figure_table& out) {
  const auto skip = [&](const char* name, const std::string& why) { out.add_note(name, "skipped: " + why); };
  const bool is_installed = ::access((o.peers + "/node_modules").c_str(), F_OK) == 0;
  if (o.peers.empty() || !is_installed || !is_there("node")) {
    for (const char* const name : {"bullmq", "graphile-worker"}) skip(name, "node, or its package, is not installed");
    return;
  }
  const nlohmann::json load{{"pending", o.pending},
                            {"operations", o.operations},
                            {"rates", o.rates},
                            {"seconds", std::chrono::duration_cast<std::chrono::seconds>(o.lateness_time).count()},
                            {"folder", o.folder}};
  ::setenv("PGHOST", server.socket_folder().c_str(), 1);
  ::setenv("PGUSER", "tester", 1);
  ::setenv("PGDATABASE", "postgres", 1);
  for (const int interval : {100, 2000}) {
    nlohmann::json asked = load;
    asked.update({{"peer", "graphile-worker"}, {"pollInterval", interval}});
    run_peer(o.peers, asked, "graphile-worker", out);
  }
  if (!is_there("redis-server")) return skip("bullmq", "redis-server is not installed");
  for (const char* const policy : {"always", "everysec"}) {
    nlohmann::json asked = load;
    asked.update({{"peer", "bullmq"}, {"appendfsync", policy}});
    run_peer(o.peers, asked, "bullmq", out);
  }
}

}  // namespace tickwheel::bench
