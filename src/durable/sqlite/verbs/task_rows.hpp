// The rows of tasks: read by id, decided upon in C++, and written by rowid.
#pragma once

#include "../file/connection.hpp"
#include "../file/statement.hpp"
#include "../file/times.hpp"

#include <tickwheel/durable/store.hpp>

#include <cstdint>
#include <optional>
#include <string_view>

namespace tickwheel::durable::sqlite {

/// A row without its id, its error and its payload.
struct task_row {
  std::int64_t rowid = 0;
  task_state state{};
  nanoseconds at = 0, due = 0, period = 0;
  revision rev = 0, ended = 0;
  std::int64_t attempt = 0, lost = 0;
  bool stop = false;
  nanoseconds gone = never;
  std::uint32_t bytes = 0;  // of the payload

  /// Returns true if the task ended at or before this time: no verb but `finish` sees it.
  bool is_forgotten(nanoseconds time) const noexcept { return gone <= time; }
};

/// The columns of a `task_row`, for a query. `read_row` reads them.
#define TICKWHEEL_SQLITE_ROW "rowid, state, at, due, period, rev, ended, attempt, lost, stop, gone, length(payload)"

inline task_row read_row(const query& q) noexcept {
  return {.rowid = q.integer(0),
          .state = static_cast<task_state>(q.integer(1)),
          .at = q.integer(2),
          .due = q.integer(3),
          .period = q.integer(4),
          .rev = static_cast<revision>(q.integer(5)),
          .ended = static_cast<revision>(q.integer(6)),
          .attempt = q.integer(7),
          .lost = q.integer(8),
          .stop = q.integer(9) != 0,
          .gone = q.is_null(10) ? never : q.integer(10),
          .bytes = static_cast<std::uint32_t>(q.integer(11))};
}

/// Reads and writes rows. All functions throw `failure`. A write that a trigger drops is a refusal, like one that a trigger aborts.
class task_rows {
 public:
  explicit task_rows(const connection& file)
      : find_{file.get(), "select " TICKWHEEL_SQLITE_ROW " from tasks where id = ?1"},
        write_{
            file.get(),
            "update tasks set state = ?2, at = ?3, due = ?4, rev = ?5, ended = ?6, attempt = ?7, lost = ?8, stop = ?9 "
            "where rowid = ?1"},
        write_with_error_{file.get(),
                          "update tasks set state = ?2, at = ?3, due = ?4, rev = ?5, ended = ?6, attempt = ?7, lost = "
                          "?8, stop = ?9, error = ?10 where rowid = ?1"},
        end_{
            file.get(),
            "update tasks set state = ?2, at = ?3, rev = ?4, ended = ?5, attempt = ?6, lost = ?7, stop = 0, gone = ?8, "
            "error = coalesce(?9, error), payload = null where rowid = ?1"} {}

  std::optional<task_row> find(std::string_view id) {
    query q{find_};
    if (!q.bind_text(id).next()) return std::nullopt;
    return read_row(q);
  }

  /// Writes a row, and leaves its error and payload as they are.
  void write(const task_row& row) {
    query q{write_};
    bind(q, row);
    change(q);
  }
  /// As `write`, and sets the error; an empty one clears it.
  void write(const task_row& row, std::string_view error) {
    query q{write_with_error_};
    bind(q, row);
    bind_error(q, error);
    change(q);
  }

  /// Ends a task: `how` is finished or cancelled. An empty error keeps the one before.
  void end(const task_row& row, task_state how, nanoseconds now, std::string_view error = {}) {
    query q{end_};
    q.bind(row.rowid)
        .bind(static_cast<std::int64_t>(how))
        .bind(never)
        .bind(static_cast<std::int64_t>(row.rev))
        .bind(static_cast<std::int64_t>(row.ended))
        .bind(row.attempt)
        .bind(row.lost)
        .bind(now);
    bind_error(q, error);
    change(q);
  }

 private:
  // The row was found in this transaction, so only raise(ignore) leaves it as it was.
  static void change(query& q) {
    if (q.changes() == 0) throw failure{SQLITE_CONSTRAINT_TRIGGER, 0, "a trigger has dropped the change of a row"};
  }

  static void bind(query& q, const task_row& row) {
    q.bind(row.rowid)
        .bind(static_cast<std::int64_t>(row.state))
        .bind(row.at)
        .bind(row.due)
        .bind(static_cast<std::int64_t>(row.rev))
        .bind(static_cast<std::int64_t>(row.ended))
        .bind(row.attempt)
        .bind(row.lost)
        .bind(static_cast<std::int64_t>(row.stop));
  }

  static void bind_error(query& q, std::string_view error) {
    if (error.empty())
      q.bind_null();
    else
      q.bind_text(error);
  }

  statement find_, write_, write_with_error_, end_;
};

}  // namespace tickwheel::durable::sqlite
