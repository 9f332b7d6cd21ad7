// Several threads at once: posts against the loop and against close, and cancels against callables that run. Run them under
// ThreadSanitizer as well: `./dev test --thread`.
#include "../../support/long_runs.hpp"
#include "../support/allocation_checks.hpp"
#include "../support/counted_callable.hpp"
#include "../support/live_loop.hpp"
#include "../support/probe.hpp"
#include "../support/remote_checks.hpp"

#include <tickwheel/uv/remote.hpp>

using tickwheel::remote_hold;
using tickwheel::timer_service;
using outcome = tickwheel::remote_timer::outcome;

namespace {

class remote_threads : leak_check, public testing::Test {};

constexpr unsigned producers = 2;

// Each item notes on the loop thread that it ran. A second time would show.
struct ledger {
  explicit ledger(std::size_t size) : ran(size) {}
  std::vector<unsigned char> ran;
  std::size_t sum() const {
    std::size_t all = 0;
    for (const unsigned char r : ran) all += r;
    return all;
  }
};

TEST_F(remote_threads, posts_to_live_loop_are_not_lost_and_keep_order) {
  const std::size_t each = by_run_length(50'000, 1'000'000);
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop, {.max_queued = 1000}), 0);
  std::array<std::size_t, producers> next{};
  std::vector<std::thread> threads;
  for (unsigned p = 0; p < producers; ++p)
    threads.emplace_back([handle = timers.remote(), hold = timers.hold(), to = &next[p], each] {
      for (std::size_t i = 0; i < each;) {
        const auto note = [to, i]() noexcept {
          EXPECT_EQ(*to, i);
          *to = i + 1;
        };
        if (handle.post(note) == 0)
          ++i;
        else
          std::this_thread::yield();
      }
    });
  uv_run(loop.get(), UV_RUN_DEFAULT);
  for (std::thread& t : threads) t.join();
  for (const std::size_t n : next) EXPECT_EQ(n, each);
  timers.close();
  EXPECT_TRUE(remote_adds_up(timers));
  EXPECT_EQ(timers.stats().remote_ran, producers * each);
  EXPECT_EQ(timers.stats().remote_cancelled, 0U);
}

// The sums of one producer, which posts, arms and cancels until it is refused for good.
struct accounts {
  std::uint64_t accepted = 0;
  std::uint64_t cancelled = 0;
};

// Notes that it ran, and owns something.
template <std::size_t Size>
struct noted_run {
  unsigned char* note;
  counted_callable<Size> counted;
  void operator()() noexcept { ++*note; }
};

// Only this producer uses `at` of the ledger.
accounts produce(const tickwheel::remote_handle& handle, unsigned char* at, callable_log& log, std::size_t count,
                 unsigned seed) {
  accounts mine;
  std::minstd_rand random{seed};
  std::array<tickwheel::remote_timer, 16> timers;
  for (std::size_t i = 0; i < count;) {
    unsigned char* const note = at + i;
    const auto delay = std::chrono::microseconds{random() % 3 == 0 ? 0 : random() % 400};
    const std::size_t k = random() % 32;
    const auto submit = [&](auto run) {
      int answer = 0;
      if (k < timers.size()) {
        if (timers[k].cancel() == outcome::cancelled) ++mine.cancelled;
        answer = handle.arm(delay, std::move(run), timers[k]);
        // a timer that was cancelled above and not replaced must not be counted again
        if (answer != 0) timers[k] = tickwheel::remote_timer{};
      } else {
        answer = handle.post(delay, std::move(run));
      }
      if constexpr (!std::is_trivially_copyable_v<decltype(run)>)
        if (answer != 0) run.counted.forget();
      return answer;
    };
    int answer = 0;
    if (i % 4 == 0)
      answer = submit(noted_run<16>{note, counted_callable<16>{log}});
    else if (i % 4 == 1)
      answer = submit(noted_run<128>{note, counted_callable<128>{log}});
    else
      answer = submit([note]() noexcept { ++*note; });
    if (answer == UV_ECANCELED) break;
    if (answer == 0) {
      ++mine.accepted;
      ++i;
    } else {
      std::this_thread::yield();
    }
  }
  for (tickwheel::remote_timer& t : timers)
    if (t.cancel() == outcome::cancelled) ++mine.cancelled;
  return mine;
}

