// The ceiling of a store: the same writes without a scheduler, in batches of 1,000, each of them durable.
#pragma once

#include <tickwheel/durable/task.hpp>

#include <cstddef>
#include <cstdint>

namespace tickwheel::bench {

inline constexpr std::size_t raw_batch = 1000;

class raw_store {
 public:
  virtual ~raw_store() = default;

  /// Inserts tasks with the numbers from `first` on.
  virtual void schedule(std::uint64_t first, std::size_t count, durable::clock::time_point due) = 0;
  /// Cancels pending tasks, leaving tombstones.
  virtual void cancel(std::uint64_t first, std::size_t count) = 0;
  /// Inserts tasks that are due, for `start_and_finish`.
  virtual void schedule_due(std::uint64_t first, std::size_t count) = 0;
  /// Starts the tasks of the last `schedule_due`, and finishes each batch in a second write, leaving tombstones.
  virtual void start_and_finish() = 0;
};

}  // namespace tickwheel::bench
