// Groups of entries that leave their slot: a slot that is emptied ahead of its time, and the backlog.
#pragma once

#include "chain.hpp"
#include "pace.hpp"

#include <tickwheel/core/ticks.hpp>
#include <tickwheel/core/wheel_entry.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

namespace tickwheel {

/// Several chains. Entries are taken from each chain in turn.
struct chain_group {
  static constexpr unsigned chain_count = pace.chain_count;

  /// Takes over the entries of a slot. Requires: the group is empty.
  void fill(std::span<chain, chain_count> from) noexcept {
    live = 0;
    turn = 0;
    for (chain& entries : from)
      if (!entries.empty()) chains[live++].take_all(entries);
  }

  /// Returns the chain to take the next entry from, or null if all are empty. A chain may become empty because its
  /// entries are destroyed. The last chain then moves to its place.
  chain* next_chain() noexcept {
    while (live != 0) {
      if (turn >= live) turn = 0;
      if (!chains[turn].empty()) return &chains[turn++];
      if (turn != --live) chains[turn].take_all(chains[live]);
    }
    return nullptr;
  }

  /// Takes up to `most` entries and calls `move` for each. Stops at the first entry that is due at `now`, which stays.
  /// Returns the number of entries taken. `move` must destroy no entry.
  template <class F>
  std::size_t take_until_due(std::size_t most, tick now, F&& move) noexcept {
    std::array<open_chain, chain_count> open;
    unsigned open_count = 0;
    for (unsigned i = 0; i < live; ++i)
      if (!chains[i].empty()) open[open_count++] = open_chain{chains[i]};

    std::size_t taken = 0;
    bool back = false;
    for (unsigned which = 0; taken != most && open_count != 0; ++taken) {
      if (which >= open_count) {
        which = 0;
        back = !back;
      }
      open_chain& from = open[which];
      if (from.at(back).deadline_ <= now) break;
      wheel_entry& e = from.take(back);
      if (from.empty()) {
        from.relink_ends();
        from = open[--open_count];
      } else {
        ++which;
      }
      move(e);
    }
    while (open_count != 0) open[--open_count].relink_ends();
    return taken;
  }

  std::array<chain, chain_count> chains;
  unsigned live = 0;  // only the first `live` chains may hold entries
  unsigned turn = 0;  // index of the next chain to take from
};

/// Entries that are to be visited now but must not delay other slots. They come from crowded slots whose visit the work
/// bound cut, and from crowds that were kept together. They are visited in any order.
struct backlog : chain_group {
  /// Stays false after the last entries were destroyed, until the next visit. Each advance therefore visits the
  /// backlog.
  bool empty() const noexcept { return live == 0; }

  /// Takes over `entries`. None of them is due before `earliest`. O(1).
  void add(chain& entries, tick earliest) noexcept {
    since = empty() ? earliest : std::min(since, earliest);
    if (live < chain_count)
      chains[live++].take_all(entries);
    else
      chains[turn++ % chain_count].take_all(entries);
  }

  /// Records that the work bound ended a visit to the finest slot of the cursor after `visits` visits. Returns the sum
  /// of all visits to that slot.
  std::size_t record_cut(tick cursor, std::size_t visits) noexcept {
    if (cut_at != cursor) cut_visits = 0;
    cut_at = cursor;
    return cut_visits += visits;
  }

  /// Returns true if this call visits the backlog before the slots. The order alternates from call to call.
  bool goes_first() noexcept { return was_first = !was_first; }

  tick since = never;  // no entry is due before; meaningless if the backlog is empty
  bool was_first = false;
  tick cut_at = never;  // the slot whose visit was cut last
  std::size_t cut_visits = 0;
};

}  // namespace tickwheel
