// All that is known about the row of one task: all states in which the store may have it, as the state table of the durable layer
// says. The model knows nothing of the code of a store.
#pragma once

#include "journal.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace crash {

/// The rules that a model goes by.
struct rules {
  unsigned max_attempts = 8;
  unsigned most_lost = 3;
  nanoseconds keep_finished = 0;
  bool has_doubts = false;  ///< the store fails: a begin may be taken back, a request may have no effect
  bool is_cluster = false;  ///< several processes share the store, and each may be taken for dead
};

/// The times that the wall clock showed between two lines of the journal.
struct interval {
  nanoseconds from = 0;
  nanoseconds to = 0;
};

/// One possible state of a row, and of the requests for it that are not answered.
struct possible_row {
  static constexpr std::size_t most_asked = 24;

  state at = state::none;
  bool stop = false;
  bool is_entered = false;  ///< running: its handler was entered
  std::uint8_t attempts = 0;
  std::uint8_t lost = 0;
  std::uint32_t applied = 0;     ///< a bit for each open request that has taken effect
  std::uint32_t generation = 0;  ///< running: of the process that runs it; in a cluster 0 if it is not entered
  std::uint32_t number = 0;      ///< the order that has put it
  nanoseconds due_from = 0;      ///< the period's due is between these
  nanoseconds due_to = 0;
  nanoseconds first_due = 0;
  nanoseconds period = 0;
  nanoseconds not_before = 0;                       ///< no start before this
  nanoseconds gone = 0;                             ///< it has ended at this time or later
  std::uint64_t token = 0;                          ///< running and entered
  std::uint64_t ended = 0;                          ///< the token of the last start that was answered
  std::array<std::uint32_t, most_asked> results{};  ///< of what has taken effect, see `outcome`

  bool operator==(const possible_row&) const = default;
};

/// Describes a row in words.
std::string describe(const possible_row&);

/// Everything that may be true of one row. Feed it the row's events, in order.
class row_model {
 public:
  explicit row_model(const rules& by) noexcept : rules_{by} {}

  /// A child was started: the rows that were running are lost. In a cluster only those that this process ran.
  void start(unsigned process = 0);
  /// Lets everything happen that may have happened in the time `during`.
  void elapse(interval during);
  /// The child is gone: the open requests have no effect any more. In a cluster the database may still carry them out.
  void end(unsigned process = 0);
  /// In a cluster: others may take this process for dead from now on. 0: any process.
  void trouble(unsigned process);
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
  [[nodiscard]] bool enter(std::uint64_t token, unsigned attempt, nanoseconds due, std::uint32_t number,
                           unsigned process = 0);
  [[nodiscard]] bool list(const seen_row&);
  [[nodiscard]] bool list_nothing();
  [[nodiscard]] bool is_quiet();

  const std::vector<possible_row>& rows() const noexcept { return rows_; }
  bool has_open_requests() const noexcept;
  bool is_overrun() const noexcept { return overrun_; }

 private:
  struct open_request {
    request what;
    bool is_given_up = false;  // answered by unknown: it takes effect now, later or never
  };

  template <class F>
  bool keep_if(F&& fits);
  void reach(const possible_row&, interval);
  void recover(const possible_row&, interval);
  void give_back(const possible_row&, interval);
  bool may_be_recovered(const possible_row&) const noexcept;
  bool may_be_given_back(const possible_row&) const noexcept;
  bool is_forgotten(const possible_row&, interval) const noexcept;
  void repeat_finishes(const possible_row&);
  void apply_next(const possible_row&, interval);
  void apply(const open_request&, std::size_t at, possible_row, interval);
  void finish(const request&, std::size_t at, possible_row, interval);
  void add(const possible_row&);
  void save();
  void add_result(possible_row, std::size_t at, std::uint32_t result);
  void give_up(std::size_t at);
  void forget(const std::vector<bool>& leaving);
  void next_period(possible_row&, interval) const noexcept;
  void end_row(possible_row&, state, interval) const noexcept;
  std::size_t position(const request&) const noexcept;

  rules rules_;
  std::vector<possible_row> rows_{possible_row{}};
  std::vector<possible_row> saved_;  // what the copy may have
  bool is_saving_ = false;
  std::vector<open_request> open_;
  std::uint32_t generation_ = 0;                               // the last one
  std::unordered_map<unsigned, std::uint32_t> generation_of_;  // each process
  std::unordered_set<std::uint32_t> doubtful_;                 // generations that may be taken for dead
  unsigned possible_losses_ = 0;                               // in a cluster: of each task, so far
  bool is_alive_ = false;
  bool overrun_ = false;  // too many requests were open at a time
};

}  // namespace crash
