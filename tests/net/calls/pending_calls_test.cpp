// Calls and their answers, on a clock turned by hand.
#include <tickwheel/net/pending_calls.hpp>

#include "../../support/allocation_probe.hpp"
#include "../../uv/support/probe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

using namespace std::chrono_literals;

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
  explicit manual_calls(std::size_t most = 16, const tickwheel::service_options& options = {})
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

// --- an answer, or the deadline --------------------------------------------------------------------------------------

TEST(pending_call, is_completed_by_the_answer_with_its_id) {
  manual_calls on;
  call c{on.timers};
  ASSERT_EQ(on.pending.start(c, 7, on.in(1s)), 0);
  EXPECT_TRUE(c.pending());
  EXPECT_EQ(on.pending.pending(), 1U);
  EXPECT_EQ(on.pending.complete(7), &c);
  EXPECT_FALSE(c.pending());
  EXPECT_EQ(on.pending.pending(), 0U);
  EXPECT_EQ(on.pending.stats().answered, 1U);
}

TEST(pending_call, expires_when_no_answer_came_and_not_before) {
  manual_calls on;
  call c{on.timers};
  const auto until = on.in(1s);
  ASSERT_EQ(on.pending.start(c, 7, until), 0);
  on.advance(1s - 1ns);
  EXPECT_EQ(c.failed, 0);
  on.advance(1ns + on.tick());
  EXPECT_EQ(c.failed, 1);
  EXPECT_EQ(c.error, UV_ETIMEDOUT);
  EXPECT_TRUE(until.passed(c.at));
  EXPECT_FALSE(c.pending());
  EXPECT_EQ(on.pending.stats().expired, 1U);
}

TEST(pending_call, that_was_answered_does_not_expire) {
  manual_calls on;
  call c{on.timers};
  ASSERT_EQ(on.pending.start(c, 7, on.in(1s)), 0);
  ASSERT_EQ(on.pending.complete(7), &c);
  on.advance(1h);
  EXPECT_EQ(c.failed, 0);
  EXPECT_EQ(on.timers.stats().fired, 0U);
}

TEST(an_answer, that_comes_after_the_deadline_is_recognised_as_late) {
  manual_calls on;
  call c{on.timers};
  ASSERT_EQ(on.pending.start(c, 7, on.in(1s)), 0);
  on.advance(2s);
  EXPECT_EQ(on.pending.complete(7), nullptr);
  EXPECT_EQ(on.pending.stats().unmatched, 1U);
  EXPECT_EQ(on.pending.stats().answered, 0U);
  EXPECT_EQ(c.failed, 1);
}

TEST(an_answer, that_comes_a_second_time_is_recognised) {
  manual_calls on;
  call c{on.timers};
  ASSERT_EQ(on.pending.start(c, 7, on.in(1s)), 0);
  EXPECT_EQ(on.pending.complete(7), &c);
  EXPECT_EQ(on.pending.complete(7), nullptr);
  EXPECT_EQ(on.pending.stats().unmatched, 1U);
}

TEST(an_answer, that_nobody_asked_for_is_recognised) {
  manual_calls on;
  call c{on.timers};
  ASSERT_EQ(on.pending.start(c, 7, on.in(1s)), 0);
  EXPECT_EQ(on.pending.complete(8), nullptr);
  EXPECT_TRUE(c.pending());
}

TEST(an_answer, that_comes_between_the_deadline_and_the_pass_still_counts) {
  manual_calls on;
  call c{on.timers};
  ASSERT_EQ(on.pending.start(c, 7, on.in(1s)), 0);
  on.time.block(2s);  // it was waiting in the socket
  EXPECT_EQ(on.pending.complete(7), &c);
  on.advance(1s);
  EXPECT_EQ(c.failed, 0);
}

TEST(answers, find_their_calls_in_any_order) {
  manual_calls on{1000};
  std::deque<call> all;
  for (std::uint64_t id = 0; id < 1000; ++id)
    ASSERT_EQ(on.pending.start(all.emplace_back(on.timers), id * 1024, on.in(1s)), 0);
  on.check_calls();
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const std::uint64_t which = i * 377 % 1000;
    ASSERT_EQ(on.pending.complete(which * 1024), &all[which]);
  }
  EXPECT_EQ(on.pending.pending(), 0U);
}

