// Each allocation of each call fails in turn: what the call answers, that nothing of it is left, and that the object can
// be used afterwards. What is documented to allocate nothing works while every allocation fails, libuv's own included.
#include "../support/allocation_checks.hpp"
#include "../support/live_loop.hpp"
#include "../support/offloader.hpp"
#include "../support/probe.hpp"
#include "../support/remote_checks.hpp"

#include <tickwheel/uv/remote.hpp>

using tickwheel::manual_driver;
using tickwheel::offload_pool;
using tickwheel::remote_handle;
using tickwheel::remote_hold;
using tickwheel::remote_timer;
using tickwheel::service_options;
using tickwheel::timer_service;
using tickwheel::wheel_geometry;

namespace {

std::atomic<bool> libuv_has_no_memory{false};

void* libuv_malloc(std::size_t size) { return libuv_has_no_memory ? nullptr : std::malloc(size); }
void* libuv_calloc(std::size_t count, std::size_t size) {
  return libuv_has_no_memory ? nullptr : std::calloc(count, size);
}
void* libuv_realloc(void* block, std::size_t size) { return libuv_has_no_memory ? nullptr : std::realloc(block, size); }
// before anything else is asked of libuv
[[maybe_unused]] const int replaced = uv_replace_allocator(libuv_malloc, libuv_realloc, libuv_calloc, std::free);

/// While it lives, every allocation fails.
class no_memory {
 public:
  no_memory() { libuv_has_no_memory = true; }
  ~no_memory() { libuv_has_no_memory = false; }
  no_memory(const no_memory&) = delete;
  no_memory& operator=(const no_memory&) = delete;

  bool was_asked_for() const { return failure_.struck(); }

 private:
  allocations::failure failure_{0};
};

struct metronome {
  explicit metronome(timer_service& timers) : interval{timers, *this} {}
  void on_beat() noexcept {
    if (++beats == 3) interval.cancel();
  }
  int beats = 0;
  tickwheel::interval_timer<&metronome::on_beat> interval;
};

// --- open ---

class out_of_memory : leak_check, public testing::Test {};

constexpr wheel_geometry geometries[] = {{},
                                         wheel_geometry::hashed(1),
                                         wheel_geometry::hashed(4096),
                                         wheel_geometry::hierarchical(2, 4),
                                         wheel_geometry::hierarchical(6, 64)};

/// Opens the service with each allocation failing in turn, at least `least` of them, and then runs a timer.
template <class Open, class Run>
void expect_retries(timer_service& timers, std::size_t least, Open open, Run run) {
  EXPECT_GE(with_each_allocation_failing([&] {
              const int answer = open();
              EXPECT_EQ(timers.is_open(), answer == 0);
              return answer;
            }),
            least);
  counter c{timers};
  c.arm(1ms);
  run();
  EXPECT_EQ(c.fired, 1);
}

TEST_F(out_of_memory, open_on_loop_answers_ENOMEM_and_can_be_retried) {
  for (const wheel_geometry& geometry : geometries) {
    live_loop loop;
    timer_service timers;
    const auto open = [&] {
      const int answer = timers.open(loop, {.geometry = geometry});
      EXPECT_EQ(uv_loop_alive(loop.get()), 0);
      return answer;
    };
    expect_retries(timers, 3, open, [&] { loop.run(); });  // the wheel, the post queue and the handles
  }
}

TEST_F(out_of_memory, open_on_driver_answers_ENOMEM_and_can_be_retried) {
  for (const wheel_geometry& geometry : geometries) {
    manual_driver time;
    timer_service timers;
    const auto open = [&] {
      const int answer = timers.open(time, {.geometry = geometry});
      EXPECT_EQ(time.bound() != nullptr, answer == 0);
      return answer;
    };
    expect_retries(timers, 2, open, [&] { time.advance(2ms); });  // the wheel and the post queue
  }
}

TEST_F(out_of_memory, reopen_keeps_closed_queue) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop), 0);
  const remote_handle of_before = timers.remote();
  timers.close();
  loop.run();
  with_each_allocation_failing([&] {
    const int answer = timers.open(loop);
    EXPECT_EQ(of_before.post(0s, nothing), UV_ECANCELED);
    if (answer != 0) {
      EXPECT_EQ(timers.remote().post(nothing), UV_ECANCELED);
    }
    return answer;
  });
  EXPECT_EQ(timers.remote().post(0s, nothing), 0);
  timers.close();
  EXPECT_TRUE(remote_adds_up(timers));
}

