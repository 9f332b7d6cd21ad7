// Programs that fork beside a scheduler whose tasks are in a database. Parent and child have the same connections.
#include "../store/fork_run.hpp"
#include "postgres_fixture.hpp"

#include <cstdint>

using namespace conformance;

namespace {

class postgres_fork : public testing::TestWithParam<int> {};

TEST_P(postgres_fork, parent_keeps_its_connections_and_misses_nothing) {
  postgres_fixture on;
  fork_run{on.make_store(), static_cast<std::uint64_t>(GetParam())}.run(60);
  EXPECT_TRUE(on.log.empty()) << on.log.front();
}

INSTANTIATE_TEST_SUITE_P(, postgres_fork, testing::Range(1, 6));

TEST(postgres_walk, closes_the_handles_of_an_open_store) {
  postgres_fixture on;
  durable::scheduler of{on.timers(), on.make_store(), {}};
  bool is_open = false;
  ASSERT_EQ(of.open([&](int error) noexcept { is_open = error == 0; }), 0);
  while (!is_open) on.turn();
  const auto close = [](uv_handle_t* h, void*) {
    if (uv_handle_get_type(h) == UV_POLL) uv_close(h, nullptr);
  };
  uv_walk(on.timers().loop(), close, nullptr);
  on.turn();
  of.close();
  on.turn();
}

}  // namespace
