// A run: random operations on the schedulers of one database, compared with a model of each task.
//
// The bytes or the seed of a run decide its options, its operations and its faults. The loop's clock is moved by hand, so that a
// run on a memory_database repeats exactly.
#pragma once

#include "../rules/task_model.hpp"
#include "choices.hpp"

#include <tickwheel/durable/durable.hpp>
#include <tickwheel/durable/memory.hpp>
#include <tickwheel/uv/manual_driver.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace durable_model {

/// A database, and the time of its stores.
class backend {
 public:
  virtual ~backend() = default;
  /// The loop's clock, before anything else is called.
  virtual void use(tickwheel::manual_driver&) {}
  virtual std::unique_ptr<tickwheel::durable::store> make_store() = 0;
  /// Returns the time of the store's clock.
  virtual nanos now() const = 0;
  virtual void shift(nanos by) = 0;
  /// Moves the loop's clock, and lets the stores carry out and answer what they are asked meanwhile.
  virtual void advance(tickwheel::manual_driver&, nanos by) = 0;
  /// A callable has blocked: the loop's clock has moved on, but not by `advance`.
  virtual void follow_clock() {}
  /// Returns the database that can simulate faults, and several nodes; null: it cannot.
  virtual tickwheel::durable::memory_database* faults() noexcept { return nullptr; }
};

/// Makes the database of a run.
using make_backend = std::function<std::unique_ptr<backend>(std::uint16_t partitions)>;

/// A memory_database.
std::unique_ptr<backend> memory_backend(std::uint16_t partitions);

/// The result of a run.
struct comparison {
  std::optional<std::string> mismatch;  ///< what is wrong, and the last events
  std::uint64_t operations = 0;
  std::uint64_t starts = 0;
  std::string trace;  ///< all events with their times, if they were asked for
};

/// Carries out at most so many operations, up to the first mismatch.
comparison run(choices, std::uint64_t operations, const make_backend&, bool keeps_trace = false);

/// As above, with the operations of a seed on a memory_database. The mismatch names the seed.
comparison run_seed(std::uint64_t seed, std::uint64_t operations, const make_backend& = memory_backend,
                    bool keeps_trace = false);

}  // namespace durable_model
