// Allocates and frees the slots of a wheel. That happens once per wheel, so this file is compiled for size.
#include "hierarchy.hpp"

#include <algorithm>
#include <memory>

namespace tickwheel {

void finest_level::reset(unsigned slot_count) {
  slots = slot_count;
  mask = slots - 1;
  reach = mask;
  occupied.reset(slots);
  ring = std::make_unique<slot[]>(slots);
}

void wheel_level::reset(unsigned slot_count, unsigned width_bits) {
  slots = slot_count;
  mask = slots - 1;
  shift = width_bits;
  span_bits = ~tick{0} << shift;
  index_bits = mask << shift;
  rotation = static_cast<int>(shift) - slot_bits;
  reach = shift == 0 || slots == 1 ? 0 : (tick{slots - 1} << shift) - 1;  // no deadline: `link_far` knows more
  sparse = shift == 0 ? 1 : pace.sparse;
  set_next({});
  occupied.reset(slots);
  ring = std::make_unique<slot[]>(slots);
}

hierarchy::hierarchy(const wheel_geometry& geometry)
    : first{geometry.levels > 1 ? 1U : 0U}, count{geometry.levels}, coarse{std::make_unique<wheel_level[]>(count)} {
  if (first != 0) {
    finest.reset(geometry.finest_slots());
    crowds().reset(
        16, geometry.slot_bits() - 2);  // a slot is an eighth of a turn of the finest level; the ring spans two turns
  }
  for (unsigned k = first; k < count; ++k) coarse[k].reset(geometry.slots, geometry.width_bits(k));
  lowest = &coarse[first];
  lowest->reach -= std::min(lowest->reach, finest.reach);
  highest = &coarse[count - 1];
}

hierarchy::~hierarchy() = default;

}  // namespace tickwheel
