// One ring of slots, and the slot of it that is being emptied.
#pragma once

#include "chain.hpp"
#include "slot_bitmap.hpp"

#include <tickwheel/core/ticks.hpp>
#include <tickwheel/core/wheel_entry.hpp>
#include <tickwheel/core/wheel_geometry.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <span>

namespace tickwheel {

/// A slot holds the entries whose visit falls into its span, in several chains that are taken from in turn: a single
/// list is walked at the pace of one cache miss after the other, several lists miss side by side.
struct wheel_level {
  static constexpr unsigned chain_count = 4;

  /// So many entries in a row go to the same chain: linking one writes to the last of its chain, which is then still in
  /// the cache.
  static constexpr unsigned entries_in_a_row = 8;
  static constexpr unsigned unlimited_slots = ~0U;

  /// What may be left in a slot that is being emptied shrinks at least so many entries a tick until its time comes. The
  /// faster, the later it is begun, and the more of what was moved down is still in the cache when it is due.
  static constexpr std::size_t entries_per_tick = 64;

  /// A visit to a slot that is emptied ahead of its time moves at least so many entries: in smaller steps the steps
  /// themselves would become wakeups.
  static constexpr std::size_t smallest_step = 128;

  struct slot {
    std::array<chain, chain_count> chains;
    tick first_visit = never;  // lower bound of its entries' visits
    std::size_t count = 0;     // upper bound of its entries: what was linked since it was last emptied
  };

  /// The slot being emptied, spliced out so that entries of a later round can go back to their slot meanwhile.
  struct drain {
    std::array<chain, chain_count> chains;
    tick at = never;       // when it must be empty; `never`: no drain is going on
    std::size_t left = 0;  // upper bound
    std::size_t rate = 1;  // at tick t, at most rate * (at - t) entries may be left
    std::size_t keep = 0;  // what the step that was begun leaves
    bool in_step = false;  // a step was begun, and the work bound was reached in it
    unsigned live = 0;     // chains that may hold entries: the first ones
    unsigned turn = 0;     // which of them is next

    bool active() const noexcept { return at != never; }
    tick attention() const noexcept { return at - left / rate; }

    /// How many entries to take at `now`: all when its time has come, else what the pace asks for. A step that was begun
    /// is finished, though its pace may allow more by now.
    std::size_t begin_step(tick now) noexcept {
      if (at <= now) {
        keep = 0;
      } else if (!in_step) {
        const tick room = at - now - 1;
        keep = room >= left / rate ? left : static_cast<std::size_t>(room) * rate;
        keep = std::min(keep, left - std::min(left, smallest_step));
      }
      in_step = true;
      return keep == 0 ? ~std::size_t{0} : left - keep;
    }

    /// The chain to take the next entry from; null when all are empty. Chains run dry, also by entries that are
    /// destroyed meanwhile; the last one then takes the place of the dry one.
    chain* next_chain() noexcept {
      while (live != 0) {
        if (turn >= live) turn = 0;
        if (!chains[turn].empty()) return &chains[turn++];
        if (turn != --live) chains[turn].take_all(chains[live]);
      }
      return nullptr;
    }

    /// Takes up to `most` entries and calls `move` for each, until it meets one that is due at `now`; that one stays.
    /// Returns how many were taken. `move` must destroy no entry.
    template <class F>
    std::size_t take_what_is_not_due(std::size_t most, tick now, F&& move) noexcept {
      std::array<open_chain, chain_count> open;
      unsigned wet = 0;
      for (unsigned i = 0; i < live; ++i)
        if (!chains[i].empty()) open[wet++] = open_chain{chains[i]};

      std::size_t taken = 0;
      bool back = false;
      for (unsigned which = 0; taken != most && wet != 0; ++taken) {
        if (which >= wet) {
          which = 0;
          back = !back;
        }
        open_chain& from = open[which];
        if (from.at(back).deadline_ <= now) break;
        wheel_entry& e = from.take(back);
        if (from.empty()) {
          from.mend();
          from = open[--wet];
        } else {
          ++which;
        }
        move(e);
      }
      while (wet != 0) open[--wet].mend();
      return taken;
    }
  };

  /// When a level needs a visit next, and which slot it is for; `index` is `slot_bitmap::none` when it only has to look
  /// again.
  struct prospect {
    tick attention = never;
    tick visit = never;
    unsigned index = slot_bitmap::none;
  };

  /// Throws std::bad_alloc.
  void reset(const wheel_geometry& geometry, unsigned level) {
    slots = geometry.slots;
    shift = geometry.width_bits(level);
    reach = tick{slots - 1} << shift;
    expect({});
    occupied.reset(slots);
    ring = std::make_unique<slot[]>(slots);
  }

  std::span<chain> chains_of(unsigned index) const noexcept { return ring[index].chains; }
  unsigned index_of(tick t) const noexcept { return static_cast<unsigned>(t >> shift) & (slots - 1); }

  /// When the span `ahead` spans after the one with the given number begins; `never` when that is beyond the last tick.
  tick begin_of(tick number, tick ahead) const noexcept {
    return ahead > (last_tick >> shift) - number ? never : (number + ahead) << shift;
  }

  /// How long before `visit` a slot of `count` entries has to be started on. At most its own width: from then on
  /// nothing is linked to it any more, and what leaves it fits the level below.
  tick lead(std::size_t count) const noexcept {
    return shift == 0 ? 0 : std::min<tick>(count / entries_per_tick, tick{1} << shift);
  }

