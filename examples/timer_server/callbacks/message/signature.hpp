// By its signature a callee tells a callback from what others send to its URL.
//
//   Timer-Signature: t=1767225600,v1=96a067a1c95eb143fc00b9097bcfcbcd5456adda508c443ff219748e764dbed7
//
//   t    when it was signed, in seconds since 1970
//   v1   the HMAC-SHA256 of t, a '.' and the body, with the shared secret, in hexadecimal digits
//
// To check it, a callee
//
//   1. computes the HMAC of the t that it was sent, a '.' and the body, byte for byte as it came,
//   2. compares it with v1, in a time that does not depend on where they differ,
//   3. refuses it if t is more than five minutes away from its own clock, so that nobody can send an old callback again.
//
// The headers are not signed, nor is the URL. Whatever the callee must be able to trust belongs in the body. In Python:
//
//   t, v1 = (part.split("=")[1] for part in header.split(","))
//   expected = hmac.new(secret, t.encode() + b"." + body, hashlib.sha256).hexdigest()
//   valid = hmac.compare_digest(expected, v1) and abs(time.time() - int(t)) < 300
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace timer_server {

/// Returns the value of the header Timer-Signature; none if libcrypto fails, for instance because it has no memory. Call it once at the
/// start: if libcrypto has no HMAC, or no SHA-256, each call returns none.
std::optional<std::string> signature_of(std::string_view body, std::string_view secret,
                                        std::chrono::system_clock::time_point now);

}  // namespace timer_server
