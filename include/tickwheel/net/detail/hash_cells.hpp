// Finds the slots of entries by the hashes of their keys: cells of 4 bytes, in which a search goes on to the next cell.
//
// Half of the cells or more are empty. A cell has a slot, and as many bits of the hash as fit beside it. So a search seldom reads an
// entry that is not the one it looks for, and mostly ends in the cache line in which it began.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>

namespace tickwheel::detail {

/// *Complexity:* O(1) on average; only `open` allocates.
class hash_cells {
 public:
  /// The place of an entry, below the capacity.
  using slot = std::uint32_t;
  /// No slot.
  static constexpr slot none = ~slot{0};
  /// More would need more than 32 bits.
  static constexpr std::size_t most = std::size_t{1} << 30;

  /// Makes room for `capacity` slots. Returns false if there is no memory. Requires: `capacity` is in 1..most.
  [[nodiscard]] bool open(std::size_t capacity) noexcept {
    const std::size_t cells = std::bit_ceil(2 * capacity);  // at least two: no shift by 64
    if (cells > std::numeric_limits<std::size_t>::max() / 2 / sizeof(cell)) return false;
    cells_.reset(new (std::nothrow) cell[cells]);
    if (cells_ == nullptr) return false;
    for (std::size_t i = 0; i != cells; ++i) cells_[i] = none;
    last_ = cells - 1;
    shift_ = 64 - static_cast<unsigned>(std::countr_zero(cells));
    slot_mask_ = static_cast<slot>((std::uint64_t{1} << std::bit_width(capacity)) - 1);  // of a slot never all ones
    return true;
  }
  void close() noexcept { cells_.reset(); }

  /// Returns the slot that was added with this `hash` and for which `matches` answers true; `none` if there is none.
  template <class Matches>
  slot find(std::size_t hash, Matches&& matches) const noexcept {
    const std::uint64_t spread = spread_of(hash);
    const cell tag = tag_of(spread);
    for (std::size_t i = home_of(spread);; i = next(i)) {
      const cell c = cells_[i];
      if (c == none) return none;
      if ((c & ~slot_mask_) == tag && matches(c & slot_mask_)) return c & slot_mask_;
    }
  }

  /// Requires: `added` was not added, and fewer than `capacity` are there.
  void add(std::size_t hash, slot added) noexcept {
    const std::uint64_t spread = spread_of(hash);
    std::size_t i = home_of(spread);
    while (cells_[i] != none) i = next(i);
    cells_[i] = added | tag_of(spread);
  }

  /// Removes a slot that was added with `hash`. Does nothing if it was removed before. `hash_of(slot)` returns the hash of another
  /// one, which may move to the cell that becomes empty: no search may meet an empty cell before its end.
  template <class HashOf>
  void remove(std::size_t hash, slot removed, HashOf&& hash_of) noexcept {
    std::size_t hole = home_of(spread_of(hash));
    while (cells_[hole] != none && (cells_[hole] & slot_mask_) != removed) hole = next(hole);
    if (cells_[hole] == none) return;
    for (std::size_t i = next(hole); cells_[i] != none; i = next(i)) {
      const std::size_t home = home_of(spread_of(hash_of(cells_[i] & slot_mask_)));
      if (((i - home) & last_) < ((i - hole) & last_)) continue;  // its search begins after the hole
      cells_[hole] = cells_[i];
      hole = i;
    }
    cells_[hole] = none;
  }

 private:
  using cell = std::uint32_t;  // a slot in the lower bits, and bits of the hash above them

  // Fibonacci hashing: ids that count up, and multiples of any number, get different cells. std::hash of an integer is the integer.
  static std::uint64_t spread_of(std::size_t hash) noexcept { return std::uint64_t{hash} * 0x9e3779b97f4a7c15; }
  std::size_t home_of(std::uint64_t spread) const noexcept { return static_cast<std::size_t>(spread >> shift_); }
  cell tag_of(std::uint64_t spread) const noexcept { return static_cast<cell>(spread) & ~slot_mask_; }
  std::size_t next(std::size_t i) const noexcept { return (i + 1) & last_; }

  std::unique_ptr<cell[]> cells_;  // null: closed
  std::size_t last_ = 0;           // the index of the last cell
  unsigned shift_ = 0;             // 64 - log2 of the number of cells
  slot slot_mask_ = 0;             // the bits of a slot
};

}  // namespace tickwheel::detail
