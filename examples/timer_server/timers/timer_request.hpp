// A client schedules a timer by this request: the JSON document of PUT /v1/timers/{id}.
#pragma once

#include "../callbacks/callback_request.hpp"

#include <tickwheel/durable/task.hpp>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace timer_server {

/// A timer that is to be scheduled.
struct timer_request {
  std::optional<tickwheel::durable::clock::time_point> due;  // this, or `in`
  std::chrono::nanoseconds in{};                             // from the time at which the request is accepted
  std::chrono::nanoseconds every{};                          // zero: the timer is due once
  tickwheel::durable::on_conflict conflict = tickwheel::durable::on_conflict::keep;
  callback_request callback;
};

/// Why a document is no timer request.
struct request_mistake {
  std::optional<std::string> field;  // the field that is wrong; no value: it is the document
  std::string detail;                // a whole sentence that names the field
};

/// The shortest period: faster ones are polling, and belong into the callee.
inline constexpr std::chrono::seconds shortest_period{1};

/// The most headers that a callback may have.
inline constexpr std::size_t max_callback_headers = 64;

/// Reads a document such as
///
///   {"in": "PT30M", "callback": "http://127.0.0.1:9000/unpaid", "headers": {"Content-Type": "text/plain"}, "body": "order 7"}
///
/// A field that is unknown, or that stands there twice, is a mistake. *Thread safety:* a pure function. *Complexity:* that of
/// the text.
std::variant<timer_request, request_mistake> read_timer_request(std::string_view text);

}  // namespace timer_server
