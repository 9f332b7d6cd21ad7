// A store in a SQLite file, for programs on one machine.
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/durable/store.hpp>

#include <cstddef>
#include <memory>
#include <string>

namespace tickwheel::durable {

/// The options of a `sqlite_store`. An aggregate.
struct sqlite_options {
  /// The writer's page cache, in bytes. At least 64 KiB.
  std::size_t cache_bytes = 32 << 20;
  /// A checkpoint follows after this many pages of the write-ahead log. Commits wait for the disk while it writes these pages. So
  /// more pages are more operations per second, and longer waits. At least 1.
  std::size_t checkpoint_pages = 100;

  /// Returns a message that names the first invalid field, or null if all fields are valid.
  TICKWHEEL_API const char* problem() const noexcept;
};

/// Returns a store that keeps its tasks in the file `path`, which is made if it does not exist. A relative path counts from the
/// directory in which the process is each time it opens the store. One process and one scheduler at a time has the file; a
/// lock beside it (`path` + ".lock") proves that.
///
/// SQLite keeps the last commits in `path` + "-wal", and an index of them in `path` + "-shm". Move these together with the file, and
/// only while no program has it open. `sqlite3 FILE .backup` copies one that is open.
TICKWHEEL_API std::unique_ptr<store> sqlite_store(std::string path, sqlite_options options = {});

}  // namespace tickwheel::durable
