// A scenario: the options of a run, and the list of its events. It is made from a seed up front. A run of it is always the
// same. So a failing one is repeated by its text, and is shrunk by taking events out.
//
// The text has a line for each option, NAME NUMBER..., and then one for each event:
//
//   MS KIND NODE NUMBER A B ID WORD     "-" for an empty id or word
//
//   schedule  NUMBER is the order's, A the due time and B the period in ms, WORD keep/PLAN or replace/PLAN
//   cancel, revive, get, finish (with the last token), refinish (with the one before)
//   start     a process on the machine NODE
//   kill      its process; WORD begin: when the store has answered its next begin
//   power     its machine loses its power; A 1: what is on the way still arrives
//   close, drain, pause, resume
//   stop      its process stands still; WORD begin as above
//   suspend   its machine stands still, with its clock
//   continue
//   cut       WORD up, down or both; heal
//   slow      by A ms
//   reset     its connection breaks, and it notices
//   lose      the next message of link A (starts, requests, members), WORD up or down
//   crash     of the server; A 1: what is on the way is carried out
//   restore   the server is up again
//   clock     the store's clock is set by A ms
#pragma once

#include "units.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace simulation {

enum class event_kind : std::uint8_t {
  schedule,
  cancel,
  revive,
  get,
  finish,
  refinish,
  start,
  kill,
  power,
  close,
  drain,
  pause,
  resume,
  stop,
  suspend,
  go_on,
  cut,
  heal,
  slow,
  reset,
  lose,
  crash,
  restore,
  clock,
};

struct event {
  nanos at = 0;
  event_kind kind{};
  unsigned node = 0;
  std::uint32_t number = 0;
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::string id;
  std::string word;
};

struct scenario {
  std::uint64_t seed = 1;  ///< of the delays of messages, and of the schedulers
  unsigned nodes = 3;
  unsigned partitions = 4;
  nanos lease = second;
  nanos poll = 100 * ms;
  nanos window = 400 * ms;
  nanos timeout = second;
  nanos keep = 60 * second;
  unsigned running = 64;
  unsigned loaded = 1000;
  unsigned attempts = 4;
  nanos patience = second;
  nanos delay = 300 * us;
  nanos jitter = ms;
  nanos commit = ms;                ///< from a call to its answer, in the store
  std::vector<std::int64_t> drift;  ///< by node: of its clock, in millionths
  nanos until = 30 * second;        ///< then all faults are repaired, and all tasks come to their end
  std::vector<event> events;
};

/// Makes the scenario of a seed. `nodes` 0: 3 to 7.
scenario make_scenario(std::uint64_t seed, unsigned nodes = 0);

std::string to_text(const scenario&);
/// Returns no value if the text is invalid; `why` then says which line.
std::optional<scenario> from_text(std::string_view text, std::string& why);

}  // namespace simulation
