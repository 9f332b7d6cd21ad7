// Each allocation of each call fails in turn: what the call answers, that nothing of it is left, and that the object can
// be used afterwards. What is documented to allocate nothing works while every allocation fails, libuv's own included.
#include "../../support/allocation_probe.hpp"
#include "../support/live_loop.hpp"
#include "../support/probe.hpp"
#include "../support/remote_checks.hpp"

#include <tickwheel/uv/remote.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>

using namespace std::chrono_literals;
using tickwheel::manual_driver;
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

/// Makes the call with its first allocation failing, then with its second, and so on until none does: then it must
/// answer 0, and before that UV_ENOMEM, with nothing leaked. Says how many there were.
template <class Call>
std::size_t with_each_allocation_failing(Call call) {
  for (std::size_t spared = 0;; ++spared) {
    const auto before = allocations::outstanding();
    std::optional<allocations::failure> failure{spared};
    const int answer = call();
    const bool struck = failure->struck();
    failure.reset();
    EXPECT_EQ(answer, struck ? UV_ENOMEM : 0) << "allocation " << spared;
    if (!struck || answer == 0) return spared;
    EXPECT_EQ(allocations::outstanding(), before) << "allocation " << spared << " was leaked";
  }
}

/// As a `probe`, but allocates nothing itself.
struct counter {
  explicit counter(timer_service& timers) : timeout{timers, *this} {}
  void arm(std::chrono::nanoseconds after, std::chrono::nanoseconds slack = {}) { expect_arm(timeout, after, slack); }
  void on_timeout() noexcept { ++fired; }
  int fired = 0;
  tickwheel::member_timer<&counter::on_timeout> timeout;
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

constexpr wheel_geometry geometries[] = {{},
                                         wheel_geometry::hashed(1),
                                         wheel_geometry::hashed(4096),
                                         wheel_geometry::hierarchical(2, 4),
                                         wheel_geometry::hierarchical(6, 64)};

TEST(out_of_memory, open_on_loop_answers_ENOMEM_and_can_be_retried) {
  for (const wheel_geometry& geometry : geometries) {
    const auto before = allocations::outstanding();
    {
      live_loop loop;
      timer_service timers;
      const std::size_t made = with_each_allocation_failing([&] {
        const int answer = timers.open(loop, {.geometry = geometry});
        EXPECT_EQ(timers.is_open(), answer == 0);
        EXPECT_EQ(uv_loop_alive(loop.get()), 0);
        return answer;
      });
      EXPECT_GE(made, 3U) << "the wheel, the post queue and the handles, at least";
      counter c{timers};
      c.arm(1ms);
      loop.run();
      EXPECT_EQ(c.fired, 1);
    }
    EXPECT_EQ(allocations::outstanding(), before);
  }
}

TEST(out_of_memory, open_on_driver_answers_ENOMEM_and_can_be_retried) {
  for (const wheel_geometry& geometry : geometries) {
    const auto before = allocations::outstanding();
    {
      manual_driver time;
      timer_service timers;
      const std::size_t made = with_each_allocation_failing([&] {
        const int answer = timers.open(time, {.geometry = geometry});
        EXPECT_EQ(time.bound() != nullptr, answer == 0);
        return answer;
      });
      EXPECT_GE(made, 2U) << "the wheel and the post queue, at least";
      counter c{timers};
      c.arm(1ms);
      time.advance(2ms);
      EXPECT_EQ(c.fired, 1);
    }
    EXPECT_EQ(allocations::outstanding(), before);
  }
}

TEST(out_of_memory, reopen_keeps_closed_queue) {
  const auto before = allocations::outstanding();
  {
    live_loop loop;
    timer_service timers;
    ASSERT_EQ(timers.open(loop), 0);
    const remote_handle of_before = timers.remote();
    timers.close();
    loop.run();
    with_each_allocation_failing([&] {
      const int answer = timers.open(loop);
      EXPECT_EQ(of_before.post(0s, []() noexcept {}), UV_ECANCELED);
      return answer;
    });
    EXPECT_EQ(timers.remote().post(0s, []() noexcept {}), 0);
    timers.close();
    EXPECT_TRUE(remote_adds_up(timers));
  }
  EXPECT_EQ(allocations::outstanding(), before);
}

// --- from other threads ---

TEST(out_of_memory, post_answers_ENOMEM_and_gives_place_back) {
  // one place each, so that one which was not given back would be missed
  const auto each_way = {
      +[](const remote_handle& to, int* ran) noexcept { return to.post(0s, [ran]() noexcept { ++*ran; }); },
      +[](const remote_handle& to, int* ran) noexcept { return to.post(1ms, [ran]() noexcept { ++*ran; }); },
      +[](const remote_handle& to, int* ran) noexcept {
        return to.post_at(tickwheel::clock::time_point{}, [ran]() noexcept { ++*ran; });
      },
  };
  for (const auto post : each_way) {
    manual_service service{{.max_armed = 1, .max_queued = 1}};
    const remote_handle handle = service.timers.remote();
    int ran = 0;
    EXPECT_EQ(with_each_allocation_failing([&] { return post(handle, &ran); }), 1U);
    EXPECT_EQ(post(handle, &ran), UV_EAGAIN);
    service.advance(2ms);
    EXPECT_EQ(ran, 1);
    service.timers.close();
    EXPECT_TRUE(remote_adds_up(service.timers));
    EXPECT_EQ(service.timers.stats().remote_accepted, 1U);
  }
}

TEST(out_of_memory, remote_arm_answers_ENOMEM_and_keeps_timer) {
  for (const bool at_a_time : {false, true}) {
    manual_service service;
    const remote_handle handle = service.timers.remote();
    int first = 0, second = 0;
    remote_timer timer;
    ASSERT_EQ(handle.arm(
                  1ms, [&first]() noexcept { ++first; }, timer),
              0);
    const auto arm = [&] {
      const auto count = [&second]() noexcept { ++second; };
      return at_a_time ? handle.arm_at(service.time.now() + 1ms, count, timer) : handle.arm(1ms, count, timer);
    };
    {
      const allocations::failure failure{0};
      EXPECT_EQ(arm(), UV_ENOMEM);
    }
    service.advance(2ms);
    EXPECT_EQ(first, 1) << "it stayed armed";
    EXPECT_EQ(with_each_allocation_failing(arm), 1U);
    service.advance(2ms);
    EXPECT_EQ(second, 1);
  }
}

TEST(out_of_memory, post_of_other_thread_answers_ENOMEM) {
  const auto before = allocations::outstanding();
  {
    live_loop loop;
    timer_service timers;
    ASSERT_EQ(timers.open(loop), 0);
    counter c{timers};
    c.arm(20ms);
    int ran = 0, answer = 0, after = -1;
    std::thread poster{[&, handle = timers.remote(), hold = timers.hold()] {
      {
        const allocations::failure failure{0};
        answer = handle.post(0s, [&ran]() noexcept { ++ran; });
      }
      after = handle.post(0s, [&ran]() noexcept { ++ran; });
    }};
    poster.join();
    loop.run();
    EXPECT_EQ(answer, UV_ENOMEM);
    EXPECT_EQ(after, 0);
    EXPECT_EQ(ran, 1);
    EXPECT_EQ(c.fired, 1);
  }
  EXPECT_EQ(allocations::outstanding(), before);
}

// --- what needs none ---

TEST(out_of_memory, open_service_needs_none_except_for_posts) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop, {.work_per_pass = 2}), 0);
  const remote_handle handle = timers.remote();
  int ran = 0;
  ASSERT_EQ(handle.post(0s, [&ran]() noexcept { ++ran; }), 0);
  ASSERT_EQ(handle.post(3ms, [&ran]() noexcept { ++ran; }), 0);
  remote_timer cancelled;
  ASSERT_EQ(handle.arm(
                1h, [&ran]() noexcept { ++ran; }, cancelled),
            0);
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

TEST(out_of_memory, close_after_closed_handles_needs_none) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop), 0);
  counter c{timers};
  c.arm(1ms);
  const no_memory none;
  uv_walk(
      loop.get(), [](uv_handle_t* h, void*) { uv_close(h, nullptr); }, nullptr);
  timers.close();
  uv_run(loop.get(), UV_RUN_DEFAULT);
  EXPECT_FALSE(none.was_asked_for());
}

}  // namespace
