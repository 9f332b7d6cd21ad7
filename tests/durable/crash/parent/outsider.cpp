#include "outsider.hpp"

#include <sqlite3.h>
#include <unistd.h>

#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

namespace crash {

namespace {

constexpr int patience_ms = 2000;

}  // namespace

void outsider::closed::operator()(sqlite3* c) const noexcept { sqlite3_close(c); }

// Null: it cannot be opened.
outsider::connection outsider::open(const std::string& file, int flags) {
  sqlite3* made = nullptr;
  const int error = sqlite3_open_v2(file.c_str(), &made, flags, nullptr);
  connection c{made};
  if (error != SQLITE_OK) return nullptr;
  sqlite3_busy_timeout(made, patience_ms);
  return c;
}

void outsider::begin_reading() {
  connection c = open(file_, SQLITE_OPEN_READWRITE);
  if (c == nullptr) return;
  if (sqlite3_exec(c.get(), "begin; select count(*) from tasks", nullptr, nullptr, nullptr) == SQLITE_OK)
    reader_ = std::move(c);
}

void outsider::look() const {
  const connection c = open(file_, SQLITE_OPEN_READWRITE);
  if (c != nullptr) (void)sqlite3_exec(c.get(), "select count(*) from tasks", nullptr, nullptr, nullptr);
}

bool outsider::back_up() {
  (void)unlink(copy_.c_str());
  const connection from = open(file_, SQLITE_OPEN_READWRITE);
  const connection to = open(copy_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  if (from == nullptr || to == nullptr) return false;
  sqlite3_backup* const backup = sqlite3_backup_init(to.get(), "main", from.get(), "main");
  if (backup == nullptr) return false;
  const int error = sqlite3_backup_step(backup, -1);
  return sqlite3_backup_finish(backup) == SQLITE_OK && error == SQLITE_DONE;
}

bool outsider::restore() {
  end_reading();
  std::error_code error;
  std::filesystem::copy_file(copy_, file_, std::filesystem::copy_options::overwrite_existing, error);
  if (error) return false;
  (void)unlink((file_ + "-wal").c_str());
  (void)unlink((file_ + "-shm").c_str());
  return true;
}

std::string outsider::check() const {
  const connection c = open(file_, SQLITE_OPEN_READWRITE);
  if (c == nullptr) return "it cannot be opened";
  std::string found;
  const auto note = [](void* to, int, char** values, char**) {
    static_cast<std::string*>(to)->append(values[0] == nullptr ? "null" : values[0]);
    return 1;
  };
  const int error = sqlite3_exec(c.get(), "pragma integrity_check(1)", note, &found, nullptr);
  if (error != SQLITE_OK && error != SQLITE_ABORT) return sqlite3_errmsg(c.get());
  return found == "ok" ? std::string{} : found;
}

}  // namespace crash
