// What timer_service::why() answers. The tick divides every time here, so that all of it is exact.
#include "../support/probe.hpp"

#include <tickwheel/uv/remote.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <sstream>
#include <string>

using namespace std::chrono_literals;
using tickwheel::expiry_report;
using tickwheel::stalled_by;

namespace {

constexpr auto tick = std::chrono::nanoseconds{1 << 17};

/// Arms with a delay that is `ticks` of them, and keeps what the service said in the handler.
struct reporter {
  explicit reporter(manual_service& on) : service{on}, timeout{on.timers, *this} {}

  void on_timeout() noexcept {
    report = service.timers.why();
    if (block.count() > 0) service.time.block(block);
  }

  manual_service& service;
  std::chrono::nanoseconds block{};
  expiry_report report{};
  tickwheel::member_timer<&reporter::on_timeout> timeout;
};

void blocks(reporter& r, std::chrono::nanoseconds by) { r.block = by; }

/// Two that are due in ten ticks; each keeps the loop for a time. Which runs first is not specified.
struct two_at_once {
  two_at_once(manual_service& service, std::chrono::nanoseconds each) : one{service}, other{service} {
    for (reporter* r : {&one, &other}) {
      blocks(*r, each);
      EXPECT_EQ(r->timeout.arm(10 * tick), 0);
    }
  }
  const expiry_report& first() const { return one.report.ran < other.report.ran ? one.report : other.report; }
  const expiry_report& second() const { return one.report.ran < other.report.ran ? other.report : one.report; }
  expiry_report::handler_id handler() const { return one.timeout.handler(); }

