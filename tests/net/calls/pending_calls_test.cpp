// Calls and their answers, on a clock turned by hand.
#include <tickwheel/net/pending_calls.hpp>

#include "../../support/allocation_probe.hpp"
#include "../../uv/support/probe.hpp"

namespace {

using tickwheel::deadline;

/// A call that notes how it failed.
struct call : tickwheel::pending_call {
  explicit call(tickwheel::timer_service& timers, std::function<void()> what = {})
      : pending_call{timers}, then{std::move(what)}, service{timers} {}

  void on_failed(int why) noexcept {
    ++failed;
    error = why;
    at = service.now();
    const auto todo = then;  // a copy, since the call may destroy this
    if (todo) todo();
  }

  int failed = 0;
  int error = 0;
  tickwheel::clock::time_point at{};
  std::function<void()> then;
  tickwheel::timer_service& service;
  deadline until{};  // what derives from pending_call finds none of its names in the way
};

using calls = tickwheel::pending_calls<&call::on_failed>;

/// A container on a manual service, whose invariants are checked at each step.
class manual_calls : public manual_service {
 public:
  explicit manual_calls(std::size_t most = 1000, const tickwheel::service_options& options = {})
      : manual_service{options} {
    EXPECT_EQ(pending.open(most), 0);
  }
  ~manual_calls() { check_calls(); }
  manual_calls(const manual_calls&) = delete;
  manual_calls& operator=(const manual_calls&) = delete;

  deadline in(std::chrono::nanoseconds budget) const { return deadline::after(budget, timers.now()); }
  void advance(std::chrono::nanoseconds by) {
    manual_service::advance(by);
    check_calls();
  }
  void check_calls() const {
    std::string why;
    EXPECT_TRUE(pending.validate(&why)) << why;
  }

  calls pending;
};

class pending_calls : public testing::Test {
 protected:
  /// Starts a call that has a second.
  int start(call& of, std::uint64_t id) { return on.pending.start(of, id, on.in(1s)); }
  int failed_after(std::chrono::nanoseconds time) {
    on.advance(time);
    return c.failed;
  }

