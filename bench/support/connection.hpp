// The objects that timers are embedded in: the connections of a server, each an allocation of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace tickwheel::bench {

/// Returns a number for `key`. The sum of such numbers tells which keys were added, in any order.
constexpr std::uint64_t mix(std::uint64_t key) noexcept {
  key = (key + 1) * 0x9E3779B97F4A7C15U;
  return (key ^ (key >> 32)) * 0xD6E8FEB86659FD93U;
}

/// The timers that have expired since the present subject was made. There is only one, because a callback gets nothing but its timer.
struct tally {
  std::uint64_t count = 0;
  std::uint64_t sum = 0;  // of mix(id)

  void add(std::uint64_t id) noexcept {
    ++count;
    sum += mix(id);
  }
};
inline tally expired;

/// The part of a connection that lies before its timer.
template <std::size_t bytes>
struct lead {
  std::byte of_connection[bytes];
};
template <>
struct lead<0> {};

/// 256 bytes, aligned to a cache line. The bytes before and after the timer stand for buffers and state. Nothing touches them. Without
/// bytes before it, a timer straddles as few lines as possible.
template <class Timer, std::size_t before = 0>
struct alignas(64) connection : lead<before>, Timer {
  template <class... Args>
  explicit connection(std::uint64_t number, Args&&... args) : Timer(std::forward<Args>(args)...), id{number} {}

  std::uint64_t id;
  std::byte rest[256 - before - sizeof(Timer) - sizeof(std::uint64_t)];
};

/// Connections that were allocated one by one.
template <class Connection>
class connections {
 public:
  static_assert(sizeof(Connection) == 256);

  /// `args` goes to each connection's timer.
  template <class... Args>
  explicit connections(std::size_t n, Args&&... args) {
    all_.reserve(n);
    for (std::size_t id = 0; id < n; ++id) all_.push_back(std::make_unique<Connection>(id, args...));
  }

  Connection& operator[](std::size_t id) const noexcept { return *all_[id]; }
  std::size_t size() const noexcept { return all_.size(); }
  auto begin() const noexcept { return all_.begin(); }
  auto end() const noexcept { return all_.end(); }

 private:
  std::vector<std::unique_ptr<Connection>> all_;
};

}  // namespace tickwheel::bench
