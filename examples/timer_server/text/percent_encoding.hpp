// Percent-encoding of URLs (RFC 3986, 2.1).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace timer_server {

/// The meaning of a plus sign: in a query a space, in a path itself.
enum class plus_sign : bool { itself, space };

/// Decodes a part of a URL. No value: a percent sign is not followed by two hexadecimal digits.
std::optional<std::string> percent_decode(std::string_view, plus_sign = plus_sign::itself);

/// Encodes each byte that is no visible ASCII character, and the percent sign. So any text can be a header's value.
std::string percent_encode(std::string_view);

}  // namespace timer_server
