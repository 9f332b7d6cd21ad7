// The line that a server leaves in its log for each connection it closed by a timeout: enough to tell a silent peer from a
// server that was slow.
#pragma once

#include <tickwheel/uv/timer_service.hpp>

#include <chrono>
#include <cstdio>
#include <sstream>
#include <string_view>

/// For a handler. `limit` names the limit that was exceeded.
inline void log_timeout(const tickwheel::timer_service& timers, std::string_view limit) {
  std::ostringstream line;
  line << limit << ", " << timers.why() << '\n';
  std::fputs(line.str().c_str(), stdout);
}

/// `silence` is how long the peer did nothing, without the time of our own stalls.
inline void log_timeout(const tickwheel::timer_service& timers, std::string_view limit,
                        std::chrono::nanoseconds silence) {
  std::ostringstream line;
  line << limit << ": silent for " << std::chrono::duration<double>(silence).count() << " s";
  log_timeout(timers, line.str());
}
