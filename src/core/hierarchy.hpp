// The levels of a wheel: the place of each entry, and the level that is visited next.
#pragma once

#include "backlog.hpp"
#include "finest_level.hpp"
#include "immediates.hpp"
#include "wheel_level.hpp"

#include <tickwheel/core/ticks.hpp>
#include <tickwheel/core/wheel_entry.hpp>
#include <tickwheel/core/wheel_geometry.hpp>

#include <algorithm>
#include <memory>
#include <span>

namespace tickwheel {

/// A hierarchical wheel has a finest level and coarse levels above it. A hashed wheel has one coarse level with slots
/// one tick wide, because only coarse levels support rounds.
///
/// A ring of crowds stands beside the finest level. A crowded finest slot gives its entries to that ring. The ring goes
/// through them ahead of their time if some were cancelled or moved later, so that these do not delay the others.
struct alignas(cache_line) hierarchy {
  /// Requires: `geometry.valid()`. Throws std::bad_alloc.
  explicit hierarchy(const wheel_geometry& geometry);
  ~hierarchy();
  hierarchy(const hierarchy&) = delete;
  hierarchy& operator=(const hierarchy&) = delete;

  /// Returns the lowest coarse level that reaches `deadline`: its slot for `deadline` is less than one turn ahead. So
  /// no two spans share a slot. The highest level also takes later deadlines. Those entries wait for their round.
  /// O(levels).
  wheel_level& coarse_for(tick deadline, tick cursor) const noexcept {
    wheel_level* level = lowest;
    while (level != highest && !level->reaches(deadline, cursor)) ++level;
    return *level;
  }

  /// Returns the ring of crowds. Requires: several levels.
  wheel_level& crowds() const noexcept { return coarse[0]; }
  bool holds_crowds(const wheel_level& level) const noexcept { return &level < lowest; }

  /// Tells the hierarchy that `e` was linked to `level`. Returns when the slot of `e` must be started.
  tick bring_forward(wheel_level& level, const wheel_entry& e, tick cursor) noexcept {
    const tick needed = level.bring_forward(e, cursor);
    if (needed < next_coarse->start_by) next_coarse = &level;
    return needed;
  }

  /// Returns a lower bound of the next visit.
  tick start_by() const noexcept { return std::min(finest.start_by, next_coarse->start_by); }

  /// Same as `start_by`, but 0 if there is a backlog.
  tick expiry() const noexcept { return left_over.empty() ? start_by() : 0; }

  /// Returns the slot that is visited next. Nothing: the next visit continues a slot, or all are empty.
  std::span<chain> next_slot() const noexcept {
    if (finest.start_by < next_coarse->start_by) return finest.chains_of(finest.index_of(finest.start_by));
    return next_coarse->starts_next() ? next_coarse->chains_of(next_coarse->next.index) : std::span<chain>{};
  }

  /// Returns false if a level must examine more slots to know which one is next. O(levels).
  bool know_next() const noexcept {
    return std::all_of(&coarse[0], &coarse[0] + count, [](const wheel_level& level) { return level.knows_next(); });
  }

  /// Call it after each visit to a coarse level. Among equals it selects the highest level, because emptying that one
  /// may add entries to the lower ones.
  void find_next_coarse() noexcept {
    next_coarse = &coarse[count - 1];
    for (unsigned k = count - 1; k-- != 0;)
      if (coarse[k].start_by < next_coarse->start_by) next_coarse = &coarse[k];
  }

  /// Gives the entries of each slot that is being emptied back to that slot. O(levels).
  // NOLINTNEXTLINE(readability-make-member-function-const): it changes the levels, which only happen to be elsewhere
  void undo_emptying() noexcept {
    for (unsigned k = 0; k < count; ++k) coarse[k].undo_emptying();
  }

  /// Finds the next slot of each level anew. Used after the cursor has skipped time, or to search beyond `look_ahead`.
  TICKWHEEL_OUT_OF_LINE void find_start_by(tick cursor, unsigned limit) noexcept {
    finest.start_by = finest.slots != 0 ? finest.next_visit(cursor) : never;
    for (unsigned k = 0; k < count; ++k) coarse[k].find_next(cursor, limit);
    find_next_coarse();
  }

  /// Calls `visit(level)` for each level, finest first, until one call returns false. Returns false if one did.
  template <class F>
  bool all_of(F&& visit) {
    if (first != 0 && !visit(finest)) return false;
    for (unsigned k = 0; k < count; ++k)
      if (!visit(coarse[k])) return false;
    return true;
  }

  /// Calls `use(entries)` for each chain outside all slots, until one call returns false. Returns false if one did.
  template <class F>
  bool all_outside_slots(F&& use) {
    if (!immediate_entries.all_of(use)) return false;
    for (chain& entries : left_over.chains)  // std::all_of would call `use` in seven places
      if (!use(entries)) return false;
    return true;
  }

  finest_level finest;
  wheel_level* lowest = nullptr;  // of the coarse levels
  wheel_level* highest = nullptr;
  unsigned first;                         // number of the lowest coarse level
  unsigned count;                         // number of all levels, at least one
  std::unique_ptr<wheel_level[]> coarse;  // by number; at 0, beside the finest level, the ring of crowds
  wheel_level* next_coarse = &coarse[0];  // the coarse level with the earliest `start_by`

  // These entries are in no slot.
  immediates immediate_entries;
  backlog left_over;
};

}  // namespace tickwheel
