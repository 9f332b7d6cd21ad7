// A log_histogram counts values of any size in a fixed, small array: exact up to 15, within 1/8 beyond.
//
//   tickwheel::log_histogram h;
//   h.record(3);
//   h.percentile(0.99);   // what 99 % of the values do not exceed, rounded up to its bucket
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace tickwheel {

/// Counts of values by size, in 4 KB.
///
/// *Thread safety:* none. *Complexity:* O(1), but `percentile` and `count_up_to`, which walk up to 496 buckets; nothing
/// allocates. *Errors:* none. *Lifetime:* a value.
class log_histogram {
 public:
  /// Counts one more `value`.
  void record(std::uint64_t value) noexcept {
    ++count_;
    sum_ += value;
    ++buckets_[index_of(value)];
    if (value > max_) max_ = value;
  }

  /// How many values were recorded.
  std::uint64_t count() const noexcept { return count_; }

  /// Of all values; modulo 2^64.
  std::uint64_t sum() const noexcept { return sum_; }

  /// How many values were at most `value`, as far as the buckets tell: those that share a bucket with a larger one are left
  /// out. Exact below 16, and where `value` is one less than a power of two.
  std::uint64_t count_up_to(std::uint64_t value) const noexcept {
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < buckets && upper_of(i) <= value; ++i) seen += buckets_[i];
    return seen;
  }

  /// The largest value recorded, exactly; 0 when there is none.
  std::uint64_t max() const noexcept { return max_; }

  /// An upper bound of the value at `fraction` (0..1) of all recorded, at most 1/8 above it; 0 when there is none. 0 asks for
  /// the smallest, 1 for `max()`.
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
  // a value falls into one of `sub` equal parts of its octave; below 2 * sub each value has its own bucket
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
