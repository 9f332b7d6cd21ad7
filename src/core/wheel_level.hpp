// One ring of slots, and its slot that is being emptied.
#pragma once

#include "backlog.hpp"
#include "chain.hpp"
#include "pace.hpp"
#include "slot_bitmap.hpp"

#include <tickwheel/core/ticks.hpp>
#include <tickwheel/core/wheel_entry.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <memory>
#include <span>

// Called once for each slot, not for each entry. Inlined, or cloned for each constant argument, it took kilobytes of
// code.
#ifdef __clang__
#define TICKWHEEL_OUT_OF_LINE [[gnu::noinline]]
#else
#define TICKWHEEL_OUT_OF_LINE [[gnu::noinline, gnu::noclone]]
#endif

namespace tickwheel {

/// A slot of a ring. Its chains are empty if `count` is 0.
struct coarse_slot {
  std::array<chain, chain_group::chain_count> chains;
  tick first_visit = never;  // lower bound of the visits; of a slot that is not sparse, the begin of a span
  std::size_t count = 0;     // upper bound of the number of entries: those linked since it was last emptied
};

/// A ring of slots. A slot holds the entries whose visit lies in its span, in several chains. Entries are taken from
/// each chain in turn, so that their cache misses overlap. A single list would wait for each cache miss.
struct alignas(cache_line) wheel_level {
  using slot = coarse_slot;
  static constexpr unsigned chain_count = chain_group::chain_count;

  /// This many consecutive entries go to the same chain. Linking an entry writes to the last one of its chain, which is
  /// then still in the cache.
  static constexpr unsigned entries_in_a_row = 8;
  static_assert(pace.sparse >= 1 && pace.sparse <= entries_in_a_row,
                "the first chain has the entries of a sparse slot");
  static constexpr unsigned unlimited_slots = ~0U;

  /// log2 of the largest power of two that divides the size of a slot.
  static constexpr int slot_bits = std::countr_zero(sizeof(slot));

  /// The slot that is being emptied. It is outside the ring, so that entries of a later round can go back to the ring
  /// meanwhile.
  struct emptying_slot : chain_group {
    tick at = never;             // must be empty by then; `never`: no slot is being emptied
    tick due = never;            // tick of the next step
    std::size_t left = 0;        // upper bound of the entries that are left
    std::size_t rate = 1;        // at tick t, at most rate * (at - t) entries may be left
    std::size_t step = 1;        // a visit moves at least as many
    std::size_t may_remain = 0;  // number of entries that the current step leaves
    bool in_step = false;        // the work bound cut the current step

    bool active() const noexcept { return at != never; }
    /// Returns the tick by which the pace requires a step.
    tick due_by_pace() const noexcept { return at - left / rate; }

    /// The step has ended, and the next one may be longer.
    void end_step() noexcept {
      in_step = false;
      if (step < pace.dense_step) step = std::min(step + pace.dense_first_step, pace.dense_step);
      due = due_by_pace();
    }

    /// Returns how many entries to take at `now`: all if the time of the slot has come, otherwise as many as the pace
    /// requires. A step that was cut is completed, even if the pace would allow more entries by now.
    std::size_t begin_step(tick now) noexcept {
      if (at <= now) {
        may_remain = 0;
      } else if (!in_step) {
        const tick room = at - now - 1;
        may_remain = room >= left / rate ? left : static_cast<std::size_t>(room) * rate;
        may_remain = std::min(may_remain, left - std::min(left, step));
      }
      in_step = true;
      return may_remain == 0 ? ~std::size_t{0} : left - may_remain;
    }
  };

  /// A slot that may be the next one to be started. `start_by` is the latest tick to start it, and it must be empty by
  /// `visit`. If `index` is `slot_bitmap::none`, the level must search again at `start_by`.
  struct candidate {
    tick start_by = never;
    tick visit = never;
    unsigned index = slot_bitmap::none;

    /// Slots are emptied in the order of their visits. If two must be started at once, the one with the earlier visit
    /// is first.
    bool precedes(const candidate& other) const noexcept {
      return start_by < other.start_by || (start_by == other.start_by && visit < other.visit);
    }
  };

  /// Throws std::bad_alloc.
  void reset(unsigned slot_count, unsigned width_bits);

  std::span<chain> chains_of(unsigned index) const noexcept { return ring[index].chains; }
  unsigned index_of(tick t) const noexcept { return static_cast<unsigned>(t >> shift & mask); }

