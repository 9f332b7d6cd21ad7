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
  /// The schema with the tables. It is made if it does not exist. 1 to 63 bytes. PostgreSQL allows neither a name that begins with `pg_`
  /// nor `$user`.
  std::string schema = "tickwheel";
  /// The number of partitions. Counts only when the schema is made. 1 to 1,024.
  std::uint16_t partitions = 64;
  /// The time for a connection to be made and set up. Then the next try follows. 10 ms to 24 days.
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds{5};
  /// The server cancels a statement after this time. If it has not answered after one and a half of it, the connections are given
  /// up and made anew. 10 ms to 24 days.
  std::chrono::nanoseconds answer_timeout = std::chrono::seconds{10};
  /// How long a call is repeated whose transaction the server rolled back: a deadlock, a statement that was cancelled, or one that has
  /// waited too long for a lock. 10 ms to 24 days.
  std::chrono::nanoseconds repeat_timeout = std::chrono::seconds{5};
  /// Gets a line for each event that an operator wants to know: a connection is lost, cannot be made, or is back. Called on the
  /// loop, and must not call the store. Empty: lines go to stderr.
  std::function<void(std::string_view line)> log = {};

  /// Returns a message that names the first invalid field, or null if all fields are valid.
  TICKWHEEL_API const char* problem() const noexcept;
};

/// Returns a store that keeps its tasks in the PostgreSQL database of `conninfo`, a string or a URI as libpq documents them. The
/// server is PostgreSQL 14 or newer, and its encoding is UTF-8.
///
/// A node connects to the server itself, with four connections, two of which carry out requests. It ends its own former connections before it uses new ones. No
/// call waits for the server on the loop: libuv's thread pool resolves host names. The loop stays alive until that has ended.
///
/// The options of libpq count. A word of `conninfo` counts more than its service, and the service more than the environment. Three
/// defaults of the store count more than both: `target_session_attrs=read-write`, TCP keepalives after 5 seconds, and
/// `tcp_user_timeout`, which is `answer_timeout`. With several hosts the first one that can write is taken. A
/// `connect_timeout` has no effect there, because it is an option below.
///
/// `open` of the store answers UV_EINVAL if `conninfo` is malformed, or if the service is not on a libuv loop. A value that libpq
/// refuses before it connects, such as `sslmode=foo`, makes a conninfo malformed. So do a `hostaddr` that is no address, any
/// `replication`, and `keepalives...` and `tcp_user_timeout` that are no numbers, also where libpq would not read them. It counts the same if the value is from the service or the
/// environment. The first `join` answers:
/// UV_EACCES: wrong password, an unknown role, or a role without the rights to make or use the tables.
/// UV_ENOENT: there is no such database.
/// UV_EEXIST: a living node has the name.
/// UV_ENOTSUP: the server is too old, its encoding is not UTF-8, a pooler stands before it, or a newer tickwheel made the schema.
/// UV_EFTYPE: the schema has tables of another application.
///
/// Other failures are outages, and the store connects again after a pause that grows to two seconds: a refused connection, a
/// standby, a full disk, a server that restarts. A call that was sent is then `unknown`, and any other `unavailable`. A statement
/// timeout, a deadlock or a lock that another client holds is repeated for `repeat_timeout`; then the call, or its element, is
/// `unavailable`.
TICKWHEEL_API std::unique_ptr<store> postgres_store(std::string conninfo, postgres_options options = {});

}  // namespace tickwheel::durable
