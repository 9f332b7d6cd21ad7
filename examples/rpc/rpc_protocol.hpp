// The protocol of rpc_client and rpc_server: requests and replies of 16 bytes, in the machine's own byte order, because both ends are on
// one machine.
//
// A request carries the rest of its caller's time, and not the time when that ends: clocks of two machines differ, and the way there is
// short. The server counts it from when it read the request.
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
  std::uint32_t budget_us;  // the rest of the time: later the answer is useless
  std::uint32_t work_us;    // how long the work takes
};
static_assert(sizeof(rpc_request) == 16);

enum class rpc_status : std::uint32_t {
  done,
  too_late,  // refused: the work takes longer than the budget
  busy,      // refused: too many jobs are running; another attempt may succeed
};

struct rpc_reply {
  std::uint64_t id;
  rpc_status status;
  std::uint32_t unused = 0;
};
static_assert(sizeof(rpc_reply) == 16);

/// A duration for the wire: whole microseconds, rounded down, so that the other end never assumes more than there is.
inline std::uint32_t to_wire(std::chrono::nanoseconds left) noexcept {
  constexpr std::int64_t most = std::numeric_limits<std::uint32_t>::max();
  return static_cast<std::uint32_t>(std::min(left / std::chrono::microseconds{1}, most));
}

/// Cuts the bytes of a stream into frames of one type.
template <class Frame>
class frame_reader {
 public:
  /// Returns where the next bytes are to be read to. Never empty.
  uv_buf_t room() noexcept { return uv_buf_init(bytes_ + size_, static_cast<unsigned>(sizeof bytes_ - size_)); }

  /// Reports `size` further bytes. Calls `take` with each complete frame, until it returns false.
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

  /// Begins another connection.
  void clear() noexcept { size_ = 0; }

 private:
  std::size_t size_ = 0;
  char bytes_[256 * sizeof(Frame)];
};

/// Sends `frame`, and returns true if the socket took all of it. Any socket's buffer has room for all outstanding frames many times. So a
/// peer that does not take it is gone, or as good as gone.
template <class Frame>
bool send_frame(uv_tcp_t& to, const Frame& frame) noexcept {
  Frame copy = frame;
  uv_buf_t bytes = uv_buf_init(reinterpret_cast<char*>(&copy), sizeof copy);
  return uv_try_write(reinterpret_cast<uv_stream_t*>(&to), &bytes, 1) == static_cast<int>(sizeof copy);
}
