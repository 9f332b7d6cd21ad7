// Lets callgrind count operations one by one, in windows. cost_model uses it in place of an op_barrier.
//
// To count every operation would take hours. A window is one millisecond in sixteen. So work that wheels do rarely, and loops do each
// millisecond, is counted as often as it happens.
#pragma once

#include "../../support/connection.hpp"

#include <valgrind/callgrind.h>

#include <cstddef>

namespace tickwheel::bench {

/// *Thread safety:* none; the benchmarks have one thread.
struct callgrind_window {
  /// callgrind simulates a first-level cache of this geometry.
  static constexpr std::size_t line = 64, ways = 8, cache = std::size_t{32} << 10;

  /// Begins the operations. `window` of them are counted, then the next 15 times as many are not.
  static void begin(std::size_t window) noexcept {
    length = window;
    at = operations = 0;
    open();
  }

  static void end_operation() noexcept {
    if (at < length) {
      CALLGRIND_TOGGLE_COLLECT;
      ++operations;
    }
    ++at;
    if (at < length) {
      start();
    } else if (at == length) {
      fires += expired.count - fires_before;
      CALLGRIND_STOP_INSTRUMENTATION;
    } else if (at == length * 16) {
      at = 0;
      open();
    }
  }

  static void end() noexcept {
    if (at >= length) return;
    CALLGRIND_TOGGLE_COLLECT;
    CALLGRIND_STOP_INSTRUMENTATION;
  }

  /// Returns how many were counted, and how many timers expired in them.
  static inline std::size_t operations = 0, fires = 0;

 private:
  static void open() noexcept {
    fires_before = expired.count;
    CALLGRIND_START_INSTRUMENTATION;
    start();
  }

  // An operation begins with only the stack in the first-level cache. So each miss is a line that it touches.
  static void start() noexcept {
    for (std::size_t i = 0; i < cache; i += line) evicting[i] = 0;
    warm_stack();
    CALLGRIND_TOGGLE_COLLECT;
  }

  [[gnu::noinline]] static void warm_stack() noexcept {
    constexpr std::size_t deep_enough = 4096;
    [[maybe_unused]] volatile char frames[deep_enough];
    for (std::size_t i = 0; i < deep_enough; i += line) frames[i] = 0;
  }

  alignas(line) static inline volatile char evicting[cache];
  static inline std::size_t length = 0, at = 0, fires_before = 0;
};

}  // namespace tickwheel::bench
