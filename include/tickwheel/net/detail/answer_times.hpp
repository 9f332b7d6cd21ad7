// The times that the last 1,024 answers took, and their exact quantiles.
//
// The times are kept twice: by age, to know which one leaves, and sorted. A new time is sorted in where the old one leaves, so only
// the times between the two move. That is cheaper than it sounds, because they are one block of at most 8 KB. A histogram would
// take less memory, but its buckets are an eighth wide.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <memory>
#include <new>

namespace tickwheel::detail {

/// *Complexity:* `add` is a binary search and a move of up to 1,024 times; `quantile` is O(1). Only `open` allocates: 16 KB.
class answer_times {
 public:
  /// How many answers count.
  static constexpr std::size_t window = 1024;
  /// So many must be known before their quantile decides.
  static constexpr std::size_t least = 100;

  /// Makes room, without any times. Returns false if there is no memory.
  [[nodiscard]] bool open() noexcept {
    times_.reset(new (std::nothrow) times);
    size_ = next_ = 0;
    return is_open();
  }
  void close() noexcept { times_.reset(); }
  bool is_open() const noexcept { return times_ != nullptr; }

  /// Adds the time of an answer; the oldest one leaves if there are `window`. Requires: open.
  void add(std::chrono::nanoseconds took) noexcept {
    std::chrono::nanoseconds* const sorted = times_->sorted;
    std::chrono::nanoseconds* gap = sorted + size_;
    if (size_ == window)
      gap = std::lower_bound(sorted, sorted + size_, times_->by_age[next_]);
    else
      ++size_;
    // the gap moves to the place of the new time
    if (gap != sorted && took < gap[-1]) {
      std::chrono::nanoseconds* const place = std::upper_bound(sorted, gap, took);
      std::move_backward(place, gap, gap + 1);
      gap = place;
    } else {
      std::chrono::nanoseconds* const place = std::lower_bound(gap + 1, sorted + size_, took);
      gap = std::move(gap + 1, place, gap);
    }
    *gap = took;
    times_->by_age[next_] = took;
    next_ = (next_ + 1) % window;
  }

  /// Returns the number of times, at most `window`.
  std::size_t size() const noexcept { return size_; }

  /// Returns the shortest time that at least `share` of all times do not exceed. Requires: there is one; `share` is in 0..1.
  std::chrono::nanoseconds quantile(double share) const noexcept {
    const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(size_)));
    return times_->sorted[std::clamp<std::size_t>(rank, 1, size_) - 1];
  }

  /// Returns true if the times are sorted.
  bool validate() const noexcept { return !is_open() || std::is_sorted(times_->sorted, times_->sorted + size_); }

 private:
  struct times {
    std::chrono::nanoseconds by_age[window];
    std::chrono::nanoseconds sorted[window];
  };

  std::unique_ptr<times> times_;
  std::size_t size_ = 0;
  std::size_t next_ = 0;  // the oldest, if there are `window`
};

}  // namespace tickwheel::detail
