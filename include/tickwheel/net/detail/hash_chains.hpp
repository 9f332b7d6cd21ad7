// Finds the slots of entries by the hashes of their keys: buckets of 4 bytes, with a chain of slots for each.
//
// There are more buckets than slots, so most chains have one. The links are beside the entries, not in them: most searches need
// none, and a smaller entry is found in the cache more often.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <utility>

namespace tickwheel::detail {

/// *Complexity:* O(1) on average; only `open` allocates.
class hash_chains {
 public:
  /// The place of an entry, below the capacity.
  using slot = std::uint32_t;
  /// No slot.
  static constexpr slot none = ~slot{0};
  /// More would need more than 32 bits.
  static constexpr std::size_t most = std::size_t{1} << 30;

  /// Makes room for `capacity` slots. Returns false if there is no memory. Requires: `capacity` is in 1..most.
  [[nodiscard]] bool open(std::size_t capacity) noexcept {
    const std::size_t buckets = std::bit_ceil(capacity + capacity / 2 + 1);  // at least two: no shift by 64
    if (buckets > std::numeric_limits<std::size_t>::max() / 2 / sizeof(slot)) return false;
    buckets_.reset(new (std::nothrow) slot[buckets]);
    next_.reset(new (std::nothrow) slot[capacity]);
    if (buckets_ == nullptr || next_ == nullptr) {
      close();
      return false;
    }
    for (std::size_t i = 0; i != buckets; ++i) buckets_[i] = none;
    shift_ = 64 - static_cast<unsigned>(std::countr_zero(buckets));
    return true;
  }
  void close() noexcept {
    buckets_.reset();
    next_.reset();
  }

  /// Returns the slot that was added with this `hash` and for which `matches` answers true; `none` if there is none.
  template <class Matches>
  slot find(std::size_t hash, Matches&& matches) const noexcept {
    slot s = buckets_[bucket_of(hash)];
    while (s != none && !matches(s)) s = next_[s];
    return s;
  }

  /// Requires: `added` was not added.
  void add(std::size_t hash, slot added) noexcept { next_[added] = std::exchange(buckets_[bucket_of(hash)], added); }

  /// Removes a slot that was added with `hash`. Does nothing if it was removed before.
  void remove(std::size_t hash, slot removed) noexcept {
    slot* link = &buckets_[bucket_of(hash)];
    while (*link != none && *link != removed) link = &next_[*link];
    if (*link == removed) *link = next_[removed];
  }

 private:
  // Fibonacci hashing: ids that count up, and multiples of any number, get different buckets. std::hash of an integer is the
  // integer.
  std::size_t bucket_of(std::size_t hash) const noexcept {
    return static_cast<std::size_t>((std::uint64_t{hash} * 0x9e3779b97f4a7c15) >> shift_);
  }

  std::unique_ptr<slot[]> buckets_;  // null: closed
  std::unique_ptr<slot[]> next_;     // of the same bucket, for each slot
  unsigned shift_ = 0;               // 64 - log2 of the number of buckets
};

}  // namespace tickwheel::detail
