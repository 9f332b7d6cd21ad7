// The journal of a round: all that was ordered, asked, answered and started, in the order in which the parent saw it.
//
// A journal is text, a record a line. The parent writes
//
//   config MAX_ATTEMPTS KEEP_NS [doubts] [cluster [sessions]]    the options that the judge needs; cluster: several processes share
//                                               the store; sessions: the journal says when each session begins and is gone
//   order N schedule ID DUE PERIOD keep|replace
//   order N cancel|revive|get ID
//   order N finish ID TOKEN
//   start WALL [PROCESS]                        a child was started
//   end WALL HOW [PROCESS]                      it is gone: no effect of it follows; in a cluster without `sessions` what is under way
//                                               may still have one
//   trouble WALL PROCESS CAUSE                  in a cluster without `sessions`: from now on others may take this process for dead;
//                                               0: any
//   joined WALL PROCESS                         sessions: the store has given it a new session; an earlier one of it is gone
//   buried WALL PROCESS                         sessions: its session is gone; the process may not know that yet
//   clock WALL BEFORE AFTER                     in a cluster: the clock of the database was set, as below
//   backup WALL                                 the file is about to be copied
//   saved WALL                                  it was copied: the copy has what was there at some moment since
//   restored WALL                               the last copy has taken the place of the file
//   quiet WALL                                  nothing more is ordered, and nothing is left to do
//
// and copies the lines of the child, which begin with their running number and the wall clock. In a cluster @PROCESS stands before
// them, and the journal is in the order of the times.
//
//   SEQ WALL ready CODE
//   SEQ WALL asked N                            before the call
//   SEQ WALL rejected N CODE                    the call has returned an error
//   SEQ WALL answered N RESULT [STATE ATTEMPTS LOST CANCELLING]
//   SEQ WALL entered ID TOKEN ATTEMPT DUE N     first in the handler; N is the order in the payload
//   SEQ WALL ending ID TOKEN done|again|fail|bury
//   SEQ WALL ended ID TOKEN RESULT
//   SEQ WALL clock BEFORE AFTER                 the wall clock was set: no later time was shown before, and no earlier one after
//   SEQ WALL closed                             the scheduler was closed: its executions are lost
//   SEQ WALL row STATE ID ATTEMPTS LOST CANCELLING    of a list, at the end
//   SEQ WALL external ID TOKEN KEY              this start waits for another program, which knows it as KEY: N/DUE
//   SEQ WALL left|listed|drained|marked|external|log|stalled|partitions ...    for the parent; the judge skips these
//
// Times are nanoseconds since 1970.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace crash {

using nanoseconds = std::int64_t;

/// The verb of a request.
enum class verb : std::uint8_t { keep, replace, cancel, revive, get, done, again, fail, bury };

/// A request that the parent has ordered, or a finish that a handler has asked for.
struct request {
  std::uint32_t number = 0;  ///< 0: of a handler
  verb what{};
  std::string_view id;
  nanoseconds due = 0;
  nanoseconds period = 0;
  std::uint64_t token = 0;
  unsigned process = 0;  ///< that asks it
};

enum class state : std::uint8_t { none, pending, running, dead, finished, cancelled };

/// A row as a client sees it.
struct seen_row {
  state at{};
  std::uint8_t attempts = 0;
  std::uint8_t lost = 0;
  bool cancelling = false;
  bool operator==(const seen_row&) const = default;
};

/// The answer to a request.
enum class answer : std::uint8_t {
  none,
  scheduled,
  replaced,
  exists,
  ended,
  running,
  refused,
  cancelled,
  finished,
  not_found,
  revived,
  not_dead,
  stale,
  ok,
  unavailable,
  unknown,
};

const char* to_string(state) noexcept;
const char* to_string(answer) noexcept;
const char* to_string(verb) noexcept;

enum class event_kind : std::uint8_t {
  start,
  end,
  trouble,
  joined,
  buried,
  backup,
  saved,
  restored,
  quiet,
  ready,
  asked,
  rejected,
  answered,
  entered,
  clock,
  row,
};

/// One line that the judge needs.
struct event {
  event_kind kind{};
  unsigned process = 0;      ///< in a cluster
  std::size_t line = 0;      ///< in the journal, from 0
  nanoseconds wall = 0;      ///< when it was written
  nanoseconds before = 0;    ///< clock: what it showed before it was set
  std::string_view id;       ///< empty: of no task
  std::string_view cause;    ///< trouble
  request asked;             ///< asked, rejected, answered
  answer result{};           ///< answered
  seen_row row;              ///< answered by `ok`; row
  std::uint64_t token = 0;   ///< entered
  unsigned attempt = 0;      ///< entered
  nanoseconds due = 0;       ///< entered
  std::uint32_t number = 0;  ///< entered: the order in the payload
};

/// How processes share the store.
enum class sharing : std::uint8_t {
  none,      ///< one process after the other
  cluster,   ///< several at a time, and the journal does not say which of them has a session
  sessions,  ///< several at a time, and the journal says when their sessions begin and are gone
};

/// A journal that was read.
struct journal {
  unsigned max_attempts = 8;
  nanoseconds keep_finished = 0;
  bool has_doubts = false;  ///< a begin of this generation may be taken back
  sharing shared = sharing::none;
  std::vector<event> events;
  std::vector<std::string_view> lines;  ///< all
  std::string problem;                  ///< not empty: a line is missing or invalid, and nothing can be judged
  std::size_t starts = 0;
  std::size_t ids = 0;  ///< tasks that were ordered
};

/// Reads `text`, which outlives the journal.
journal read_journal(std::string_view text);

}  // namespace crash
