// Loops other than libuv's, under simulated time: they run iterations as often as libuv does, and wait by themselves.
#pragma once

#include "../../../tests/support/simulated_clock.hpp"
#include "../../support/connection.hpp"
#include "simulated_loop.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

namespace tickwheel::bench {

/// `Loop` has a `name`, and a `timer`, the base of a connection, which is constructed with the loop's `context`. It also has
///
///     arm(c, delay), cancel(c)   as a subject
///     due(c)                     as a subject, but on the steady clock
///     poll()                     one iteration that does not wait
///     wait()                     one iteration that waits until a timer is due; returns false if none is armed
template <class Loop>
class polled_subject {
 public:
  using connection = bench::connection<typename Loop::timer>;
  static constexpr std::string_view name = Loop::name;

  explicit polled_subject(std::size_t n) : loop_{begin()}, connections_{n, loop_.context()} {}
  ~polled_subject() {
    for (const auto& c : connections_) loop_.cancel(*c);
    loop_.poll();  // the rest of a cancelled timer
  }
  polled_subject(const polled_subject&) = delete;
  polled_subject& operator=(const polled_subject&) = delete;

  connection& operator[](std::size_t i) const noexcept { return connections_[i]; }

  void arm(connection& c, std::chrono::microseconds delay) { loop_.arm(c, delay); }
  bool cancel(connection& c) { return loop_.cancel(c); }

  void renew(connection& c) {
    const auto id = c.id;
    loop_.cancel(c);
    std::destroy_at(&c);
    std::construct_at(&c, id, loop_.context());
  }

  void advance_to(std::chrono::nanoseconds now) {
    simulated_clock::set(start + now);
    if (now < next_turn_) return;
    next_turn_ = now + std::chrono::milliseconds{1};
    loop_.poll();
  }

  void jump_to(std::chrono::nanoseconds now) {
    simulated_clock::set(start + now);
    loop_.poll();
  }

  void run_out(std::chrono::nanoseconds end) {
    simulated_clock::wait_at_most_until(start + end);
    while (simulated_clock::now() < start + end && loop_.wait()) {
    }
    jump_to(end);
  }

  std::size_t step_out() {
    const std::size_t before = simulated_clock::waits();
    simulated_clock::wait_at_most_until(std::chrono::nanoseconds::max());
    while (loop_.wait()) {
    }
    return simulated_clock::waits() - before;
  }

  std::optional<std::chrono::nanoseconds> due(const connection& c) const {
    const std::optional<std::chrono::nanoseconds> at = loop_.due(c);
    if (!at) return {};
    return *at - start;
  }

 private:
  static constexpr std::chrono::nanoseconds start = simulated_loop::start;

  struct begin {
    begin() noexcept { simulated_clock::set(start); }
  };

  Loop loop_;
  connections<connection> connections_;
  std::chrono::nanoseconds next_turn_{};
};

}  // namespace tickwheel::bench