  manual_calls on;
  call c{on.timers};
  std::string reported;
};
class pending_calls_start : public pending_calls {};
class fail_all : public pending_calls {};
class pending_calls_end : public pending_calls {};

TEST_F(pending_calls, expired_call_is_reported_as_its_handler) {
  on.timers.on_slow_handler(
      [](void* name, const tickwheel::slow_handler& slow) noexcept {
        EXPECT_EQ(slow.handler, calls::handler());
        std::ostringstream out;
        out << tickwheel::handler_name{slow.handler};
        *static_cast<std::string*>(name) = out.str();
      },
      &reported);
  c.then = [&] { on.time.block(5ms); };
  ASSERT_EQ(start(c, 7), 0);
  std::ostringstream dump;
  on.timers.dump(dump);
  EXPECT_NE(dump.str().find("armed for the handler tickwheel::pending_call: 1 in "), std::string::npos) << dump.str();
  on.advance(2s);
  EXPECT_NE(reported.find("call::on_failed"), std::string::npos) << reported;
}

TEST_F(pending_calls, answer_with_its_id_completes_call) {
  ASSERT_EQ(start(c, 7), 0);
  EXPECT_TRUE(c.pending());
  EXPECT_EQ(on.pending.pending(), 1U);
  EXPECT_EQ(on.pending.complete(7), &c);
  EXPECT_FALSE(c.pending());
  EXPECT_FALSE(on.time.alive());
  EXPECT_EQ(on.pending.pending(), 0U);
  EXPECT_EQ(on.pending.stats().answered, 1U);
}

TEST_F(pending_calls, call_without_answer_expires_and_not_early) {
  const auto until = on.in(1s);
  ASSERT_EQ(on.pending.start(c, 7, until), 0);
  EXPECT_EQ(failed_after(1s - 1ns), 0);
  EXPECT_EQ(failed_after(1ns + on.tick()), 1);
  EXPECT_EQ(c.error, UV_ETIMEDOUT);
  EXPECT_TRUE(until.passed(c.at));
  EXPECT_FALSE(c.pending());
  EXPECT_EQ(on.pending.stats().expired, 1U);
}

TEST_F(pending_calls, answered_call_does_not_expire) {
  ASSERT_EQ(start(c, 7), 0);
  ASSERT_EQ(on.pending.complete(7), &c);
  EXPECT_EQ(failed_after(1h), 0);
  EXPECT_EQ(on.timers.stats().fired, 0U);
}

TEST_F(pending_calls, late_answer_is_unmatched) {
  ASSERT_EQ(start(c, 7), 0);
  on.advance(2s);
  EXPECT_EQ(on.pending.complete(7), nullptr);
  EXPECT_EQ(on.pending.stats().unmatched, 1U);
  EXPECT_EQ(on.pending.stats().answered, 0U);
  EXPECT_EQ(c.failed, 1);
}

TEST_F(pending_calls, repeated_answer_is_unmatched) {
  ASSERT_EQ(start(c, 7), 0);
  EXPECT_EQ(on.pending.complete(7), &c);
  EXPECT_EQ(on.pending.complete(7), nullptr);
  EXPECT_EQ(on.pending.stats().unmatched, 1U);
}

TEST_F(pending_calls, answer_with_unknown_id_is_unmatched) {
  ASSERT_EQ(start(c, 7), 0);
  EXPECT_EQ(on.pending.complete(8), nullptr);
  EXPECT_TRUE(c.pending());
}

TEST_F(pending_calls, answer_between_deadline_and_pass_counts) {
  ASSERT_EQ(start(c, 7), 0);
  on.time.block(2s);  // it was waiting in the socket
  EXPECT_EQ(on.pending.complete(7), &c);
  EXPECT_EQ(failed_after(1s), 0);
}

TEST_F(pending_calls, answers_find_their_calls_in_any_order) {
  std::deque<call> all;
  for (std::uint64_t id = 0; id < 1000; ++id) ASSERT_EQ(start(all.emplace_back(on.timers), id * 1024), 0);
  on.check_calls();
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const std::uint64_t which = i * 377 % 1000;
    ASSERT_EQ(on.pending.complete(which * 1024), &all[which]);
  }
  EXPECT_EQ(on.pending.pending(), 0U);
}

TEST_F(pending_calls, id_may_be_any_number) {
  constexpr auto last = std::numeric_limits<std::uint64_t>::max();
  call zero{on.timers}, most{on.timers};
  ASSERT_EQ(start(zero, 0), 0);
  ASSERT_EQ(start(most, last), 0);
  EXPECT_EQ(most.id(), last);
  EXPECT_EQ(on.pending.find(0), &zero);
  EXPECT_EQ(on.pending.complete(last), &most);
  EXPECT_EQ(on.pending.complete(0), &zero);
}

TEST_F(pending_calls, find_leaves_call_pending) {
  EXPECT_EQ(on.pending.find(7), nullptr);
  ASSERT_EQ(start(c, 7), 0);
  EXPECT_EQ(on.pending.find(7), &c);
  EXPECT_TRUE(c.pending());
  EXPECT_EQ(on.pending.stats().unmatched, 0U);
}

TEST_F(pending_calls, call_tells_when_it_expires) {
  const auto until = on.in(1s);
  ASSERT_EQ(on.pending.start(c, 7, until), 0);
  EXPECT_GE(c.expires_at(), until.when);
  EXPECT_LT(c.expires_at(), until.when + on.tick());
  c.cancel();
  EXPECT_EQ(c.expires_at(), tickwheel::clock::time_point::max());
}

