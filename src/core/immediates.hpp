// Entries that wait for no tick. They run as soon as the caller has collected them.
#pragma once

#include "chain.hpp"

#include <tickwheel/core/ticks.hpp>
#include <tickwheel/core/wheel_entry.hpp>

#include <cstddef>

namespace tickwheel {

/// Two lists, each in the order of arming. `add` appends to `waiting_`. `collect` moves all of `waiting_` to `ready_`,
/// and only entries in `ready_` run. A cancelled entry stays linked until `take` removes it.
///
/// A round holds the entries that were ready when the previous round ended. So a round ends even if each callback arms
/// its own entry again.
class immediates {
 public:
  /// The visit of every linked entry. It lies before every visit of a slot, so that `wheel::arm` places the entry anew.
  static constexpr tick visit = 0;

  bool empty() const noexcept { return waiting_.empty() && ready_.empty(); }
  bool has_ready() const noexcept { return !ready_.empty(); }
  /// Returns true if entries of the round may be left.
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
  // These are upper bounds, because entries leave without telling the lists.
  std::size_t waiting_count_ = 0;
  std::size_t ready_count_ = 0;
  std::size_t left_of_round_ = 0;
};

}  // namespace tickwheel