// --- from other threads ---

TEST_F(out_of_memory, post_answers_ENOMEM_and_gives_place_back) {
  using post_to = int (*)(const remote_handle& to, int& ran);
  const post_to each_way[] = {
      [](const remote_handle& to, int& ran) { return to.post(0s, count_in(ran)); },
      [](const remote_handle& to, int& ran) { return to.post(1ms, count_in(ran)); },
      [](const remote_handle& to, int& ran) { return to.post_at(tickwheel::clock::time_point{}, count_in(ran)); },
  };
  for (const post_to post : each_way) {
    // one place each, so that one which was not given back would be missed
    manual_service service{{.max_armed = 1, .max_queued = 1}};
    const remote_handle handle = service.timers.remote();
    int ran = 0;
    EXPECT_EQ(with_each_allocation_failing([&] { return post(handle, ran); }), 1U);
    EXPECT_EQ(post(handle, ran), UV_EAGAIN);
    service.advance(2ms);
    EXPECT_EQ(ran, 1);
    service.timers.close();
    EXPECT_TRUE(remote_adds_up(service.timers));
    EXPECT_EQ(service.timers.stats().remote_accepted, 1U);
  }
}

TEST_F(out_of_memory, remote_arm_answers_ENOMEM_and_keeps_timer) {
  for (const bool at_a_time : {false, true}) {
    manual_service service;
    const remote_handle handle = service.timers.remote();
    int first = 0, second = 0;
    remote_timer timer;
    ASSERT_EQ(handle.arm(1ms, count_in(first), timer), 0);
    const auto arm = [&] {
      const auto count = count_in(second);
      return at_a_time ? handle.arm_at(service.time.now() + 1ms, count, timer) : handle.arm(1ms, count, timer);
    };
    EXPECT_EQ(allocations::without_memory(arm), UV_ENOMEM);
    EXPECT_EQ(remote_handle{}.arm(1h, nothing, timer), UV_ECANCELED);
    service.advance(2ms);
    EXPECT_EQ(first, 1) << "it stayed armed";
    EXPECT_EQ(with_each_allocation_failing(arm), 1U);
    service.advance(2ms);
    EXPECT_EQ(second, 1);
  }
}

TEST_F(out_of_memory, post_of_other_thread_answers_ENOMEM) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop), 0);
  counter c{timers};
  c.arm(20ms);
  int ran = 0, answer = 0, after = -1;
  std::thread poster{[&, handle = timers.remote(), hold = timers.hold()] {
    const auto post = [&] { return handle.post(0s, count_in(ran)); };
    answer = allocations::without_memory(post);
    after = post();
  }};
  poster.join();
  loop.run();
  EXPECT_EQ(answer, UV_ENOMEM);
  EXPECT_EQ(after, 0);
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(c.fired, 1);
}

// --- what needs none ---

TEST_F(out_of_memory, open_service_needs_none_except_for_posts) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop, {.work_per_pass = 2}), 0);
  const remote_handle handle = timers.remote();
  int ran = 0;
  ASSERT_EQ(handle.post(0s, count_in(ran)), 0);
  ASSERT_EQ(handle.post(3ms, count_in(ran)), 0);
  remote_timer cancelled;
  ASSERT_EQ(handle.arm(1h, count_in(ran), cancelled), 0);
  counter soon{timers}, later{timers}, never{timers}, stop{timers};
  metronome m{timers};
  {
    const no_memory none;
    soon.arm(0s);
    later.arm(5ms, 2ms);
    never.arm(1h);
    EXPECT_EQ(m.interval.start(1ms), 0);
    remote_hold hold = timers.hold();
    const remote_handle copy = handle;
    uv_run(loop.get(), UV_RUN_NOWAIT);
    uv_run(loop.get(), UV_RUN_NOWAIT);
    EXPECT_EQ(cancelled.cancel(), remote_timer::outcome::cancelled);
    hold.release();
    EXPECT_TRUE(never.timeout.cancel());
    uv_run(loop.get(), UV_RUN_DEFAULT);
    EXPECT_TRUE(timers.validate());
    EXPECT_EQ(timers.stats().pending, 0U);
    stop.arm(1h);
    timers.close();
    uv_run(loop.get(), UV_RUN_DEFAULT);
    EXPECT_FALSE(none.was_asked_for());
  }
  EXPECT_EQ(soon.fired + later.fired, 2);
  EXPECT_EQ(m.beats, 3);
  EXPECT_EQ(ran, 2);
  EXPECT_TRUE(remote_adds_up(timers));
}

