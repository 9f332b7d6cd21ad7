// One ring of slots, and the slot of it that is being emptied.
#pragma once

#include "backlog.hpp"
#include "chain.hpp"
#include "pace.hpp"
#include "slot_bitmap.hpp"

#include <tickwheel/core/ticks.hpp>
#include <tickwheel/core/wheel_entry.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <span>

// Once a slot, and not for each entry: in line, or made anew for each constant argument, it was kilobytes of code.
#ifdef __clang__
#define TICKWHEEL_OUT_OF_LINE [[gnu::noinline]]
#else
#define TICKWHEEL_OUT_OF_LINE [[gnu::noinline, gnu::noclone]]
#endif

namespace tickwheel {

/// A slot holds the entries whose visit falls into its span, in several chains that are taken from in turn: a single
/// list is walked at the pace of one cache miss after the other, several lists miss side by side.
struct alignas(cache_line) wheel_level {
  static constexpr unsigned chain_count = chain_group::chain_count;

  /// So many entries in a row go to the same chain: linking one writes to the last of its chain, which is then still in
  /// the cache.
  static constexpr unsigned entries_in_a_row = 8;
  static constexpr unsigned unlimited_slots = ~0U;

  struct slot {
    std::array<chain, chain_count> chains;
    tick first_visit = never;  // lower bound of its entries' visits; of several, the begin of a span
    std::size_t count = 0;     // upper bound of its entries: what was linked since it was last emptied
  };

  /// The slot being emptied, spliced out so that entries of a later round can go back to their slot meanwhile.
  struct emptying_slot : chain_group {
    tick at = never;             // when it must be empty; `never`: no drain is going on
    tick due = never;            // when the next step is
    std::size_t left = 0;        // upper bound
    std::size_t rate = 1;        // at tick t, at most rate * (at - t) entries may be left
    std::size_t may_remain = 0;  // what the step that was begun leaves
    bool in_step = false;        // a step was begun, and the work bound was reached in it

    bool active() const noexcept { return at != never; }
    /// By when the pace asks for a step.
    tick due_by_pace() const noexcept { return at - left / rate; }

    /// How many entries to take at `now`: all when its time has come, else what the pace asks for. A step that was begun
    /// is finished, though its pace may allow more by now.
    std::size_t begin_step(tick now) noexcept {
      if (at <= now) {
        may_remain = 0;
      } else if (!in_step) {
        const tick room = at - now - 1;
        may_remain = room >= left / rate ? left : static_cast<std::size_t>(room) * rate;
        may_remain = std::min(may_remain, left - std::min(left, pace.smallest_step));
      }
      in_step = true;
      return may_remain == 0 ? ~std::size_t{0} : left - may_remain;
    }
  };

  /// When a slot has to be started on, by when it has to be empty, and which it is; `index` is `slot_bitmap::none` when
  /// the level only has to look again.
  struct candidate {
    tick start_by = never;
    tick visit = never;
    unsigned index = slot_bitmap::none;

    /// Slots are emptied in the order of their visits, so of two to be started on at once it is the one to be empty first.
    bool precedes(const candidate& other) const noexcept {
      return start_by < other.start_by || (start_by == other.start_by && visit < other.visit);
    }
  };

  /// Throws std::bad_alloc.
  void reset(unsigned slot_count, unsigned width_bits) {
    slots = slot_count;
    shift = width_bits;
    reach = tick{slots - 1} << shift;
    set_next({});
    occupied.reset(slots);
    ring = std::make_unique<slot[]>(slots);
  }

  std::span<chain> chains_of(unsigned index) const noexcept { return ring[index].chains; }
  unsigned index_of(tick t) const noexcept { return static_cast<unsigned>(t >> shift) & (slots - 1); }

  /// When the span `ahead` spans after the one with the given number begins; `never` when that is beyond the last tick.
  tick begin_of(tick number, tick ahead) const noexcept {
    return ahead > (last_tick >> shift) - number ? never : (number + ahead) << shift;
  }