TEST_F(pending_calls, call_without_deadline_waits_for_answer) {
  ASSERT_EQ(on.pending.start(c, 7, deadline::never()), 0);
  on.advance(24h * 365);
  EXPECT_EQ(on.pending.complete(7), &c);
  EXPECT_EQ(c.failed, 0);
}

TEST_F(pending_calls_start, passed_deadline_is_refused_without_handler) {
  EXPECT_EQ(on.pending.start(c, 7, on.in(0s)), UV_ETIMEDOUT);
  EXPECT_EQ(on.pending.start(c, 7, on.in(-1s)), UV_ETIMEDOUT);
  EXPECT_FALSE(c.pending());
  EXPECT_EQ(failed_after(1h), 0);
  EXPECT_EQ(on.pending.stats().refused, 2U);
  EXPECT_EQ(on.pending.stats().started, 0U);
}

TEST_F(pending_calls_start, judges_by_time_it_is_told) {
  const auto now = on.timers.now();
  EXPECT_EQ(on.pending.start(c, 7, on.in(1s), now + 1s), UV_ETIMEDOUT);
  EXPECT_EQ(on.pending.start(c, 7, on.in(1s), now + 1s - 1ns), 0);
}

TEST_F(pending_calls_start, deadline_passed_in_this_iteration_is_refused) {
  const auto until = on.in(10ms);
  on.time.block(10ms);
  EXPECT_EQ(on.pending.start(c, 7, until), UV_ETIMEDOUT);
}

TEST_F(pending_calls_start, pending_id_is_refused) {
  call a{on.timers}, b{on.timers};
  ASSERT_EQ(start(a, 7), 0);
  EXPECT_EQ(start(b, 7), UV_EEXIST);
  EXPECT_FALSE(b.pending());
  EXPECT_EQ(on.pending.complete(7), &a);
  EXPECT_EQ(start(b, 7), 0);
}

TEST_F(pending_calls_start, pending_call_is_refused) {
  ASSERT_EQ(start(c, 7), 0);
  EXPECT_EQ(on.pending.start(c, 8, on.in(2s)), UV_EALREADY);
  EXPECT_EQ(c.id(), 7U);
  EXPECT_EQ(on.pending.find(8), nullptr);
  EXPECT_EQ(failed_after(1s + on.tick()), 1);
}

TEST_F(pending_calls_start, call_pending_elsewhere_is_refused) {
  calls other;
  ASSERT_EQ(other.open(1), 0);
  ASSERT_EQ(start(c, 7), 0);
  EXPECT_EQ(other.start(c, 7, on.in(1s)), UV_EALREADY);
  EXPECT_EQ(on.pending.complete(7), &c);
  EXPECT_EQ(other.start(c, 7, on.in(1s)), 0);
  EXPECT_EQ(other.complete(7), &c);
}

TEST_F(pending_calls_start, one_more_than_capacity_is_refused) {
  for (const std::size_t most : {1U, 2U, 3U, 7U, 8U, 9U}) {
    manual_calls own{most};
    EXPECT_EQ(own.pending.capacity(), most);
    std::deque<call> all;
    for (std::size_t i = 0; i < most; ++i) ASSERT_EQ(own.pending.start(all.emplace_back(own.timers), i, own.in(1s)), 0);
    call more{own.timers};
    EXPECT_EQ(own.pending.start(more, most, own.in(1s)), UV_ENOBUFS);
    EXPECT_FALSE(more.pending());
    ASSERT_EQ(own.pending.complete(0), &all[0]);  // an answer makes room
    EXPECT_EQ(own.pending.start(more, most, own.in(2s)), 0);
    own.advance(1s + own.tick());  // and so does a deadline
    EXPECT_EQ(own.pending.pending(), 1U);
    own.check_calls();
  }
}

