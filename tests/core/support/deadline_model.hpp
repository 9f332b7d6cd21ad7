// The model that a wheel is compared with: the due timers, and their times. It is a tree of minima, which is too simple to be wrong and fast
// enough for a billion operations.
#pragma once

#include <tickwheel/core/ticks.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

namespace tickwheel::test {

/// The deadlines of `places` timers, of which those that are not armed have none. O(log places) to change one.
class deadline_model {
 public:
  explicit deadline_model(std::size_t places) : leaves_{std::bit_ceil(places)}, minima_(2 * leaves_, never) {}

  /// The deadline of a timer; `never` when it is not armed.
  tick deadline(std::size_t place) const noexcept { return minima_[leaves_ + place]; }
  /// The earliest deadline of all; `never` when nothing is armed.
  tick earliest() const noexcept { return minima_[1]; }
  std::size_t armed() const noexcept { return armed_; }

  void arm(std::size_t place, tick deadline) noexcept {
    if (this->deadline(place) == never) ++armed_;
    set(place, deadline);
  }

  /// Returns when it was due.
  tick disarm(std::size_t place) noexcept {
    const tick was = deadline(place);
    if (was != never) --armed_;
    set(place, never);
    return was;
  }

 private:
  // The minimum of all is at 1, those of the two halves at 2 and 3, and so on.
  void set(std::size_t place, tick deadline) noexcept {
    std::size_t at = leaves_ + place;
    minima_[at] = deadline;
    while ((at /= 2) != 0) {
      const tick least = std::min(minima_[2 * at], minima_[2 * at + 1]);
      if (minima_[at] == least) break;
      minima_[at] = least;
    }
  }

  std::size_t leaves_;
  std::vector<tick> minima_;
  std::size_t armed_ = 0;
};

}  // namespace tickwheel::test