  reporter one, other;
};

TEST(why, says_of_a_timer_on_time_that_only_rounding_may_have_made_it_late) {
  manual_service service;
  reporter r{service};
  ASSERT_EQ(r.timeout.arm(10 * tick), 0);
  const auto due = r.timeout.deadline();
  service.advance(1s);
  EXPECT_EQ(r.report.due, due);
  EXPECT_EQ(r.report.ran, due);
  EXPECT_EQ(r.report.late, tick);
  EXPECT_EQ(r.report.rounding, tick);
  EXPECT_EQ(r.report.by, stalled_by::nobody);
  EXPECT_TRUE(adds_up(r.report));
}

TEST(why, is_all_zero_before_any_handler_ran) {
  manual_service service;
  EXPECT_EQ(service.timers.why().late, 0ns);
  EXPECT_EQ(service.timers.why().by, stalled_by::nobody);
}

TEST(why, blames_the_loops_own_callbacks_for_what_they_took) {
  manual_service service;
  reporter r{service};
  ASSERT_EQ(r.timeout.arm(10 * tick), 0);
  service.time.block(400 * tick);
  service.advance(0ns);
  EXPECT_EQ(r.report.stall, 390 * tick);
  EXPECT_EQ(r.report.late, 391 * tick);
  EXPECT_EQ(r.report.by, stalled_by::loop_callbacks);
  EXPECT_EQ(r.report.by_for, 390 * tick);
  EXPECT_EQ(r.report.handler, nullptr);
  EXPECT_TRUE(adds_up(r.report));
}

TEST(why, names_the_handler_that_ran_before_it_in_the_same_pass) {
  manual_service service;
  two_at_once both{service, 80 * tick};
  service.advance(1s);
  EXPECT_EQ(both.first().stall, 0ns);
  EXPECT_EQ(both.second().stall, 80 * tick);
  EXPECT_EQ(both.second().by, stalled_by::handler);
  EXPECT_EQ(both.second().by_for, 80 * tick);
  EXPECT_EQ(both.second().handler, both.handler());
  EXPECT_TRUE(adds_up(both.second()));
}

TEST(why, names_the_handler_of_the_pass_before_it) {
  manual_service service;
  reporter slow{service};
  probe late{service.timers};
  expiry_report report;
  late.then = [&] { report = service.timers.why(); };
  blocks(slow, 80 * tick);
  ASSERT_EQ(slow.timeout.arm(10 * tick), 0);
  ASSERT_EQ(late.timeout.arm(50 * tick), 0);
  service.advance(1s);
  EXPECT_EQ(report.stall, 40 * tick);  // what is left of the 80 after it became due
  EXPECT_EQ(report.poll, 0ns);
  EXPECT_EQ(report.by, stalled_by::handler);
  EXPECT_EQ(report.by_for, 40 * tick);
  EXPECT_EQ(report.handler, slow.timeout.handler());
  EXPECT_NE(report.handler, late.timeout.handler());
  EXPECT_TRUE(adds_up(report));
}

TEST(why, does_not_blame_the_loop_for_what_a_handler_of_the_pass_before_it_took) {
  manual_service service;
  reporter slow{service}, late{service};
  blocks(slow, 80 * tick);
  ASSERT_EQ(slow.timeout.arm(10 * tick), 0);
  ASSERT_EQ(late.timeout.arm(50 * tick), 0);
  service.advance(10 * tick);
  service.time.block(20 * tick);
  service.advance(0s);
  EXPECT_EQ(late.report.stall, 60 * tick);
  EXPECT_EQ(late.report.by, stalled_by::handler);
  EXPECT_EQ(late.report.by_for, 40 * tick);
  EXPECT_EQ(late.report.handler, slow.timeout.handler());
  EXPECT_TRUE(adds_up(late.report));
}

TEST(why, blames_who_had_the_largest_part) {
  manual_service service;
  two_at_once both{service, 20 * tick};
  service.time.block(40 * tick);  // 30 after both are due
  service.advance(1s);
  EXPECT_EQ(both.second().stall, 50 * tick);
  EXPECT_EQ(both.second().by, stalled_by::loop_callbacks);
  EXPECT_EQ(both.second().by_for, 30 * tick);
  EXPECT_TRUE(adds_up(both.second()));
}

TEST(why, adds_up_what_calls_of_one_handler_took) {
  manual_service service{{.work_per_pass = 1}};
  std::deque<reporter> often;  // one handler, five calls
  for (int i = 0; i < 5; ++i) {
    blocks(often.emplace_back(service), 10 * tick);
    ASSERT_EQ(often.back().timeout.arm(10 * tick), 0);
  }
  probe once{service.timers, [&] { service.time.block(20 * tick); }};
  ASSERT_EQ(once.timeout.arm(11 * tick), 0);
  tickwheel::callback_timer last{service.timers, [&]() noexcept { often.back().report = service.timers.why(); }};
  ASSERT_EQ(last.arm(12 * tick), 0);
  service.advance(1s);
  const expiry_report& report = often.back().report;
  EXPECT_EQ(report.by, stalled_by::handler);
  EXPECT_EQ(report.handler, often.back().timeout.handler());
  EXPECT_GE(report.by_for, 40 * tick);
  EXPECT_TRUE(adds_up(report));
}

TEST(why, takes_a_post_for_a_time_before_the_clocks_epoch_as_one_that_has_passed) {
  manual_service service;
  static expiry_report report;
  static const tickwheel::timer_service* timers;
  timers = &service.timers;
  using tickwheel::clock;
  ASSERT_EQ(service.timers.remote().post_at(clock::time_point::min() + 1ns, []() noexcept { report = timers->why(); }),
            0);
  service.advance(0ns);
  EXPECT_EQ(report.late, 1h);
  EXPECT_TRUE(adds_up(report));
}

TEST(why, counts_what_waited_for_its_turn_as_carried) {
  manual_service service{{.work_per_pass = 1}};
  std::deque<reporter> all;
  for (int i = 0; i < 5; ++i) {
    blocks(all.emplace_back(service), 2 * tick);
    ASSERT_EQ(all.back().timeout.arm(10 * tick), 0);
  }
  service.advance(1s);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].report.carried, 2 * i * tick) << i;
    EXPECT_EQ(all[i].report.stall, 0ns) << i;
    EXPECT_TRUE(adds_up(all[i].report)) << i;
  }
}

TEST(why, takes_slow_handlers_and_slow_io_out_of_what_was_carried) {
  manual_service service{{.work_per_pass = 1}};
  reporter slow{service}, next{service}, last{service};
  blocks(slow, 100 * tick);
  for (reporter* r : {&slow, &next, &last}) ASSERT_EQ(r->timeout.arm(10 * tick), 0);
  service.time.block(10 * tick);
  ASSERT_TRUE(service.turn());  // slow
  ASSERT_TRUE(service.turn());  // next
  service.time.block(150 * tick);
  ASSERT_TRUE(service.turn());  // last
  EXPECT_EQ(next.report.stall, 100 * tick);
  EXPECT_EQ(next.report.handler, slow.timeout.handler());
  EXPECT_EQ(last.report.stall, 250 * tick);
  EXPECT_EQ(last.report.carried, 0ns);
  EXPECT_EQ(last.report.by, stalled_by::loop_callbacks);
  EXPECT_EQ(last.report.by_for, 150 * tick);
  EXPECT_TRUE(adds_up(next.report));
  EXPECT_TRUE(adds_up(last.report));
}