TEST(ids, may_be_any_number) {
  manual_calls on;
  constexpr auto last = std::numeric_limits<std::uint64_t>::max();
  call zero{on.timers};
  call most{on.timers};
  ASSERT_EQ(on.pending.start(zero, 0, on.in(1s)), 0);
  ASSERT_EQ(on.pending.start(most, last, on.in(1s)), 0);
  EXPECT_EQ(most.id(), last);
  EXPECT_EQ(on.pending.find(0), &zero);
  EXPECT_EQ(on.pending.complete(last), &most);
  EXPECT_EQ(on.pending.complete(0), &zero);
}

TEST(find, leaves_the_call_pending) {
  manual_calls on;
  call c{on.timers};
  EXPECT_EQ(on.pending.find(7), nullptr);
  ASSERT_EQ(on.pending.start(c, 7, on.in(1s)), 0);
  EXPECT_EQ(on.pending.find(7), &c);
  EXPECT_TRUE(c.pending());
  EXPECT_EQ(on.pending.stats().unmatched, 0U);
}

TEST(pending_call, says_when_it_expires) {
  manual_calls on;
  call c{on.timers};
  const auto until = on.in(1s);
  ASSERT_EQ(on.pending.start(c, 7, until), 0);
  EXPECT_GE(c.expires_at(), until.when);
  EXPECT_LT(c.expires_at(), until.when + on.tick());
  c.cancel();
  EXPECT_EQ(c.expires_at(), tickwheel::clock::time_point::max());
}

TEST(pending_call, whose_deadline_is_never_waits_for_its_answer) {
  manual_calls on;
  call c{on.timers};
  ASSERT_EQ(on.pending.start(c, 7, deadline::never()), 0);
  on.advance(24h * 365);
  EXPECT_EQ(on.pending.complete(7), &c);
  EXPECT_EQ(c.failed, 0);
}

// --- what is refused -------------------------------------------------------------------------------------------------

TEST(start, refuses_a_deadline_that_has_passed_and_the_handler_does_not_run) {
  manual_calls on;
  call c{on.timers};
  EXPECT_EQ(on.pending.start(c, 7, on.in(0s)), UV_ETIMEDOUT);
  EXPECT_EQ(on.pending.start(c, 7, on.in(-1s)), UV_ETIMEDOUT);
  EXPECT_FALSE(c.pending());
  on.advance(1h);
  EXPECT_EQ(c.failed, 0);
  EXPECT_EQ(on.pending.stats().refused, 2U);
  EXPECT_EQ(on.pending.stats().started, 0U);
}

TEST(start, judges_by_the_time_it_is_told) {
  manual_calls on;
  call c{on.timers};
  const auto now = on.timers.now();
  EXPECT_EQ(on.pending.start(c, 7, on.in(1s), now + 1s), UV_ETIMEDOUT);
  EXPECT_EQ(on.pending.start(c, 7, on.in(1s), now + 1s - 1ns), 0);
}

TEST(start, refuses_a_deadline_that_passed_in_this_very_iteration) {
  manual_calls on;
  call c{on.timers};
  const auto until = on.in(10ms);
  on.time.block(10ms);
  EXPECT_EQ(on.pending.start(c, 7, until), UV_ETIMEDOUT);
}

TEST(start, refuses_an_id_that_is_pending) {
  manual_calls on;
  call a{on.timers};
  call b{on.timers};
  ASSERT_EQ(on.pending.start(a, 7, on.in(1s)), 0);
  EXPECT_EQ(on.pending.start(b, 7, on.in(1s)), UV_EEXIST);
  EXPECT_FALSE(b.pending());
  EXPECT_EQ(on.pending.complete(7), &a);
  EXPECT_EQ(on.pending.start(b, 7, on.in(1s)), 0);
}

