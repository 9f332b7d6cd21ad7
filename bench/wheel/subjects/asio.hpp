// Boost.Asio: steady_timer, by deadline in a binary heap. Each wait is an operation that Asio allocates, from memory it recycles.
//
// It gets no timerfd, see simulated_clock.cpp. So it waits by epoll's timeout, as the others do.
#pragma once

#include "polled_loop.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/error_code.hpp>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string_view>

namespace tickwheel::bench {

class asio_loop {
 public:
  static constexpr std::string_view name = "asio";

  struct timer : boost::asio::steady_timer {
    explicit timer(boost::asio::io_context* io) : boost::asio::steady_timer{*io} {}
    bool armed = false;
  };
  using connection = bench::connection<timer>;

  template <class Begin>
  explicit asio_loop(Begin) {}

  boost::asio::io_context* context() noexcept { return &io_; }

  // sets the expiry, which ends a pending wait, and waits anew
  void arm(connection& c, std::chrono::microseconds delay) {
    c.expires_after(delay);
    armed_ += !c.armed;
    c.armed = true;
    c.async_wait([this, &c](const boost::system::error_code& ended) {
      if (ended) return;
      c.armed = false;
      --armed_;
      expired.add(c.id);
    });
  }

  bool cancel(connection& c) {
    if (!c.armed) return false;
    c.armed = false;
    --armed_;
    c.cancel();
    return true;
  }

  void poll() {
    io_.restart();
    io_.poll();
  }
  bool wait() {
    if (armed_ == 0) return false;
    io_.restart();
    io_.run_one_until(std::chrono::steady_clock::time_point{simulated_clock::bound});
    return true;
  }

  std::optional<std::chrono::nanoseconds> due(const connection& c) const {
    if (!c.armed) return {};
    return c.expiry().time_since_epoch();
  }

 private:
  boost::asio::io_context io_{BOOST_ASIO_CONCURRENCY_HINT_UNSAFE};  // one thread: no locks
  std::size_t armed_ = 0;
};

using asio_subject = polled_subject<asio_loop>;

}  // namespace tickwheel::bench
