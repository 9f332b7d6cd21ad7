// The peers: loopback connections that open, talk, fall silent, close or wait to be closed, and record what they did.
//
// They know nothing of the library: plain sockets, epoll, and a queue of next steps, on a thread of their own.
#pragma once

#include "record.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <random>
#include <vector>

#include <netinet/in.h>

namespace soak {

struct client_options {
  std::size_t connections = 0;  // at once
  unsigned rate = 0;            // of opening, per second
  std::uint64_t seed = 0;
};

class clients {
 public:
  /// `servers` are the addresses at which each loop listens. The peers use them by turns.
  clients(shared& with, const client_options& asked, std::vector<std::vector<sockaddr_in>> servers);
  ~clients();
  clients(const clients&) = delete;
  clients& operator=(const clients&) = delete;

  /// Opens, talks and judges until `stop`. Then waits until the silent peers were evicted, and closes the others.
  void run();

  /// Any thread.
  void stop() noexcept { stopping_ = true; }

 private:
  enum class kind : std::uint8_t {
    talks_and_leaves,   // closes by itself
    talks_and_is_mute,  // until it is evicted
    is_mute,            // from its first message on
    is_on_the_brink,    // sends once more just when its limit runs out
    grows_old,          // talks until its age closes it
  };
  enum class state : std::uint8_t { unused, connecting, open };

  struct client {
    int socket = -1;
    state is = state::unused;
    kind does = kind::is_mute;
    unsigned loop = 0;
    unsigned left = 0;       // messages
    std::uint32_t step = 0;  // the number of its present plan
    time_point since{};      // when it began to connect
  };
  struct plan {
    time_point when;
    std::uint32_t slot;
    std::uint32_t step;
    bool operator<(const plan& other) const noexcept { return when > other.when; }  // the earliest first
  };

  void open_some(time_point now);
  void open(std::uint32_t slot);
  void on_connected(std::uint32_t slot);
  void act(std::uint32_t slot);
  void send(std::uint32_t slot);
  void plan_next(std::uint32_t slot);
  void plan_at(std::uint32_t slot, time_point when);
  void on_readable(std::uint32_t slot);
  void on_closed(std::uint32_t slot);
  void close(std::uint32_t slot);
  void look_for_overdue(time_point now);
  void wind_up();
  nanoseconds stalled(unsigned loop) const noexcept { return nanoseconds{with_.stalled[loop].load()}; }
  std::uint64_t up_to(std::uint64_t most) { return random_() % (most + 1); }

  shared& with_;
  const client_options asked_;
  const std::vector<std::vector<sockaddr_in>> servers_;
  std::mt19937_64 random_;
  int poll_ = -1;
  std::atomic<bool> stopping_{false};
  bool winding_up_ = false;
  std::vector<client> clients_;
  std::vector<std::uint32_t> unused_;
  std::priority_queue<plan> plans_;
  time_point began_{};
  std::uint64_t begun_ = 0;
};

}  // namespace soak