TEST(start, refuses_a_call_that_is_pending) {
  manual_calls on;
  call c{on.timers};
  ASSERT_EQ(on.pending.start(c, 7, on.in(1s)), 0);
  EXPECT_EQ(on.pending.start(c, 8, on.in(2s)), UV_EALREADY);
  EXPECT_EQ(c.id(), 7U);
  EXPECT_EQ(on.pending.find(8), nullptr);
  on.advance(1s + on.tick());
  EXPECT_EQ(c.failed, 1);
}

TEST(start, refuses_a_call_that_is_pending_elsewhere) {
  manual_calls on;
  calls other;
  ASSERT_EQ(other.open(1), 0);
  call c{on.timers};
  ASSERT_EQ(on.pending.start(c, 7, on.in(1s)), 0);
  EXPECT_EQ(other.start(c, 7, on.in(1s)), UV_EALREADY);
  EXPECT_EQ(on.pending.complete(7), &c);
  EXPECT_EQ(other.start(c, 7, on.in(1s)), 0);
  EXPECT_EQ(other.complete(7), &c);
}

TEST(start, refuses_one_more_than_there_is_room_for) {
  for (const std::size_t most : {1U, 2U, 3U, 7U, 8U, 9U}) {
    manual_calls on{most};
    EXPECT_EQ(on.pending.capacity(), most);
    std::deque<call> all;
    for (std::size_t i = 0; i < most; ++i) ASSERT_EQ(on.pending.start(all.emplace_back(on.timers), i, on.in(1s)), 0);
    call more{on.timers};
    EXPECT_EQ(on.pending.start(more, most, on.in(1s)), UV_ENOBUFS);
    EXPECT_FALSE(more.pending());
    ASSERT_EQ(on.pending.complete(0), &all[0]);  // an answer makes room
    EXPECT_EQ(on.pending.start(more, most, on.in(2s)), 0);
    on.advance(1s + on.tick());  // and so does a deadline
    EXPECT_EQ(on.pending.pending(), 1U);
    on.check_calls();
  }
}

TEST(start, refuses_what_the_service_has_no_place_for) {
  manual_calls on{16, {.max_armed = 1}};
  call a{on.timers};
  call b{on.timers};
  ASSERT_EQ(on.pending.start(a, 1, on.in(1s)), 0);
  EXPECT_EQ(on.pending.start(b, 2, on.in(1s)), UV_ENOBUFS);
  EXPECT_FALSE(b.pending());
  EXPECT_EQ(on.pending.find(2), nullptr);
  EXPECT_EQ(on.pending.pending(), 1U);
}

TEST(open, refuses_no_room_at_all) {
  calls c;
  EXPECT_EQ(c.open(0), UV_EINVAL);
  EXPECT_FALSE(c.is_open());
}

TEST(open, refuses_to_be_opened_twice) {
  manual_calls on{4};
  EXPECT_EQ(on.pending.open(8), UV_EALREADY);
  EXPECT_EQ(on.pending.capacity(), 4U);
}

TEST(open, answers_that_there_is_no_memory) {
  calls c;
  EXPECT_EQ(c.open(std::numeric_limits<std::size_t>::max()), UV_ENOMEM);
  EXPECT_EQ(c.open(std::numeric_limits<std::size_t>::max() / 2 + 1), UV_ENOMEM);
  {
    const allocations::failure none{0};
    EXPECT_EQ(c.open(100), UV_ENOMEM);
    EXPECT_TRUE(none.struck());
  }
  EXPECT_FALSE(c.is_open());
  EXPECT_EQ(c.open(100), 0);
}

TEST(a_closed_container, starts_and_completes_nothing) {
  manual_service service;
  calls pending;
  call c{service.timers};
  EXPECT_EQ(pending.start(c, 7, deadline::never()), UV_ECANCELED);
  EXPECT_EQ(pending.complete(7), nullptr);
  EXPECT_EQ(pending.find(7), nullptr);
  EXPECT_EQ(pending.fail_all(UV_ECONNRESET), 0U);
  pending.close();
}

// --- cancelling and destroying ---------------------------------------------------------------------------------------

