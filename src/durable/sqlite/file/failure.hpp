// A failure of SQLite, or of the files around a database. It is thrown within the store, and caught where calls are answered.
#pragma once

#include <array>
#include <string_view>

struct sqlite3;

namespace tickwheel::durable::sqlite {

/// Carries SQLite's extended result code, the system's error number and a text. Copies without an allocation.
class failure {
 public:
  /// A failure with a text of ours. `code` is one of SQLite's extended result codes; `system` is an errno, or 0.
  failure(int code, int system, std::string_view text) noexcept;
  /// A failure that no later try changes, with the UV_ code for `join_call::error`.
  static failure final(int uv_code, std::string_view text) noexcept;
  /// The last failure of `database`. Null: there was no memory for it.
  static failure of(sqlite3* database) noexcept;

  int code() const noexcept { return code_; }
  int system() const noexcept { return system_; }
  const char* text() const noexcept { return text_.data(); }

  /// Returns true if the database rejects one row, for instance by a trigger. Other rows may be accepted.
  bool is_refusal() const noexcept;
  /// Returns true if a later try may succeed as things are: a lock, memory, descriptors or space on the disk are missing.
  bool is_outage() const noexcept;
  /// Returns true if the connection can go on after a rollback.
  bool leaves_connection() const noexcept;
  /// Returns true if a sync failed. The system may have lost what was written since the last one, and the next sync may succeed.
  bool loses_writes() const noexcept;
  /// Returns true if a COMMIT that failed so has written nothing that a later open would find.
  bool leaves_no_commit() const noexcept;
  /// Returns the UV_ code for `join_call::error`. Requires: it is no outage.
  int uv_code() const noexcept;

 private:
  bool disk_is_full() const noexcept;

  int code_;
  int system_;
  int uv_code_ = 0;  // 0: follows from the other two
  std::array<char, 256> text_{};
};

}  // namespace tickwheel::durable::sqlite
