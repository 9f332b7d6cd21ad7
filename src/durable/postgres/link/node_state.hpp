// The state that all works of one store share.
#pragma once

#include "../sql/schema.hpp"
#include "blocked_starts.hpp"

#include <tickwheel/durable/postgres.hpp>
#include <tickwheel/durable/store.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tickwheel::durable::postgres {

/// Where the next purge begins. While an old snapshot may see rows that were deleted, they stay in the index, and a purge from the
/// beginning passes over all of them. So few purges begin there.
class purge_mark {
 public:
  /// Returns the least time of an end that the next purge looks for. `pause`: from one purge that starts over to the next.
  std::int64_t next(std::chrono::nanoseconds pause) noexcept {
    starts_over_ = now_ < started_over_ || now_ - started_over_ >= pause.count();
    return starts_over_ ? 0 : mark_;
  }
  /// A purge at `now` has deleted tasks that ended up to `last`, and all of that time unless `is_cut`.
  void advance(std::int64_t now, std::int64_t last, bool is_cut) noexcept {
    now_ = now;
    if (starts_over_) started_over_ = now;
    mark_ = is_cut ? last : std::max(mark_, last);
  }

 private:
  std::int64_t mark_ = 0;
  std::int64_t now_ = 0;           // of the last purge
  std::int64_t started_over_ = 0;  // when a purge last began at the beginning
  bool starts_over_ = false;
};

/// The state of a store, as its links and works see it. Kept while it is closed: a join ends the sessions before.
struct node_state {
  postgres_options options;
  std::uint16_t partitions = 0;                                      // as the schema has them
  std::chrono::nanoseconds lease = std::chrono::nanoseconds::max();  // of the last join
  session_number session = 0;                                        // of the last join; 0: none
  std::vector<session_number> own_sessions;  // all that this store asked for, and that may still be there
  std::vector<std::pair<std::int64_t, std::int64_t>> backends;  // of the links that are open: pid and time of its start
  std::vector<partition_number> owned;                          // as of the last renewal
  std::vector<std::pair<std::int64_t, std::int64_t>> former_backends;  // that may still be there
  bool recovers_all = true;           // tasks of all times are to be recovered, not only those that were due
  bool is_recovering = false;         // tasks of all times
  unsigned max_attempts = 0;          // of the last recovery
  std::uint64_t recovered_later = 0;  // tasks of other times, which the next recovery answers
  std::uint64_t died_later = 0;       // the same
  purge_mark purged;
  blocked_starts blocked;
  std::string problem;

  bool is_own(session_number s) const noexcept {
    return std::find(own_sessions.begin(), own_sessions.end(), s) != own_sessions.end();
  }
};

}  // namespace tickwheel::durable::postgres