  /// Returns the begin of the span that is `ahead` spans after span `number`, or `never` if that is after the last
  /// tick.
  tick begin_of(tick number, tick ahead) const noexcept {
    return ahead > (last_tick >> shift) - number ? never : (number + ahead) << shift;
  }

  tick begin_of_span(tick t) const noexcept { return t & span_bits; }

  /// Returns how many entries a slot of `count` entries has for each tick of its width, rounded down.
  std::size_t density_of(std::size_t count) const noexcept {
    return static_cast<std::size_t>(std::uint64_t{count} >> shift);
  }

  /// Returns how many entries a slot of `count` entries loses at least per tick while it is emptied.
  std::size_t pace_of(std::size_t count) const noexcept {
    const std::size_t density = density_of(count);
    return density == 0 ? pace.entries_per_tick
                        : std::clamp(density * pace.dense_factor, pace.dense_entries_per_tick, pace.entries_per_tick);
  }

  /// Returns true if a slot of `count` entries is dense and takes several steps: its first ones are then shorter.
  bool starts_gently(std::size_t count) const noexcept { return density_of(count) != 0 && count > pace.dense_step; }

  /// Returns the lead: a slot of `count` entries must be started that long before its first visit. At most its width.
  /// From the start on no entry of this round is linked to the slot, and its entries fit the level below. 0 for a sparse slot.
  tick lead(std::size_t count) const noexcept {
    if (shift == 0 || count <= sparse) return 0;
    const tick by_pace = starts_gently(count) ? count / pace_of(count) + pace.head_start : (count - 1) / pace_of(count);
    return std::min<tick>(by_pace, tick{1} << shift);
  }

  /// Returns true if the slot for `deadline` is less than one turn ahead.
  bool reaches(tick deadline, tick cursor) const noexcept { return (deadline >> shift) - (cursor >> shift) < slots; }

  /// Same as `ring[index_of(t)]`, in two instructions less: the rotation also multiplies by the power of two in the size of
  /// a slot.
  slot& slot_of(tick t) const noexcept {
    const tick offset = std::rotr(t & index_bits, rotation) * (sizeof(slot) >> slot_bits);
    return *reinterpret_cast<slot*>(reinterpret_cast<std::byte*>(ring.get()) + offset);
  }

  /// Links `e` to the slot for `place`, which is less than one turn ahead and not later than its deadline. Returns true
  /// if that slot may have to be started before the next one. The caller must then call `bring_forward`.
  bool link(wheel_entry& e, tick place) noexcept { return link(slot_of(place), e, place); }

  /// Same as `link`, to `s`, the slot for `place`. A sparse slot is visited when its first entry is due.
  bool link(slot& s, wheel_entry& e, tick place) noexcept {
    if (s.count >= sparse) [[unlikely]]
      return link_with_lead(s, e, place);
    if (s.count == 0) occupied.set(index_of(place));
    s.first_visit = std::min(s.first_visit, place);
    e.visit_ = place;
    s.chains[0].push_back(e);
    ++s.count;
    return place < cutoff;
  }

  /// Same as `link`, to a slot that is not sparse with `e`. It has a lead, and is visited when it begins, to move down.
  bool link_with_lead(slot& s, wheel_entry& e, tick place) const noexcept {
    s.first_visit = begin_of_span(std::min(s.first_visit, place));
    const tick visit = begin_of_span(place);
    add(s, e, visit);
    return visit < cutoff;
  }

  /// Returns true if entries of the span that begins at `begin` need only `add`: their slot `s` is visited then, and is
  /// not the next one to be started, however many entries it gets.
  bool only_adds(const slot& s, tick begin) const noexcept { return s.first_visit == begin && begin >= cutoff; }

  /// Adds `e` to `s`, which is visited at `visit` or before.
  static void add(slot& s, wheel_entry& e, tick visit) noexcept {
    e.visit_ = visit;
    s.chains[s.count / entries_in_a_row % chain_count].push_back(e);
    ++s.count;
  }

  /// Same as `link`, in whichever turn `e` is due. Only for a hashed wheel: its slots have no lead, so entries of several
  /// turns share a slot, and each is visited at its deadline. Without the branch of `link` on whether the slot is empty,
  /// which is hard to predict there.
  bool link_in_any_turn(wheel_entry& e, tick deadline) noexcept {
    const unsigned index = index_of(deadline);
    slot& s = ring[index];
    e.visit_ = deadline;
    s.chains[s.count / entries_in_a_row % chain_count].push_back(e);
    ++s.count;
    s.first_visit = std::min(s.first_visit, deadline);
    occupied.set(index);
    return deadline < cutoff;
  }