TEST_F(pending_calls_start, one_more_than_max_armed_is_refused) {
  manual_calls own{16, {.max_armed = 1}};
  call a{own.timers}, b{own.timers};
  ASSERT_EQ(own.pending.start(a, 1, own.in(1s)), 0);
  EXPECT_EQ(own.pending.start(b, 2, own.in(1s)), UV_ENOBUFS);
  EXPECT_FALSE(b.pending());
  EXPECT_EQ(own.pending.find(2), nullptr);
  EXPECT_EQ(own.pending.pending(), 1U);
}

TEST_F(pending_calls_end, open_without_capacity_is_refused) {
  calls one;
  EXPECT_EQ(one.open(0), UV_EINVAL);
  EXPECT_FALSE(one.is_open());
}

TEST_F(pending_calls_end, second_open_is_refused) {
  manual_calls own{4};
  EXPECT_EQ(own.pending.open(8), UV_EALREADY);
  EXPECT_EQ(own.pending.capacity(), 4U);
}

TEST_F(pending_calls_end, open_without_memory_is_refused) {
  calls one;
  EXPECT_EQ(one.open(std::numeric_limits<std::size_t>::max()), UV_ENOMEM);
  EXPECT_EQ(one.open(std::numeric_limits<std::size_t>::max() / 2 + 1), UV_ENOMEM);
  EXPECT_EQ(allocations::without_memory([&] { return one.open(100); }), UV_ENOMEM);
  EXPECT_FALSE(one.is_open());
  EXPECT_EQ(one.open(100), 0);
}

TEST_F(pending_calls_end, closed_container_starts_and_completes_nothing) {
  calls pending;
  EXPECT_EQ(pending.start(c, 7, deadline::never()), UV_ECANCELED);
  EXPECT_EQ(pending.complete(7), nullptr);
  EXPECT_EQ(pending.find(7), nullptr);
  EXPECT_EQ(pending.fail_all(UV_ECONNRESET), 0U);
  pending.close();
}

TEST_F(pending_calls, cancelled_or_destroyed_call_has_no_answer_nor_expiry) {
  EXPECT_FALSE(c.cancel());
  ASSERT_EQ(start(c, 7), 0);
  EXPECT_TRUE(c.cancel());
  EXPECT_FALSE(c.cancel());
  {
    call one{on.timers};
    ASSERT_EQ(start(one, 8), 0);
  }
  EXPECT_EQ(on.pending.pending(), 0U);
  for (const std::uint64_t id : {7U, 8U}) EXPECT_EQ(on.pending.complete(id), nullptr);
  EXPECT_EQ(failed_after(1h), 0);
  EXPECT_EQ(on.pending.stats().cancelled, 2U);
}

TEST_F(pending_calls, handler_may_complete_expired_call_of_same_pass) {
  call a{on.timers}, b{on.timers};
  a.then = [&] { EXPECT_EQ(on.pending.complete(2), &b); };
  b.then = [&] { EXPECT_EQ(on.pending.complete(1), &a); };
  const auto until = on.in(1s);
  ASSERT_EQ(on.pending.start(a, 1, until), 0);
  ASSERT_EQ(on.pending.start(b, 2, until), 0);
  on.advance(1h);
  EXPECT_EQ(a.failed + b.failed, 1) << "the other was answered";
  EXPECT_EQ(on.pending.stats().expired, 1U);
  EXPECT_EQ(on.pending.stats().answered, 1U);
}

TEST_F(pending_calls, handler_may_end_expired_call_of_same_pass) {
  for (const bool destroy : {false, true}) {
    manual_calls own;
    auto a = std::make_unique<call>(own.timers);
    auto b = std::make_unique<call>(own.timers);
    int failed = 0;
    const auto end = [&](std::unique_ptr<call>& other) {
      ++failed;
      if (destroy)
        other.reset();
      else
        other->cancel();
    };
    a->then = [&] { end(b); };
    b->then = [&] { end(a); };
    const auto until = own.in(1s);
    ASSERT_EQ(own.pending.start(*a, 1, until), 0);
    ASSERT_EQ(own.pending.start(*b, 2, until), 0);
    own.advance(1h);
    EXPECT_EQ(failed, 1);
    EXPECT_EQ(own.pending.stats().cancelled, 1U);
  }
}

