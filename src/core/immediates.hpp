// Entries that wait for no tick. They run as soon as the caller has collected them.
#pragma once

#include "chain.hpp"

#include <tickwheel/core/ticks.hpp>
#include <tickwheel/core/wheel_entry.hpp>

namespace tickwheel {

/// Three lists, each in the order of arming. `add` appends to `waiting_`. `collect` moves all of `waiting_` on, and only
/// entries that it has moved run. A cancelled entry stays linked until `take` removes it.
///
/// A round holds the entries that had been collected when the previous round ended. So a round ends even if each callback
/// arms its own entry again. Those that are collected during a round wait in `next_round_`.
class immediates {
 public:
  /// The visit of every linked entry. It lies before every visit of a slot, so that `wheel::arm` places the entry anew.
  static constexpr tick visit = 0;

  bool empty() const noexcept { return waiting_.empty() && !has_ready(); }
  /// Returns true if `take` has an entry.
  bool has_ready() const noexcept { return in_round() || !next_round_.empty(); }
  bool in_round() const noexcept { return !round_.empty(); }

  void add(wheel_entry& e) noexcept {
    e.visit_ = visit;
    waiting_.push_back(e);
  }

  void collect() noexcept {
    next_round_.take_all(waiting_);
    if (!in_round()) round_.take_all(next_round_);
  }

  /// Requires: `has_ready()`.
  wheel_entry& take() noexcept {
    wheel_entry& e = (in_round() ? round_ : next_round_).take_front();
    e.visit_ = never;
    return e;
  }

  /// Calls `use(entries)` for each list, until one call returns false. Returns false if one did.
  template <class F>
  bool all_of(F&& use) {
    return use(round_) && use(next_round_) && use(waiting_);
  }

 private:
  chain round_;
  chain next_round_;
  chain waiting_;
};

}  // namespace tickwheel
