// The bytes of a request, except its body.
#pragma once

#include "../callback_request.hpp"
#include "url.hpp"

#include <optional>
#include <string>

namespace timer_server {

/// Writes the request line and the header to `out`, instead of what was there. `signature` is the value of Timer-Signature.
/// Requires: `problem_of_request(request)` is null, and `url` has the parts of its URL.
void write_request_head(std::string& out, const callback_request& request, const callback_url& url,
                        const std::optional<std::string>& signature);

}  // namespace timer_server
