// The shapes of wheels, and the ticks at which their time starts, that tests of any wheel run through.
#pragma once

#include "probe.hpp"

#include <tickwheel/core/ticks.hpp>
#include <tickwheel/core/wheel_geometry.hpp>

namespace tickwheel {

// in the namespace of the type, where GoogleTest looks for it
inline void PrintTo(const wheel_geometry& g, std::ostream* out) { *out << '{' << g.levels << ", " << g.slots << '}'; }

}  // namespace tickwheel

namespace tickwheel::test {

/// Hashed and hierarchical, tiny and large, fewer slots than a bitmap word, one word, and several summary words.
inline std::vector<wheel_geometry> all_geometries() {
  std::vector<wheel_geometry> all{{1, 8}, {1, 256}, {1, 4096}, {1, 8192}, {2, 4}, {2, 1024}, {3, 8}, {4, 16}, {7, 64}};
  if (std::find(all.begin(), all.end(), wheel_geometry{}) == all.end()) all.push_back(wheel_geometry{});
  return all;
}

/// Returns how many ticks one turn of `level` takes, or `never` if they exceed the range of a tick.
constexpr tick turn_of(const wheel_geometry& g, unsigned level) noexcept {
  const unsigned bits = g.width_bits(level) + g.slot_bits();
  return bits < 64 ? tick{1} << bits : never;
}

/// Delays at which a wheel could go wrong: around the ends of the slots and of the turns of each level.
inline std::vector<tick> delays_of_interest(const wheel_geometry& g) {
  std::vector<tick> delays{1, 2, 3};
  for (unsigned level = 0; level < g.levels; ++level) {
    const tick width = tick{1} << g.width_bits(level);
    const tick turn = turn_of(g, level);
    if (turn > (tick{1} << 56)) break;
    for (const tick edge : {width, turn / 2, turn - width, turn, turn + width, 2 * turn, 3 * turn})
      for (const tick delay : {edge - 1, edge, edge + 1})
        if (delay >= 1) delays.push_back(delay);
  }
  std::sort(delays.begin(), delays.end());
  delays.erase(std::unique(delays.begin(), delays.end()), delays.end());
  return delays;
}

/// Ticks at which the time of a wheel can start. One is arbitrary. Others are just before the turn of each level, just before a carry into
/// the upper half or the highest bit, and close to the last tick.
inline std::vector<tick> all_origins(const wheel_geometry& g) {
  std::vector<tick> all{0, 0x1234'5678'9ABC, (tick{1} << 32) - 2, (tick{1} << 63) - 3};
  for (unsigned level = 0; level < g.levels; ++level) {
    const tick turn = turn_of(g, level);
    if (turn > (tick{1} << 56)) break;
    if (level % 2 == 0 || level + 1 == g.levels) all.push_back(6 * turn - 3);
  }
  all.push_back(last_tick - 4 * delays_of_interest(g).back());
  all.push_back(last_tick - delays_of_interest(g).back());
  return all;
}

struct wheel_case {
  wheel_geometry geometry;
  tick origin;

  friend std::ostream& operator<<(std::ostream& out, const wheel_case& c) {
    return out << '{' << c.geometry.levels << ", " << c.geometry.slots << "} from " << c.origin;
  }
};

inline std::vector<wheel_case> all_cases() {
  std::vector<wheel_case> all;
  for (const wheel_geometry& geometry : all_geometries())
    for (const tick origin : all_origins(geometry)) all.push_back({geometry, origin});
  return all;
}

/// For tests that depend less on the time: an arbitrary origin, one just before the highest turn, and one near the end.
inline std::vector<wheel_case> few_cases() {
  std::vector<wheel_case> few;
  for (const wheel_geometry& geometry : all_geometries())
    for (const tick origin : {tick{0x1234'5678'9ABC}, 6 * turn_of(geometry, geometry.levels - 1) - 3,
                              last_tick - std::max<tick>(4 * delays_of_interest(geometry).back(), 4096)})
      few.push_back({geometry, origin});
  return few;
}

/// Each of `geometries` with the same origin.
inline std::vector<wheel_case> cases_from(tick origin, const std::vector<wheel_geometry>& geometries) {
  std::vector<wheel_case> cases;
  for (const wheel_geometry& geometry : geometries) cases.push_back({geometry, origin});
  return cases;
}

/// The number tells apart equal cases: the default geometry may be one of the others.
inline std::string case_name(const testing::TestParamInfo<wheel_case>& info) {
  const auto& [geometry, origin] = info.param;
  return std::to_string(geometry.levels) + "x" + std::to_string(geometry.slots) + "_from_" + std::to_string(origin) +
         "_" + std::to_string(info.index);
}

/// A test of one wheel, and of fresh ones of the same shape and origin.
class wheel_fixture : public testing::TestWithParam<wheel_case> {
 protected:
  const wheel_geometry geometry = GetParam().geometry;
  const tick origin = GetParam().origin;
  const ticks delays = delays_of_interest(geometry);
  checked_wheel timers{geometry, origin};

  /// Calls `test` with a fresh wheel and each delay of interest up to `longest`.
  template <class F>
  void for_each_delay(F&& test, tick longest = never) const {
    for (const tick delay : delays) {
      if (delay > longest) break;
      SCOPED_TRACE(delay);
      checked_wheel fresh{geometry, origin};
      test(fresh, delay);
    }
  }
};

}  // namespace tickwheel::test
