// The facts that all tasks of a run share: times, members, and scheduled tasks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace durable_model {

/// Nanoseconds: of the manual clock, or of the store's clock since 1970.
using nanos = std::int64_t;

inline constexpr nanos never = INT64_MAX;

/// A time that is known to lie between two others.
struct span {
  nanos lo = 0, hi = 0;
  bool operator==(const span&) const = default;
};
inline span hull(span a, span b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)}; }
inline bool holds(span s, nanos t) { return s.lo <= t && t <= s.hi; }

/// The store's clock as a function of the manual clock: it is ahead by an offset that changes when a test sets the clock.
class store_times {
 public:
  void set(nanos at, nanos offset) { changes_.push_back({at, offset}); }
  nanos at(nanos manual) const { return manual + changes_.back().offset; }
  /// Returns the least and the greatest time that the clock has shown in [from, to]. Requires: nothing was set after `to`.
  span range(nanos from, nanos to) const;

 private:
  struct change {
    nanos at, offset;
  };
  std::vector<change> changes_;
};

/// A scheduler from its `open` to its `close`.
struct member {
  bool is_open = true;
  bool starts = true;  ///< it has a handler
  nanos gone_at = -1;  ///< a session of it ended at this time or before; `never`: its session may be over
};

/// The task of a schedule request.
struct content {
  nanos due = 0;
  nanos period = 0;
  std::string payload;
  bool is_refused = false;  ///< the store rejects it
};

/// The facts that all tasks of a run share.
struct facts {
  nanos now = 0;           ///< of the manual clock
  bool is_behind = false;  ///< a callable has blocked: requests may have ended whose answers are delivered later
  nanos keep_finished = 0;
  unsigned max_attempts = 0;
  store_times clock;
  std::vector<member> members;
  std::vector<content> contents;
  std::vector<std::string> errors{""};  ///< the texts of failures; 0: none
};

}  // namespace durable_model
