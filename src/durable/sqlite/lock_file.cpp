#include "lock_file.hpp"

#include "failure.hpp"

#include <sqlite3.h>
#include <uv.h>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

namespace tickwheel::durable::sqlite {

namespace {

// as many as Linux follows
constexpr int most_links = 40;

[[noreturn]] void fail(const std::string& file, int error) {
  throw failure{SQLITE_CANTOPEN, error, "cannot open " + file + ": " + std::generic_category().message(error)};
}

}  // namespace

std::string resolved(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path at = path;
  for (int links = 0;; ++links) {
    const fs::path name = at.filename();
    const fs::path folder = fs::canonical(at.has_parent_path() ? at.parent_path() : fs::path{"."}, error);
    if (error) fail(path, error.value());
    if (name.empty() || name == "." || name == "..") fail(path, EISDIR);
    at = folder / name;
    if (!fs::is_symlink(at, error)) return at.string();
    if (links == most_links) fail(path, ELOOP);
    const fs::path target = fs::read_symlink(at, error);
    if (error) fail(path, error.value());
    at = target.is_absolute() ? target : folder / target;
  }
}

lock_file::lock_file(const std::string& database) {
  const std::string name = database + ".lock";
  descriptor_ = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (descriptor_ < 0) fail(name, errno);
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

}  // namespace tickwheel::durable::sqlite
