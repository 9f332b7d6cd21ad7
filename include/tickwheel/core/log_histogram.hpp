// A log_histogram counts values of any size in a small array of fixed size. It is exact up to 15, and within 1/8
// beyond.
//
//   tickwheel::log_histogram h;
//   h.record(3);
//   h.percentile(0.99);   // 99 % of the values are at most this; rounded up to the end of its bucket
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace tickwheel {

/// Counts values by size, in 4 KB.
///
/// - *Thread safety:* none.
/// - *Complexity:* O(1). `percentile` and `count_up_to` visit up to 496 buckets. No call allocates.
/// - *Errors:* none.
/// - *Lifetime:* a value.
class log_histogram {
 public:
  /// Counts one more `value`.
  void record(std::uint64_t value) noexcept {
    ++count_;
    if (value == 0) {  // a timer that is on time
      ++buckets_[0];
      return;
    }
    sum_ += value;
    ++buckets_[index_of(value)];
    if (value > max_) max_ = value;
  }

  /// Returns the number of recorded values.
  std::uint64_t count() const noexcept { return count_; }

  /// Returns the sum of all values, modulo 2^64.
  std::uint64_t sum() const noexcept { return sum_; }

  /// Returns how many values were at most `value`. Values that share a bucket with a larger one are not counted. The
  /// result is exact if `value` is below 16, or one less than a power of two.
  std::uint64_t count_up_to(std::uint64_t value) const noexcept {
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < buckets && upper_of(i) <= value; ++i) seen += buckets_[i];
    return seen;
  }

  /// Returns the exact largest value, or 0 if there is none.
  std::uint64_t max() const noexcept { return max_; }

  /// Returns an upper bound of the value at `fraction` (0..1) of all values, or 0 if there is none. The bound is at
  /// most 1/8 above the exact value. A fraction of 0 means the smallest value, and 1 means `max()`.
  std::uint64_t percentile(double fraction) const noexcept {
    if (count_ == 0) return 0;
    const double wanted = fraction * static_cast<double>(count_);
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < buckets; ++i) {
      seen += buckets_[i];
      if (seen != 0 && static_cast<double>(seen) >= wanted) return upper_of(i) < max_ ? upper_of(i) : max_;
    }
    return max_;
  }

 private:
  // A value falls into one of `sub` equal parts of its octave. Each value below 2 * sub has its own bucket.
  static constexpr unsigned sub_bits = 3;
  static constexpr std::uint64_t sub = 1U << sub_bits;
  static constexpr std::size_t buckets = (64 - sub_bits + 1) * sub;

  static constexpr std::size_t index_of(std::uint64_t value) noexcept {
    if (value < sub) return static_cast<std::size_t>(value);
    const unsigned octave = static_cast<unsigned>(std::bit_width(value)) - 1 - sub_bits;
    return static_cast<std::size_t>((octave << sub_bits) + (value >> octave));
  }

  static constexpr std::uint64_t upper_of(std::size_t index) noexcept {
    if (index < 2 * sub) return index;
    const unsigned octave = static_cast<unsigned>(index >> sub_bits) - 1;
    const std::uint64_t lower = (index - (std::uint64_t{octave} << sub_bits)) << octave;
    return lower + ((std::uint64_t{1} << octave) - 1);
  }

  std::uint64_t count_ = 0;
  std::uint64_t sum_ = 0;
  std::uint64_t max_ = 0;
  std::array<std::uint64_t, buckets> buckets_{};
};

}  // namespace tickwheel
