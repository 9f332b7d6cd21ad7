// Posted callables that own what they capture: each that is accepted is destroyed once, on the loop's thread, whatever ends it.
#include "../support/allocation_checks.hpp"
#include "../support/counted_callable.hpp"
#include "../support/probe.hpp"
#include "../support/remote_checks.hpp"

#include <tickwheel/uv/remote.hpp>

using tickwheel::remote_callable;
using tickwheel::remote_callable_size;
using tickwheel::remote_handle;
using tickwheel::remote_timer;
using tickwheel::timer_service;
using outcome = tickwheel::remote_timer::outcome;

namespace {

// --- what can be posted ---

template <std::size_t Size>
struct sized {
  std::array<unsigned char, Size> bytes;
  void operator()() noexcept {}
};
struct throwing {
  void operator()() {}
};
struct with_argument {
  void operator()(int) noexcept {}
};
struct only_const {
  void operator()() const noexcept {}
};
struct throwing_move {
  throwing_move(throwing_move&&) {}
  void operator()() noexcept {}
};
struct throwing_destructor {
  ~throwing_destructor() noexcept(false) {}
  void operator()() noexcept {}
};
constexpr auto captures = [](auto value) { return [v = std::move(value)]() noexcept { (void)v; }; };

static_assert(remote_callable<void (*)() noexcept> && remote_callable<only_const>);
static_assert(remote_callable<sized<1>> && remote_callable<sized<1000>>, "large ones cost an allocation");
static_assert(remote_callable<decltype(captures(std::string{}))>);
static_assert(remote_callable<decltype(captures(std::unique_ptr<int>{}))>, "it is moved, not copied");
static_assert(remote_callable<counted_callable<128, 64>>, "one that is more aligned than the node costs an allocation");
static_assert(!remote_callable<throwing> && !remote_callable<void (*)()>, "C frames cannot be unwound");
static_assert(!remote_callable<with_argument>, "there is nothing to call it with");
static_assert(!remote_callable<throwing_move> && !remote_callable<throwing_destructor>);
static_assert(!remote_callable<std::unique_ptr<int>> && !remote_callable<int> && !remote_callable<only_const&>);
static_assert(remote_callable_size >= 40, "five words is the least that is promised");

// --- one callable, to each of its ends ---

/// A service, a log, and a callable of type `Callable`.
template <class Callable>
class posted_callable : public testing::Test {
 protected:
  using handler = Callable;

  int post(std::chrono::nanoseconds after = 0ns) { return handle().post(after, Callable{log}); }
  int arm(std::chrono::nanoseconds after) { return handle().arm(after, Callable{log}, timer); }
  remote_handle handle() const { return service.timers.remote(); }

  /// Expects that so many callables ran, and that all are destroyed.
  void expect_ended(int ran) const {
    EXPECT_EQ(log.ran, ran);
    EXPECT_TRUE(log.all_ended());
  }
  void expect_alive() const { EXPECT_EQ(log.destroyed, 0); }

