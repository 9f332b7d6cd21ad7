#include "bearer_tokens.hpp"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <boost/beast/core/string.hpp>

#include <algorithm>
#include <cmath>

namespace timer_server {
namespace {

constexpr std::size_t least_length = 16;

bool is_of_tokens(char c) noexcept {
  constexpr std::string_view others = "-._~+/=";
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         others.find(c) != std::string_view::npos;
}

// Empty if the header has another scheme.
std::string_view token_in(std::string_view authorization) noexcept {
  constexpr boost::beast::string_view scheme = "bearer ";
  if (!boost::beast::iequals({authorization.data(), std::min(authorization.size(), scheme.size())}, scheme)) return {};
  authorization.remove_prefix(scheme.size());
  authorization.remove_prefix(std::min(authorization.find_first_not_of(' '), authorization.size()));
  return authorization;
}

}  // namespace

std::string bearer_tokens::read(std::string_view list) {
  std::vector<token> known;
  for (std::size_t number = 1; !list.empty(); ++number) {
    const std::string_view whole = list.substr(0, list.find('\n'));
    list.remove_prefix(std::min(whole.size() + 1, list.size()));
    std::string_view line = whole;
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t')) line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    const std::string where = "line " + std::to_string(number) + ": ";
    if (line.size() < least_length) return where + "the token is shorter than 16 characters";
    if (!std::all_of(line.begin(), line.end(), is_of_tokens))
      return where + "the token has a character other than letters, digits and -._~+/=";
    const auto hash = hash_of(line);
    if (!hash) return "libcrypto cannot compute SHA-256; see openssl list -digest-algorithms";
    known.push_back({.hash = *hash, .left = rate_.burst, .since = tickwheel::clock::time_point::min()});
  }
  if (known.empty()) return "it has no token";
  known_ = std::move(known);
  return {};
}

bearer_tokens::answer bearer_tokens::admit(std::string_view authorization, tickwheel::clock::time_point now) noexcept {
  const auto given = hash_of(token_in(authorization));
  if (!given) return {verdict::unknown};
  token* found = nullptr;
  for (token& each : known_)
    if (CRYPTO_memcmp(each.hash.data(), given->data(), given->size()) == 0) found = &each;
  return found == nullptr ? answer{verdict::unknown} : take(*found, now);
}

std::optional<bearer_tokens::digest> bearer_tokens::hash_of(std::string_view text) noexcept {
  digest hash{};
  if (SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash.data()) == nullptr)
    return std::nullopt;
  return hash;
}

// A bucket: it fills at the rate up to the burst, and each request takes one out.
bearer_tokens::answer bearer_tokens::take(token& from, tickwheel::clock::time_point now) const noexcept {
  if (rate_.per_second <= 0) return {verdict::admitted};
  if (from.since == tickwheel::clock::time_point::min()) from.since = now;
  const std::chrono::duration<double> passed = now - from.since;
  from.left = std::min(rate_.burst, from.left + std::max(passed.count(), 0.0) * rate_.per_second);
  from.since = now;
  if (from.left < 1) {
    const double wait = std::ceil((1 - from.left) / rate_.per_second);
    return {verdict::too_many, std::chrono::seconds{static_cast<std::int64_t>(std::clamp(wait, 1.0, 3600.0))}};
  }
  from.left -= 1;
  return {verdict::admitted};
}

}  // namespace timer_server
