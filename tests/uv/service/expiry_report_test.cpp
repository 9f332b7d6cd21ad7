// The answers of timer_service::why(). The tick divides every time here, so that all of it is exact.
#include "../support/probe.hpp"
#include "../support/short_stream.hpp"

#include <tickwheel/uv/remote.hpp>

#include <iomanip>
#include <optional>

using tickwheel::stalled_by;

namespace {

using expiry_report = manual_test;

constexpr auto tick = std::chrono::nanoseconds{1 << 17};

/// Asks why it was late, and then blocks.
struct reporter {
  explicit reporter(manual_service& on, std::chrono::nanoseconds then_blocks = {})
      : service{on}, block{then_blocks}, timeout{on.timers, *this} {}
  /// An armed one.
  reporter(manual_service& on, std::chrono::nanoseconds after, std::chrono::nanoseconds then_blocks)
      : reporter{on, then_blocks} {
    expect_arm(timeout, after);
  }

  void on_timeout() noexcept {
    report = service.timers.why();
    if (block.count() > 0) service.time.block(block);
  }

  manual_service& service;
  std::chrono::nanoseconds block;
  tickwheel::expiry_report report{};
  tickwheel::member_timer<&reporter::on_timeout> timeout;
};

/// Expects a stall that is mostly due to `by`, for so long.
void expect_stall(const tickwheel::expiry_report& r, std::chrono::nanoseconds stall, stalled_by by,
                  std::chrono::nanoseconds by_for, tickwheel::expiry_report::handler_id handler = nullptr) {
  EXPECT_EQ(r.stall, stall);
  EXPECT_EQ(r.by, by);
  EXPECT_EQ(r.by_for, by_for);
  EXPECT_EQ(r.handler, handler);
  EXPECT_TRUE(adds_up(r));
}

/// Two that are due in ten ticks; each keeps the loop for a time. Which runs first is not specified.
struct two_at_once {
  two_at_once(manual_service& service, std::chrono::nanoseconds each)
      : one{service, 10 * tick, each}, other{service, 10 * tick, each} {}
  const tickwheel::expiry_report& first() const {
    return one.report.ran < other.report.ran ? one.report : other.report;
  }
  const tickwheel::expiry_report& second() const {
    return one.report.ran < other.report.ran ? other.report : one.report;
  }
  tickwheel::expiry_report::handler_id handler() const { return one.timeout.handler(); }

