// Tells a program which of its handlers block the loop.
#pragma once

#include <tickwheel/uv/expiry_report.hpp>

#include <chrono>

namespace tickwheel {

/// A handler that took `service_options::slow_handler` or longer.
struct slow_handler {
  expiry_report::handler_id handler;  ///< as `timer::handler()` returns it; `handler_name` writes it
  std::chrono::nanoseconds took;      ///< how long it ran
};

/// Called for a slow handler after it has returned. May do everything that a handler may.
using slow_handler_hook = void (*)(void* context, const slow_handler&) noexcept;

}  // namespace tickwheel
