// The end of a benchmark that cannot go on.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace tickwheel::bench {

/// The process that was started first. The others are its children.
inline const pid_t first_process = ::getpid();

/// Prints one line, and ends this process. The first process stops its server, and the end of a child ends the first process.
[[noreturn]] inline void fail(const std::string& what) noexcept {
  std::fprintf(stderr, "durable_bench: %s\n", what.c_str());
  if (::getpid() != first_process) std::_Exit(1);
  std::exit(1);
}

}  // namespace tickwheel::bench
