// libevent: timers in a binary heap, or in a list of their own if their timeouts are all alike.
//
// Outside of its callbacks libevent reads the clock for each event_add: the kernel's coarse clock, which is cheap.
#pragma once

#include "polled_loop.hpp"

#include <event2/event.h>
#include <event2/event_struct.h>

#include <sys/time.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string_view>

namespace tickwheel::bench {

/// `Common`: delays are announced by event_base_init_common_timeout, which libevent recommends for many timeouts of one length.
template <bool Common>
class libevent_loop {
 public:
  static constexpr std::string_view name = Common ? "libevent_common" : "libevent";

  struct timer : event {
    explicit timer(event_base* base) noexcept { event_assign(this, base, -1, 0, &run, this); }
  };
  using connection = bench::connection<timer>;

  template <class Begin>
  explicit libevent_loop(Begin) {
    const std::unique_ptr<event_config, decltype(&event_config_free)> config{event_config_new(), &event_config_free};
    event_config_set_flag(config.get(), EVENT_BASE_FLAG_NOLOCK);
    base_ = event_base_new_with_config(config.get());
    event_assign(
        &end_, base_, -1, 0, [](evutil_socket_t, short, void*) {}, nullptr);
  }
  ~libevent_loop() {
    event_del(&end_);
    event_base_free(base_);
  }
  libevent_loop(const libevent_loop&) = delete;
  libevent_loop& operator=(const libevent_loop&) = delete;

  event_base* context() const noexcept { return base_; }

  void arm(connection& c, std::chrono::microseconds delay) noexcept {
    const timeval plain = to_timeval(delay);
    if constexpr (Common) {
      if (delay != common_delay_) {
        common_delay_ = delay;
        common_ = event_base_init_common_timeout(base_, &plain);
      }
      event_add(&c, common_);
    } else {
      event_add(&c, &plain);
    }
  }

  bool cancel(connection& c) noexcept {
    const bool was_armed = armed(c);
    event_del(&c);
    return was_armed;
  }

  void poll() noexcept { event_base_loop(base_, EVLOOP_NONBLOCK); }
  // it returns only when something has expired: at the end of the time, if nothing else
  bool wait() noexcept {
    if (const auto end = simulated_clock::bound;
        end != std::chrono::nanoseconds::max() && !event_pending(&end_, EV_TIMEOUT, nullptr)) {
      const timeval left = to_timeval(std::chrono::ceil<std::chrono::microseconds>(end - simulated_clock::now()));
      event_add(&end_, &left);
    }
    return event_base_loop(base_, EVLOOP_ONCE) == 0;
  }

  std::optional<std::chrono::nanoseconds> due(const connection& c) const noexcept {
    if (!armed(c)) return {};
    constexpr long below_a_second = 0xfffff;  // the bits above say which list it is in
    return std::chrono::seconds{c.ev_timeout.tv_sec} + std::chrono::microseconds{c.ev_timeout.tv_usec & below_a_second};
  }

 private:
  static timeval to_timeval(std::chrono::microseconds delay) noexcept {
    return {static_cast<time_t>(delay.count() / 1'000'000), static_cast<suseconds_t>(delay.count() % 1'000'000)};
  }
  static bool armed(const connection& c) noexcept { return event_pending(&c, EV_TIMEOUT, nullptr) != 0; }
  static void run(evutil_socket_t, short, void* t) noexcept {
    expired.add(static_cast<connection*>(static_cast<timer*>(t))->id);
  }

  event_base* base_ = nullptr;
  event end_{};
  std::chrono::microseconds common_delay_{-1};
  const timeval* common_ = nullptr;
};

using libevent_subject = polled_subject<libevent_loop<false>>;
using libevent_common_subject = polled_subject<libevent_loop<true>>;

}  // namespace tickwheel::bench
