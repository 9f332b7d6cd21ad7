// Drains in both orders of libuv's phases, with I/O between the time of a pass and the pass.
#include <tickwheel/net/drain.hpp>

#include "../../uv/support/turned_loop.hpp"

#include <tickwheel/uv/timer_service.hpp>

#include <algorithm>
#include <deque>
#include <optional>

namespace {

using std::chrono::nanoseconds;
using tickwheel::drain_call;
using time_point = tickwheel::clock::time_point;

constexpr nanoseconds hard_stop = 50ms;
constexpr nanoseconds soon = 2ms;  // two ticks, and a millisecond of poll granularity, rounded up

struct server {
  explicit server(tickwheel::timer_service& timers) : drain{timers, *this} {}
  void on_drained() noexcept { is_drained = true; }
  bool is_drained = false;
  tickwheel::drain<&server::on_drained> drain;
};

struct connection {
  explicit connection(server& s) : member{s.drain, *this}, began{tickwheel::clock::now()} {}
  void on_drain(drain_call call) noexcept {
    auto& at = call == drain_call::idle ? told_idle : told_to_stop;
    if (!at) at = tickwheel::clock::now();
    if (leaves) member.leave();
  }
  tickwheel::drain_member<&connection::on_drain> member;
  time_point began;
  bool leaves = true;
  std::optional<time_point> told_idle, told_to_stop;
};

class drain_order : public testing::TestWithParam<loop_order> {
 protected:
  void SetUp() override {
    ASSERT_EQ(timers.open(loop), 0);
    s.emplace(timers);
    begin = loop.now();
  }
  void TearDown() override {
    timers.close();
    s.reset();
  }
  connection& connect() { return connections.emplace_back(*s); }
  connection& connect_busy() {
    connection& c = connect();
    c.member.begin_request();
    return c;
  }
  void start() { ASSERT_EQ(s->drain.start({.hard_stop = hard_stop, .spread = 0ns, .seed = 1}), 0); }
  /// In each iteration of the next 100 ms, except in the first 2 ms, there is something to read, and `then` is called.
  void in_each_iteration(const std::function<void()>& then) {
    for (nanoseconds after = 2ms; after < 100ms; after += 100us) loop.readable_at(begin + after, then);
  }
  /// Or until the drain has ended.
  void run_until(time_point end) {
    loop.readable_at(end, [] {});
    while (loop.now() < end && s->drain.draining()) loop.turn();
  }

