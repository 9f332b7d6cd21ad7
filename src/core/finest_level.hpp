// The lowest ring of a hierarchical wheel: a slot for each tick of the near future.
#pragma once

#include "chain.hpp"
#include "slot_bitmap.hpp"

#include <tickwheel/core/ticks.hpp>
#include <tickwheel/core/wheel_entry.hpp>

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

  /// Links `e`, whose deadline is less than a turn ahead of the cursor; returns when it needs attention.
  tick link(wheel_entry& e) noexcept {
    const tick deadline = e.deadline_;
    const unsigned index = index_of(deadline);
    e.visit_ = deadline;
    ring[index].push_back(e);
    occupied.set(index);
    if (deadline < attention) attention = deadline;
    return deadline;
  }

  /// The slot of the cursor becomes what is due. It gets no new entries meanwhile: all that is armed is due later, and
  /// less than a turn later.
  void begin_visit(tick cursor) noexcept {
    const unsigned index = index_of(cursor);
    due.take_all(ring[index]);
    occupied.clear(index);
    // what is due in a few ticks is fetched meanwhile: a tenth less at a million timers
    __builtin_prefetch(&ring[index_of(cursor + 4)].front(), 1);
  }

  /// Gives what is left of a visit back to its slot.
  void undo_visit(tick cursor) noexcept {
    if (due.empty()) return;
    const unsigned index = index_of(cursor);
    ring[index].take_all(due);
    occupied.set(index);
  }

  void clear_slot(unsigned index) noexcept { occupied.clear(index); }

  /// The next tick whose slot may hold entries; `never` when there is none. Requires: no visit is going on. Dead links
  /// that time went over are met when their slot comes round.
  tick next_visit(tick cursor) const noexcept {
    const unsigned gap = occupied.distance_from(index_of(cursor));
    return gap == slot_bitmap::none || gap > last_tick - cursor ? never : cursor + gap;
  }

  bool being_emptied() const noexcept { return !due.empty(); }
  std::span<chain> emptying() noexcept { return {&due, 1}; }
  tick exact_attention(tick cursor) const noexcept { return being_emptied() ? cursor : next_visit(cursor); }

  slot_bitmap occupied;
  std::unique_ptr<chain[]> ring;
  unsigned slots = 0;      // 0: a hashed wheel has no such level
  tick attention = never;  // the next visit; a lower bound
  chain due;               // the slot being visited
};

}  // namespace tickwheel
