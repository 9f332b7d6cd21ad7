#include "failure.hpp"

#include <sqlite3.h>
#include <uv.h>

#include <algorithm>
#include <cerrno>

namespace tickwheel::durable::sqlite {

namespace {

constexpr int primary(int code) noexcept { return code & 0xff; }

}  // namespace

failure::failure(int code, int system, std::string_view text) noexcept : code_{code}, system_{system} {
  std::copy_n(text.data(), std::min(text.size(), text_.size() - 1), text_.data());
}

failure failure::of(sqlite3* database) noexcept {
  if (database == nullptr) return {SQLITE_NOMEM, 0, "out of memory"};
  return {sqlite3_extended_errcode(database), sqlite3_system_errno(database), sqlite3_errmsg(database)};
}

failure failure::final(int uv_code, std::string_view text) noexcept {
  failure made{SQLITE_OK, 0, text};
  made.uv_code_ = uv_code;
  return made;
}

bool failure::is_refusal() const noexcept {
  switch (primary(code_)) {
    case SQLITE_CONSTRAINT:
    case SQLITE_ERROR:  // an expression of a trigger fails
    case SQLITE_MISMATCH:
    case SQLITE_TOOBIG:
      return true;
    default:
      return false;
  }
}

// EFBIG is the limit of a file's size
bool failure::disk_is_full() const noexcept {
  return code_ == SQLITE_FULL ||
         (primary(code_) == SQLITE_IOERR && (system_ == ENOSPC || system_ == EDQUOT || system_ == EFBIG));
}

bool failure::is_outage() const noexcept {
  switch (primary(code_)) {
    case SQLITE_BUSY:
    case SQLITE_INTERRUPT:
    case SQLITE_LOCKED:
    case SQLITE_NOMEM:
    case SQLITE_PROTOCOL:
      return true;
    case SQLITE_CANTOPEN:
      return system_ == EMFILE || system_ == ENFILE || system_ == ENOSPC || system_ == EDQUOT;
    case SQLITE_IOERR:
      return code_ == SQLITE_IOERR_NOMEM || disk_is_full();
    default:
      return disk_is_full();
  }
}

bool failure::loses_writes() const noexcept { return code_ == SQLITE_IOERR_FSYNC || code_ == SQLITE_IOERR_DIR_FSYNC; }

// Frames of the log are written in order, the one that commits last. After it the index of the log is written, whose failures do
// not take the frames back.
bool failure::leaves_no_commit() const noexcept {
  return code_ == SQLITE_FULL || primary(code_) == SQLITE_BUSY || (code_ == SQLITE_IOERR_WRITE && disk_is_full());
}

bool failure::leaves_connection() const noexcept {
  switch (primary(code_)) {
    case SQLITE_CANTOPEN:
    case SQLITE_CORRUPT:
    case SQLITE_IOERR:
    case SQLITE_NOTADB:
    case SQLITE_READONLY:
      return false;
    default:
      return true;
  }
}

int failure::uv_code() const noexcept {
  if (uv_code_ != 0) return uv_code_;
  switch (primary(code_)) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return UV_EFTYPE;
    case SQLITE_READONLY:
      return UV_EROFS;
    case SQLITE_AUTH:
    case SQLITE_PERM:
      return UV_EACCES;
    case SQLITE_CANTOPEN:
      if (code_ == SQLITE_CANTOPEN_ISDIR || system_ == EISDIR) return UV_EFTYPE;
      break;
    default:
      return UV_EIO;
  }
  switch (system_) {
    case ENOENT:
    case ENOTDIR:
      return UV_ENOENT;
    case EACCES:
    case EPERM:
      return UV_EACCES;
    case EROFS:
      return UV_EROFS;
    default:
      return UV_EIO;
  }
}

}  // namespace tickwheel::durable::sqlite
