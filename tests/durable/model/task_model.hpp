// A naive model of one durable task, written from the state table of the contract. It shares no code with the library.
//
// The model sees what a program sees: requests, answers and starts. It does not see the store, and so it keeps all rows that are
// possible. A request takes effect at some time between its call and its answer, and an answer removes the rows that do not fit
// it. After `unknown` both rows stay. If no row is left, the library has broken its contract.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace durable_model {

/// Nanoseconds: of the manual clock, or of the store's clock since 1970.
using nanos = std::int64_t;

inline constexpr nanos never = INT64_MAX;

/// A time that is known to lie between two others.
struct span {
  nanos lo = 0, hi = 0;
  bool operator==(const span&) const = default;
};

/// The store's clock as a function of the manual clock: it is ahead by an offset that changes when a test sets the clock.
class store_times {
 public:
  void set(nanos at, nanos offset) { changes_.push_back({at, offset}); }
  nanos at(nanos manual) const { return manual + changes_.back().offset; }
  /// Returns the least and the greatest time that the clock has shown in [from, to]. Requires: nothing was set after `to`.
  span range(nanos from, nanos to) const;

 private:
  struct change {
    nanos at, offset;
  };
  std::vector<change> changes_;
};

/// A scheduler from its `open` to its `close`.
struct member {
  bool is_open = true;
  bool starts = true;  ///< it has a handler
  nanos gone_at = -1;  ///< a session of it ended at this time or before; `never`: its session may be over
};

/// The task of a schedule request.
struct content {
  nanos due = 0;
  nanos period = 0;
  std::string payload;
  bool is_refused = false;  ///< the store rejects it
};

/// The facts that all tasks of a run share.
struct facts {
  nanos now = 0;           ///< of the manual clock
  bool is_behind = false;  ///< a callable has blocked: requests may have ended whose answers are delivered later
  nanos keep_finished = 0;
  unsigned max_attempts = 0;
  store_times clock;
  std::vector<member> members;
  std::vector<content> contents;
  std::vector<std::string> errors{""};  ///< the texts of failures; 0: none
};

enum class row_state : std::uint8_t { none, pending, running, dead, finished, cancelled };
enum class verb : std::uint8_t { keep, replace, cancel, revive, finish, get, look };
enum class ending : std::uint8_t { done, again, dead };

/// The answers of all verbs in one enumeration.
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
  unavailable,
  unknown,
};
const char* name_of(answer);

/// A request for one task.
struct request {
  int number = 0;  ///< grows with each request of a run
  verb what{};
  int member = 0;
  nanos issued = 0;
  int content = 0;          ///< of keep and replace
  std::uint64_t token = 0;  ///< of finish
  ending how{};             ///< as above
  span at;                  ///< as above: of the next attempt
  bool gives_back = false;  ///< as above: the attempt does not count
  int error = 0;            ///< as above
  bool is_over = false;     ///< answered `unknown`: it may take effect later
  std::size_t seen = 0;     ///< of a read: the rows that were possible when it was issued
  bool is_exact = true;     ///< of a read: nothing happened since
};

/// A row as a read shows it.
struct shown_row {
  row_state state{};
  nanos due = 0, period = 0, next = 0;
  unsigned attempts = 0, lost = 0;
  bool cancelling = false;
  std::string payload, error;
};

/// A row that the store may have.
struct possible_row {
  /// A request that has taken effect, and was not answered.
  struct mark {
    int number = 0;
    int member = 0;
    answer is{};
    bool operator==(const mark&) const = default;
  };
  row_state state = row_state::none;
  unsigned attempts = 0, lost = 0;
  bool stop = false;
  bool is_first = false;  ///< it starts when its period is due, and not for a retry
  int content = -1;
  int error = 0;
  int holder = -1;          ///< of a running row: the member that started it
  std::uint64_t token = 0;  ///< of a running row; 0: no handler was called yet
  std::uint64_t ended = 0;  ///< the token of the last start that was answered
  span due, at, gone;
  nanos since = 0;  ///< it is like this at this time of the manual clock, or later
  nanos begun = 0;  ///< of a running row: it was started at this time, or later
  std::array<mark, 8> marks{};
  std::uint8_t marked = 0;
  std::uint64_t hash = 0;  ///< of all but the times

  answer mark_of(int number) const;
  void set_mark(const request&, answer);
  void erase_mark(int number);
  void set_hash();
  /// Returns true if both differ at most in times.
  bool is_like(const possible_row&) const;
};

/// All rows that one task may have.
class task_model {
 public:
  explicit task_model(const facts& of) : facts_{of} {}

  void ask(request);
  // Each of these returns false if no possible row fits. The model is then of no use any more.
  bool on_answer(int number, answer);
  bool on_read(int number, const shown_row*);   ///< null: not found
  bool on_absent(int number, row_state asked);  ///< of a look: the task was not listed among those of this state
  bool on_start(int member, std::uint64_t token, unsigned attempt, nanos due, const std::string& payload);
  /// No request of this member takes effect any more, and it begins nothing.
  void on_close(int member);
  /// No request that was answered `unknown` takes effect any more.
  void on_quiet();
  /// Returns true if the store may show this now.
  bool shows(const shown_row*) const;

  /// Returns the rows that are possible without a change that was not seen.
  const std::vector<possible_row>& rows() const { return rows_; }
  std::string describe() const;

 private:
  using row_list = std::vector<possible_row>;
  /// A start whose task may have been recovered before its handler was called.
  struct late_start {
    int holder = 0;
    unsigned attempt = 0;
    int content = 0;
    bool operator==(const late_start&) const = default;
  };
  struct search;

  void reach(search&) const;
  void expand(search&, const possible_row&) const;
  void apply(search&, const possible_row&, const request&) const;
  void end_start(search&, possible_row, const request&, span clock) const;
  void next_period(possible_row&, span clock) const;
  nanos latest_due(const possible_row&, nanos now) const;
  void become(possible_row&, row_state, span clock) const;
  bool may_be_expired(const possible_row&, span clock) const;
  bool may_be_known(const possible_row&, span clock) const;
  bool fits(const possible_row&, const shown_row*, span clock) const;
  span clock_since(nanos from) const;

  request* find(int number);
  void forget(int number);
  void forget_earlier(int member, int number);
  void keep(row_list&&);
  void note(const row_list&);
  void note_late(const search&);

  const facts& facts_;
  row_list rows_{possible_row{}};
  std::vector<request> requests_;
  row_list seen_;  // rows that were possible since the oldest open read
  int reads_ = 0;
  std::vector<late_start> late_;
  bool has_seen_too_much_ = false;
};

}  // namespace durable_model
