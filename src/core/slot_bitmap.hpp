// The occupied slots of a level: one bit for each slot, and one summary bit for each 64 slots.
#pragma once

#include "pace.hpp"

#include <bit>
#include <cstdint>
#include <memory>

namespace tickwheel {

/// Finds the next occupied slot in cyclic order. O(1) up to 4096 slots, O(slots / 4096) beyond.
class slot_bitmap {
 public:
  static constexpr unsigned none = ~0U;

  /// Allocates the bitmap and clears all bits. Requires: `slots` is a power of two. Throws std::bad_alloc.
  void reset(unsigned slots) {
    mask_ = slots - 1;
    groups_ = (slots + 4095) / 4096;
    words_ = std::make_unique<std::uint64_t[]>((slots + 63) / 64);
    summary_ = std::make_unique<std::uint64_t[]>(groups_);
  }

  void set(unsigned slot) noexcept {
    const std::uint64_t before = words_[slot / 64];
    words_[slot / 64] = before | bit(slot);
    if (before == 0) [[unlikely]]
      summary_[slot / 4096] |= bit(slot / 64);
  }

  void clear(unsigned slot) noexcept {
    words_[slot / 64] &= ~bit(slot);
    if (words_[slot / 64] == 0) summary_[slot / 4096] &= ~bit(slot / 64);
  }

  bool test(unsigned slot) const noexcept { return (words_[slot / 64] & bit(slot)) != 0; }

  /// Returns the distance from `from` to the next set bit, in cyclic order. It is 0 for `from` itself, and `none` if
  /// all are clear.
  [[gnu::always_inline]] unsigned distance_from(unsigned from) const noexcept {
    count_examined();
    const std::uint64_t here = words_[from / 64] >> (from % 64);
    if (here != 0) return lowest(here);
    const unsigned word = next_word(from / 64);
    return word == none ? none : (word * 64 + lowest(words_[word]) - from) & mask_;
  }

  /// Returns the first set bit at or after `from` and before `end`, or `none`. Positions count on after the last slot: `slots`
  /// is the first slot again. Requires: `end` is at most one turn after `from`.
  [[gnu::noinline, gnu::cold]] unsigned next_between(unsigned from, unsigned end) const noexcept {
    const unsigned gap = distance_from(from & mask_);
    return gap < end - from ? from + gap : none;
  }

 private:
  static constexpr std::uint64_t bit(unsigned i) noexcept { return std::uint64_t{1} << (i % 64); }
  static unsigned lowest(std::uint64_t bits) noexcept { return static_cast<unsigned>(std::countr_zero(bits)); }

  // Returns the next nonzero word after `word`, in cyclic order. That may be `word` itself.
  unsigned next_word(unsigned word) const noexcept {
    if (groups_ == 1) {
      const std::uint64_t ahead = std::rotr(summary_[0], static_cast<int>(word + 1));
      return ahead == 0 ? none : (word + 1 + lowest(ahead)) % 64;
    }
    unsigned group = word / 64;
    std::uint64_t words = summary_[group] & (~std::uint64_t{1} << (word % 64));
    for (unsigned looked_at = 0; words == 0; words = summary_[group]) {
      if (looked_at++ == groups_) return none;
      count_examined();
      group = (group + 1) % groups_;
    }
    return group * 64 + lowest(words);
  }

  unsigned mask_ = 0;
  unsigned groups_ = 0;                       // number of groups of 64 words
  std::unique_ptr<std::uint64_t[]> words_;    // one bit for each slot
  std::unique_ptr<std::uint64_t[]> summary_;  // one bit for each nonzero word
};

}  // namespace tickwheel
