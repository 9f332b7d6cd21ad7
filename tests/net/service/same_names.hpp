// A class in an unnamed namespace, with the same name and the same names of handlers in two source files. Each file
// that includes this says first which one it is: `constexpr int here = 1;` in an unnamed namespace.
#include <tickwheel/net/all_idle_timeout.hpp>
#include <tickwheel/net/call_policy.hpp>
#include <tickwheel/net/deadline_timer.hpp>
#include <tickwheel/net/idle_timeout.hpp>
#include <tickwheel/net/minimum_rate.hpp>
#include <tickwheel/net/pending_calls.hpp>
#include <tickwheel/net/phase_timeouts.hpp>
#include <tickwheel/net/retry_timer.hpp>
#include <tickwheel/net/write_idle_timeout.hpp>
#include <tickwheel/uv/timer.hpp>

#include "../../uv/support/probe.hpp"

namespace {

class session : public tickwheel::pending_call {
 public:
  explicit session(tickwheel::timer_service& timers)
      : pending_call{timers},
        once{timers, *this},
        often{timers, *this},
        until{timers, *this},
        again{timers, *this, {.backoff = {.kind = tickwheel::jitter_kind::none}}},
        idle{timers, *this},
        stuck{timers, *this},
        silent{timers, *this},
        slow{timers, *this},
        phases{timers, *this} {}

  void on_time() noexcept { called_in = here; }
  void on_failed(int) noexcept { called_in = here; }
  void on_phase(tickwheel::request_phase) noexcept { called_in = here; }

  int called_in = 0;
  tickwheel::member_timer<&session::on_time> once;
  tickwheel::interval_timer<&session::on_time> often;
  tickwheel::deadline_timer<&session::on_time> until;
  tickwheel::retry_timer<&session::on_time> again;
  tickwheel::idle_timeout<&session::on_time> idle;
  tickwheel::write_idle_timeout<&session::on_time> stuck;
  tickwheel::all_idle_timeout<&session::on_time> silent;
  tickwheel::minimum_rate<&session::on_time> slow;
  tickwheel::phase_timeouts<&session::on_phase> phases;
};

struct lookup : tickwheel::policy_call {
  using policy_call::policy_call;
  int send(tickwheel::call_attempt) noexcept {
    sent_in = here;
    return 0;
  }
  void on_failed(int) noexcept { failed_in = here; }
  int sent_in = 0;
  int failed_in = 0;
};

void expect_handlers_of_this_file() {
  using namespace std::chrono_literals;
  manual_service service;
  session s{service.timers};
  const auto called_in = [&] {
    s.called_in = 0;
    service.advance(1s);
    return s.called_in;
  };
  const auto soon = [&] { return tickwheel::deadline::after(500ms, service.timers.now()); };

  EXPECT_EQ(s.once.arm(500ms), 0);
  EXPECT_EQ(called_in(), here) << "member_timer";
  EXPECT_EQ(s.often.start(500ms), 0);
  EXPECT_EQ(called_in(), here) << "interval_timer";
  s.often.cancel();
  EXPECT_EQ(s.until.start(soon()), 0);
  EXPECT_EQ(called_in(), here) << "deadline_timer";
  EXPECT_EQ(s.again.start(), 0);
  EXPECT_EQ(s.again.retry(), tickwheel::retry_result::scheduled);
  EXPECT_EQ(called_in(), here) << "retry_timer";
  EXPECT_EQ(s.idle.start(500ms), 0);
  EXPECT_EQ(called_in(), here) << "idle_timeout";
  EXPECT_EQ(s.stuck.start(500ms), 0);
  s.stuck.add_queued(1);
  EXPECT_EQ(called_in(), here) << "write_idle_timeout";
  EXPECT_EQ(s.silent.start(500ms), 0);
  EXPECT_EQ(called_in(), here) << "all_idle_timeout";
  EXPECT_EQ(s.slow.start({.grace = 100ms, .interval = 100ms}), 0);
  EXPECT_EQ(called_in(), here) << "minimum_rate";
  EXPECT_EQ(s.phases.start({.header = 500ms}), 0);
  EXPECT_EQ(called_in(), here) << "phase_timeouts";
  tickwheel::pending_calls<&session::on_failed> calls;
  EXPECT_EQ(calls.open(1), 0);
  EXPECT_EQ(calls.start(s, 1, soon()), 0);
  EXPECT_EQ(called_in(), here) << "pending_calls";
  tickwheel::call_policy<&lookup::send, &lookup::on_failed> policy;
  lookup l{service.timers};
  EXPECT_EQ(policy.open({.capacity = 1, .max_attempts = 1, .attempt_timeout = 500ms}), 0);
  EXPECT_EQ(policy.start(l), 0);
  EXPECT_EQ(l.sent_in, here) << "call_policy, attempt";
  service.advance(1s);
  EXPECT_EQ(l.failed_in, here) << "call_policy, failure";
}

}  // namespace
