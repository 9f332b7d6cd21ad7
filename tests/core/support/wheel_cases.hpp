// The shapes of wheel, and the moments at which their time starts, that the tests of any wheel go through.
#pragma once

#include <tickwheel/core/ticks.hpp>
#include <tickwheel/core/wheel_geometry.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

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

/// How many ticks one turn of `level` takes; `never` when they fill the range of a tick.
constexpr tick turn_of(const wheel_geometry& g, unsigned level) noexcept {
  const unsigned bits = g.width_bits(level) + g.slot_bits();
  return bits < 64 ? tick{1} << bits : never;
}

/// Delays around everything at which a wheel could go wrong: the ends of the slots and of the turns of each level.
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

/// Where a wheel's time can start: nowhere special, just before the turn of each level, just before the bits of a tick
/// run out in one of its halves, and close to the last tick.
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

/// One origin in the middle of nowhere and one just before the highest turn, for tests that do not hang on the time.
inline std::vector<wheel_case> few_cases() {
  std::vector<wheel_case> few;
  for (const wheel_geometry& geometry : all_geometries())
    for (const tick origin : {tick{0x1234'5678'9ABC}, 6 * turn_of(geometry, geometry.levels - 1) - 3,
                              last_tick - std::max<tick>(4 * delays_of_interest(geometry).back(), 4096)})
      few.push_back({geometry, origin});
  return few;
}

// with the index, since the default geometry may be one of the others, and two origins of a small wheel the same
inline std::string geometry_name(const testing::TestParamInfo<wheel_geometry>& info) {
  return std::to_string(info.param.levels) + "x" + std::to_string(info.param.slots) + "_" + std::to_string(info.index);
}

inline std::string case_name(const testing::TestParamInfo<wheel_case>& info) {
  const auto& [geometry, origin] = info.param;
  return std::to_string(geometry.levels) + "x" + std::to_string(geometry.slots) + "_from_" + std::to_string(origin) +
         "_" + std::to_string(info.index);
}

}  // namespace tickwheel::test
