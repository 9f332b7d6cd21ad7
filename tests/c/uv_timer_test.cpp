// The C interface beside libuv's own timers: the same calls at the same times give the same answers, and as many callbacks.
//
// On a manual loop, in both orders of libuv's phases, so that every difference is one of meaning. Operations
// happen when nothing is due for some milliseconds: libuv may be a millisecond early, and tickwheel a tick and a millisecond late.
#include "../support/allocation_probe.hpp"
#include "../uv/support/allocation_checks.hpp"
#include "../uv/support/turned_loop.hpp"

#include <tickwheel/tickwheel.h>

#include <uv.h>

namespace {

using time_point = tickwheel::clock::time_point;

// A callback's operations on its own timer, and on the other of the pair when that expires.
struct in_callback {
  enum { nothing, stop, start, again, set_repeat } what = nothing;
  std::uint64_t time = 0;
};

// A uv_timer_t and a tw_timer_t that are told the same.
struct pair {
  uv_timer_t uv;
  tw_timer_t tw;
  int uv_ran = 0, tw_ran = 0;
  bool uv_was_active = false, tw_was_active = false;  // in the callback that ran last
  time_point ran_at{};
  in_callback uv_next, tw_next;
  bool restarted = false;  // in a callback, which each has at another time

  void init(uv_loop_t& loop, tw_service_t& service) {
    ASSERT_EQ(uv_timer_init(&loop, &uv), 0);
    ASSERT_EQ(tw_timer_init(&service, &tw), 0);
    uv.data = tw.data = this;
  }

  static void on_uv(uv_timer_t* t) {
    auto& self = *static_cast<pair*>(t->data);
    ++self.uv_ran;
    self.uv_was_active = uv_is_active(self.base()) != 0;
    self.ran_at = turned_loop::now();
    const in_callback next = std::exchange(self.uv_next, {});
    if (next.what == in_callback::stop) uv_timer_stop(t);
    if (next.what == in_callback::start) uv_timer_start(t, on_uv, next.time, t->repeat);
    if (next.what == in_callback::again) uv_timer_again(t);
    if (next.what == in_callback::set_repeat) uv_timer_set_repeat(t, next.time);
    self.restarted |= next.what == in_callback::start || next.what == in_callback::again;
  }
  static void on_tw(tw_timer_t* t) {
    auto& self = *static_cast<pair*>(t->data);
    ++self.tw_ran;
    self.tw_was_active = tw_timer_is_active(t) != 0;
    self.ran_at = turned_loop::now();
    const in_callback next = std::exchange(self.tw_next, {});
    if (next.what == in_callback::stop) tw_timer_stop(t);
    int answer = 0;
    if (next.what == in_callback::start) answer = tw_timer_start(t, on_tw, next.time, tw_timer_get_repeat(t));
    if (next.what == in_callback::again) answer = tw_timer_again(t);
    EXPECT_EQ(answer, 0);
    if (next.what == in_callback::set_repeat) tw_timer_set_repeat(t, next.time);
  }

  bool is_quiet() const {
    const bool coming = uv_is_active(base()) != 0 && uv_timer_get_due_in(&uv) <= 4;
    return !coming && turned_loop::now() - ran_at > 4ms;
  }
  const uv_handle_t* base() const { return reinterpret_cast<const uv_handle_t*>(&uv); }
  uv_handle_t* base() { return reinterpret_cast<uv_handle_t*>(&uv); }

