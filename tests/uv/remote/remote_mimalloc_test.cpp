// In a program that links mimalloc the nodes of posted operations come from it, though the library does not link it: nodes are allocated
// by operator new, which mimalloc replaces. A program of its own, because the other tests replace operator new themselves.
#include <tickwheel/uv/manual_driver.hpp>
#include <tickwheel/uv/remote.hpp>

#include "../../support/prelude.hpp"

#include <mimalloc.h>

namespace {

struct look {
  int* from_mimalloc;
  void operator()() noexcept { *from_mimalloc += mi_is_in_heap_region(this); }  // it stands in its node
};

TEST(remote_handle, nodes_come_from_linked_mimalloc) {
  tickwheel::manual_driver time;
  tickwheel::timer_service timers;
  ASSERT_EQ(timers.open(time), 0);
  int from_mimalloc = 0;
  std::thread{[handle = timers.remote(), &from_mimalloc] {
    EXPECT_EQ(handle.post(look{&from_mimalloc}), 0);
    EXPECT_EQ(handle.post(1ms, look{&from_mimalloc}), 0);
  }}.join();
  time.advance(1s);
  EXPECT_EQ(from_mimalloc, 2);
}

}  // namespace
