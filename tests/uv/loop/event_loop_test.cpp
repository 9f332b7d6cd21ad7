// An event_loop opens, runs and closes a loop and its timers in the right order.
#include <tickwheel/uv/event_loop.hpp>
#include <tickwheel/uv/remote.hpp>
#include <tickwheel/uv/timer.hpp>

#include "../../support/prelude.hpp"

namespace {

/// An open loop, and a timer that counts.
class event_loop : public testing::Test {
 protected:
  event_loop() { EXPECT_EQ(loop.open(), 0); }

  void on_time() noexcept { ++ran; }
  int ran = 0;
  tickwheel::event_loop loop;
  tickwheel::member_timer<&event_loop::on_time> timeout{loop.timers(), *this};
};

uv_handle_t* base(auto& handle) { return reinterpret_cast<uv_handle_t*>(&handle); }

TEST_F(event_loop, closes_itself_without_having_been_opened) {
  tickwheel::event_loop unopened;
  EXPECT_FALSE(unopened.is_open());
  unopened.close();
}

TEST_F(event_loop, closes_itself_without_having_run) {
  EXPECT_TRUE(loop.is_open());
  EXPECT_TRUE(loop.timers().is_open());
}

TEST_F(event_loop, run_returns_once_nothing_is_armed) {
  ASSERT_EQ(timeout.arm(1ms), 0);
  EXPECT_FALSE(loop.run());
  EXPECT_EQ(ran, 1);
}

TEST_F(event_loop, run_returns_true_if_something_is_active) {
  ASSERT_EQ(timeout.arm(1h), 0);
  EXPECT_TRUE(loop.run(UV_RUN_NOWAIT));
}

TEST_F(event_loop, stop_ends_run) {
  tickwheel::callback_timer stops{loop.timers(), [this]() noexcept { loop.stop(); }};
  ASSERT_EQ(timeout.arm(1h), 0);
  ASSERT_EQ(stops.arm(1ms), 0);
  EXPECT_TRUE(loop.run());
}

TEST_F(event_loop, close_runs_no_handler_and_keeps_statistics) {
  ASSERT_EQ(timeout.arm(0s), 0);
  loop.close();
  EXPECT_FALSE(loop.is_open());
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(loop.timers().stats().armed, 1U);
  EXPECT_EQ(timeout.arm(1s), UV_ECANCELED);
}

TEST_F(event_loop, is_open_already_when_opened_twice) {
  EXPECT_EQ(loop.open(), UV_EALREADY);
  EXPECT_TRUE(loop.is_open());
}

TEST_F(event_loop, opens_again_after_close) {
  loop.close();
  ASSERT_EQ(loop.open(), 0);
  ASSERT_EQ(timeout.arm(1ms), 0);
  loop.run();
  EXPECT_EQ(ran, 1);
}

TEST_F(event_loop, is_closed_after_open_was_given_an_invalid_option) {
  loop.close();
  EXPECT_EQ(loop.open({.tick = -1ns}), UV_EINVAL);
  EXPECT_FALSE(loop.is_open());
  EXPECT_EQ(loop.open(), 0);
}

TEST_F(event_loop, closes_a_timerfd) {
  loop.close();
  const int error = loop.open({.wakeup = tickwheel::wake_by::timerfd});
  if (error == UV_ENOTSUP) GTEST_SKIP() << "there is no timerfd";
  ASSERT_EQ(error, 0);
  ASSERT_EQ(timeout.arm(1ms), 0);
  loop.run();
  EXPECT_EQ(ran, 1);
}

TEST_F(event_loop, close_runs_close_callbacks) {
  uv_tcp_t socket;
  bool closed = false;
  ASSERT_EQ(uv_tcp_init(&loop.uv(), &socket), 0);
  socket.data = &closed;
  uv_close(base(socket), [](uv_handle_t* h) { *static_cast<bool*>(h->data) = true; });
  loop.close();
  EXPECT_TRUE(closed);
}

TEST_F(event_loop, close_waits_for_handles_that_a_close_callback_closes) {
  uv_timer_t first;
  uv_timer_t second;
  ASSERT_EQ(uv_timer_init(&loop.uv(), &first), 0);
  ASSERT_EQ(uv_timer_init(&loop.uv(), &second), 0);
  first.data = &second;
  uv_close(base(first), [](uv_handle_t* h) { uv_close(base(*static_cast<uv_timer_t*>(h->data)), nullptr); });
  loop.close();
  EXPECT_NE(uv_is_closing(base(second)), 0);
}

TEST_F(event_loop, close_waits_for_work_on_the_thread_pool) {
  uv_work_t work;
  bool done = false;
  work.data = &done;
  const auto sleep = [](uv_work_t*) { std::this_thread::sleep_for(20ms); };
  ASSERT_EQ(uv_queue_work(&loop.uv(), &work, sleep, [](uv_work_t* w, int) { *static_cast<bool*>(w->data) = true; }), 0);
  loop.close();
  EXPECT_TRUE(done);
}

TEST_F(event_loop, close_ignores_an_earlier_stop) {
  loop.stop();
  loop.close();
  EXPECT_FALSE(loop.is_open());
}

TEST_F(event_loop, timers_may_be_closed_before_the_loop) {
  loop.timers().close();
  EXPECT_FALSE(loop.run());
  loop.close();
}

TEST_F(event_loop, remote_handle_outlives_it) {
  std::optional<tickwheel::event_loop> own{std::in_place};
  ASSERT_EQ(own->open(), 0);
  const tickwheel::remote_handle remote = own->timers().remote();
  own.reset();
  EXPECT_EQ(remote.post(1s, []() noexcept {}), UV_ECANCELED);
}

TEST_F(event_loop, opened_here_runs_and_closes_on_another_thread) {
  ASSERT_EQ(timeout.arm(1ms), 0);
  std::thread{[this] {
    loop.run();
    loop.close();
  }}.join();
  EXPECT_EQ(ran, 1);
}

void leave_handles_open() {
  tickwheel::event_loop loop;
  if (loop.open() != 0) std::abort();
  uv_tcp_t sockets[2];
  uv_timer_t unstarted;
  for (uv_tcp_t& s : sockets) uv_tcp_init(&loop.uv(), &s);
  uv_timer_init(&loop.uv(), &unstarted);
  loop.close();
}

TEST_F(event_loop, close_names_handles_that_were_left_open) {
  EXPECT_DEATH(leave_handles_open(),
               "tickwheel: event_loop: closed while handles are open: 2 tcp 1 timer; call uv_close for each first");
}

void close_in_a_handler() {
  tickwheel::event_loop loop;
  if (loop.open() != 0) std::abort();
  tickwheel::callback_timer timeout{loop.timers(), [&loop]() noexcept { loop.close(); }};
  if (timeout.arm(0s) == 0) loop.run();
}

TEST_F(event_loop, names_a_close_by_one_of_its_callbacks) {
  EXPECT_DEATH(close_in_a_handler(), "tickwheel: event_loop: closed by a callback of the loop");
}

void exit_in_a_handler() {
  static tickwheel::event_loop loop;
  if (loop.open() != 0) std::abort();
  tickwheel::callback_timer timeout{loop.timers(), []() noexcept { std::exit(0); }};
  if (timeout.arm(0s) == 0) loop.run();
}

TEST_F(event_loop, names_an_exit_in_a_handler_of_a_static_loop) {
  EXPECT_DEATH(exit_in_a_handler(), "tickwheel: event_loop: closed by a callback of the loop");
}

/// Calls `call` when it is destroyed.
template <class F>
struct at_end {
  explicit at_end(F f) noexcept : call{std::move(f)} {}
  at_end(at_end&& from) noexcept : call{std::move(from.call)}, armed{std::exchange(from.armed, false)} {}
  ~at_end() {
    if (armed) call();
  }
  void operator()() noexcept {}
  F call;
  bool armed = true;
};

/// A posted callable does not run, because the loop closes. Its destructor calls `in_destructor`.
template <class F>
void close_with_posted(tickwheel::event_loop& loop, F in_destructor) {
  if (loop.timers().remote().post(at_end{std::move(in_destructor)}) != 0) std::abort();
  loop.close();
}

TEST_F(event_loop, names_a_close_by_destructor_of_posted_callable) {
  EXPECT_DEATH(close_with_posted(loop, [&]() noexcept { loop.close(); }),
               "event_loop: closed by a callback of the loop");
}

TEST_F(event_loop, names_timers_opened_again_while_it_closes) {
  EXPECT_DEATH(close_with_posted(loop, [&]() noexcept { (void)loop.timers().open(loop.uv()); }),
               "event_loop: its timers were opened again while it closes");
}

TEST_F(event_loop, names_a_run_before_open_or_after_close) {
  tickwheel::event_loop unopened;
  EXPECT_DEATH(unopened.run(), "tickwheel: event_loop: run was called before open or after close");
  loop.close();
  EXPECT_DEATH(loop.run(), "tickwheel: event_loop: run was called before open or after close");
}

}  // namespace
