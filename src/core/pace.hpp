// The constants by which a wheel spreads its work.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tickwheel {

struct wheel_pace {
  /// What may be left in a slot that is being emptied shrinks at least so many entries a tick until its time comes. The
  /// faster, the later it is begun, and the more of what was moved down is still in the cache when it is due.
  std::size_t entries_per_tick = 64;

  /// A visit to a slot that is emptied ahead of its time moves at least so many entries: in smaller steps the steps
  /// themselves would become wakeups.
  std::size_t smallest_step = 128;

  /// How many occupied slots a level looks at to find its next visit before it settles for "look again then". A level of
  /// up to so many slots always knows.
  unsigned look_ahead = 64;

  /// The lists of a slot of a coarse level.
  unsigned chain_count = 4;

  /// A slot whose time has come counts as crowded after so many visits. If the work bound then cuts the visit, the rest of the
  /// slot leaves the way of later slots. It is no fewer, because a slot with a few entries is not to wait behind a crowd.
  std::size_t crowd = 1024;

  /// A slot of the finest level that has got so many entries gives them to the ring of crowds.
  std::uint32_t finest_crowd = 8192;

  /// How often the wheel looks at a sample of a crowd that waits, to see whether it is as due as it was.
  std::uint64_t ticks_between_samples = 32;
};

// Tests also compile the wheel with other constants, so that a few entries crowd a slot, and count what it looks at.
#ifdef TICKWHEEL_TEST_PACE
inline constexpr wheel_pace pace TICKWHEEL_TEST_PACE;
inline std::size_t examined = 0;  // at slots and at words of bitmaps
inline void count_examined() noexcept { ++examined; }
#else
inline constexpr wheel_pace pace;
inline void count_examined() noexcept {}
#endif

}  // namespace tickwheel
