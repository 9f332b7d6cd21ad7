// The shape of a wheel: the number of levels, and the number of slots of each.
//
// One level is Netty's hashed wheel. Several levels are Kafka's hierarchical wheel. The default suits a server with
// timers from milliseconds to hours; docs/design.md has the measurements.
//
//   tickwheel::wheel flat{tickwheel::wheel_geometry::hashed(4096)};
//   tickwheel::wheel deep{tickwheel::wheel_geometry::hierarchical(3, 1024)};
#pragma once

#include <bit>

namespace tickwheel {

/// An aggregate `{levels, slots}`. `valid()` tells whether a wheel can have this shape. With an invalid geometry
/// `wheel` stops the process, and `timer_service::open` returns UV_EINVAL.
struct wheel_geometry {
  unsigned levels = 3;    ///< at least 1
  unsigned slots = 1024;  ///< slots of each level; the lowest of several levels has twice as many

  /// One level. A timer that is more than one turn away waits in its slot for its round.
  static constexpr wheel_geometry hashed(unsigned slots) noexcept { return {1, slots}; }

  /// Several levels. Each slot spans half the slots of the level below it.
  static constexpr wheel_geometry hierarchical(unsigned levels, unsigned slots) noexcept { return {levels, slots}; }

  /// The largest number of slots of a level. More slots would not fit any cache.
  static constexpr unsigned max_slots = 1U << 22;

  /// Returns log2 of the slots of a level. Requires: `valid()`.
  constexpr unsigned slot_bits() const noexcept { return static_cast<unsigned>(std::countr_zero(slots)); }

  /// Returns log2 of the width of a slot of `level`, in ticks. Requires: `valid()` and `level < levels`.
  ///
  /// Each ring spans two slots of the level above. So a coarse slot can be emptied ahead of its time (docs/design.md,
  /// "Emptying"). From level 1 on the ratio is slots / 2. Below level 1 it is slots, because the lowest level has twice
  /// as many.
  constexpr unsigned width_bits(unsigned level) const noexcept {
    return level == 0 ? 0 : level * (slot_bits() - 1) + 1;
  }

  /// Returns the number of slots of the lowest level. Those slots are a third of the size of the others.
  constexpr unsigned finest_slots() const noexcept { return levels > 1 ? 2 * slots : slots; }

  /// Returns true if a wheel can have this shape. It must have at least one level. `slots` must be a power of two: at most
  /// `max_slots`, and at least 4 if there are several levels. One turn of the highest level must fit the 64 bits of a
  /// tick.
  constexpr bool valid() const noexcept {
    if (levels == 0 || !std::has_single_bit(slots) || slots > max_slots) return false;
    if (levels == 1) return true;
    return slots >= 4 && levels <= 64 && width_bits(levels - 1) + slot_bits() <= 64;
  }

  /// Compares levels and slots.
  friend bool operator==(const wheel_geometry&, const wheel_geometry&) = default;
};

}  // namespace tickwheel
