// The state that all works of one store share.
#pragma once

#include "schema.hpp"

#include <tickwheel/durable/postgres.hpp>
#include <tickwheel/durable/store.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tickwheel::durable::postgres {

/// The state of a store, as its links and works see it. Kept while it is closed: a join ends the sessions before.
struct node_state {
  postgres_options options;
  std::uint16_t partitions = 0;              // as the schema has them
  session_number session = 0;                // of the last join; 0: none
  std::vector<session_number> own_sessions;  // all that this store asked for, and that may still be there
  std::vector<std::pair<std::int64_t, std::int64_t>> backends;  // of the links that are open: pid and time of its start
  std::vector<partition_number> owned;                          // as of the last renewal
  std::vector<std::pair<std::int64_t, std::int64_t>> former_backends;  // that may still be there
  bool recovers_all = true;  // the next recovery also reads tasks that are not due
  std::string problem;

  bool is_own(session_number s) const noexcept {
    return std::find(own_sessions.begin(), own_sessions.end(), s) != own_sessions.end();
  }
};

}  // namespace tickwheel::durable::postgres
