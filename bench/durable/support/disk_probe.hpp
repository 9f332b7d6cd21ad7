// How long the disk takes to make 64 KiB durable: the floor of every commit.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace tickwheel::bench {

/// Returns the durations of `times` fsyncs of 64 KiB each, sorted. Empty if the file cannot be written.
inline std::vector<std::chrono::nanoseconds> measure_fsync(const std::string& path, std::size_t times) {
  const int file = ::open(path.c_str(), O_CREAT | O_RDWR | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return {};
  const std::vector<char> block(64 << 10, 'x');
  std::vector<std::chrono::nanoseconds> took;
  for (std::size_t i = 0; i != times; ++i) {
    if (::write(file, block.data(), block.size()) != static_cast<ssize_t>(block.size())) break;
    const auto before = std::chrono::steady_clock::now();
    if (::fsync(file) != 0) break;
    took.push_back(std::chrono::steady_clock::now() - before);
  }
  ::close(file);
  ::unlink(path.c_str());
  std::sort(took.begin(), took.end());
  return took;
}

}  // namespace tickwheel::bench
