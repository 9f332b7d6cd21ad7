// The levels of a wheel: where an entry goes, and which level needs attention next.
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

namespace tickwheel {

/// Several levels: a finest one, and coarse ones above it. One level: a coarse one, whose slots happen to be a tick
/// wide, since only those know of rounds.
///
/// Beside the finest level is a ring for its crowds. A finest slot that has become a crowd gives its entries to that ring. There
/// they are looked through ahead of their time if some of them were cancelled or put off, so that these are not in the way
/// of the others.
struct alignas(cache_line) hierarchy {
  /// Requires: `geometry.valid()`. Throws std::bad_alloc.
  explicit hierarchy(const wheel_geometry& geometry)
      : first{geometry.levels > 1 ? 1U : 0U}, count{geometry.levels}, coarse{std::make_unique<wheel_level[]>(count)} {
    if (first != 0) {
      finest.reset(geometry.finest_slots());
      crowds().reset(16, geometry.slot_bits() - 2);  // an eighth of a turn of the finest level a slot, two turns in all
    }
    for (unsigned k = first; k < count; ++k) coarse[k].reset(geometry.slots, geometry.width_bits(k));
    lowest = &coarse[first];
    highest = &coarse[count - 1];
  }

  /// The lowest coarse level that reaches `deadline`: one whose slot for it is less than a full turn ahead, so that no two
  /// spans share a slot. The highest level takes what is farther away, too; its entries wait for their round. O(levels).
  wheel_level& coarse_for(tick deadline, tick cursor) const noexcept {
    wheel_level* level = lowest;
    while (level != highest && !level->reaches(deadline, cursor)) ++level;
    return *level;
  }

  /// The ring of crowds. Requires: several levels.
  wheel_level& crowds() const noexcept { return coarse[0]; }
  bool holds_crowds(const wheel_level& level) const noexcept { return &level < lowest; }

  /// `level` got `e`, which may need attention before all else there. Returns when that needs it.
  tick bring_forward(wheel_level& level, const wheel_entry& e, tick cursor) noexcept {
    const tick needed = level.bring_forward(e, cursor);
    if (needed < next_coarse->start_by) next_coarse = &level;
    return needed;
  }

  /// When the next visit is needed; a lower bound.
  tick start_by() const noexcept { return std::min(finest.start_by, next_coarse->start_by); }

  /// As `attention`, with what is left over.
  tick expiry() const noexcept { return left_over.empty() ? start_by() : 0; }

  /// Returns false if some level would have to look at more slots to tell which is next. O(levels).
  bool know_next() const noexcept {
    return std::all_of(&coarse[0], &coarse[0] + count, [](const wheel_level& level) { return level.knows_next(); });
  }

  /// To be called when a coarse level was visited. Of equals the highest: emptying it may add to the lower ones.
  void find_next_coarse() noexcept {
    next_coarse = &coarse[count - 1];
    for (unsigned k = count - 1; k-- != 0;)
      if (coarse[k].start_by < next_coarse->start_by) next_coarse = &coarse[k];
  }

  /// Gives back what is being emptied, each to its slot. O(levels).
  // NOLINTNEXTLINE(readability-make-member-function-const): it changes the levels, which only happen to be elsewhere
  void undo_emptying() noexcept {
    for (unsigned k = 0; k < count; ++k) coarse[k].undo_emptying();
  }

  /// Finds all anew: when the cursor has skipped time, or to look farther than `look_ahead`.
  TICKWHEEL_OUT_OF_LINE void find_start_by(tick cursor, unsigned limit) noexcept {
    finest.start_by = finest.slots != 0 ? finest.next_visit(cursor) : never;
    for (unsigned k = 0; k < count; ++k) coarse[k].find_next(cursor, limit);
    find_next_coarse();
  }

  /// Calls `visit(level)` for each, finest first, until one answers false; false when one did.
  template <class F>
  bool all_of(F&& visit) {
    if (first != 0 && !visit(finest)) return false;
    for (unsigned k = 0; k < count; ++k)
      if (!visit(coarse[k])) return false;
    return true;
  }

  /// Calls `use(entries)` for each chain that is no slot's, until one call returns false. Returns false if one did.
  template <class F>
  bool all_outside_slots(F&& use) {
    return immediate_entries.all_of(use) && std::all_of(left_over.chains.begin(), left_over.chains.end(), use);
  }

  finest_level finest;
  wheel_level* lowest = nullptr;  // of the coarse levels
  wheel_level* highest = nullptr;
  unsigned first;                         // the number of the lowest coarse level
  unsigned count;                         // of all levels, at least one
  std::unique_ptr<wheel_level[]> coarse;  // by number; beside the finest level stands the ring of crowds
  wheel_level* next_coarse = &coarse[0];  // the one with the earliest attention

  // These entries stand in no slot.
  immediates immediate_entries;
  backlog left_over;
};

}  // namespace tickwheel
