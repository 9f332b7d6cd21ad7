// The options of a scheduler.
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/net/backoff.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace tickwheel::durable {

/// The options of a scheduler. An aggregate; the defaults suit a server that starts some thousand tasks per second. No duration is
/// longer than ten years.
struct scheduler_options {
  /// The name of this node, at most 255 bytes of UTF-8 without control characters. Empty: the scheduler makes one up. Two living
  /// nodes never share a name.
  std::string name{};

  /// A node that does not renew its session for this long is given up, and its tasks are recovered. At least 100 ms.
  std::chrono::nanoseconds lease = std::chrono::seconds{10};
  /// The time from one look into the store to the next. At least 1 ms.
  std::chrono::nanoseconds poll = std::chrono::milliseconds{250};
  /// A look reads the tasks that are due within this time. At least two polls.
  std::chrono::nanoseconds window = std::chrono::seconds{2};
  /// A request is answered within this time, with `unavailable` or `unknown` if the store has not answered. Must be positive.
  std::chrono::nanoseconds request_timeout = std::chrono::seconds{5};
  /// The store remembers an ended id for this long. `keep` does not start it again meanwhile. Not negative.
  std::chrono::nanoseconds keep_finished = std::chrono::minutes{5};

  std::size_t max_running = 1024;            ///< executions at once, those included whose begin or end is not confirmed
  std::size_t max_loaded = 100'000;          ///< tasks that wait in memory for their time
  std::size_t max_requests = 65'536;         ///< requests without an answer
  std::size_t max_request_bytes = 64 << 20;  ///< bytes of their ids and payloads; a single request always fits
  std::size_t max_payload = 65'536;          ///< bytes of one payload; at most 1 GiB

  /// Starts of a task, or of one period, until it is dead. A start whose node was lost counts, one that
  /// `retry_after` ended does not. 1 to 30,000.
  unsigned max_attempts = 8;
  /// The delays between attempts.
  backoff_options retry{.base = std::chrono::seconds{1}, .cap = std::chrono::minutes{10}};
  /// Seeds the jitter of retries, and the made-up name. 0: the seed is made up.
  std::uint64_t seed = 0;

  /// Returns a message that names the first invalid field, or null if all fields are valid.
  TICKWHEEL_API const char* problem() const noexcept;
};

}  // namespace tickwheel::durable