  tick begin_of_span(tick t) const noexcept { return t >> shift << shift; }

  /// How long before its first visit a slot of `count` entries has to be started on. At most its own width: from then on
  /// nothing of this round is linked to it any more, and what leaves it fits the level below. A lone entry has none.
  tick lead(std::size_t count) const noexcept {
    return shift == 0 ? 0 : std::min<tick>((count - 1) / pace.entries_per_tick, tick{1} << shift);
  }

  /// True when the slot for `deadline` is less than a turn ahead.
  bool reaches(tick deadline, tick cursor) const noexcept { return (deadline >> shift) - (cursor >> shift) < slots; }

  /// Links `e` to the slot for `place`, less than a turn ahead, which is its deadline or earlier. True when the slot may need
  /// attention before the next one does: `bring_forward` is to be called then.
  bool link(wheel_entry& e, tick place) noexcept {
    const unsigned index = index_of(place);
    slot& s = ring[index];
    // An entry alone in its slot needs no visit before its deadline; with others, when the slot begins, to move down.
    const tick visit = s.count == 0 ? place : begin_of_span(place);
    e.visit_ = visit;
    s.chains[s.count / entries_in_a_row % chain_count].push_back(e);
    ++s.count;
    s.first_visit = std::min(s.first_visit, visit);
    occupied.set(index);
    return visit < cutoff;
  }

  /// Which tick's slot of the highest level gets an entry that is due a turn or more ahead: its own, or one that is visited
  /// before. `bring_forward` is to be called in any case, as it counts for the slot's lead also when others there come earlier.
  ///
  /// It may not go where entries of this round are waiting when these may be started on already: there would be no time to
  /// look at the new ones at a pace. It goes to the farthest slot then, and on from there.
  tick place_in_later_round(tick deadline, tick cursor) const noexcept {
    const tick number = cursor >> shift;
    slot& s = ring[index_of(deadline)];
    if (shift != 0 && s.count != 0 && s.first_visit >> shift < number + 2) return begin_of(number, slots - 1);
    if (s.count == 1) s.first_visit = begin_of_span(s.first_visit);  // it is alone no more
    return deadline;
  }

  /// Takes over the entries of a finest slot, at most so many, whose visit is at `visit`. Returns false, and takes none, when the
  /// slot for them may be started on already, or has no chain for them: a chain gets those of one visit. O(1). Requires: the
  /// slot is less than a turn ahead, and all its entries came this way.
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

  /// Keeps the crowds of a slot together, each in its chain. Their next visit is when one of them is due, or at `latest`. They have no
  /// lead, like a lone entry.
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

  /// Returns when the slot of `e`, which was just linked, has to be started on.
  tick bring_forward(const wheel_entry& e, tick cursor) noexcept {
    const candidate changed = candidate_of(index_of(e.visit_), cursor);
    if (changed.precedes(next)) set_next(changed);
    return changed.start_by;
  }

  /// Tells when an occupied slot needs attention. A first visit in the past is that of dead links which time went over. They wait for the
  /// slot's turn; when that is now, the slot is visited now, as others in it may be due within its span.
  candidate candidate_of(unsigned index, tick cursor) const noexcept {
    const slot& s = ring[index];
    tick visit = s.first_visit;
    if (visit < cursor) visit = begin_of(cursor >> shift, (index - index_of(cursor)) & (slots - 1));
    return {visit == never ? never : keeps_together(index) ? visit : visit - lead(s.count), visit, index};
  }