// Every accepted operation has run once, was cancelled by its owner once, or is counted by close. Every callable that owns something is
// destroyed once, on the loop thread.
TEST_F(remote_threads, accepted_operation_has_one_end_against_close) {
  const std::size_t operations = by_run_length(200'000, 10'000'000);
  std::mt19937 random{1};
  std::size_t done = 0;
  for (unsigned round = 0; done < operations; ++round) {
    const std::size_t size = 1 + random() % 20'000;
    live_loop loop;
    timer_service timers;
    ASSERT_EQ(timers.open(loop, {.work_per_pass = 1 + random() % 256, .max_queued = 1 + random() % 4096}), 0);
    ledger book{producers * size};
    callable_log log;
    std::array<accounts, producers> sums;
    std::vector<std::thread> threads;
    for (unsigned p = 0; p < producers; ++p)
      threads.emplace_back([&, p, handle = timers.remote(), hold = timers.hold()] {
        sums[p] = produce(handle, &book.ran[p * size], log, size, round * producers + p + 1);
      });
    const std::uint64_t enough = random() % (producers * size);
    const auto until = tickwheel::clock::now() + 1s;
    while (timers.stats().remote_ran < enough && tickwheel::clock::now() < until && uv_loop_alive(loop.get()) != 0)
      uv_run(loop.get(), UV_RUN_NOWAIT);
    timers.close();  // while they are at it
    const std::size_t ran = book.sum();
    for (std::thread& t : threads) t.join();
    const auto& s = timers.stats();
    std::uint64_t accepted = 0;
    std::uint64_t cancelled = 0;
    for (const accounts& a : sums) {
      accepted += a.accepted;
      cancelled += a.cancelled;
    }
    ASSERT_TRUE(remote_adds_up(timers)) << "round " << round;
    ASSERT_EQ(s.remote_accepted, accepted) << "round " << round;
    ASSERT_EQ(s.remote_withdrawn, cancelled) << "round " << round;
    ASSERT_EQ(s.remote_ran, ran) << "round " << round;
    ASSERT_EQ(book.sum(), ran) << "nothing runs after close";
    ASSERT_TRUE(log.all_ended()) << "round " << round;
    for (const unsigned char r : book.ran) ASSERT_LE(r, 1) << "nothing runs twice";
    ASSERT_EQ(s.armed, s.fired + s.cancelled + s.pending);
    done += accepted;
  }
}

// The loop fires at about the time at which two others cancel.
TEST_F(remote_threads, cancels_of_two_threads_against_loop_have_one_winner) {
  const std::size_t rounds = by_run_length(300, 20'000);
  constexpr std::size_t count = 64;
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop), 0);
  std::vector<tickwheel::remote_timer> all(count);
  std::vector<int> ran(count);
  std::array<std::vector<outcome>, 2> answers;
  std::atomic<std::size_t> round{0};
  std::atomic<unsigned> finished{0};
  std::vector<std::thread> threads;
  for (unsigned c = 0; c < 2; ++c) {
    answers[c].resize(count);
    threads.emplace_back([&, c] {
      for (std::size_t r = 1; r <= rounds; ++r) {
        while (round.load(std::memory_order_acquire) != r) std::this_thread::yield();
        for (std::size_t i = 0; i < count; ++i) answers[c][i] = all[i].cancel();
        finished.fetch_add(1, std::memory_order_acq_rel);
      }
    });
  }
  const tickwheel::remote_handle handle = timers.remote();
  const remote_hold hold = timers.hold();  // else the loop is not alive, and does not turn
  std::size_t fired = 0;
  for (std::size_t r = 1; r <= rounds; ++r) {
    for (std::size_t i = 0; i < count; ++i) {
      ran[i] = 0;
      const std::chrono::microseconds after{r % 3 == 0 ? 0 : 10 * i};
      ASSERT_EQ(handle.arm(after, count_in(ran[i]), all[i]), 0);
    }
    if (r % 2 == 0) uv_run(loop.get(), UV_RUN_NOWAIT);
    round.store(r, std::memory_order_release);
    while (finished.load(std::memory_order_acquire) != 2 * r) uv_run(loop.get(), UV_RUN_NOWAIT);
    for (int turns = 0; turns < 3; ++turns) uv_run(loop.get(), UV_RUN_NOWAIT);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(answers[0][i], answers[1][i]) << "both are told the same";
      ASSERT_EQ(ran[i], answers[0][i] == outcome::cancelled ? 0 : 1);
      fired += static_cast<std::size_t>(ran[i]);
    }
    ASSERT_TRUE(is_valid(timers));
    ASSERT_EQ(timers.stats().pending, 0U) << "what was cancelled was let go";
  }
  for (std::thread& t : threads) t.join();
  timers.close();
  EXPECT_TRUE(remote_adds_up(timers));
  EXPECT_EQ(timers.stats().remote_ran, fired);
  EXPECT_GT(timers.stats().passes, 0U) << "the loop had a part in it";
}

