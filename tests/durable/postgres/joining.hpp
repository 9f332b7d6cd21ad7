// Joins a database, and tells how that ended.
#pragma once

#include "postgres_fixture.hpp"

#include <string>

namespace conformance {

struct join_answer {
  durable::store_status status{};
  int error = 0;
  std::string problem;
  std::uint16_t partitions = 0;
};

/// Opens a store, joins and closes it.
inline join_answer try_to_join(postgres_fixture& on, const std::string& conninfo, const std::string& name = "a") {
  const auto store = on.make_store(conninfo);
  EXPECT_EQ(store->open(on.timers()), 0) << store->problem();
  asked<durable::join_call> c;
  c.name = name;
  c.lease = 1h;
  call_runner{on}.run(*store, c);
  join_answer answer{c.status, c.error, std::string{store->problem()}, c.partitions};
  store->close();
  return answer;
}

/// The same of the fixture's own schema.
inline join_answer try_to_join(postgres_fixture& on) { return try_to_join(on, on.server.conninfo()); }

/// The database cannot be joined, for this reason and with these words.
inline void expect_refused(const join_answer& a, int error, const std::string& words) {
  EXPECT_EQ(a.status, durable::store_status::ok);
  EXPECT_EQ(a.error, error) << a.problem;
  EXPECT_NE(a.problem.find(words), std::string::npos) << a.problem;
}

}  // namespace conformance
