// A durable task is a piece of work with a time. The store keeps it until it has ended.
#pragma once

#include <tickwheel/core/export.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tickwheel::durable {

/// Times of durable tasks are on the wall clock of the store. A task outlives the process, and so the steady clock.
using clock = std::chrono::system_clock;

/// The longest id, in bytes.
inline constexpr std::size_t max_id_bytes = 255;

/// The longest error text that a store keeps, in bytes.
inline constexpr std::size_t max_error_bytes = 1024;

/// A piece of work and its time.
///
/// *Thread safety, lifetime:* a value. *Complexity:* that of its strings. *Errors:* `problem` names the first invalid field.
struct task {
  /// Identifies the task in its store, and makes requests idempotent. 1 to 255 bytes of UTF-8 without control characters (U+0000
  /// to U+001F and U+007F to U+009F).
  std::string id;
  /// The task starts at this time, and never earlier. After 1970-01-01 and before 2200-01-01. A time that has passed: at once.
  clock::time_point due;
  /// The task's data. `scheduler_options::max_payload` limits its length.
  std::string payload{};
  /// Zero: the task starts once. Otherwise at least 1 ms: it starts again at due + n * period. Missed periods are skipped.
  std::chrono::nanoseconds period{};
};

/// Returns a message that names the first invalid field of `what`, or null if all fields are valid. `max_payload` is in bytes.
/// O(length of the id).
TICKWHEEL_API const char* problem(const task& what, std::size_t max_payload) noexcept;

/// Returns true if `id` can be the id of a task. O(length).
TICKWHEEL_API bool is_valid_id(std::string_view id) noexcept;

/// Decides what `schedule` does if the id is known.
enum class on_conflict : std::uint8_t {
  keep,     ///< changes nothing, so the request may be repeated
  replace,  ///< takes the place of the known task unless that is running
};

/// The state of a task in its store.
enum class task_state : std::uint8_t {
  pending,    ///< waits for its time
  running,    ///< was started and is not answered
  dead,       ///< has used up its attempts, or was buried: it starts only if it is revived or replaced
  finished,   ///< ended by `done`; forgotten after `scheduler_options::keep_finished`
  cancelled,  ///< ended by `cancel`; forgotten as well
};

/// A task as the store has it.
struct task_info {
  /// The task. `due` is that of the current period. An ended task has no payload.
  task what;
  task_state state{};  ///< its state
  /// When the next attempt starts. `time_point::max()`: the task is dead or has ended.
  clock::time_point next{};
  /// Starts in this period, the running one included. One that `retry_after` ended does not count.
  unsigned attempts{};
  unsigned lost{};         ///< starts in this period whose node was lost
  bool cancelling{};       ///< the running start is the last one, because `cancel` was called
  std::string last_error;  ///< the text that the last failure gave, cut to 1 KiB of UTF-8
};

}  // namespace tickwheel::durable