TEST(pending_call, cancelled_is_neither_answered_nor_expired) {
  manual_calls on;
  call c{on.timers};
  EXPECT_FALSE(c.cancel());
  ASSERT_EQ(on.pending.start(c, 7, on.in(1s)), 0);
  EXPECT_TRUE(c.cancel());
  EXPECT_FALSE(c.cancel());
  EXPECT_EQ(on.pending.complete(7), nullptr);
  on.advance(1h);
  EXPECT_EQ(c.failed, 0);
  EXPECT_EQ(on.pending.stats().cancelled, 1U);
}

TEST(pending_call, destroyed_while_pending_is_cancelled) {
  manual_calls on;
  {
    call c{on.timers};
    ASSERT_EQ(on.pending.start(c, 7, on.in(1s)), 0);
  }
  EXPECT_EQ(on.pending.pending(), 0U);
  EXPECT_EQ(on.pending.complete(7), nullptr);
  on.advance(1h);
  EXPECT_EQ(on.pending.stats().cancelled, 1U);
}

TEST(pending_call, may_be_destroyed_in_its_handler) {
  manual_calls on;
  auto c = std::make_unique<call>(on.timers);
  c->then = [&] { c.reset(); };
  ASSERT_EQ(on.pending.start(*c, 7, on.in(1s)), 0);
  on.advance(1h);
  EXPECT_EQ(c, nullptr);
}

TEST(pending_call, may_be_started_again_in_its_handler) {
  manual_calls on;
  call c{on.timers};
  std::uint64_t id = 7;
  c.then = [&] { EXPECT_EQ(on.pending.start(c, ++id, on.in(1s)), 0); };
  ASSERT_EQ(on.pending.start(c, id, on.in(1s)), 0);
  on.advance(10s + 10 * on.tick());
  EXPECT_EQ(c.failed, 10);
  EXPECT_EQ(on.pending.complete(17), &c);
}

TEST(pending_call, may_be_started_again_with_the_same_id_in_its_handler) {
  manual_calls on;
  call c{on.timers};
  c.then = [&] { EXPECT_EQ(on.pending.start(c, 7, on.in(1s)), 0); };
  ASSERT_EQ(on.pending.start(c, 7, on.in(1s)), 0);
  on.advance(2s);
  EXPECT_EQ(on.pending.complete(7), &c);
}

TEST(pending_call, does_not_hold_the_loop_when_it_is_told_so) {
  manual_calls on;
  call c{on.timers};
  ASSERT_EQ(on.pending.start(c, 7, on.in(1s)), 0);
  EXPECT_TRUE(on.time.alive());
  c.unref();
  EXPECT_FALSE(on.time.alive());
}