  turned_loop loop{GetParam()};
  tickwheel::timer_service timers;
  std::optional<server> s;
  std::deque<connection> connections;
  time_point begin;
};

TEST_P(drain_order, members_that_join_in_each_iteration_keep_no_one_from_being_told) {
  connection& busy = connect_busy();
  in_each_iteration([&] { connect(); });
  start();
  run_until(begin + 90ms);
  ASSERT_TRUE(busy.told_to_stop);
  EXPECT_GE(*busy.told_to_stop, begin + hard_stop);
  EXPECT_LE(*busy.told_to_stop, begin + hard_stop + soon);
  for (const connection& c : connections) {
    if (&c == &busy || c.began > begin + 40ms) continue;
    ASSERT_TRUE(c.told_idle);
    EXPECT_LE(*c.told_idle, c.began + soon);
  }
}

TEST_P(drain_order, requests_that_end_in_each_iteration_keep_no_one_from_being_told) {
  connection& lasting = connect_busy();
  for (int i = 0; i < 1000; ++i) connect_busy();
  std::size_t ended = 1;
  in_each_iteration([&] { connections[ended++].member.end_request(); });
  start();
  run_until(begin + 90ms);
  ASSERT_TRUE(lasting.told_to_stop);
  EXPECT_LE(*lasting.told_to_stop, begin + hard_stop + soon);
  ASSERT_TRUE(connections[1].told_idle);
  EXPECT_LE(*connections[1].told_idle, begin + 2ms + soon);
}

// Each connection comes with its request, which the next poll reads. The poll before it reads something else, so that a pass as of that
// time may follow the connection. With many busy connections, stops are due all the time after the hard stop.
TEST_P(drain_order, request_that_waits_to_be_read_is_served_before_its_connection_is_told) {
  for (const nanoseconds interval : {100us, 1300us}) {
    begin = loop.now();
    loop.read_at_most(1);
    for (int i = 0; i < 400; ++i) connect_busy();
    ASSERT_EQ(s->drain.start({.hard_stop = hard_stop, .spread = 100ms, .seed = 1}), 0);
    int served = 0;
    for (nanoseconds after = 1ms; after < 140ms; after += interval) {
      loop.readable_at(begin + after, [] {});
      loop.readable_at(begin + after, [&] { connect(); });
      loop.readable_at(begin + after, [&] {
        connection& c = connections.back();
        EXPECT_FALSE(c.told_idle);
        ++served;
        c.member.begin_request();
        c.member.end_request();
      });
    }
    run_until(begin + 145ms);
    EXPECT_GE(served, 100);
    EXPECT_EQ(std::count_if(connections.begin(), connections.end(), [](const connection& c) { return c.told_idle; }),
              served);
    connections.clear();
    run_until(begin + 150ms);
  }
}

// As above: the next request is there when one ends.
TEST_P(drain_order, next_request_is_read_before_its_connection_is_told) {
  loop.read_at_most(1);
  for (int i = 0; i < 400; ++i) connect_busy();
  ASSERT_EQ(s->drain.start({.hard_stop = hard_stop, .spread = 100ms, .seed = 1}), 0);
  std::size_t at = 0;
  for (nanoseconds after = 2ms; after < 140ms; after += 1300us) {
    loop.readable_at(begin + after, [] {});
    loop.readable_at(begin + after, [&] { connections[at].member.end_request(); });
    loop.readable_at(begin + after, [&] {
      EXPECT_FALSE(connections[at].told_idle);
      connections[at++].member.begin_request();
    });
  }
  run_until(begin + 145ms);
  EXPECT_EQ(at, 107U);
}

// The drain has not visited the member yet. Its request ends between the time of a pass and the pass.
TEST_P(drain_order, request_that_ends_before_the_first_visit_is_followed_by_a_poll) {
  loop.read_at_most(1);
  for (nanoseconds after = 0ns; after < 500us; after += 10us) {
    begin = loop.now();
    connection& c = connect_busy();
    start();
    loop.readable_at(begin + after, [] {});
    loop.readable_at(begin + after, [&] { c.member.end_request(); });
    loop.readable_at(begin + after, [&] {
      EXPECT_FALSE(c.told_idle);
      c.member.begin_request();
    });
    loop.readable_at(begin + 2ms, [&] { c.member.end_request(); });
    run_until(begin + 10ms);
    ASSERT_TRUE(c.told_idle);
    EXPECT_LE(*c.told_idle, begin + 2ms + soon);
  }
}

TEST_P(drain_order, member_that_serves_a_request_in_each_iteration_has_one_after_it_is_told) {
  connection& c = connect();
  c.leaves = false;
  in_each_iteration([&] {
    c.member.begin_request();
    c.member.end_request();
  });
  start();
  loop.readable_at(begin, [&] { c.member.begin_request(); });
  run_until(begin + 90ms);
  ASSERT_TRUE(c.told_idle && c.told_to_stop);
  EXPECT_GE(*c.told_idle, begin + hard_stop);
  EXPECT_GT(*c.told_to_stop, *c.told_idle);
  EXPECT_LE(*c.told_to_stop, begin + hard_stop + soon);
}

TEST_P(drain_order, owner_is_told_though_members_come_and_go_in_each_iteration) {
  connect_busy();
  in_each_iteration([&] {
    connections.clear();
    connect();
    connections.clear();
  });
  start();
  run_until(begin + 10ms);
  EXPECT_TRUE(s->is_drained);
}

INSTANTIATE_TEST_SUITE_P(of_a_loop, drain_order, testing::ValuesIn(both_orders),
                         [](const auto& of) { return name_of(of.param); });

}  // namespace