TEST_F(out_of_memory, close_after_closed_handles_needs_none) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop), 0);
  counter c{timers};
  c.arm(1ms);
  const no_memory none;
  close_each_handle(loop.get());
  timers.close();
  uv_run(loop.get(), UV_RUN_DEFAULT);
  EXPECT_FALSE(none.was_asked_for());
}

// --- offloading ---

struct offload_without_memory : testing::Test {
  void SetUp() override { ASSERT_EQ(pool.open(loop, {.max_in_flight = 1}), 0); }
  void TearDown() override {
    loop.run();
    EXPECT_EQ(held.use_count(), 1) << "the work of a refused call was not destroyed";
  }
  auto work(int result) {
    return [result, held = held]() noexcept { return result; };
  }

  std::shared_ptr<int> held = std::make_shared<int>(0);
  live_loop loop;
  manual_service service;
  offload_pool pool;
  offloader s{service.timers, pool};
};

TEST_F(offload_without_memory, run_fails_and_can_be_tried_again) {
  EXPECT_EQ(with_each_allocation_failing([&] { return s.call.run(work(7)); }), 1U);
  EXPECT_TRUE(s.call.in_flight());
  loop.run();
  EXPECT_EQ(s.answers, 1);
  EXPECT_EQ(s.result, 7);
}

TEST_F(offload_without_memory, arm_fails_and_can_be_tried_again) {
  EXPECT_EQ(with_each_allocation_failing([&] { return s.call.arm(1ms, work(7)); }), 1U);
  EXPECT_TRUE(s.call.armed());
  service.advance(2ms);
  loop.run();
  EXPECT_EQ(s.result, 7);
}

TEST_F(offload_without_memory, takes_no_place_in_pool) {
  EXPECT_EQ(allocations::without_memory([&] { return s.call.run(work(7)); }), UV_ENOMEM);
  EXPECT_EQ(pool.in_flight(), 0U);
  EXPECT_EQ(pool.refused(), 0U);
}

TEST_F(offload_without_memory, leaves_former_work_armed_or_in_flight) {
  for (const bool in_flight : {false, true}) {
    s.answers = 0;
    s.result.reset();
    ASSERT_EQ(in_flight ? s.call.run(work(7)) : s.call.arm(1ms, work(7)), 0);
    EXPECT_EQ(allocations::without_memory([&] { return s.call.arm(1h, work(8)); }), UV_ENOMEM);
    EXPECT_EQ(allocations::without_memory([&] { return s.call.run(work(9)); }), UV_ENOMEM);
    service.advance(2ms);
    loop.run();
    EXPECT_EQ(s.answers, 1);
    EXPECT_EQ(s.result, 7);
  }
}

TEST_F(offload_without_memory, answers_cancels_and_closes) {
  ASSERT_EQ(s.call.run(work(7)), 0);
  offloader cancelled{service.timers, pool};
  ASSERT_EQ(cancelled.call.arm(1h, work(8)), 0);
  const allocations::failure none{0};
  EXPECT_TRUE(cancelled.call.cancel());
  uv_run(loop.get(), UV_RUN_DEFAULT);
  EXPECT_EQ(s.result, 7);
  pool.close();
  EXPECT_FALSE(none.struck());
}

}  // namespace
