// How much is done at once: in a batch, in a look, and in a turn of the engine.
#pragma once

#include <chrono>
#include <cstddef>

namespace tickwheel::durable::detail {

struct batch_limits {
  /// Elements of a batch, and of the requests that one commit of SQLite carries.
  std::size_t elements = 1000;

  /// Payload bytes of the same. A single element always fits.
  std::size_t bytes = 4 << 20;

  /// Rows of a look into the store, of all partitions together.
  std::size_t rows = 1000;

  /// Rows of a look into one partition, at the least.
  std::size_t least_rows = 16;

  /// Partitions that one call reads from the beginning.
  std::size_t partitions = 8;

  /// Ended tasks that one call deletes.
  std::size_t purged = 1000;

  /// Running rows that SQLite reads at once to recover them.
  std::size_t recovered = 256;

  /// How long a turn takes in answers and calls the user, until the rest of the loop has its turn.
  std::chrono::nanoseconds turn = std::chrono::microseconds{300};

  /// How long SQLite carries out requests until it commits what it has, and starts have their turn, while there are starts.
  std::chrono::nanoseconds delay = std::chrono::microseconds{100};

  /// How long after a start SQLite expects others.
  std::chrono::nanoseconds starts_last = std::chrono::milliseconds{100};

  /// Rows that a purge of SQLite deletes until it checks whether starts wait.
  std::size_t purge_step = 16;

  /// Pages that SQLite's writer copies at most to complete a checkpoint, unless it commits faster than the reader copies.
  int checkpoint_rest = 128;

  /// How often the reader copies to leave no more than that.
  int checkpoint_copies = 8;

  /// How many times as long as a step of a round has kept the store busy the next step waits.
  int pause_in_round = 49;

  /// Partitions that one statement of PostgreSQL recovers.
  int recovered_partitions = 4;

  /// How long after a purge that began with the oldest task PostgreSQL begins another one there.
  std::chrono::nanoseconds purge_again = std::chrono::minutes{1};

  /// How many times as long as a look has taken the next one waits while memory is full.
  int pause_if_full = 9;

  /// A load that has failed after this time at most is repeated at once. That costs little, and a store may fail now and then.
  std::chrono::nanoseconds quick_failure = std::chrono::milliseconds{100};

  /// A load that has failed is repeated in so many parts.
  std::size_t parts_of_failed = 8;

  /// If so many single partitions have failed before the store has answered in a look, the store may have failed.
  unsigned failures_in_a_row = 3;

  /// The next try of a partition that is put off waits this many times as long as its last one took, times the number of such partitions.
  int pause_if_failed = 9;

  /// So often a look reads again when half of a full memory has gone, while no task starts or is cancelled.
  unsigned looks_in_vain = 8;
};

// Tests also compile the library with other limits, so that a few tasks are many, and a turn takes in one element.
#ifdef TICKWHEEL_TEST_LIMITS
inline constexpr batch_limits limits TICKWHEEL_TEST_LIMITS;
#else
inline constexpr batch_limits limits;
#endif

}  // namespace tickwheel::durable::detail
