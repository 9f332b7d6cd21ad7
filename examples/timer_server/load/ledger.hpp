// The ledger of timer_load: confirmed timers, called timers, and the times without a server.
#pragma once

#include "load_options.hpp"
#include "timer_record.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace timer_load {

/// Compares what the server confirmed with the calls that came.
class ledger {
 public:
  explicit ledger(std::size_t count) : timers_(count) {}

  std::string id_of(std::size_t i) const { return run_ + '-' + std::to_string(i); }
  const timer_record& operator[](std::size_t i) const { return timers_[i]; }

  // --- requests; timer_record explains them

  void ask(std::size_t i, wall_time due, bool is_to_change) {
    timers_[i].ask(due, is_to_change);
    wait_for(due);
  }
  void ask_relative(std::size_t i, wall_time earliest, bool is_to_change) {
    timers_[i].ask_relative(earliest, is_to_change);
    wait_for(earliest);
  }
  void confirm(std::size_t i, std::optional<wall_time> due = std::nullopt) {
    confirmed_ += !timers_[i].is_confirmed();
    change(i, [&](timer_record& t) { t.confirm(due, faults_); });
    hear(now());
  }
  void ask_replacement(std::size_t i, wall_time due) {
    timers_[i].ask_replacement(due);
    wait_for(due);
  }
  void doubt(std::size_t i) { timers_[i].doubt(); }
  void answer(std::size_t i, change_answer what) {
    change(i, [&](timer_record& t) { t.answer(what); });
    hear(now());
  }

  /// A connection to the server is gone.
  void lose_server();
  /// The server has called a timer.
  void call(const call_headers&, wall_time at = now());

  std::size_t size() const { return timers_.size(); }
  std::size_t confirmed() const { return confirmed_; }
  std::size_t outages() const { return outages_.size(); }
  const fault_counts& faults() const { return faults_; }
  /// Nothing more has to happen, and for a second nothing else did.
  bool is_over() const { return is_settled() && now() > latest_ + std::chrono::seconds{1}; }

  /// Prints the table. Returns true if nothing is wrong.
  bool judge(const load_options& asked) const;

  /// Writes a line per timer: when it was due, in seconds since the first, and its lateness in milliseconds.
  bool write_points(const std::string& file) const;

 private:
  template <class F>
  void change(std::size_t i, F&& how) {
    const bool was_settled = timers_[i].is_settled();
    how(timers_[i]);
    settled_ += timers_[i].is_settled() && !was_settled;
  }
  bool is_settled() const { return settled_ == timers_.size(); }
  void wait_for(wall_time due) { latest_ = std::max(latest_, due); }
  // A server is there again.
  void hear(wall_time at) {
    if (std::exchange(is_away_, false)) outages_.back().second = at;
  }
  bool was_disturbed(const timer_record& t) const;

  const std::string run_ = "load-" + std::to_string(now().time_since_epoch().count());
  std::vector<timer_record> timers_;
  std::size_t confirmed_ = 0, settled_ = 0;
  fault_counts faults_;
  wall_time latest_{};  // due time
  std::vector<std::pair<wall_time, wall_time>> outages_;
  std::size_t early_outages_ = 0;  // while timers were scheduled
  bool is_away_ = false;
};

}  // namespace timer_load
