// A process that has no descriptor left: what still works, what is refused, and that it can be tried again.
#include "../../support/allocation_probe.hpp"
#include "../../support/sanitizers.hpp"
#include "../support/descriptors.hpp"
#include "../support/live_loop.hpp"
#include "../support/probe.hpp"
#include "../support/remote_checks.hpp"

#include <tickwheel/uv/remote.hpp>

using tickwheel::timer_service;

namespace {

TEST(service_open, works_without_descriptors) {
  if (under_address_sanitizer) GTEST_SKIP() << "the sanitizer that comes with it needs descriptors to look at objects";
  live_loop loop;
  timer_service timers;
  const auto before = open_descriptors();
  std::optional<no_descriptors> none{std::in_place};
  ASSERT_EQ(timers.open(loop), 0);
  probe p{timers, 2ms};
  int ran = 0;
  std::thread poster{[&ran, handle = timers.remote(), hold = timers.hold()] {
    std::this_thread::sleep_for(5ms);  // so that it has to wake the loop
    EXPECT_EQ(handle.post(0s, count_in(ran)), 0);
  }};
  loop.run();
  poster.join();
  EXPECT_EQ(p.fired, 1);
  EXPECT_EQ(ran, 1);
  timers.close();
  loop.run();
  none.reset();
  EXPECT_EQ(open_descriptors(), before);
}

// In libuv a loop gets the descriptor by which it is woken when it is made, and anew in uv_loop_fork: where that finds
// none, the next async handle tries again, and that is ours.
TEST(service_open, is_refused_until_the_loop_has_a_descriptor) {
  if (under_address_sanitizer) GTEST_SKIP() << "the sanitizer that comes with it needs descriptors to look at objects";
  live_loop loop;
  std::vector<int> below;
  const int poll = uv_backend_fd(loop.get());
  for (int fd = lowest_free(); fd >= 0; fd = lowest_free()) {
    below.push_back(fd);
    if (fd > poll) break;
  }
  const auto before = allocations::outstanding();
  timer_service timers;
  {
    const descriptor_limit only_the_poll{poll + 1};
    ASSERT_EQ(uv_loop_fork(loop.get()), UV_EMFILE);
    EXPECT_EQ(timers.open(loop), UV_EMFILE);
    EXPECT_FALSE(timers.is_open());
    EXPECT_EQ(allocations::outstanding(), before);
    EXPECT_EQ(timers.open(loop), UV_EMFILE) << "as often as it is asked";
    EXPECT_EQ(allocations::outstanding(), before);
  }
  for (const int fd : below) ::close(fd);
  ASSERT_EQ(timers.open(loop), 0);
  int ran = 0;
  probe p{timers, 1ms};
  ASSERT_EQ(timers.remote().post(0s, count_in(ran)), 0);
  loop.run();
  EXPECT_EQ(p.fired, 1);
  EXPECT_EQ(ran, 1);
}

}  // namespace
