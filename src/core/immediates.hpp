// Entries that wait for no tick: those that a caller wants to run as soon as the loop has polled once more.
#pragma once

#include "chain.hpp"

#include <tickwheel/core/ticks.hpp>
#include <tickwheel/core/wheel_entry.hpp>

#include <cstddef>

namespace tickwheel {

/// Two lists, each in the order of arming. An entry is armed into `waiting`. `collect` moves all of them to `ready`, and only
/// those run. A cancelled entry stays linked, as in a slot, until it is met.
///
/// A round is what was ready when the round before it ended. So it ends, even if each callback arms its own entry again.
class immediates {
 public:
  /// The visit of every linked entry: before any tick at which a slot is visited, so that `wheel::arm` places the entry anew.
  static constexpr tick visit = 0;

  bool empty() const noexcept { return waiting_.empty() && ready_.empty(); }
  bool has_ready() const noexcept { return !ready_.empty(); }
  /// Some of the round may be left.
  bool in_round() const noexcept { return left_of_round_ != 0 && has_ready(); }

  void add(wheel_entry& e) noexcept {
    e.visit_ = visit;
    waiting_.push_back(e);
    ++waiting_count_;
  }

  void collect() noexcept {
    ready_.take_all(waiting_);
    ready_count_ += waiting_count_;
    waiting_count_ = 0;
    if (!in_round()) left_of_round_ = ready_count_;
  }

  /// Requires: `has_ready()`.
  wheel_entry& take() noexcept {
    wheel_entry& e = ready_.take_front();
    e.visit_ = never;
    --ready_count_;
    if (left_of_round_ != 0) --left_of_round_;
    if (ready_.empty()) ready_count_ = 0;
    return e;
  }

  /// Calls `use(entries)` for both lists, until one call returns false. Returns false if one did.
  template <class F>
  bool all_of(F&& use) {
    return use(ready_) && use(waiting_);
  }

 private:
  chain waiting_;
  chain ready_;
  // Upper bounds: entries leave without the lists being told.
  std::size_t waiting_count_ = 0;
  std::size_t ready_count_ = 0;
  std::size_t left_of_round_ = 0;
};

}  // namespace tickwheel
