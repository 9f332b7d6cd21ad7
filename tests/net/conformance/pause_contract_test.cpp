// The contract of pauses, once for each class that can be paused: time does not count, and nothing else changes.
#include "../../support/allocation_probe.hpp"
#include "../support/subject_test.hpp"
#include "subjects.hpp"

namespace {

template <class Subject>
class pause_contract : public subject_test<Subject> {
 protected:
  // The loop has not judged it yet.
  void pause_after_the_limit(Subject& each) {
    ASSERT_EQ(each.start(5ms), 0);
    this->advance(4ms);
    this->service.time.oversleep(2ms);
    each.timer.pause();
    this->advance(40ms);
  }
};

using all = testing::Types<subjects::idle_timeout, subjects::write_idle_timeout, subjects::all_idle_timeout,
                           subjects::minimum_rate>;
TYPED_TEST_SUITE(pause_contract, all, subjects::names);

TYPED_TEST(pause_contract, paused_does_not_fire_however_long) {
  ASSERT_EQ(this->c.start(10s), 0);
  this->advance(4s);
  this->c.timer.pause();
  EXPECT_TRUE(this->c.timer.paused());
  EXPECT_TRUE(this->c.timer.armed());
  EXPECT_EQ(this->fired_after(24h), 0);
  EXPECT_TRUE(this->c.timer.armed());
}

TYPED_TEST(pause_contract, resume_keeps_remaining_time) {
  for (const std::chrono::nanoseconds pause : {0s, 3s, 6s, 10s, 1000s}) {
    TypeParam each{this->service.timers};
    ASSERT_EQ(each.start(10s), 0);
    this->advance(4s);
    each.timer.pause();
    this->advance(pause);
    each.timer.resume();
    EXPECT_FALSE(each.timer.paused());
    EXPECT_TRUE(this->fires_in(each.fired, 6s, 2)) << pause.count();
  }
}

// The posted call resumes it in a pass whose stamp is older than the call. The wheel's time is behind that by several ticks.
TYPED_TEST(pause_contract, limit_that_ran_out_before_it_is_judged_after_the_next_poll) {
  this->reopen({.stall_grace = std::chrono::nanoseconds::max()});
  for (const bool hears : {false, true}) {
    TypeParam each{this->service.timers};
    this->pause_after_the_limit(each);
    probe other{this->service.timers, 3 * this->tick()};
    ASSERT_EQ(this->service.timers.remote().post(0s, [&]() noexcept { each.timer.resume(); }), 0);
    this->service.time.oversleep(1ms);
    this->service.turn();
    EXPECT_EQ(other.fired, 1);
    EXPECT_FALSE(each.timer.paused());
    EXPECT_EQ(each.fired, 0);
    if (hears) each.heard();
    this->advance(2 * this->tick());
    EXPECT_EQ(each.fired, hears ? 0 : 1);
  }
}

// Each posted call runs in a pass whose stamp is older than the call. So it could put the verdict off again and again.
TYPED_TEST(pause_contract, limit_that_ran_out_is_judged_although_each_iteration_pauses_and_resumes) {
  this->reopen({.stall_grace = std::chrono::nanoseconds::max()});
  for (const bool at_once : {true, false}) {
    TypeParam each{this->service.timers};
    this->pause_after_the_limit(each);
    int iterations = 0;
    for (; each.fired == 0 && iterations < 100; ++iterations) {
      const auto toggle = [&]() noexcept {
        if (each.timer.paused()) {
          each.timer.resume();
          if (!at_once) return;
        }
        each.timer.pause();
        if (at_once) each.timer.resume();
      };
      ASSERT_EQ(this->service.timers.remote().post(0s, toggle), 0);
      this->service.time.oversleep(1ms);
      this->service.turn();
    }
    EXPECT_LT(iterations, 20) << at_once;
  }
}

// The peer's bytes wait in the kernel. Nobody reads them in a stretch of one callback, however long that takes.
TYPED_TEST(pause_contract, limit_that_ran_out_is_not_judged_without_poll_before_pause) {
  this->reopen({.stall_grace = std::chrono::nanoseconds::max()});
  for (const bool in_pass : {true, false}) {
    TypeParam each{this->service.timers};
    this->pause_after_the_limit(each);
    const auto flap = [&]() noexcept {
      for (int i = 0; i < 2; ++i) {
        each.timer.resume();
        this->service.time.block(1ms);
        this->service.timers.update_now();
        each.timer.pause();
      }
    };
    if (in_pass)
      ASSERT_EQ(this->service.timers.remote().post(0s, flap), 0);
    else
      flap();
    this->advance(50ms);
    EXPECT_TRUE(each.timer.paused());
    each.timer.resume();
    each.heard();
    this->advance(2 * this->tick());
    EXPECT_EQ(each.fired, 0) << in_pass;
    this->advance(10ms + 2 * this->tick());
    EXPECT_EQ(each.fired, 1) << in_pass;
  }
}

TYPED_TEST(pause_contract, silent_peer_expires_after_pauses_without_poll) {
  this->reopen({.stall_grace = std::chrono::nanoseconds::max()});
  this->pause_after_the_limit(this->c);
  this->c.timer.resume();
  this->c.timer.pause();
  this->advance(50ms);
  this->c.timer.resume();
  EXPECT_EQ(this->fired_after(2 * this->tick()), 1);
}

TYPED_TEST(pause_contract, many_pauses_all_do_not_count) {
  ASSERT_EQ(this->c.start(10s), 0);
  for (int i = 0; i < 99; ++i) {
    this->advance(100ms);
    this->pause_for(7s);
  }
  EXPECT_TRUE(this->fires_in(100ms, 2));
}

TYPED_TEST(pause_contract, pausing_twice_is_ended_by_one_resume) {
  ASSERT_EQ(this->c.start(10s), 0);
  this->advance(4s);
  this->c.timer.pause();
  this->advance(1h);
  this->pause_for(1h);
  EXPECT_FALSE(this->c.timer.paused());
  this->c.timer.resume();
  EXPECT_TRUE(this->fires_in(6s, 2));
}

TYPED_TEST(pause_contract, stalls_around_pause_do_not_count) {
  this->reopen({.stall_grace = 10ms});
  ASSERT_EQ(this->c.start(1s), 0);
  this->service.time.block(510ms);  // 500 ms of it are ours
  this->advance(90ms);              // 100 ms of silence
  this->c.timer.pause();
  this->service.time.block(5s);
  this->advance(1s);
  this->c.timer.resume();
  this->service.time.block(510ms);
  EXPECT_EQ(this->fired_after(889ms), 0);  // 999 ms
  EXPECT_EQ(this->fired_after(1ms + 2 * this->tick()), 1);
}

TYPED_TEST(pause_contract, pause_after_late_start_counts_from_start) {
  this->reopen({.stall_grace = 10ms});
  this->service.timers.now();  // the time of the iteration, 8 ms before the start
  this->service.time.block(8ms);
  ASSERT_EQ(this->c.start(100ms), 0);
  this->pause_for(1s);
  EXPECT_TRUE(this->fires_in(100ms, 2));
}

TYPED_TEST(pause_contract, paused_keeps_its_place_among_max_armed) {
  this->reopen({.max_armed = 1});
  TypeParam other{this->service.timers};
  ASSERT_EQ(this->c.start(1s), 0);
  this->c.timer.pause();
  this->advance(1h);
  EXPECT_EQ(other.start(1s), UV_ENOBUFS);
  this->c.timer.resume();
  EXPECT_EQ(this->fired_after(1s + 2 * this->tick()), 1);
}

TYPED_TEST(pause_contract, paused_holds_loop_unless_unreferenced) {
  ASSERT_EQ(this->c.start(1s), 0);
  this->c.timer.pause();
  this->advance(10s);
  EXPECT_TRUE(this->service.time.alive());
  this->c.timer.unref();
  EXPECT_FALSE(this->service.time.alive());
  this->c.timer.resume();
  EXPECT_FALSE(this->service.time.alive());
}

TYPED_TEST(pause_contract, cancel_ends_pause) {
  ASSERT_EQ(this->c.start(1s), 0);
  this->c.timer.pause();
  EXPECT_TRUE(this->c.timer.cancel());
  EXPECT_FALSE(this->c.timer.paused());
  this->c.timer.resume();
  EXPECT_FALSE(this->c.timer.armed()) << "resuming does not start what was cancelled";
  ASSERT_EQ(this->c.start(1s), 0);
  EXPECT_FALSE(this->c.timer.paused());
  EXPECT_EQ(this->fired_after(1s + 2 * this->tick()), 1);
}

TYPED_TEST(pause_contract, start_ends_pause_with_whole_time) {
  ASSERT_EQ(this->c.start(10s), 0);
  this->advance(4s);
  this->c.timer.pause();
  ASSERT_EQ(this->c.start(10s), 0);
  EXPECT_FALSE(this->c.timer.paused());
  EXPECT_TRUE(this->fires_in(10s, 2));
}

TYPED_TEST(pause_contract, close_of_service_ends_pause) {
  ASSERT_EQ(this->c.start(1s), 0);
  this->c.timer.pause();
  this->service.timers.close();
  EXPECT_FALSE(this->c.timer.armed());
  EXPECT_FALSE(this->c.timer.paused());
  this->c.timer.resume();
  EXPECT_FALSE(this->c.timer.armed());
  ASSERT_EQ(this->service.timers.open(this->service.time), 0);
  ASSERT_EQ(this->c.start(1s), 0);
  EXPECT_EQ(this->fired_after(1s + 2 * this->tick()), 1);
}

TYPED_TEST(pause_contract, unarmed_one_cannot_be_paused) {
  this->c.timer.pause();
  EXPECT_FALSE(this->c.timer.paused());
  this->c.timer.resume();
  EXPECT_FALSE(this->c.timer.armed());
  ASSERT_EQ(this->c.start(1s), 0);
  EXPECT_FALSE(this->c.timer.paused());
  EXPECT_EQ(this->fired_after(2s), 1);
}

TYPED_TEST(pause_contract, pause_by_handler_of_same_pass_saves_peer) {
  for (const bool first : {false, true}) {
    TypeParam a{this->service.timers}, b{this->service.timers};
    a.then = [&] { b.timer.pause(); };
    b.then = [&] { a.timer.pause(); };
    ASSERT_EQ((first ? a : b).start(1s), 0);
    ASSERT_EQ((first ? b : a).start(1s), 0);
    this->advance(1h);
    EXPECT_EQ(a.fired + b.fired, 1) << "whichever came first paused the other";
  }
}

TYPED_TEST(pause_contract, may_be_destroyed_while_paused) {
  auto owned = std::make_unique<TypeParam>(this->service.timers);
  ASSERT_EQ(owned->start(1s), 0);
  owned->timer.pause();
  owned.reset();
  this->advance(1h);
  EXPECT_EQ(this->service.timers.stats().pending, 0U);
}

TYPED_TEST(pause_contract, pauses_have_no_effect_after_service_is_gone) {
  mortal_service own;
  TypeParam orphan{*own.timers};
  ASSERT_EQ(orphan.start(1s), 0);
  own.timers.reset();
  orphan.timer.pause();
  orphan.timer.resume();
  EXPECT_FALSE(orphan.timer.paused());
}

TYPED_TEST(pause_contract, pauses_allocate_nothing) {
  this->c.then = [this] {
    if constexpr (requires { this->c.timer.notify_again(); })
      EXPECT_EQ(this->c.timer.notify_again(), 0);
    else
      EXPECT_EQ(this->c.start(50ms), 0);
  };
  ASSERT_EQ(this->c.start(50ms), 0);
  const auto before = allocations::count();
  for (int i = 0; i < 1000; ++i) {
    this->service.time.advance(60ms);
    this->c.timer.pause();
    this->service.time.advance(60ms);
    this->c.timer.resume();
  }
  EXPECT_EQ(allocations::count(), before);
  EXPECT_GE(this->c.fired, 1000);
}

}  // namespace
