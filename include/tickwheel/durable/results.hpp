// The answers to the requests of a scheduler.
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/durable/task.hpp>

#include <cstdint>

namespace tickwheel::durable {

/// The answer to `scheduler::schedule`.
enum class schedule_result : std::uint8_t {
  scheduled,    ///< the store keeps the task, and will start it
  replaced,     ///< as `scheduled`, in the place of an earlier task of this id
  exists,       ///< `keep`: a pending or running task has this id, and stays
  ended,        ///< a task of this id is dead, or has ended within `keep_finished`: nothing was changed
  running,      ///< `replace`: a task of this id is running: nothing was changed
  refused,      ///< the store itself rejects this task, for instance by a trigger or a limit
  unavailable,  ///< the store could not be asked: nothing was changed
  unknown,      ///< the store may have done it. Send a `keep` again to find out.
};

/// The answer to `scheduler::cancel`.
enum class cancel_result : std::uint8_t {
  cancelled,  ///< no start follows unless the id is scheduled again
  /// The running start goes on, and none follows it: not even if its node is lost before it ends.
  running,
  finished,     ///< the task had finished before
  not_found,    ///< no task has this id
  unavailable,  ///< the store could not be asked, or rejects this: nothing was changed
  unknown,      ///< the store may have done it. Send it again to find out.
};

/// The answer to a finish: `done`, `retry_after`, `fail` or `bury`.
enum class finish_result : std::uint8_t {
  finished,  ///< the store has recorded the end of this start, maybe before
  stale,     ///< the start had ended before, or its node was given up: nothing was changed
  unknown,   ///< the scheduler was closed first
};

/// The answer to `scheduler::revive`.
enum class revive_result : std::uint8_t {
  revived,      ///< the task is pending, and starts now with all its attempts
  not_dead,     ///< the task is not dead: nothing was changed
  not_found,    ///< no task has this id
  unavailable,  ///< the store could not be asked, or rejects this: nothing was changed
  unknown,      ///< the store may have done it
};

/// The answer to `scheduler::get` and `scheduler::list`.
enum class read_result : std::uint8_t {
  ok,           ///< the result holds
  not_found,    ///< no task has this id
  unavailable,  ///< the store could not be asked
};

/// Return the name of an enumerator, such as "scheduled". "invalid" for a value that is none.
TICKWHEEL_API const char* to_string(schedule_result) noexcept;
TICKWHEEL_API const char* to_string(cancel_result) noexcept;  ///< as above
TICKWHEEL_API const char* to_string(finish_result) noexcept;  ///< as above
TICKWHEEL_API const char* to_string(revive_result) noexcept;  ///< as above
TICKWHEEL_API const char* to_string(read_result) noexcept;    ///< as above
TICKWHEEL_API const char* to_string(task_state) noexcept;     ///< as above

}  // namespace tickwheel::durable
