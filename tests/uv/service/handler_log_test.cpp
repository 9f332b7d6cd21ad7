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
    log.restart(loop, 1ms);
    log.on_slow(&on_slow, this);
  }

  static void on_slow(void* self, const tickwheel::slow_handler& slow) noexcept {
    static_cast<handler_log_test*>(self)->told.push_back(slow.took);
    if (const auto& then = static_cast<handler_log_test*>(self)->then) then();
  }

  /// Up to so many handlers run from now on, for about so long.
  void begin_stretch(std::size_t handlers = handler_log::capacity, std::chrono::nanoseconds time = 24h) {
    log.begin_stretch(loop.time, handlers, time);
  }
  void begin() { log.begin(nullptr, loop.time, {}); }
  void end_stretch() { log.end_stretch(loop.time); }
  void run_for(std::chrono::nanoseconds taking) {
    begin_stretch(1);
    begin();
    loop.time += taking;
    end_stretch();
  }
  void tell() { log.tell_slow(binding_watch{loop}); }

  using times = std::vector<std::chrono::nanoseconds>;

  still_driver loop;
  idle_client service;
  handler_log log;
  times told;
  std::function<void()> then;
};

TEST_F(handler_log_test, next_handler_ends_the_one_before) {
  begin_stretch();
  begin();
  loop.time += 5ms;
  begin();
  loop.time += 1us;
  end_stretch();
  EXPECT_EQ(log.times().count(), 2U);
  EXPECT_EQ(log.times().max(), 5'000'000U);
  tell();
  EXPECT_EQ(told, (times{5ms}));
}

TEST_F(handler_log_test, handler_that_ended_is_not_charged_further) {
  begin_stretch();
  begin();
  loop.time += 2ms;
  log.end();
  loop.time += 1h;
  begin();
  end_stretch();
  tell();
  EXPECT_EQ(told, (times{2ms}));
  EXPECT_EQ(log.times().count(), 2U);
}

TEST_F(handler_log_test, handler_taken_back_is_no_call_and_ends_the_one_before) {
  begin_stretch();
  begin();
  loop.time += 2ms;
  begin();
  log.take_back();
  loop.time += 1h;
  begin();
  loop.time += 3ms;
  end_stretch();
  tell();
  EXPECT_EQ(told, (times{2ms, 3ms}));
  EXPECT_EQ(log.times().count(), 2U);
}

TEST_F(handler_log_test, handler_taken_back_after_settle_is_no_call) {
  begin_stretch();
  begin();
  log.settle();
  log.take_back();
  loop.time += 1h;
  end_stretch();
  EXPECT_EQ(log.times().count(), 0U);
}

TEST_F(handler_log_test, settle_records_what_has_ended) {
  begin_stretch();
  begin();
  loop.time += 2ms;
  begin();
  loop.time += 3ms;
  log.settle();
  EXPECT_EQ(log.times().count(), 1U);
  EXPECT_EQ(log.lateness().report().ran, loop.time - 3ms);
  loop.time += 4ms;
  begin();
  end_stretch();
  tell();
  EXPECT_EQ(told, (times{2ms, 7ms}));
}

TEST_F(handler_log_test, settle_of_nothing_reads_no_clock) {
  run_for(1us);
  const int before = loop.reads;
  log.settle();
  EXPECT_EQ(loop.reads, before);
}

TEST_F(handler_log_test, clock_is_looked_at_after_the_last_handler_that_was_granted) {
  begin_stretch(3);
  for (std::size_t left : {2U, 1U, 0U}) {
    begin();
    EXPECT_EQ(log.handlers_left(), left);
    EXPECT_EQ(log.must_look_at_clock(), left == 0);
  }
  end_stretch();
  begin_stretch(1);
  EXPECT_FALSE(log.must_look_at_clock());
  end_stretch();
}

TEST_F(handler_log_test, clock_is_looked_at_once_a_handler_begins_late) {
  begin_stretch(handler_log::capacity, 1ms);
  begin();
  loop.time += 1ms - 1ns;
  begin();
  EXPECT_FALSE(log.must_look_at_clock());
  log.settle();
  loop.time += 2ns;
  begin();
  EXPECT_TRUE(log.must_look_at_clock());
  end_stretch();
}

TEST_F(handler_log_test, stretch_within_a_stretch_stops_the_process) {
  begin_stretch();
  begin();
  EXPECT_DEATH(begin_stretch(), "tickwheel: timer_service: a handler ran the loop");
}

TEST_F(handler_log_test, hook_that_runs_the_loop_stops_the_process) {
  run_for(1ms);
  then = [this] { begin_stretch(); };
  EXPECT_DEATH(tell(), "tickwheel: timer_service: a handler ran the loop");
  then = nullptr;
  tell();
  run_for(1us);
}

TEST_F(handler_log_test, stretch_has_room_for_its_capacity_only) {
  begin_stretch();
  for (std::size_t i = 0; i < handler_log::capacity; ++i) begin();
  EXPECT_DEATH(begin(), "tickwheel: handler_log: more handlers ran than a stretch may have");
  EXPECT_DEATH(log.end(), "tickwheel: handler_log: more handlers ran than a stretch may have");
}

TEST_F(handler_log_test, end_without_handler_records_nothing) {
  begin_stretch();
  log.end();
  end_stretch();
  run_for(1us);
  begin_stretch();
  loop.time += 1h;
  end_stretch();
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
  begin_stretch();
  begin();
  log.restart(loop, 2ms);
  EXPECT_EQ(log.times().count(), 0U);
  EXPECT_EQ(log.slow_handlers(), 0U);
  EXPECT_FALSE(log.has_untold());
  loop.time += 1s;
  end_stretch();  // of none that it knows
  run_for(1ms);
  run_for(2ms);
  tell();
  EXPECT_EQ(told, (times{2ms}));
}

}  // namespace
