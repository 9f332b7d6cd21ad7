// The lowest ring of a hierarchical wheel: a slot for each tick of the near future.
#pragma once

#include "chain.hpp"
#include "slot_bitmap.hpp"

#include <tickwheel/core/ticks.hpp>
#include <tickwheel/core/wheel_entry.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>

namespace tickwheel {

/// Every timer comes through here, most of them one or two a tick, so a visit has to cost next to nothing: all that is
/// in a slot is due, so there is no pace to keep and no span to compare with. One chain a slot is enough, as what is
/// here was touched shortly before.
struct finest_level {
  /// Throws std::bad_alloc.
  void reset(unsigned slot_count) {
    slots = slot_count;
    occupied.reset(slots);
    ring = std::make_unique<chain[]>(slots);
  }

  static constexpr unsigned shift = 0;
  std::span<chain> chains_of(unsigned index) const noexcept { return {&ring[index], 1}; }
  unsigned index_of(tick t) const noexcept { return static_cast<unsigned>(t) & (slots - 1); }

  /// Links `e`. Requires: its deadline is less than a turn ahead of the cursor.
  void link(wheel_entry& e, tick deadline) noexcept {
    const unsigned index = index_of(deadline);
    e.visit_ = deadline;
    ring[index].push_back(e);
    occupied.set(index);
    if (deadline < attention) attention = deadline;
  }

  /// The slot of the cursor, to be taken from until it is empty. It gets no new entries meanwhile: all that is armed is
  /// due later, and less than a turn later. (But at the end of time.)
  chain& slot_at(tick cursor) const noexcept { return ring[index_of(cursor)]; }

  void end_visit(tick cursor) noexcept {
    if (const unsigned index = index_of(cursor); ring[index].empty()) occupied.clear(index);
    attention = next_visit(cursor);
    // what is due next, or in a few ticks where all are occupied, is fetched meanwhile: a tenth less at 1e5 timers and more
    __builtin_prefetch(slot_at(std::max(attention, cursor + 4)).begin().pointed_node(), 1);
  }

  /// Notes that the work bound was reached after so many visits to the slot of the cursor. Returns how many that slot had in all.
  std::size_t note_cut(tick cursor, std::size_t visits) noexcept {
    if (cut_at != cursor) cut_visits = 0;
    cut_at = cursor;
    return cut_visits += visits;
  }

  void clear_slot(unsigned index) noexcept { occupied.clear(index); }

  /// The next tick whose slot may hold entries; `never` when there is none. Dead links that time went over are met when
  /// their slot comes round.
  [[gnu::always_inline]] tick next_visit(tick cursor) const noexcept {
    const unsigned gap = occupied.distance_from(index_of(cursor));
    return gap == slot_bitmap::none || gap > last_tick - cursor ? never : cursor + gap;
  }

  static constexpr bool being_emptied() noexcept { return false; }
  static constexpr std::span<chain> emptying() noexcept { return {}; }

  slot_bitmap occupied;
  std::unique_ptr<chain[]> ring;
  unsigned slots = 0;      // 0: a hashed wheel has no such level
  tick attention = never;  // the next visit; a lower bound
  tick cut_at = never;     // the slot whose visit was cut last
  std::size_t cut_visits = 0;
};

}  // namespace tickwheel
