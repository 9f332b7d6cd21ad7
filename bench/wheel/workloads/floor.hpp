// Measures the cost of memory itself: connections as in the subjects, without timers. No timer can cost less than a visit of its own
// line.
//
// Names are floor/pattern/N. The visit of a connection is an item.
//
//   store          stores to a line of a random connection, as touch draws them
//   store_each     the same, each connection once, in random order, as in arm
//   update         loads, changes and stores, at random
//   array          the same, each once, in the order of allocation, prefetched
//   chase          each once, in random order; each line has the address of the next one
//   store_fenced   store, with a barrier after each: see op_barrier.hpp
//   fence          nothing, each by itself: the cost of the fence only; N is 1
#pragma once

#include "../../support/connection.hpp"
#include "../experiment/experiment.hpp"
#include "../experiment/op_barrier.hpp"
#include "../experiment/script.hpp"
#include "../experiment/workload.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tickwheel::bench {

/// The member of a connection in place of a timer, on the same line.
struct plain_line {
  plain_line* next = nullptr;
  std::uint64_t value = 0;
};

/// Connections, and the order in which a pattern visits them. The steps are those of the workloads, so reading them costs the same.
struct visits {
  using connection = bench::connection<plain_line>;

  explicit visits(std::size_t n) : all{n} {}

  /// Draws connections as touch does.
  void draw() {
    script_writer writer{all.size(), {}};
    steps.reserve(operations_per_run);
    for (std::size_t i = 0; i < operations_per_run; ++i) add(writer.draw_connection(std::chrono::nanoseconds{}));
  }
  /// Takes each connection once, as arm does.
  void shuffle() {
    script_writer writer{all.size(), {}};
    steps.reserve(all.size());
    for (const std::uint32_t c : writer.shuffled()) add(c);
  }
  void add(std::uint32_t c) { steps.push_back({&all[c], 0}); }

  connections<connection> all;
  std::vector<step<connection>> steps;
};

// A pattern has a `name`, `prepare(visits&)`, and the timed `run(visits&, pass)` with the passes 1, 2 and so on. `right(visits&, passes)`
// returns whether each visit left the trace that it should.

template <class OpBarrier>
struct store_visit {
  static constexpr std::string_view name = "store";
  static void prepare(visits& v) { v.draw(); }
  static void run(visits& v, std::uint64_t pass) {
    for (const auto& s : v.steps) {
      s.to->value = pass;
      OpBarrier::end_operation();
    }
  }
  static bool right(const visits& v, std::uint64_t passes) {
    return std::all_of(v.steps.begin(), v.steps.end(), [&](const auto& s) { return s.to->value == passes; });
  }
};
using floor_store = store_visit<adjacent>;

struct floor_store_fenced : store_visit<isolated> {
  static constexpr std::string_view name = "store_fenced";
};

struct floor_store_each : store_visit<adjacent> {
  static constexpr std::string_view name = "store_each";
  static void prepare(visits& v) { v.shuffle(); }
};

struct floor_update {
  static constexpr std::string_view name = "update";
  static void prepare(visits& v) { v.draw(); }
  static void run(visits& v, std::uint64_t) {
    for (const auto& s : v.steps) {
      ++s.to->value;
      adjacent::end_operation();
    }
  }
  static bool right(const visits& v, std::uint64_t passes) {
    std::uint64_t sum = 0;
    for (const auto& c : v.all) sum += c->value;
    return sum == passes * v.steps.size();
  }
};

struct floor_array : floor_update {
  static constexpr std::string_view name = "array";
  static constexpr std::size_t ahead = 16;
  static void prepare(visits& v) {
    v.steps.reserve(v.all.size());
    for (std::uint32_t c = 0; c < v.all.size(); ++c) v.add(c);
  }
  static void run(visits& v, std::uint64_t) {
    const std::size_t n = v.steps.size();
    for (std::size_t i = 0; i < n; ++i) {
      __builtin_prefetch(v.steps[std::min(i + ahead, n - 1)].to, 1);
      ++v.steps[i].to->value;
      adjacent::end_operation();
    }
  }
};

struct floor_chase {
  static constexpr std::string_view name = "chase";
  static void prepare(visits& v) {
    v.shuffle();
    for (std::size_t i = 0; i < v.steps.size(); ++i) v.steps[i].to->next = v.steps[(i + 1) % v.steps.size()].to;
  }
  // It does not read the steps: the end of the chase shows whether it went all the way round.
  static void run(visits& v, std::uint64_t pass) {
    plain_line* at = v.steps.front().to;
    for (std::size_t i = 1; i < v.steps.size(); ++i) at = at->next;
    at->value = pass;
  }
  static bool right(const visits& v, std::uint64_t passes) { return v.steps.back().to->value == passes; }
};

struct floor_fence {
  static constexpr std::string_view name = "fence";
  static void prepare(visits& v) { v.steps.resize(1000); }
  static void run(visits& v, std::uint64_t) {
    for (std::size_t i = 0; i < v.steps.size(); ++i) isolated::end_operation();
  }
  static bool right(const visits&, std::uint64_t) { return true; }
};

}  // namespace tickwheel::bench
