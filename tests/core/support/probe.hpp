// Timers that can be asked whether and when they fired, and the steps that many tests of a wheel share.
#pragma once

#include <tickwheel/core/wheel.hpp>

#include "../../support/prelude.hpp"

#include <initializer_list>

namespace tickwheel {

// in the namespace of the type, where GoogleTest looks for them
constexpr bool operator==(const advance_result& a, const advance_result& b) noexcept {
  return a.ran == b.ran && a.done == b.done;
}
inline void PrintTo(const advance_result& r, std::ostream* out) {
  *out << r.ran << " ran" << (r.done ? "" : ", not done");
}

}  // namespace tickwheel

namespace tickwheel::test {

constexpr advance_result ran(std::size_t count) noexcept { return {count, true}; }
constexpr advance_result cut_after(std::size_t count) noexcept { return {count, false}; }

using ticks = std::vector<tick>;

/// Records the tick of each of its expiries, then calls its action. Cancels itself when it is destroyed.
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

  std::size_t fired() const noexcept { return fired_at_.size(); }
  const ticks& fired_at() const noexcept { return fired_at_; }

 private:
  void run() {
    fired_at_.push_back(timers_->now());
    const action next = then_;  // a copy, which lives on when the action destroys this
    if (next) next(*this);
  }

  wheel* timers_;
  action then_;
  ticks fired_at_;
};

/// Counts its expiries. Small enough for a million of them.
class counter : public wheel_entry {
 public:
  explicit counter(wheel&) noexcept : wheel_entry{[](wheel_entry& e) noexcept { ++static_cast<counter&>(e).fired_; }} {}
  std::size_t fired() const noexcept { return fired_; }

 private:
  std::size_t fired_ = 0;
};

/// Entries of one wheel. Their addresses stay. The group cancels them before it destroys them.
template <class Entry>
class group {
 public:
  template <class... Then>
  group(wheel& timers, std::size_t count, const Then&... then) : timers_{timers} {
    for (; count != 0; --count) all_.emplace_back(timers, then...);
  }
  ~group() { cancel(); }
  group(const group&) = delete;
  group& operator=(const group&) = delete;

  /// Arms all entries, in turn for each of `width` ticks from `first` on.
  void arm(tick first, tick width = 1) {
    for (std::size_t i = 0; i < size(); ++i) timers_.arm(all_[i], first + i % width);
  }
  /// Arms all entries, in turn for each of `delays` after `origin`.
  void arm(tick origin, const ticks& delays) {
    for (std::size_t i = 0; i < size(); ++i) timers_.arm(all_[i], origin + delays[i % delays.size()]);
  }
  /// Cancels the armed entries from number `first` on, every `step`-th.
  void cancel(std::size_t first = 0, std::size_t step = 1) {
    for (std::size_t i = first; i < size(); i += step)
      if (all_[i].armed()) timers_.cancel(all_[i]);
  }
  void destroy() {
    cancel();
    all_.clear();
  }

  Entry& operator[](std::size_t i) { return all_[i]; }
  auto begin() { return all_.begin(); }
  auto end() { return all_.end(); }
  std::size_t size() const noexcept { return all_.size(); }

  /// Returns the sum of all expiries.
  std::size_t fired() const noexcept {
    std::size_t sum = 0;
    for (const Entry& e : all_) sum += e.fired();
    return sum;
  }
  /// Returns how many entries fired exactly once.
  std::size_t fired_once() const noexcept {
    return static_cast<std::size_t>(
        std::count_if(all_.begin(), all_.end(), [](const Entry& e) { return e.fired() == 1; }));
  }

 private:
  wheel& timers_;
  std::deque<Entry> all_;
};

using probes = group<probe>;
using counters = group<counter>;

inline void clear(wheel& timers) {
  timers.clear([](wheel_entry&) noexcept {});
}

/// EXPECT_TRUE(valid(timers)) says which invariant broke.
inline testing::AssertionResult valid(const wheel& timers) {
  std::string why;
  if (timers.validate(&why)) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "at tick " << timers.now() << ": " << why;
}

/// A wheel that checks its invariants after each advance.
class checked_wheel : public wheel {
 public:
  using wheel::wheel;

  advance_result advance(tick now, std::size_t work = npos) {
    const advance_result result = wheel::advance(now, work);
    EXPECT_TRUE(valid(*this));
    return result;
  }
  advance_result advance_unchecked(tick now, std::size_t work = npos) noexcept { return wheel::advance(now, work); }
};

/// Advances to each tick, which runs so many callbacks.
inline void expect_ran(wheel& timers, std::initializer_list<std::pair<tick, std::size_t>> expected) {
  for (const auto& [now, count] : expected) {
    EXPECT_EQ(timers.advance(now).ran, count) << now;
    EXPECT_TRUE(valid(timers));
  }
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

/// Advances to `now`, with at most `work` visits a call, until nothing due is left. Returns the number of calls.
inline std::size_t finish(wheel& timers, tick now, std::size_t work) {
  std::size_t calls = 1;
  while (!timers.advance(now, work).done) ++calls;
  EXPECT_TRUE(valid(timers));
  return calls;
}

/// Returns how many visits an advance to `now` takes, which it makes one at a time.
inline std::size_t visits(wheel& timers, tick now) {
  std::size_t count = 0;
  while (!timers.advance(now, 1).done) ++count;
  return count;
}

/// Counts in `moves` each armed entry that is about to move to a finer slot.
inline void count_moves(wheel& timers, std::size_t& moves) {
  timers.on_move(
      [](void* count, wheel_entry& e) noexcept {
        ++*static_cast<std::size_t*>(count);
        return e.deadline();
      },
      &moves);
}

/// Advances to the tick before `deadline`, and to it: `timer` fires for the first time, at its deadline.
inline void expect_fires_at(wheel& timers, const probe& timer, tick deadline) {
  timers.advance(deadline - 1);
  EXPECT_TRUE(valid(timers));
  EXPECT_EQ(timer.fired(), 0U);
  timers.advance(deadline);
  EXPECT_TRUE(valid(timers));
  EXPECT_EQ(timer.fired_at(), ticks{deadline});
}

}  // namespace tickwheel::test
