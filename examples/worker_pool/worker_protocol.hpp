// The protocol of worker_pool and worker_load: requests and replies of 16 bytes, in the machine's own byte order, because both ends are on
// one machine.
#pragma once

#include <cstdint>

struct request {
  std::uint64_t question;  // also names it: replies come in the order of their delays
  std::uint32_t delay_ms;  // from when the answer is known to when it is wanted
  std::uint32_t unused = 0;
};
static_assert(sizeof(request) == 16);

struct reply {
  std::uint64_t question;
  std::uint64_t answer;
};
static_assert(sizeof(reply) == 16);

/// The work: some microseconds on one core. (The mixing is SplitMix64's.)
constexpr std::uint64_t answer_to(std::uint64_t question) noexcept {
  std::uint64_t z = question;
  for (int round = 0; round < 1000; ++round) {
    z += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z ^= z >> 27;
  }
  return z;
}

/// The longest delay that the server accepts.
inline constexpr std::uint32_t longest_delay_ms = 10'000;
