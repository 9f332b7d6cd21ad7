// A connection to the database file, with the settings that the store needs.
#pragma once

#include "failure.hpp"

#include <sqlite3.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace tickwheel::durable::sqlite {

/// How a connection opens its file.
enum class access { create, existing };

/// One connection. One thread at a time uses it. A constructor that fails throws `failure`.
///
/// Closing it leaves the write-ahead log as it is: a checkpoint would take longer than one commit. The next open reads the log.
class connection {
 public:
  /// `give_up` turns true when waits and long reads shall end. It outlives the connection.
  connection(const std::string& path, access, std::size_t cache_bytes, const std::atomic<bool>& give_up);
  connection(const connection&) = delete;  // SQLite keeps the address of `lock_wait_`

  sqlite3* get() const noexcept { return handle_.get(); }

  /// Runs statements without parameters. Throws `failure`.
  void run(const char* sql) const;
  /// Runs `sql`, and returns the integer in its first row; 0 if there is none. Throws `failure`.
  std::int64_t integer(const char* sql) const;
  /// Rolls back what is open, if anything.
  void rollback() const noexcept;
  /// Returns true while a transaction is open.
  bool in_transaction() const noexcept { return sqlite3_get_autocommit(get()) == 0; }
  /// Returns `f`, a failure of a COMMIT, with the errno that SQLite does not pass on.
  failure with_errno(const failure& f) const noexcept;
  /// Waits until the disk has what was written to the file, not to its log. Throws `failure`.
  void sync() const;
  /// Remembers the write-ahead log for `has_moved`.
  void watch_log();
  /// Returns true if the file or its log is not at its path any more, so that the next process would not find what is written
  /// now.
  bool has_moved() const noexcept;
  /// Returns true if the file was only opened for reading.
  bool is_read_only() const noexcept { return sqlite3_db_readonly(get(), "main") == 1; }

 private:
  // Waits for the file's write lock, which another program, such as the shell, may hold.
  struct lock_wait {
    const std::atomic<bool>& give_up;
    std::chrono::steady_clock::time_point until;

    bool goes_on(int tries) noexcept;
  };

  struct close {
    void operator()(sqlite3* database) const noexcept { sqlite3_close_v2(database); }
  };
  lock_wait lock_wait_;
  std::unique_ptr<sqlite3, close> handle_;
  std::string log_;  // its path
  std::uint64_t log_inode_ = 0;
};

}  // namespace tickwheel::durable::sqlite
