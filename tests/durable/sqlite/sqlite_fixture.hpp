// A database file for a test, in a folder of its own, and a loop for its stores.
#pragma once

#include "../../../src/durable/sqlite/file_store.hpp"
#include "../../uv/support/live_loop.hpp"
#include "../store/conformance.hpp"

#include <tickwheel/uv/remote.hpp>
#include <tickwheel/uv/timer.hpp>

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <uv.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

namespace conformance {

inline std::string text_of(const std::string& path) {
  std::ifstream in{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

/// A folder that is removed with all its files.
class test_folder {
 public:
  test_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "tickwheel_sqlite_XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~test_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  test_folder(const test_folder&) = delete;
  test_folder& operator=(const test_folder&) = delete;

  std::string file(const std::string& name) const { return (path_ / name).string(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Another program's connection to the file.
class shell {
 public:
  explicit shell(const std::string& file) {
    EXPECT_EQ(sqlite3_open(file.c_str(), &database_), SQLITE_OK);
    sqlite3_busy_timeout(database_, 10'000);
  }
  ~shell() { sqlite3_close(database_); }
  shell(const shell&) = delete;
  shell& operator=(const shell&) = delete;

  sqlite3* get() const { return database_; }

  void run(const std::string& sql) const {
    char* why = nullptr;
    EXPECT_EQ(sqlite3_exec(database_, sql.c_str(), nullptr, nullptr, &why), SQLITE_OK) << sql << ": " << why;
    sqlite3_free(why);
  }
  /// Returns the first column of all rows, a line each.
  std::string read(const std::string& sql, int column = 0) const {
    sqlite3_stmt* query = nullptr;
    EXPECT_EQ(sqlite3_prepare_v2(database_, sql.c_str(), -1, &query, nullptr), SQLITE_OK)
        << sql << ": " << sqlite3_errmsg(database_);
    std::string lines;
    while (sqlite3_step(query) == SQLITE_ROW) {
      const auto* const text = reinterpret_cast<const char*>(sqlite3_column_text(query, column));
      lines += (lines.empty() ? "" : "\n") + std::string{text == nullptr ? "null" : text};
    }
    sqlite3_finalize(query);
    return lines;
  }
  /// Returns how SQLite carries out `sql`.
  std::string plan(const std::string& sql) const { return read("explain query plan " + sql, 3); }

 private:
  sqlite3* database_ = nullptr;
};

/// A file, a libuv loop, and a clock that the test moves.
class sqlite_fixture final : public store_fixture {
 public:
  /// `path`: a file that is there already, or of another folder. Empty: a new one.
  explicit sqlite_fixture(const std::string& path = {}, const tickwheel::service_options& service = {})
      : file{path.empty() ? folder.emplace().file("tasks.db") : path} {
    EXPECT_EQ(timers_.open(loop_, service), 0);
    hold_ = timers_.hold();  // a loop that nothing holds does not poll
  }
  ~sqlite_fixture() override {
    patience_.cancel();
    hold_ = {};
    timers_.close();
  }

  std::unique_ptr<durable::store> make_store() override { return make_store(file); }
  std::unique_ptr<durable::store> make_store(const std::string& path) {
    return std::make_unique<durable::sqlite::file_store>(
        path, options, [shift = shift_] { return durable::clock::now() + std::chrono::nanoseconds{shift->load()}; });
  }
  tickwheel::timer_service& timers() override { return timers_; }
  uv_loop_t* loop() { return loop_.get(); }
  void turn() override {
    EXPECT_EQ(patience_.arm(20ms), 0);  // an answer that never comes fails the test instead of the loop
    uv_run(loop_.get(), UV_RUN_ONCE);
  }
  void advance(std::chrono::nanoseconds by) override { *shift_ += by.count(); }

  bool can_shift_clock() const override { return true; }
  void shift_clock(std::chrono::nanoseconds by) override { *shift_ += by.count(); }
  bool can_refuse() const override { return true; }
  void refuse_payload(const std::string& payload) override {
    for (const char* const event : {"insert", "update"})
      shell{file}.run(std::string{"create trigger refuse_"} + event + " before " + event +
                      " on tasks when new.state = 0 and cast(new.payload as text) = '" + payload +
                      "' begin select raise(abort, 'no such payload'); end");
  }
  bool validate(std::string* why) override {
    *why = shell{file}.read("pragma integrity_check");
    return *why == "ok";
  }

  std::optional<test_folder> folder;  // of a new file; a child process that is killed would leave one
  const std::string file;
  durable::sqlite_options options;

 private:
  std::shared_ptr<std::atomic<std::int64_t>> shift_ = std::make_shared<std::atomic<std::int64_t>>(0);
  live_loop loop_;
  tickwheel::timer_service timers_;
  tickwheel::remote_hold hold_;
  struct nothing {
    void operator()() const noexcept {}
  };
  tickwheel::callback_timer<nothing> patience_{timers_, {}};
};

}  // namespace conformance
