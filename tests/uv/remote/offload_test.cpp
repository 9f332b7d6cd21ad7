// Work on libuv's thread pool: a live loop for the pool, a clock turned by hand for when.
#include <tickwheel/uv/offload.hpp>

#include "../support/live_loop.hpp"
#include "../support/offloader.hpp"
#include "../support/probe.hpp"

#include <condition_variable>
#include <mutex>

using tickwheel::offload_options;
using tickwheel::offload_pool;

namespace {

constexpr int pool_threads = 2;
// before any test gives the pool its first work, which is when libuv reads it
[[maybe_unused]] const int pool_is_set = ::setenv("UV_THREADPOOL_SIZE", "2", 1);

/// What work waits at until the test lets it go on.
class gate {
 public:
  void pass() noexcept {
    std::unique_lock lock{mutex_};
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void open() {
    const std::lock_guard lock{mutex_};
    open_ = true;
    changed_.notify_all();
  }
  void wait_for(int waiting) {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return waiting_ >= waiting; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  bool open_ = false;
};

using session = offloader;

struct offload : testing::Test {
  ~offload() override { blocked.open(); }
  void SetUp() override { ASSERT_EQ(pool.open(loop, {.max_in_flight = 8}), 0); }

  /// All threads of the pool are busy from here until `blocked` opens, so that work given to it has not begun.
  void block_pool() {
    for (int i = 0; i < pool_threads; ++i) {
      requests[i].data = &blocked;
      ASSERT_EQ(uv_queue_work(
                    loop.get(), &requests[i], [](uv_work_t* r) { static_cast<gate*>(r->data)->pass(); },
                    [](uv_work_t*, int) {}),
                0);
    }
    blocked.wait_for(pool_threads);
  }
  void run() {
    blocked.open();
    loop.run();
  }
  /// Work that returns `n`; and the same after it has passed `at`.
  static auto answer(int n) {
    return [n]() noexcept { return n; };
  }
  static auto answer(int n, gate& at) {
    return [n, &at]() noexcept {
      at.pass();
      return n;
    };
  }
  /// Work that shares `held`, and answers it.
  auto hold() const {
    return [held = held]() noexcept { return *held; };
  }
  /// Work on `running`, which the test lets go on, that notes in `ended` that it ended.
  auto work_to_end() {
    return [this, held = held]() noexcept {
      running.pass();
      ended = true;
      return *held;
    };
  }
  /// The work has been destroyed.
  bool is_freed() const { return held.use_count() == 1; }
  /// Runs work that answers `n`, and is at it until `running` opens.
  void begin(session& by, int n) {
    ASSERT_EQ(by.call.run(answer(n, running)), 0);
    running.wait_for(1);
  }
  /// Work that notes that it ran.
  static auto note(std::atomic<bool>& in) {
    return [&in]() noexcept { return (in = true) ? 1 : 0; };
  }

  void open_small() { ASSERT_EQ(small.open(loop, {.max_in_flight = 1}), 0); }

  gate blocked, running;
  std::atomic<bool> ran{false}, ended{false};
  std::shared_ptr<int> held = std::make_shared<int>(1);
  uv_work_t requests[pool_threads];
  live_loop loop;
  manual_service service;
  offload_pool pool, small;
  std::optional<session> s{std::in_place, service.timers, pool};
};

TEST_F(offload, works_on_pool_thread_and_answers_on_loop_thread) {
  std::thread::id ran_on;
  const auto note_thread = [&ran_on]() noexcept {
    ran_on = std::this_thread::get_id();
    return 7;
  };
  ASSERT_EQ(s->call.run(note_thread), 0);
  EXPECT_TRUE(s->call.in_flight());
  EXPECT_EQ(pool.in_flight(), 1U);
  run();
  EXPECT_EQ(s->answers, 1);
  EXPECT_EQ(s->error, 0);
  EXPECT_EQ(s->result, 7);
  EXPECT_NE(ran_on, std::this_thread::get_id());
  EXPECT_EQ(s->on, std::this_thread::get_id());
  EXPECT_FALSE(s->call.in_flight());
  EXPECT_EQ(pool.in_flight(), 0U);
}

TEST_F(offload, armed_work_goes_to_pool_at_its_time) {
  ASSERT_EQ(s->call.arm(30s, answer(1)), 0);
  EXPECT_TRUE(s->call.armed());
  service.advance(30s - 1ns);
  EXPECT_EQ(pool.in_flight(), 0U);
  service.advance(1ns + service.tick());
  EXPECT_EQ(pool.in_flight(), 1U);
  EXPECT_FALSE(s->call.armed());
  EXPECT_TRUE(s->call.in_flight());
  run();
  EXPECT_EQ(s->answers, 1);
  EXPECT_EQ(s->result, 1);
}

TEST_F(offload, one_loop_may_have_timers_and_pool) {
  tickwheel::timer_service timers;
  ASSERT_EQ(timers.open(loop), 0);
  session live{timers, pool};
  const auto begin = tickwheel::clock::now();
  tickwheel::clock::time_point end;
  live.then = [&] { end = tickwheel::clock::now(); };
  ASSERT_EQ(live.call.arm(5ms, answer(2)), 0);
  run();
  EXPECT_EQ(live.result, 2);
  EXPECT_GE(end, begin + 5ms);
}

TEST_F(offload, move_only_work_is_destroyed_on_loop_thread) {
  struct noted {
    std::thread::id* at;
    explicit noted(std::thread::id* where) : at{where} {}
    ~noted() { *at = std::this_thread::get_id(); }
  };
  std::thread::id destroyed_on;
  ASSERT_EQ(s->call.run([n = std::make_unique<noted>(&destroyed_on)]() noexcept { return n ? 1 : 0; }), 0);
  run();
  EXPECT_EQ(s->result, 1);
  EXPECT_EQ(destroyed_on, std::this_thread::get_id());
}

TEST_F(offload, answers_work_without_result) {
  struct plain {
    int error = 1;
    void on_done(int e) noexcept { error = e; }
  } owner;
  tickwheel::offload<&plain::on_done> call{service.timers, pool, owner};
  ASSERT_EQ(call.run([this]() noexcept { ran = true; }), 0);
  run();
  EXPECT_TRUE(ran);
  EXPECT_EQ(owner.error, 0);
}

TEST_F(offload, may_run_again_in_its_handler) {
  s->then = [&] {
    if (s->answers < 3) {
      EXPECT_EQ(s->call.run([n = s->answers]() noexcept { return n; }), 0);
    }
  };
  ASSERT_EQ(s->call.run(answer(0)), 0);
  run();
  EXPECT_EQ(s->answers, 3);
  EXPECT_EQ(s->result, 2);
}

TEST_F(offload, may_be_destroyed_in_its_handler) {
  s->then = [&] { s.reset(); };
  ASSERT_EQ(s->call.run(answer(0)), 0);
  run();
  EXPECT_FALSE(s);
}

// --- the bound

TEST_F(offload, run_beyond_max_in_flight_is_refused) {
  open_small();
  block_pool();
  session a{service.timers, small}, b{service.timers, small};
  ASSERT_EQ(a.call.run(answer(1)), 0);
  EXPECT_EQ(b.call.run(answer(2)), UV_EAGAIN);
  EXPECT_FALSE(b.call.in_flight());
  EXPECT_EQ(small.refused(), 1U);
  run();
  EXPECT_EQ(a.answers, 1);
  EXPECT_EQ(b.answers, 0);
  EXPECT_EQ(b.call.run(answer(2)), 0);
  run();
  EXPECT_EQ(b.result, 2);
}

TEST_F(offload, armed_work_due_at_max_in_flight_is_answered_with_error) {
  open_small();
  block_pool();
  session a{service.timers, small}, b{service.timers, small};
  ASSERT_EQ(b.call.arm(1s, note(ran)), 0);
  ASSERT_EQ(a.call.run(answer(1)), 0);
  service.advance(2s);
  EXPECT_EQ(b.answers, 1);
  EXPECT_EQ(b.error, UV_EAGAIN);
  EXPECT_EQ(b.result, std::nullopt);
  run();
  EXPECT_EQ(b.answers, 1);
  EXPECT_FALSE(ran);
}

TEST_F(offload, cancelled_work_counts_in_flight_until_it_ends) {
  open_small();
  session a{service.timers, small}, b{service.timers, small};
  begin(a, 1);
  a.call.cancel();
  EXPECT_EQ(small.in_flight(), 1U);
  EXPECT_EQ(b.call.run(answer(2)), UV_EAGAIN);
  running.open();
  run();
  EXPECT_EQ(small.in_flight(), 0U);
}

TEST_F(offload, refused_run_keeps_armed_work) {
  open_small();
  block_pool();
  session a{service.timers, small}, b{service.timers, small};
  ASSERT_EQ(a.call.run(answer(1)), 0);
  ASSERT_EQ(b.call.arm(1h, answer(2)), 0);
  EXPECT_EQ(b.call.run(answer(3)), UV_EAGAIN);
  EXPECT_TRUE(b.call.armed());
  run();
  service.advance(2h);
  run();
  EXPECT_EQ(b.result, 2);
}

TEST_F(offload, open_refuses_max_in_flight_of_zero) {
  offload_pool none;
  EXPECT_EQ(none.open(loop, {.max_in_flight = 0}), UV_EINVAL);
  EXPECT_FALSE(none.is_open());
  EXPECT_EQ(std::string{offload_options{.max_in_flight = 0}.problem()}, "offload_options::max_in_flight is zero");
  EXPECT_EQ(offload_options{}.problem(), nullptr);
}

// --- cancelling

TEST_F(offload, cancelled_before_its_time_never_runs_and_is_freed) {
  ASSERT_EQ(s->call.arm(1s, hold()), 0);
  EXPECT_FALSE(is_freed());
  EXPECT_TRUE(s->call.cancel());
  EXPECT_TRUE(is_freed());
  EXPECT_FALSE(s->call.cancel());
  EXPECT_FALSE(s->call.armed());
  service.advance(1h);
  run();
  EXPECT_EQ(s->answers, 0);
}

TEST_F(offload, cancelled_in_queue_of_pool_never_runs) {
  block_pool();
  ASSERT_EQ(s->call.run([this, held = held]() noexcept { return (ran = true) ? *held : 0; }), 0);
  EXPECT_TRUE(s->call.cancel());
  EXPECT_FALSE(s->call.in_flight());
  EXPECT_FALSE(s->call.cancel());
  run();
  EXPECT_FALSE(ran);
  EXPECT_EQ(s->answers, 0);
  EXPECT_TRUE(is_freed());
  EXPECT_EQ(pool.in_flight(), 0U);
}

TEST_F(offload, cancelled_while_it_works_is_not_answered) {
  ASSERT_EQ(s->call.run(work_to_end()), 0);
  running.wait_for(1);
  EXPECT_TRUE(s->call.cancel());
  running.open();
  run();
  EXPECT_TRUE(ended);
  EXPECT_EQ(s->answers, 0);
}

TEST_F(offload, cancelled_with_result_on_its_way_is_not_answered) {
  ASSERT_EQ(s->call.run(note(ended)), 0);
  while (!ended) std::this_thread::yield();
  s->call.cancel();
  run();
  EXPECT_EQ(s->answers, 0);
}

TEST_F(offload, destroyed_while_it_works_lets_work_end) {
  ASSERT_EQ(s->call.run(work_to_end()), 0);
  running.wait_for(1);
  s.reset();
  running.open();
  run();
  EXPECT_TRUE(ended);
  EXPECT_TRUE(is_freed());
}

TEST_F(offload, armed_again_begins_anew) {
  std::atomic<int> first{0};
  ASSERT_EQ(s->call.arm(1s, [&first]() noexcept { return ++first; }), 0);
  ASSERT_EQ(s->call.arm(2s, answer(5)), 0);
  service.advance(1s + service.tick());
  EXPECT_EQ(pool.in_flight(), 0U);
  service.advance(1s + service.tick());
  run();
  EXPECT_EQ(first, 0);
  EXPECT_EQ(s->answers, 1);
  EXPECT_EQ(s->result, 5);
}

TEST_F(offload, armed_again_in_flight_is_answered_once) {
  begin(*s, 1);
  ASSERT_EQ(s->call.arm(1s, answer(2)), 0);
  EXPECT_FALSE(s->call.in_flight());
  EXPECT_TRUE(s->call.armed());
  running.open();
  run();
  EXPECT_EQ(s->answers, 0);
  service.advance(2s);
  run();
  EXPECT_EQ(s->answers, 1);
  EXPECT_EQ(s->result, 2);
}

TEST_F(offload, run_replaces_armed_work) {
  ASSERT_EQ(s->call.arm(1s, answer(1)), 0);
  ASSERT_EQ(s->call.run(answer(2)), 0);
  EXPECT_FALSE(s->call.armed());
  run();
  service.advance(1h);
  run();
  EXPECT_EQ(s->answers, 1);
  EXPECT_EQ(s->result, 2);
}

TEST_F(offload, work_that_owns_its_owner_may_be_cancelled) {
  auto owner = std::make_shared<session>(service.timers, pool);
  session* const raw = owner.get();
  ASSERT_EQ(raw->call.arm(1s, [keeps = std::move(owner)]() noexcept { return keeps->answers; }), 0);
  EXPECT_TRUE(raw->call.cancel());  // destroys the work, that the session, and that the offload
}

TEST_F(offload, work_that_owns_its_owner_is_answered_first) {
  auto owner = std::make_shared<session>(service.timers, pool);
  const std::weak_ptr<session> left = owner;
  int answers = 0;
  owner->then = [&] { ++answers; };
  session* const raw = owner.get();
  ASSERT_EQ(raw->call.run([keeps = std::move(owner)]() noexcept { return 1; }), 0);
  run();
  EXPECT_EQ(answers, 1);
  EXPECT_TRUE(left.expired());
}

// --- closing

TEST_F(offload, is_not_answered_after_pool_closed) {
  begin(*s, 1);
  pool.close();
  pool.close();
  EXPECT_FALSE(s->call.in_flight());
  EXPECT_FALSE(s->call.cancel());
  EXPECT_EQ(s->call.run(answer(1)), UV_ECANCELED);
  running.open();
  run();
  EXPECT_EQ(s->answers, 0);
}

TEST_F(offload, not_begun_when_pool_closes_never_runs) {
  block_pool();
  ASSERT_EQ(s->call.run(note(ran)), 0);
  pool.close();
  run();
  EXPECT_FALSE(ran);
}

TEST_F(offload, may_destroy_pool_in_its_handler) {
  auto own = std::make_unique<offload_pool>();
  ASSERT_EQ(own->open(loop), 0);
  session a{service.timers, *own}, b{service.timers, *own};
  a.then = b.then = [&] { own.reset(); };
  ASSERT_EQ(a.call.run(answer(1)), 0);
  ASSERT_EQ(b.call.run(answer(1)), 0);
  run();
  EXPECT_EQ(own, nullptr);
  EXPECT_EQ(a.answers + b.answers, 1) << "closing cancels the other";
}

TEST_F(offload, works_in_pool_that_was_opened_again) {
  EXPECT_EQ(pool.open(loop), UV_EALREADY);
  block_pool();
  ASSERT_EQ(s->call.run(answer(1)), 0);
  pool.close();
  ASSERT_EQ(pool.open(loop, {.max_in_flight = 1}), 0);
  EXPECT_EQ(pool.in_flight(), 0U);
  ASSERT_EQ(s->call.run(answer(2)), 0);
  run();
  EXPECT_EQ(s->answers, 1);
  EXPECT_EQ(s->result, 2);
}

TEST_F(offload, service_close_ends_armed_work_but_not_work_in_flight) {
  session flying{service.timers, pool};
  ASSERT_EQ(s->call.arm(1s, hold()), 0);
  ASSERT_EQ(flying.call.run(answer(1)), 0);
  service.timers.close();
  EXPECT_FALSE(s->call.armed());
  EXPECT_FALSE(s->call.cancel());
  EXPECT_TRUE(is_freed());
  EXPECT_EQ(s->call.arm(1s, answer(1)), UV_ECANCELED);
  run();
  EXPECT_EQ(flying.answers, 1);
  EXPECT_EQ(s->answers, 0);
}

TEST_F(offload, may_be_answered_and_destroyed_after_service) {
  mortal_service own;
  session a{*own.timers, pool}, b{*own.timers, pool};
  ASSERT_EQ(a.call.run(answer(1)), 0);
  ASSERT_EQ(b.call.arm(1s, answer(1)), 0);
  own.timers.reset();
  run();
  EXPECT_EQ(a.answers, 1);
}

TEST_F(offload, keeps_loop_open_until_work_has_come_back) {
  uv_loop_t other;
  ASSERT_EQ(uv_loop_init(&other), 0);
  {
    offload_pool own;
    ASSERT_EQ(own.open(other), 0);
    session a{service.timers, own};
    begin(a, 1);
  }
  EXPECT_EQ(uv_loop_close(&other), UV_EBUSY);
  running.open();
  uv_run(&other, UV_RUN_DEFAULT);
  EXPECT_EQ(uv_loop_close(&other), 0);
}

TEST_F(offload, arm_refused_at_max_armed_frees_work) {
  manual_service few{{.max_armed = 1}};
  session a{few.timers, pool}, b{few.timers, pool};
  ASSERT_EQ(a.call.arm(1s, answer(1)), 0);
  EXPECT_EQ(b.call.arm(1s, hold()), UV_ENOBUFS);
  EXPECT_TRUE(is_freed());
  EXPECT_FALSE(b.call.cancel());
}

TEST_F(offload, answers_each_of_many_sessions_once) {
  std::atomic<int> worked{0};
  int answered = 0, refused = 0;
  std::vector<std::unique_ptr<session>> all;
  for (int i = 0; i < 500; ++i) {
    session& each = *all.emplace_back(std::make_unique<session>(service.timers, pool));
    const auto work = [&worked, i]() noexcept {
      ++worked;
      return i;
    };
    ASSERT_EQ(each.call.arm(std::chrono::milliseconds{i}, work), 0);
  }
  for (int i = 0; i < 100; ++i) {
    service.advance(5ms + service.tick());
    uv_run(loop.get(), UV_RUN_NOWAIT);
  }
  run();
  for (int i = 0; i < 500; ++i) {
    const session& each = *all[static_cast<std::size_t>(i)];
    ASSERT_EQ(each.answers, 1) << i;
    if (each.error == 0) {
      ASSERT_EQ(each.result, i);
    }
    ++(each.error == 0 ? answered : refused);
  }
  EXPECT_EQ(answered, worked);
  EXPECT_EQ(static_cast<std::size_t>(refused), pool.refused());
}

struct handlers {
  void tells(int, int*) noexcept {}
  void tells_const(int, int*) const noexcept {}
  void may_throw(int, int*) {}
};
struct throws {
  int operator()() const { return 1; }
};
template <auto Member>
concept makes_an_offload = requires {
  sizeof(tickwheel::offload<Member>);
};
static_assert(makes_an_offload<&handlers::tells>);
static_assert(makes_an_offload<&handlers::tells_const>);
static_assert(!makes_an_offload<&handlers::may_throw>);
static_assert(!tickwheel::noexcept_offload_work<throws, int>);

}  // namespace
