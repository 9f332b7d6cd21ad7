// The callback of a timer as the store keeps it: the payload of its durable task.
#pragma once

#include "../callbacks/callback_request.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace timer_server {

/// Writes a callback as compact JSON.
std::string write_payload(const callback_request&);

/// Reads what `write_payload` has written. No value: it is something else, for instance because another program wrote it.
std::optional<callback_request> read_payload(std::string_view);

}  // namespace timer_server
