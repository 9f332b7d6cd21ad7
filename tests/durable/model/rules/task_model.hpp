// A naive model of one durable task, written from the state table of the contract. It shares no code with the library.
//
// The model sees what a program sees: requests, answers and starts. It does not see the store, and so it keeps all rows that are
// possible. A request takes effect at some time between its call and its answer, and an answer removes the rows that do not fit
// it. After `unknown` both rows stay. If no row is left, the library has broken its contract.
#pragma once

#include "facts.hpp"
#include "model_request.hpp"
#include "possible_row.hpp"
#include "row_rules.hpp"
#include "row_search.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace durable_model {

/// All rows that one task may have.
class task_model {
 public:
  explicit task_model(const facts& of) : facts_{of}, rules_{of} {}

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
  row_search search(row_search::predicate is_goal = nullptr) const;
  span clock_since(nanos from) const { return facts_.clock.range(from, facts_.now); }

  request* find(int number);
  void forget(int number);
  void forget_earlier(int member, int number);
  void keep(row_list&&);
  void note(const row_list&);
  void note_late(const row_search&);

  const facts& facts_;
  const row_rules rules_;
  row_list rows_{possible_row{}};
  std::vector<request> requests_;
  row_list seen_;  // rows that were possible since the oldest open read
  int reads_ = 0;
  std::vector<late_start> late_;
  bool has_seen_too_much_ = false;
};

}  // namespace durable_model
