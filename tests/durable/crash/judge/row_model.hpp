// All that is known about the row of one task: all states in which the store may have it, as the state table of the durable layer
// says. The model knows nothing of the code of a store.
#pragma once

#include "journal.hpp"
#include "sessions.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

namespace crash {

/// The rules that a model goes by.
struct rules {
  unsigned max_attempts = 8;
  unsigned most_lost = 3;
  nanoseconds keep_finished = 0;
  bool has_doubts = false;  ///< the store fails: a begin may be taken back, a request may have no effect
  sharing shared = sharing::none;
};

/// The times that the wall clock showed between two lines of the journal.
struct interval {
  nanoseconds from = 0;
  nanoseconds to = 0;
};

/// A start that was recovered before its handler was entered, while its process lived: the handler may be entered late.
struct lost_start {
  session_index session = some_session;
  std::uint8_t attempt = 0;
  std::uint32_t number = 0;
  nanoseconds due_from = 0;
  nanoseconds due_to = 0;
  nanoseconds first_due = 0;
  nanoseconds period = 0;
  bool operator==(const lost_start&) const = default;
};

/// One possible state of a row, and of the requests for it that are not answered.
struct possible_row {
  static constexpr std::size_t most_asked = 24;

  state at = state::none;
  bool stop = false;
  bool is_entered = false;  ///< running: its handler was entered
  std::uint8_t attempts = 0;
  std::uint8_t lost = 0;
  std::uint32_t applied = 0;             ///< a bit for each open request that has taken effect
  session_index session = some_session;  ///< running: the one that runs it
  std::uint32_t number = 0;              ///< the order that has put it
  nanoseconds due_from = 0;              ///< the period's due is between these
  nanoseconds due_to = 0;
  nanoseconds first_due = 0;
  nanoseconds period = 0;
  nanoseconds not_before = 0;                       ///< no start before this
  nanoseconds gone = 0;                             ///< it has ended at this time or later
  std::uint64_t token = 0;                          ///< running and entered
  std::uint64_t ended = 0;                          ///< the token of the last start that was answered
  std::array<std::uint32_t, most_asked> results{};  ///< of what has taken effect, see `outcome`
  std::vector<lost_start> lost_starts;

  bool operator==(const possible_row&) const = default;
};

/// Describes a row in words.
std::string describe(const possible_row&);

/// Everything that may be true of one row. Feed it the row's events, in order.
class row_model {
 public:
  explicit row_model(const rules& by) : rules_{by}, sessions_{by.shared} {}

  /// A child was started. It has a session from then on, unless the journal tells of that; the rows that it ran are lost.
  void start(unsigned process = 0);
  /// A process has a new session.
  void join(unsigned process);
  /// The session of a process is gone: others may recover its rows.
  void bury(unsigned process);
  /// Lets everything happen that may have happened in the time `during`.
  void elapse(interval during);
  /// The child is gone: its open requests have no effect any more. In a cluster whose journal does not tell of sessions, the database
  /// may still carry them out, and others may take the process for dead.
  void end(unsigned process = 0);
  /// Others may take this process for dead from now on. 0: any process.
  void trouble(unsigned process) noexcept;
  /// The file is copied at some moment between these two.
  void begin_backup();
  void end_backup();
  /// The copy has taken the place of the file. No child is there.
  void restore();

  // Each of these narrows what is possible to what fits. Returns false if nothing does; then the model is as before the call.
  // `elapse` was called before.
  [[nodiscard]] bool ask(const request&);
  [[nodiscard]] bool reject(const request&);
  [[nodiscard]] bool give(const request&, answer, const seen_row&);
  struct start_seen {
    unsigned process = 0;
    std::uint64_t token = 0;
    unsigned attempt = 0;
    nanoseconds due = 0;
    std::uint32_t number = 0;
  };
  [[nodiscard]] bool enter(const start_seen&);
  /// As above, of a start that was recovered before.
  [[nodiscard]] bool enter_late(const start_seen&);
  [[nodiscard]] bool list(const seen_row&);
  [[nodiscard]] bool list_nothing();
  [[nodiscard]] bool is_quiet();

  const std::vector<possible_row>& rows() const noexcept { return rows_; }
  bool has_open_requests() const noexcept;
  bool is_overrun() const noexcept { return overrun_; }

 private:
  struct open_request {
    request what;
    bool is_given_up = false;     // answered by unknown: it takes effect now, later or never
    nanoseconds asked_after = 0;  // the earliest time that the wall clock has shown since
  };

  template <class F>
  bool keep_if(F&& fits);
  void reach(const possible_row&, interval);
  void begin(const possible_row&, session_index, interval);
  void recover(const possible_row&, interval);
  void give_back(const possible_row&, interval);
  bool is_forgotten(const possible_row&, interval) const noexcept;
  void repeat_finishes(const possible_row&, interval);
  interval time_of(const open_request&, interval) const noexcept;
  void apply_next(const possible_row&, interval);
  void apply(const open_request&, std::size_t at, possible_row, interval);
  void finish(const request&, std::size_t at, possible_row, interval);
  void add(const possible_row&);
  void save();
  void add_result(possible_row, std::size_t at, std::uint32_t result);
  void give_up(std::size_t at);
  void forget(const std::vector<bool>& leaving);
  void forget_late_finishes();
  void merge_lost();
  bool is_start(const possible_row&, const start_seen&) const noexcept;
  bool is_late_start(const lost_start&, const start_seen&) const noexcept;
  void next_period(possible_row&, interval) const noexcept;
  void end_row(possible_row&, state, interval) const noexcept;
  std::size_t position(const request&) const noexcept;

  rules rules_;
  std::vector<possible_row> rows_{possible_row{}};
  std::vector<possible_row> saved_;  // what the copy may have
  bool is_saving_ = false;
  std::vector<open_request> open_;
  nanoseconds latest_ = 0;  // the end of the last `elapse`
  sessions sessions_;
  unsigned possible_losses_ = 0;         // in a cluster whose journal does not tell of sessions: of each task, so far
  std::unordered_set<unsigned> active_;  // processes that may have an effect
  bool overrun_ = false;                 // too many requests were open at a time
};

}  // namespace crash
