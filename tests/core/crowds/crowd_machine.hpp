// Random operations on a wheel of hundreds of timers that crowd a few slots, compared with a model.
//
// `operations.hpp` has the operations that a fuzzer spells, on few entries of any geometry. Here a seed decides. The
// deadlines are where a wheel must keep pace: in neighbouring slots of which one is crowded, in slots of the next round, and
// in the time in which a slot is emptied. With fewer entries to a tick than the library has (pace.hpp) a few are
// a crowd.
#pragma once

#include "../support/compared_wheel.hpp"

#include <cstdint>

namespace tickwheel::test {

/// Carries out `operations` operations, or a few more, on a wheel whose geometry, origin and load `seed` decides. Each
/// invariant of the wheel is checked after each of the first thousand, and after one in a thousand from then on. Then repeats
/// them without the stops of passes, but with the work bounds that end the passes there: the same callbacks run in the same order.
comparison run_crowd(std::uint64_t seed, std::uint64_t operations);

}  // namespace tickwheel::test