  reporter one, other;
};

TEST_F(expiry_report, timer_on_time_is_late_by_rounding_only) {
  reporter r{service, 10 * tick, 0ns};
  const auto due = r.timeout.deadline();
  service.advance(1s);
  EXPECT_EQ(r.report.due, due);
  EXPECT_EQ(r.report.ran, due);
  EXPECT_EQ(r.report.late, tick);
  EXPECT_EQ(r.report.rounding, tick);
  expect_stall(r.report, 0ns, stalled_by::nobody, 0ns);
}

TEST_F(expiry_report, is_zero_before_any_handler) {
  EXPECT_EQ(timers.why().late, 0ns);
  EXPECT_EQ(timers.why().by, stalled_by::nobody);
}

TEST_F(expiry_report, stall_of_loop_callbacks_is_theirs) {
  reporter r{service, 10 * tick, 0ns};
  service.time.block(400 * tick);
  service.advance(0ns);
  EXPECT_EQ(r.report.late, 391 * tick);
  expect_stall(r.report, 390 * tick, stalled_by::loop_callbacks, 390 * tick);
}

TEST_F(expiry_report, names_slow_handler_of_same_pass) {
  two_at_once both{service, 80 * tick};
  service.advance(1s);
  EXPECT_EQ(both.first().stall, 0ns);
  expect_stall(both.second(), 80 * tick, stalled_by::handler, 80 * tick, both.handler());
}

TEST_F(expiry_report, names_slow_handler_of_earlier_pass) {
  const reporter slow{service, 10 * tick, 80 * tick};
  tickwheel::expiry_report report;
  probe late{timers, 50 * tick, [&] { report = timers.why(); }};
  service.advance(1s);
  EXPECT_EQ(report.poll, 0ns);
  // what is left of the 80 after it became due
  expect_stall(report, 40 * tick, stalled_by::handler, 40 * tick, slow.timeout.handler());
  EXPECT_NE(report.handler, late.timeout.handler());
}

TEST_F(expiry_report, slow_handler_of_earlier_pass_is_not_the_loops) {
  const reporter slow{service, 10 * tick, 80 * tick}, late{service, 50 * tick, 0ns};
  service.advance(10 * tick);
  service.time.block(20 * tick);
  service.advance(0s);
  expect_stall(late.report, 60 * tick, stalled_by::handler, 40 * tick, slow.timeout.handler());
}

// Nothing was due when that pass ended, so the next one is no part of a chain.
TEST_F(expiry_report, slow_handler_is_not_the_loops_if_armed_as_of_its_time) {
  tickwheel::clock::time_point now;
  const probe slow{timers, 10 * tick, [&] {
                     now = timers.now();
                     service.time.block(80 * tick);
                   }};
  service.advance(10 * tick);
  reporter late{service};
  ASSERT_EQ(late.timeout.arm_at(now), 0);
  service.time.block(20 * tick);
  service.turn();
  EXPECT_EQ(late.report.due, now);
  expect_stall(late.report, 100 * tick, stalled_by::handler, 80 * tick, slow.timeout.handler());
}

TEST_F(expiry_report, names_the_largest_part) {
  two_at_once both{service, 20 * tick};
  service.time.block(40 * tick);  // 30 after both are due
  service.advance(1s);
  expect_stall(both.second(), 50 * tick, stalled_by::loop_callbacks, 30 * tick);
}

TEST_F(expiry_report, calls_of_one_handler_add_up) {
  reopen({.work_per_pass = 1});
  std::deque<reporter> often;  // one handler, five calls
  for (int i = 0; i < 5; ++i) often.emplace_back(service, 10 * tick, 10 * tick);
  probe once{timers, 11 * tick, [&] { service.time.block(20 * tick); }};
  tickwheel::callback_timer last{timers, [&]() noexcept { often.back().report = timers.why(); }};
  ASSERT_EQ(last.arm(12 * tick), 0);
  service.advance(1s);
  const tickwheel::expiry_report& report = often.back().report;
  EXPECT_EQ(report.by, stalled_by::handler);
  EXPECT_EQ(report.handler, often.back().timeout.handler());
  EXPECT_GE(report.by_for, 40 * tick);
  EXPECT_TRUE(adds_up(report));
}

TEST_F(expiry_report, post_before_the_epoch_counts_as_past) {
  tickwheel::expiry_report report;
  const auto first_time = tickwheel::clock::time_point::min() + 1ns;
  ASSERT_EQ(timers.remote().post_at(first_time, [&]() noexcept { report = timers.why(); }), 0);
  service.advance(0ns);
  EXPECT_EQ(report.late, 1h);
  EXPECT_TRUE(adds_up(report));
}

TEST_F(expiry_report, waiting_for_a_turn_is_carried) {
  reopen({.work_per_pass = 1});
  std::deque<reporter> all;
  for (int i = 0; i < 5; ++i) all.emplace_back(service, 10 * tick, 2 * tick);
  service.advance(1s);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].report.carried, 2 * i * tick) << i;
    EXPECT_EQ(all[i].report.stall, 0ns) << i;
    EXPECT_TRUE(adds_up(all[i].report)) << i;
  }
}

TEST_F(expiry_report, carried_leaves_out_stalls) {
  reopen({.work_per_pass = 1});
  reporter slow{service, 10 * tick, 100 * tick}, next{service, 10 * tick, 0ns}, last{service, 10 * tick, 0ns};
  service.time.block(10 * tick);
  ASSERT_TRUE(service.turn());  // slow
  ASSERT_TRUE(service.turn());  // next
  service.time.block(150 * tick);
  ASSERT_TRUE(service.turn());  // last
  expect_stall(next.report, 100 * tick, stalled_by::handler, 100 * tick, slow.timeout.handler());
  EXPECT_EQ(last.report.carried, 0ns);
  expect_stall(last.report, 250 * tick, stalled_by::loop_callbacks, 150 * tick);
}

