#include "power_loss.hpp"

#include <signal.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace crash {

namespace {

constexpr std::size_t sector = 512;
constexpr int kept_files = SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL;

// A write, or a truncation if `size` is not negative.
struct change {
  std::size_t offset = 0;
  std::string bytes;
  sqlite3_int64 size = -1;
};

// A file as the process sees it. The real file has what was synced.
struct image {
  std::string content;
  std::vector<change> unsynced;
  bool is_known = false;  // to the disk: its name was synced
  bool is_database = false;
};

struct machine {
  std::mutex mutex;
  std::map<std::string, image> files;
  std::mt19937_64 random;
  power_loss_options options;
  std::uint64_t operations = 0;
  bool errors_are_allowed = false;
  sqlite3_vfs* real = nullptr;

  std::uint64_t below(std::uint64_t n) { return std::uniform_int_distribution<std::uint64_t>{0, n - 1}(random); }
};

machine& this_machine() {
  static auto* const one = new machine;  // outlives all threads
  return *one;
}

struct kept_file {
  sqlite3_file base{};
  image* kept = nullptr;
  const char* path = nullptr;

  sqlite3_file* real() noexcept { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

kept_file& of(sqlite3_file* f) noexcept { return *reinterpret_cast<kept_file*>(f); }

void make(std::string& content, const change& c) {
  if (c.size >= 0) return content.resize(static_cast<std::size_t>(c.size));
  if (content.size() < c.offset + c.bytes.size()) content.resize(c.offset + c.bytes.size());
  std::copy(c.bytes.begin(), c.bytes.end(), content.begin() + static_cast<std::ptrdiff_t>(c.offset));
}

// Writes past the file system's cache: only this VFS reads the file before the loss.
void make_on_disk(const std::string& path, const std::vector<change>& changes) {
  std::FILE* const file = std::fopen(path.c_str(), "r+b");
  if (file == nullptr) return;
  for (const change& c : changes) {
    if (c.size >= 0) {
      (void)std::fflush(file);
      if (ftruncate(fileno(file), c.size) != 0) break;
      continue;
    }
    (void)std::fseek(file, static_cast<long>(c.offset), SEEK_SET);
    (void)std::fwrite(c.bytes.data(), 1, c.bytes.size(), file);
  }
  (void)std::fclose(file);
}

// Chooses which unsynced changes of a file have reached the disk.
std::vector<change> survivors(machine& m, const std::vector<change>& all) {
  std::vector<change> kept;
  switch (m.below(5)) {
    case 0:
      return kept;
    case 1:
      return all;
    case 2:
      kept.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(m.below(all.size() + 1)));
      break;
    default: {  // a later write may arrive without an earlier one
      const std::uint64_t percent = 5 + m.below(91);
      for (const change& c : all)
        if (m.below(100) < percent) kept.push_back(c);
    }
  }
  // a write may be cut, at a sector or anywhere
  if (!kept.empty() && m.below(2) == 0) {
    change& cut = kept.at(m.below(kept.size()));
    if (!cut.bytes.empty()) {
      std::size_t length = m.below(cut.bytes.size() + 1);
      if (m.below(2) == 0) length -= length % sector;
      cut.bytes.resize(length);
    }
  }
  return kept;
}

[[noreturn]] void lose_power(machine& m) {
  for (auto& [path, file] : m.files) {
    make_on_disk(path, survivors(m, file.unsynced));
    if (!file.is_known && m.below(2) == 0) (void)unlink(path.c_str());
    if (file.is_database) (void)unlink((path + "-shm").c_str());
  }
  (void)raise(SIGKILL);
  std::abort();
}

// A sync fails so much more often than a write, because a commit has many writes and one sync.
constexpr std::uint64_t errors_of_syncs = 8;

// Counts a write or sync. Returns true if it must fail.
bool operate(machine& m, std::uint64_t weight = 1) {
  if (++m.operations == m.options.at) {
    // a slow disk: the rest of the program goes on meanwhile
    if (m.below(2) == 0) std::this_thread::sleep_for(std::chrono::microseconds{m.below(3000)});
    lose_power(m);
  }
  return m.errors_are_allowed && m.options.errors != 0 && m.below(m.options.errors) < weight;
}

// --- a file

int close_file(sqlite3_file* f) noexcept {
  sqlite3_file* const real = of(f).real();
  return real->pMethods->xClose(real);
}

int read_file(sqlite3_file* f, void* into, int amount, sqlite3_int64 from) noexcept {
  machine& m = this_machine();
  const std::lock_guard locked{m.mutex};
  const std::string& content = of(f).kept->content;
  const auto offset = std::min(static_cast<std::size_t>(from), content.size());
  const auto count = std::min(static_cast<std::size_t>(amount), content.size() - offset);
  std::memcpy(into, content.data() + offset, count);
  if (count == static_cast<std::size_t>(amount)) return SQLITE_OK;
  std::memset(static_cast<char*>(into) + count, 0, static_cast<std::size_t>(amount) - count);
  return SQLITE_IOERR_SHORT_READ;
}

int keep(sqlite3_file* f, change&& c) noexcept {
  machine& m = this_machine();
  const std::lock_guard locked{m.mutex};
  if (operate(m)) return m.below(2) == 0 ? SQLITE_FULL : SQLITE_IOERR_WRITE;
  image& kept = *of(f).kept;
  make(kept.content, c);
  kept.unsynced.push_back(std::move(c));
  return SQLITE_OK;
}

int write_file(sqlite3_file* f, const void* from, int amount, sqlite3_int64 at) noexcept {
  change c;
  c.offset = static_cast<std::size_t>(at);
  c.bytes.assign(static_cast<const char*>(from), static_cast<std::size_t>(amount));
  return keep(f, std::move(c));
}

int truncate_file(sqlite3_file* f, sqlite3_int64 size) noexcept {
  change c;
  c.size = size;
  return keep(f, std::move(c));
}

int sync_file(sqlite3_file* f, int) noexcept {
  machine& m = this_machine();
  const std::lock_guard locked{m.mutex};
  if (operate(m, errors_of_syncs)) return SQLITE_IOERR_FSYNC;
  image& kept = *of(f).kept;
  make_on_disk(of(f).path, kept.unsynced);
  kept.unsynced.clear();
  kept.is_known = true;
  return SQLITE_OK;
}

int size_of_file(sqlite3_file* f, sqlite3_int64* size) noexcept {
  machine& m = this_machine();
  const std::lock_guard locked{m.mutex};
  *size = static_cast<sqlite3_int64>(of(f).kept->content.size());
  return SQLITE_OK;
}

// Locks and shared memory are the system's.
int lock_file(sqlite3_file* f, int level) noexcept {
  sqlite3_file* const real = of(f).real();
  return real->pMethods->xLock(real, level);
}
int unlock_file(sqlite3_file* f, int level) noexcept {
  sqlite3_file* const real = of(f).real();
  return real->pMethods->xUnlock(real, level);
}
int check_lock(sqlite3_file* f, int* is_reserved) noexcept {
  sqlite3_file* const real = of(f).real();
  return real->pMethods->xCheckReservedLock(real, is_reserved);
}
int control_file(sqlite3_file* f, int what, void* argument) noexcept {
  sqlite3_file* const real = of(f).real();
  if (what == SQLITE_FCNTL_SIZE_HINT || what == SQLITE_FCNTL_CHUNK_SIZE || what == SQLITE_FCNTL_MMAP_SIZE)
    return SQLITE_NOTFOUND;
  return real->pMethods->xFileControl(real, what, argument);
}
int sector_size(sqlite3_file* f) noexcept {
  sqlite3_file* const real = of(f).real();
  return real->pMethods->xSectorSize(real);
}
int characteristics(sqlite3_file* f) noexcept {
  sqlite3_file* const real = of(f).real();
  return real->pMethods->xDeviceCharacteristics(real);
}
int map_shared(sqlite3_file* f, int page, int size, int extend, void volatile** memory) noexcept {
  sqlite3_file* const real = of(f).real();
  return real->pMethods->xShmMap(real, page, size, extend, memory);
}
int lock_shared(sqlite3_file* f, int offset, int count, int flags) noexcept {
  sqlite3_file* const real = of(f).real();
  return real->pMethods->xShmLock(real, offset, count, flags);
}
void shared_barrier(sqlite3_file* f) noexcept {
  sqlite3_file* const real = of(f).real();
  real->pMethods->xShmBarrier(real);
}
int unmap_shared(sqlite3_file* f, int is_deleted) noexcept {
  sqlite3_file* const real = of(f).real();
  return real->pMethods->xShmUnmap(real, is_deleted);
}

const sqlite3_io_methods methods{
    2,           close_file,     read_file,    write_file,   truncate_file, sync_file,       size_of_file,
    lock_file,   unlock_file,    check_lock,   control_file, sector_size,   characteristics, map_shared,
    lock_shared, shared_barrier, unmap_shared, nullptr,      nullptr};

// --- the file system

void read_whole(const std::string& path, image& into) {
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return;
  std::string bytes(1 << 16, '\0');
  for (std::size_t count = 0; (count = std::fread(bytes.data(), 1, bytes.size(), file)) != 0;)
    into.content.append(bytes, 0, count);
  (void)std::fclose(file);
}

int open_file(sqlite3_vfs*, sqlite3_filename name, sqlite3_file* f, int flags, int* opened) noexcept {
  machine& m = this_machine();
  if (name == nullptr || (flags & kept_files) == 0) return m.real->xOpen(m.real, name, f, flags, opened);
  const std::lock_guard locked{m.mutex};
  auto* const made = new (static_cast<void*>(f)) kept_file;
  const bool was_there = access(name, F_OK) == 0;
  const int error = m.real->xOpen(m.real, name, made->real(), flags, opened);
  if (error != SQLITE_OK) return error;
  const auto [place, is_new] = m.files.try_emplace(name);
  image& kept = place->second;
  if (is_new) read_whole(name, kept);
  if (!was_there) kept.is_known = false;
  if (is_new && was_there) kept.is_known = true;
  kept.is_database = (flags & SQLITE_OPEN_MAIN_DB) != 0;
  made->kept = &kept;
  made->path = place->first.c_str();
  made->base.pMethods = &methods;
  return SQLITE_OK;
}

int delete_file(sqlite3_vfs*, const char* name, int sync_directory) noexcept {
  machine& m = this_machine();
  const std::lock_guard locked{m.mutex};
  if (const auto known = m.files.find(name); known != m.files.end()) {
    known->second.content.clear();
    known->second.unsynced.clear();
    known->second.is_known = false;
  }
  return m.real->xDelete(m.real, name, sync_directory);
}

int access_file(sqlite3_vfs*, const char* name, int how, int* result) noexcept {
  machine& m = this_machine();
  const std::lock_guard locked{m.mutex};
  const int error = m.real->xAccess(m.real, name, how, result);
  if (error != SQLITE_OK || how != SQLITE_ACCESS_EXISTS) return error;
  if (const auto known = m.files.find(name); known != m.files.end()) *result = known->second.content.empty() ? 0 : 1;
  return SQLITE_OK;
}

}  // namespace

bool install_power_loss(const power_loss_options& options) {
  machine& m = this_machine();
  m.options = options;
  m.random.seed(options.seed);
  m.real = sqlite3_vfs_find(nullptr);
  if (m.real == nullptr || m.real->iVersion < 2) return false;
  static sqlite3_vfs vfs;
  vfs = *m.real;
  vfs.pNext = nullptr;
  vfs.zName = "power_loss";
  vfs.szOsFile = static_cast<int>(sizeof(kept_file)) + m.real->szOsFile;
  vfs.xOpen = open_file;
  vfs.xDelete = delete_file;
  vfs.xAccess = access_file;
  return sqlite3_vfs_register(&vfs, 1) == SQLITE_OK;
}

void allow_errors(bool are_allowed) noexcept {
  machine& m = this_machine();
  const std::lock_guard locked{m.mutex};
  m.errors_are_allowed = are_allowed;
}

}  // namespace crash
