// The wall clock of a child that was started under libfaketime. The library reads the offset from a file at each look at the clock.
#include "wall_clock.hpp"

#include <time.h>

#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

namespace crash {

namespace {

constexpr std::int64_t second = 1'000'000'000;
// libfaketime reckons with doubles
constexpr std::int64_t inexactness = 1'000;

void write_offset(std::int64_t ahead) noexcept {
  const char* const name = std::getenv("FAKETIME_TIMESTAMP_FILE");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  if (name == nullptr) std::abort();
  const std::int64_t size = ahead < 0 ? -ahead : ahead;
  std::array<char, 64> text{};
  (void)std::snprintf(text.data(), text.size(), "%c%" PRId64 ".%09" PRId64 "\n", ahead < 0 ? '-' : '+', size / second,
                      size % second);
  // no look at the clock finds half a file
  const std::string made = std::string{name} + ".new";
  std::FILE* const file = std::fopen(made.c_str(), "w");
  if (file == nullptr || std::fputs(text.data(), file) < 0 || std::fclose(file) != 0 ||
      std::rename(made.c_str(), name) != 0)
    std::abort();
}

}  // namespace

std::int64_t wall_now() noexcept {
  timespec now{};
  (void)clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * second + now.tv_nsec;
}

clock_step set_wall_clock(std::int64_t ahead) noexcept {
  static std::int64_t current = 0;
  const std::int64_t before = std::exchange(current, ahead);
  const std::int64_t begin = wall_now() - before;
  write_offset(ahead);
  return {wall_now() - ahead + before + inexactness, begin + ahead - inexactness};
}

}  // namespace crash
