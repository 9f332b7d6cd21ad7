// The constants that control how a wheel spreads its work.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tickwheel {

struct wheel_pace {
  /// A slot that is being emptied loses at least this many entries per tick until its time comes. A faster pace starts
  /// later, so that more of the moved entries are still in the cache when they are due. A dense slot has a slower pace.
  std::size_t entries_per_tick = 64;

  /// Each visit to a slot that is emptied ahead of its time moves at least this many entries. Smaller steps would
  /// themselves become wakeups. A dense slot has smaller steps.
  std::size_t smallest_step = 128;

  /// A level examines at most this many occupied slots to find its next visit. If they do not decide, it examines more
  /// slots later. A level of at most this many slots always knows its next visit.
  unsigned look_ahead = 64;

  /// Number of lists in a slot of a coarse level.
  unsigned chain_count = 4;

  /// A slot whose time has come is crowded after this many visits. If the work bound then cuts the visit, the rest of
  /// the slot moves to the backlog. The number is not smaller, because a slot with a few entries must not wait behind a
  /// crowd.
  std::size_t crowd = 1024;

  /// A finest slot with this many entries gives them to the ring of crowds.
  std::uint32_t finest_crowd = 8192;

  /// Interval at which the wheel checks a sample of a waiting crowd for entries that were cancelled or moved later.
  std::uint64_t ticks_between_samples = 32;

  /// A slot is dense if it has at least as many entries as ticks. Timers expire in nearly every tick then, so small steps
  /// cause no wakeups. A dense slot loses this many entries per tick for each whole entry per tick that it has.
  std::size_t dense_factor = 8;

  /// A dense slot loses at least this many entries per tick, and never more than `entries_per_tick`.
  std::size_t dense_entries_per_tick = 32;

  /// The smallest step of a dense slot, once it is under way.
  std::size_t dense_step = 64;

  /// The first step of a dense slot, when nothing of it is in the cache. Each further one is longer by as many, up to
  /// `dense_step`.
  std::size_t dense_first_step = 16;

  /// A dense slot is started this many ticks before its pace requires it. So the visit that starts it takes no step: it
  /// fetches the ends of its chains, and finds the slot after it.
  std::uint64_t head_start = 2;

  /// A slot with at most so many entries is sparse. It is visited when the first of them is due. A visit that only moved
  /// them down would be a wakeup for few of them.
  std::size_t sparse = 8;

  /// A sweep counts a slot with armed entries as so many entries: it looks at the first entry of each list, which is
  /// seldom in the cache.
  std::size_t armed_slot = 8;
};

// Tests also compile the wheel with other constants, so that a few entries are a crowd. They count the slots it
// examines.
#ifdef TICKWHEEL_TEST_PACE
inline constexpr wheel_pace pace TICKWHEEL_TEST_PACE;
inline std::size_t examined = 0;  // slots and words of bitmaps
inline void count_examined() noexcept { ++examined; }
#else
inline constexpr wheel_pace pace;
inline void count_examined() noexcept {}
#endif

}  // namespace tickwheel
