// A prepared statement, and one run of it.
#pragma once

#include "failure.hpp"

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

namespace tickwheel::durable::sqlite {

/// A statement that is prepared once and run often. Throws `failure` if it cannot be prepared. The connection outlives it.
class statement {
 public:
  statement(sqlite3* database, std::string_view sql) : database_{database} {
    sqlite3_stmt* made = nullptr;
    if (sqlite3_prepare_v3(database, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT, &made,
                           nullptr) != SQLITE_OK)
      throw failure::of(database);
    prepared_.reset(made);
  }

 private:
  friend class query;
  struct finalize {
    void operator()(sqlite3_stmt* s) const noexcept { sqlite3_finalize(s); }
  };
  sqlite3* database_;
  std::unique_ptr<sqlite3_stmt, finalize> prepared_;
};

/// One run of a statement. The destructor ends it. Parameters are bound in their order. Texts and payloads are not copied: they
/// outlive the run. All functions throw `failure`.
class query {
 public:
  explicit query(statement& what) noexcept : statement_{what.prepared_.get()}, database_{what.database_} {}
  query(const query&) = delete;
  query& operator=(const query&) = delete;
  ~query() { sqlite3_reset(statement_); }

  query& bind(std::int64_t value) { return check(sqlite3_bind_int64(statement_, ++bound_, value)); }
  query& bind_text(std::string_view text) {
    return check(sqlite3_bind_text64(statement_, ++bound_, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8));
  }
  query& bind_payload(std::string_view bytes) {
    // a null pointer would bind null
    return check(
        sqlite3_bind_blob64(statement_, ++bound_, bytes.empty() ? "" : bytes.data(), bytes.size(), SQLITE_STATIC));
  }
  query& bind_null() { return check(sqlite3_bind_null(statement_, ++bound_)); }

  /// Returns true if there is another row.
  bool next() {
    switch (sqlite3_step(statement_)) {
      case SQLITE_ROW:
        return true;
      case SQLITE_DONE:
        return false;
      default:
        throw failure::of(database_);
    }
  }

  /// Runs a statement without rows.
  void run() {
    while (next()) {
    }
  }

  /// Runs a statement without rows, and returns how many rows it changed.
  std::int64_t changes() {
    run();
    return sqlite3_changes64(database_);
  }

  std::int64_t integer(int column) const noexcept { return sqlite3_column_int64(statement_, column); }
  bool is_null(int column) const noexcept { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
  /// Returns the bytes of a text or a payload, valid until the next row. Throws if there is no memory to read them.
  std::string_view bytes(int column) const {
    const void* const data = sqlite3_column_blob(statement_, column);
    const int length = sqlite3_column_bytes(statement_, column);
    if (data == nullptr) {
      if (length != 0 || sqlite3_errcode(database_) == SQLITE_NOMEM) throw failure::of(nullptr);
      return {};
    }
    return {static_cast<const char*>(data), static_cast<std::size_t>(length)};
  }

 private:
  query& check(int code) {
    if (code != SQLITE_OK) throw failure{code, 0, sqlite3_errstr(code)};
    return *this;
  }

  sqlite3_stmt* statement_;
  sqlite3* database_;
  int bound_ = 0;
};

}  // namespace tickwheel::durable::sqlite
