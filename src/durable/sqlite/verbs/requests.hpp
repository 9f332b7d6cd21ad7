// The verbs of requests: put, cancel, revive, get, purge. The number of dead tasks.
#pragma once

#include "task_rows.hpp"
#include "transaction.hpp"

#include <cstddef>
#include <cstdint>

namespace tickwheel::durable::sqlite {

/// Carries the verbs out within a transaction. Throws and repeats as `starts`.
///
/// A verb begins at the element `first`, and goes on until the transaction is to give way. It returns the element that is next.
class requests {
 public:
  explicit requests(const connection& file);

  std::size_t put(transaction&, put_call&, std::size_t first);
  std::size_t cancel(transaction&, cancel_call&, std::size_t first);
  std::size_t revive(transaction&, revive_call&, std::size_t first);
  std::size_t get(transaction&, get_call&, std::size_t first);
  std::size_t purge(transaction&, purge_call&, std::size_t first);
  /// Returns the number of dead tasks, at most `most_dead_counted`.
  std::uint64_t count_dead();

 private:
  put_call::answered put_one(transaction&, const put_call::item&);
  put_call::answered put_known(const put_call::item&, revision, nanoseconds forgotten);
  cancel_result cancel_one(transaction&, std::string_view id);
  revive_call::answered revive_one(transaction&, std::string_view id);

  task_rows rows_;
  statement insert_, replace_, get_, purge_, dead_;
};

}  // namespace tickwheel::durable::sqlite