TEST_F(expiry_report, short_handlers_are_not_the_loops_callbacks) {
  for (const auto time_per_pass : {8 * tick, 1000 * tick}) {
    for (const int handlers : {1, 2, 20, 100}) {
      reopen({.time_per_pass = time_per_pass});
      std::deque<reporter> all;  // each takes less than `slow_handler`
      for (int i = 0; i < handlers; ++i) all.emplace_back(service, 10 * tick, 7 * tick);
      const reporter late{service, 11 * tick, 0ns};  // due while the first one runs
      service.advance(1s);
      EXPECT_EQ(late.report.late, handlers * 7 * tick) << handlers;
      EXPECT_EQ(late.report.poll, 0ns) << handlers;
      expect_stall(late.report, 0ns, stalled_by::nobody, 0ns);
    }
  }
}

TEST_F(expiry_report, slow_handler_is_named_also_while_a_verdict_waits_for_input) {
  for (const auto block : {0 * tick, 40 * tick, 200 * tick}) {
    reopen({});
    reporter slow{service, 100 * tick};
    expect_arm(slow.timeout, 0ns);
    const reporter late{service, block + 30 * tick, 0ns};
    service.time.block(block);
    for (int turns = 0; turns < 10; ++turns) service.turn();
    EXPECT_EQ(late.report.poll, 0ns) << block / tick;
    expect_stall(late.report, 70 * tick, stalled_by::handler, 70 * tick, slow.timeout.handler());
  }
}

TEST_F(expiry_report, callback_is_named_that_blocks_while_a_verdict_waits_for_input) {
  const reporter late{service, 240 * tick, 0ns};
  service.time.block(200 * tick);
  service.turn();
  service.time.block(200 * tick);
  for (int turns = 0; turns < 10; ++turns) service.turn();
  EXPECT_EQ(late.report.poll, 0ns);
  expect_stall(late.report, 160 * tick, stalled_by::loop_callbacks, 160 * tick);
}

TEST_F(expiry_report, time_of_a_hook_is_a_stall_of_the_loop) {
  for (const std::size_t work : {std::size_t{64}, std::size_t{1}}) {  // both in one pass, or in two
    SCOPED_TRACE(work);
    reopen({.work_per_pass = work, .time_per_pass = 1h});
    timers.on_slow_handler(
        [](void* time, const tickwheel::slow_handler&) noexcept {
          static_cast<tickwheel::manual_driver*>(time)->block(80 * tick);
        },
        &service.time);
    const reporter slow{service, 10 * tick, 20 * tick}, late{service, 11 * tick, 0ns};
    service.time.oversleep(12 * tick);
    service.advance(1s);
    EXPECT_EQ(late.report.poll, 1 * tick);
    EXPECT_EQ(late.report.carried, 0ns);
    expect_stall(late.report, 100 * tick, stalled_by::loop_callbacks, 80 * tick);
    EXPECT_EQ(timers.stats().handler_time.max(), 20 * tick);
  }
}

TEST_F(expiry_report, late_wakeup_counts_as_poll) {
  // a driver that wakes late, as libuv does by up to a millisecond: the clock is moved as by waiting
  reporter r{service, 10 * tick, 0ns};
  service.time.oversleep(14 * tick);
  service.advance(0ns);
  EXPECT_EQ(r.report.poll, 4 * tick);
  expect_stall(r.report, 0ns, stalled_by::nobody, 0ns);
}