  /// The next slot to be started on, seen from `cursor`. Looks at no more than `limit` occupied slots; where they do
  /// not decide, it answers when to look again.
  TICKWHEEL_OUT_OF_LINE candidate next_slot(tick cursor, unsigned limit) const noexcept {
    candidate best;
    const tick number = cursor >> shift;
    const unsigned start = index_of(cursor);
    for (unsigned steps = 0, distance = 0; distance < slots; ++distance, ++steps) {
      const unsigned gap = occupied.distance_from((start + distance) & (slots - 1));
      if (gap == slot_bitmap::none || gap >= slots - distance) break;
      distance += gap;
      // from here on no slot has to be started on earlier, as a lead is at most a slot's width
      const tick soonest = begin_of(number, distance - (shift != 0 && distance != 0));
      if (best.start_by <= soonest) break;
      if (steps >= limit) return {soonest, soonest, slot_bitmap::none};
      const candidate found = candidate_of((start + distance) & (slots - 1), cursor);
      if (found.precedes(best)) best = found;
    }
    return best;
  }

  /// Looks for `next`.
  TICKWHEEL_OUT_OF_LINE void find_next(tick cursor, unsigned limit) noexcept { set_next(next_slot(cursor, limit)); }

  /// Returns false if the level has to look again to tell which slot is next.
  bool knows_next() const noexcept { return next.index != slot_bitmap::none || next.start_by == never; }

  void set_next(const candidate& which) noexcept {
    next = which;
    const tick width = tick{1} << shift;  // a lead is at most that
    cutoff = next.start_by < never - width ? next.start_by + width : never;
    update_start_by();
  }

  /// To be called when `next` or what is being emptied has changed.
  void update_start_by() noexcept { start_by = std::min(next.start_by, emptying.due); }

  /// Makes the next slot the one being emptied, and looks for the one after it. Requires: it is known, and no drain is
  /// going on.
  void begin_emptying(tick cursor) noexcept {
    const unsigned index = next.index;
    slot& from = ring[index];
    emptying.in_step = false;
    emptying.fill(from.chains);
    emptying.at = next.visit;
    emptying.left = from.count;
    emptying.rate = std::max(pace.entries_per_tick, static_cast<std::size_t>(std::uint64_t{from.count} >> shift) + 1);
    emptying.due = emptying.due_by_pace();
    clear_slot(index);
    find_next(cursor, pace.look_ahead);
  }

  /// Takes the next slot's only entry, and looks for the slot after it; null when the entry was destroyed. Requires: the
  /// next slot is known, and has one entry.
  wheel_entry* take_lone(tick cursor) noexcept {
    const unsigned index = next.index;
    chain& only = ring[index].chains[0];
    wheel_entry* e = only.empty() ? nullptr : &only.front();
    only.clear();
    clear_slot(index);
    find_next(cursor, pace.look_ahead);
    return e;
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

  /// Gives what is left of a drain back to its slot. O(1).
  void undo_emptying() noexcept {
    if (!emptying.active()) return;
    const unsigned index = index_of(emptying.at);
    slot& to = ring[index];
    for (unsigned i = 0; i < emptying.live; ++i) to.chains[0].take_all(emptying.chains[i]);  // the first has a lone one
    to.first_visit = std::min(to.first_visit, emptying.at);
    to.count += emptying.left;
    occupied.set(index);
    undone = true;
    end_emptying();
  }

  bool being_emptied() const noexcept { return emptying.active(); }
  std::span<chain> chains_being_emptied() noexcept { return emptying.chains; }
  /// True when the next slot is to be emptied before the one that is being emptied.
  bool next_precedes_emptying() const noexcept { return next.visit < emptying.at; }

  slot_bitmap occupied;
  std::unique_ptr<slot[]> ring;
  unsigned slots = 0;
  unsigned shift = 0;   // log2 of a slot's width in ticks
  tick reach = 0;       // nothing that is less far ahead is a turn or more ahead, wherever the cursor is in its span
  tick cutoff = never;  // a slot whose visit is at or after it is not the next one to be started on
  // When it needs its next visit: to start on the next slot, or to go on with what is being emptied.
  tick start_by = never;
  candidate next;  // of the slots that are not being emptied
  // Of the ring of crowds alone.
  bool undone = false;           // what was left of a drain was given back to its slot
  std::uint32_t kept_slots = 0;  // a bit for each slot that is kept
  emptying_slot emptying;
};

}  // namespace tickwheel