  callable_log log;
  manual_service service{{.work_per_pass = 4}};
  remote_timer timer;
};

using large_one = counted_callable<1000>;
using aligned_one = counted_callable<128, 64>;
using kinds = testing::Types<counted_callable<>, counted_callable<remote_callable_size>, large_one, aligned_one>;
TYPED_TEST_SUITE(posted_callable, kinds);

TYPED_TEST(posted_callable, is_destroyed_after_it_ran) {
  ASSERT_EQ(this->post(), 0);
  this->expect_alive();
  this->service.turn();
  this->expect_ended(1);
}

TYPED_TEST(posted_callable, is_destroyed_after_it_ran_with_delay) {
  ASSERT_EQ(this->post(10ms), 0);
  this->service.advance(9ms);
  this->expect_alive();
  this->service.advance(2ms);
  this->expect_ended(1);
}

TYPED_TEST(posted_callable, cancelled_in_queue_is_destroyed_when_taken) {
  remote_timer delayed;
  ASSERT_EQ(this->arm(0ms), 0);
  ASSERT_EQ(this->handle().arm(10ms, TypeParam{this->log}, delayed), 0);
  EXPECT_EQ(this->timer.cancel(), outcome::cancelled);
  EXPECT_EQ(delayed.cancel(), outcome::cancelled);
  this->expect_alive();
  this->service.turn();
  this->expect_ended(0);
}

TYPED_TEST(posted_callable, cancelled_in_wheel_is_destroyed_with_notice) {
  ASSERT_EQ(this->arm(1h), 0);
  this->service.turn();
  EXPECT_EQ(this->timer.cancel(), outcome::cancelled);
  this->expect_alive();
  this->service.turn();
  this->expect_ended(0);
}

// The deadline comes between the two halves of a cancel on another thread.
TYPED_TEST(posted_callable, cancelled_before_notice_is_destroyed_when_due) {
  remote_timer refused;
  ASSERT_EQ(this->arm(10ms), 0);
  ASSERT_EQ(this->handle().arm(10ms, TypeParam{this->log}, refused), 0);
  this->service.turn();
  cancel_in_steps in_time{this->timer}, too_late{refused};
  ASSERT_TRUE(in_time.win() && too_late.win());
  this->expect_alive();
  this->service.advance(20ms);
  this->expect_ended(0);
  in_time.tell_loop();
  this->service.advance(0ns);
  this->service.timers.close();
  too_late.tell_loop();
  this->expect_ended(0);
}

TYPED_TEST(posted_callable, is_destroyed_by_close_wherever_it_is) {
  for (int i = 0; i < 6; ++i) ASSERT_EQ(this->post(1s), 0);
  this->service.turn();  // four in the wheel, two were taken and wait
  ASSERT_EQ(this->post(), 0);
  ASSERT_EQ(this->arm(1s), 0);
  this->expect_alive();
  this->service.timers.close();
  this->expect_ended(0);
  EXPECT_EQ(this->timer.cancel(), outcome::closed) << "a timer that outlives the service holds no callable";
}

TYPED_TEST(posted_callable, cancelled_is_destroyed_by_close) {
  std::array<remote_timer, 3> timers;
  for (std::size_t i = 0; i < 2; ++i) ASSERT_EQ(this->handle().arm(1s, TypeParam{this->log}, timers[i]), 0);
  this->service.turn();
  ASSERT_EQ(this->handle().arm(1s, TypeParam{this->log}, timers[2]), 0);
  cancel_in_steps late{timers[0]};
  ASSERT_TRUE(late.win());                            // its notice comes too late
  EXPECT_EQ(timers[1].cancel(), outcome::cancelled);  // its notice is in the inbox
  EXPECT_EQ(timers[2].cancel(), outcome::cancelled);  // never taken
  this->expect_alive();
  this->service.timers.close();
  this->expect_ended(0);
  late.tell_loop();
  EXPECT_EQ(timers[0].cancel(), outcome::cancelled);
  EXPECT_EQ(this->service.timers.stats().remote_withdrawn, 3U);
}

TYPED_TEST(posted_callable, is_gone_before_its_timer) {
  ASSERT_EQ(this->arm(0ms), 0);
  this->service.turn();
  this->expect_ended(1);
  EXPECT_EQ(this->timer.cancel(), outcome::too_late);
}

TYPED_TEST(posted_callable, may_own_its_own_timer) {
  auto owned = std::make_shared<remote_timer>();
  remote_timer& out = *owned;
  struct {
    TypeParam counted;
    std::shared_ptr<remote_timer> owns;
    void operator()() noexcept { counted(); }
  } call{TypeParam{this->log}, std::move(owned)};
  ASSERT_EQ(this->handle().arm(1ms, std::move(call), out), 0);
  this->service.advance(2ms);
  this->expect_ended(1);
}

TYPED_TEST(posted_callable, takes_at_most_one_more_block) {
  const auto outstanding = allocations::outstanding();
  const auto count = allocations::count();
  const auto bytes = allocations::bytes();
  ASSERT_EQ(this->post(1ms), 0);
  const bool fits = sizeof(TypeParam) <= remote_callable_size;
  EXPECT_EQ(allocations::count(), count + (fits ? 1 : 2));
  if (fits) {
    EXPECT_LE(allocations::bytes() - bytes, 128U);
  }
  this->service.advance(2ms);
  EXPECT_EQ(allocations::outstanding(), outstanding);
}

// --- refused ---

/// Expects that `call` is still the caller's, and runs.
template <class Callable>
void expect_untouched(Callable& call, callable_log& log) {
  EXPECT_TRUE(call);
  EXPECT_EQ(log.made, 1);
  EXPECT_EQ(log.destroyed, 0);
  call();
  EXPECT_EQ(log.ran.exchange(0), 1);
}

TYPED_TEST(posted_callable, refused_by_limit_or_close_is_unmoved) {
  manual_service full{{.max_queued = 0}}, crowded{{.max_armed = 0}}, closed;
  closed.timers.close();
  TypeParam call{this->log};
  const auto expect_refused = [&](const remote_handle& by, int error) {
    EXPECT_EQ(by.post(std::move(call)), error);
    EXPECT_EQ(by.post(1s, std::move(call)), error);
    EXPECT_EQ(by.post_at(tickwheel::clock::time_point{}, std::move(call)), error);
    EXPECT_EQ(by.arm(1s, std::move(call), this->timer), error);
    EXPECT_EQ(by.arm_at(tickwheel::clock::time_point{}, std::move(call), this->timer), error);
    expect_untouched(call, this->log);
  };
  expect_refused(full.timers.remote(), UV_EAGAIN);
  expect_refused(crowded.timers.remote(), UV_EAGAIN);
  expect_refused(closed.timers.remote(), UV_ECANCELED);
  expect_refused(remote_handle{}, UV_ECANCELED);
}

TYPED_TEST(posted_callable, refused_without_memory_is_unmoved) {
  const bool fits = sizeof(TypeParam) <= remote_callable_size;
  const auto outstanding = allocations::outstanding();
  TypeParam call{this->log};
  for (std::size_t spared = 0; spared < (fits ? 1 : 2); ++spared) {
    const allocations::failure failure{spared};
    EXPECT_EQ(this->handle().post(std::move(call)), UV_ENOMEM);
    EXPECT_EQ(this->handle().arm(1s, std::move(call), this->timer), UV_ENOMEM);
    expect_untouched(call, this->log);
  }
  EXPECT_EQ(allocations::outstanding(), outstanding);
  EXPECT_EQ(this->service.timers.stats().remote_accepted, 0U) << "the places were given back";
}

// The service closes when the callable is in its node. Only another thread can do that to a post; here it is done step by step.
TYPED_TEST(posted_callable, refused_by_close_in_midst_is_moved_back) {
  const auto outstanding = allocations::outstanding();
  const remote_handle handle = this->handle();
  TypeParam call{this->log};
  this->log.in_move = [this] { this->service.timers.close(); };
  EXPECT_EQ(handle.post(std::move(call)), UV_ECANCELED);
  expect_untouched(call, this->log);
  EXPECT_LE(allocations::outstanding(), outstanding);
  EXPECT_EQ(this->service.timers.stats().remote_accepted, 0U);
}

TEST(posted_lambda, refused_by_close_in_midst_is_moved_back) {
  callable_log log;
  manual_service service;
  const remote_handle handle = service.timers.remote();
  std::unique_ptr<int> number = std::make_unique<int>(7);
  const int* const at = number.get();
  auto call = [counted = counted_callable<>{log}, n = std::move(number)]() noexcept { return n.get(); };
  static_assert(!std::is_move_assignable_v<decltype(call)>);
  log.in_move = [&] { service.timers.close(); };
  EXPECT_EQ(handle.post(std::move(call)), UV_ECANCELED);
  EXPECT_EQ(call(), at);
  EXPECT_EQ(log.destroyed, 0);
}

// --- lvalues, functions, and what is trivially copied ---

TEST(posted_lambda, passed_as_lvalue_is_copied) {
  callable_log log;
  manual_service service;
  {
    const counted_callable<> call{log};
    const remote_handle handle = service.timers.remote();
    ASSERT_EQ(handle.post(call), 0);
    ASSERT_EQ(handle.post(1ms, call), 0);
    service.advance(2ms);
    EXPECT_EQ(log.ran, 2);
    EXPECT_EQ(log.made, 3);
    EXPECT_EQ(log.destroyed, 2);
    service.timers.close();
    EXPECT_EQ(handle.post(call), UV_ECANCELED);
    EXPECT_EQ(log.made, 3);
  }
  EXPECT_TRUE(log.all_ended());
}

int calls_of_function = 0;
void function() noexcept { ++calls_of_function; }

TEST(posted_lambda, may_be_a_function) {
  manual_service service;
  ASSERT_EQ(service.timers.remote().post(function), 0);
  ASSERT_EQ(service.timers.remote().post(&function), 0);
  service.turn();
  EXPECT_EQ(calls_of_function, 2);
}

TEST(posted_lambda, carries_its_bytes_in_node_or_block) {
  const auto carries = [](auto bytes) {
    manual_service service;
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i + 1);
    auto got = bytes;
    for (const auto delay : {0ms, 5ms}) {
      got.fill(0);
      ASSERT_EQ(service.timers.remote().post(delay, [to = &got, bytes]() noexcept { *to = bytes; }), 0);
      service.advance(10ms);
      EXPECT_EQ(got, bytes);
    }
  };
  carries(std::array<unsigned char, remote_callable_size - sizeof(void*)>{});
  carries(std::array<unsigned char, remote_callable_size - sizeof(void*) + 1>{});
  carries(std::array<unsigned char, 5000>{});
}

