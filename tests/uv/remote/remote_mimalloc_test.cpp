// In a program that links mimalloc the nodes of other threads' operations come from it, though the library does not link
// it: nodes are allocated by operator new, which mimalloc replaces. A program of its own, as the other tests replace
// operator new themselves.
#include <tickwheel/uv/manual_driver.hpp>
#include <tickwheel/uv/remote.hpp>

#include <gtest/gtest.h>
#include <mimalloc.h>

#include <chrono>
#include <thread>

using namespace std::chrono_literals;

namespace {

struct look {
  int* from_mimalloc;
  void operator()() noexcept { *from_mimalloc += mi_is_in_heap_region(this); }  // it stands in its node
};

TEST(nodes, come_from_mimalloc_when_the_program_links_it) {
  tickwheel::manual_driver time;
  tickwheel::timer_service timers;
  ASSERT_EQ(timers.open(time), 0);
  int from_mimalloc = 0;
  std::thread{[handle = timers.remote(), &from_mimalloc] {
    EXPECT_EQ(handle.post(0s, look{&from_mimalloc}), 0);
    EXPECT_EQ(handle.post(1ms, look{&from_mimalloc}), 0);
  }}.join();
  time.advance(1s);
  EXPECT_EQ(from_mimalloc, 2);
}

}  // namespace
