// The requests to the server, and when they are due. All clients share them.
#pragma once

#include "ledger.hpp"
#include "load_options.hpp"

#include <tickwheel/tickwheel.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

namespace timer_load {

/// A request, until it is answered.
struct work {
  enum class kind : std::uint8_t { schedule, cancel, replace };
  kind what{};
  std::size_t timer = 0;
  wall_time due{};  // this, or `in` if it is relative
  std::chrono::nanoseconds in{};
  bool is_relative = false;
};

class context {
 public:
  context(const load_options& what, ledger& into, tickwheel::event_loop& on) : asked{what}, book{into}, loop{on} {}

  const load_options& asked;
  ledger& book;
  tickwheel::event_loop& loop;
  std::string callback;
  tickwheel::clock::time_point began{};

  /// Returns the next request; none if it is not yet time.
  std::optional<work> take_work() {
    if (!changes_.empty() && changes_.top().first <= now()) return take_change();
    if (next_ == asked.timers || !may_schedule()) return std::nullopt;
    work w{.timer = next_++, .in = draw_limit(), .is_relative = draw_percent() < asked.relative};
    const bool is_to_change = change_of(w.timer) != work::kind::schedule;
    w.due = std::chrono::ceil<std::chrono::milliseconds>(now() + w.in);
    if (w.is_relative)
      book.ask_relative(w.timer, now() + w.in, is_to_change);
    else
      book.ask(w.timer, w.due, is_to_change);
    return w;
  }
  bool may_have_work() const {
    return next_ != asked.timers || !changes_.empty() || (asked.has_changes() && book.confirmed() != asked.timers);
  }

  /// The timer is scheduled: if it is one of those that are changed, then at some time until just after it is due.
  void plan_change(std::size_t timer) {
    if (change_of(timer) == work::kind::schedule) return;
    const wall_time at = now();
    const auto span = std::max<std::chrono::nanoseconds>(book[timer].due() - at, {}) + std::chrono::milliseconds{50};
    changes_.emplace(at + draw_until(span), timer);
  }

 private:
  using planned = std::pair<wall_time, std::size_t>;

  /// Returns true if it is time to schedule the next timer.
  bool may_schedule() const {
    const std::chrono::duration<double> passed = tickwheel::clock::now() - began;
    return asked.rate == 0 || static_cast<double>(next_) < passed.count() * static_cast<double>(asked.rate);
  }

  work take_change() {
    work w{.timer = changes_.top().second};
    w.what = change_of(w.timer);
    changes_.pop();
    if (w.what == work::kind::cancel) return w;
    w.due = std::chrono::ceil<std::chrono::milliseconds>(now() + draw_limit());
    if (w.due == book[w.timer].due())
      w.due += std::chrono::milliseconds{1};  // so that calls tell which one they are for
    book.ask_replacement(w.timer, w.due);
    return w;
  }

  /// Returns how a timer is changed; `schedule`: not at all.
  work::kind change_of(std::size_t timer) const {
    const std::size_t place = timer * 37 % 100;  // goes through all hundred
    if (place < asked.cancelled) return work::kind::cancel;
    return place < asked.cancelled + asked.replaced ? work::kind::replace : work::kind::schedule;
  }

  std::chrono::nanoseconds draw_limit() { return asked.shortest + draw_until(asked.longest - asked.shortest); }
  std::chrono::milliseconds draw_until(std::chrono::nanoseconds longest) {
    const auto span = std::chrono::duration_cast<std::chrono::milliseconds>(longest).count() + 1;
    return std::chrono::milliseconds{static_cast<std::int64_t>(draw() % static_cast<std::uint64_t>(span))};
  }
  unsigned draw_percent() { return static_cast<unsigned>(draw() % 100); }
  std::uint64_t draw() {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return state_ >> 33U;
  }

  std::size_t next_ = 0;  // timer
  std::priority_queue<planned, std::vector<planned>, std::greater<>> changes_;
  std::uint64_t state_ = 0x9E3779B97F4A7C15U;
};

}  // namespace timer_load
