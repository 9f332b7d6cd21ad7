// Tells a program which of its handlers hold the loop up.
#pragma once

#include <tickwheel/uv/expiry_report.hpp>

#include <chrono>

namespace tickwheel {

/// A handler that took `service_options::slow_handler` or longer.
struct slow_handler {
  expiry_report::handler_id handler;  ///< as `timer::handler()` says; see `expiry_report::handler`
  std::chrono::nanoseconds took;      ///< how long
};

/// Told of a slow handler, after it has returned. May do what a handler may.
using slow_handler_hook = void (*)(void* context, const slow_handler&) noexcept;

}  // namespace tickwheel
