// The phases of a request on a clock turned by hand.
#include <tickwheel/net/phase_timeouts.hpp>

#include "../support/subject_test.hpp"

using tickwheel::phase_limits;
using tickwheel::request_phase;

namespace {

using time_point = tickwheel::clock::time_point;

constexpr phase_limits usual{.header = 10s, .body = 30s, .keep_alive = 60s, .max_age = 1h};

using connection = owner_of<tickwheel::phase_timeouts<&owner::on_phase>>;

class phase_timeouts : public subject_test<connection> {
 protected:
  /// Starts the connection, and lets it enter the phase now.
  void enter(request_phase phase, const phase_limits& limits = usual) {
    c.fired = 0;
    ASSERT_EQ(c.timer.start(limits), 0);
    if (phase != request_phase::header) c.timer.on_header_end();
    if (phase == request_phase::response || phase == request_phase::keep_alive) c.timer.on_request_end();
    if (phase == request_phase::keep_alive) c.timer.on_response_end();
    EXPECT_EQ(c.timer.phase(), phase);
  }
  /// A request without a body comes and is answered.
  static void serve_request(connection& on) {
    on.timer.on_bytes();
    on.timer.on_request_end();
    on.timer.on_response_end();
  }
};
class maximum_age : public phase_timeouts {};

struct limited {
  request_phase phase;
  std::chrono::nanoseconds limit;
};
class limited_phase : public phase_timeouts, public testing::WithParamInterface<limited> {};
INSTANTIATE_TEST_SUITE_P(phases, limited_phase,
                         testing::Values(limited{request_phase::header, usual.header},
                                         limited{request_phase::body, usual.body},
                                         limited{request_phase::keep_alive, usual.keep_alive}),
                         [](const auto& of) { return std::string{name_of(of.param.phase)}; });

TEST_P(limited_phase, expires_after_its_limit_and_is_named) {
  enter(GetParam().phase);
  const auto begin = service.time.now();
  EXPECT_TRUE(fires_in(GetParam().limit));
  EXPECT_EQ(c.which, GetParam().phase);
  EXPECT_GE(c.at, begin + GetParam().limit);
  EXPECT_FALSE(c.timer.armed());
  EXPECT_EQ(c.timer.phase(), request_phase::none);
}

TEST_P(limited_phase, tells_when_it_ends) {
  enter(GetParam().phase);
  const auto end = service.time.now() + GetParam().limit;
  EXPECT_EQ(c.timer.phase_ends_at(), end);
  advance(1s);
  EXPECT_EQ(c.timer.phase_ends_at(), end);
  c.timer.cancel();
  EXPECT_EQ(c.timer.phase_ends_at(), time_point::max());
}

TEST_P(limited_phase, stall_does_not_count) {
  reopen({.stall_grace = 10ms});
  enter(GetParam().phase);
  service.time.block(5s + 10ms);
  EXPECT_TRUE(fires_in(GetParam().limit - 10ms, 2));
  EXPECT_EQ(c.which, GetParam().phase);
}

TEST_P(limited_phase, is_not_extended_by_repeated_events) {
  const auto& [phase, limit] = GetParam();
  enter(phase);
  const auto begin = service.time.now();
  while (service.time.now() <= begin + limit) {
    if (phase == request_phase::keep_alive) {
      c.timer.on_response_end();
      c.timer.on_request_end();
    } else {
      c.timer.on_bytes();
    }
    if (phase != request_phase::header) c.timer.on_header_end();
    advance(1s);
  }
  EXPECT_EQ(c.fired, 1);
  EXPECT_EQ(c.which, phase);
  EXPECT_LE(c.at, begin + limit + tick());
}

TEST_P(limited_phase, next_request_counts_anew) {
  enter(GetParam().phase);
  for (int requests = 0; requests < 20; ++requests) {
    advance(GetParam().limit - 1s);
    c.timer.on_bytes();
    c.timer.on_header_end();
    c.timer.on_request_end();
    c.timer.on_response_end();
    if (GetParam().phase != request_phase::keep_alive) c.timer.on_bytes();
    if (GetParam().phase == request_phase::body) c.timer.on_header_end();
    ASSERT_EQ(c.timer.phase(), GetParam().phase);
  }
  EXPECT_EQ(c.fired, 0);
}

// The time of the iteration was read before a callback blocked, and the start came after it.
TEST_F(phase_timeouts, phase_entered_after_late_start_has_whole_limit) {
  reopen({.stall_grace = 10ms});
  service.timers.now();
  service.time.block(8ms);
  ASSERT_EQ(c.timer.start({.header = 10s, .body = 10s}), 0);
  const auto begun = service.time.now();
  c.timer.on_header_end();
  EXPECT_GE(c.timer.phase_ends_at(), begun + 10s);
  EXPECT_TRUE(fires_in(10s, 2));
}

TEST_F(phase_timeouts, first_byte_at_last_moment_ends_keep_alive) {
  enter(request_phase::keep_alive);
  advance(usual.keep_alive - 1ns);
  c.timer.on_bytes();
  EXPECT_EQ(c.timer.phase(), request_phase::header);
  EXPECT_EQ(fired_after(usual.header - 1s), 0) << "a request in flight was cut for keep-alive";
  advance(1s + tick());
  EXPECT_EQ(c.which, request_phase::header);
}

TEST_F(phase_timeouts, keep_alive_may_follow_body) {
  enter(request_phase::body);
  c.timer.on_response_end();
  EXPECT_EQ(c.timer.phase(), request_phase::keep_alive);
}

TEST_F(phase_timeouts, response_has_no_limit) {
  enter(request_phase::response);
  EXPECT_EQ(c.timer.phase_ends_at(), time_point::max());
  EXPECT_EQ(fired_after(24h * 365), 0);
  EXPECT_TRUE(c.timer.armed());
}

TEST_F(phase_timeouts, response_may_follow_header) {
  enter(request_phase::header);
  c.timer.on_request_end();
  EXPECT_EQ(c.timer.phase(), request_phase::response);
}

TEST_F(maximum_age, ends_connection_between_requests) {
  enter(request_phase::keep_alive, {.keep_alive = 2h, .max_age = 1h});
  const auto begin = service.time.now();
  EXPECT_TRUE(fires_in(1h));
  EXPECT_EQ(c.which, request_phase::max_age);
  EXPECT_GE(c.at, begin + 1h);
}

TEST_F(maximum_age, requests_do_not_extend_it) {
  enter(request_phase::header);
  const auto begin = service.time.now();
  for (int i = 0; i < 1900; ++i) {
    serve_request(c);
    advance(2s);
  }
  EXPECT_EQ(c.fired, 1);
  EXPECT_EQ(c.which, request_phase::max_age);
  EXPECT_LE(c.at, begin + 1h + usual.age_grace + tick());
}

TEST_F(maximum_age, expires_only_after_request_in_flight) {
  for (const request_phase phase : {request_phase::header, request_phase::body, request_phase::response}) {
    enter(phase, {.header = 10s, .body = 10s, .max_age = 5s});
    EXPECT_FALSE(c.timer.aged());
    EXPECT_EQ(fired_after(6s), 0) << name_of(phase);
    EXPECT_TRUE(c.timer.aged());
    c.timer.on_response_end();
    EXPECT_EQ(fired_after(1s + tick()), 1);
    EXPECT_EQ(c.which, request_phase::max_age);
  }
}

TEST_F(maximum_age, answered_peer_has_grace_for_next_request) {
  enter(request_phase::response, {.max_age = 5s, .age_grace = 2s});
  advance(5s - 1ms);
  c.timer.on_response_end();
  EXPECT_FALSE(c.timer.aged());
  EXPECT_EQ(fired_after(2s - 1ms), 0);
  EXPECT_TRUE(c.timer.aged());
  serve_request(c);  // is answered, with the word that it was the last
  EXPECT_EQ(fired_after(2s - 1ns), 0);
  advance(1ns + tick());
  EXPECT_EQ(c.which, request_phase::max_age);
}

TEST_F(maximum_age, without_grace_expires_in_next_pass) {
  enter(request_phase::response, {.max_age = 5s, .age_grace = 0s});
  advance(6s);
  c.timer.on_response_end();
  EXPECT_EQ(c.fired, 0) << "the handler runs in a pass";
  advance(tick());
  EXPECT_EQ(c.which, request_phase::max_age);
}

TEST_F(maximum_age, keep_alive_shorter_than_grace_expires_first) {
  enter(request_phase::response, {.keep_alive = 1s, .max_age = 5s, .age_grace = 2s});
  advance(6s);
  c.timer.on_response_end();
  advance(1s + tick());
  EXPECT_EQ(c.which, request_phase::keep_alive);
}

TEST_F(maximum_age, request_before_verdict_has_its_time) {
  enter(request_phase::keep_alive, {.max_age = 5s});
  advance(5s - 1ns);
  c.timer.on_bytes();
  EXPECT_EQ(fired_after(9s), 0);
}

TEST_F(maximum_age, counts_on_plain_clock) {
  reopen({.stall_grace = 10ms});
  enter(request_phase::keep_alive, {.max_age = 5s, .age_grace = 0s});
  service.time.block(5s);
  EXPECT_EQ(fired_after(tick()), 1);
  EXPECT_EQ(c.which, request_phase::max_age);
}

TEST_F(maximum_age, earlier_of_age_and_keep_alive_is_named) {
  enter(request_phase::keep_alive, {.keep_alive = 5s, .max_age = 6s});
  service.time.block(1h);  // both are over by now
  advance(5s + tick());
  EXPECT_EQ(c.which, request_phase::max_age) << "keep-alive does not count the stall";
  enter(request_phase::keep_alive, {.keep_alive = 5s, .max_age = 6s});
  advance(5s + tick());
  EXPECT_EQ(c.which, request_phase::keep_alive);
}

TEST_F(phase_timeouts, start_of_started_one_begins_anew) {
  enter(request_phase::keep_alive, {.max_age = 20s});
  advance(15s);
  ASSERT_EQ(c.timer.start({.header = 30s, .max_age = 20s}), 0);
  EXPECT_EQ(c.timer.limits().header, 30s);
  advance(16s);
  EXPECT_FALSE(c.timer.aged());
  EXPECT_EQ(c.fired, 0);
  advance(15s);
  EXPECT_EQ(c.which, request_phase::header);
}

TEST_F(phase_timeouts, invalid_limits_are_refused_and_named) {
  const auto refused = [&](const phase_limits& limits) {
    EXPECT_EQ(c.timer.start(limits), UV_EINVAL);
    EXPECT_FALSE(c.timer.armed());
    const char* const problem = limits.problem();
    return std::string{problem != nullptr ? problem : ""};
  };
  EXPECT_EQ(refused({.header = 0s}), "phase_limits::header is not positive");
  EXPECT_EQ(refused({.body = -1ns}), "phase_limits::body is not positive");
  EXPECT_EQ(refused({.keep_alive = 0s}), "phase_limits::keep_alive is not positive");
  EXPECT_EQ(refused({.max_age = std::chrono::nanoseconds::min()}), "phase_limits::max_age is not positive");
  EXPECT_EQ(refused({.age_grace = -1ns}), "phase_limits::age_grace is negative");
  EXPECT_EQ(phase_limits{}.problem(), nullptr);
  enter(request_phase::header);
  EXPECT_EQ(c.timer.start({.header = 0s}), UV_EINVAL);
  EXPECT_EQ(c.timer.limits().header, usual.header);
}

TEST_F(phase_timeouts, events_enter_no_phase_unless_started) {
  const auto expect_none = [](connection& on) {
    on.timer.on_header_end();
    serve_request(on);
    on.timer.on_bytes();
    EXPECT_EQ(on.timer.phase(), request_phase::none);
    EXPECT_EQ(on.timer.phase_ends_at(), time_point::max());
    EXPECT_FALSE(on.timer.aged());
  };
  expect_none(c);
  enter(request_phase::body);
  EXPECT_TRUE(c.timer.cancel());
  expect_none(c);
  std::optional<manual_service> gone{std::in_place};
  connection orphan{gone->timers};
  ASSERT_EQ(orphan.timer.start(usual), 0);
  gone->timers.close();
  expect_none(orphan);
  gone.reset();
  expect_none(orphan);
}

TEST_F(phase_timeouts, longest_limits_never_expire) {
  constexpr auto never = std::chrono::nanoseconds::max();
  for (const request_phase phase : {request_phase::header, request_phase::body, request_phase::keep_alive}) {
    enter(phase, {.header = never, .body = never, .keep_alive = never, .max_age = never});
    EXPECT_EQ(c.timer.phase_ends_at(), time_point::max());
    EXPECT_EQ(fired_after(24h * 365 * 100), 0);
    EXPECT_TRUE(c.timer.armed());
  }
}

TEST_F(phase_timeouts, advertised_keep_alive_is_shorter_than_limit) {
  const auto advertised = [](std::chrono::nanoseconds limit) {
    return phase_limits{.keep_alive = limit}.advertised_keep_alive();
  };
  EXPECT_EQ(advertised(60s), 59s);
  EXPECT_EQ(advertised(5999ms), 4s);
  EXPECT_EQ(advertised(2s), 1s);
  EXPECT_EQ(advertised(1999ms), 0s);
  EXPECT_EQ(advertised(1ns), 0s);
}

TEST_F(phase_timeouts, keeps_its_place_among_max_armed_in_all_phases) {
  reopen({.max_armed = 1});
  enter(request_phase::header);
  connection other{service.timers};
  for (int requests = 0; requests < 3; ++requests) {
    c.timer.on_request_end();
    EXPECT_EQ(other.timer.start(usual), UV_ENOBUFS);
    advance(1h);  // beyond any end a phase before had
    c.timer.on_response_end();
    EXPECT_EQ(c.timer.phase(), request_phase::keep_alive);
    c.timer.on_bytes();
    EXPECT_EQ(c.timer.phase(), request_phase::header);
  }
  EXPECT_EQ(c.fired, 0);
}

TEST_F(phase_timeouts, each_phase_has_a_name) {
  using enum request_phase;
  std::string names;
  for (const request_phase phase : {none, header, body, response, keep_alive, max_age})
    names += std::string{name_of(phase)} + ' ';
  EXPECT_EQ(names, "none header body response keep_alive max_age ");
}

TEST_F(phase_timeouts, entering_phase_reads_no_clock) {
  // all of an iteration counts from one stamp, however long its callbacks took
  enter(request_phase::header);
  const auto begin = service.timers.now();
  service.time.block(5ms);
  c.timer.on_header_end();
  EXPECT_EQ(c.timer.phase_ends_at(), begin + usual.body);
}

}  // namespace
