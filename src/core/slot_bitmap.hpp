// Which slots of a level hold entries: one bit a slot, and one summary bit for every 64 of them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace tickwheel {

/// Finds the next occupied slot, going round, in O(1) up to 4096 slots and O(slots / 4096) beyond.
class slot_bitmap {
 public:
  static constexpr unsigned none = ~0U;

  /// All clear. Requires: `slots` is a power of two. Throws std::bad_alloc.
  void reset(unsigned slots) {
    slots_ = slots;
    words_ = std::make_unique<std::uint64_t[]>((slots + 63) / 64);
    if (slots > 64) summary_ = std::make_unique<std::uint64_t[]>((slots + 4095) / 4096);
  }

  void set(unsigned slot) noexcept {
    words_[slot / 64] |= bit(slot);
    if (summary_) summary_[slot / 4096] |= bit(slot / 64);
  }

  void clear(unsigned slot) noexcept {
    words_[slot / 64] &= ~bit(slot);
    if (summary_ && words_[slot / 64] == 0) summary_[slot / 4096] &= ~bit(slot / 64);
  }

  bool test(unsigned slot) const noexcept { return (words_[slot / 64] & bit(slot)) != 0; }

  /// How many slots after `from`, going round, the next set bit is: 0 for `from` itself; `none` when all are clear.
  unsigned distance_from(unsigned from) const noexcept {
    if (!summary_) {
      // one word: rotate so that `from` is bit 0; fewer than 64 slots repeat no bit, so the part that wraps is shifted
      // in
      const std::uint64_t ahead = words_[0] >> from;
      if (ahead != 0) return static_cast<unsigned>(std::countr_zero(ahead));
      const std::uint64_t behind = words_[0];
      return behind == 0 ? none : slots_ - from + static_cast<unsigned>(std::countr_zero(behind));
    }
    unsigned found = next_at_or_after(from);
    if (found != none) return found - from;
    found = next_at_or_after(0);
    return found == none ? none : slots_ - from + found;
  }

 private:
  static constexpr std::uint64_t bit(unsigned i) noexcept { return std::uint64_t{1} << (i % 64); }

  unsigned next_at_or_after(unsigned slot) const noexcept {
    const std::uint64_t here = words_[slot / 64] & (~std::uint64_t{0} << (slot % 64));
    if (here != 0) return slot / 64 * 64 + static_cast<unsigned>(std::countr_zero(here));
    unsigned word = slot / 64 + 1;
    if (word >= slots_ / 64) return none;
    std::uint64_t group = summary_[word / 64] & (~std::uint64_t{0} << (word % 64));
    for (unsigned g = word / 64;; group = summary_[g]) {
      if (group != 0) {
        word = g * 64 + static_cast<unsigned>(std::countr_zero(group));
        return word * 64 + static_cast<unsigned>(std::countr_zero(words_[word]));
      }
      if (++g >= (slots_ + 4095) / 4096) return none;
    }
  }

  unsigned slots_ = 0;
  std::unique_ptr<std::uint64_t[]> words_;
  std::unique_ptr<std::uint64_t[]> summary_;  // absent up to 64 slots
};

}  // namespace tickwheel
