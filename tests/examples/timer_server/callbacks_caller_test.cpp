// The caller against a callee on loopback that does everything wrong. Each call must be answered exactly once.
#include "scripted_callee.hpp"
#include "timer_server/callbacks/callback_caller.hpp"
#include "timer_server/callbacks/message/signature.hpp"

#include <tickwheel/uv/timer.hpp>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using namespace timer_server;
using kind = callback_outcome::kind;
using peer = scripted_callee::peer;
using testing::HasSubstr;

namespace {
bool libcrypto_fails = false;
}

// Instead of libcrypto's.
extern "C" int EVP_MAC_final(EVP_MAC_CTX* context, unsigned char* out, std::size_t* written, std::size_t size) {
  static const auto of_libcrypto = reinterpret_cast<decltype(&EVP_MAC_final)>(::dlsym(RTLD_NEXT, "EVP_MAC_final"));
  return libcrypto_fails ? 0 : of_libcrypto(context, out, written, size);
}

namespace {

constexpr const char* ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Runs after a delay. Does not keep the loop alive.
class later {
 public:
  later(tickwheel::event_loop& loop, std::chrono::milliseconds after, std::function<void()> call)
      : call_{std::move(call)}, timer_{loop.timers(), *this} {
    (void)timer_.arm(after);
  }

 private:
  void run() noexcept { call_(); }
  std::function<void()> call_;
  tickwheel::member_timer<&later::run> timer_;
};

class callback_caller_test : public testing::Test {
 protected:
  callback_caller_test() {
    std::signal(SIGPIPE, SIG_IGN);
    EXPECT_EQ(loop.open(), 0);
    options.attempt_timeout = options.total_timeout = 10s;  // a test that needs it has failed
  }
  ~callback_caller_test() override {
    caller.reset();
    callee.reset();
    loop.close();
  }

  void serve(std::function<void(peer&)> script) {
    callee = std::make_unique<scripted_callee>(loop.uv(), std::move(script));
  }
  void begin() {
    EXPECT_EQ(options.problem(), nullptr);
    if (!caller) caller = std::make_unique<callback_caller>(loop, options);
  }
  void call(callback_request r) {
    begin();
    const std::size_t index = answers.size();
    answers.emplace_back();
    is_in_call = true;
    caller->call(std::move(r), [this, index](const callback_outcome& o) {
      EXPECT_FALSE(is_in_call);
      EXPECT_FALSE(answers[index].has_value()) << "answered twice";
      answers[index] = o;
      ++answered;
      if (on_answer) on_answer();
    });
    is_in_call = false;
  }
  void call() { call({.url = callee->url(), .headers = {}, .body = "{}"}); }
  /// Calls once, and runs until nothing is left to do.
  callback_outcome outcome() {
    call();
    return outcome_of_last();
  }
  callback_outcome outcome_of_last() {
    loop.run();
    EXPECT_EQ(answered, answers.size());
    return answers.back().value_or(callback_outcome{});
  }
  callback_stats stats() const { return caller->stats(); }

