// The ledger of timer_load: confirmed timers, called timers, and the times without a server.
#pragma once

#include "load_options.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace timer_load {

using wall_time = std::chrono::sys_time<std::chrono::nanoseconds>;
inline wall_time now() { return std::chrono::system_clock::now(); }

/// A timer that is scheduled.
struct timer {
  wall_time due{};
  wall_time called_at{};  // first
  std::uint32_t calls = 0;
  bool is_confirmed = false;
};

/// Compares what the server confirmed with the calls that came.
class ledger {
 public:
  explicit ledger(std::size_t count) : timers(count) {}

  std::string id_of(std::size_t i) const { return run_ + '-' + std::to_string(i); }

  void confirm(std::size_t i) {
    confirmed += !std::exchange(timers[i].is_confirmed, true);
    hear(now());
  }
  /// A connection to the server is gone.
  void lose_server();
  /// The server has called the timer of this id.
  void call(std::string_view id);
  bool is_over() const { return confirmed == timers.size() && called == timers.size(); }
  std::size_t outages() const { return outages_.size(); }

  /// Prints the table. Returns true if nothing is wrong.
  bool judge(const load_options& asked) const;

  /// Writes a line per timer: when it was due, in seconds since the first, and its lateness in milliseconds.
  bool write_points(const std::string& file) const;

  std::vector<timer> timers;
  std::size_t confirmed = 0, called = 0, repeated = 0, early = 0;

 private:
  // A server is there again.
  void hear(wall_time at) {
    if (std::exchange(is_away_, false)) outages_.back().second = at;
  }
  bool was_disturbed(const timer& t) const;

  const std::string run_ = "load-" + std::to_string(now().time_since_epoch().count());
  std::vector<std::pair<wall_time, wall_time>> outages_;
  bool is_away_ = false;
};

}  // namespace timer_load
