// Where there is no timerfd, asking for one is answered so.
#include "loop_driver.hpp"

#include <gtest/gtest.h>

using tickwheel::driver;
using tickwheel::make_loop_driver;
using tickwheel::wake_by;

namespace {

TEST(timerfd_wakeup, answers_ENOTSUP_where_there_is_none) {
  uv_loop_t loop;
  ASSERT_EQ(uv_loop_init(&loop), 0);
  driver* made = nullptr;
  EXPECT_EQ(make_loop_driver(loop, wake_by::timerfd, made), UV_ENOTSUP);
  EXPECT_EQ(made, nullptr);
  EXPECT_EQ(uv_loop_close(&loop), 0) << "nothing was linked to it";
}

TEST(timerfd_wakeup, uv_timer_wakes_where_there_is_none) {
  uv_loop_t loop;
  ASSERT_EQ(uv_loop_init(&loop), 0);
  driver* made = nullptr;
  ASSERT_EQ(make_loop_driver(loop, wake_by::uv_timer, made), 0);
  made->unbind();  // it frees itself
  uv_run(&loop, UV_RUN_DEFAULT);
  EXPECT_EQ(uv_loop_close(&loop), 0);
}

}  // namespace