TEST_F(pending_calls, handler_finds_its_id_free) {
  c.then = [&] {
    EXPECT_FALSE(c.pending());
    EXPECT_EQ(on.pending.find(7), nullptr);
    EXPECT_EQ(on.pending.complete(7), nullptr);
  };
  ASSERT_EQ(start(c, 7), 0);
  EXPECT_EQ(failed_after(1h), 1);
}

TEST_F(fail_all, tells_each_pending_call_why) {
  std::deque<call> all;
  for (std::uint64_t id = 0; id < 100; ++id) ASSERT_EQ(start(all.emplace_back(on.timers), id), 0);
  ASSERT_EQ(on.pending.complete(50), &all[50]);
  EXPECT_EQ(on.pending.fail_all(UV_ECONNRESET), 99U);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].failed, i == 50 ? 0 : 1);
    EXPECT_EQ(all[i].error, i == 50 ? 0 : UV_ECONNRESET);
    EXPECT_FALSE(all[i].pending());
  }
  EXPECT_EQ(on.pending.stats().failed, 99U);
  on.advance(1h);
  EXPECT_EQ(on.timers.stats().fired, 0U);
}

TEST_F(fail_all, without_calls_tells_nobody) { EXPECT_EQ(on.pending.fail_all(UV_ECONNRESET), 0U); }

TEST_F(fail_all, spares_calls_that_handlers_start) {
  std::deque<call> all;
  std::uint64_t next_id = 0;
  for (int i = 0; i < 64; ++i) {
    call& one = all.emplace_back(on.timers);
    one.then = [&] { EXPECT_EQ(start(one, next_id++), 0); };
    ASSERT_EQ(start(one, next_id++), 0);
  }
  EXPECT_EQ(on.pending.fail_all(UV_ECONNRESET), 64U);
  for (const call& one : all) EXPECT_EQ(one.failed, 1);
  EXPECT_EQ(on.pending.pending(), 64U);
  on.check_calls();
  EXPECT_EQ(on.pending.fail_all(UV_ECONNRESET), 64U);
  for (const call& one : all) EXPECT_EQ(one.failed, 2);
}

TEST_F(fail_all, spares_calls_that_handler_ends) {
  for (int how = 0; how < 3; ++how) {
    manual_calls own{64};
    std::vector<std::unique_ptr<call>> all;
    int failed = 0;
    for (std::uint64_t id = 0; id < 64; ++id) {
      all.push_back(std::make_unique<call>(own.timers));
      all.back()->then = [&, id] {
        ++failed;
        for (std::uint64_t other = 0; other < 64; ++other) {
          if (other == id) continue;
          if (how == 0) all[other]->cancel();
          if (how == 1) all[other].reset();
          if (how == 2) {
            EXPECT_EQ(own.pending.complete(other), all[other].get());
          }
        }
      };
      ASSERT_EQ(own.pending.start(*all.back(), id, own.in(1s)), 0);
    }
    EXPECT_EQ(own.pending.fail_all(UV_ECONNRESET), 1U);
    EXPECT_EQ(failed, 1);
    EXPECT_EQ(own.pending.pending(), 0U);
  }
}

TEST_F(fail_all, within_handler_fails_rest_and_new_calls) {
  std::deque<call> all;
  call started{on.timers};
  for (std::uint64_t id = 0; id < 4; ++id) {
    call& one = all.emplace_back(on.timers);
    one.then = [&] {
      if (on.pending.stats().failed != 1) return;
      EXPECT_EQ(start(started, 100), 0);
      EXPECT_EQ(on.pending.fail_all(UV_EPIPE), 4U);
    };
    ASSERT_EQ(start(one, id), 0);
  }
  EXPECT_EQ(on.pending.fail_all(UV_ECONNRESET), 1U);
  EXPECT_EQ(started.error, UV_EPIPE);
  EXPECT_EQ(std::count_if(all.begin(), all.end(), [](const call& one) { return one.error == UV_EPIPE; }), 3);
  for (const call& one : all) EXPECT_EQ(one.failed, 1);
}