TEST(a_handler, may_complete_another_whose_deadline_has_passed_in_the_same_pass) {
  manual_calls on;
  call a{on.timers};
  call b{on.timers};
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

TEST(a_handler, may_cancel_or_destroy_another_whose_deadline_has_passed_in_the_same_pass) {
  for (const bool destroy : {false, true}) {
    manual_calls on;
    auto a = std::make_unique<call>(on.timers);
    auto b = std::make_unique<call>(on.timers);
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
    const auto until = on.in(1s);
    ASSERT_EQ(on.pending.start(*a, 1, until), 0);
    ASSERT_EQ(on.pending.start(*b, 2, until), 0);
    on.advance(1h);
    EXPECT_EQ(failed, 1);
    EXPECT_EQ(on.pending.stats().cancelled, 1U);
  }
}

TEST(a_handler, finds_its_own_id_free) {
  manual_calls on;
  call c{on.timers};
  c.then = [&] {
    EXPECT_FALSE(c.pending());
    EXPECT_EQ(on.pending.find(7), nullptr);
    EXPECT_EQ(on.pending.complete(7), nullptr);
  };
  ASSERT_EQ(on.pending.start(c, 7, on.in(1s)), 0);
  on.advance(1h);
  EXPECT_EQ(c.failed, 1);
}

// --- the connection is lost ------------------------------------------------------------------------------------------

TEST(fail_all, tells_each_pending_call_why) {
  manual_calls on{100};
  std::deque<call> all;
  for (std::uint64_t id = 0; id < 100; ++id) ASSERT_EQ(on.pending.start(all.emplace_back(on.timers), id, on.in(1s)), 0);
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

TEST(fail_all, of_none_tells_nobody) {
  manual_calls on;
  EXPECT_EQ(on.pending.fail_all(UV_ECONNRESET), 0U);
}

TEST(fail_all, does_not_fail_what_its_handlers_start) {
  manual_calls on{64};
  std::deque<call> all;
  std::uint64_t next_id = 0;
  for (int i = 0; i < 64; ++i) {
    call& c = all.emplace_back(on.timers);
    c.then = [&] { EXPECT_EQ(on.pending.start(c, next_id++, on.in(1s)), 0); };
    ASSERT_EQ(on.pending.start(c, next_id++, on.in(1s)), 0);
  }
  EXPECT_EQ(on.pending.fail_all(UV_ECONNRESET), 64U);
  for (const call& c : all) EXPECT_EQ(c.failed, 1);
  EXPECT_EQ(on.pending.pending(), 64U);
  on.check_calls();
  EXPECT_EQ(on.pending.fail_all(UV_ECONNRESET), 64U);
  for (const call& c : all) EXPECT_EQ(c.failed, 2);
}

TEST(fail_all, does_not_tell_those_that_a_handler_cancels_destroys_or_completes) {
  for (int how = 0; how < 3; ++how) {
    manual_calls on{64};
    std::vector<std::unique_ptr<call>> all;
    int failed = 0;
    for (std::uint64_t id = 0; id < 64; ++id) {
      all.push_back(std::make_unique<call>(on.timers));
      all.back()->then = [&, id] {
        ++failed;
        for (std::uint64_t other = 0; other < 64; ++other) {
          if (other == id) continue;
          if (how == 0) all[other]->cancel();
          if (how == 1) all[other].reset();
          if (how == 2) {
            EXPECT_EQ(on.pending.complete(other), all[other].get());
          }
        }
      };
      ASSERT_EQ(on.pending.start(*all.back(), id, on.in(1s)), 0);
    }
    EXPECT_EQ(on.pending.fail_all(UV_ECONNRESET), 1U);
    EXPECT_EQ(failed, 1);
    EXPECT_EQ(on.pending.pending(), 0U);
  }
}

TEST(fail_all, within_its_handler_fails_the_rest_and_what_was_started_meanwhile) {
  manual_calls on{8};
  std::deque<call> all;
  call started{on.timers};
  for (std::uint64_t id = 0; id < 4; ++id) {
    call& c = all.emplace_back(on.timers);
    c.then = [&] {
      if (on.pending.stats().failed != 1) return;
      EXPECT_EQ(on.pending.start(started, 100, on.in(1s)), 0);
      EXPECT_EQ(on.pending.fail_all(UV_EPIPE), 4U);
    };
    ASSERT_EQ(on.pending.start(c, id, on.in(1s)), 0);
  }
  EXPECT_EQ(on.pending.fail_all(UV_ECONNRESET), 1U);
  EXPECT_EQ(started.error, UV_EPIPE);
  EXPECT_EQ(std::count_if(all.begin(), all.end(), [](const call& c) { return c.error == UV_EPIPE; }), 3);
  for (const call& c : all) EXPECT_EQ(c.failed, 1);
}

TEST(fail_all, stops_when_a_handler_closes_the_container) {
  manual_calls on;
  std::deque<call> all;
  for (std::uint64_t id = 0; id < 8; ++id) {
    call& c = all.emplace_back(on.timers, [&] { on.pending.close(); });
    ASSERT_EQ(on.pending.start(c, id, on.in(1s)), 0);
  }
  EXPECT_EQ(on.pending.fail_all(UV_ECONNRESET), 1U);
  EXPECT_EQ(std::count_if(all.begin(), all.end(), [](const call& c) { return c.failed == 1; }), 1);
  EXPECT_EQ(on.pending.stats().cancelled, 7U);
}

TEST(fail_all, stops_when_a_handler_closes_the_container_and_opens_it_again) {
  manual_calls on;
  std::deque<call> all;
  call after{on.timers};
  for (std::uint64_t id = 0; id < 8; ++id) {
    call& c = all.emplace_back(on.timers, [&] {
      on.pending.close();
      ASSERT_EQ(on.pending.open(1), 0);
      EXPECT_EQ(on.pending.start(after, 1, on.in(1s)), 0);
    });
    ASSERT_EQ(on.pending.start(c, id, on.in(1s)), 0);
  }
  EXPECT_EQ(on.pending.fail_all(UV_ECONNRESET), 1U);
  EXPECT_TRUE(after.pending());
  EXPECT_EQ(on.pending.fail_all(UV_ECONNRESET), 1U);
  EXPECT_EQ(after.failed, 1);
}

TEST(fail_all, stops_when_a_handler_destroys_the_container_even_from_an_inner_one) {
  for (const bool inner : {false, true}) {
    manual_service service;
    auto pending = std::make_unique<calls>();
    ASSERT_EQ(pending->open(16), 0);
    std::deque<call> all;
    int failed = 0;
    for (std::uint64_t id = 0; id < 8; ++id) {
      call& c = all.emplace_back(service.timers, [&] {
        if (++failed == 1 && inner)
          pending->fail_all(UV_EPIPE);
        else
          pending.reset();
      });
      ASSERT_EQ(pending->start(c, id, deadline::never()), 0);
    }
    pending->fail_all(UV_ECONNRESET);
    EXPECT_EQ(pending, nullptr);
    EXPECT_EQ(failed, inner ? 2 : 1);
    for (const call& c : all) EXPECT_FALSE(c.pending());
  }
}

// --- the end ---------------------------------------------------------------------------------------------------------

TEST(closing_a_container, runs_no_handler_and_leaves_its_calls_to_be_used_elsewhere) {
  manual_calls on;
  call c{on.timers};
  ASSERT_EQ(on.pending.start(c, 7, on.in(1s)), 0);
  on.pending.close();
  EXPECT_FALSE(c.pending());
  on.advance(1h);
  EXPECT_EQ(c.failed, 0);
  EXPECT_EQ(on.pending.stats().cancelled, 1U);
  ASSERT_EQ(on.pending.open(1), 0);
  EXPECT_EQ(on.pending.stats().cancelled, 0U);
  EXPECT_EQ(on.pending.start(c, 7, on.in(1s)), 0);
}

TEST(destroying_a_container, runs_no_handler) {
  manual_service service;
  call c{service.timers};
  {
    calls pending;
    ASSERT_EQ(pending.open(4), 0);
    ASSERT_EQ(pending.start(c, 7, deadline::after(1s, service.timers.now())), 0);
  }
  EXPECT_FALSE(c.pending());
  EXPECT_FALSE(c.cancel());
  service.advance(1h);
  EXPECT_EQ(c.failed, 0);
}

TEST(destroying_a_container, is_possible_in_a_handler_of_its_own) {
  manual_service service;
  auto pending = std::make_unique<calls>();
  ASSERT_EQ(pending->open(4), 0);
  call other{service.timers};
  call c{service.timers, [&] { pending.reset(); }};
  const auto until = deadline::after(1s, service.timers.now());
  ASSERT_EQ(pending->start(c, 7, until), 0);
  ASSERT_EQ(pending->start(other, 8, deadline::after(2s, service.timers.now())), 0);
  service.advance(1h);
  EXPECT_EQ(c.failed, 1);
  EXPECT_EQ(other.failed, 0);
}

TEST(pending_calls_of_a_closed_service, can_still_be_answered_failed_and_cancelled_but_not_started) {
  manual_calls on;
  call a{on.timers};
  call b{on.timers};
  call c{on.timers};
  ASSERT_EQ(on.pending.start(a, 1, on.in(1s)), 0);
  ASSERT_EQ(on.pending.start(b, 2, on.in(1s)), 0);
  ASSERT_EQ(on.pending.start(c, 3, on.in(1s)), 0);
  on.timers.close();
  EXPECT_EQ(on.pending.complete(1), &a);
  EXPECT_TRUE(b.cancel());
  EXPECT_EQ(on.pending.fail_all(UV_ECONNRESET), 1U);
  EXPECT_EQ(on.pending.start(a, 1, deadline::never()), UV_ECANCELED);
}

TEST(pending_calls_of_a_service, outlive_it_to_be_cancelled_and_destroyed) {
  tickwheel::manual_driver time;
  auto timers = std::make_unique<tickwheel::timer_service>();
  ASSERT_EQ(timers->open(time), 0);
  calls pending;
  ASSERT_EQ(pending.open(4), 0);
  call a{*timers};
  call b{*timers};
  ASSERT_EQ(pending.start(a, 1, deadline::never()), 0);
  ASSERT_EQ(pending.start(b, 2, deadline::never()), 0);
  timers.reset();
  EXPECT_TRUE(a.cancel());
  EXPECT_TRUE(b.pending());
}

TEST(a_handler, may_close_the_service) {
  manual_calls on;
  call other{on.timers};
  call c{on.timers, [&] { on.timers.close(); }};
  ASSERT_EQ(on.pending.start(c, 1, on.in(1s)), 0);
  ASSERT_EQ(on.pending.start(other, 2, on.in(1h)), 0);
  on.time.advance(2h);
  EXPECT_EQ(c.failed, 1);
  EXPECT_EQ(other.failed, 0);
  EXPECT_TRUE(other.pending());
}

// --- all together ----------------------------------------------------------------------------------------------------

TEST(every_call, ends_in_exactly_one_way_whatever_happens_in_which_order) {
  manual_calls on{32};
  std::vector<int> ends(40);  // of each call, since it was started
  std::deque<call> all;
  for (int& each : ends) all.emplace_back(on.timers, [&each] { ++each; });
  const auto index_of = [&](const call& c) {
    const auto at = std::find_if(all.begin(), all.end(), [&](const call& each) { return &each == &c; });
    return static_cast<std::size_t>(at - all.begin());
  };
  std::vector<bool> started(all.size());
  std::minstd_rand random{1};
  for (int step = 0; step < 20'000; ++step) {
    const std::size_t which = random() % all.size();
    call& c = all[which];
    switch (random() % 8) {
      case 0:
      case 1:
      case 2:
        if (on.pending.start(c, random() % 64, on.in(1ms * (random() % 20))) == 0) {
          started[which] = true;
          ends[which] = 0;
        }
        break;
      case 3:
      case 4:
        if (const call* const answered = on.pending.complete(random() % 64)) ++ends[index_of(*answered)];
        break;
      case 5:
        if (c.cancel()) ++ends[which];
        break;
      case 6:
        on.time.advance(1ms * (random() % 5));
        break;
      default:
        if (random() % 50 == 0) on.pending.fail_all(UV_ECONNRESET);
    }
    on.check_calls();
    for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(ends[i], started[i] && !all[i].pending() ? 1 : 0);
  }
  const auto& s = on.pending.stats();
  for (const auto each : {s.answered, s.expired, s.failed, s.cancelled, s.refused, s.unmatched}) EXPECT_GT(each, 0U);
}

TEST(pending_calls, allocate_nothing_once_they_are_open) {
  manual_calls on{64};
  std::deque<call> all;
  for (int i = 0; i < 64; ++i) all.emplace_back(on.timers);
  const auto before = allocations::count();
  std::uint64_t id = 0;
  for (int round = 0; round < 100; ++round) {
    for (call& c : all) ASSERT_EQ(on.pending.start(c, id++, on.in(10ms)), 0);
    for (std::uint64_t i = id - 64; i < id - 32; ++i) ASSERT_NE(on.pending.complete(i), nullptr);
    on.time.advance(5ms);
    if (round % 2 == 0) on.pending.fail_all(UV_ECONNRESET);
    on.time.advance(6ms);
  }
  EXPECT_EQ(allocations::count(), before);
  EXPECT_EQ(on.pending.stats().expired, 50U * 32);
}

struct handlers {
  void may_throw(int) {}
  void takes_nothing() noexcept {}
};
static_assert(tickwheel::noexcept_failure_handler<&call::on_failed>);
static_assert(!tickwheel::noexcept_failure_handler<&handlers::may_throw>);
static_assert(!tickwheel::noexcept_failure_handler<&handlers::takes_nothing>);

}  // namespace
