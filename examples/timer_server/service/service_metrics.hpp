// The metrics of the service beside those of its scheduler, as text for Prometheus.
#pragma once

#include "../callbacks/callback_stats.hpp"
#include "../http/http_connection.hpp"

#include <ostream>

namespace timer_server {

/// Writes the text exposition format, version 0.0.4, with the prefix `timer_server_`.
void write_prometheus(std::ostream&, const connections&, const callback_stats&);

}  // namespace timer_server