  /// Links an entry that is due one turn or more ahead, in the highest level. The caller must then call `bring_forward`,
  /// because the entry counts for the lead of its slot.
  ///
  /// The entry must not join entries of this round that may already be started: the wheel would have no time to visit
  /// it at a pace. It then goes to the farthest slot, and moves on from there.
  void link_later_round(wheel_entry& e, tick deadline, tick cursor) noexcept {
    const tick number = cursor >> shift;
    slot& s = ring[index_of(deadline)];
    const bool may_be_started = s.count != 0 && s.first_visit >> shift < number + 2;
    link(e, may_be_started ? begin_of(number, slots - 1) : deadline);
  }

  /// Takes over up to `most` entries of a finest slot, whose visit is `visit`. Returns false, and takes none, if their
  /// slot may already be started or has no chain for them. A chain holds entries of one visit only. O(1). Requires: the
  /// slot is less than one turn ahead, and all its entries came by this function.
  bool take_crowd(chain& entries, std::size_t most, tick visit, tick cursor) noexcept {
    if ((visit >> shift) - (cursor >> shift) < 2) return false;
    const unsigned index = index_of(visit);
    slot& s = ring[index];
    if (next.visit == never) undone = false;  // all slots are empty
    for (unsigned i = 0; i < chain_count; ++i) {
      chain& to = s.chains[(s.count / most + i) % chain_count];
      if (!to.empty() && to.front().visit_ != visit) continue;
      to.take_all(entries);
      kept_slots &= ~bit_of(index);
      s.count += most;
      s.first_visit = std::min(s.first_visit, begin_of_span(visit));
      occupied.set(index);
      return true;
    }
    return false;
  }

  /// Keeps the crowds of a slot together, each in its chain. Their next visit is when one of them is due, but not after
  /// `latest`. They have no lead, like a sparse slot.
  void keep_together(unsigned index, tick latest) noexcept {
    tick visit = never;
    for (chain& entries : ring[index].chains)
      if (!entries.empty()) visit = std::min(visit, entries.front().visit_);
    if (visit == never) return clear_slot(index);
    ring[index].first_visit = std::min(visit, latest);
    kept_slots |= bit_of(index);  // until it gets entries again
  }
  bool keeps_together(unsigned index) const noexcept { return (kept_slots & bit_of(index)) != 0; }
  static constexpr std::uint32_t bit_of(unsigned index) noexcept { return std::uint32_t{1} << (index % 32); }

  /// Returns when the slot of `e`, which was just linked, must be started.
  tick bring_forward(const wheel_entry& e, tick cursor) noexcept {
    const candidate changed = candidate_of(index_of(e.visit_), cursor);
    if (changed.precedes(next)) set_next(changed);
    return changed.start_by;
  }

  /// Returns when an occupied slot must be started. A first visit in the past belongs to cancelled entries that time
  /// has passed. They wait for the next turn of the slot. If that turn is now, the slot is visited now, because others
  /// in it may be due within its span.
  candidate candidate_of(unsigned index, tick cursor) const noexcept {
    const slot& s = ring[index];
    tick visit = s.first_visit;
    if (visit < cursor) visit = begin_of(cursor >> shift, (index - index_of(cursor)) & (slots - 1));
    return {visit == never ? never : keeps_together(index) ? visit : visit - lead(s.count), visit, index};
  }

  /// Returns the next slot to be started, seen from `cursor`. Examines at most `limit` occupied slots. If they do not
  /// decide, it returns when to search again.
  TICKWHEEL_OUT_OF_LINE candidate next_slot(tick cursor, unsigned limit) const noexcept {
    candidate best;
    const tick number = cursor >> shift;
    const unsigned start = index_of(cursor);
    for (unsigned steps = 0, distance = 0; distance < slots; ++distance, ++steps) {
      const unsigned gap = occupied.distance_from((start + distance) & (slots - 1));
      if (gap == slot_bitmap::none || gap >= slots - distance) break;
      distance += gap;
      // no later slot must be started earlier, because a lead is at most the width of a slot
      const tick soonest = begin_of(number, distance - (shift != 0 && distance != 0));
      if (best.start_by <= soonest) break;
      if (steps >= limit) return {soonest, soonest, slot_bitmap::none};
      const candidate found = candidate_of((start + distance) & (slots - 1), cursor);
      if (found.precedes(best)) best = found;
    }
    return best;
  }

