// No timers at all: the cost of a workload by itself.
#pragma once

#include "../../support/connection.hpp"

#include <chrono>
#include <cstddef>
#include <optional>
#include <string_view>

namespace tickwheel::bench {

class nothing_subject {
  struct no_timer {};

 public:
  using connection = bench::connection<no_timer>;
  static constexpr std::string_view name = "nothing";

  explicit nothing_subject(std::size_t n) : connections_{n} {}

  connection& operator[](std::size_t i) const noexcept { return connections_[i]; }

  // reads the operation, just as the subjects with timers do
  void arm(connection& c, std::chrono::microseconds delay) noexcept { asm volatile("" ::"r"(&c), "r"(delay.count())); }
  bool cancel(connection&) noexcept { return true; }
  void advance_to(std::chrono::nanoseconds) noexcept {}
  void jump_to(std::chrono::nanoseconds) noexcept {}
  void run_out(std::chrono::nanoseconds) noexcept {}
  std::size_t step_out() noexcept { return 0; }
  std::optional<std::chrono::nanoseconds> due(const connection&) const noexcept { return {}; }

 private:
  connections<connection> connections_;
};

}  // namespace tickwheel::bench
