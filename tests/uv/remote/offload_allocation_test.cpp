// Offloading without memory: each allocation of each call fails in turn. (The rest of the library: allocation_failure_test.)
#include "../../support/allocation_probe.hpp"
#include "../support/live_loop.hpp"
#include "../support/probe.hpp"

#include <tickwheel/uv/offload.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <memory>

using namespace std::chrono_literals;
using tickwheel::offload_pool;
using tickwheel::timer_service;

namespace {

/// Makes the call with its one allocation failing, and then with none.
template <class Call>
void with_and_without_memory(Call call) {
  const auto before = allocations::outstanding();
  {
    const allocations::failure failure{0};
    EXPECT_EQ(call(), UV_ENOMEM);
  }
  EXPECT_EQ(allocations::outstanding(), before);
  const allocations::failure of_the_second{1};
  EXPECT_EQ(call(), 0);
  EXPECT_FALSE(of_the_second.struck());
}

struct offload_without_memory : testing::Test {
  struct session {
    session(timer_service& timers, offload_pool& pool) : call{timers, pool, *this} {}
    void on_done(int failed, int* value) noexcept {
      ++answers;
      error = failed;
      result = value != nullptr ? *value : 0;
    }
    int answers = 0;
    int error = 1;
    int result = 0;
    tickwheel::offload<&session::on_done> call;
  };

  void SetUp() override { ASSERT_EQ(pool.open(loop, {.max_in_flight = 1}), 0); }
  void TearDown() override {
    loop.run();
    EXPECT_EQ(held.use_count(), 1) << "the work of a refused call was not destroyed";
  }
  auto work(int result) {
    return [result, held = held]() noexcept { return result; };
  }

  std::shared_ptr<int> held = std::make_shared<int>(0);
  live_loop loop;
  manual_service service;
  offload_pool pool;
  session s{service.timers, pool};
};

TEST_F(offload_without_memory, run_fails_and_can_be_tried_again) {
  with_and_without_memory([&] { return s.call.run(work(7)); });
  EXPECT_TRUE(s.call.in_flight());
  loop.run();
  EXPECT_EQ(s.answers, 1);
  EXPECT_EQ(s.result, 7);
}

TEST_F(offload_without_memory, arm_fails_and_can_be_tried_again) {
  with_and_without_memory([&] { return s.call.arm(1ms, work(7)); });
  EXPECT_TRUE(s.call.armed());
  service.advance(2ms);
  loop.run();
  EXPECT_EQ(s.result, 7);
}

TEST_F(offload_without_memory, takes_no_place_in_pool) {
  {
    const allocations::failure failure{0};
    EXPECT_EQ(s.call.run(work(7)), UV_ENOMEM);
  }
  EXPECT_EQ(pool.in_flight(), 0U);
  EXPECT_EQ(pool.refused(), 0U);
}

TEST_F(offload_without_memory, leaves_armed_work_armed) {
  ASSERT_EQ(s.call.arm(1ms, work(7)), 0);
  {
    const allocations::failure failure{0};
    EXPECT_EQ(s.call.arm(1h, work(8)), UV_ENOMEM);
    EXPECT_EQ(s.call.run(work(9)), UV_ENOMEM);
  }
  service.advance(2ms);
  loop.run();
  EXPECT_EQ(s.answers, 1);
  EXPECT_EQ(s.result, 7);
}

TEST_F(offload_without_memory, leaves_work_in_flight_to_be_answered) {
  ASSERT_EQ(s.call.run(work(7)), 0);
  {
    const allocations::failure failure{0};
    EXPECT_EQ(s.call.run(work(8)), UV_ENOMEM);
    EXPECT_EQ(s.call.arm(1ms, work(9)), UV_ENOMEM);
  }
  service.advance(2ms);
  loop.run();
  EXPECT_EQ(s.answers, 1);
  EXPECT_EQ(s.result, 7);
}

TEST_F(offload_without_memory, answers_cancels_and_closes) {
  ASSERT_EQ(s.call.run(work(7)), 0);
  session cancelled{service.timers, pool};
  ASSERT_EQ(cancelled.call.arm(1h, work(8)), 0);
  const allocations::failure none{0};
  EXPECT_TRUE(cancelled.call.cancel());
  uv_run(loop.get(), UV_RUN_DEFAULT);
  EXPECT_EQ(s.result, 7);
  pool.close();
  EXPECT_FALSE(none.struck());
}

}  // namespace