TEST_F(fail_all, stops_when_handler_closes_container) {
  std::deque<call> all;
  for (std::uint64_t id = 0; id < 8; ++id) {
    call& one = all.emplace_back(on.timers, [&] { on.pending.close(); });
    ASSERT_EQ(start(one, id), 0);
  }
  EXPECT_EQ(on.pending.fail_all(UV_ECONNRESET), 1U);
  EXPECT_EQ(std::count_if(all.begin(), all.end(), [](const call& one) { return one.failed == 1; }), 1);
  EXPECT_EQ(on.pending.stats().cancelled, 7U);
}

TEST_F(fail_all, stops_when_handler_reopens_container) {
  std::deque<call> all;
  call after{on.timers};
  for (std::uint64_t id = 0; id < 8; ++id) {
    call& one = all.emplace_back(on.timers, [&] {
      on.pending.close();
      ASSERT_EQ(on.pending.open(1), 0);
      EXPECT_EQ(start(after, 1), 0);
    });
    ASSERT_EQ(start(one, id), 0);
  }
  EXPECT_EQ(on.pending.fail_all(UV_ECONNRESET), 1U);
  EXPECT_TRUE(after.pending());
  EXPECT_EQ(on.pending.fail_all(UV_ECONNRESET), 1U);
  EXPECT_EQ(after.failed, 1);
}

TEST_F(fail_all, stops_when_handler_destroys_container) {
  for (const bool inner : {false, true}) {
    auto pending = std::make_unique<calls>();
    ASSERT_EQ(pending->open(16), 0);
    std::deque<call> all;
    int failed = 0;
    for (std::uint64_t id = 0; id < 8; ++id) {
      call& one = all.emplace_back(on.timers, [&] {
        if (++failed == 1 && inner)
          pending->fail_all(UV_EPIPE);
        else
          pending.reset();
      });
      ASSERT_EQ(pending->start(one, id, deadline::never()), 0);
    }
    pending->fail_all(UV_ECONNRESET);
    EXPECT_EQ(pending, nullptr);
    EXPECT_EQ(failed, inner ? 2 : 1);
    for (const call& one : all) EXPECT_FALSE(one.pending());
  }
}

TEST_F(pending_calls_end, close_runs_no_handler_and_frees_calls) {
  ASSERT_EQ(start(c, 7), 0);
  on.pending.close();
  EXPECT_FALSE(c.pending());
  EXPECT_EQ(failed_after(1h), 0);
  EXPECT_EQ(on.pending.stats().cancelled, 1U);
  ASSERT_EQ(on.pending.open(1), 0);
  EXPECT_EQ(on.pending.stats().cancelled, 0U);
  EXPECT_EQ(start(c, 7), 0);
}

TEST_F(pending_calls_end, destruction_runs_no_handler) {
  {
    calls pending;
    ASSERT_EQ(pending.open(4), 0);
    ASSERT_EQ(pending.start(c, 7, deadline::after(1s, on.timers.now())), 0);
  }
  EXPECT_FALSE(c.pending());
  EXPECT_FALSE(c.cancel());
  EXPECT_EQ(failed_after(1h), 0);
}

TEST_F(pending_calls_end, handler_may_destroy_container) {
  auto pending = std::make_unique<calls>();
  ASSERT_EQ(pending->open(4), 0);
  call other{on.timers};
  call one{on.timers, [&] { pending.reset(); }};
  const auto until = deadline::after(1s, on.timers.now());
  ASSERT_EQ(pending->start(one, 7, until), 0);
  ASSERT_EQ(pending->start(other, 8, deadline::after(2s, on.timers.now())), 0);
  on.advance(1h);
  EXPECT_EQ(one.failed, 1);
  EXPECT_EQ(other.failed, 0);
}