  void compare() const {
    EXPECT_EQ(tw_ran, uv_ran);
    EXPECT_EQ(tw_was_active, uv_was_active);
    EXPECT_EQ(tw_timer_is_active(&tw) != 0, uv_is_active(base()) != 0);
    EXPECT_EQ(tw_timer_is_closing(&tw) != 0, uv_is_closing(base()) != 0);
    EXPECT_EQ(tw_timer_has_ref(&tw) != 0, uv_has_ref(base()) != 0);
    EXPECT_EQ(tw_timer_get_repeat(&tw), uv_timer_get_repeat(&uv));
    const std::uint64_t theirs = uv_timer_get_due_in(&uv), ours = tw_timer_get_due_in(&tw);
    EXPECT_GE(ours, theirs);
    EXPECT_LE(ours, theirs + (restarted ? 2 : 0));  // the callback came up to a tick and a millisecond later
  }
};

class beside_uv_timer : public testing::TestWithParam<loop_order> {};
INSTANTIATE_TEST_SUITE_P(loop, beside_uv_timer, testing::ValuesIn(both_orders),
                         [](const auto& of) { return std::string{name_of(of.param)}; });

class script {
 public:
  script(loop_order order, unsigned seed) : random_{seed}, loop_{order} {
    EXPECT_EQ(tw_service_init(&loop(), &service_), 0);
    uv_timer_init(&loop(), &holding_);
    uv_timer_start(
        &holding_, [](uv_timer_t*) {}, 1'000'000'000, 0);
    for (pair& p : pairs_) p.init(loop(), service_);
  }

  void run(int operations) {
    left_ = operations;
    next_operation(10);
    while (left_ > 0 && !testing::Test::HasFailure()) loop_.turn();
    close();
  }

 private:
  uv_loop_t& loop() { return loop_; }
  std::uint64_t pick(std::uint64_t from, std::uint64_t to) {
    return std::uniform_int_distribution<std::uint64_t>{from, to}(random_);
  }

  // in whole milliseconds from the start, so that both round alike
  void next_operation(std::uint64_t ms) {
    when_ += std::chrono::milliseconds{ms};
    loop_.readable_at(when_, [this] { operate(); });
  }

  void operate() {
    if (!std::all_of(pairs_.begin(), pairs_.end(), [](const pair& p) { return p.is_quiet(); })) {
      next_operation(3);
      return;
    }
    for (const pair& p : pairs_) p.compare();
    pair& p = pairs_[pick(0, pairs_.size() - 1)];
    apply(p, static_cast<int>(pick(0, 8)));
    p.compare();
    --left_;
    next_operation(pick(1, 120));
  }

  void apply(pair& p, int operation) {
    std::ostringstream said;
    switch (operation) {
      case 0:
      case 1:
      case 2: {
        const std::uint64_t timeout = pick(0, 3) == 0 ? 0 : pick(10, 150), repeat = pick(0, 1) == 0 ? 0 : pick(15, 90);
        said << "start " << timeout << ' ' << repeat;
        SCOPED_TRACE(said.str());
        EXPECT_EQ(tw_timer_start(&p.tw, pair::on_tw, timeout, repeat),
                  uv_timer_start(&p.uv, pair::on_uv, timeout, repeat));
        if (uv_is_closing(p.base()) == 0) p.restarted = false;
        break;
      }
      case 3:
        EXPECT_EQ(tw_timer_start(&p.tw, nullptr, 50, 20), uv_timer_start(&p.uv, nullptr, 50, 20));
        break;
      case 4:
        EXPECT_EQ(tw_timer_stop(&p.tw), uv_timer_stop(&p.uv));
        break;
      case 5: {
        const int code = uv_timer_again(&p.uv);
        EXPECT_EQ(tw_timer_again(&p.tw), code);
        if (code == 0 && p.uv.repeat != 0) p.restarted = false;
        break;
      }
      case 6: {
        const std::uint64_t repeat = pick(0, 2) == 0 ? 0 : pick(15, 90);
        uv_timer_set_repeat(&p.uv, repeat);
        tw_timer_set_repeat(&p.tw, repeat);
        break;
      }
      case 7:
        if (pick(0, 1) == 0) {
          uv_ref(p.base());
          tw_timer_ref(&p.tw);
        } else {
          uv_unref(p.base());
          tw_timer_unref(&p.tw);
        }
        break;
      default:
        if (uv_is_active(p.base()) == 0) break;
        p.uv_next.what = static_cast<decltype(p.uv_next.what)>(pick(0, 4));
        // each restart in a callback sets the two further apart
        if (p.restarted && p.uv_next.what != in_callback::stop) p.uv_next.what = in_callback::set_repeat;
        p.uv_next.time = pick(20, 90);
        p.tw_next = p.uv_next;
        break;
    }
  }

  // Then no time may pass any more, as loops with closing handles do not wait.
  void close() {
    for (pair& p : pairs_) {
      uv_close(p.base(), nullptr);
      tw_timer_close(&p.tw, nullptr);
      for (int operation = 0; operation != 8; ++operation) apply(p, operation);
      EXPECT_EQ(tw_timer_is_active(&p.tw), 0);
      EXPECT_NE(tw_timer_is_closing(&p.tw), 0);
      EXPECT_EQ(tw_timer_get_repeat(&p.tw), uv_timer_get_repeat(&p.uv));
    }
    uv_close(reinterpret_cast<uv_handle_t*>(&holding_), nullptr);
    tw_service_close(&service_, nullptr);
    uv_run(&loop(), UV_RUN_NOWAIT);
  }

  std::mt19937 random_;
  turned_loop loop_;
  tw_service_t service_;
  uv_timer_t holding_;  // a loop that is not alive does not wait
  std::array<pair, 3> pairs_;
  time_point when_ = turned_loop::now();
  int left_ = 0;
};

TEST_P(beside_uv_timer, same_calls_have_same_answers) {
  for (unsigned seed = 0; seed != 100 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    script{GetParam(), seed}.run(150);
  }
}

/// A service and three pairs on a loop. Each pair is closed in the end.
class tw_timer : public testing::TestWithParam<loop_order> {
 protected:
  void SetUp() override {
    ASSERT_EQ(tw_service_init(&static_cast<uv_loop_t&>(loop), &service), 0);
    for (pair* each : {&before, &slow, &p}) each->init(loop, service);
  }
  void TearDown() override {
    for (pair* each : {&before, &slow, &p}) {
      uv_close(each->base(), nullptr);
      tw_timer_close(&each->tw, nullptr);
    }
    tw_service_close(&service, nullptr);
    uv_run(&static_cast<uv_loop_t&>(loop), UV_RUN_NOWAIT);
  }

