// Draining connections on a clock turned by hand.
#include <tickwheel/net/drain.hpp>
#include <tickwheel/uv/remote.hpp>

#include "../../support/allocation_probe.hpp"
#include "../../uv/support/probe.hpp"
#include "../support/owner.hpp"

using tickwheel::drain_call;
using tickwheel::drain_limits;

namespace {

using std::chrono::nanoseconds;

constexpr drain_limits usual{.hard_stop = 30s, .spread = 5s, .seed = 1};

/// A server, of which `fired` counts how often all its connections have left.
struct server : owner {
  explicit server(tickwheel::timer_service& service) : owner{service}, drain{service, *this} {}
  tickwheel::drain<&owner::on_time> drain;
};

/// A connection that notes what it was told, and does what the test wants.
struct connection {
  connection(tickwheel::drain_group& group, tickwheel::timer_service& timers) : member{group, *this}, timers_{timers} {}

  void on_drain(drain_call call) noexcept {
    ++(call == drain_call::idle ? told_idle : told_to_stop);
    at = timers_.read_clock();
    const auto what = then;
    if (what) what();
  }

  int told_idle = 0;
  int told_to_stop = 0;
  tickwheel::clock::time_point at{};
  std::function<void()> then;
  tickwheel::drain_member<&connection::on_drain> member;

 private:
  tickwheel::timer_service& timers_;
};

/// A server with connections, which leave when they are told, unless a test has them do something else.
struct fixture : testing::Test {
  connection& connect() {
    auto& c = connections.emplace_back(std::make_unique<connection>(s->drain, service.timers));
    c->then = [this, self = c.get()] { disconnect(*self); };
    return *c;
  }
  connection& connect_busy() {
    connection& c = connect();
    c.member.begin_request();
    return c;
  }
  void disconnect(const connection& c) {
    const auto at = std::find_if(connections.begin(), connections.end(), [&](const auto& p) { return p.get() == &c; });
    connections.erase(at);
  }
  /// Lets it stay, whatever it is told.
  static connection& that_lingers(connection& c) {
    c.then = {};
    return c;
  }
  void advance(nanoseconds by) { service.advance(by); }
  void pass() { advance(2 * service.tick()); }
  void start() { ASSERT_EQ(s->drain.start(usual), 0); }
  void start_and_advance(nanoseconds by) {
    start();
    advance(by);
  }
  void start_and_pass() { start_and_advance(2 * service.tick()); }
  /// Advances pass by pass, in each of which some connections leave, until all have left.
  std::size_t most_to_leave_in_a_pass() {
    std::size_t most = 0;
    for (std::size_t before = 0; before != connections.size();) {
      before = connections.size();
      advance(service.tick());
      most = std::max(most, before - connections.size());
    }
    EXPECT_TRUE(connections.empty()) << "a pass told nobody";
    return most;
  }
  static void serve_request(connection& c) {
    c.member.begin_request();
    c.member.end_request();
  }

