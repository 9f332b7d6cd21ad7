// The lowest ring of a hierarchical wheel. It has one slot for each tick of the near future.
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

/// Every timer passes through this level, and most ticks have one or two. So a visit must cost almost nothing. All
/// entries of a slot are due in its tick: the level keeps no pace and compares no spans. One chain for each slot is
/// enough, because its entries were touched shortly before.
struct finest_level {
  struct slot {
    chain entries;
    std::uint32_t room =
        pace.finest_crowd;  // this many more entries make a crowd; counted down, which needs no register

    /// Returns an upper bound of the number of entries: those linked since the slot was last emptied.
    std::uint32_t count() const noexcept { return pace.finest_crowd - room; }
  };

  /// Throws std::bad_alloc.
  void reset(unsigned slot_count);

  static constexpr unsigned shift = 0;
  std::span<chain> chains_of(unsigned index) const noexcept { return {&ring[index].entries, 1}; }
  unsigned index_of(tick t) const noexcept { return static_cast<unsigned>(t) & mask; }

  /// Links `e` and returns true. Returns false, and does not link, if `e` makes a crowd of its slot. The caller then
  /// calls `put` and moves the crowd. Requires: the deadline is less than one turn ahead of the cursor.
  bool link(wheel_entry& e, tick deadline) noexcept {
    if (--ring[index_of(deadline)].room == 0) [[unlikely]]
      return false;
    put(e, deadline);
    return true;
  }

  /// Links `e` to the slot of the cursor, which is visited next.
  void link_now(wheel_entry& e, tick cursor) noexcept {
    if (!link(e, cursor)) put(e, cursor);
  }

  void put(wheel_entry& e, tick deadline) noexcept {
    const unsigned index = index_of(deadline);
    e.visit_ = deadline;
    ring[index].entries.push_back(e);
    occupied.set(index);
    if (deadline < start_by) start_by = deadline;
  }

  /// Returns the slot of the cursor. The caller takes entries until it is empty. The slot gets no new entries
  /// meanwhile, because all new deadlines are later, by less than one turn. The end of time is the exception.
  chain& slot_at(tick cursor) const noexcept { return ring[index_of(cursor)].entries; }

  /// Requires: the slot of the cursor is empty.
  void end_visit(tick cursor) noexcept {
    clear_slot(index_of(cursor));
    start_by = next_visit(cursor);
    // Prefetches the next slot. If every tick is occupied, it prefetches a slot a few ticks ahead. This saves a tenth
    // at 1e5 timers or more.
    slot_at(std::max(start_by, cursor + 4)).prefetch_ends();
  }

  void clear_slot(unsigned index) noexcept {
    ring[index].room = pace.finest_crowd;
    occupied.clear(index);
  }

  /// Returns the next tick whose slot may hold entries, or `never` if all slots are empty. Cancelled entries that time
  /// has passed are found when their slot comes round again.
  [[gnu::always_inline]] tick next_visit(tick cursor) const noexcept {
    const unsigned gap = occupied.distance_from(index_of(cursor));
    return gap == slot_bitmap::none || gap > last_tick - cursor ? never : cursor + gap;
  }

  static constexpr bool being_emptied() noexcept { return false; }
  static constexpr std::span<chain> chains_being_emptied() noexcept { return {}; }

  slot_bitmap occupied;
  std::unique_ptr<slot[]> ring;
  unsigned slots = 0;     // 0: a hashed wheel, which has no such level
  unsigned mask = 0;      // slots - 1
  tick reach = 0;         // less than so many ticks after the cursor's next one is less than one turn after the cursor
  tick start_by = never;  // lower bound of the next visit
};

}  // namespace tickwheel
