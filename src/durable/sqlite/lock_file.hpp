// The lock that proves which process and which store has a database file.
//
// SQLite's own locks cannot prove it: a process loses them when it closes any other descriptor of the file. So the lock is that
// of a file beside it, which nobody else opens.
#pragma once

#include <string>

namespace tickwheel::durable::sqlite {

/// Returns the absolute path that `path` leads to, through symbolic links, also if no file is there yet. Throws `failure`.
std::string resolved(const std::string& path);

/// Holds the lock of a database file. Throws `failure` if it cannot, with UV_EBUSY if another has it.
class lock_file {
 public:
  /// `database` is a resolved path. The lock's file is `database` + ".lock". It stays when the lock is freed.
  explicit lock_file(const std::string& database);
  ~lock_file();
  lock_file(const lock_file&) = delete;
  lock_file& operator=(const lock_file&) = delete;

 private:
  int descriptor_;
};

}  // namespace tickwheel::durable::sqlite
