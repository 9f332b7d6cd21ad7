// Entries that wait for no tick: those that a caller wants to run as soon as the loop has polled once more.
#pragma once

#include "chain.hpp"

#include <tickwheel/core/ticks.hpp>
#include <tickwheel/core/wheel_entry.hpp>

namespace tickwheel {

/// Two lists, each in the order of arming. An entry is armed into `waiting`. `collect` moves all of them to `ready`, and only
/// those run. So a callback that arms its own entry again runs once a round, not for ever.
///
/// A cancelled entry stays linked, as in a slot, until it is met.
struct immediates {
  /// The visit of every linked entry: before any tick at which a slot is visited, so that `wheel::arm` places the entry anew.
  static constexpr tick visit = 0;

  bool empty() const noexcept { return waiting.empty() && ready.empty(); }
  void collect() noexcept { ready.take_all(waiting); }

  /// Calls `use(entries)` for both lists, until one call returns false. Returns false if one did.
  template <class F>
  bool all_of(F&& use) {
    return use(ready) && use(waiting);
  }

  chain waiting;
  chain ready;
};

}  // namespace tickwheel
