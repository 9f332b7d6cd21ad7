// A timer that can be asked whether and when it fired.
#pragma once

#include <tickwheel/core/wheel.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tickwheel::test {

/// Notes the tick of each of its expiries, then does what it was told to. Like any owner of a bare entry it cancels
/// before it goes.
class probe : public wheel_entry {
 public:
  using action = std::function<void(probe&)>;

  explicit probe(wheel& timers, action then = {})
      : wheel_entry{[](wheel_entry& e) noexcept { static_cast<probe&>(e).run(); }},
        timers_{&timers},
        then_{std::move(then)} {}

  ~probe() {
    if (armed()) timers_->cancel(*this);
  }

  void then(action next) { then_ = std::move(next); }

  wheel& timers() const noexcept { return *timers_; }
  std::size_t fired() const noexcept { return fired_at_.size(); }
  const std::vector<tick>& fired_at() const noexcept { return fired_at_; }

 private:
  void run() {
    fired_at_.push_back(timers_->now());
    const action next = then_;  // a copy, which lives on when the action destroys this
    if (next) next(*this);
  }

  wheel* timers_;
  action then_;
  std::vector<tick> fired_at_;
};

/// `count` probes of one wheel; their addresses stay.
class probes {
 public:
  probes(wheel& timers, std::size_t count, const probe::action& then = {}) {
    for (std::size_t i = 0; i < count; ++i) all_.emplace_back(timers, then);
  }

  probe& operator[](std::size_t i) { return all_[i]; }
  auto begin() { return all_.begin(); }
  auto end() { return all_.end(); }
  std::size_t size() const noexcept { return all_.size(); }

  /// Expiries of all of them.
  std::size_t fired() const noexcept {
    std::size_t sum = 0;
    for (const probe& p : all_) sum += p.fired();
    return sum;
  }

 private:
  std::deque<probe> all_;
};

/// EXPECT_TRUE(valid(timers)) says which invariant broke.
inline testing::AssertionResult valid(const wheel& timers) {
  std::string why;
  if (timers.validate(&why)) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "at tick " << timers.now() << ": " << why;
}

/// Advances as an event loop does, no farther than `until` and from one `next_expiry` to the next. Returns the number
/// of wakeups that took.
inline std::size_t run_until(wheel& timers, tick until) {
  std::size_t wakeups = 0;
  for (tick next; (next = timers.next_expiry()) <= until; ++wakeups) {
    timers.advance(next);
    if (timers.now() == last_tick) break;
  }
  timers.advance(until);
  return wakeups;
}

}  // namespace tickwheel::test