  turned_loop loop{GetParam()};
  tw_service_t service;
  pair before, slow, p;
};
INSTANTIATE_TEST_SUITE_P(loop, tw_timer, testing::ValuesIn(both_orders),
                         [](const auto& of) { return std::string{name_of(of.param)}; });

// what libuv's grow by with every late poll
TEST_P(tw_timer, repeats_do_not_drift) {
  const time_point began = turned_loop::now();
  ASSERT_EQ(tw_timer_start(&p.tw, pair::on_tw, 10, 10), 0);
  loop.sleep_late(90);
  while (p.tw_ran < 1000) loop.turn();
  EXPECT_GE(turned_loop::now() - began, 10s);
  EXPECT_LE(turned_loop::now() - began, 10s + 1ms + 900us + std::chrono::nanoseconds{1 << 17});
}

// what a stall missed is not made up for: the next comes a repeat later, as libuv's
TEST_P(tw_timer, missed_repeat_is_skipped) {
  const time_point began = turned_loop::now();
  ASSERT_EQ(tw_timer_start(&p.tw, pair::on_tw, 10, 10), 0);
  ASSERT_EQ(uv_timer_start(&p.uv, pair::on_uv, 10, 10), 0);
  loop.once_in(phase::check, place::before, began + 5ms, [] { turned_loop::block(100ms); });
  int looked = 0;
  for (const int times : {1, 2})
    loop.readable_at(began + times * 10ms + 101ms, [&, times] {
      EXPECT_EQ(p.tw_ran, times);
      EXPECT_EQ(p.uv_ran, times);
      ++looked;
    });
  while (looked < 2) loop.turn();
}

// what an earlier callback of the same pass took is missed as well: the time that was read for the iteration knows nothing of it
TEST_P(tw_timer, late_repeat_comes_a_repeat_later) {
  const time_point began = turned_loop::now();
  // all in one pass, and its bound is not looked at between the last two
  ASSERT_EQ(tw_timer_start(&before.tw, pair::on_tw, 19, 0), 0);
  const auto block_once = [](tw_timer_t* t) {
    if (static_cast<pair*>(t->data)->tw_ran++ == 0) turned_loop::block(50ms);
  };
  ASSERT_EQ(tw_timer_start(&slow.tw, block_once, 20, 20), 0);  // a repeat, so that the time is read before it blocks
  ASSERT_EQ(tw_timer_start(&p.tw, pair::on_tw, 21, 20), 0);
  loop.once_in(phase::check, place::before, began + 5ms, [] { turned_loop::block(20ms); });
  while (p.tw_ran == 0) loop.turn();
  const time_point first = p.ran_at;
  EXPECT_GE(first, began + 75ms);
  while (p.tw_ran == 1) loop.turn();
  EXPECT_GE(p.ran_at, first + 20ms);
  EXPECT_LE(p.ran_at, first + 20ms + 1ms + std::chrono::nanoseconds{1 << 17});
}

TEST_P(tw_timer, touch_gives_whole_timeout_again) {
  const time_point began = turned_loop::now();
  ASSERT_EQ(tw_timer_start(&p.tw, pair::on_tw, 100, 0), 0);
  for (int i = 1; i <= 5; ++i)
    loop.readable_at(began + i * 90ms, [&] {
      EXPECT_EQ(p.tw_ran, 0);
      EXPECT_EQ(tw_timer_touch(&p.tw), 0);
      EXPECT_EQ(tw_timer_get_due_in(&p.tw), 100U);
    });
  while (p.tw_ran == 0) loop.turn();
  EXPECT_GE(p.ran_at, began + 450ms + 100ms);
  EXPECT_LE(p.ran_at, began + 450ms + 100ms + 1ms + std::chrono::nanoseconds{1 << 17});
}

// The time of the iteration, from which a touch counts, was read before the callback blocked; the start counts from its call.
TEST_P(tw_timer, touch_right_after_start_does_not_make_it_earlier) {
  ASSERT_EQ(tw_timer_start(&before.tw, pair::on_tw, 1'000, 0), 0);
  time_point started{};
  loop.readable_at(turned_loop::now() + 10ms, [&] {
    EXPECT_EQ(tw_timer_touch(&before.tw), 0);
    turned_loop::block(80ms);
    EXPECT_EQ(tw_timer_start(&p.tw, pair::on_tw, 100, 0), 0);
    started = turned_loop::now();
    EXPECT_EQ(tw_timer_touch(&p.tw), 0);
    EXPECT_EQ(tw_timer_get_due_in_ns(&p.tw), 100'000'000U);
  });
  while (p.tw_ran == 0) loop.turn();
  EXPECT_GE(p.ran_at, started + 100ms);
  EXPECT_LE(p.ran_at, started + 100ms + 1ms + std::chrono::nanoseconds{1 << 17});
}

// A callback of the same pass read the time of the iteration and blocked; the next repeat counts from after that.
TEST_P(tw_timer, touch_in_late_callback_does_not_make_repeat_earlier) {
  struct touched {
    std::uint64_t due_before, due_after;
  } self{};
  p.tw.data = &self;
  const auto touch_and_block = [](tw_timer_t* t) {
    tw_timer_touch(t);
    turned_loop::block(50ms);
  };
  const auto touch = [](tw_timer_t* t) {
    auto& at = *static_cast<touched*>(t->data);
    at.due_before = tw_timer_get_due_in_ns(t);
    tw_timer_touch(t);
    at.due_after = tw_timer_get_due_in_ns(t);
  };
  // all in one pass, and its bound is not looked at between the last two
  ASSERT_EQ(tw_timer_start(
                &before.tw, [](tw_timer_t*) {}, 19, 0),
            0);
  ASSERT_EQ(tw_timer_start(&slow.tw, touch_and_block, 20, 1'000), 0);
  ASSERT_EQ(tw_timer_start(&p.tw, touch, 21, 20), 0);
  loop.once_in(phase::check, place::before, turned_loop::now() + 5ms, [] { turned_loop::block(20ms); });
  while (self.due_before == 0) loop.turn();
  EXPECT_EQ(self.due_before, 20'000'000U);
  EXPECT_EQ(self.due_after, self.due_before);
}

TEST_P(tw_timer, due_in_rounds_up) {
  ASSERT_EQ(tw_timer_start_ns(&p.tw, pair::on_tw, 1'500'000, 0), 0);
  EXPECT_EQ(tw_timer_get_due_in(&p.tw), 2U);
  EXPECT_EQ(tw_timer_get_due_in_ns(&p.tw), 1'500'000U);
  turned_loop::block(500us);
  EXPECT_EQ(tw_timer_get_due_in(&p.tw), 1U);
  turned_loop::block(1ms);
  EXPECT_EQ(tw_timer_get_due_in(&p.tw), 0U);
}

TEST(memory, c_timers_allocate_nothing) {
  live_loop loop;
  tw_service_t service;
  ASSERT_EQ(tw_service_init(loop.get(), &service), 0);
  const auto before = allocations::count();
  tw_timer_t timer;
  ASSERT_EQ(tw_timer_init(&service, &timer), 0);
  for (int i = 0; i != 100; ++i) {
    ASSERT_EQ(tw_timer_start(
                  &timer, [](tw_timer_t*) {}, 0, 1),
              0);
    uv_run(loop.get(), UV_RUN_NOWAIT);
    ASSERT_EQ(tw_timer_touch(&timer), 0);
    ASSERT_EQ(tw_timer_again(&timer), 0);
    ASSERT_EQ(tw_timer_stop(&timer), 0);
  }
  tw_timer_close(&timer, nullptr);
  tw_service_close(&service, nullptr);
  uv_run(loop.get(), UV_RUN_DEFAULT);
  EXPECT_EQ(allocations::count(), before);
}

TEST(memory, c_init_without_memory_leaves_nothing) {
  live_loop loop;
  const auto before = allocations::outstanding();
  tw_service_t service;
  EXPECT_GE(with_each_allocation_failing([&] { return tw_service_init(loop.get(), &service); }), 3U);
  tw_service_close(&service, nullptr);
  uv_run(loop.get(), UV_RUN_DEFAULT);
  EXPECT_EQ(allocations::outstanding(), before);
}

}  // namespace
