// The loop under test. It has a connection for each peer, and each connection has an idle timeout, a deadline, and calls to worker threads
// that are repeated. Each handler compares the time with the required one.
#pragma once

#include "../../examples/worker_pool/bounded_queue.hpp"
#include "record.hpp"

#include <tickwheel/tickwheel.hpp>

#include <netinet/in.h>
#include <uv.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace soak {

class server;

/// A question to the workers. They answer it by a post to its server, or not at all.
struct job {
  server* from;
  std::uint64_t id;
};

class server {
 public:
  /// `number` is the number of the loop. Blocks the loop now and then if it is to stall.
  server(shared& with, unsigned number, bounded_queue<job>& jobs, bool stalls, std::uint64_t seed);
  ~server();
  server(const server&) = delete;
  server& operator=(const server&) = delete;

  /// Listens on `addresses` loopback addresses. Returns 0 or a UV_ code.
  int listen(unsigned addresses);
  const std::vector<sockaddr_in>& listens_at() const noexcept { return at_; }

  /// Runs the loop on a thread of its own.
  void start();
  /// Lets the loop close everything that is left, and end. Any thread, once.
  void stop() noexcept;
  /// After `stop`: waits for the end of the loop, and judges how the loop and its timers ended.
  void join();

  tickwheel::remote_handle remote() const noexcept { return remote_; }
  /// Called on the loop, for a worker: the answer to one of its questions.
  void answer(std::uint64_t id) noexcept;

  /// Requires: it was joined.
  const tickwheel::service_stats& stats() const noexcept { return stats_; }

 private:
  class connection;

  void publish() noexcept;
  void block() noexcept;
  void wind_up() noexcept;

  shared& with_;
  const unsigned number_;
  bounded_queue<job>& jobs_;
  std::mt19937_64 random_;
  tickwheel::event_loop loop_;
  uv_prepare_t prepare_{};
  time_point prepared_at_{};  // when the loop last began to wait
  std::deque<uv_tcp_t> listeners_;
  std::vector<sockaddr_in> at_;
  tickwheel::remote_handle remote_;
  tickwheel::remote_hold hold_;
  std::thread thread_;
  tickwheel::service_stats stats_;
  std::uint64_t last_call_ = 0;
  bool has_loop_ = false, winding_up_ = false;

  struct call;
  struct calls;
  std::unique_ptr<calls> calls_;
  tickwheel::interval_timer<&server::publish> publish_timer_{loop_.timers(), *this};
  tickwheel::member_timer<&server::block> block_timer_{loop_.timers(), *this};
  const bool stalls_;
  static constexpr std::chrono::milliseconds publishes_every{5};
};

}  // namespace soak
