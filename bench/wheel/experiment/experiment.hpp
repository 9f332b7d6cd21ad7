// One run of one workload with one subject, from unarmed connections to the outcome.
#pragma once

#include "../../support/connection.hpp"
#include "script.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tickwheel::bench {

/// An operation that knows the connection's address, as an I/O handler does. Looking it up by number would charge every
/// subject with one more cache miss.
template <class Connection>
struct step {
  Connection* to;
  std::uint32_t delay_us;

  bool heads() const noexcept { return delay_us % 2 != 0; }
  std::chrono::microseconds delay() const noexcept { return std::chrono::microseconds{delay_us}; }
};

/// Requires, throughout its life: a `simulated_clock::scope`.
template <class S>
struct experiment {
  using step = bench::step<typename S::connection>;

  experiment(const script& what, std::size_t connections) : plan{what}, subject(connections) { expired = {}; }

  std::vector<step> steps_of(const std::vector<operation>& operations) {
    std::vector<step> steps;
    steps.reserve(operations.size());
    for (const operation& o : operations) steps.push_back({&subject[o.connection], o.delay_us});
    return steps;
  }

  /// Records the timers that have expired by now.
  void mark() noexcept {
    seen.expired_sum = expired.sum;
    seen.mark();
  }

  /// Returns the outcome. Subjects round time differently, by at most `rounding`. Within that they agree.
  outcome result() {
    constexpr std::chrono::milliseconds rounding{3};
    outcome out = seen;
    out.expired = expired.count;
    out.expired_sum = expired.sum;
    out.mark();  // the end
    for (std::size_t i = 0; i < plan.left.size(); ++i) {
      const auto due = subject.due(subject[i]);
      const bool agrees = due && plan.left[i] && std::chrono::abs(*due - *plan.left[i]) <= rounding;
      out.left_sum += mix_due(i, agrees ? plan.left[i] : due);
    }
    return out;
  }

  const script& plan;
  S subject;
  std::chrono::nanoseconds now{};
  std::vector<step> timed;
  outcome seen;
};

}  // namespace tickwheel::bench
