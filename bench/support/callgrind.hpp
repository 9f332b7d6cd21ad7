// This program once more, under valgrind's callgrind: for figures that need no quiet machine.
#pragma once

#include <unistd.h>

#include <array>
#include <climits>
#include <cstdio>
#include <string>

namespace tickwheel::bench {

/// Runs it with `arguments`, callgrind with `options`, and calls `take(const char* line)` with each line that either of them writes.
/// Returns false if that fails, or ends with another code than 0.
template <class F>
bool run_under_callgrind(const std::string& options, const std::string& arguments, F&& take) {
  std::array<char, PATH_MAX> self{};
  if (::readlink("/proc/self/exe", self.data(), self.size() - 1) <= 0) return false;
  const std::string command = "valgrind --tool=callgrind " + options + " '" + self.data() + "' " + arguments + " 2>&1";
  std::FILE* const out = ::popen(command.c_str(), "r");  // NOLINT(cert-env33-c): the words are our own
  if (out == nullptr) return false;
  for (std::array<char, 1024> line; std::fgets(line.data(), line.size(), out) != nullptr;) take(line.data());
  return ::pclose(out) == 0;
}

}  // namespace tickwheel::bench
