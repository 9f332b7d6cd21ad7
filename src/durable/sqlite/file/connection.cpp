#include "connection.hpp"

#include "statement.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace tickwheel::durable::sqlite {

namespace {

using namespace std::chrono_literals;

constexpr auto longest_wait_for_lock = 1s;

// steps of a read between two checks of `give_up`
constexpr int steps_per_look = 10'000;

// 0: there is no such file
std::uint64_t inode_of(const std::string& path) noexcept {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 ? found.st_ino : 0;
}

}  // namespace

connection::connection(const std::string& path, access how, std::size_t cache_bytes, const std::atomic<bool>& give_up)
    : lock_wait_{give_up, {}}, log_{path + "-wal"} {
  sqlite3* made = nullptr;
  const int create = how == access::create ? SQLITE_OPEN_CREATE : 0;
  const int error = sqlite3_open_v2(
      path.c_str(), &made, SQLITE_OPEN_READWRITE | create | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
  handle_.reset(made);
  if (error != SQLITE_OK) throw failure::of(made);
  sqlite3_busy_handler(
      made, [](void* wait, int tries) { return static_cast<lock_wait*>(wait)->goes_on(tries) ? 1 : 0; }, &lock_wait_);
  sqlite3_progress_handler(
      made, steps_per_look, [](void* ending) { return static_cast<const std::atomic<bool>*>(ending)->load() ? 1 : 0; },
      const_cast<std::atomic<bool>*>(&give_up));
  sqlite3_db_config(made, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  const std::size_t kibibytes = std::clamp<std::size_t>(cache_bytes / 1024, 64, 1 << 30);
  // without secure_delete, which some builds turn on, a deleted payload is not overwritten with zeros
  const std::string settings = "pragma cache_size = -" + std::to_string(kibibytes) +
                               "; pragma synchronous = full; pragma wal_autocheckpoint = 0; pragma secure_delete = "
                               "off; pragma temp_store = memory;"
                               " pragma recursive_triggers = off";
  run(settings.c_str());
}

// By the clock: on a busy machine a sleep of a millisecond takes several.
bool connection::lock_wait::goes_on(int tries) noexcept {
  const auto now = std::chrono::steady_clock::now();
  if (tries == 0) until = now + longest_wait_for_lock;
  if (now >= until || give_up) return false;
  std::this_thread::sleep_for(1ms);
  return true;
}

void connection::run(const char* sql) const {
  if (sqlite3_exec(get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK) throw failure::of(get());
}

std::int64_t connection::integer(const char* sql) const {
  statement prepared{get(), sql};
  query q{prepared};
  return q.next() ? q.integer(0) : 0;
}

void connection::rollback() const noexcept {
  if (in_transaction()) sqlite3_exec(get(), "rollback", nullptr, nullptr, nullptr);
}

failure connection::with_errno(const failure& f) const noexcept {
  sqlite3_file* log = nullptr;
  sqlite3_file_control(get(), "main", SQLITE_FCNTL_JOURNAL_POINTER, static_cast<void*>(&log));
  int system = f.system();
  if (system == 0 && log != nullptr && log->pMethods != nullptr)
    log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &system);
  return {f.code(), system, f.text()};
}

void connection::sync() const {
  sqlite3_file* file = nullptr;
  sqlite3_file_control(get(), "main", SQLITE_FCNTL_FILE_POINTER, static_cast<void*>(&file));
  const int error = file->pMethods->xSync(file, SQLITE_SYNC_NORMAL | SQLITE_SYNC_DATAONLY);
  if (error == SQLITE_OK) return;
  int system = 0;
  file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &system);
  throw failure{error, system, "the copy of the write-ahead log does not reach the disk"};
}

void connection::watch_log() { log_inode_ = inode_of(log_); }

bool connection::has_moved() const noexcept {
  int moved = 0;
  sqlite3_file_control(get(), "main", SQLITE_FCNTL_HAS_MOVED, &moved);
  return moved != 0 || inode_of(log_) != log_inode_;
}

}  // namespace tickwheel::durable::sqlite