TEST_F(expiry_report, post_that_was_due_in_a_block_names_it) {
  for (const unsigned io_wait : {0U, 2U}) {
    for (const bool another_waits : {false, true}) {
      reopen({.io_wait = io_wait});
      reporter far{service};
      if (another_waits) expect_arm(far.timeout, 1h);
      std::optional<tickwheel::expiry_report> report;
      const tickwheel::clock::time_point asked = service.time.now() + 10 * tick + 1ns;
      ASSERT_EQ(timers.remote().post(10 * tick + 1ns, [&]() noexcept { report = timers.why(); }), 0);
      service.time.block(1000 * tick);
      for (int turns = 0; turns < 10 && !report; ++turns) service.advance(tick);
      ASSERT_TRUE(report);
      EXPECT_LE(report->rounding, tick);
      EXPECT_EQ(report->due - report->rounding, asked);
      EXPECT_GE(report->stall, 900 * tick) << "io_wait " << io_wait << ", another waits " << another_waits;
      EXPECT_TRUE(adds_up(*report));
      far.timeout.cancel();
    }
  }
}

TEST_F(expiry_report, post_for_a_time_before_the_call_is_rounded_by_a_tick) {
  const reporter far{service, 1h, 0ns};
  service.advance(1000 * tick);
  service.turn();  // nothing is due, and the wheel's time moves to the present
  const tickwheel::clock::time_point asked = service.time.now() - 500 * tick + 1ns;
  tickwheel::expiry_report report;
  ASSERT_EQ(timers.remote().post_at(asked, [&]() noexcept { report = timers.why(); }), 0);
  service.time.block(1000 * tick);
  service.advance(10 * tick);
  EXPECT_LE(report.rounding, tick);
  EXPECT_EQ(report.due - report.rounding, asked);
  EXPECT_TRUE(adds_up(report));
}

TEST_F(expiry_report, post_for_a_time_before_the_service_was_opened_is_not_rounded) {
  for (const auto block : {0 * tick, 40 * tick}) {
    reopen({});
    const tickwheel::clock::time_point asked = timers.opened_at() - 10min;
    std::optional<tickwheel::expiry_report> report;
    ASSERT_EQ(timers.remote().post_at(asked, [&]() noexcept { report = timers.why(); }), 0);
    service.time.block(block);
    for (int turns = 0; turns < 10 && !report; ++turns) service.advance(tick);
    ASSERT_TRUE(report);
    EXPECT_EQ(report->rounding, 0ns);
    EXPECT_EQ(report->due, asked);
    EXPECT_TRUE(adds_up(*report));
  }
}

TEST_F(expiry_report, covers_posts) {
  const reporter slow{service, 10 * tick, 100 * tick};
  tickwheel::expiry_report report;
  const auto ask = [&]() noexcept { report = timers.why(); };
  ASSERT_EQ(timers.remote().post(10 * tick + 1ns, ask), 0);
  service.advance(1s);
  EXPECT_EQ(report.due, tickwheel::clock::time_point{1h} + 11 * tick);
  EXPECT_EQ(report.rounding, tick - 1ns);
  expect_stall(report, 99 * tick, stalled_by::handler, 99 * tick, slow.timeout.handler());

  ASSERT_EQ(timers.remote().post(0s, ask), 0);
  service.advance(0ns);
  EXPECT_EQ(report.late, 0ns);
  EXPECT_EQ(report.due, timers.read_clock());
  EXPECT_TRUE(adds_up(report));
}

TEST_F(expiry_report, is_readable_after_close_in_handler) {
  tickwheel::expiry_report report;
  p.then = [&] {
    timers.close();
    report = timers.why();
  };
  p.arm(10 * tick);
  const auto due = p.timeout.deadline();
  service.advance(1s);
  EXPECT_EQ(report.due, due);
}

/// Six that are due in ten ticks and run in one pass. Each blocks for 80 ticks, except the last, which calls `asks` first.
void run_six(manual_service& service, const std::function<void()>& asks) {
  int ran = 0;
  const probes all{service.timers, 6, 10 * tick, [&] {
                     if (++ran == 6) asks();
                     service.time.block(80 * tick);
                   }};
  service.advance(1s);
  EXPECT_EQ(ran, 6);
}

