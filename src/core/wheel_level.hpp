// One ring of slots, and the slot of it that is being emptied.
#pragma once

#include "slot_bitmap.hpp"

#include <tickwheel/core/ticks.hpp>
#include <tickwheel/core/wheel_entry.hpp>
#include <tickwheel/core/wheel_geometry.hpp>

#include <boost/intrusive/list.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>

namespace tickwheel {

/// A slot holds the entries whose visit falls into its span. Entries go to its chains in turn and are taken from them
/// in turn: a single list is walked at the pace of one cache miss after the other, several lists miss side by side.
struct wheel_level {
  using chain =
      boost::intrusive::list<wheel_entry,
                             boost::intrusive::member_hook<wheel_entry, wheel_entry::hook, &wheel_entry::link_>,
                             boost::intrusive::constant_time_size<false>>;

  static constexpr unsigned max_chains = 8;

  /// What may be left in a slot that is being emptied shrinks at least so many entries a tick until its time comes. At
  /// the default tick that is 128 a millisecond, the step in which libuv wakes us.
  static constexpr std::size_t entries_per_tick = 16;

  struct slot {
    tick first_visit = never;  // lower bound of its entries' visits
    std::size_t count = 0;     // upper bound of its entries: what was linked since it was last emptied
  };

  /// The slot being emptied, spliced out so that entries of a later round can go back to their slot meanwhile.
  struct drain {
    std::array<chain, max_chains> chains;
    tick at = never;       // when it must be empty; `never`: no drain is going on
    std::size_t left = 0;  // upper bound
    std::size_t rate = 1;  // at tick t, at most rate * (at - t) entries may be left
    std::size_t keep = 0;  // what the step that was begun leaves
    bool in_step = false;  // a step was begun, and the work bound was reached in it
    unsigned live = 0;     // chains that may hold entries: the first ones
    unsigned turn = 0;     // which of them is next

    /// The chain to take the next entry from; null when all are empty. Chains run dry, also by entries that are
    /// destroyed meanwhile; the last one then takes the place of the dry one.
    chain* next_chain() noexcept {
      while (live != 0) {
        if (turn >= live) turn = 0;
        if (!chains[turn].empty()) return &chains[turn++];
        if (turn != --live) splice_all(chains[turn], chains[live]);
      }
      return nullptr;
    }

    bool active() const noexcept { return at != never; }
    tick attention() const noexcept { return at - left / rate; }
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
    // in the finest of several levels entries arrive shortly before they are due and are still in the cache
    chain_bits = level == 0 && geometry.levels > 1 ? 1 : 3;
    occupied.reset(slots);
    info = std::make_unique<slot[]>(slots);
    lists = std::make_unique<chain[]>(std::size_t{slots} << chain_bits);
  }

  unsigned chains() const noexcept { return 1U << chain_bits; }
  chain* chains_of(unsigned index) const noexcept { return &lists[std::size_t{index} << chain_bits]; }
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

  /// Links `e`; returns when its slot has to be attended to for it. (In the top level an entry of a later round also
  /// makes the slot's next round longer; its pace is then caught up with when that round begins.)
  tick link(wheel_entry& e, tick deadline, unsigned turn) noexcept {
    const unsigned index = index_of(deadline);
    slot& s = info[index];
    // An entry alone in its slot needs no visit before its deadline; with others, when the slot begins, to move down.
    e.visit_ = s.count == 0 ? deadline : deadline >> shift << shift;
    chains_of(index)[turn & (chains() - 1)].push_back(e);
    occupied.set(index);
    s.first_visit = std::min(s.first_visit, e.visit_);
    const tick attention = e.visit_ - lead(++s.count);
    // a first visit before the slot's span is that of a dead link
    if (attention < next.attention) next = {attention, std::max(s.first_visit, e.visit_ >> shift << shift), index};
    return attention;
  }

  /// The next slot to be attended to, seen from `cursor`. Looks at no more than `limit` occupied slots; where they do
  /// not decide, it answers when to look again.
  prospect next_slot(tick cursor, unsigned limit) const noexcept {
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
      tick visit = info[index].first_visit;
      if (visit < cursor) visit = std::max(begin_of(number, distance), cursor);
      if (visit != never && visit - lead(info[index].count) < best.attention)
        best = {visit - lead(info[index].count), visit, index};
      // this round: what follows is at least a slot later, and a slot's lead is at most its width
      if (visit != never && (visit >> shift) == number + distance) break;
    }
    return best;
  }

  /// Looks for `next`; returns when it needs attention.
  tick find_next(tick cursor, unsigned limit) noexcept {
    next = next_slot(cursor, limit);
    return next.attention;
  }

  /// Makes the next slot the one being emptied. Requires: it is known, and no drain is going on.
  void begin_drain() noexcept {
    const unsigned index = next.index;
    chain* from = chains_of(index);
    draining.live = 0;
    draining.turn = 0;
    draining.in_step = false;
    for (unsigned i = 0; i < chains(); ++i)
      if (!from[i].empty()) splice_all(draining.chains[draining.live++], from[i]);
    const std::size_t count = info[index].count;
    draining.at = next.visit;
    draining.left = count;
    draining.rate = std::max(entries_per_tick, static_cast<std::size_t>(std::uint64_t{count} >> shift) + 1);
    info[index] = {};
    occupied.clear(index);
  }

  void end_drain() noexcept {
    draining.at = never;
    draining.left = 0;
  }

  /// Gives what is left of a drain back to its slot. O(1).
  void undo_drain() noexcept {
    const unsigned index = index_of(draining.at);
    chain* to = chains_of(index);
    for (unsigned i = 0; i < draining.live; ++i) splice_all(to[i], draining.chains[i]);
    info[index].first_visit = std::min(info[index].first_visit, draining.at);
    info[index].count += draining.left;
    occupied.set(index);
    end_drain();
  }

  static void splice_all(chain& to, chain& from) noexcept { to.splice(to.end(), from); }

  slot_bitmap occupied;
  std::unique_ptr<slot[]> info;
  std::unique_ptr<chain[]> lists;
  unsigned slots = 0;
  unsigned shift = 0;  // log2 of a slot's width in ticks
  unsigned chain_bits = 0;
  prospect next;  // of the slots that are not being emptied; found anew when that is done
  drain draining;
};

}  // namespace tickwheel
