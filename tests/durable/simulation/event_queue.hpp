// The queue of what happens next: messages that arrive, and whatever else has a time of its own. Events of one time keep the
// order of the calls of `at`.
#pragma once

#include "units.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace simulation {

class event_queue {
 public:
  nanos now() const noexcept { return now_; }
  /// Returns the time of the next event, or `never`.
  nanos next() const noexcept { return events_.empty() ? never : events_.front().when; }

  /// Calls `what` at `when`, or now if that has passed.
  void at(nanos when, std::function<void()> what) {
    events_.push_back({std::max(when, now_), ++last_, std::move(what)});
    std::push_heap(events_.begin(), events_.end(), is_later);
  }
  void after(nanos delay, std::function<void()> what) { at(now_ + delay, std::move(what)); }

  /// Moves the time, which no event precedes.
  void move_to(nanos when) noexcept { now_ = std::max(now_, when); }
  /// Carries out the next event.
  void step() {
    std::pop_heap(events_.begin(), events_.end(), is_later);
    event first = std::move(events_.back());
    events_.pop_back();
    move_to(first.when);
    first.what();
  }
  void clear() { events_.clear(); }

 private:
  struct event {
    nanos when;
    std::uint64_t number;
    std::function<void()> what;
  };
  static bool is_later(const event& a, const event& b) noexcept {
    return a.when != b.when ? a.when > b.when : a.number > b.number;
  }

  nanos now_ = 0;
  std::uint64_t last_ = 0;
  std::vector<event> events_;  // a heap
};

}  // namespace simulation
