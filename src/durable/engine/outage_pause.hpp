// How long calls of the store wait after one has failed, or after an element was left out of one.
#pragma once

#include "../standing_timer.hpp"

#include <tickwheel/net/backoff.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <chrono>
#include <cstdint>

namespace tickwheel::durable::detail {

/// Grows with each failure that follows the last one.
class outage_pause {
 public:
  /// Calls `wake` with `context` when a pause has passed.
  outage_pause(timer_service& timers, std::uint64_t seed, void (*wake)(void*) noexcept, void* context) noexcept
      : timers_{timers}, delays_{options(), seed}, wake_{wake}, context_{context}, end_{timers, *this} {}

  /// Returns false if the service has no place for a timer.
  [[nodiscard]] bool open() noexcept { return end_.open() == 0; }

  /// The store could not be reached, or has left something undone. Failures within a pause count as one.
  void begin() noexcept {
    if (holds()) return;
    const auto delay = delays_.next();
    until_ = timers_.now() + delay;
    end_.set(delay);
  }
  /// The store has answered. A pause that was begun goes on.
  void on_answer() noexcept { delays_.reset(); }
  /// Returns true during a pause.
  bool holds() const noexcept { return timers_.now() < until_; }
  void close() noexcept {
    end_.close();
    until_ = {};
    delays_.reset();
  }

 private:
  static backoff_options options() noexcept {
    return {.base = std::chrono::milliseconds{5}, .cap = std::chrono::milliseconds{500}};
  }
  void on_end() noexcept { wake_(context_); }

  timer_service& timers_;
  backoff delays_;
  void (*wake_)(void*) noexcept;
  void* context_;
  standing_timer<&outage_pause::on_end> end_;
  tickwheel::clock::time_point until_{};
};

}  // namespace tickwheel::durable::detail
