// How many descriptors the process has, and a limit on them.
#pragma once

#include "../../support/prelude.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>

inline std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator{"/proc/self/fd"}, std::filesystem::directory_iterator{});
}

/// A descriptor of no use: the lowest that is free, as the kernel gives it. Negative without one.
inline int lowest_free() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

/// While it lives, the process gets no descriptor of this number or above.
class descriptor_limit {
 public:
  explicit descriptor_limit(int first_refused) {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit low = before_;
    low.rlim_cur = static_cast<rlim_t>(first_refused);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  }
  ~descriptor_limit() { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0); }
  descriptor_limit(const descriptor_limit&) = delete;
  descriptor_limit& operator=(const descriptor_limit&) = delete;

 private:
  rlimit before_{};
};

/// While it lives, the process gets no descriptor at all.
class no_descriptors {
 public:
  no_descriptors() {
    const int lowest = lowest_free();
    ::close(lowest);
    limit_.emplace(lowest);
    EXPECT_LT(lowest_free(), 0);
  }

 private:
  std::optional<descriptor_limit> limit_;
};
