// The phases of a request on a clock turned by hand.
#include <tickwheel/net/phase_timeouts.hpp>

#include "../../support/allocation_probe.hpp"
#include "../../uv/support/probe.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>

using namespace std::chrono_literals;
using tickwheel::phase_limits;
using tickwheel::request_phase;

namespace {

using time_point = tickwheel::clock::time_point;

constexpr phase_limits usual{.header = 10s, .body = 30s, .keep_alive = 60s, .max_age = 1h};

/// A connection that notes what ran out.
class connection {
 public:
  explicit connection(tickwheel::timer_service& timers, std::function<void()> what = {})
      : phases{timers, *this}, then{std::move(what)}, timers_{timers} {}

  int cut = 0;
  request_phase which = request_phase::none;
  time_point at{};

 private:
  void on_phase_timeout(request_phase phase) noexcept {
    ++cut;
    which = phase;
    at = timers_.read_clock();
    const auto call = then;
    if (call) call();
  }

 public:
  tickwheel::phase_timeouts<&connection::on_phase_timeout> phases;
  std::function<void()> then;

 private:
  tickwheel::timer_service& timers_;
};

/// A started connection in the given phase, which it entered just now.
class in_phase : public connection {
 public:
  in_phase(tickwheel::timer_service& timers, request_phase phase, const phase_limits& limits = usual)
      : connection{timers} {
    EXPECT_EQ(phases.start(limits), 0);
    if (phase != request_phase::header) phases.on_header_end();
    if (phase == request_phase::response || phase == request_phase::keep_alive) phases.on_request_end();
    if (phase == request_phase::keep_alive) phases.on_response_end();
    EXPECT_EQ(phases.phase(), phase);
  }
};

struct limited {
  request_phase phase;
  std::chrono::nanoseconds limit;
};
class a_phase : public testing::TestWithParam<limited> {};
INSTANTIATE_TEST_SUITE_P(with_a_limit, a_phase,
                         testing::Values(limited{request_phase::header, usual.header},
                                         limited{request_phase::body, usual.body},
                                         limited{request_phase::keep_alive, usual.keep_alive}),
                         [](const auto& of) { return std::string{name_of(of.param.phase)}; });

TEST_P(a_phase, runs_out_after_its_limit_and_says_which_it_was) {
  manual_service service;
  in_phase c{service.timers, GetParam().phase};
  const auto begin = service.time.now();
  service.advance(GetParam().limit - 1ns);
  EXPECT_EQ(c.cut, 0);
  service.advance(1ns + service.tick());
  EXPECT_EQ(c.cut, 1);
  EXPECT_EQ(c.which, GetParam().phase);
  EXPECT_GE(c.at, begin + GetParam().limit);
  EXPECT_FALSE(c.phases.armed());
  EXPECT_EQ(c.phases.phase(), request_phase::none);
}

TEST_P(a_phase, says_when_it_ends) {
  manual_service service;
  in_phase c{service.timers, GetParam().phase};
  const auto end = service.time.now() + GetParam().limit;
  EXPECT_EQ(c.phases.phase_ends_at(), end);
  service.advance(1s);
  EXPECT_EQ(c.phases.phase_ends_at(), end);
  c.phases.cancel();
  EXPECT_EQ(c.phases.phase_ends_at(), time_point::max());
}

TEST_P(a_phase, does_not_charge_the_peer_with_a_stall_of_ours) {
  manual_service service{{.stall_grace = 10ms}};
  in_phase c{service.timers, GetParam().phase};
  service.time.block(5s + 10ms);
  service.advance(GetParam().limit - 10ms - 1ns);
  EXPECT_EQ(c.cut, 0);
  service.advance(1ns + 2 * service.tick());
  EXPECT_EQ(c.cut, 1);
  EXPECT_EQ(c.which, GetParam().phase);
}

TEST_P(a_phase, counts_anew_in_the_next_request) {
  manual_service service;
  in_phase c{service.timers, GetParam().phase};
  for (int requests = 0; requests < 20; ++requests) {
    service.advance(GetParam().limit - 1s);
    c.phases.on_bytes();
    c.phases.on_header_end();
    c.phases.on_request_end();
    c.phases.on_response_end();
    if (GetParam().phase != request_phase::keep_alive) c.phases.on_bytes();
    if (GetParam().phase == request_phase::body) c.phases.on_header_end();
    ASSERT_EQ(c.phases.phase(), GetParam().phase);
  }
  EXPECT_EQ(c.cut, 0);
}

// The time of the iteration was read before a callback blocked, and the start came after it.
TEST(phase_timeouts, phase_entered_right_after_late_start_has_whole_limit) {
  manual_service service{{.stall_grace = 10ms}};
  service.timers.now();
  service.time.block(8ms);
  connection c{service.timers};
  ASSERT_EQ(c.phases.start({.header = 10s, .body = 10s}), 0);
  const auto begun = service.time.now();
  c.phases.on_header_end();
  EXPECT_GE(c.phases.phase_ends_at(), begun + 10s);
  service.advance(10s - 1ns);
  EXPECT_EQ(c.cut, 0);
  service.advance(1ns + 2 * service.tick());
  EXPECT_EQ(c.cut, 1);
}

TEST(header_phase, is_not_extended_by_trickling_bytes) {
  manual_service service;
  in_phase c{service.timers, request_phase::header};
  const auto begin = service.time.now();
  for (int i = 0; i < 11; ++i) {
    c.phases.on_bytes();
    service.advance(1s);
  }
  EXPECT_EQ(c.cut, 1);
  EXPECT_EQ(c.which, request_phase::header);
  EXPECT_LE(c.at, begin + usual.header + service.tick());
}

TEST(body_phase, is_not_extended_by_trickling_bytes) {
  manual_service service;
  in_phase c{service.timers, request_phase::body};
  const auto begin = service.time.now();
  for (int i = 0; i < 31; ++i) {
    c.phases.on_bytes();
    c.phases.on_header_end();
    service.advance(1s);
  }
  EXPECT_EQ(c.cut, 1);
  EXPECT_EQ(c.which, request_phase::body);
  EXPECT_LE(c.at, begin + usual.body + service.tick());
}

TEST(keep_alive_phase, is_not_extended_by_being_entered_again) {
  manual_service service;
  in_phase c{service.timers, request_phase::keep_alive};
  for (int i = 0; i < 61; ++i) {
    c.phases.on_response_end();
    c.phases.on_header_end();
    c.phases.on_request_end();
    service.advance(1s);
  }
  EXPECT_EQ(c.cut, 1);
  EXPECT_EQ(c.which, request_phase::keep_alive);
}

TEST(keep_alive_phase, ends_with_the_first_byte_of_a_request_at_the_last_moment) {
  manual_service service;
  in_phase c{service.timers, request_phase::keep_alive};
  service.advance(usual.keep_alive - 1ns);
  c.phases.on_bytes();
  EXPECT_EQ(c.phases.phase(), request_phase::header);
  service.advance(usual.header - 1s);
  EXPECT_EQ(c.cut, 0) << "a request in flight was cut for keep-alive";
  service.advance(1s + service.tick());
  EXPECT_EQ(c.which, request_phase::header);
}

TEST(keep_alive_phase, may_follow_a_request_that_was_answered_before_its_end) {
  manual_service service;
  in_phase c{service.timers, request_phase::body};
  c.phases.on_response_end();
  EXPECT_EQ(c.phases.phase(), request_phase::keep_alive);
}

TEST(response_phase, has_no_limit) {
  manual_service service;
  in_phase c{service.timers, request_phase::response};
  EXPECT_EQ(c.phases.phase_ends_at(), time_point::max());
  service.advance(24h * 365);
  EXPECT_EQ(c.cut, 0);
  EXPECT_TRUE(c.phases.armed());
}

TEST(response_phase, may_follow_a_header_without_a_body) {
  manual_service service;
  in_phase c{service.timers, request_phase::header};
  c.phases.on_request_end();
  EXPECT_EQ(c.phases.phase(), request_phase::response);
}

TEST(maximum_age, ends_a_connection_between_two_requests) {
  manual_service service;
  in_phase c{service.timers, request_phase::keep_alive, {.keep_alive = 2h, .max_age = 1h}};
  const auto begin = service.time.now();
  service.advance(1h - 1ns);
  EXPECT_EQ(c.cut, 0);
  service.advance(1ns + service.tick());
  EXPECT_EQ(c.cut, 1);
  EXPECT_EQ(c.which, request_phase::max_age);
  EXPECT_GE(c.at, begin + 1h);
}

TEST(maximum_age, is_not_extended_by_requests) {
  manual_service service;
  in_phase c{service.timers, request_phase::header};
  const auto begin = service.time.now();
  for (int i = 0; i < 1900; ++i) {
    c.phases.on_bytes();
    c.phases.on_request_end();
    c.phases.on_response_end();
    service.advance(2s);
  }
  EXPECT_EQ(c.cut, 1);
  EXPECT_EQ(c.which, request_phase::max_age);
  EXPECT_LE(c.at, begin + 1h + usual.age_grace + service.tick());
}

TEST(maximum_age, does_not_cut_a_request_in_flight_but_the_connection_after_it) {
  for (const request_phase phase : {request_phase::header, request_phase::body, request_phase::response}) {
    manual_service service;
    in_phase c{service.timers, phase, {.header = 10s, .body = 10s, .max_age = 5s}};
    EXPECT_FALSE(c.phases.aged());
    service.advance(6s);
    EXPECT_EQ(c.cut, 0) << name_of(phase);
    EXPECT_TRUE(c.phases.aged());
    c.phases.on_response_end();
    service.advance(1s + service.tick());
    EXPECT_EQ(c.cut, 1);
    EXPECT_EQ(c.which, request_phase::max_age);
  }
}

TEST(maximum_age, leaves_a_peer_that_was_answered_just_now_the_time_to_go_on) {
  manual_service service;
  in_phase c{service.timers, request_phase::response, {.max_age = 5s, .age_grace = 2s}};
  service.advance(5s - 1ms);
  c.phases.on_response_end();
  EXPECT_FALSE(c.phases.aged());
  service.advance(2s - 1ms);
  EXPECT_EQ(c.cut, 0);
  EXPECT_TRUE(c.phases.aged());
  c.phases.on_bytes();  // is answered, with the word that it was the last
  c.phases.on_request_end();
  c.phases.on_response_end();
  service.advance(2s - 1ns);
  EXPECT_EQ(c.cut, 0);
  service.advance(1ns + service.tick());
  EXPECT_EQ(c.which, request_phase::max_age);
}

TEST(maximum_age, without_a_grace_ends_the_connection_in_the_next_pass) {
  manual_service service;
  in_phase c{service.timers, request_phase::response, {.max_age = 5s, .age_grace = 0s}};
  service.advance(6s);
  c.phases.on_response_end();
  EXPECT_EQ(c.cut, 0) << "the handler runs in a pass";
  service.advance(service.tick());
  EXPECT_EQ(c.which, request_phase::max_age);
}

TEST(maximum_age, with_a_grace_longer_than_keep_alive_leaves_the_end_to_that) {
  manual_service service;
  in_phase c{service.timers, request_phase::response, {.keep_alive = 1s, .max_age = 5s, .age_grace = 2s}};
  service.advance(6s);
  c.phases.on_response_end();
  service.advance(1s + service.tick());
  EXPECT_EQ(c.which, request_phase::keep_alive);
}

TEST(maximum_age, leaves_a_request_that_came_before_the_verdict_its_time) {
  manual_service service;
  in_phase c{service.timers, request_phase::keep_alive, {.max_age = 5s}};
  service.advance(5s - 1ns);
  c.phases.on_bytes();
  service.advance(9s);
  EXPECT_EQ(c.cut, 0);
}

TEST(maximum_age, is_the_age_on_the_plain_clock) {
  manual_service service{{.stall_grace = 10ms}};
  in_phase c{service.timers, request_phase::keep_alive, {.max_age = 5s, .age_grace = 0s}};
  service.time.block(5s);
  service.advance(service.tick());
  EXPECT_EQ(c.cut, 1);
  EXPECT_EQ(c.which, request_phase::max_age);
}

TEST(maximum_age, that_ends_later_than_keep_alive_is_not_blamed) {
  manual_service service;
  in_phase c{service.timers, request_phase::keep_alive, {.keep_alive = 5s, .max_age = 6s}};
  service.time.block(1h);  // both are over by now
  service.advance(5s + service.tick());
  EXPECT_EQ(c.which, request_phase::max_age) << "keep-alive does not count the stall";
  in_phase d{service.timers, request_phase::keep_alive, {.keep_alive = 5s, .max_age = 6s}};
  service.advance(5s + service.tick());
  EXPECT_EQ(d.which, request_phase::keep_alive);
}

TEST(phase_timeouts, start_again_as_for_a_new_connection) {
  manual_service service;
  in_phase c{service.timers, request_phase::keep_alive, {.max_age = 20s}};
  service.advance(15s);
  ASSERT_EQ(c.phases.start({.header = 30s, .max_age = 20s}), 0);
  EXPECT_EQ(c.phases.limits().header, 30s);
  service.advance(16s);
  EXPECT_FALSE(c.phases.aged());
  EXPECT_EQ(c.cut, 0);
  service.advance(15s);
  EXPECT_EQ(c.which, request_phase::header);
}

TEST(phase_timeouts, that_are_not_started_enter_no_phase) {
  manual_service service;
  connection c{service.timers};
  c.phases.on_bytes();
  c.phases.on_header_end();
  c.phases.on_request_end();
  c.phases.on_response_end();
  EXPECT_EQ(c.phases.phase(), request_phase::none);
  EXPECT_FALSE(c.phases.armed());
  EXPECT_FALSE(c.phases.aged());
  service.advance(24h);
  EXPECT_EQ(c.cut, 0);
}

TEST(phase_timeouts, that_were_cancelled_do_not_come_back) {
  manual_service service;
  in_phase c{service.timers, request_phase::body};
  EXPECT_TRUE(c.phases.cancel());
  EXPECT_FALSE(c.phases.cancel());
  c.phases.on_response_end();
  c.phases.on_bytes();
  EXPECT_FALSE(c.phases.armed());
  service.advance(24h);
  EXPECT_EQ(c.cut, 0);
}

TEST(phase_timeouts, refuse_limits_that_are_not_positive_and_name_the_field) {
  manual_service service;
  connection c{service.timers};
  const auto refused = [&](const phase_limits& limits) {
    EXPECT_EQ(c.phases.start(limits), UV_EINVAL);
    EXPECT_FALSE(c.phases.armed());
    const char* const problem = limits.problem();
    return std::string{problem != nullptr ? problem : ""};
  };
  EXPECT_EQ(refused({.header = 0s}), "phase_limits::header is not positive");
  EXPECT_EQ(refused({.body = -1ns}), "phase_limits::body is not positive");
  EXPECT_EQ(refused({.keep_alive = 0s}), "phase_limits::keep_alive is not positive");
  EXPECT_EQ(refused({.max_age = std::chrono::nanoseconds::min()}), "phase_limits::max_age is not positive");
  EXPECT_EQ(refused({.age_grace = -1ns}), "phase_limits::age_grace is negative");
  EXPECT_EQ(phase_limits{}.problem(), nullptr);
}

TEST(phase_timeouts, that_are_refused_other_limits_keep_theirs) {
  manual_service service;
  in_phase c{service.timers, request_phase::header};
  EXPECT_EQ(c.phases.start({.header = 0s}), UV_EINVAL);
  EXPECT_EQ(c.phases.limits().header, usual.header);
  service.advance(usual.header + service.tick());
  EXPECT_EQ(c.cut, 1);
}

TEST(phase_timeouts, without_limits_never_run_out) {
  constexpr auto never = std::chrono::nanoseconds::max();
  for (const request_phase phase : {request_phase::header, request_phase::body, request_phase::keep_alive}) {
    manual_service service;
    in_phase c{service.timers, phase, {.header = never, .body = never, .keep_alive = never, .max_age = never}};
    EXPECT_EQ(c.phases.phase_ends_at(), time_point::max());
    service.advance(24h * 365 * 100);
    EXPECT_EQ(c.cut, 0);
    EXPECT_TRUE(c.phases.armed());
  }
}

TEST(phase_timeouts, advertise_less_than_they_grant) {
  const auto advertised = [](std::chrono::nanoseconds limit) {
    return phase_limits{.keep_alive = limit}.advertised_keep_alive();
  };
  EXPECT_EQ(advertised(60s), 59s);
  EXPECT_EQ(advertised(5999ms), 4s);
  EXPECT_EQ(advertised(2s), 1s);
  EXPECT_EQ(advertised(1999ms), 0s);
  EXPECT_EQ(advertised(1ns), 0s);
}

TEST(phase_timeouts, keep_their_place_at_the_limit_of_armed_timers_in_all_phases) {
  manual_service service{{.max_armed = 1}};
  in_phase c{service.timers, request_phase::header};
  connection other{service.timers};
  for (int requests = 0; requests < 3; ++requests) {
    c.phases.on_request_end();
    EXPECT_EQ(other.phases.start(usual), UV_ENOBUFS);
    service.advance(1h);  // beyond any end a phase before had
    c.phases.on_response_end();
    EXPECT_EQ(c.phases.phase(), request_phase::keep_alive);
    c.phases.on_bytes();
    EXPECT_EQ(c.phases.phase(), request_phase::header);
  }
  EXPECT_EQ(c.cut, 0);
}

TEST(phase_timeouts, are_refused_once_the_service_is_closed_and_enter_no_phase) {
  manual_service service;
  in_phase c{service.timers, request_phase::header};
  service.timers.close();
  c.phases.on_header_end();
  c.phases.on_response_end();
  EXPECT_EQ(c.phases.phase(), request_phase::none);
  EXPECT_FALSE(c.phases.aged());
  EXPECT_EQ(c.phases.start(usual), UV_ECANCELED);
}

TEST(phase_timeouts, may_be_used_and_destroyed_after_their_service) {
  tickwheel::manual_driver time;
  auto timers = std::make_unique<tickwheel::timer_service>();
  ASSERT_EQ(timers->open(time), 0);
  connection c{*timers};
  ASSERT_EQ(c.phases.start(usual), 0);
  timers.reset();
  EXPECT_FALSE(c.phases.armed());
  c.phases.on_header_end();
  c.phases.on_response_end();
  EXPECT_EQ(c.phases.phase(), request_phase::none);
  EXPECT_EQ(c.phases.phase_ends_at(), time_point::max());
  EXPECT_FALSE(c.phases.cancel());
}

TEST(phase_timeouts, may_be_destroyed_with_their_owner_in_the_handler) {
  manual_service service;
  auto c = std::make_unique<connection>(service.timers);
  c->then = [&] { c.reset(); };
  ASSERT_EQ(c->phases.start(usual), 0);
  service.advance(1h);
  EXPECT_EQ(c, nullptr);
}

TEST(phase_timeouts, may_be_started_again_in_their_handler) {
  manual_service service;
  connection c{service.timers};
  c.then = [&] { EXPECT_EQ(c.phases.start(usual), 0); };
  ASSERT_EQ(c.phases.start(usual), 0);
  service.advance(100s + 10 * service.tick());
  EXPECT_EQ(c.cut, 10);
}

TEST(phase_timeouts, may_close_the_service_in_their_handler) {
  manual_service service;
  connection c{service.timers, [&] { service.timers.close(); }};
  in_phase other{service.timers, request_phase::body};
  ASSERT_EQ(c.phases.start(usual), 0);
  service.time.advance(1h);
  EXPECT_EQ(c.cut, 1);
  EXPECT_EQ(other.cut, 0);
}

TEST(phase_timeouts, of_a_phase_entered_in_a_handler_of_the_same_pass_are_not_judged_by_the_last_phase) {
  for (const bool first : {false, true}) {
    manual_service service;
    connection a{service.timers};
    connection b{service.timers};
    a.then = [&] { b.phases.on_header_end(); };
    b.then = [&] { a.phases.on_header_end(); };
    ASSERT_EQ((first ? a : b).phases.start(usual), 0);
    ASSERT_EQ((first ? b : a).phases.start(usual), 0);
    service.advance(usual.header + service.tick());
    EXPECT_EQ(a.cut + b.cut, 1);
  }
}

TEST(phase_timeouts, that_are_unreferenced_do_not_hold_the_loop) {
  manual_service service;
  connection c{service.timers};
  c.phases.unref();
  ASSERT_EQ(c.phases.start(usual), 0);
  EXPECT_FALSE(service.time.alive());
  c.phases.on_response_end();
  EXPECT_FALSE(service.time.alive());
  c.phases.ref();
  EXPECT_TRUE(service.time.alive());
}

TEST(phase_timeouts, allocate_nothing) {
  manual_service service;
  connection c{service.timers};
  const auto before = allocations::count();
  ASSERT_EQ(c.phases.start(usual), 0);
  for (int i = 0; i < 1000; ++i) {
    c.phases.on_bytes();
    c.phases.on_header_end();
    c.phases.on_request_end();
    service.time.advance(500ms);
    c.phases.on_response_end();
    service.time.advance(500ms);
  }
  EXPECT_EQ(allocations::count(), before);
}

TEST(request_phases, have_names) {
  using enum request_phase;
  std::string names;
  for (const request_phase phase : {none, header, body, response, keep_alive, max_age})
    names += std::string{name_of(phase)} + ' ';
  EXPECT_EQ(names, "none header body response keep_alive max_age ");
}

TEST(phase_timeouts, read_no_clock_when_a_phase_is_entered) {
  // all of an iteration counts from one stamp, however long its callbacks took
  manual_service service;
  in_phase c{service.timers, request_phase::header};
  const auto begin = service.timers.now();
  service.time.block(5ms);
  c.phases.on_header_end();
  EXPECT_EQ(c.phases.phase_ends_at(), begin + usual.body);
}

TEST(phase_timeouts, wake_the_loop_about_once_a_limit_however_many_requests_there_are) {
  manual_service service;
  in_phase c{service.timers, request_phase::header, {.header = 10s, .body = 10s, .keep_alive = 10s}};
  for (int i = 0; i < 60'000; ++i) {
    c.phases.on_bytes();
    c.phases.on_request_end();
    c.phases.on_response_end();
    service.time.advance(10ms);
  }
  EXPECT_EQ(c.cut, 0);
  EXPECT_LE(service.time.wakeups(), 360U);  // 600 s: sixty limits, with the few steps each that a far timer takes
}

TEST(phase_timeouts, of_ten_thousand_connections_cut_those_that_trickle) {
  manual_service service;
  std::deque<connection> all;
  for (int i = 0; i < 10'000; ++i) ASSERT_EQ(all.emplace_back(service.timers).phases.start(usual), 0);
  for (int second = 0; second < 12; ++second) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].phases.on_bytes();
      if (i % 2 == 1) continue;  // trickles
      all[i].phases.on_request_end();
      all[i].phases.on_response_end();
    }
    service.time.advance(1s);
  }
  service.check();
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i].cut, static_cast<int>(i % 2)) << i;
}

struct session {
  void on_timeout(request_phase) noexcept {}
  void may_throw(request_phase) {}
  void is_not_told() noexcept {}
};
template <auto Member>
concept makes_phase_timeouts = requires {
  sizeof(tickwheel::phase_timeouts<Member>);
};
static_assert(makes_phase_timeouts<&session::on_timeout>);
static_assert(!makes_phase_timeouts<&session::may_throw>);
static_assert(!makes_phase_timeouts<&session::is_not_told>);

}  // namespace