TEST(posted_lambda, hands_over_what_it_owns) {
  manual_service service;
  std::string got;
  ASSERT_EQ(service.timers.remote().post(
                [text = std::string(1000, 'x'), to = &got]() mutable noexcept { *to = std::move(text); }),
            0);
  service.turn();
  EXPECT_EQ(got, std::string(1000, 'x'));
}

TEST(callable_destructor, that_blocks_is_not_blamed_on_others) {
  manual_service service{{.slow_handler = 1s}};
  callable_log log;
  remote_timer timer;
  log.in_destructor = [&] { service.time.block(2s); };
  ASSERT_EQ(service.timers.remote().post(nothing), 0);
  ASSERT_EQ(service.timers.remote().arm(0s, counted_callable<>{log}, timer), 0);
  timer.cancel();
  service.turn();
  EXPECT_TRUE(log.all_ended());
  EXPECT_EQ(service.timers.stats().slow_handlers, 0U);
}

// --- what a destructor may do, wherever it runs ---

enum class place {
  ran,
  fired,
  cancelled_in_queue,
  cancelled_in_queue_with_delay,
  cancelled_in_wheel,
  cancelled_when_due,
  closed_in_queue,
  closed_in_wheel,
  closed_with_notice,
};
enum class deed { closes, destroys, replaces };

