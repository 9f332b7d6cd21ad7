#include "disk_watch.hpp"

#include "../crash/parent/orders.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace chaos {

namespace {

constexpr std::chrono::milliseconds pause{20};

}  // namespace

disk_watch::disk_watch(const std::string& folder) {
  const std::string path = folder + "/disk_watch";
  const int file = ::open(path.c_str(), O_CREAT | O_RDWR | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) {
    std::perror(path.c_str());
    std::exit(2);
  }
  (void)::unlink(path.c_str());
  thread_ = std::thread{[this, file] { run(file); }};
}

disk_watch::~disk_watch() {
  is_over_ = true;
  thread_.join();
}

void disk_watch::run(int file) {
  using steady = std::chrono::steady_clock;
  while (!is_over_) {
    const std::int64_t wall = crash::true_wall();
    const auto before = steady::now();
    // each write allocates anew, as the log of a server does
    if (::ftruncate(file, 0) != 0 || ::pwrite(file, &wall, sizeof wall, 0) != sizeof wall || ::fsync(file) != 0) {
      std::perror("disk_watch");
      std::exit(2);
    }
    if (steady::now() - before >= stall) {
      const std::lock_guard lock{mutex_};
      stalls_.push_back(wall);
    }
    std::this_thread::sleep_for(pause);
  }
  (void)::close(file);
}

std::vector<std::int64_t> disk_watch::take_stalls() {
  const std::lock_guard lock{mutex_};
  return std::exchange(stalls_, {});
}

}  // namespace chaos
