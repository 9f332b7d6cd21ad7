// A client with a call_policy, on a clock turned by hand.
#pragma once

#include <tickwheel/net/call_policy.hpp>

#include "../../uv/support/probe.hpp"

/// A call that notes its attempts and its failure.
struct policed_call : tickwheel::policy_call {
  explicit policed_call(tickwheel::timer_service& timers) : policy_call{timers}, service{timers} {}

  int send(tickwheel::call_attempt a) noexcept {
    sent.push_back(a);
    sent_at.push_back(service.read_clock());
    const auto call = on_send;  // a copy, because the call may destroy this
    return call ? call(a) : 0;
  }
  void on_failed(int why) noexcept {
    ++failed;
    error = why;
    const auto call = then;
    if (call) call();
  }

  /// The id of the last attempt.
  std::uint64_t id() const { return sent.back().id; }

  std::vector<tickwheel::call_attempt> sent;
  std::vector<tickwheel::clock::time_point> sent_at;
  int failed = 0;
  int error = 0;
  std::function<int(tickwheel::call_attempt)> on_send;
  std::function<void()> then;
  tickwheel::timer_service& service;
};

using policy = tickwheel::call_policy<&policed_call::send, &policed_call::on_failed>;

/// Delays of exactly 100, 200, 400 and 800 ms, then 1 s.
inline constexpr tickwheel::backoff_options exact_backoff{
    .base = std::chrono::milliseconds{100}, .cap = std::chrono::seconds{1}, .kind = tickwheel::jitter_kind::none};
/// Attempts of one second, ten seconds in all.
inline constexpr tickwheel::call_policy_options exact_policy{.capacity = 2000,
                                                             .attempt_timeout = std::chrono::seconds{1},
                                                             .total_timeout = std::chrono::seconds{10},
                                                             .backoff = exact_backoff,
                                                             .seed = 1};

/// A policy on a manual service. The invariants of both are checked at each step.
class policy_client : public manual_service {
 public:
  explicit policy_client(const tickwheel::call_policy_options& options = exact_policy,
                         const tickwheel::service_options& of_service = {})
      : manual_service{of_service} {
    EXPECT_EQ(calls.open(options), 0) << options.problem();
  }
  ~policy_client() { check_calls(); }
  policy_client(const policy_client&) = delete;
  policy_client& operator=(const policy_client&) = delete;

  void advance(std::chrono::nanoseconds by) {
    manual_service::advance(by);
    check_calls();
  }
  void check_calls() const {
    std::string why;
    EXPECT_TRUE(calls.validate(&why)) << why;
  }
  tickwheel::deadline in(std::chrono::nanoseconds budget) const {
    return tickwheel::deadline::after(budget, timers.now());
  }

  /// Makes `count` calls, each answered after `took`.
  void answer(int count, std::chrono::nanoseconds took) {
    policed_call c{timers};
    for (int i = 0; i < count; ++i) {
      ASSERT_EQ(calls.start(c), 0);
      time.advance(took);
      ASSERT_EQ(calls.complete(c.id()), &c);
    }
  }

  policy calls;
};
