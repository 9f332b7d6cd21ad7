// The shape of a wheel: how many levels, and how many slots each.
//
// One level is Netty's hashed wheel, several are Kafka's hierarchical wheel. The default suits a server with timers
// from milliseconds to hours; docs/design.md has the measurements behind it.
//
//   tickwheel::wheel flat{tickwheel::wheel_geometry::hashed(4096)};
//   tickwheel::wheel deep{tickwheel::wheel_geometry::hierarchical(3, 1024)};
#pragma once

#include <bit>

namespace tickwheel {

/// An aggregate `{levels, slots}`. Whether a wheel can have it is what `valid()` says; for one that it cannot have `wheel`
/// stops the process, and `timer_service::open` answers UV_EINVAL.
struct wheel_geometry {
  unsigned levels = 3;    ///< at least 1
  unsigned slots = 1024;  ///< of each level; the lowest of several has twice as many

  /// One level: a timer beyond one revolution waits in its slot for its round.
  static constexpr wheel_geometry hashed(unsigned slots) noexcept { return {1, slots}; }

  /// Several levels: each slot spans half the slots of the level below it.
  static constexpr wheel_geometry hierarchical(unsigned levels, unsigned slots) noexcept { return {levels, slots}; }

  /// More slots than this a level are refused: at that size the slots no longer fit any cache.
  static constexpr unsigned max_slots = 1U << 22;

  /// log2 of the slots of a level. Requires: `valid()`.
  constexpr unsigned slot_bits() const noexcept { return static_cast<unsigned>(std::countr_zero(slots)); }

  /// log2 of the width, in ticks, of a slot of `level`. Requires: `valid()` and `level < levels`.
  ///
  /// Each ring spans two slots of the level above. That lets a coarse slot be emptied ahead of its time (docs/design.md,
  /// "Draining"). From level 1 on the ratio is slots / 2, and below it slots, because the lowest level has twice as many.
  constexpr unsigned width_bits(unsigned level) const noexcept {
    return level == 0 ? 0 : level * (slot_bits() - 1) + 1;
  }

  /// How many slots the lowest level has. Its slots are a third the size of the others.
  constexpr unsigned finest_slots() const noexcept { return levels > 1 ? 2 * slots : slots; }

  /// Returns true if a wheel can have this shape. It has at least one level. `slots` is a power of two, at least 4 where there
  /// are several levels, and at most `max_slots`. No level is so coarse that one turn of it exceeds the 64 bits of a tick.
  constexpr bool valid() const noexcept {
    if (levels == 0 || !std::has_single_bit(slots) || slots > max_slots) return false;
    if (levels == 1) return true;
    return slots >= 4 && levels <= 64 && width_bits(levels - 1) + slot_bits() <= 64;
  }

  friend bool operator==(const wheel_geometry&, const wheel_geometry&) = default;
};

}  // namespace tickwheel
