// The tasks of lost nodes that a recovery goes through.
#pragma once

#include "../sql/transaction.hpp"
#include "index_groups.hpp"

#include <tickwheel/durable/store.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tickwheel::durable::postgres {

/// Recovers a page of tasks after the other, some partitions at a time. If the server refuses a page, it asks for the ids of the page, and
/// recovers them in groups, which it halves until the refused task is alone. It passes over that one. If a full page has changed nothing,
/// because other clients hold all its rows or a trigger drops the changes, it passes over all of it.
class lost_tasks {
 public:
  struct counts {
    std::uint64_t recovered = 0, died = 0;
  };

  /// `latest`: tasks up to this time; 0: up to the store's now. `step`: how many partitions a statement reads.
  lost_tasks(session_number session, std::int64_t latest, int step) noexcept
      : session_{static_cast<std::int64_t>(session)}, latest_{latest}, step_{step} {}

  void ask(transaction&, unsigned max_attempts) const;
  /// The transaction was committed.
  counts take(const rows&);
  /// The transaction was refused. Returns false if that is not because of a task.
  bool refuse();
  /// Passes over the partitions whose tasks cannot be read, or tries one at a time.
  void pass_over_damage();

  /// Returns true if it has gone through all partitions.
  bool is_done(std::uint16_t partitions) const noexcept { return partition_ >= partitions; }
  /// Returns true if it has passed over a task that was not due.
  bool has_left_early() const noexcept { return has_left_early_; }

 private:
  struct lost_task {
    std::string id;
    bool is_early = false;  // not due
  };

  int step() const noexcept { return partition_ < one_by_one_until_ ? 1 : step_; }
  void take_page(const rows&);
  void pass_over(lost_task&);
  void end_group();
  void next_partitions();

  const std::int64_t session_, latest_;
  const int step_;
  std::int64_t partition_ = 0;            // the first that is not done
  std::int64_t one_by_one_until_ = 0;     // this partition
  bool is_looking_ = false;               // for the ids of a page
  bool passes_over_page_ = false;         // that was not refused
  std::vector<lost_task> page_;           // that was refused
  std::vector<indices> groups_;           // of it, to be recovered
  std::vector<std::string> passed_over_;  // in these partitions
  bool has_left_early_ = false;
};

}  // namespace tickwheel::durable::postgres
