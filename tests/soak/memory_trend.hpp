// Tells whether the memory of the process grows: its resident size, once per second, and the slope of the line through that.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <vector>

namespace soak {

/// Returns the number of resident bytes; 0 if the system does not tell.
inline double resident_bytes() {
  std::ifstream file{"/proc/self/statm"};
  double total = 0, resident = 0;  // in pages
  return file >> total >> resident ? resident * static_cast<double>(sysconf(_SC_PAGESIZE)) : 0;
}

class memory_trend {
 public:
  /// Reserves memory, so that adding samples allocates nothing.
  void reserve(std::size_t samples) { samples_.reserve(samples); }
  void add(double seconds, double bytes) { samples_.push_back({seconds, bytes}); }
  double seconds() const noexcept { return samples_.empty() ? 0 : samples_.back().seconds - samples_.front().seconds; }

  /// Returns the bytes per second, by least squares; 0 for less than two samples.
  double slope() const noexcept {
    const double n = static_cast<double>(samples_.size());
    if (n < 2) return 0;
    double mean_x = 0, mean_y = 0;
    for (const auto& s : samples_) {
      mean_x += s.seconds / n;
      mean_y += s.bytes / n;
    }
    double products = 0, squares = 0;
    for (const auto& s : samples_) {
      products += (s.seconds - mean_x) * (s.bytes - mean_y);
      squares += (s.seconds - mean_x) * (s.seconds - mean_x);
    }
    return squares > 0 ? products / squares : 0;
  }

 private:
  struct sample {
    double seconds, bytes;
  };
  std::vector<sample> samples_;
};

}  // namespace soak
