#include "dead_watch.hpp"

#include <chrono>

namespace timer_server {

int dead_watch::start() noexcept { return next_.start(std::chrono::seconds{1}); }

void dead_watch::look() noexcept {
  const std::uint64_t dead = scheduler_.stats().dead;
  if (dead > std::exchange(dead_, dead)) tell_(dead);
}

}  // namespace timer_server
