// The log of handlers: how long each took, and who is told of the slow ones.
#include "../../../src/uv/binding_watch.hpp"
#include "../support/still_driver.hpp"

#include <tickwheel/uv/detail/handler_log.hpp>

using tickwheel::binding_watch;
using tickwheel::detail::handler_log;

namespace {

struct handler_log_test : ::testing::Test {
  handler_log_test() {
    loop.bind(service);
    log.restart(1ms);
    log.on_slow(&on_slow, this);
  }

  static void on_slow(void* self, const tickwheel::slow_handler& slow) noexcept {
    static_cast<handler_log_test*>(self)->told.push_back(slow.took);
    if (const auto& then = static_cast<handler_log_test*>(self)->then) then();
  }

  void begin() { log.begin(nullptr, time, {}, time); }
  void run_for(std::chrono::nanoseconds taking) {
    begin();
    log.end(time += taking);
  }
  void tell() { log.tell_slow(binding_watch{loop}); }

  using times = std::vector<std::chrono::nanoseconds>;

  still_driver loop;
  idle_client service;
  tickwheel::clock::time_point time{1h};
  handler_log log;
  times told;
  std::function<void()> then;
};

TEST_F(handler_log_test, next_handler_ends_the_one_before) {
  begin();
  time += 5ms;
  begin();
  log.end(time += 1us);
  EXPECT_EQ(log.times().count(), 2U);
  tell();
  EXPECT_EQ(told, (times{5ms}));
}

TEST_F(handler_log_test, end_without_handler_records_nothing) {
  log.end(time);
  run_for(1us);
  log.end(time += 1h);
  EXPECT_EQ(log.times().count(), 1U);
}

TEST_F(handler_log_test, tells_slow_handlers_in_order_and_once) {
  for (int i = 1; i <= static_cast<int>(handler_log::capacity); ++i) run_for(i * 1ms);
  tell();
  ASSERT_EQ(told.size(), handler_log::capacity);
  EXPECT_EQ(told.front(), 1ms);
  EXPECT_EQ(told.back(), handler_log::capacity * 1ms);
  EXPECT_FALSE(log.has_untold());
  tell();
  EXPECT_EQ(told.size(), handler_log::capacity);
}

TEST_F(handler_log_test, counts_slow_handlers_without_hook) {
  log.on_slow(nullptr, nullptr);
  for (std::size_t i = 0; i < 2 * handler_log::capacity; ++i) run_for(1ms);
  EXPECT_EQ(log.slow_handlers(), 2 * handler_log::capacity);
  EXPECT_FALSE(log.has_untold());
}

TEST_F(handler_log_test, hook_may_remove_itself) {
  then = [&] { log.on_slow(nullptr, nullptr); };
  run_for(1ms);
  run_for(2ms);
  tell();
  EXPECT_EQ(told, (times{1ms}));
}

TEST_F(handler_log_test, tells_no_more_once_binding_has_ended) {
  then = [&] { loop.unbind(); };
  run_for(1ms);
  run_for(2ms);
  tell();
  EXPECT_EQ(told, (times{1ms}));
}

TEST_F(handler_log_test, restart_forgets_handlers_and_keeps_hook) {
  run_for(5ms);
  begin();
  log.restart(2ms);
  EXPECT_EQ(log.times().count(), 0U);
  EXPECT_EQ(log.slow_handlers(), 0U);
  EXPECT_FALSE(log.has_untold());
  log.end(time += 1s);  // of none that it knows
  run_for(1ms);
  run_for(2ms);
  tell();
  EXPECT_EQ(told, (times{2ms}));
}

}  // namespace
