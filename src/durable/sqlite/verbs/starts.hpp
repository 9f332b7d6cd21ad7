// The verbs that start and end executions: begin, finish, recover.
#pragma once

#include "task_rows.hpp"
#include "transaction.hpp"

namespace tickwheel::durable::sqlite {

/// Carries the verbs out within a transaction. All functions throw `failure`, `std::bad_alloc` and `transaction::start_over`;
/// they may then be run again with the same call.
class starts {
 public:
  explicit starts(const connection& file);

  void begin(transaction&, begin_call&);
  void finish(transaction&, finish_call&);
  /// Recovers the running rows of sessions that are gone: their revisions are before `first`.
  void recover(transaction&, recover_call&, revision first);
  /// Gives back the doubted rows of this session: their revisions are not before `first`. Clears the ids that the database refuses, so
  /// that those of the others keep their places if the transaction runs again.
  void give_back(transaction&, recover_call&, revision first);

 private:
  finish_result finish_one(transaction&, finish_call&, const finish_call::item&);
  void next_period(transaction&, task_row&);
  void recover_one(transaction&, recover_call&, task_row);

  task_rows rows_;
  statement begin_, lost_;
};

}  // namespace tickwheel::durable::sqlite
