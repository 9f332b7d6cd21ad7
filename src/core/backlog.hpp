// Many entries that leave their slot: one that is emptied ahead of its time, or the rest of slots that were cut short.
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

/// Several chains, which are taken from in turn.
struct chain_group {
  static constexpr unsigned chain_count = pace.chain_count;

  /// Takes over the entries of a slot. Requires: empty.
  void fill(std::span<chain, chain_count> from) noexcept {
    live = 0;
    turn = 0;
    for (chain& entries : from)
      if (!entries.empty()) chains[live++].take_all(entries);
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
  unsigned live = 0;  // chains that may hold entries: the first ones
  unsigned turn = 0;  // which of them is next
};

/// Entries that are to be visited now and do not keep slots waiting: the rest of crowded slots whose visit the work bound has cut, and
/// crowds that were kept together. They are visited in any order.
struct backlog : chain_group {
  /// Returns false also when its last entries were destroyed, until it is visited: each advance asks.
  bool empty() const noexcept { return live == 0; }

  /// Takes over `entries`, of which none is due before `earliest`. O(1).
  void add(chain& entries, tick earliest) noexcept {
    since = empty() ? earliest : std::min(since, earliest);
    if (live < chain_count)
      chains[live++].take_all(entries);
    else
      chains[turn++ % chain_count].take_all(entries);
  }

  /// Notes that the work bound was reached after so many visits to the finest slot of the cursor. Returns how many that slot had
  /// in all.
  std::size_t record_cut(tick cursor, std::size_t visits) noexcept {
    if (cut_at != cursor) cut_visits = 0;
    cut_at = cursor;
    return cut_visits += visits;
  }

  /// Returns true if the backlog goes before the slots. They alternate from call to call.
  bool goes_first() noexcept { return was_first = !was_first; }

  tick since = never;  // nothing in it is due before; meaningless when it is empty
  bool was_first = false;
  tick cut_at = never;  // the slot whose visit was cut last
  std::size_t cut_visits = 0;
};

}  // namespace tickwheel