  manual_service service;
  std::unique_ptr<server> s = std::make_unique<server>(service.timers);
  std::vector<std::unique_ptr<connection>> connections;
};

class drain : public fixture {};
class hard_stop : public fixture {};
class drained : public fixture {};

TEST(drain_handler, has_the_name_of_its_member) {
  std::ostringstream name;
  name << tickwheel::handler_name{tickwheel::drain<&owner::on_time>::handler()};
  EXPECT_NE(name.str().find("owner::on_time"), std::string::npos) << name.str();
}

TEST_F(drain, calls_nobody_before_next_pass) {
  connection& c = that_lingers(connect());
  start();
  EXPECT_TRUE(s->drain.draining());
  EXPECT_EQ(c.told_idle, 0);
  pass();
  EXPECT_EQ(c.told_idle, 1);
}

TEST_F(drain, unstarted_drain_calls_nobody) {
  connection& c = that_lingers(connect());
  serve_request(c);
  advance(24h);
  EXPECT_FALSE(s->drain.draining());
  EXPECT_EQ(c.told_idle, 0);
  EXPECT_EQ(s->drain.size(), 1U);
}

TEST_F(drain, tells_idle_members_and_ends_when_they_left) {
  for (int i = 0; i < 100; ++i) connect();
  const auto begin = service.time.now();
  start_and_advance(24h);
  EXPECT_TRUE(connections.empty());
  EXPECT_EQ(s->fired, 1);
  EXPECT_LE(s->at, begin + 4 * service.tick());
  EXPECT_FALSE(s->drain.draining());
}

TEST_F(drain, tells_at_most_256_members_per_pass) {
  for (int i = 0; i < 3'000; ++i) connect();
  start();
  EXPECT_LE(most_to_leave_in_a_pass(), 256U);
}

TEST_F(drain, tells_each_idle_member_once) {
  connection& c = that_lingers(connect());
  start_and_advance(20s);
  c.member.end_request();
  advance(9s);
  EXPECT_EQ(c.told_idle, 1);
}

TEST_F(drain, tells_member_that_joins_meanwhile) {
  that_lingers(connect());
  start_and_advance(1s);
  connection& late = that_lingers(connect());
  EXPECT_EQ(late.told_idle, 0);
  pass();
  EXPECT_EQ(late.told_idle, 1);
}

TEST_F(drain, request_before_call_postpones_it) {
  connection& c = connect();
  start();
  c.member.begin_request();
  advance(29s);
  EXPECT_EQ(c.told_idle, 0);
  c.member.end_request();
  pass();
  EXPECT_TRUE(connections.empty());
}

TEST_F(drain, request_after_call_brings_another) {
  connection& c = that_lingers(connect());
  start_and_advance(1s);
  c.member.begin_request();
  advance(1s);
  c.member.end_request();
  pass();
  EXPECT_EQ(c.told_idle, 2);
}

TEST_F(hard_stop, stops_told_member_that_lingers) {
  connection& c = that_lingers(connect());
  start_and_advance(usual.hard_stop - 1ns);
  EXPECT_EQ(c.told_to_stop, 0);
  advance(usual.spread + 2 * service.tick());
  EXPECT_EQ(c.told_to_stop, 1);
}

TEST_F(drain, busy_member_is_told_when_request_ends) {
  connection& c = connect_busy();
  start_and_advance(20s);
  EXPECT_EQ(c.told_idle, 0);
  EXPECT_TRUE(c.member.in_flight());
  const auto end = service.time.now();
  c.member.end_request();
  EXPECT_EQ(c.told_idle, 0);
  advance(1s);
  EXPECT_TRUE(connections.empty());
  EXPECT_EQ(s->fired, 1);
  EXPECT_LE(s->at, end + 4 * service.tick());
}

TEST_F(hard_stop, stops_busy_member_within_spread) {
  const auto begin = service.time.now();
  connection& c = that_lingers(connect_busy());
  start_and_advance(usual.hard_stop - 1ns);
  EXPECT_EQ(c.told_to_stop, 0);
  advance(usual.spread + 1ns + service.tick());
  EXPECT_EQ(c.told_to_stop, 1);
  EXPECT_GE(c.at, begin + usual.hard_stop);
  EXPECT_LE(c.at, begin + usual.hard_stop + usual.spread + service.tick());
}

TEST_F(hard_stop, without_one_drain_waits_for_busy_member) {
  connection& c = connect_busy();
  ASSERT_EQ(s->drain.start({.hard_stop = nanoseconds::max()}), 0);
  advance(24h * 365);
  EXPECT_EQ(c.told_to_stop, 0);
  EXPECT_TRUE(s->drain.draining());
  c.member.end_request();
  advance(1s);
  EXPECT_EQ(s->fired, 1);
}

/// When each of `count` busy connections is stopped, from the start of the drain.
std::vector<nanoseconds> stop_times(int count, const drain_limits& limits) {
  manual_service service;
  server s{service.timers};
  std::vector<std::unique_ptr<connection>> all;
  for (int i = 0; i < count; ++i)
    all.emplace_back(std::make_unique<connection>(s.drain, service.timers))->member.begin_request();
  const auto begin = service.time.now();
  EXPECT_EQ(s.drain.start(limits), 0);
  service.advance(limits.hard_stop + limits.spread + 100ms);
  std::vector<nanoseconds> times;
  for (const auto& c : all) {
    EXPECT_EQ(c->told_to_stop, 1);
    times.push_back(c->at - begin);
  }
  return times;
}

TEST_F(hard_stop, each_comes_in_its_share_of_spread) {
  const auto times = stop_times(50, usual);
  for (int i = 0; i < 50; ++i) {
    EXPECT_GE(times[static_cast<std::size_t>(i)], 30s + i * 100ms) << i;
    EXPECT_LE(times[static_cast<std::size_t>(i)], 30s + (i + 1) * 100ms + service.tick()) << i;
  }
}

TEST_F(hard_stop, times_depend_on_seed) {
  drain_limits other = usual;
  other.seed = 2;
  EXPECT_EQ(stop_times(50, usual), stop_times(50, usual));
  EXPECT_NE(stop_times(50, usual), stop_times(50, other));
}

TEST_F(hard_stop, without_spread_all_come_at_once) {
  for (const nanoseconds at : stop_times(50, {.hard_stop = 30s, .spread = 0s})) {
    EXPECT_GE(at, 30s);
    EXPECT_LE(at, 30s + service.tick());
  }
}

TEST_F(hard_stop, at_most_256_come_per_pass) {
  const drain_limits at_once{.hard_stop = 30s, .spread = 0s};
  for (int i = 0; i < 1000; ++i) connect_busy();
  ASSERT_EQ(s->drain.start(at_once), 0);
  advance(at_once.hard_stop - 1ns);
  EXPECT_LE(most_to_leave_in_a_pass(), 256U);
}

TEST_F(hard_stop, overdue_ones_come_in_next_pass) {
  for (int i = 0; i < 50; ++i) connect_busy();
  start_and_pass();
  service.time.block(1h);
  advance(2 * service.tick());
  EXPECT_TRUE(connections.empty());
}

TEST_F(hard_stop, stops_member_that_serves_a_request_each_time_it_is_told) {
  connection& c = connect();
  c.then = [&] {
    if (c.told_to_stop == 0) serve_request(c);
  };
  start_and_advance(usual.hard_stop - 1ns);
  EXPECT_EQ(c.told_to_stop, 0);
  EXPECT_GT(c.told_idle, 1);
  advance(usual.spread + 1ns + service.tick());
  EXPECT_EQ(c.told_to_stop, 1);
}

TEST_F(hard_stop, stops_many_members_that_end_and_begin_requests) {
  for (int i = 0; i < 300; ++i) that_lingers(connect_busy());
  start_and_advance(usual.hard_stop + usual.spread);
  pass();
  for (auto& c : connections) EXPECT_EQ(c->told_to_stop, 1);
  for (int i = 0; i < 300; ++i) that_lingers(connect_busy());
  for (int i = 0; i < 10; ++i) {
    for (auto& c : connections) {
      c->member.end_request();
      c->member.begin_request();
    }
    advance(service.tick());
  }
  for (auto& c : connections) EXPECT_EQ(c->told_to_stop, 1);
}

TEST_F(hard_stop, of_one_member_leaves_others_their_time) {
  connection& first = that_lingers(connect_busy());
  connection& last = that_lingers(connect_busy());
  start_and_advance(30s + 2500ms);
  EXPECT_EQ(first.told_to_stop, 1);
  EXPECT_EQ(last.told_to_stop, 0);
  last.member.end_request();
  pass();
  EXPECT_EQ(last.told_idle, 1);
}

TEST_F(hard_stop, is_last_call) {
  connection& c = that_lingers(connect_busy());
  start_and_advance(1h);
  c.member.end_request();
  serve_request(c);
  advance(24h);
  EXPECT_EQ(c.told_to_stop, 1);
  EXPECT_EQ(c.told_idle, 0);
}

TEST_F(hard_stop, stops_member_that_joins_late) {
  that_lingers(connect_busy());
  start_and_advance(36s);
  connection& late = that_lingers(connect_busy());
  pass();
  EXPECT_EQ(late.told_to_stop, 1);
}

TEST_F(drained, is_told_in_next_pass_without_members) {
  start();
  EXPECT_EQ(s->fired, 0);
  pass();
  EXPECT_EQ(s->fired, 1);
  EXPECT_FALSE(s->drain.draining());
}

TEST_F(drained, is_told_in_next_pass_after_last_member_left) {
  connect_busy();
  start_and_advance(1s);
  connections.clear();
  EXPECT_EQ(s->fired, 0);
  pass();
  EXPECT_EQ(s->fired, 1);
}

TEST_F(drained, waits_for_stopped_members) {
  connection& c = that_lingers(connect_busy());
  start_and_advance(24h);
  EXPECT_EQ(s->fired, 0);
  EXPECT_TRUE(s->drain.draining());
  disconnect(c);
  pass();
  EXPECT_EQ(s->fired, 1);
}

TEST_F(drained, does_not_wait_for_member_that_left) {
  connection& c = that_lingers(connect());
  start();
  c.then = [&] { c.member.leave(); };
  pass();
  EXPECT_EQ(s->drain.size(), 0U);
  advance(1s);
  EXPECT_EQ(s->fired, 1);
  c.member.leave();
  serve_request(c);
}

TEST_F(drained, handler_may_destroy_server) {
  connect();
  s->then = [&] { s.reset(); };
  start_and_advance(1s);
  EXPECT_EQ(s, nullptr);
}

TEST_F(drained, handler_may_start_drain_again) {
  s->then = [&] {
    if (s->fired < 3) {
      EXPECT_EQ(s->drain.start(usual), 0);
    }
  };
  start_and_advance(1s);
  EXPECT_EQ(s->fired, 3);
}

TEST_F(drained, members_may_join_afterwards) {
  start_and_pass();
  connection& c = that_lingers(connect());
  advance(1h);
  EXPECT_EQ(c.told_idle, 0);
}

TEST_F(drain, cancelled_tells_nobody_any_more) {
  connection& told = that_lingers(connect());
  connection& busy = that_lingers(connect_busy());
  start_and_pass();
  EXPECT_TRUE(s->drain.cancel());
  EXPECT_FALSE(s->drain.cancel());
  EXPECT_FALSE(s->drain.draining());
  busy.member.end_request();
  advance(1h);
  EXPECT_EQ(told.told_idle, 1);
  EXPECT_EQ(told.told_to_stop, 0);
  EXPECT_EQ(busy.told_idle, 0);
  EXPECT_EQ(s->fired, 0);
}

TEST_F(drain, start_after_cancel_tells_all) {
  connection& idle = that_lingers(connect());
  connection& busy = that_lingers(connect_busy());
  start_and_advance(1h);
  s->drain.cancel();
  const auto begin = service.time.now();
  start_and_pass();
  EXPECT_EQ(idle.told_idle, 2);
  advance(1h);
  EXPECT_EQ(busy.told_to_stop, 2);
  EXPECT_GE(busy.at, begin + usual.hard_stop);
}

TEST_F(drain, second_start_is_refused) {
  connect_busy();
  start();
  EXPECT_EQ(s->drain.start(usual), UV_EALREADY);
}

TEST_F(drain, invalid_limits_are_refused_and_named) {
  const auto refused = [&](const drain_limits& limits) {
    EXPECT_EQ(s->drain.start(limits), UV_EINVAL);
    EXPECT_FALSE(s->drain.draining());
    const char* const problem = limits.problem();
    return std::string{problem != nullptr ? problem : ""};
  };
  EXPECT_EQ(refused({.hard_stop = 0s}), "drain_limits::hard_stop is not positive");
  EXPECT_EQ(refused({.hard_stop = -1s}), "drain_limits::hard_stop is not positive");
  EXPECT_EQ(refused({.spread = -1ns}), "drain_limits::spread is negative");
  EXPECT_EQ(drain_limits{}.problem(), nullptr);
}

TEST_F(drain, keeps_its_place_among_max_armed) {
  manual_service small{{.max_armed = 1}};
  server other{small.timers};
  connection c{other.drain, small.timers};
  ASSERT_EQ(other.drain.start(usual), 0);
  ASSERT_EQ(small.timers.remote().post(1h, []() noexcept {}), 0);  // which is never refused
  small.turn();
  ASSERT_EQ(small.timers.stats().pending, 2U);
  probe p{small.timers};
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(p.timeout.arm(1s), UV_ENOBUFS);
    small.advance(1s);
  }
  EXPECT_EQ(c.told_idle, 1);
  EXPECT_EQ(c.told_to_stop, 1);
  c.member.leave();
  small.advance(1ms);
  EXPECT_EQ(other.fired, 1);
}

TEST_F(drain, max_armed_and_closed_service_refuse_start) {
  manual_service small{{.max_armed = 1}};
  server other{small.timers};
  probe p{small.timers, 1s};
  EXPECT_EQ(other.drain.start(usual), UV_ENOBUFS);
  small.timers.close();
  EXPECT_EQ(other.drain.start(usual), UV_ECANCELED);
}

TEST_F(drain, close_of_service_ends_it_until_next_start) {
  connection& c = that_lingers(connect());
  start_and_pass();
  service.timers.close();
  EXPECT_FALSE(s->drain.draining());
  serve_request(c);
  ASSERT_EQ(service.timers.open(service.time), 0);
  start_and_pass();
  EXPECT_EQ(c.told_idle, 2);
}

TEST_F(drain, may_be_destroyed_before_its_members) {
  connection& c = that_lingers(connect());
  connect_busy();
  start_and_pass();
  connect();
  s.reset();
  serve_request(c);
  c.member.leave();
  advance(1h);
  EXPECT_EQ(c.told_to_stop, 0);
}

TEST_F(drain, told_member_may_destroy_it) {
  connection& c = connect();
  connection& other = that_lingers(connect());
  c.then = [&] { s.reset(); };
  start_and_advance(1h);
  EXPECT_EQ(s, nullptr);
  EXPECT_EQ(other.told_idle, 0);
}

TEST_F(drain, told_member_may_cancel_it) {
  connection& c = connect();
  connection& other = that_lingers(connect());
  c.then = [&] { s->drain.cancel(); };
  start_and_advance(1h);
  EXPECT_EQ(other.told_idle, 0);
  EXPECT_EQ(s->fired, 0);
}

TEST_F(drain, told_member_may_destroy_all_others) {
  for (int i = 0; i < 3; ++i) {
    connection& c = connect();
    c.then = [&] { connections.clear(); };
  }
  start_and_advance(1s);
  EXPECT_TRUE(connections.empty());
  EXPECT_EQ(s->fired, 1);
}

TEST_F(drain, told_member_may_connect_another) {
  connection& c = connect();
  c.then = [&] {
    connect();
    disconnect(c);
  };
  start_and_advance(1s);
  EXPECT_TRUE(connections.empty());
  EXPECT_EQ(s->fired, 1);
}

TEST_F(drain, told_member_may_close_service) {
  connection& c = connect();
  connection& other = that_lingers(connect());
  c.then = [&] { service.timers.close(); };
  start();
  service.time.advance(1h);
  EXPECT_EQ(other.told_idle, 0);
  EXPECT_EQ(s->fired, 0);
}

TEST_F(drain, told_member_may_destroy_service) {
  mortal_service own;
  server other{*own.timers};
  connection a{other.drain, *own.timers}, b{other.drain, *own.timers};
  a.then = [&] { own.timers.reset(); };
  ASSERT_EQ(other.drain.start(usual), 0);
  own.time.advance(1s);
  EXPECT_FALSE(own.timers);
  EXPECT_EQ(a.told_idle + b.told_idle, 1);
  serve_request(b);
}

TEST_F(drain, holds_loop_unless_unreferenced) {
  EXPECT_FALSE(service.time.alive());
  connection& c = connect_busy();
  start_and_pass();
  EXPECT_TRUE(service.time.alive());
  s->drain.unref();
  EXPECT_FALSE(service.time.alive());
  s->drain.ref();
  c.member.end_request();
  advance(1s);
  EXPECT_FALSE(service.time.alive());
}

TEST_F(drain, allocates_nothing) {
  connection a{s->drain, service.timers};
  connection b{s->drain, service.timers};
  const auto before = allocations::count();
  a.member.begin_request();
  start();
  service.time.advance(1s);
  a.member.end_request();
  service.time.advance(100s);
  a.member.leave();
  b.member.leave();
  service.time.advance(1s);
  EXPECT_EQ(allocations::count(), before);
  EXPECT_EQ(s->fired, 1);
}

TEST_F(drain, member_busy_and_idle_in_handler_is_told_later) {
  connection c{s->drain, service.timers};
  c.then = [&] { serve_request(c); };
  start_and_advance(service.tick());
  EXPECT_EQ(c.told_idle, 1);
  advance(service.tick());
  EXPECT_EQ(c.told_idle, 2);
}

TEST_F(drain, member_is_told_once_per_pass_though_another_leaves) {
  connection c{s->drain, service.timers};
  connection& other = connect();
  c.then = [&] {
    if (c.told_idle == 1) disconnect(other);
    serve_request(c);
  };
  start_and_advance(service.tick());
  EXPECT_EQ(c.told_idle, 1);
  advance(service.tick());
  EXPECT_EQ(c.told_idle, 2);
}

TEST_F(drain, restarted_in_handler_tells_each_once_per_pass) {
  connection a{s->drain, service.timers}, b{s->drain, service.timers};
  a.then = [&] {
    a.then = {};
    EXPECT_TRUE(s->drain.cancel());
    EXPECT_EQ(s->drain.start(usual), 0);
  };
  start_and_advance(service.tick());
  EXPECT_EQ(a.told_idle, 1);
  EXPECT_EQ(b.told_idle, 0);
  advance(service.tick());
  EXPECT_EQ(a.told_idle, 2);
  EXPECT_EQ(b.told_idle, 1);
}

}  // namespace
