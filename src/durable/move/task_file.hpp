// The SQLite file whose tasks are moved.
#pragma once

#include "../sqlite/file/connection.hpp"
#include "../sqlite/file/lock_file.hpp"
#include "../sqlite/file/times.hpp"
#include "state_counts.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace tickwheel::durable::move {

/// A row of the file. The views are valid until the next row.
struct file_row {
  std::string_view id;
  std::int64_t state = 0;
  sqlite::nanoseconds at = 0, due = 0, period = 0;
  std::int64_t rev = 0, ended = 0, attempt = 0, lost = 0;
  bool stop = false;
  std::optional<sqlite::nanoseconds> gone{};
  std::optional<std::string_view> error{};
  std::string_view payload;
};

/// Holds the lock of the file, and its write lock: no scheduler and no other program changes it meanwhile. All members throw
/// `sqlite::failure`.
class task_file {
 public:
  explicit task_file(const std::string& path);

  state_counts count() const;
  /// Returns a revision that is not less than any that the file has given.
  std::int64_t last_revision() const;
  void for_each(const std::function<void(const file_row&)>& each) const;

  /// Closes the file, and renames it. Returns its new name, which no file had at the construction. Requires: nothing follows.
  std::string retire();

 private:
  std::atomic<bool> give_up_ = false;
  const std::string path_;
  const std::string retired_;  // the new name
  const sqlite::lock_file lock_;
  std::unique_ptr<sqlite::connection> file_;
};

}  // namespace tickwheel::durable::move
