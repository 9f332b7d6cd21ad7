// The verbs of requests: put, cancel, revive, get, purge. The number of dead tasks.
#pragma once

#include "task_rows.hpp"
#include "transaction.hpp"

#include <cstddef>
#include <cstdint>

namespace tickwheel::durable::sqlite {

/// Carries the verbs out within a transaction. Throws and repeats as `starts`.
class requests {
 public:
  explicit requests(const connection& file);

  void put(transaction&, put_call&);
  void cancel(transaction&, cancel_call&);
  void revive(transaction&, revive_call&);
  void get(transaction&, get_call&);
  void purge(transaction&, purge_call&);
  /// Returns the number of dead tasks.
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
