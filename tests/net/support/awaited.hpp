// A peer that must report in time, by each means of doing so.
#pragma once

#include <tickwheel/net/deadline_timer.hpp>
#include <tickwheel/net/idle_timeout.hpp>
#include <tickwheel/net/pending_calls.hpp>

#include "../../support/prelude.hpp"

/// The end of a wait for a byte.
enum class means { idle_timeout, deadline_timer, member_timer, pending_call };
inline constexpr means all_means[] = {means::idle_timeout, means::deadline_timer, means::member_timer,
                                      means::pending_call};

inline const char* name_of(means m) {
  switch (m) {
    case means::idle_timeout:
      return "idle_timeout";
    case means::deadline_timer:
      return "deadline_timer";
    case means::member_timer:
      return "member_timer";
    case means::pending_call:
      return "pending_call";
  }
  return "";
}
inline std::ostream& operator<<(std::ostream& out, means m) { return out << name_of(m); }

/// Waits for a byte by one of them. An idle timeout goes on once it came: another limit later it tells of silence.
class awaited : public tickwheel::pending_call {
 public:
  using time_point = tickwheel::clock::time_point;

  awaited(tickwheel::timer_service& timers, means by)
      : pending_call{timers},
        by_{by},
        timers_{timers},
        idle_{timers, *this},
        until_{timers, *this},
        timer_{timers, *this} {
    if (by == means::pending_call) {
      EXPECT_EQ(calls_.open(1), 0);
    }
  }

  void start(std::chrono::nanoseconds limit) {
    started = last = tickwheel::clock::now();
    switch (by_) {
      case means::idle_timeout:
        EXPECT_EQ(idle_.start(limit), 0);
        break;
      case means::deadline_timer:
        EXPECT_EQ(until_.start(tickwheel::deadline::after(limit)), 0);
        break;
      case means::member_timer:
        EXPECT_EQ(timer_.arm(limit), 0);
        break;
      case means::pending_call:
        EXPECT_EQ(calls_.start(*this, 1, tickwheel::deadline::after(limit)), 0);
        break;
    }
  }

  /// A byte was read.
  void received() {
    heard += !timed_out;
    last = tickwheel::clock::now();
    switch (by_) {
      case means::idle_timeout:
        idle_.touch();
        last = timers_.now();
        break;
      case means::deadline_timer:
        until_.cancel();
        break;
      case means::member_timer:
        timer_.cancel();
        break;
      case means::pending_call:
        static_cast<void>(calls_.complete(1));  // null when it was given up
        break;
    }
  }

  int heard = 0;  // bytes that came before it was given up
  time_point started{};
  time_point last{};                    // the last sign of life that was taken note of
  std::optional<time_point> timed_out;  // when it was given up

 private:
  void on_timeout() noexcept {
    EXPECT_FALSE(timed_out) << "it was given up twice";
    timed_out = tickwheel::clock::now();
  }
  void on_failed(int error) noexcept {
    EXPECT_EQ(error, UV_ETIMEDOUT);
    on_timeout();
  }

  means by_;
  tickwheel::timer_service& timers_;
  tickwheel::idle_timeout<&awaited::on_timeout> idle_;
  tickwheel::deadline_timer<&awaited::on_timeout> until_;
  tickwheel::member_timer<&awaited::on_timeout> timer_;
  tickwheel::pending_calls<&awaited::on_failed> calls_;
};
