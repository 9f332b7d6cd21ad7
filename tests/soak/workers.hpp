// Other threads: some answer the loops' questions by posts, one arms timers on the loops and cancels them.
#pragma once

#include "server.hpp"

#include <tickwheel/uv/remote.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <vector>

namespace soak {

/// Answers the questions in the queue until it is closed: most at once or after a moment, some never.
void answer_jobs(shared& with, bounded_queue<job>& jobs, std::uint64_t seed);

/// Arms timers on the loops and cancels some. Each must fire once and not early, or never if it was cancelled in time.
class remote_arms {
 public:
  remote_arms(shared& with, std::vector<tickwheel::remote_handle> loops, std::size_t at_once, std::uint64_t seed);

  /// Runs until `stop`.
  void run();
  void stop() noexcept { stopping_ = true; }

  /// Judges the timers that are left. Requires: the services are closed.
  void end() noexcept;

 private:
  struct operation {
    enum class state : std::uint8_t { unused, armed, cancelled, too_late } is = state::unused;
    tickwheel::remote_timer timer;
    time_point due{};
    time_point look_again{};  // of a timer that was cancelled, or whose cancel was too late
    std::atomic<std::uint32_t> fired{0};
    shared* with = nullptr;

    void fire() noexcept;
  };

  void step(operation&, time_point now);
  void arm(operation&, time_point now);
  void cancel(operation&, time_point now);

  shared& with_;
  const std::vector<tickwheel::remote_handle> loops_;
  std::deque<operation> operations_;
  std::mt19937_64 random_;
  std::atomic<bool> stopping_{false};
};

}  // namespace soak