  /// True when the slot for `deadline` is less than a turn ahead.
  bool reaches(tick deadline, tick cursor) const noexcept { return (deadline >> shift) - (cursor >> shift) < slots; }

  /// Links `e`. True when it may need attention before the next slot does: `bring_forward` is to be called then.
  bool link(wheel_entry& e, tick deadline) noexcept {
    const unsigned index = index_of(deadline);
    slot& s = ring[index];
    // An entry alone in its slot needs no visit before its deadline; with others, when the slot begins, to move down.
    const tick visit = s.count == 0 ? deadline : deadline >> shift << shift;
    e.visit_ = visit;
    s.chains[s.count / entries_in_a_row % chain_count].push_back(e);
    ++s.count;
    s.first_visit = std::min(s.first_visit, visit);
    occupied.set(index);
    return visit < close;
  }

  /// Returns when the slot of `e`, which was just linked, has to be attended to for it. (In the top level an entry of a
  /// later round also makes the slot's next round longer; its pace is then caught up with when that round begins.)
  tick bring_forward(const wheel_entry& e) noexcept {
    const unsigned index = index_of(e.visit_);
    const slot& s = ring[index];
    const tick needed = e.visit_ - lead(s.count);
    // a first visit before the slot's span is that of a dead link
    if (needed < next.attention) expect({needed, std::max(s.first_visit, e.visit_ >> shift << shift), index});
    if (needed < attention) attention = needed;
    return needed;
  }

  /// The next slot to be attended to, seen from `cursor`. Looks at no more than `limit` occupied slots; where they do
  /// not decide, it answers when to look again. (Once a slot, and not for each entry: in line it was 2 KB of code.)
  [[gnu::noinline]] prospect next_slot(tick cursor, unsigned limit) const noexcept {
    prospect best;
    const tick number = cursor >> shift;
    const unsigned start = index_of(cursor);
    for (unsigned steps = 0, distance = 0; distance < slots; ++distance, ++steps) {
      const unsigned gap = occupied.distance_from((start + distance) & (slots - 1));
      if (gap == slot_bitmap::none || gap >= slots - distance) break;
      distance += gap;
      const tick look_again = begin_of(number, distance - (shift != 0));
      if (steps >= limit)
        return best.attention <= look_again ? best : prospect{look_again, look_again, slot_bitmap::none};
      const unsigned index = (start + distance) & (slots - 1);
      // A first visit in the past is that of dead links which time went over. They wait for the slot's turn; when that
      // is now, the slot is visited now, as others in it may be due within its span.
      const slot& s = ring[index];
      tick visit = s.first_visit;
      if (visit < cursor) visit = std::max(begin_of(number, distance), cursor);
      if (visit != never && visit - lead(s.count) < best.attention) best = {visit - lead(s.count), visit, index};
      // this round: what follows is at least a slot later, and a slot's lead is at most its width
      if (visit != never && (visit >> shift) == number + distance) break;
    }
    return best;
  }

  /// Looks for `next`. Requires: no drain is going on.
  void find_next(tick cursor, unsigned limit) noexcept {
    expect(next_slot(cursor, limit));
    attention = next.attention;
  }

  void expect(const prospect& which) noexcept {
    next = which;
    const tick width = tick{1} << shift;  // a lead is at most that
    close = next.attention < never - width ? next.attention + width : never;
  }

  /// Makes the next slot the one being emptied. Requires: it is known, and no drain is going on.
  void begin_drain() noexcept {
    const unsigned index = next.index;
    slot& from = ring[index];
    draining.live = 0;
    draining.turn = 0;
    draining.in_step = false;
    for (chain& entries : from.chains)
      if (!entries.empty()) draining.chains[draining.live++].take_all(entries);
    draining.at = next.visit;
    draining.left = from.count;
    draining.rate = std::max(entries_per_tick, static_cast<std::size_t>(std::uint64_t{from.count} >> shift) + 1);
    clear_slot(index);
  }

  void clear_slot(unsigned index) noexcept {
    ring[index].first_visit = never;
    ring[index].count = 0;
    occupied.clear(index);
  }

  void end_drain() noexcept {
    draining.at = never;
    draining.left = 0;
  }

  /// Gives what is left of a drain back to its slot. O(1).
  void undo_drain() noexcept {
    if (!draining.active()) return;
    const unsigned index = index_of(draining.at);
    slot& to = ring[index];
    for (unsigned i = 0; i < draining.live; ++i) to.chains[i].take_all(draining.chains[i]);
    to.first_visit = std::min(to.first_visit, draining.at);
    to.count += draining.left;
    occupied.set(index);
    end_drain();
  }

  bool being_emptied() const noexcept { return draining.active(); }
  std::span<chain> emptying() noexcept { return draining.chains; }
  /// The latest tick by which it has to be visited: by the pace of what is being emptied, else when the next slot begins.
  tick next_visit(tick cursor) const noexcept {
    return draining.active() ? draining.attention() : next_slot(cursor, unlimited_slots).visit;
  }

  slot_bitmap occupied;
  std::unique_ptr<slot[]> ring;
  unsigned slots = 0;
  unsigned shift = 0;      // log2 of a slot's width in ticks
  tick reach = 0;          // nothing that is less far ahead is a turn or more ahead, wherever the cursor is in its span
  tick close = never;      // a slot whose visit is at or after it is not the next one to be attended to
  tick attention = never;  // when it needs its next visit; a lower bound
  prospect next;           // of the slots that are not being emptied; found anew when that is done
  drain draining;
};

}  // namespace tickwheel