// One thread cancels while the loop closes: the notice may find the inbox closed, with the timer in the wheel or abandoned.
TEST_F(remote_threads, cancel_against_close_frees_each_timer_once) {
  const std::size_t rounds = by_run_length(1000, 50'000);
  constexpr std::size_t count = 32;
  for (std::size_t r = 0; r < rounds; ++r) {
    manual_service service;
    std::vector<tickwheel::remote_timer> all(count);
    callable_log log;
    const tickwheel::remote_handle handle = service.timers.remote();
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(handle.arm(std::chrono::milliseconds{1 + i}, counted_callable<>{log}, all[i]), 0);
    service.turn();
    std::atomic<bool> go{false};
    std::size_t cancelled = 0;
    std::size_t closed = 0;
    std::size_t late = 0;
    std::thread other{[&] {
      while (!go) {
      }
      for (tickwheel::remote_timer& t : all) {
        const outcome o = t.cancel();
        (o == outcome::cancelled ? cancelled : o == outcome::closed ? closed : late)++;
      }
    }};
    go = true;
    for (unsigned i = 0; i < r % 8; ++i) service.time.advance(4ms);
    service.timers.close();
    other.join();
    ASSERT_TRUE(log.all_ended());
    const auto& s = service.timers.stats();
    ASSERT_EQ(s.remote_withdrawn, cancelled);
    ASSERT_EQ(s.remote_cancelled, closed);
    ASSERT_EQ(s.remote_ran, late);
    ASSERT_EQ(cancelled + closed + late, count);
  }
}

// The last handle, on whichever thread it is, takes the post queue with it.
TEST_F(remote_threads, handles_holds_timers_may_be_dropped_on_any_thread) {
  const std::size_t rounds = by_run_length(200, 5'000);
  for (std::size_t r = 0; r < rounds; ++r) {
    auto service = std::make_unique<manual_service>();
    std::vector<std::thread> threads;
    for (unsigned p = 0; p < producers; ++p)
      threads.emplace_back([handle = service->timers.remote(), hold = service->timers.hold()]() mutable {
        for (int i = 0; i < 20; ++i) {
          const tickwheel::remote_handle copy = handle;
          remote_hold another = hold;
          tickwheel::remote_timer t;
          if (copy.arm(1ms, nothing, t) != 0) break;
          if (i % 2 == 0) t.release();
          hold = std::move(another);
        }
      });
    service->time.advance(1ms);
    service->timers.close();
    EXPECT_TRUE(remote_adds_up(service->timers));
    service.reset();
    for (std::thread& t : threads) t.join();
  }
}

TEST_F(remote_threads, remote_may_be_called_while_service_closes) {
  const std::size_t rounds = by_run_length(200, 5'000);
  for (std::size_t r = 0; r < rounds; ++r) {
    manual_service service;
    std::thread other{[&timers = std::as_const(service.timers)] {
      while (timers.remote().post(1h, nothing) != UV_ECANCELED) continue;
    }};
    service.time.advance(0ns);
    service.timers.close();
    other.join();
    ASSERT_TRUE(remote_adds_up(service.timers));
  }
}

// Producers that wait for what they posted before they post again: each wakeup counts, and a lost one would hang.
TEST_F(remote_threads, loop_that_sleeps_between_posts_misses_no_wakeup) {
  const std::size_t each = by_run_length(3'000, 200'000);
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop), 0);
  std::array<std::atomic<std::size_t>, producers> served{};
  std::vector<std::thread> threads;
  for (unsigned p = 0; p < producers; ++p)
    threads.emplace_back([handle = timers.remote(), hold = timers.hold(), mine = &served[p], each] {
      for (std::size_t i = 0; i < each; ++i) {
        EXPECT_EQ(handle.post([mine]() noexcept { mine->fetch_add(1, std::memory_order_release); }), 0);
        while (mine->load(std::memory_order_acquire) == i) std::this_thread::yield();
      }
    });
  uv_run(loop.get(), UV_RUN_DEFAULT);
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(timers.stats().remote_ran, producers * each);
}

// uv_async_send must never meet a handle that is closing.
TEST_F(remote_threads, wakeups_during_close_use_no_closed_handle) {
  const std::size_t rounds = by_run_length(50, 2'000);
  for (std::size_t r = 0; r < rounds; ++r) {
    live_loop loop;
    timer_service timers;
    ASSERT_EQ(timers.open(loop), 0);
    std::atomic<unsigned> started{0};
    std::vector<std::thread> threads;
    for (unsigned p = 0; p < producers; ++p)
      threads.emplace_back([handle = timers.remote(), &started] {
        ++started;
        while (handle.post(nothing) != UV_ECANCELED) continue;
      });
    while (started != producers) uv_run(loop.get(), UV_RUN_NOWAIT);
    if (r % 2 == 0) uv_run(loop.get(), UV_RUN_NOWAIT);
    timers.close();
    loop.end();  // the handles are gone while producers may still be at it
    for (std::thread& t : threads) t.join();
    ASSERT_TRUE(remote_adds_up(timers));
  }
}

}  // namespace
