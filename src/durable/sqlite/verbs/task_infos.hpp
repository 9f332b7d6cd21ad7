// Rows as the readers of tasks see them.
#pragma once

#include "../file/statement.hpp"
#include "../file/times.hpp"

#include <tickwheel/durable/task.hpp>

#include <chrono>
#include <string>

namespace tickwheel::durable::sqlite {

/// The columns of a `task_info`, for a query. `read_info` reads them.
#define TICKWHEEL_SQLITE_INFO "id, state, at, due, period, attempt, lost, stop, error, payload"

/// Throws `std::bad_alloc`, or `failure` if SQLite has no memory.
inline task_info read_info(const query& q) {
  return {.what = {.id = std::string{q.bytes(0)},
                   .due = from_database(q.integer(3)),
                   .payload = std::string{q.bytes(9)},
                   .period = std::chrono::nanoseconds{q.integer(4)}},
          .state = static_cast<task_state>(q.integer(1)),
          .next = from_database(q.integer(2)),
          .attempts = static_cast<unsigned>(q.integer(5)),
          .lost = static_cast<unsigned>(q.integer(6)),
          .cancelling = q.integer(7) != 0,
          .last_error = std::string{q.bytes(8)}};
}

}  // namespace tickwheel::durable::sqlite
