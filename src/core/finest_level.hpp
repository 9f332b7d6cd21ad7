// The lowest ring of a hierarchical wheel: a slot for each tick of the near future.
#pragma once

#include "chain.hpp"
#include "pace.hpp"
#include "slot_bitmap.hpp"

#include <tickwheel/core/ticks.hpp>
#include <tickwheel/core/wheel_entry.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace tickwheel {

/// Every timer comes through here, most of them one or two a tick, so a visit has to cost next to nothing: all that is
/// in a slot is due, so there is no pace to keep and no span to compare with. One chain a slot is enough, as what is
/// here was touched shortly before.
struct finest_level {
  struct slot {
    chain entries;
    std::uint32_t room =
        pace.finest_crowd;  // so many more entries make it a crowd; counted down, which needs no register

    /// Returns an upper bound of its entries: so many were linked since it was last emptied.
    std::uint32_t count() const noexcept { return pace.finest_crowd - room; }
  };

  /// Throws std::bad_alloc.
  void reset(unsigned slot_count) {
    slots = slot_count;
    occupied.reset(slots);
    ring = std::make_unique<slot[]>(slots);
  }

  static constexpr unsigned shift = 0;
  std::span<chain> chains_of(unsigned index) const noexcept { return {&ring[index].entries, 1}; }
  unsigned index_of(tick t) const noexcept { return static_cast<unsigned>(t) & (slots - 1); }

  /// Links `e`, unless its slot becomes a crowd by that: it is to be `put` there then, before the crowd leaves. Returns whether it
  /// has. Requires: its deadline is less than a turn ahead of the cursor.
  bool link(wheel_entry& e, tick deadline) noexcept {
    if (--ring[index_of(deadline)].room == 0) [[unlikely]]
      return false;
    put(e, deadline);
    return true;
  }

  void put(wheel_entry& e, tick deadline) noexcept {
    const unsigned index = index_of(deadline);
    e.visit_ = deadline;
    ring[index].entries.push_back(e);
    occupied.set(index);
    if (deadline < start_by) start_by = deadline;
  }

  /// The slot of the cursor, to be taken from until it is empty. It gets no new entries meanwhile: all that is armed is
  /// due later, and less than a turn later. (But at the end of time.)
  chain& slot_at(tick cursor) const noexcept { return ring[index_of(cursor)].entries; }

  /// Requires: the slot of the cursor is empty.
  void end_visit(tick cursor) noexcept {
    clear_slot(index_of(cursor));
    start_by = next_visit(cursor);
    // what is due next, or in a few ticks where all are occupied, is fetched meanwhile: a tenth less at 1e5 timers and more
    __builtin_prefetch(slot_at(std::max(start_by, cursor + 4)).begin().pointed_node(), 1);
  }

  void clear_slot(unsigned index) noexcept {
    ring[index].room = pace.finest_crowd;
    occupied.clear(index);
  }

  /// The next tick whose slot may hold entries; `never` when there is none. Dead links that time went over are met when
  /// their slot comes round.
  [[gnu::always_inline]] tick next_visit(tick cursor) const noexcept {
    const unsigned gap = occupied.distance_from(index_of(cursor));
    return gap == slot_bitmap::none || gap > last_tick - cursor ? never : cursor + gap;
  }

  static constexpr bool being_emptied() noexcept { return false; }
  static constexpr std::span<chain> chains_being_emptied() noexcept { return {}; }

  slot_bitmap occupied;
  std::unique_ptr<slot[]> ring;
  unsigned slots = 0;     // 0: a hashed wheel has no such level
  tick start_by = never;  // the next visit; a lower bound
};

}  // namespace tickwheel
