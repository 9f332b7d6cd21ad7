#include "utf8.hpp"

namespace tickwheel::durable::detail {

namespace {

constexpr bool is_continuation(unsigned char byte) noexcept { return (byte & 0xc0U) == 0x80; }

}  // namespace

code_point first_of(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::uint32_t head = byte(0);
  if (head < 0x80) return {head, 1};
  const std::size_t bytes = head >= 0xf0 ? 4 : head >= 0xe0 ? 3 : 2;
  if (head < 0xc2 || head > 0xf4 || text.size() < bytes) return {};
  std::uint32_t value = head & (0xffU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if (!is_continuation(byte(i))) return {};
    value = (value << 6) | (byte(i) & 0x3fU);
  }
  constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = value >= 0xd800 && value <= 0xdfff;
  if (value < least[bytes] || value > 0x10ffff || is_surrogate) return {};
  return {value, bytes};
}

std::string valid_prefix(std::string_view text, std::size_t limit) {
  std::string kept;
  while (!text.empty() && kept.size() < limit) {
    const code_point first = first_of(text);
    if (first.bytes == 0 || first.value == 0) {
      kept += '?';
      text.remove_prefix(1);
      continue;
    }
    if (kept.size() + first.bytes > limit) break;
    kept += text.substr(0, first.bytes);
    text.remove_prefix(first.bytes);
  }
  return kept;
}

}  // namespace tickwheel::durable::detail
