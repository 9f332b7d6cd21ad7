// The messages of echo_bench's clients. They have a length and a sum, which the server checks before it echoes them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tickwheel::bench {

/// The first bytes of a message, in the machine's own byte order.
struct message_header {
  std::uint32_t size;  // of the whole message
  std::uint32_t sum;   // of the bytes after the header
};

/// CRC-32, byte by byte: nine instructions for each, about as many as a parser takes.
inline std::uint32_t sum_of(const char* bytes, std::size_t size) noexcept {
  static constexpr auto table = [] {
    std::array<std::uint32_t, 256> t{};
    for (std::uint32_t i = 0; i < t.size(); ++i) {
      std::uint32_t c = i;
      for (int bit = 0; bit < 8; ++bit) c = (c & 1) != 0 ? (c >> 1) ^ 0xedb88320U : c >> 1;
      t[i] = c;
    }
    return t;
  }();
  std::uint32_t c = ~0U;
  for (std::size_t i = 0; i < size; ++i) c = (c >> 8) ^ table[(c ^ static_cast<unsigned char>(bytes[i])) & 0xff];
  return ~c;
}

/// Returns the size of the message that `bytes` begins with. Returns 0 if it is not complete yet, and `broken_message` if it is not
/// as it was sent.
inline constexpr std::size_t broken_message = ~std::size_t{0};
inline std::size_t checked_message(const char* bytes, std::size_t size) noexcept {
  message_header header;
  if (size < sizeof header) return 0;
  std::memcpy(&header, bytes, sizeof header);
  if (header.size < sizeof header) return broken_message;
  if (size < header.size) return 0;
  const bool right = sum_of(bytes + sizeof header, header.size - sizeof header) == header.sum;
  return right ? header.size : broken_message;
}

/// Makes a message of all `size` bytes. Its payload is already there.
inline void seal_message(char* bytes, std::size_t size) noexcept {
  const message_header header{static_cast<std::uint32_t>(size),
                              sum_of(bytes + sizeof(message_header), size - sizeof(message_header))};
  std::memcpy(bytes, &header, sizeof header);
}

}  // namespace tickwheel::bench