/// A callable that ends its service in its destructor, and what is posted beside it.
class ending_callable : leak_check {
 public:
  void run(place where, deed what);

 private:
  void act(deed what) {
    if (what == deed::destroys) return service.reset();
    service->close();
    if (what == deed::replaces) {
      ASSERT_EQ(service->open(time), 0);
      ASSERT_EQ(service->remote().post(counted_callable<>{later}), 0);
    }
  }
  int arm(std::chrono::nanoseconds after) { return service->remote().arm(after, counted_callable<>{log}, timer); }

  /// Ends the callable of `timer` there.
  void end(place where) {
    // the first visit of a pass is followed by a look at the clock, later ones come in a row
    ASSERT_EQ(service->remote().post(nothing), 0);
    switch (where) {
      case place::ran:
        ASSERT_EQ(arm(0s), 0);
        break;
      case place::fired:
        ASSERT_EQ(arm(5ms), 0);
        break;
      case place::cancelled_in_queue:
        ASSERT_EQ(arm(0s), 0);
        ASSERT_EQ(timer.cancel(), outcome::cancelled);
        break;
      case place::cancelled_in_queue_with_delay:
        ASSERT_EQ(arm(1h), 0);
        ASSERT_EQ(timer.cancel(), outcome::cancelled);
        break;
      case place::cancelled_in_wheel:
        ASSERT_EQ(arm(1h), 0);
        time.turn();
        ASSERT_EQ(timer.cancel(), outcome::cancelled);
        break;
      case place::cancelled_when_due:  // by the handler before it in the same pass
        ASSERT_EQ(service->remote().post(5ms, [t = &timer]() noexcept { EXPECT_EQ(t->cancel(), outcome::cancelled); }),
                  0);
        ASSERT_EQ(arm(10ms), 0);
        time.turn();
        break;
      case place::closed_in_queue:
        ASSERT_EQ(arm(0s), 0);
        return post_others_and([&] { service->close(); });
      case place::closed_in_wheel:
        ASSERT_EQ(arm(1h), 0);
        time.turn();
        return post_others_and([&] { service->close(); });
      case place::closed_with_notice:
        ASSERT_EQ(arm(1h), 0);
        time.turn();
        ASSERT_EQ(timer.cancel(), outcome::cancelled);
        return post_others_and([&] { service->close(); });
    }
    post_others_and([&] {
      time.block(20ms);
      time.advance(0ns);
    });
  }
  template <class F>
  void post_others_and(F then) {
    ASSERT_EQ(service->remote().post(counted_callable<>{others}), 0);
    ASSERT_EQ(service->remote().post(1h, counted_callable<>{others}), 0);
    then();
  }

