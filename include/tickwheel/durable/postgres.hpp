// A store in a PostgreSQL database, for the nodes of a cluster.
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/durable/store.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace tickwheel::durable {

/// The options of a `postgres_store`. An aggregate.
struct postgres_options {
  /// The schema with the tables. It is made if it does not exist. 1 to 63 bytes.
  std::string schema = "tickwheel";
  /// The number of partitions. Counts only when the schema is made. 1 to 1,024.
  std::uint16_t partitions = 64;
  /// The time for a connection to be made and set up. Then the next try follows. At least 10 ms.
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds{5};
  /// The time for an answer of the server. Then the connections are given up, and made anew. At least 10 ms.
  std::chrono::nanoseconds answer_timeout = std::chrono::seconds{10};
  /// How long a call is repeated whose transaction the server rolled back: a deadlock, a lock that another client holds, a statement
  /// that was cancelled. At least 10 ms.
  std::chrono::nanoseconds repeat_timeout = std::chrono::seconds{5};
  /// Gets a line for each event that an operator wants to know: a connection is lost, cannot be made, or is back. Called on the loop,
  /// and must not call the store. Empty: lines go to stderr.
  std::function<void(std::string_view line)> log = {};

  /// Returns a message that names the first invalid field, or null if all fields are valid.
  TICKWHEEL_API const char* problem() const noexcept;
};

/// Returns a store that keeps its tasks in the PostgreSQL database of `conninfo`, a string or a URI as libpq documents them. The
/// server is PostgreSQL 14 or newer, and its encoding is UTF-8.
///
/// `open` of the store answers UV_EINVAL if `conninfo` is malformed, or if the service is not on a libuv loop.
TICKWHEEL_API std::unique_ptr<store> postgres_store(std::string conninfo, postgres_options options = {});

}  // namespace tickwheel::durable
