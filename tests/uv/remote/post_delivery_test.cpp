// Operations between the post queue and their end: batches, turns, arming, closing.
#include "../../../src/uv/binding_watch.hpp"
#include "../support/still_driver.hpp"

#include <tickwheel/uv/detail/post_queue.hpp>
#include <tickwheel/uv/timer_service.hpp>

using tickwheel::detail::armed_timers;
using tickwheel::detail::ended_operations;
using tickwheel::detail::handler_log;
using tickwheel::detail::post_delivery;
using tickwheel::detail::post_queue;
using tickwheel::detail::posted_operation;

namespace {

struct post_delivery_test : ::testing::Test {
  post_delivery_test() {
    loop.bind(bound);
    timers.expect_open();
    EXPECT_EQ(timers.make_wheel({}), 0);
    timers.open(loop, {});
    log.restart(loop, 1ms);
    queue->open(loop);
    posts.open(*queue);
  }
  ~post_delivery_test() override {
    close();
    timers.drop_wheel();
  }

  /// Posts a call that appends `name` to `order`.
  void post(int name, std::chrono::nanoseconds after = 0ns) {
    const auto append = [this, name]() noexcept { order.push_back(name); };
    posted_operation* made = nullptr;
    tickwheel::clock::time_point due;
    ASSERT_EQ(queue->due_after(after, due), 0);
    ASSERT_EQ(queue->reserve(due, made), 0);
    ASSERT_TRUE(made->hold<decltype(append)>(append));
    ASSERT_TRUE(queue->push(*made));
  }
  void deliver(std::size_t visits = 100) {
    log.begin_stretch(loop.time, std::min(visits, handler_log::capacity), 24h);
    posts.deliver(visits, loop.time, loop.time, tickwheel::binding_watch{loop});
    log.end_stretch(loop.time);
  }
  void close() {
    ended_operations ended;
    posts.close(ended);
    timers.entries().clear(
        [&](tickwheel::wheel_entry& entry) noexcept { posts.forget(tickwheel::timer::from(entry), ended); });
  }

  std::vector<int> order;
  still_driver loop;
  idle_client bound;
  tickwheel::timer_service never_opened;
  armed_timers timers;
  handler_log log;
  post_queue* queue = post_queue::make(100, 100);
  post_delivery posts{never_opened, timers, log};
};

TEST_F(post_delivery_test, delivers_no_more_than_the_visits) {
  for (int i = 0; i < 3; ++i) post(i);
  posts.take();
  deliver(2);
  EXPECT_EQ(order, (std::vector{0, 1}));
  EXPECT_TRUE(posts.needs_loop());
  deliver(1);
  EXPECT_EQ(order.size(), 3U);
  EXPECT_FALSE(posts.needs_loop());
}

TEST_F(post_delivery_test, batch_ends_with_last_call_taken_before) {
  post(0);
  post(1);
  posts.take();
  posts.begin_batch();
  post(2);
  posts.take();
  EXPECT_TRUE(posts.batch_is_left());
  deliver(2);
  EXPECT_FALSE(posts.batch_is_left());
  EXPECT_TRUE(posts.any_left());
}

TEST_F(post_delivery_test, needs_loop_while_a_hold_is_left) {
  queue->add_hold();
  posts.expect_holds();
  posts.take();
  EXPECT_TRUE(posts.needs_loop());
  queue->drop_hold();
  EXPECT_EQ(loop.passes_requested, 1);
  posts.take();
  EXPECT_FALSE(posts.needs_loop());
}

}  // namespace