TEST_F(expiry_report, counts_stall_after_close_in_handler) {
  reopen({.time_per_pass = 1h});
  tickwheel::expiry_report report;
  run_six(service, [&] {
    timers.close();
    service.time.block(1s);
    report = timers.why();
  });
  EXPECT_EQ(report.stall, 5 * 80 * tick);
  EXPECT_EQ(report.by, stalled_by::handler);
  EXPECT_EQ(report.by_for, 5 * 80 * tick);
  EXPECT_TRUE(adds_up(report));
}

TEST_F(expiry_report, outlives_the_driver_of_a_closed_service) {
  auto time = std::make_unique<tickwheel::manual_driver>();
  tickwheel::timer_service closed;
  ASSERT_EQ(closed.open(*time, {.time_per_pass = 1h}), 0);
  int ran = 0;
  const probes all{closed, 6, 10 * tick, [&] {
                     if (++ran == 6) closed.close();
                   }};
  const auto due = all.front().timeout.deadline();
  time->advance(1s);
  time.reset();
  EXPECT_EQ(closed.why().due, due);
}

TEST_F(expiry_report, stats_in_handler_count_the_handlers_before) {
  reopen({.time_per_pass = 1h});
  std::uint64_t counted = 0;
  run_six(service, [&] { counted = timers.stats().handler_time.count(); });
  EXPECT_EQ(counted, 5U);
  EXPECT_EQ(timers.stats().handler_time.count(), 6U);
  EXPECT_EQ(timers.stats().handler_time.max(), 80 * tick);
}

TEST_F(expiry_report, more_slow_handlers_than_fit_still_add_up) {
  std::deque<reporter> all;
  for (int i = 0; i < 100; ++i) all.emplace_back(service, 10 * tick, 20 * tick);
  service.advance(1s);
  EXPECT_EQ(all.back().report.late, (99 * 20 + 1) * tick);
  EXPECT_EQ(all.back().report.stall, 32 * 20 * tick);
  for (const reporter& r : all) EXPECT_TRUE(adds_up(r.report));
}

TEST_F(expiry_report, text_is_a_line_of_a_log) {
  tickwheel::expiry_report r;
  r.late = 3'410'000ns;
  r.rounding = 130'000ns;
  r.poll = 900'000ns;
  r.carried = 20'000ns;
  r.stall = r.by_for = 2'360'000ns;
  r.by = stalled_by::loop_callbacks;
  std::ostringstream text;
  text << r;
  EXPECT_EQ(text.str(), "3.41 ms late: rounding 0.13, poll 0.90, carried 0.02, stall 2.36 (the loop's own callbacks)");
}

TEST_F(expiry_report, text_keeps_format_of_stream_that_throws) {
  short_stream out;
  out << std::hex << std::setprecision(3);
  const auto flags = out.flags();
  EXPECT_THROW(out << tickwheel::expiry_report{}, std::ios_base::failure);
  EXPECT_EQ(out.flags(), flags);
  EXPECT_EQ(out.precision(), 3);
}

void run_nothing(tickwheel::wheel_entry&) noexcept {}
const char* name(tickwheel::wheel_entry::callback handler) noexcept {
  return handler == &run_nothing ? "run_nothing" : nullptr;
}

TEST_F(expiry_report, text_names_handlers_by_callback) {
  tickwheel::expiry_report r;
  r.by = stalled_by::handler;
  r.handler = &run_nothing;
  std::ostringstream text;
  describe(text, r, name);
  EXPECT_EQ(text.str(), "0.00 ms late: rounding 0.00, poll 0.00, carried 0.00, stall 0.00 (the handler run_nothing)");
}

TEST_F(expiry_report, dump_counts_timers_by_handler_and_time) {
  std::deque<tickwheel::timer> all;
  for (const auto after : {500ms, 900ms, 5000ms, 7'200'000ms}) {
    all.emplace_back(timers, &run_nothing);
    ASSERT_EQ(all.back().arm(after), 0);
  }
  std::ostringstream text;
  timers.dump(text, name);
  EXPECT_NE(text.str().find("armed for the handler run_nothing: 2 in up to 1 s, 1 in 1 to 10 s, 1 later\n"),
            std::string::npos)
      << text.str();
}

}  // namespace