TEST(why, counts_a_late_wakeup_as_the_polls) {
  // a driver that wakes late, as libuv does by up to a millisecond: the clock is moved as by waiting
  manual_service service;
  reporter r{service};
  ASSERT_EQ(r.timeout.arm(10 * tick), 0);
  service.time.oversleep(14 * tick);
  service.advance(0ns);
  EXPECT_EQ(r.report.poll, 4 * tick);
  EXPECT_EQ(r.report.stall, 0ns);
  EXPECT_TRUE(adds_up(r.report));
}

TEST(why, covers_what_another_thread_posted) {
  manual_service service;
  reporter slow{service};
  blocks(slow, 100 * tick);
  static expiry_report report;
  static const tickwheel::timer_service* timers;
  timers = &service.timers;
  ASSERT_EQ(slow.timeout.arm(10 * tick), 0);
  ASSERT_EQ(service.timers.remote().post(10 * tick + 1ns, []() noexcept { report = timers->why(); }), 0);
  service.advance(1s);
  EXPECT_EQ(report.due, tickwheel::clock::time_point{1h} + 11 * tick);
  EXPECT_EQ(report.rounding, tick - 1ns);
  EXPECT_EQ(report.stall, 99 * tick);
  EXPECT_EQ(report.handler, slow.timeout.handler());
  EXPECT_TRUE(adds_up(report));

  ASSERT_EQ(service.timers.remote().post(0s, []() noexcept { report = timers->why(); }), 0);
  service.advance(0ns);
  EXPECT_EQ(report.late, 0ns);
  EXPECT_EQ(report.due, service.timers.read_clock());
  EXPECT_TRUE(adds_up(report));
}

TEST(why, may_be_asked_after_the_handler_closed_the_service) {
  manual_service service;
  probe p{service.timers};
  expiry_report report;
  p.then = [&] {
    service.timers.close();
    report = service.timers.why();
  };
  ASSERT_EQ(p.timeout.arm(10 * tick), 0);
  const auto due = p.timeout.deadline();
  service.advance(1s);
  EXPECT_EQ(report.due, due);
}

TEST(why, remembers_no_more_slow_handlers_than_it_has_room_for_and_still_adds_up) {
  manual_service service;
  std::deque<reporter> all;
  for (int i = 0; i < 100; ++i) {
    blocks(all.emplace_back(service), 20 * tick);
    ASSERT_EQ(all.back().timeout.arm(10 * tick), 0);
  }
  service.advance(1s);
  EXPECT_EQ(all.back().report.late, (99 * 20 + 1) * tick);
  EXPECT_EQ(all.back().report.stall, 32 * 20 * tick);
  for (const reporter& r : all) EXPECT_TRUE(adds_up(r.report));
}

TEST(why, reads_like_a_line_in_a_log) {
  expiry_report r;
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

void run_nothing(tickwheel::wheel_entry&) noexcept {}
const char* name(tickwheel::wheel_entry::callback handler) noexcept {
  return handler == &run_nothing ? "run_nothing" : nullptr;
}

TEST(why, names_handlers_as_the_user_does) {
  expiry_report r;
  r.by = stalled_by::handler;
  r.handler = &run_nothing;
  std::ostringstream text;
  describe(text, r, name);
  EXPECT_EQ(text.str(), "0.00 ms late: rounding 0.00, poll 0.00, carried 0.00, stall 0.00 (the handler run_nothing)");
}

TEST(a_dump, counts_armed_timers_by_handler_and_by_when_they_are_due) {
  manual_service service;
  std::deque<tickwheel::timer> all;
  for (const auto after : {500ms, 900ms, 5000ms, 7'200'000ms}) {
    all.emplace_back(service.timers, &run_nothing);
    ASSERT_EQ(all.back().arm(after), 0);
  }
  std::ostringstream text;
  service.timers.dump(text, name);
  EXPECT_NE(text.str().find("armed for the handler run_nothing: 2 in up to 1 s, 1 in 1 to 10 s, 1 later\n"),
            std::string::npos)
      << text.str();
}

}  // namespace
