// The user closes the service's libuv handles, on a uv_walk over the loop: whatever the service is at, and in whatever
// phase of the loop. It does not hold the loop any more and nothing fires; every call answers as before; it can be
// closed, destroyed and opened again.
#include "../support/allocation_checks.hpp"
#include "../support/live_loop.hpp"
#include "../support/probe.hpp"
#include "../support/remote_checks.hpp"

#include <tickwheel/uv/remote.hpp>

using tickwheel::remote_handle;
using tickwheel::remote_hold;
using tickwheel::remote_timer;
using tickwheel::timer_service;

namespace {

void close_handles_of(const timer_service& timers, uv_loop_t* loop) {
  int closed = 0;
  for_each_handle(loop, [&](uv_handle_t* h) {
    if (!timers.owns(h) || uv_is_closing(h)) return;
    uv_close(h, nullptr);
    ++closed;
  });
  EXPECT_GT(closed, 0);
}

enum class state {
  nothing_armed,
  armed,             // soon, later, and without a reference
  carrying,          // a pass was cut short
  posted,            // by other means than a timer: queued, the bell rung and not heard
  posted_carrying,   // taken, and cut short
  posted_armed,      // in the wheel
  posted_cancelled,  // in the wheel, and the notice queued
  held,              // by nothing but a hold
};
constexpr const char* state_names[] = {"nothing_armed",   "armed",        "carrying",         "posted",
                                       "posted_carrying", "posted_armed", "posted_cancelled", "held"};
constexpr state all_states[] = {state::nothing_armed,   state::armed,        state::carrying,         state::posted,
                                state::posted_carrying, state::posted_armed, state::posted_cancelled, state::held};

const char* name_of(state s) { return state_names[static_cast<std::size_t>(s)]; }
std::ostream& operator<<(std::ostream& out, state s) { return out << name_of(s); }

/// What comes after the walk.
enum class ending { closed_at_once, closed_when_the_loop_ended, used_and_closed, destroyed_with_the_loop_gone };

class closed_handles : leak_check, public testing::TestWithParam<std::tuple<state, phase>> {
 protected:
  // All that a run needs, so that it is gone when the run is over.
  struct run {
    explicit run(ending then) : how{then} {
      EXPECT_EQ(timers.open(loop, with_wakeup({.work_per_pass = 1})), 0);
      handle = timers.remote();
    }

    void bring_into(state s) {
      const auto count = count_in(ran);
      switch (s) {
        case state::nothing_armed:
          break;
        case state::armed:
          arm(0s);
          arm(1ms);
          arm(1h);
          arm(2h);
          probes.back().timeout.unref();
          break;
        case state::carrying:
          for (int i = 0; i < 1000; ++i) arm(0s);
          loop.turn_until([&] { return timers.stats().fired >= 5; });
          break;
        case state::posted:
          for (int i = 0; i < 10; ++i) EXPECT_EQ(handle.post(0s, count), 0);
          break;
        case state::posted_carrying:
          hold = timers.hold();
          for (int i = 0; i < 1000; ++i) EXPECT_EQ(handle.post(0s, count), 0);
          loop.turn_until([&] { return ran >= 5; });
          break;
        case state::posted_armed:
        case state::posted_cancelled:
          // on a busy machine a shorter one could run before it is seen to be pending
          EXPECT_EQ(handle.arm(1h, count, cancellable), 0);
          EXPECT_EQ(handle.post(1h, count), 0);
          hold = timers.hold();
          loop.turn_until([&] { return timers.stats().pending == 2; });
          hold.release();
          if (s == state::posted_cancelled) {
            EXPECT_EQ(cancellable.cancel(), remote_timer::outcome::cancelled);
          }
          break;
        case state::held:
          hold = timers.hold();
          break;
      }
    }

    void walk() {
      close_handles_of(timers, loop.get());
      fired = timers.stats().fired;
      ran_before = ran;
      walked = true;
      if (how == ending::closed_at_once) timers.close();
    }

    void finish() {
      if (how == ending::closed_at_once) {
        EXPECT_FALSE(timers.is_open());
      }
      if (how == ending::used_and_closed) {
        use();
        loop.run();
      }
      if (how == ending::destroyed_with_the_loop_gone) loop.end();
      nothing_came();
      EXPECT_TRUE(is_valid(timers));
      timers.close();
      EXPECT_TRUE(adds_up(timers));
      EXPECT_TRUE(remote_adds_up(timers));
      nothing_came();
      if (how != ending::destroyed_with_the_loop_gone) open_again();
    }