  tickwheel::event_loop loop;
  callback_options options;
  std::unique_ptr<scripted_callee> callee;
  std::unique_ptr<callback_caller> caller;
  std::vector<std::optional<callback_outcome>> answers;
  std::size_t answered = 0;
  std::function<void()> on_answer;
  bool is_in_call = false;
};

TEST_F(callback_caller_test, sends_request_and_answers_done) {
  std::string seen;
  serve([&](peer& p) {
    seen = p.request;
    p.write(ok);
  });
  call({.url = callee->url("/a?b"), .method = "PUT", .headers = {{"Timer-Id", "7"}}, .body = "{\"a\":1}"});
  const callback_outcome o = outcome_of_last();
  EXPECT_EQ(o.what, kind::done);
  EXPECT_EQ(o.status, 200U);
  EXPECT_THAT(seen,
              testing::StartsWith("PUT /a?b HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(callee->port()) + "\r\n"));
  EXPECT_THAT(seen, HasSubstr("\r\nTimer-Id: 7\r\n"));
  EXPECT_THAT(seen, testing::EndsWith("\r\n\r\n{\"a\":1}"));
  EXPECT_THAT(seen, testing::Not(HasSubstr("Timer-Signature")));
}

TEST_F(callback_caller_test, signs_the_body) {
  options.secret = "secret";
  std::string seen;
  serve([&](peer& p) {
    seen = p.request;
    p.write(ok);
  });
  EXPECT_EQ(outcome().what, kind::done);
  const std::size_t at = seen.find("Timer-Signature: t=");
  ASSERT_NE(at, std::string::npos);
  const auto time = std::chrono::system_clock::from_time_t(std::stol(seen.substr(at + 19)));
  EXPECT_THAT(seen, HasSubstr("Timer-Signature: " + signature_of("{}", "secret", time).value() + "\r\n"));
}

TEST_F(callback_caller_test, call_that_cannot_be_signed_fails_and_is_not_sent) {
  options.secret = "secret";
  serve([](peer& p) { p.write(ok); });
  EXPECT_EQ(outcome().what, kind::done);
  libcrypto_fails = true;
  for (int i = 0; i < 2; ++i) {  // on a connection that was kept, and on a new one
    const callback_outcome o = outcome();
    EXPECT_EQ(o.what, kind::failed);
    EXPECT_THAT(o.error, HasSubstr("signed"));
  }
  libcrypto_fails = false;
  EXPECT_EQ(callee->requests, 1);
  EXPECT_EQ(outcome().what, kind::done);
  EXPECT_EQ(stats().running, 0U);
}

TEST_F(callback_caller_test, reuses_connection_and_does_not_hold_the_loop) {
  serve([](peer& p) { p.write(ok); });
  for (int i = 0; i < 5; ++i) EXPECT_EQ(outcome().what, kind::done);
  EXPECT_EQ(callee->peers.size(), 1U);
  EXPECT_EQ(stats().reused, 4U);
  EXPECT_EQ(stats().idle_connections, 1U);
  EXPECT_EQ(stats().done, 5U);
}

TEST_F(callback_caller_test, connection_close_ends_the_connection) {
  serve([](peer& p) { p.write("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"); });
  EXPECT_EQ(outcome().what, kind::done);
  EXPECT_EQ(outcome().what, kind::done);
  EXPECT_EQ(callee->peers.size(), 2U);
  EXPECT_EQ(stats().open_connections, 0U);
  EXPECT_EQ(stats().hosts, 0U);
}

TEST_F(callback_caller_test, body_until_close_is_done) {
  serve([](peer& p) {
    p.write("HTTP/1.0 200 OK\r\n\r\nabc");
    p.close();
  });
  EXPECT_EQ(outcome().what, kind::done);
}

TEST_F(callback_caller_test, answer_in_pieces_is_done) {
  std::vector<std::unique_ptr<later>> pieces;
  serve([&](peer& p) {
    const std::string_view text =
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    for (std::size_t at = 0; at < text.size(); ++at)
      pieces.push_back(
          std::make_unique<later>(loop, std::chrono::milliseconds{at}, [&p, c = text.substr(at, 1)] { p.write(c); }));
  });
  EXPECT_EQ(outcome().what, kind::done);
  pieces.clear();
}

TEST_F(callback_caller_test, redirect_is_dead_and_not_followed) {
  serve([&](peer& p) { p.write("HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n"); });
  const callback_outcome o = outcome();
  EXPECT_EQ(o.what, kind::dead);
  EXPECT_EQ(o.status, 302U);
  EXPECT_THAT(o.error, HasSubstr("redirects are not followed"));
  EXPECT_EQ(callee->requests, 1);
}

TEST_F(callback_caller_test, retry_after_asks_to_wait) {
  serve([](peer& p) { p.write("HTTP/1.1 503 Busy\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n"); });
  const callback_outcome o = outcome();
  EXPECT_EQ(o.what, kind::asked_to_wait);
  EXPECT_EQ(o.delay, 3s);
}

TEST_F(callback_caller_test, no_answer_times_out) {
  options.attempt_timeout = 50ms;
  serve([](peer&) {});
  const callback_outcome o = outcome();
  EXPECT_EQ(o.what, kind::failed);
  EXPECT_THAT(o.error, HasSubstr("timed out"));
  EXPECT_EQ(stats().timed_out, 1U);
  EXPECT_EQ(stats().open_connections, 0U);
}

TEST_F(callback_caller_test, slow_drip_times_out) {
  options.attempt_timeout = 60ms;
  std::vector<std::unique_ptr<later>> drips;
  serve([&](peer& p) {
    p.write("HTTP/1.1 200 OK\r\n\r\n");
    for (int i = 1; i < 40; ++i) drips.push_back(std::make_unique<later>(loop, i * 5ms, [&p] { p.write("x"); }));
  });
  on_answer = [&] { drips.clear(); };
  EXPECT_THAT(outcome().error, HasSubstr("timed out"));
}

TEST_F(callback_caller_test, endless_answer_fails_at_its_limit) {
  serve([&](peer& p) { p.write("HTTP/1.1 200 OK\r\n\r\n" + std::string(200000, 'x')); });
  const callback_outcome o = outcome();
  EXPECT_EQ(o.what, kind::failed);
  EXPECT_THAT(o.error, HasSubstr("too large"));
}

TEST_F(callback_caller_test, close_without_answer_fails_once) {
  serve([](peer& p) { p.close(); });
  const callback_outcome o = outcome();
  EXPECT_EQ(o.what, kind::failed);
  EXPECT_EQ(callee->requests, 1) << "a new connection is not tried again";
}

TEST_F(callback_caller_test, close_in_the_middle_fails) {
  serve([](peer& p) {
    p.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
    p.close();
  });
  EXPECT_THAT(outcome().error, HasSubstr("in the middle"));
}

TEST_F(callback_caller_test, reset_fails) {
  serve([](peer& p) { p.reset(); });
  EXPECT_EQ(outcome().what, kind::failed);
}

TEST_F(callback_caller_test, garbage_fails) {
  serve([](peer& p) { p.write("220 mail.example ESMTP\r\n"); });
  EXPECT_THAT(outcome().error, HasSubstr("does not answer in HTTP/1"));
}

TEST_F(callback_caller_test, refused_connection_fails) {
  serve([](peer&) {});
  callee->stop_listening();
  loop.run();
  const callback_outcome o = outcome();
  EXPECT_EQ(o.what, kind::failed);
  EXPECT_THAT(o.error, HasSubstr("connection refused"));
}

TEST_F(callback_caller_test, connection_closed_while_idle_is_not_used) {
  serve([](peer& p) { p.write(ok); });
  EXPECT_EQ(outcome().what, kind::done);
  callee->peers[0]->close();

  for (int i = 0; i < 100 && stats().idle_connections != 0; ++i) loop.run(UV_RUN_NOWAIT);
  EXPECT_EQ(stats().idle_connections, 0U);
  EXPECT_EQ(outcome().what, kind::done);
  EXPECT_EQ(stats().repeated, 0U);
}

TEST_F(callback_caller_test, reused_connection_that_closes_is_repeated_once_on_a_new_one) {
  serve([](peer& p) { p.requests == 1 ? p.write(ok) : p.close(); });
  EXPECT_EQ(outcome().what, kind::done);
  EXPECT_EQ(outcome().what, kind::done);
  EXPECT_EQ(callee->requests, 3);
  EXPECT_EQ(stats().repeated, 1U);
}

TEST_F(callback_caller_test, repeated_request_is_the_same_with_its_token) {
  std::vector<std::string> requests;
  serve([&](peer& p) {
    requests.push_back(p.request);
    p.requests == 1 ? p.write(ok) : p.close();
  });
  EXPECT_EQ(outcome().what, kind::done);
  call({.url = callee->url(), .headers = {{"Timer-Attempt", "1"}, {"Timer-Token", "7"}}, .body = "{}"});
  EXPECT_EQ(outcome_of_last().what, kind::done);
  ASSERT_EQ(requests.size(), 3U);
  EXPECT_THAT(requests[1], HasSubstr("\r\nTimer-Token: 7\r\n"));
  EXPECT_EQ(requests[2], requests[1]);
}

TEST_F(callback_caller_test, repeated_request_that_closes_again_fails) {
  int total = 0;
  serve([&](peer& p) { ++total == 1 ? p.write(ok) : p.close(); });
  EXPECT_EQ(outcome().what, kind::done);
  EXPECT_EQ(outcome().what, kind::failed);
  EXPECT_EQ(callee->requests, 3);
}

TEST_F(callback_caller_test, reused_connection_with_half_an_answer_is_not_repeated) {
  serve([](peer& p) {
    if (p.requests == 1) return p.write(ok);
    p.write("HTTP/1.1 2");
    p.close();
  });
  EXPECT_EQ(outcome().what, kind::done);
  EXPECT_EQ(outcome().what, kind::failed);
  EXPECT_EQ(callee->requests, 2);
}

TEST_F(callback_caller_test, idle_connection_is_closed_after_its_timeout) {
  options.idle_timeout = 30ms;
  serve([](peer& p) { p.write(ok); });
  EXPECT_EQ(outcome().what, kind::done);
  EXPECT_EQ(stats().idle_connections, 1U);
  const later end{loop, 2s, [] {}};
  while (stats().idle_connections != 0 && loop.run(UV_RUN_ONCE)) {
  }
  EXPECT_EQ(stats().open_connections, 0U);
}

TEST_F(callback_caller_test, large_request_is_written_in_parts) {
  std::size_t size = 0;
  serve([&](peer& p) {
    size = p.request.size();
    p.write(ok);
  });
  call({.url = callee->url(), .headers = {}, .body = std::string(20 << 20, 'b')});
  EXPECT_EQ(outcome_of_last().what, kind::done);
  EXPECT_GT(size, std::size_t{20} << 20);
  EXPECT_EQ(stats().idle_connections, 1U);
}

TEST_F(callback_caller_test, answer_before_the_request_is_whole_counts) {
  serve([](peer&) {});
  callee->on_accept = [](peer& p) {
    p.stop_reading();
    p.write("HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n");
  };
  call({.url = callee->url(), .headers = {}, .body = std::string(20 << 20, 'b')});
  const callback_outcome o = outcome_of_last();
  EXPECT_EQ(o.status, 413U);
  EXPECT_EQ(o.what, kind::dead);
  EXPECT_EQ(stats().open_connections, 0U) << "the rest of the request is not sent";
}

TEST_F(callback_caller_test, peer_that_does_not_read_times_out) {
  options.attempt_timeout = 50ms;
  serve([](peer&) {});
  callee->on_accept = [](peer& p) { p.stop_reading(); };
  call({.url = callee->url(), .headers = {}, .body = std::string(20 << 20, 'b')});
  EXPECT_THAT(outcome_of_last().error, HasSubstr("timed out"));
}

TEST_F(callback_caller_test, disallowed_address_is_dead_without_a_connection) {
  options.allowed = address_rules::none();
  serve([](peer& p) { p.write(ok); });
  const callback_outcome o = outcome();
  EXPECT_EQ(o.what, kind::dead);
  EXPECT_THAT(o.error, HasSubstr("127.0.0.1 is not among those that may be called"));
  EXPECT_TRUE(callee->peers.empty());
  EXPECT_EQ(stats().disallowed, 1U);
}

TEST_F(callback_caller_test, name_is_resolved_once_for_a_burst) {
  serve([](peer& p) { p.write(ok); });
  for (int i = 0; i < 10; ++i)
    call({.url = "http://localhost:" + std::to_string(callee->port()) + "/", .headers = {}, .body = ""});
  EXPECT_EQ(outcome_of_last().what, kind::done);
  EXPECT_EQ(stats().done, 10U);
  EXPECT_EQ(stats().resolutions, 1U);
}

TEST_F(callback_caller_test, name_with_disallowed_address_only_is_dead) {
  options.allowed = address_rules::none();
  call({.url = "http://localhost:1/", .headers = {}, .body = ""});
  EXPECT_EQ(outcome_of_last().what, kind::dead);
}

TEST_F(callback_caller_test, invalid_request_is_dead) {
  for (const char* const bad : {"", "https://127.0.0.1/", "http://u@h/"}) {
    call({.url = bad, .headers = {}, .body = ""});
    EXPECT_EQ(outcome_of_last().what, kind::dead) << bad;
  }
  call({.url = "http://127.0.0.1:1/", .headers = {{"Host", "x"}}, .body = ""});
  EXPECT_EQ(outcome_of_last().what, kind::dead);
  call({.url = "http://127.0.0.1:1/", .method = "A B", .headers = {}, .body = ""});
  EXPECT_EQ(outcome_of_last().what, kind::dead);
}

TEST_F(callback_caller_test, limits_connections_of_a_host) {
  options.connections_per_host = 3;
  serve([](peer& p) { p.write(ok); });
  for (int i = 0; i < 50; ++i) call();
  EXPECT_EQ(stats().waiting, 47U);
  EXPECT_EQ(stats().running, 3U);
  EXPECT_GT(stats().oldest, 0ns);
  EXPECT_EQ(outcome_of_last().what, kind::done);
  EXPECT_EQ(callee->peers.size(), 3U);
  EXPECT_EQ(stats().done, 50U);
  EXPECT_EQ(stats().waiting, 0U);
  EXPECT_EQ(stats().running, 0U);
}

TEST_F(callback_caller_test, hosts_share_the_connections_in_all) {
  options.connections = 4;
  serve([](peer& p) { p.write(ok); });
  scripted_callee other{loop.uv(), [](peer& p) { p.write(ok); }};
  for (int i = 0; i < 40; ++i) call();
  std::size_t busy_when_other_ends = 0;
  call({.url = other.url(), .headers = {}, .body = ""});
  on_answer = [&] {
    if (answers.back().has_value() && busy_when_other_ends == 0) busy_when_other_ends = answered;
  };
  EXPECT_EQ(outcome_of_last().what, kind::done);
  EXPECT_LT(busy_when_other_ends, 20U) << "it does not wait until the queue of the busy host is empty";
  EXPECT_LE(stats().open_connections, 4U);
  caller.reset();
}

TEST_F(callback_caller_test, idle_connection_gives_way_to_another_host) {
  options.connections = 1;
  serve([](peer& p) { p.write(ok); });
  scripted_callee other{loop.uv(), [](peer& p) { p.write(ok); }};
  EXPECT_EQ(outcome().what, kind::done);
  call({.url = other.url(), .headers = {}, .body = ""});
  EXPECT_EQ(outcome_of_last().what, kind::done);
  EXPECT_EQ(stats().open_connections, 1U);
  caller.reset();
}

TEST_F(callback_caller_test, waiting_has_a_limit_and_a_timeout) {
  options.connections_per_host = 1;
  options.max_waiting = 2;
  options.wait_timeout = 50ms;
  options.attempt_timeout = options.total_timeout = 500ms;  // the calls that wait end before they could have this place
  serve([](peer&) {});
  for (int i = 0; i < 4; ++i) call();
  EXPECT_THAT(outcome_of_last().error, HasSubstr("too many calls wait"));
  EXPECT_EQ(answers[0]->what, kind::failed);
  for (const std::size_t i : {1U, 2U, 3U}) EXPECT_EQ(answers[i]->what, kind::not_called);
  EXPECT_EQ(stats().not_called, 3U);
  EXPECT_EQ(stats().timed_out, 3U);
}

// The second call waits for 60 ms, and is answered 80 ms later.
TEST_F(callback_caller_test, total_timeout_includes_waiting) {
  options.connections_per_host = 1;
  options.attempt_timeout = options.total_timeout = 100ms;
  std::vector<std::unique_ptr<later>> slow;
  serve([&](peer& p) {
    slow.push_back(std::make_unique<later>(loop, slow.empty() ? 60ms : 80ms, [&p] { p.write(ok); }));
  });
  for (int i = 0; i < 2; ++i) call();
  outcome_of_last();
  EXPECT_NE(answers[1]->what, kind::done);
  EXPECT_GE(stats().timed_out, 1U);
}

TEST_F(callback_caller_test, call_behind_a_slow_callee_is_put_off) {
  options.connections_per_host = 1;
  options.wait_timeout = 50ms;
  std::vector<std::unique_ptr<later>> slow;
  serve([&](peer& p) { slow.push_back(std::make_unique<later>(loop, 500ms, [&p] { p.write(ok); })); });
  for (int i = 0; i < 2; ++i) call();
  EXPECT_EQ(outcome_of_last().what, kind::not_called);
  EXPECT_EQ(answers[0]->what, kind::done);
  EXPECT_EQ(callee->requests, 1);
  slow.clear();
}

TEST_F(callback_caller_test, calls_of_a_silent_callee_are_put_off_at_once) {
  options.connections_per_host = 2;
  options.wait_timeout = 500ms;
  serve([](peer&) {});
  constexpr std::size_t backlog = 100;
  constexpr std::size_t most = 2 + 4;  // that run, and that wait
  for (std::size_t i = 0; i < backlog; ++i) call();
  EXPECT_EQ(stats().waiting, backlog - 2) << "the callee may be a fast one";
  while (answered < backlog - 2) loop.run(UV_RUN_ONCE);
  EXPECT_EQ(stats().timed_out, backlog - 2);

  for (std::size_t i = 0; i < backlog; ++i) call();
  EXPECT_EQ(stats().waiting, most - 2);
  for (int i = 0; i < 3; ++i) loop.run(UV_RUN_NOWAIT);
  EXPECT_EQ(stats().not_called, 2 * backlog - most) << "without waiting";
  EXPECT_EQ(stats().timed_out, backlog - 2);
  EXPECT_THAT(answers.back()->error, HasSubstr("too many calls of this host"));
}

TEST_F(callback_caller_test, callee_that_keeps_up_again_is_limited_no_more) {
  options.connections_per_host = 1;
  options.wait_timeout = 100ms;
  bool is_silent = true;
  peer* first = nullptr;
  serve([&](peer& p) {
    first = &p;
    if (!is_silent) p.write(ok);
  });
  for (int i = 0; i < 2; ++i) call();
  while (answered < 1) loop.run(UV_RUN_ONCE);
  EXPECT_EQ(stats().not_called, 1U);
  is_silent = false;
  first->write(ok);
  bool is_over = false;
  const later end{loop, 11 * options.wait_timeout, [&] { is_over = true; }};
  while (!is_over) loop.run(UV_RUN_ONCE);
  for (int i = 0; i < 20; ++i) call();
  EXPECT_EQ(stats().waiting, 19U);
  loop.run();
  EXPECT_EQ(stats().done, 21U);
}

TEST_F(callback_caller_test, call_without_a_timer_is_answered_at_the_end_at_latest) {
  loop.close();
  ASSERT_EQ(loop.open({.max_armed = 1}), 0);
  const later keeps_the_place{loop, 50ms, [] {}};
  serve([](peer& p) { p.write(ok); });
  call();
  loop.run();
  caller.reset();
  ASSERT_EQ(answered, 1U);
  EXPECT_EQ(answers[0]->what, kind::failed);
}

// --- ends ------------------------------------------------------------------------------------------------------------

TEST_F(callback_caller_test, close_answers_calls_in_every_state) {
  options.connections_per_host = 2;
  serve([](peer&) {});
  for (int i = 0; i < 4; ++i) call();
  for (int i = 0; i < 20; ++i) loop.run(UV_RUN_NOWAIT);
  call({.url = "http://localhost:1/", .headers = {}, .body = ""});                                       // resolving
  call({.url = "http://127.0.0.1:" + std::to_string(callee->port()) + "/", .headers = {}, .body = ""});  // waiting
  caller->close();
  EXPECT_EQ(answered, 6U);
  for (const auto& a : answers) EXPECT_EQ(a->what, kind::failed);
  caller->close();
  loop.run();
  EXPECT_EQ(stats().open_connections, 0U);
}

TEST_F(callback_caller_test, call_after_close_fails_later) {
  serve([](peer&) {});
  begin();
  caller->close();
  EXPECT_THAT(outcome().error, HasSubstr("closed"));
}

TEST_F(callback_caller_test, destruction_answers_calls_made_after_close) {
  serve([](peer&) {});
  begin();
  caller->close();
  call();
  EXPECT_EQ(answered, 0U);
  caller.reset();
  EXPECT_EQ(answered, 1U);
}

TEST_F(callback_caller_test, may_be_destroyed_after_any_number_of_loop_turns) {
  for (int turns = 0; turns < 30; ++turns) {
    serve([](peer& p) { p.requests % 2 == 0 ? p.close() : p.write(ok); });
    for (int i = 0; i < 8; ++i) call();
    call({.url = "http://localhost:" + std::to_string(callee->port()) + "/", .headers = {}, .body = ""});
    for (int i = 0; i < turns; ++i) loop.run(UV_RUN_NOWAIT);
    caller.reset();
    EXPECT_EQ(answered, answers.size()) << turns;
    callee.reset();
  }
}

TEST_F(callback_caller_test, may_be_destroyed_by_an_answer) {
  for (const std::size_t at : {1U, 2U, 5U, 9U}) {
    answers.clear();
    answered = 0;
    options.connections_per_host = 2;
    serve([](peer& p) { p.write(ok); });
    on_answer = [&] {
      if (answered == at) caller.reset();
    };
    for (int i = 0; i < 10; ++i) call();
    loop.run();
    EXPECT_EQ(answered, 10U);
    caller.reset();
    callee.reset();
  }
}

TEST_F(callback_caller_test, answer_may_close_and_call) {
  serve([](peer& p) { p.write(ok); });
  on_answer = [&] {
    if (answered == 3) caller->close();
    if (answered < 20) call();
  };
  for (int i = 0; i < 4; ++i) call();
  loop.run();
  EXPECT_EQ(answered, answers.size());
  EXPECT_GE(answered, 20U);
}

TEST_F(callback_caller_test, options_name_the_first_invalid_field) {
  EXPECT_EQ(callback_options{}.problem(), nullptr);
  callback_options o;
  o.attempt_timeout = 0ms;
  EXPECT_THAT(o.problem(), HasSubstr("attempt_timeout"));
  o = {};
  o.total_timeout = 1s;
  EXPECT_THAT(o.problem(), HasSubstr("total_timeout"));
  o = {};
  o.connections = 0;
  EXPECT_THAT(o.problem(), HasSubstr("connections"));
}

}  // namespace
