// When servers were gone, as the shop sees it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

/// A server as a shop knows it: the connection, and the partitions that the server last reported.
struct server_sight {
  bool is_connected = false;
  std::chrono::system_clock::time_point heard_at{};  // its last report
  std::size_t partitions = 0;                        // as it reported them

  /// A server that is stopped keeps its connection, and reports nothing.
  bool is_alive(std::chrono::system_clock::time_point now) const noexcept {
    using namespace std::chrono_literals;
    return is_connected && now - heard_at < 1s;
  }
};

/// A part of a run.
enum class run_phase { before, during, after };

/// The outages of a run. An outage begins with the last report of a server that owned partitions and is gone or silent. It ends
/// when the other servers, or the same one, report that they own all partitions.
class outage_log {
 public:
  explicit outage_log(std::size_t partitions) noexcept : partitions_{partitions} {}

  /// Checks all servers.
  void look(const std::vector<const server_sight*>& servers, std::chrono::system_clock::time_point now) {
    std::size_t owned = 0;
    is_ready_ = true;
    alive_.resize(servers.size());
    for (std::size_t i = 0; i != servers.size(); ++i) {
      const server_sight& s = *servers[i];
      const bool is_alive = s.is_alive(now);
      if (is_alive) owned += s.partitions;
      is_ready_ = is_ready_ && is_alive && s.partitions != 0;
      if (!is_alive && alive_[i].partitions != 0 && !begun_at_) begun_at_ = alive_[i].heard_at;
      alive_[i] = is_alive ? s : server_sight{};
    }
    is_ready_ = is_ready_ && owned >= partitions_;
    if (begun_at_ && owned >= partitions_) {
      outages_.push_back({*begun_at_, now});
      begun_at_.reset();
    }
  }

  /// Returns true if each server owns some partitions, and all of them are owned.
  bool is_ready() const noexcept { return is_ready_; }
  /// Returns how many outages have begun.
  std::size_t size() const noexcept { return outages_.size() + (begun_at_ ? 1 : 0); }
  /// Returns how long outage `i` was. Requires: it has ended.
  std::chrono::nanoseconds length(std::size_t i) const noexcept { return outages_[i].end - outages_[i].begin; }
  std::size_t ended() const noexcept { return outages_.size(); }

  /// Returns the phase of an order whose cancellation was possible since `since`, and came at `cancelled`. An order counts as `during`
  /// if any of that time was in an outage.
  run_phase phase_of(std::chrono::system_clock::time_point since,
                     std::chrono::system_clock::time_point cancelled) const noexcept {
    const auto overlaps = [&](const outage& o) { return since <= o.end && cancelled >= o.begin; };
    if (std::any_of(outages_.begin(), outages_.end(), overlaps)) return run_phase::during;
    if (begun_at_ && cancelled >= *begun_at_) return run_phase::during;
    return outages_.empty() || cancelled < outages_.front().begin ? run_phase::before : run_phase::after;
  }

 private:
  struct outage {
    std::chrono::system_clock::time_point begin, end;
  };

  const std::size_t partitions_;
  std::vector<server_sight> alive_;  // at the last check; without partitions: the server was not
  bool is_ready_ = false;
  std::optional<std::chrono::system_clock::time_point> begun_at_;
  std::vector<outage> outages_;
};
