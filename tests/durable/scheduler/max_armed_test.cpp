// A scheduler on a service whose `max_armed` is reached by others.
#include "../support/manual_node.hpp"

#include <tickwheel/uv/timer.hpp>

#include <uv.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

using namespace tickwheel_test;

namespace {

using plain_timer = tickwheel::callback_timer<void (*)() noexcept>;

/// Timers of an application that take every place there is.
class greedy_timers {
 public:
  explicit greedy_timers(tickwheel::timer_service& of) : timers_{of} {}

  /// Returns how many places it took.
  std::size_t take_all() {
    const std::size_t before = taken_.size();
    while (true) {
      auto one = std::make_unique<plain_timer>(timers_, []() noexcept {});
      if (one->arm(24h) != 0) return taken_.size() - before;
      taken_.push_back(std::move(one));
    }
  }
  void give_back(std::size_t places) { taken_.resize(taken_.size() - places); }
  void give_back_all() { taken_.clear(); }

 private:
  tickwheel::timer_service& timers_;
  std::vector<std::unique_ptr<plain_timer>> taken_;
};

TEST(scheduler_max_armed, stops_no_node_when_it_is_reached_for_a_while) {
  manual_world world{{.max_armed = 40}};
  manual_node node{world, {.name = "a", .lease = 400ms, .poll = 10ms, .window = 100ms}};
  ASSERT_EQ(node.open(), 0);
  greedy_timers application{world.manual.timers};
  for (int i = 0; i != 3000; ++i) {
    application.take_all();
    node.advance(100us);
  }
  application.give_back_all();
  EXPECT_EQ(node.schedule("a", 800ms), durable::schedule_result::scheduled);
  node.advance(1s);
  EXPECT_EQ(node.started, std::vector<std::string>{"a"});
}

TEST(scheduler_max_armed, delays_no_answer_when_it_is_reached) {
  manual_world world{{.max_armed = 40}};
  manual_node node{world};
  ASSERT_EQ(node.open(), 0);
  greedy_timers application{world.manual.timers};
  application.take_all();
  EXPECT_EQ(node.scheduler.cancel("a", [](durable::cancel_result) noexcept {}), UV_EAGAIN);
  application.give_back(1);  // for the deadline of the request
  EXPECT_EQ(node.cancel("a"), durable::cancel_result::not_found);
}

TEST(scheduler_max_armed, open_needs_places_and_leaves_none_taken_without) {
  manual_world world{{.max_armed = 40}};
  manual_node node{world};
  greedy_timers application{world.manual.timers};
  application.take_all();
  std::size_t places = 0;
  for (int error = 0; (error = node.scheduler.open([](int) noexcept {})) != 0; ++places) {
    ASSERT_LT(places, 20U);
    EXPECT_EQ(error, UV_ENOMEM);
    EXPECT_EQ(application.take_all(), places);
    application.give_back(places + 1);
  }
  application.give_back_all();
  node.schedule("a", 10ms);
  node.advance(100ms);
  EXPECT_EQ(node.started, std::vector<std::string>{"a"});
}

}  // namespace
