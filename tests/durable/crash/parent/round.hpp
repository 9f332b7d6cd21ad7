// One round: a child is started again and again on one file until all its tasks are over. The parent chooses all requests, and writes
// the journal.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace crash {

/// How the children end.
enum class mode {
  kill,    ///< by SIGKILL at random moments
  power,   ///< by a loss of power: unsynced writes are dropped, cut or reordered
  abort,   ///< by a task that aborts the process
  faults,  ///< by SIGKILL, after a full disk, SIGSTOP, other programs on the file, and restored backups
  clock,   ///< by SIGKILL, after the wall clock was set by up to an hour
};

struct round_options {
  mode how = mode::kill;
  std::string child;      ///< the program
  std::string directory;  ///< for the files of the round
  std::string faketime;   ///< libfaketime, which makes the wall clock of the child; empty: the child makes it itself
  std::size_t tasks = 600;
  std::size_t generations = 6;        ///< children that are killed, at most
  std::chrono::seconds patience{20};  ///< with no start and no answer, until all must be quiet
};

struct round_result {
  std::string journal;
  std::string problem;  ///< not empty: the round could not be carried out
  std::string broken;   ///< not empty: a promise about the file itself was broken
  std::size_t kills = 0;
  std::vector<std::string> poison;  ///< the tasks that abort the process
};

round_result run_round(const round_options&, std::uint64_t seed);

}  // namespace crash
