// Subjects that are given the tick: the bare wheel, and containers of the standard library that are used as a wheel.
#pragma once

#include "../../support/connection.hpp"

#include <tickwheel/core/ticks.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

namespace tickwheel::bench {

/// `Timers` has a `name`, an `entry` that is made of a callback, and these functions of a wheel: `arm`, `cancel`, `advance`, `armed` and
/// `next_expiry`. Its destructor detaches the armed entries.
template <class Timers>
class ticked_subject {
 public:
  using connection = bench::connection<typename Timers::entry>;
  static constexpr std::string_view name = Timers::name;
  static constexpr tick_length length = tick_length::at_most(std::chrono::nanoseconds{1 << 17});

  explicit ticked_subject(std::size_t n) : connections_{n, &run} {}

  connection& operator[](std::size_t i) const noexcept { return connections_[i]; }

  void arm(connection& c, std::chrono::microseconds delay) noexcept { timers_.arm(c, length.ceil(now_ + delay)); }
  bool cancel(connection& c) noexcept { return timers_.cancel(c); }

  void renew(connection& c) noexcept {
    const auto id = c.id;
    timers_.cancel(c);
    std::destroy_at(&c);
    std::construct_at(&c, id, &run);
  }

  void advance_to(std::chrono::nanoseconds now) noexcept {
    now_ = now;
    if (now < next_tick_) return;
    const tick present = length.floor(now);
    next_tick_ = length.begin_of(present + 1);
    timers_.advance(present);
  }

  void jump_to(std::chrono::nanoseconds now) noexcept { advance_to(now); }

  void run_out(std::chrono::nanoseconds end) noexcept {
    const tick last = length.floor(end);
    for (tick t = length.floor(now_) + 1; t <= last; ++t) timers_.advance(t);
    now_ = end;
    next_tick_ = length.begin_of(last + 1);
  }

  std::size_t step_out() noexcept {
    std::size_t steps = 0;
    for (; timers_.armed() != 0; ++steps) advance_to(length.begin_of(timers_.next_expiry()));
    return steps;
  }

  std::optional<std::chrono::nanoseconds> due(const connection& c) const noexcept {
    if (!c.armed()) return {};
    return length.begin_of(c.deadline());
  }

 private:
  static void run(typename Timers::entry& e) noexcept { expired.add(static_cast<connection&>(e).id); }

  connections<connection> connections_;
  Timers timers_;  // after the connections: destroyed first, it detaches their entries
  std::chrono::nanoseconds now_{};
  std::chrono::nanoseconds next_tick_ = length.duration();
};

}  // namespace tickwheel::bench