  /// Finds `next`.
  TICKWHEEL_OUT_OF_LINE void find_next(tick cursor, unsigned limit) noexcept { set_next(next_slot(cursor, limit)); }

  /// Returns false if the level must search again to know which slot is next.
  bool knows_next() const noexcept { return next.index != slot_bitmap::none || next.start_by == never; }

  /// Returns true if the next visit starts a slot that is known. Otherwise it continues one, or searches.
  bool starts_next() const noexcept { return next.index != slot_bitmap::none && next.start_by < emptying.due; }

  void set_next(const candidate& which) noexcept {
    next = which;
    const tick width = tick{1} << shift;  // a lead is not longer
    cutoff = next.start_by < never - width ? next.start_by + width : never;
    update_start_by();
  }

  /// Call it after a change of `next` or of the slot that is being emptied.
  void update_start_by() noexcept { start_by = std::min(next.start_by, emptying.due); }

  /// Starts to empty the next slot, and finds the slot after it. The first step of a slot that starts gently is due a
  /// tick before its pace requires it, unless that is now. Requires: the next slot is known, and no slot is being
  /// emptied.
  void begin_emptying(tick cursor) noexcept {
    const unsigned index = next.index;
    slot& from = ring[index];
    emptying.in_step = false;
    emptying.fill(from.chains);
    emptying.at = next.visit;
    emptying.left = from.count;
    const std::size_t density = density_of(from.count);
    emptying.rate = std::max(pace_of(from.count), density + 1);
    emptying.step = density == 0 ? pace.smallest_step : pace.dense_step;
    emptying.due = emptying.due_by_pace();
    if (starts_gently(from.count)) {
      emptying.step = pace.dense_first_step;
      if (emptying.due > cursor + 1) --emptying.due;
    }
    clear_slot(index);
    find_next(cursor, pace.look_ahead);
  }

  bool next_is_sparse() const noexcept { return ring[next.index].count <= sparse; }

  /// Moves the entries of the next slot, which is sparse, to `entries`, and finds the slot after it.
  void take_sparse(chain& entries, tick cursor) noexcept {
    const unsigned index = next.index;
    entries.take_all(ring[index].chains[0]);
    clear_slot(index);
    find_next(cursor, pace.look_ahead);
  }

  void clear_slot(unsigned index) noexcept {
    ring[index].first_visit = never;
    ring[index].count = 0;
    occupied.clear(index);
  }

  void end_emptying() noexcept {
    emptying.at = emptying.due = never;
    emptying.left = 0;
    update_start_by();
  }

  /// Gives the rest of the slot that is being emptied back to the ring. O(1).
  void undo_emptying() noexcept {
    if (!emptying.active()) return;
    const unsigned index = index_of(emptying.at);
    slot& to = ring[index];
    for (unsigned i = 0; i < emptying.live; ++i)
      to.chains[0].take_all(emptying.chains[i]);  // it has the entries of a sparse slot
    to.first_visit = std::min(to.first_visit, emptying.at);
    to.count += emptying.left;
    occupied.set(index);
    undone = true;
    end_emptying();
  }

  bool being_emptied() const noexcept { return emptying.active(); }
  std::span<chain> chains_being_emptied() noexcept { return emptying.chains; }
  /// Returns true if the next slot must be empty before the one that is being emptied.
  bool next_precedes_emptying() const noexcept { return next.visit < emptying.at; }

  std::unique_ptr<slot[]> ring;
  tick cutoff = never;  // a slot with a visit at or after it is not the next one to be started
  tick span_bits = 0;   // the bits of a tick that tell its span
  tick index_bits = 0;  // those of them that tell its slot
  int rotation = 0;     // the shift to the right, less `slot_bits`
  unsigned shift = 0;   // log2 of the width of a slot in ticks
  tick mask = 0;        // slots - 1
  // A slot of at most so many entries is sparse. 1 for a hashed wheel, which has no finer level for the others of a slot.
  std::size_t sparse = 1;
  // Of the lowest coarse level: it takes deadlines that are not so many ticks behind the reach of the finest level, wherever
  // the cursor is in its span.
  tick reach = 0;
  slot_bitmap occupied;
  // The tick of the next visit: to start the next slot, or to continue the one that is being emptied.
  tick start_by = never;
  unsigned slots = 0;
  candidate next;  // of the slots that are not being emptied
  // Only for the ring of crowds.
  bool undone = false;           // the rest of a slot was given back to the ring
  std::uint32_t kept_slots = 0;  // one bit for each slot that is kept together
  emptying_slot emptying;
};

}  // namespace tickwheel
