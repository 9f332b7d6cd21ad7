// Joins a file, and tells how that ended.
#pragma once

#include "sqlite_fixture.hpp"

#include <string>

namespace conformance {

struct join_answer {
  durable::store_status status{};
  int error = 0;
  std::string problem;
  durable::session_number session = 0;
};

/// Opens a store of the file, joins and closes it.
inline join_answer try_to_join(sqlite_fixture& on, const std::string& path) {
  const auto store = on.make_store(path);
  EXPECT_EQ(store->open(on.timers()), 0) << store->problem();
  asked<durable::join_call> c;
  c.name = "a";
  call_runner{on}.run(*store, c);
  join_answer answer{c.status, c.error, std::string{store->problem()}, c.session};
  store->close();
  return answer;
}

/// The same of the fixture's own file.
inline join_answer try_to_join(sqlite_fixture& on) { return try_to_join(on, on.file); }

}  // namespace conformance