  callable_log log, others, later;
  tickwheel::manual_driver time{tickwheel::clock::time_point{1h}};
  std::unique_ptr<timer_service> service;
  remote_timer timer;
};

void ending_callable::run(place where, deed what) {
  service = std::make_unique<timer_service>();
  ASSERT_EQ(service->open(time), 0);
  bool acted = false;
  log.in_destructor = [&] {
    acted = true;
    timer.release();  // so that nobody else keeps the memory
    act(what);
  };
  end(where);
  EXPECT_TRUE(acted);
  EXPECT_EQ(log.ran, where == place::ran || where == place::fired ? 1 : 0);
  EXPECT_TRUE(log.all_ended());
  EXPECT_EQ(others.made, 2);
  EXPECT_TRUE(others.all_ended()) << "the service that was closed has ended all";
  EXPECT_EQ(service != nullptr && service->is_open(), what == deed::replaces);
  if (what == deed::replaces) {
    EXPECT_TRUE(is_valid(*service));
    time.advance(1ms);
    EXPECT_EQ(later.ran, 1);
    EXPECT_TRUE(later.all_ended());
  }
}

TEST(callable_destructor, may_end_the_service_wherever_it_runs) {
  for (const place where : {place::ran, place::fired, place::cancelled_in_queue, place::cancelled_in_queue_with_delay,
                            place::cancelled_in_wheel, place::cancelled_when_due, place::closed_in_queue,
                            place::closed_in_wheel, place::closed_with_notice}) {
    for (const deed what : {deed::closes, deed::destroys, deed::replaces}) {
      SCOPED_TRACE(testing::Message{} << "place " << static_cast<int>(where) << ", deed " << static_cast<int>(what));
      ending_callable{}.run(where, what);
    }
  }
}

// A callable that owns the last reference to the service.
TEST(callable_destructor, may_release_the_last_reference_to_the_service) {
  tickwheel::manual_driver time;
  for (const bool runs : {true, false}) {
    auto owned = std::make_shared<timer_service>();
    timer_service& service = *owned;
    const std::weak_ptr<timer_service> left = owned;
    ASSERT_EQ(service.open(time), 0);
    ASSERT_EQ(service.remote().post([keeps = std::move(owned)]() noexcept { (void)keeps; }), 0);
    if (runs)
      time.turn();
    else
      service.close();
    EXPECT_TRUE(left.expired());
  }
}

void open_in_destructor_while_destroyed() {
  tickwheel::manual_driver time{tickwheel::clock::time_point{1h}};
  callable_log log;
  timer_service timers;
  if (timers.open(time) != 0 || timers.remote().post(counted_callable<>{log}) != 0) std::abort();
  log.in_destructor = [&] { (void)timers.open(time); };
}

TEST(callable_destructor, may_not_open_a_service_being_destroyed) {
  EXPECT_DEATH(open_in_destructor_while_destroyed(), "opened it again while it was destroyed");
}

TEST(callable_destructor, may_open_a_service_that_closes) {
  tickwheel::manual_driver time{tickwheel::clock::time_point{1h}};
  callable_log log;
  timer_service timers;
  ASSERT_EQ(timers.open(time), 0);
  ASSERT_EQ(timers.remote().post(counted_callable<>{log}), 0);
  log.in_destructor = [&] { EXPECT_EQ(timers.open(time), 0); };
  timers.close();
  EXPECT_TRUE(timers.is_open());
  EXPECT_TRUE(log.all_ended());
}

TEST(posted_lambda, may_return_a_value_that_must_be_checked) {
  struct returns_nodiscard {
    [[nodiscard]] int operator()() noexcept { return 1; }
  };
  manual_service service;
  EXPECT_EQ(service.timers.remote().post(returns_nodiscard{}), 0);
  service.turn();
  EXPECT_EQ(service.timers.stats().remote_ran, 1U);
}

}  // namespace
