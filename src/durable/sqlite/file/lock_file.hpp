// The lock that proves which process and which store has a database file.
//
// SQLite's own locks cannot prove it: a process loses them when it closes any other descriptor of the file. So the lock is that
// of a file beside it, which nobody else opens.
#pragma once

#include <string>
#include <utility>

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

/// Lets other programs see for sure that the database file is open. SQLite's own sign of it is a lock that the process loses when it
/// closes any other descriptor of the file. Another program that closes the file then takes itself for the last one, and deletes
/// the log.
///
/// The sign also proves ownership if somebody deletes the lock file: it holds a lock of a byte that SQLite does not use.
///
/// Does nothing on a system that has no locks of open files (F_OFD_SETLK).
///
/// Destroy it after all connections of the process: it closes a descriptor of the file. SQLite changes the journal mode of the file
/// only without it.
class open_sign {
 public:
  open_sign() noexcept = default;
  /// `database` is a resolved path. Throws `failure` if the file cannot be opened, or another program holds it exclusively, and with
  /// UV_EBUSY if another has this sign.
  explicit open_sign(const std::string& database);
  ~open_sign();
  open_sign(open_sign&& from) noexcept : descriptor_{std::exchange(from.descriptor_, -1)} {}
  open_sign& operator=(open_sign&& from) noexcept {
    std::swap(descriptor_, from.descriptor_);
    return *this;
  }

 private:
  int descriptor_ = -1;
};

}  // namespace tickwheel::durable::sqlite
