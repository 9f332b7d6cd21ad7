// What rpc_client and rpc_server say to each other: requests and replies of 16 bytes, in the machine's own byte order,
// as both ends are on one machine.
//
// A request carries what is left of its caller's time, not when that ends: clocks of two machines differ, and the way
// there is short. The server counts it from when it read the request.
#pragma once

#include <uv.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

struct rpc_request {
  std::uint64_t id;         // of this attempt; the reply repeats it
  std::uint32_t budget_us;  // what is left: the answer is of no use later
  std::uint32_t work_us;    // how long the work takes
};
static_assert(sizeof(rpc_request) == 16);

enum class rpc_status : std::uint32_t {
  done,
  too_late,  // refused: it could not be done within the budget
  busy,      // refused: too much is being worked on; another attempt may do
};

struct rpc_reply {
  std::uint64_t id;
  rpc_status status;
  std::uint32_t unused = 0;
};
static_assert(sizeof(rpc_reply) == 16);

/// A duration as it is sent: whole microseconds, rounded down, so that the other end never believes in more than there
/// is.
inline std::uint32_t to_wire(std::chrono::nanoseconds left) noexcept {
  constexpr std::int64_t most = std::numeric_limits<std::uint32_t>::max();
  return static_cast<std::uint32_t>(std::min(left / std::chrono::microseconds{1}, most));
}

/// Cuts what a stream brings into frames of one type.
template <class Frame>
class frame_reader {
 public:
  /// Where the next bytes are to be read to. Never empty.
  uv_buf_t room() noexcept { return uv_buf_init(bytes_ + size_, static_cast<unsigned>(sizeof bytes_ - size_)); }

  /// `size` bytes came: calls `take` with each frame that is complete, until it answers false.
  template <class F>
  void read(std::size_t size, F&& take) noexcept {
    size_ += size;
    std::size_t done = 0;
    while (size_ - done >= sizeof(Frame)) {
      Frame next;
      std::memcpy(&next, bytes_ + done, sizeof next);
      done += sizeof next;
      if (!take(next)) return clear();
    }
    size_ -= done;
    std::memmove(bytes_, bytes_ + done, size_);
  }

  /// Another connection begins.
  void clear() noexcept { size_ = 0; }

 private:
  std::size_t size_ = 0;
  char bytes_[256 * sizeof(Frame)];
};

/// True when all of `frame` was taken. What is out fits into any socket's buffer many times, so that a peer that does
/// not take it is gone, or might as well be.
template <class Frame>
bool send_frame(uv_tcp_t& to, const Frame& frame) noexcept {
  Frame copy = frame;
  uv_buf_t bytes = uv_buf_init(reinterpret_cast<char*>(&copy), sizeof copy);
  return uv_try_write(reinterpret_cast<uv_stream_t*>(&to), &bytes, 1) == static_cast<int>(sizeof copy);
}
