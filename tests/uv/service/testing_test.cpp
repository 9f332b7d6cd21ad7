// The manual_service that users test with: it runs timers on manual time, and reports a broken service.
#include <tickwheel/testing.hpp>
#include <tickwheel/uv/timer.hpp>

#include "../../support/prelude.hpp"

namespace {

std::string reported;
void report(const char* why) noexcept { reported = why; }

TEST(manual_service, starts_an_hour_after_the_clocks_epoch) {
  tickwheel::manual_service manual;
  EXPECT_TRUE(manual.timers.is_open());
  EXPECT_EQ(manual.time.now().time_since_epoch(), 1h);
}

TEST(manual_service, advance_runs_each_timer_at_its_time) {
  tickwheel::manual_service manual;
  tickwheel::clock::time_point at{};
  tickwheel::callback_timer timeout{manual.timers, [&]() noexcept { at = manual.timers.now(); }};
  const auto began = manual.time.now();
  ASSERT_EQ(timeout.arm(60s), 0);
  manual.advance(60s - 1ns);
  EXPECT_EQ(at, tickwheel::clock::time_point{});
  manual.advance(1h);
  EXPECT_GE(at, began + 60s);
  EXPECT_LE(at, began + 60s + manual.timers.tick_duration());
}

TEST(manual_service, turn_runs_what_is_due_without_moving_the_clock) {
  tickwheel::manual_service manual;
  int ran = 0;
  tickwheel::callback_timer timeout{manual.timers, [&ran]() noexcept { ++ran; }};
  ASSERT_EQ(timeout.arm(0s), 0);
  const auto before = manual.time.now();
  EXPECT_TRUE(manual.turn());
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(manual.time.now(), before);
  EXPECT_FALSE(manual.turn());
}

TEST(manual_service, reports_why_it_could_not_open) {
  reported.clear();
  tickwheel::manual_service manual{{.tick = -1ns}, report};
  EXPECT_EQ(reported, "service_options::tick is not positive");
  EXPECT_FALSE(manual.timers.is_open());
}

TEST(manual_service, stops_the_process_when_it_could_not_open) {
  EXPECT_DEATH(tickwheel::manual_service{{.tick = -1ns}}, "tickwheel: service_options::tick is not positive");
}

// Private members: an explicit instantiation may name them.
template <class Member, typename Member::type Pointer>
struct exposed {
  friend typename Member::type pointer_to(Member) { return Pointer; }
};
struct dispatcher_member {
  using type = tickwheel::detail::dispatcher tickwheel::timer_service::*;
  friend type pointer_to(dispatcher_member);
};
struct expiry_member {
  using type = tickwheel::tick tickwheel::wheel::*;
  friend type pointer_to(expiry_member);
};
template struct exposed<dispatcher_member, &tickwheel::timer_service::dispatcher_>;
template struct exposed<expiry_member, &tickwheel::wheel::expiry_>;

tickwheel::tick& expiry_of(tickwheel::manual_service& manual) {
  return (manual.timers.*pointer_to(dispatcher_member{})).timers().entries().*pointer_to(expiry_member{});
}

TEST(manual_service, each_step_reports_a_broken_invariant) {
  reported.clear();
  tickwheel::manual_service manual{{}, report};
  tickwheel::callback_timer timeout{manual.timers, []() noexcept {}};
  ASSERT_EQ(timeout.arm(1h), 0);
  tickwheel::tick& expiry = expiry_of(manual);
  const tickwheel::tick right = std::exchange(expiry, tickwheel::never);
  manual.check();
  EXPECT_NE(reported, "");
  reported.clear();
  manual.turn();
  EXPECT_NE(reported, "");
  expiry = right;
  reported.clear();
  manual.advance(2h);
  EXPECT_EQ(reported, "");
}

TEST(manual_service, destructor_reports_a_broken_invariant) {
  reported.clear();
  std::optional<tickwheel::manual_service> manual{std::in_place, tickwheel::service_options{}, report};
  tickwheel::callback_timer timeout{manual->timers, []() noexcept {}};
  ASSERT_EQ(timeout.arm(1h), 0);
  expiry_of(*manual) = tickwheel::never;
  manual.reset();
  EXPECT_NE(reported, "");
}

}  // namespace
