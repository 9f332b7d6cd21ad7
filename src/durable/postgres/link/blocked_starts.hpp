// The tasks whose starts wait for a lock that another client holds.
#pragma once

#include <tickwheel/uv/driver.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <unordered_map>

namespace tickwheel::durable::postgres {

/// Each is tried again after a pause of its own, which grows. A start in a batch would wait in vain, and delay the others.
class blocked_starts {
 public:
  using steady_time = tickwheel::clock::time_point;

  /// The start of this task has waited for a lock in vain.
  void add(const std::string& id, steady_time now) {
    if (starts_.size() >= most) starts_.clear();
    blocked& one = starts_[id];
    one.pause = std::clamp(one.pause * 2, first_pause, longest_pause);
    one.until = now + one.pause;
  }
  /// It has started.
  void remove(const std::string& id) { starts_.erase(id); }
  /// Returns true during a pause.
  bool holds(const std::string& id, steady_time now) const {
    const auto known = starts_.find(id);
    return known != starts_.end() && now < known->second.until;
  }

 private:
  struct blocked {
    std::chrono::nanoseconds pause{};
    steady_time until{};
  };
  static constexpr std::size_t most = 10'000;
  static constexpr std::chrono::nanoseconds first_pause = std::chrono::milliseconds{500};
  static constexpr std::chrono::nanoseconds longest_pause = std::chrono::seconds{5};

  std::unordered_map<std::string, blocked> starts_;
};

}  // namespace tickwheel::durable::postgres