TEST_F(pending_calls_end, closed_service_only_refuses_start) {
  call a{on.timers}, b{on.timers};
  ASSERT_EQ(start(a, 1), 0);
  ASSERT_EQ(start(b, 2), 0);
  ASSERT_EQ(start(c, 3), 0);
  on.timers.close();
  EXPECT_EQ(on.pending.complete(1), &a);
  EXPECT_TRUE(b.cancel());
  EXPECT_EQ(on.pending.fail_all(UV_ECONNRESET), 1U);
  EXPECT_EQ(on.pending.start(a, 1, deadline::never()), UV_ECANCELED);
}

TEST_F(pending_calls_end, calls_outlive_service) {
  mortal_service own;
  calls pending;
  ASSERT_EQ(pending.open(4), 0);
  call a{*own.timers}, b{*own.timers};
  ASSERT_EQ(pending.start(a, 1, deadline::never()), 0);
  ASSERT_EQ(pending.start(b, 2, deadline::never()), 0);
  own.timers.reset();
  EXPECT_TRUE(a.cancel());
  EXPECT_TRUE(b.pending());
}

TEST_F(pending_calls_end, each_call_ends_in_exactly_one_way) {
  manual_calls own{32};
  std::vector<int> ends(40);  // of each call, since it was started
  std::deque<call> all;
  for (int& each : ends) all.emplace_back(own.timers, [&each] { ++each; });
  const auto index_of = [&](const call& one) {
    const auto at = std::find_if(all.begin(), all.end(), [&](const call& each) { return &each == &one; });
    return static_cast<std::size_t>(at - all.begin());
  };
  std::vector<bool> started(all.size());
  std::minstd_rand random{1};
  for (int step = 0; step < 20'000; ++step) {
    const std::size_t which = random() % all.size();
    call& one = all[which];
    switch (random() % 8) {
      case 0:
      case 1:
      case 2:
        if (own.pending.start(one, random() % 64, own.in(1ms * (random() % 20))) == 0) {
          started[which] = true;
          ends[which] = 0;
        }
        break;
      case 3:
      case 4:
        if (const call* const answered = own.pending.complete(random() % 64)) ++ends[index_of(*answered)];
        break;
      case 5:
        if (one.cancel()) ++ends[which];
        break;
      case 6:
        own.time.advance(1ms * (random() % 5));
        break;
      default:
        if (random() % 50 == 0) own.pending.fail_all(UV_ECONNRESET);
    }
    own.check_calls();
    for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(ends[i], started[i] && !all[i].pending() ? 1 : 0);
  }
  const auto& s = own.pending.stats();
  for (const auto each : {s.answered, s.expired, s.failed, s.cancelled, s.refused, s.unmatched}) EXPECT_GT(each, 0U);
}

TEST_F(pending_calls_end, calls_allocate_nothing_once_open) {
  std::deque<call> all;
  for (int i = 0; i < 64; ++i) all.emplace_back(on.timers);
  const auto before = allocations::count();
  std::uint64_t id = 0;
  for (int round = 0; round < 100; ++round) {
    for (call& one : all) ASSERT_EQ(on.pending.start(one, id++, on.in(10ms)), 0);
    for (std::uint64_t i = id - 64; i < id - 32; ++i) ASSERT_NE(on.pending.complete(i), nullptr);
    on.time.advance(5ms);
    if (round % 2 == 0) on.pending.fail_all(UV_ECONNRESET);
    on.time.advance(6ms);
  }
  EXPECT_EQ(allocations::count(), before);
  EXPECT_EQ(on.pending.stats().expired, 50U * 32);
}

}  // namespace
