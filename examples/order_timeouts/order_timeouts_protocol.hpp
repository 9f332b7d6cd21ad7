// The messages between order_timeouts and its shops: 24 bytes each, in the machine's own byte order, because both ends are on one
// machine.
//
// A message may be sent again after a connection was lost: each of them has the same effect once and twice.
#pragma once

#include <chrono>
#include <cstdint>

/// A request of a shop.
enum class order_verb : std::uint32_t {
  place,        ///< cancel this order at `due_ns` unless it is paid
  pay,          ///< the order was paid
  acknowledge,  ///< the shop has cancelled the order
  report,       ///< how many partitions does this server own?
};

struct order_request {
  std::uint64_t order;
  std::int64_t due_ns;  // since 1970
  order_verb verb;
  std::uint32_t unused = 0;
};
static_assert(sizeof(order_request) == 24);

/// An answer to a shop.
enum class order_news : std::uint32_t {
  placed,     ///< the timeout is on disk
  paid,       ///< the timeout is cancelled: no `cancel` follows
  too_late,   ///< not paid, because the order was cancelled, or is being cancelled now
  unknown,    ///< there is no such order
  try_again,  ///< the answer to a request that could not be carried out
  cancel,     ///< the time is over: cancel the order, and acknowledge. It may come again, with the same `due_ns`.
  owns,       ///< the answer to `report`, with the number of partitions in the place of the order's
};

struct order_message {
  std::uint64_t order;
  std::int64_t due_ns;  // of `cancel`
  order_news news;
  std::uint32_t attempt = 0;  // of `cancel`: 1 for the first
};
static_assert(sizeof(order_message) == 24);

/// A time as it is sent.
inline std::int64_t to_wire(std::chrono::system_clock::time_point t) noexcept {
  return std::chrono::nanoseconds{t.time_since_epoch()}.count();
}

inline std::chrono::system_clock::time_point from_wire(std::int64_t since_1970) noexcept {
  return std::chrono::system_clock::time_point{
      std::chrono::duration_cast<std::chrono::system_clock::duration>(std::chrono::nanoseconds{since_1970})};
}