   private:
    probe& arm(std::chrono::nanoseconds after) { return probes.emplace_back(timers, after); }
    void use() {
      arm(0s);
      arm(1h);
      arm(1h).arm(1ms);
      EXPECT_TRUE(arm(1ms).timeout.cancel());
      EXPECT_EQ(handle.post(0s, count_in(ran)), 0);
      remote_timer timer;
      EXPECT_EQ(handle.arm(1ms, count_in(ran), timer), 0);
      EXPECT_EQ(timer.cancel(), remote_timer::outcome::cancelled);
      cancellable.cancel();
      const remote_hold another = timers.hold();
      timers.unref();
      timers.ref();
    }
    void nothing_came() const {
      EXPECT_EQ(timers.stats().fired, fired);
      EXPECT_EQ(ran, ran_before);
    }
    void open_again() {
      hold.release();
      ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
      probe p{timers, 1ms};
      int heard = 0;
      ASSERT_EQ(timers.remote().post(0s, count_in(heard)), 0);
      loop.run();
      EXPECT_EQ(p.fired, 1);
      EXPECT_EQ(heard, 1);
    }

   public:
    const ending how;
    live_loop loop;
    timer_service timers;
    std::deque<probe> probes;
    remote_handle handle;
    remote_hold hold;
    remote_timer cancellable;
    bool walked = false;
    int ran = 0;
    int ran_before = 0;
    std::uint64_t fired = 0;
  };

  /// The service is silent, and can be opened again.
  void close_handles_and_end(ending how) {
    const auto [from, in] = GetParam();
    run r{how};
    r.bring_into(from);
    r.loop.once_in(in, [&r] { r.walk(); });
    r.loop.run();  // fails when it does not end
    ASSERT_TRUE(r.walked);
    r.finish();
  }
};

TEST_P(closed_handles, service_may_be_closed_at_once) { close_handles_and_end(ending::closed_at_once); }
TEST_P(closed_handles, service_may_be_closed_when_the_loop_ended) {
  close_handles_and_end(ending::closed_when_the_loop_ended);
}
TEST_P(closed_handles, service_may_be_used_and_closed) { close_handles_and_end(ending::used_and_closed); }
TEST_P(closed_handles, service_may_be_destroyed_with_the_loop_gone) {
  close_handles_and_end(ending::destroyed_with_the_loop_gone);
}

INSTANTIATE_TEST_SUITE_P(of_a_service, closed_handles,
                         testing::Combine(testing::ValuesIn(all_states), testing::ValuesIn(all_phases)),
                         [](const auto& of) {
                           return std::string{name_of(std::get<0>(of.param))} + "_in_" + name_of(std::get<1>(of.param));
                         });

/// What a handler does that has just closed the handles.
enum class next { nothing, arms, posts, closes, closes_and_opens_again, destroys };

const char* name_of(next n) {
  constexpr const char* names[] = {"does_nothing_else",      "arms",    "posts", "closes",
                                   "closes_and_opens_again", "destroys"};
  return names[static_cast<std::size_t>(n)];
}
std::ostream& operator<<(std::ostream& out, next n) { return out << name_of(n); }

class handles_closed_by_handler : leak_check, public testing::TestWithParam<next> {
 protected:
  /// Closes the handles, and does what comes next.
  void act() {
    ++ran;
    close_handles_of(*timers, loop.get());
    switch (GetParam()) {
      case next::nothing:
        return;
      case next::arms:
        for (probe& p : others) p.arm(0s);
        return;
      case next::posts:
        EXPECT_EQ(timers->remote().post(0s, count_in(after)), 0);
        return;
      case next::closes:
        return timers->close();
      case next::closes_and_opens_again:
        timers->close();
        EXPECT_EQ(timers->open(loop, with_wakeup()), 0);
        return others.front().arm(1ms);
      case next::destroys:
        return timers.reset();
    }
  }

  live_loop loop;
  std::unique_ptr<timer_service> timers = std::make_unique<timer_service>();
  std::deque<probe> others;
  int ran = 0, after = 0;
};

TEST_P(handles_closed_by_handler, leave_service_in_order) {
  for (const bool posted : {false, true}) {
    if (timers == nullptr) timers = std::make_unique<timer_service>();
    ASSERT_EQ(timers->open(loop, with_wakeup({.work_per_pass = 4})), 0);
    for (int i = 0; i < 20; ++i) others.emplace_back(*timers).arm(i % 2 * 1ms);
    probe first{*timers, [this] { act(); }};
    ran = after = 0;
    if (posted)
      ASSERT_EQ(timers->remote().post(0s, [this]() noexcept { act(); }), 0);
    else
      first.arm(0s);
    loop.run();
    EXPECT_EQ(ran, 1);
    EXPECT_EQ(after, 0);
    if (timers != nullptr) {
      EXPECT_TRUE(is_valid(*timers));
      if (GetParam() == next::closes_and_opens_again) {
        EXPECT_FALSE(others.front().timeout.armed()) << "it fired";
      }
      timers->close();
      EXPECT_TRUE(adds_up(*timers));
    }
    others.clear();
    loop.run();
  }
}

INSTANTIATE_TEST_SUITE_P(that, handles_closed_by_handler,
                         testing::Values(next::nothing, next::arms, next::posts, next::closes,
                                         next::closes_and_opens_again, next::destroys),
                         [](const auto& of) { return std::string{name_of(of.param)}; });

}  // namespace
