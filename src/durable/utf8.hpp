// Reads UTF-8: which ids are valid, and how much of an error text is kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tickwheel::durable::detail {

/// A code point and its length in bytes. Length 0: the bytes are no UTF-8.
struct code_point {
  std::uint32_t value = 0;
  std::size_t bytes = 0;
};

/// Returns the code point at the beginning of `text`. Overlong forms, surrogates and values above U+10FFFF are no UTF-8 (RFC 3629).
/// Requires: `text` is not empty.
code_point first_of(std::string_view text) noexcept;

/// Returns at most `limit` bytes of `text`, cut at the end of a code point. Each byte that is no UTF-8, and each NUL, becomes '?'.
std::string valid_prefix(std::string_view text, std::size_t limit);

}  // namespace tickwheel::durable::detail
