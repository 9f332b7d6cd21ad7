// One round: nodes, producers and SQL clients share a database, and one fault follows another. Then all is healed, and the round goes on
// until all tasks are over. The parent chooses all requests, and merges the journals.
#pragma once

#include "server/servers.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace chaos {

/// The faults that a round may have.
enum class fault : std::uint8_t {
  kill,      ///< SIGKILL of a node, a producer or an SQL client
  stop,      ///< SIGSTOP, also for longer than a lease, then SIGCONT
  network,   ///< connections are cut, refused, slow, or stall in one direction
  server,    ///< the server stops at once, and starts again
  fat,       ///< SIGSTOP while a large answer of `begin` is under way
  holder,    ///< a foreign transaction holds 100 ids
  opposite,  ///< two transactions schedule the same ids in opposite order
  snapshot,  ///< a snapshot is held open, and autovacuum is off
  cut,       ///< a connection is cut while a large answer of `begin` is under way
  clock,     ///< the clock of the database is set, by up to an hour; those of the nodes are apart
  failover,  ///< the primary is killed, and a standby takes its place
};
inline constexpr std::size_t faults = 11;
const char* to_string(fault) noexcept;

struct round_options {
  std::string node;    ///< the program
  std::string client;  ///< the program
  std::size_t nodes = 3;
  std::size_t tasks = 300;
  standby follows = standby::none;      ///< the primary, once in the round
  std::vector<fault> only;              ///< the faults; empty: some, chosen at random
  std::chrono::seconds patience{20};    ///< with no start and no answer, until all must be quiet
  std::chrono::milliseconds length{0};  ///< of the faults; 0: chosen at random
  std::chrono::milliseconds hold{0};    ///< how long a foreign transaction holds its ids; 0: chosen at random
  std::size_t rate = 0;                 ///< further tasks per second
};

struct round_result {
  std::string journal;
  std::string problem;              ///< not empty: the round could not be carried out
  std::string activity;             ///< of the server, if the round got stuck
  std::vector<std::string> broken;  ///< promises about effects that were broken
  std::map<fault, std::size_t> made;
  std::size_t effects = 0;
  std::size_t effects_twice = 0;
  bool has_only_kills = false;  ///< a takeover has nothing to wait for
};

round_result run_round(const round_options&, shared_servers&, std::uint64_t seed);

}  // namespace chaos
