#include "lock_file.hpp"

#include "failure.hpp"

#include <sqlite3.h>
#include <uv.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace tickwheel::durable::sqlite {

namespace {

// as many as Linux follows
constexpr int most_links = 40;

// `file` is "it" for the database, whose name is before each message.
[[noreturn]] void cannot_open(const std::string& file, int error) {
  throw failure{SQLITE_CANTOPEN, error, "cannot open " + file + ": " + std::generic_category().message(error)};
}

#ifdef F_OFD_SETLK
// SQLite's locks are on these bytes of the file: a shared one while it is open, and an exclusive one to delete the log.
constexpr off_t shared_bytes = 0x40000002;
constexpr off_t shared_count = 510;
// SQLite locks no byte behind them.
constexpr off_t owner_byte = shared_bytes + shared_count;

/// Returns false if another has a lock of these bytes. Throws `failure`.
bool try_lock(int descriptor, short kind, off_t first, off_t count) {
  struct flock bytes {};
  bytes.l_type = kind;
  bytes.l_whence = SEEK_SET;
  bytes.l_start = first;
  bytes.l_len = count;
  if (::fcntl(descriptor, F_OFD_SETLK, &bytes) == 0) return true;
  if (errno == EAGAIN || errno == EACCES) return false;
  const int error = errno;
  throw failure{SQLITE_IOERR_LOCK, error, "cannot lock it: " + std::generic_category().message(error)};
}
#endif

// Returns true if SQLite would repair the file first, or read its first page elsewhere.
bool has_journal(const std::string& database) {
  struct stat found {};
  return ::stat((database + "-journal").c_str(), &found) == 0 || ::stat((database + "-wal").c_str(), &found) == 0;
}

// Returns true if a file begins as no database does. SQLite opens it, because a process that closes a descriptor of its own loses the
// locks that its connections have on the file.
bool is_no_database(const std::string& file) {
  constexpr std::string_view start{"SQLite format 3\0", 16};
  sqlite3* opened = nullptr;
  sqlite3_file* content = nullptr;
  std::array<char, start.size()> bytes{};
  int result = sqlite3_open_v2(file.c_str(), &opened, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, nullptr);
  if (result == SQLITE_OK) result = sqlite3_file_control(opened, "main", SQLITE_FCNTL_FILE_POINTER, &content);
  if (result == SQLITE_OK) result = content->pMethods->xRead(content, bytes.data(), static_cast<int>(bytes.size()), 0);
  sqlite3_close(opened);
  if (result != SQLITE_OK && result != SQLITE_IOERR_SHORT_READ) return false;  // the connection will say why
  return std::string_view{bytes.data(), bytes.size()} != start;
}

}  // namespace

std::string resolved(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path at = path;
  for (int links = 0;; ++links) {
    const fs::path name = at.filename();
    const fs::path folder = fs::canonical(at.has_parent_path() ? at.parent_path() : fs::path{"."}, error);
    if (error) cannot_open("it", error.value());
    if (name.empty() || name == "." || name == "..") cannot_open("it", EISDIR);
    at = folder / name;
    if (!fs::is_symlink(at, error)) return at.string();
    if (links == most_links) cannot_open("it", ELOOP);
    const fs::path target = fs::read_symlink(at, error);
    if (error) cannot_open("it", error.value());
    at = target.is_absolute() ? target : folder / target;
  }
}

lock_file::lock_file(const std::string& database) {
  struct stat found {};
  if (::stat(database.c_str(), &found) == 0) {
    // refused here, before a lock file is made beside it
    if (!S_ISREG(found.st_mode)) throw failure::final(UV_EFTYPE, "it is not a regular file");
    // SQLite names the log after the file. Under a second name it would not find the log, and two writers would destroy the file.
    if (found.st_nlink > 1) throw failure::final(UV_EBUSY, "it has another name (a hard link); remove all but one");
    if (found.st_size != 0 && !has_journal(database) && is_no_database(database))
      throw failure{SQLITE_NOTADB, 0, sqlite3_errstr(SQLITE_NOTADB)};
  }
  const std::string name = database + ".lock";
  descriptor_ = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (descriptor_ < 0) cannot_open(name, errno);
  int result = 0;
  do {
    result = ::flock(descriptor_, LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result == 0) return;
  const int error = errno;
  ::close(descriptor_);
  if (error == EWOULDBLOCK) throw failure::final(UV_EBUSY, "another process or scheduler has it, and holds " + name);
  throw failure{SQLITE_IOERR_LOCK, error, "cannot lock " + name + ": " + std::generic_category().message(error)};
}

lock_file::~lock_file() {
  // freed here also if a forked child has the descriptor
  ::flock(descriptor_, LOCK_UN);
  ::close(descriptor_);
}

open_sign::open_sign(const std::string& database) {
#ifdef F_OFD_SETLK
  descriptor_ = ::open(database.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor_ < 0) cannot_open("it", errno);
  try {
    if (!try_lock(descriptor_, F_WRLCK, owner_byte, 1))
      throw failure::final(UV_EBUSY, "another process or scheduler has it, but its lock file was deleted");
    if (!try_lock(descriptor_, F_RDLCK, shared_bytes, shared_count))
      throw failure{SQLITE_BUSY, 0, "another program holds it exclusively"};
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
#else
  (void)database;
#endif
}

open_sign::~open_sign() {
  if (descriptor_ < 0) return;
#ifdef F_OFD_SETLK
  // freed here also if a forked child has the descriptor
  struct flock all {};
  all.l_type = F_UNLCK;
  all.l_whence = SEEK_SET;
  ::fcntl(descriptor_, F_OFD_SETLK, &all);
#endif
  ::close(descriptor_);
}

}  // namespace tickwheel::durable::sqlite
