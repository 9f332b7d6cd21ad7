// The answers of the timer server, on manual time and a store in memory.
#include "timer_server/http/api.hpp"
#include "timer_server/text/times.hpp"
#include "timer_server/timers/executor.hpp"

#include <tickwheel/durable/durable.hpp>
#include <tickwheel/durable/memory.hpp>
#include <tickwheel/testing.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using namespace timer_server;
using nlohmann::json;
namespace durable = tickwheel::durable;

namespace {

durable::scheduler_options two_attempts() {
  durable::scheduler_options options;
  options.max_attempts = 2;
  options.seed = 1;
  return options;
}

/// A service without sockets: requests and callbacks are calls.
struct api_test : testing::Test {
  tickwheel::manual_service manual;
  std::shared_ptr<durable::memory_database> database = std::make_shared<durable::memory_database>();
  std::vector<callback_request> called;
  std::vector<std::string> last;  // executions that the executor calls the last, with their errors
  /// The answer of a callee; none: it never answers.
  std::optional<callback_outcome> outcome = callback_outcome{callback_outcome::kind::done, {}, 200, {}};
  std::vector<std::function<void(const callback_outcome&)>> unanswered;
  executor calls{[this](callback_request request, std::function<void(const callback_outcome&)> answered) {
                   called.push_back(std::move(request));
                   unanswered.push_back(std::move(answered));
                   if (outcome) posted.push_back(unanswered.size() - 1);
                 },
                 [this](const durable::execution& run, const callback_outcome& of) {
                   last.push_back(std::string{run.id()} + ": " + of.error);
                 },
                 two_attempts().max_attempts};
  std::vector<std::size_t> posted;  // calls whose answer comes in the next step
  bearer_tokens tokens{{.per_second = 1, .burst = 2}};
  durable::scheduler scheduler{manual.timers, durable::memory_store(database), two_attempts()};
  std::optional<api> requests;

  void SetUp() override { start(nullptr); }

  void start(bearer_tokens* with) {
    if (!requests) {
      scheduler.on_due([this](durable::execution run) noexcept { calls.start(std::move(run)); });
      ASSERT_EQ(scheduler.open([](int error) noexcept { EXPECT_EQ(error, 0); }), 0);
      advance(1s);
    }
    requests.emplace(manual.timers, scheduler, api_options{.max_payload = 4096, .tokens = with});
  }

  void advance(std::chrono::nanoseconds time) {
    const std::chrono::nanoseconds step = time > 1min ? 5s : 100ms;
    for (; time.count() > 0; time -= step) {
      manual.advance(std::min(time, step));
      for (const std::size_t index : std::exchange(posted, {})) unanswered[index](*outcome);
    }
  }

  http_answer ask(const api_request& request) {
    std::optional<http_answer> answer;
    requests->ask(request, [&](http_answer a) {
      EXPECT_FALSE(answer) << "answered twice";
      answer = std::move(a);
    });
    for (int i = 0; i < 100 && !answer; ++i) advance(100ms);
    if (answer) return std::move(*answer);
    ADD_FAILURE() << request.method << ' ' << request.target << " was not answered";
    return {};
  }

  http_answer put(std::string_view target, std::string_view body) {
    return ask({.method = "PUT", .target = target, .content_type = "application/json", .body = body});
  }
  http_answer get(std::string_view target) { return ask({.method = "GET", .target = target}); }
  http_answer remove(std::string_view target) { return ask({.method = "DELETE", .target = target}); }
  http_answer post(std::string_view target) { return ask({.method = "POST", .target = target}); }
};

json document_of(const http_answer& answer) {
  json document = json::parse(answer.body, nullptr, false);
  EXPECT_TRUE(document.is_object()) << answer.body;
  return document.is_object() ? document : json::object();
}

/// Status and code, such as "409 ended".
std::string code_of(const http_answer& answer) {
  EXPECT_EQ(answer.content_type, "application/problem+json");
  const json document = document_of(answer);
  EXPECT_EQ(document.value("status", 0U), answer.status);
  EXPECT_NE(document.value("detail", ""), "");
  EXPECT_NE(document.value("title", ""), "");
  return std::to_string(answer.status) + ' ' + document.value("code", "");
}

constexpr std::string_view in_an_hour = R"({"in":"1h","callback":"http://127.0.0.1:9/due","body":"order 7"})";
constexpr std::string_view at_once = R"({"in":"0s","callback":"http://127.0.0.1:9/due","body":"order 7"})";
constexpr std::string_view replacing_at_once =
    R"({"in":"0s","callback":"http://127.0.0.1:9/due","on_conflict":"replace"})";
constexpr std::string_view replacing = R"({"in":"2h","callback":"http://127.0.0.1:9/due","on_conflict":"replace"})";

TEST_F(api_test, in_counts_from_the_clock_of_the_store) {
  database->shift_clock(72h);
  advance(5s);  // the store answers
  const std::string due = document_of(put("/v1/timers/a", in_an_hour))["due"];
  EXPECT_EQ(due.substr(0, 19), "2026-01-04T01:00:06");
  advance(59min);
  EXPECT_TRUE(called.empty());
  advance(2min);
  EXPECT_EQ(called.size(), 1U);
}

TEST_F(api_test, in_is_not_early_by_the_way_of_an_answer) {
  for (const auto verb : {durable::store_verb::renew, durable::store_verb::load, durable::store_verb::recover,
                          durable::store_verb::purge, durable::store_verb::put, durable::store_verb::get})
    database->answer_after(verb, 80ms);
  advance(2min);  // the answers before are forgotten
  moment due{};
  for (const auto* const id : {"a", "b", "c"}) {
    const auto asked_at = database->now();
    EXPECT_LT(scheduler.store_now().value(), asked_at);
    const json document = document_of(put(std::string{"/v1/timers/"} + id, in_an_hour));
    ASSERT_EQ(read_moment(document["due"].get<std::string>(), due), nullptr);
    EXPECT_GE(due, asked_at + 1h);
    EXPECT_LE(due, asked_at + 1h + 81ms);
    advance(700ms);
  }
}

TEST_F(api_test, strict_compares_with_the_clock_of_the_store) {
  constexpr std::string_view due = R"({"due":"2026-01-03T00:00:00Z","callback":"http://127.0.0.1:9/"})";
  EXPECT_EQ(put("/v1/timers/a?strict", due).status, 201U);
  database->shift_clock(72h);
  advance(5s);
  EXPECT_EQ(code_of(put("/v1/timers/b?strict", due)), "422 past");
}

TEST_F(api_test, relative_time_waits_for_the_first_answer_of_the_store) {
  durable::scheduler_options of_another = two_attempts();
  of_another.seed = 2;
  durable::scheduler unanswered_yet{manual.timers, durable::memory_store(database), of_another};
  api early{manual.timers, unanswered_yet, {}};
  std::vector<unsigned> statuses;
  const auto asked = [&](std::string_view target, std::string_view body) {
    early.ask({.method = "PUT", .target = target, .body = body}, [&](const http_answer& a) {
      statuses.push_back(a.status);
      EXPECT_EQ(a.retry_after, a.status == 503 ? 1s : 0s);
    });
  };
  ASSERT_EQ(unanswered_yet.open([](int) noexcept {}), 0);
  asked("/v1/timers/a", in_an_hour);
  asked("/v1/timers/b?strict", R"({"due":"2030-01-01T00:00:00Z","callback":"http://127.0.0.1:9/"})");
  EXPECT_EQ(statuses, (std::vector<unsigned>{503, 503}));
  asked("/v1/timers/c", R"({"due":"2030-01-01T00:00:00Z","callback":"http://127.0.0.1:9/"})");
  advance(1s);
  asked("/v1/timers/a", in_an_hour);
  advance(1s);
  EXPECT_EQ(statuses, (std::vector<unsigned>{503, 503, 201, 201}));
}

TEST_F(api_test, scheduled_timer_is_called_when_it_is_due) {
  const http_answer answer = put("/v1/timers/order-7", in_an_hour);
  EXPECT_EQ(answer.status, 201U);
  EXPECT_EQ(answer.content_type, "application/json");
  const json document = document_of(answer);
  EXPECT_EQ(document["id"], "order-7");
  EXPECT_EQ(document["result"], "scheduled");
  EXPECT_EQ(document["state"], "pending");
  EXPECT_EQ(document["due"].get<std::string>().substr(0, 19), "2026-01-01T01:00:01");
  advance(59min);
  EXPECT_TRUE(called.empty());
  advance(2min);
  ASSERT_EQ(called.size(), 1U);
  EXPECT_EQ(called[0].url, "http://127.0.0.1:9/due");
  EXPECT_EQ(called[0].body, "order 7");
  EXPECT_EQ(document_of(get("/v1/timers/order-7"))["state"], "finished");
}

TEST_F(api_test, callback_has_the_headers_of_the_timer) {
  put("/v1/timers/caf%C3%A9%20%25",
      R"({"due":"2026-01-01T00:00:10.5Z","callback":"http://127.0.0.1:9/due","headers":{"X":"y"}})");
  advance(20s);
  ASSERT_EQ(called.size(), 1U);
  const auto& headers = called[0].headers;
  ASSERT_EQ(headers.size(), 6U);
  EXPECT_EQ(headers[0], (std::pair<std::string, std::string>{"X", "y"}));
  EXPECT_EQ(headers[1], (std::pair<std::string, std::string>{"Timer-Id", "caf%C3%A9%20%25"}));
  EXPECT_EQ(headers[2], (std::pair<std::string, std::string>{"Timer-Due", "2026-01-01T00:00:10.5Z"}));
  EXPECT_EQ(headers[3], (std::pair<std::string, std::string>{"Timer-Attempt", "1"}));
  EXPECT_EQ(headers[4].first, "Timer-Token");
  EXPECT_EQ(headers[5],
            (std::pair<std::string, std::string>{"Idempotency-Key", "caf%C3%A9%20%25:2026-01-01T00:00:10.5Z"}));
}

TEST_F(api_test, keep_leaves_the_timer_that_is_there) {
  put("/v1/timers/a", in_an_hour);
  const http_answer again = put("/v1/timers/a", R"({"in":"2h","callback":"http://127.0.0.1:9/other"})");
  EXPECT_EQ(again.status, 200U);
  const json document = document_of(again);
  EXPECT_EQ(document["result"], "exists");
  EXPECT_EQ(document["state"], "pending");
  EXPECT_EQ(document["callback"], "http://127.0.0.1:9/due");
}

TEST_F(api_test, timer_that_exists_and_cannot_be_read_is_unavailable) {
  put("/v1/timers/a", in_an_hour);
  database->fail_next(durable::store_verb::get, durable::memory_fault::unavailable);
  const http_answer again = put("/v1/timers/a", in_an_hour);
  EXPECT_EQ(code_of(again), "503 unavailable");
  EXPECT_EQ(again.retry_after, 1s);
  EXPECT_EQ(document_of(put("/v1/timers/a", in_an_hour))["state"], "pending");
}

TEST_F(api_test, replace_takes_the_place_of_the_timer) {
  put("/v1/timers/a", in_an_hour);
  const http_answer answer = put("/v1/timers/a", replacing);
  EXPECT_EQ(answer.status, 200U);
  EXPECT_EQ(document_of(answer)["result"], "replaced");
  advance(90min);
  EXPECT_TRUE(called.empty());
  advance(1h);
  EXPECT_EQ(called.size(), 1U);
}

TEST_F(api_test, ended_and_running_timers_are_conflicts) {
  put("/v1/timers/a", at_once);
  advance(2s);
  EXPECT_EQ(code_of(put("/v1/timers/a", in_an_hour)), "409 ended");
  outcome.reset();
  put("/v1/timers/b", at_once);
  advance(2s);
  EXPECT_EQ(document_of(put("/v1/timers/b", in_an_hour))["state"], "running");
  EXPECT_EQ(code_of(put("/v1/timers/b", replacing)), "409 running");
}

TEST_F(api_test, past_time_is_called_at_once_unless_strict) {
  constexpr std::string_view past = R"({"due":"2020-01-01T00:00:00Z","callback":"http://127.0.0.1:9/due"})";
  EXPECT_EQ(code_of(put("/v1/timers/a?strict", past)), "422 past");
  EXPECT_EQ(get("/v1/timers/a").status, 404U);
  EXPECT_EQ(put("/v1/timers/a", past).status, 201U);
  advance(2s);
  EXPECT_EQ(called.size(), 1U);
  EXPECT_EQ(put("/v1/timers/b?strict", in_an_hour).status, 201U);
  EXPECT_EQ(code_of(put("/v1/timers/c?strict=1", in_an_hour)), "400 bad-request");
}

TEST_F(api_test, periodic_timer_is_called_again) {
  put("/v1/timers/a", R"({"in":"PT10S","every":"PT1M","callback":"http://127.0.0.1:9/due"})");
  EXPECT_EQ(document_of(get("/v1/timers/a"))["every"], "PT1M");
  advance(5min);
  EXPECT_EQ(called.size(), 5U);
  EXPECT_NE(called[0].headers.back(), called[1].headers.back()) << "each period has an idempotency key of its own";
}

TEST_F(api_test, timer_that_waits_for_a_connection_does_not_fail) {
  outcome = callback_outcome{callback_outcome::kind::not_called, {}, 0, "no connection became free"};
  put("/v1/timers/a", at_once);
  advance(10min);
  EXPECT_GE(called.size(), 15U);
  EXPECT_EQ(document_of(get("/v1/timers/a"))["state"], "pending");
  EXPECT_EQ(document_of(get("/v1/timers/a"))["attempts"], 0U);
  EXPECT_TRUE(last.empty());
  outcome = callback_outcome{callback_outcome::kind::done, {}, 200, {}};
  advance(40s);
  EXPECT_EQ(document_of(get("/v1/timers/a"))["state"], "finished");
}

TEST_F(api_test, timer_that_waits_for_a_connection_is_put_off_ever_longer) {
  outcome = callback_outcome{callback_outcome::kind::not_called, {}, 0, "no connection became free"};
  put("/v1/timers/a", at_once);
  std::vector<std::chrono::nanoseconds> times;  // of the calls
  for (std::chrono::nanoseconds at{}; at < 100s; at += 100ms) {
    if (called.size() > times.size()) times.push_back(at);
    advance(100ms);
  }
  ASSERT_GE(times.size(), 7U);
  constexpr auto step = 300ms;  // of the test, and of the answers
  for (std::size_t i = 1; i < times.size(); ++i) {
    const std::chrono::nanoseconds most = i < 6 ? std::chrono::seconds{1 << (i - 1)} : 30s;
    EXPECT_GE(times[i] - times[i - 1], most / 2 - step) << i;
    EXPECT_LE(times[i] - times[i - 1], most + step) << i;
  }
}

TEST_F(api_test, delay_of_a_timer_that_was_called_begins_anew) {
  outcome = callback_outcome{callback_outcome::kind::not_called, {}, 0, "no connection became free"};
  put("/v1/timers/a", at_once);
  advance(2min);
  outcome = callback_outcome{callback_outcome::kind::asked_to_wait, 1s, 503, "the callee answered 503"};
  advance(40s);
  outcome = callback_outcome{callback_outcome::kind::not_called, {}, 0, "no connection became free"};
  advance(1500ms);
  const std::size_t before = called.size();
  advance(10s);
  EXPECT_GE(called.size(), before + 2);
}

TEST_F(api_test, delay_of_a_timer_that_takes_the_place_of_another_begins_anew) {
  const auto put_to = [&](std::string_view path) {
    return put("/v1/timers/a",
               R"({"due":"2020-01-01T00:00:00Z","on_conflict":"replace","callback":"http://127.0.0.1:9/)" +
                   std::string{path} + R"("})");
  };
  outcome = callback_outcome{callback_outcome::kind::not_called, {}, 0, "no connection became free"};
  put_to("due");
  advance(2min);
  EXPECT_EQ(put_to("other").status, 200U);
  advance(1500ms);
  const std::size_t before = called.size();
  EXPECT_GE(before, 2U);
  advance(5s);
  EXPECT_GE(called.size(), before + 1);
}

TEST_F(api_test, document_mistakes_name_the_field) {
  const http_answer answer = put("/v1/timers/a", R"({"in":"1h"})");
  EXPECT_EQ(code_of(answer), "422 invalid");
  EXPECT_EQ(document_of(answer)["field"], "callback");
  const http_answer nameless = put("/v1/timers/a", R"({"":1})");
  EXPECT_EQ(code_of(nameless), "422 invalid");
  EXPECT_EQ(document_of(nameless)["field"], "");
  EXPECT_EQ(code_of(put("/v1/timers/a", "{")), "400 bad-document");
  EXPECT_EQ(code_of(put("/v1/timers/a", "")), "400 bad-document");
  EXPECT_EQ(get("/v1/timers/a").status, 404U);
}

TEST_F(api_test, address_that_may_not_be_called_is_refused_at_once) {
  const auto schedule = [this](const std::string& host) {
    return put("/v1/timers/a", R"({"in":"1h","callback":"http://)" + host + R"(/"})");
  };
  for (const char* const no : {"10.0.0.1", "10.0.0.1:80", "[fe80::1]", "[::ffff:169.254.169.254]:80"}) {
    const http_answer answer = schedule(no);
    EXPECT_EQ(code_of(answer), "422 invalid") << no;
    EXPECT_EQ(document_of(answer)["field"], "callback") << no;
  }
  EXPECT_EQ(get("/v1/timers/a").status, 404U);
  EXPECT_EQ(schedule("elsewhere.example").status, 201U) << "its addresses are known when it is called";
}

TEST_F(api_test, large_callback_is_refused) {
  const std::string body(4096, 'x');
  EXPECT_EQ(code_of(put("/v1/timers/a", R"({"in":"1h","callback":"http://127.0.0.1:9/","body":")" + body + R"("})")),
            "413 too-large");
}

TEST_F(api_test, other_content_types_are_refused) {
  for (const auto& [type, status] : {std::pair{std::optional<std::string_view>{"text/plain"}, 415U},
                                     {"application/x-www-form-urlencoded", 415U},
                                     {"application/jsonp", 415U},
                                     {"application/json; charset=utf-8", 201U},
                                     {"Application/JSON", 200U},
                                     {"", 415U},
                                     {std::nullopt, 200U}})
    EXPECT_EQ(ask({.method = "PUT", .target = "/v1/timers/a", .content_type = type, .body = in_an_hour}).status, status)
        << type.value_or("none");
}

TEST_F(api_test, ids_are_decoded_and_checked) {
  put("/v1/timers/a%2Fb", in_an_hour);
  EXPECT_EQ(document_of(get("/v1/timers/a%2fb"))["id"], "a/b");
  EXPECT_EQ(document_of(get("/v1/timers/%61%2Fb"))["id"], "a/b");
  EXPECT_EQ(code_of(get("/v1/timers/%zz")), "400 bad-request");
  EXPECT_EQ(code_of(get("/v1/timers/%00")), "400 bad-id");
  EXPECT_EQ(code_of(get("/v1/timers/%ff")), "400 bad-id");
  EXPECT_EQ(code_of(get("/v1/timers/")), "400 bad-id");
  EXPECT_EQ(code_of(get("/v1/timers/" + std::string(256, 'a'))), "400 bad-id");
  EXPECT_EQ(get("/v1/timers/" + std::string(255, 'a')).status, 404U);
}

TEST_F(api_test, unknown_resources_and_methods) {
  for (const auto* const target : {"/", "", "*", "/v1", "/v1/", "/v1/timersx", "/v1/timers/a/b", "/v1/timers/a/revive/",
                                   "/v2/timers/a", "http://h/v1/timers/a", "/healthz/"})
    EXPECT_EQ(code_of(get(target)), "404 not-found") << target;
  for (const auto& [method, target, allow] : {std::tuple{"POST", "/v1/timers/a", "GET, HEAD, PUT, DELETE"},
                                              {"PATCH", "/v1/timers/a", "GET, HEAD, PUT, DELETE"},
                                              {"put", "/v1/timers/a", "GET, HEAD, PUT, DELETE"},
                                              {"GET", "/v1/timers/a/revive", "POST"},
                                              {"PUT", "/v1/timers/a/revive", "POST"},
                                              {"POST", "/v1/timers", "GET, HEAD"},
                                              {"POST", "/metrics", "GET, HEAD"},
                                              {"DELETE", "/healthz", "GET, HEAD"},
                                              {"POST", "/readyz", "GET, HEAD"}}) {
    const http_answer answer = ask({.method = method, .target = target});
    EXPECT_EQ(code_of(answer), "405 method-not-allowed") << method << ' ' << target;
    EXPECT_EQ(answer.allow, allow);
  }
}

TEST_F(api_test, cancel) {
  EXPECT_EQ(code_of(remove("/v1/timers/a")), "404 not-found");
  put("/v1/timers/a", in_an_hour);
  const http_answer cancelled = remove("/v1/timers/a");
  EXPECT_EQ(cancelled.status, 204U);
  EXPECT_EQ(cancelled.body, "");
  advance(2h);
  EXPECT_TRUE(called.empty());

  put("/v1/timers/b", at_once);
  advance(2s);
  EXPECT_EQ(code_of(remove("/v1/timers/b")), "409 finished");

  outcome.reset();
  put("/v1/timers/c", at_once);
  advance(2s);
  const http_answer running = remove("/v1/timers/c");
  EXPECT_EQ(running.status, 202U);
  EXPECT_EQ(document_of(running)["result"], "running");
  EXPECT_EQ(document_of(get("/v1/timers/c"))["cancelling"], true);
}

TEST_F(api_test, dead_timers_are_listed_and_revived) {
  outcome = callback_outcome{callback_outcome::kind::dead, {}, 404, "the callee answered 404"};
  put("/v1/timers/a", at_once);
  put("/v1/timers/b", at_once);
  put("/v1/timers/c", in_an_hour);
  advance(2s);
  EXPECT_EQ(last, (std::vector<std::string>{"a: the callee answered 404", "b: the callee answered 404"}));
  const json page = document_of(get("/v1/timers?state=dead&limit=1"));
  ASSERT_EQ(page["timers"].size(), 1U);
  EXPECT_EQ(page["timers"][0]["id"], "a");
  EXPECT_EQ(page["timers"][0]["last_error"], "the callee answered 404");
  EXPECT_EQ(page["next_after"], "a");
  const json rest = document_of(get("/v1/timers?state=dead&after=a&limit=2"));
  ASSERT_EQ(rest["timers"].size(), 1U);
  EXPECT_EQ(rest["timers"][0]["id"], "b");
  EXPECT_FALSE(rest.contains("next_after"));

  outcome = callback_outcome{callback_outcome::kind::done, {}, 200, {}};
  EXPECT_EQ(post("/v1/timers/a/revive").status, 200U);
  advance(2s);
  EXPECT_EQ(document_of(get("/v1/timers/a"))["state"], "finished");
  EXPECT_EQ(code_of(post("/v1/timers/c/revive")), "409 not-dead");
  EXPECT_EQ(code_of(post("/v1/timers/d/revive")), "404 not-found");
}

TEST_F(api_test, list_checks_its_parameters) {
  for (const auto* const target :
       {"/v1/timers", "/v1/timers?state=", "/v1/timers?state=Dead", "/v1/timers?state=dead&state=dead",
        "/v1/timers?state=dead&limit=0", "/v1/timers?state=dead&limit=1001", "/v1/timers?state=dead&limit=-1",
        "/v1/timers?state=dead&limit=1x", "/v1/timers?state=dead&limit=",
        "/v1/timers?state=dead&limit=99999999999999999999", "/v1/timers?state=dead&after=%00",
        "/v1/timers?state=dead&after=%zz", "/v1/timers?state=dead&before=a", "/v1/timers/a?state=dead"})
    EXPECT_EQ(code_of(get(target)), "400 bad-request") << target;
  EXPECT_EQ(get("/v1/timers?state=dead&limit=1000").status, 200U);
  EXPECT_EQ(get("/v1/timers?&state=dead&").status, 200U);
}

TEST_F(api_test, long_list_is_read_in_pages) {
  constexpr int count = 300;
  const std::string url = "http://127.0.0.1:9/" + std::string(3000, 'x');
  for (int i = 0; i < count; ++i)
    ASSERT_EQ(put("/v1/timers/t" + std::to_string(1000 + i), R"({"in":"1h","callback":")" + url + "\"}").status, 201U);
  std::size_t seen = 0;
  std::size_t pages = 0;
  std::string after;
  for (bool has_more = true; has_more; ++pages) {
    const http_answer answer = get("/v1/timers?state=pending&limit=1000&after=" + after);
    EXPECT_LT(answer.body.size(), timer_list::most_text + 4096);
    const json page = document_of(answer);
    for (const json& timer : page["timers"]) EXPECT_EQ(timer["id"], "t" + std::to_string(1000 + seen++));
    has_more = page.contains("next_after");
    if (has_more) after = page["next_after"];
  }
  EXPECT_EQ(seen, std::size_t{count});
  EXPECT_EQ(pages, 4U);
}

TEST_F(api_test, list_of_timers_with_large_bodies_reads_few_at_once) {
  for (int i = 0; i < 100; ++i)
    ASSERT_EQ(put("/v1/timers/t" + std::to_string(1000 + i),
                  R"({"in":"1h","callback":"http://127.0.0.1:9/","body":")" + std::string(4000, 'x') + "\"}")
                  .status,
              201U);
  std::size_t most = 0;
  database->on_call([&](durable::store_verb verb, const durable::store_call& call) {
    if (verb == durable::store_verb::list) most = std::max(most, static_cast<const durable::list_call&>(call).limit);
  });
  EXPECT_EQ(document_of(get("/v1/timers?state=pending&limit=1000"))["timers"].size(), 100U);
  EXPECT_LT(most, 300U);
}

TEST_F(api_test, list_is_unavailable_if_the_store_goes_away_in_the_middle) {
  for (int i = 0; i < 20; ++i) ASSERT_EQ(put("/v1/timers/t" + std::to_string(i), in_an_hour).status, 201U);
  int reads = 0;
  database->on_call([&](durable::store_verb verb, const durable::store_call&) {
    reads += verb == durable::store_verb::list;
    if (verb == durable::store_verb::list && reads == 2) database->outage(true);
  });
  EXPECT_EQ(code_of(get("/v1/timers?state=pending")), "503 unavailable");
  EXPECT_EQ(reads, 2);
}

TEST_F(api_test, few_lists_are_read_at_once) {
  put("/v1/timers/a", in_an_hour);
  std::vector<unsigned> statuses;
  const auto list = [&] {
    requests->ask({.method = "GET", .target = "/v1/timers?state=pending"},
                  [&](const http_answer& a) { statuses.push_back(a.status); });
  };
  for (std::size_t i = 0; i < timer_list::most_pages; ++i) list();
  EXPECT_TRUE(statuses.empty());
  list();
  EXPECT_EQ(statuses, std::vector<unsigned>{503});
  advance(1s);
  EXPECT_EQ(statuses.size(), timer_list::most_pages + 1);
  list();
  advance(1s);
  EXPECT_EQ(statuses.back(), 200U);
}

TEST_F(api_test, failed_call_is_repeated_until_the_timer_is_dead) {
  outcome = callback_outcome{callback_outcome::kind::failed, {}, 500, "the callee answered 500"};
  put("/v1/timers/a", at_once);
  advance(1min);
  EXPECT_EQ(called.size(), 2U);
  EXPECT_EQ(document_of(get("/v1/timers/a"))["state"], "dead");
  EXPECT_EQ(last, std::vector<std::string>{"a: the callee answered 500"});
}

TEST_F(api_test, last_failure_of_a_period_is_told_and_the_next_period_comes) {
  outcome = callback_outcome{callback_outcome::kind::failed, {}, 500, "the callee answered 500"};
  put("/v1/timers/a", R"({"in":"0s","every":"PT1M","callback":"http://127.0.0.1:9/due"})");
  advance(50s);
  EXPECT_EQ(called.size(), 2U);
  EXPECT_EQ(last, std::vector<std::string>{"a: the callee answered 500"});
  EXPECT_EQ(document_of(get("/v1/timers/a"))["state"], "pending");
  advance(1min);
  EXPECT_EQ(called.size(), 4U);
  EXPECT_EQ(last.size(), 2U);
}

TEST_F(api_test, call_that_ends_after_the_scheduler_is_nobodys_last) {
  outcome.reset();
  put("/v1/timers/a", at_once);
  advance(2s);
  ASSERT_EQ(unanswered.size(), 1U);
  EXPECT_EQ(calls.running(), 1U);
  scheduler.close();
  calls.close();
  EXPECT_EQ(calls.running(), 0U);
  unanswered[0]({callback_outcome::kind::dead, {}, 404, "the callee answered 404"});
  EXPECT_TRUE(last.empty());
}

TEST_F(api_test, callee_may_ask_to_wait_a_hundred_times) {
  outcome = callback_outcome{callback_outcome::kind::asked_to_wait, 1s, 429, "the callee answered 429"};
  put("/v1/timers/a", at_once);
  advance(100s);
  EXPECT_EQ(document_of(get("/v1/timers/a"))["attempts"], 1U - 1U);
  EXPECT_EQ(document_of(get("/v1/timers/a"))["state"], "pending");
  advance(30min);
  EXPECT_EQ(document_of(get("/v1/timers/a"))["state"], "dead");
  EXPECT_EQ(called.size(), 2 * (most_waits_in_a_row + 1)) << "two attempts";
  EXPECT_EQ(last,
            std::vector<std::string>{"a: the callee asked to be called later too often: the callee answered 429"});
}

TEST_F(api_test, replaced_timer_may_wait_as_often_again) {
  outcome = callback_outcome{callback_outcome::kind::asked_to_wait, 3s, 429, "the callee answered 429"};
  put("/v1/timers/a", at_once);
  advance(6min);
  const std::size_t before = called.size();
  EXPECT_GT(before, most_waits_in_a_row / 2);
  ASSERT_EQ(put("/v1/timers/a", replacing_at_once).status, 200U);
  advance(6min);
  EXPECT_GT(called.size(), most_waits_in_a_row);
  EXPECT_LE(called.size() - before, most_waits_in_a_row);
  EXPECT_EQ(document_of(get("/v1/timers/a"))["attempts"], 0U) << "no failure";
  EXPECT_EQ(document_of(get("/v1/timers/a"))["state"], "pending");
}

TEST_F(api_test, unreadable_payload_is_buried) {
  ASSERT_EQ(scheduler.schedule({.id = "other", .due = database->now(), .payload = "x"}, [](auto) noexcept {}), 0);
  advance(2s);
  EXPECT_EQ(document_of(get("/v1/timers/other"))["state"], "dead");
  EXPECT_TRUE(called.empty());
}

TEST_F(api_test, outage_is_unavailable_and_nothing_is_half_done) {
  database->outage(true);
  const http_answer answer = put("/v1/timers/a", in_an_hour);
  EXPECT_EQ(code_of(answer), "503 unavailable");
  EXPECT_EQ(answer.retry_after, 1s);
  EXPECT_EQ(code_of(get("/v1/timers/a")), "503 unavailable");
  EXPECT_EQ(code_of(remove("/v1/timers/a")), "503 unavailable");
  EXPECT_EQ(code_of(post("/v1/timers/a/revive")), "503 unavailable");
  EXPECT_EQ(code_of(get("/v1/timers?state=dead")), "503 unavailable");
  EXPECT_EQ(code_of(get("/readyz")), "503 not-ready");
  EXPECT_EQ(get("/healthz").status, 200U);
  database->outage(false);
  advance(5s);
  EXPECT_EQ(get("/v1/timers/a").status, 404U);
  EXPECT_EQ(get("/readyz").status, 200U);
  EXPECT_EQ(put("/v1/timers/a", in_an_hour).status, 201U);
}

TEST_F(api_test, unknown_outcome_says_what_to_do) {
  database->fail_next(durable::store_verb::put, durable::memory_fault::unknown_done);
  const http_answer answer = put("/v1/timers/a", in_an_hour);
  EXPECT_EQ(code_of(answer), "504 unknown");
  EXPECT_NE(answer.body.find("Send the same request again"), std::string::npos) << answer.body;
  EXPECT_EQ(put("/v1/timers/a", in_an_hour).status, 200U);
  database->fail_next(durable::store_verb::put, durable::memory_fault::unknown_done);
  const http_answer replaced = put("/v1/timers/a", replacing);
  EXPECT_EQ(code_of(replaced), "504 unknown");
  EXPECT_NE(replaced.body.find("may be called twice"), std::string::npos) << replaced.body;
  database->fail_next(durable::store_verb::cancel, durable::memory_fault::unknown_done);
  EXPECT_EQ(code_of(remove("/v1/timers/a")), "504 unknown");
}

TEST_F(api_test, store_may_refuse_a_timer) {
  database->refuse([](const durable::task& t) { return t.id == "a"; });
  EXPECT_EQ(code_of(put("/v1/timers/a", in_an_hour)), "422 refused");
}

TEST_F(api_test, closed_scheduler_is_unavailable) {
  scheduler.close();
  EXPECT_EQ(code_of(put("/v1/timers/a", in_an_hour)), "503 unavailable");
  EXPECT_EQ(code_of(get("/v1/timers/a")), "503 unavailable");
  EXPECT_EQ(code_of(get("/readyz")), "503 not-ready");
}

TEST_F(api_test, drain_is_not_ready) {
  EXPECT_EQ(get("/readyz").status, 200U);
  requests->begin_drain();
  EXPECT_EQ(code_of(get("/readyz")), "503 not-ready");
}

TEST_F(api_test, readiness_asks_the_store_once_a_second) {
  get("/readyz");
  const std::size_t before = database->calls(durable::store_verb::get);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(get("/readyz").status, 200U);
  EXPECT_EQ(database->calls(durable::store_verb::get), before);
  advance(1s);
  EXPECT_EQ(get("/readyz").status, 200U);
  EXPECT_EQ(database->calls(durable::store_verb::get), before + 1);
}

TEST_F(api_test, metrics_are_text_for_prometheus) {
  const http_answer answer = get("/metrics");
  EXPECT_EQ(answer.status, 200U);
  EXPECT_EQ(answer.content_type, "text/plain; version=0.0.4");
  EXPECT_NE(answer.body.find("\ntickwheel_durable_partitions 4\n"), std::string::npos) << answer.body;
}

TEST_F(api_test, token_is_asked_for_except_of_probes) {
  ASSERT_EQ(tokens.read("# ours\n\n0123456789abcdef\n"), "");
  start(&tokens);
  const http_answer none = get("/v1/timers?state=dead");
  EXPECT_EQ(code_of(none), "401 unauthorized");
  EXPECT_TRUE(none.asks_for_token);
  EXPECT_EQ(get("/metrics").status, 401U);
  EXPECT_EQ(get("/nothing").status, 401U);
  EXPECT_EQ(get("/healthz").status, 200U);
  EXPECT_EQ(get("/readyz").status, 200U);
  const api_request valid{
      .method = "GET", .target = "/v1/timers?state=dead", .authorization = "Bearer 0123456789abcdef"};
  EXPECT_EQ(ask(valid).status, 200U);
}

TEST_F(api_test, page_that_names_this_machine_its_own_is_refused) {
  requests.emplace(manual.timers, scheduler, api_options{.refuses_web_pages = true});
  const auto asked_as = [&](std::string_view host) {
    return ask({.method = "GET", .target = "/v1/timers/a", .host = host}).status;
  };
  for (const auto* const host : {"evil.example", "evil.example:8081", "127.0.0.1.evil.example",
                                 "localhost.evil.example:8081", "localhosts", "", ":8081", "1"})
    EXPECT_EQ(asked_as(host), 421U) << host;
  for (const auto* const host :
       {"localhost", "LocalHost:8081", "127.0.0.1", "127.0.0.1:8081", "[::1]:8081", "10.0.0.1:1"})
    EXPECT_EQ(asked_as(host), 404U) << host;
  EXPECT_EQ(ask({.method = "GET", .target = "/healthz", .host = "evil.example"}).status, 200U) << "says nothing";
}

TEST_F(api_test, request_of_a_web_page_is_refused) {
  requests.emplace(manual.timers, scheduler, api_options{.refuses_web_pages = true});
  for (const auto* const origin : {"http://evil.example", "http://127.0.0.1:8081", "null"}) {
    const auto asked = [&](std::string_view method, std::string_view target) {
      return code_of(ask({.method = method, .target = target, .host = "127.0.0.1", .origin = origin}));
    };
    EXPECT_EQ(asked("POST", "/v1/timers/a/revive"), "403 web-page");
    EXPECT_EQ(asked("PUT", "/v1/timers/a"), "403 web-page");
    EXPECT_EQ(asked("DELETE", "/v1/timers/a"), "403 web-page");
  }
  ASSERT_EQ(tokens.read("0123456789abcdef"), "");
  start(&tokens);
  EXPECT_EQ(ask({.method = "GET",
                 .target = "/v1/timers/a",
                 .origin = "http://app.example",
                 .authorization = "Bearer 0123456789abcdef"})
                .status,
            404U)
      << "a page with a token is a client";
}

TEST_F(api_test, token_with_too_many_requests_has_to_wait) {
  ASSERT_EQ(tokens.read("0123456789abcdef\nfedcba9876543210"), "");
  start(&tokens);
  const api_request probe{.method = "GET", .target = "/nothing", .authorization = "Bearer 0123456789abcdef"};
  EXPECT_EQ(ask(probe).status, 404U);
  EXPECT_EQ(ask(probe).status, 404U);
  const http_answer third = ask(probe);
  EXPECT_EQ(code_of(third), "429 too-many-requests");
  EXPECT_EQ(third.retry_after, 1s);
  EXPECT_EQ(ask({.method = "GET", .target = "/nothing", .authorization = "Bearer fedcba9876543210"}).status, 404U);
  advance(1s);
  EXPECT_EQ(ask(probe).status, 404U);
  EXPECT_EQ(ask(probe).status, 429U);
}

TEST(bearer_tokens, judges_the_header) {
  bearer_tokens tokens{{}};
  ASSERT_EQ(tokens.read("0123456789abcdef  \r\n# 0000000000000000\n"), "");
  using verdict = bearer_tokens::verdict;
  const auto judge = [&](std::string_view header) { return tokens.admit(header, {}).what; };
  EXPECT_EQ(judge("Bearer 0123456789abcdef"), verdict::admitted);
  EXPECT_EQ(judge("bearer  0123456789abcdef"), verdict::admitted);
  for (const auto* const header :
       {"", "Bearer", "Bearer ", "0123456789abcdef", "Basic 0123456789abcdef", "Bearer 0123456789abcdeg",
        "Bearer 0123456789abcde", "Bearer 0123456789abcdef0", "Bearer 0123456789abcdef ", "Bearer 0000000000000000"})
    EXPECT_EQ(judge(header), verdict::unknown) << header;
}

TEST(bearer_tokens, names_the_line_that_is_wrong) {
  bearer_tokens tokens{{}};
  EXPECT_EQ(tokens.read(""), "it has no token");
  EXPECT_EQ(tokens.read("# none\n\n"), "it has no token");
  EXPECT_EQ(tokens.read("0123456789abcdef\nshort\n"), "line 2: the token is shorter than 16 characters");
  EXPECT_EQ(tokens.read("0123456789 abcdef").find("line 1: the token has a character"), 0U);
  EXPECT_EQ(tokens.size(), 0U);
}

TEST_F(api_test, call_that_is_given_back_counts_no_attempt) {
  outcome.reset();
  put("/v1/timers/a", R"({"in": "0s", "callback": "http://127.0.0.1:9/"})");
  advance(1s);
  ASSERT_EQ(calls.running(), 1U);
  ASSERT_EQ(scheduler.drain([]() noexcept {}), 0);
  calls.give_back();
  unanswered.front()(failed_with("the caller was closed"));  // changes nothing
  advance(1s);
  const auto timer = *database->info("a");
  EXPECT_EQ(timer.state, durable::task_state::pending);
  EXPECT_EQ(timer.attempts, 0U);
  EXPECT_EQ(timer.last_error, "");
}

TEST_F(api_test, timer_that_starts_after_calls_were_given_back_is_not_called) {
  database->answer_after(durable::store_verb::begin, 2s);
  put("/v1/timers/a", R"({"in": "0s", "callback": "http://127.0.0.1:9/"})");
  advance(1s);
  ASSERT_EQ(database->open_calls(durable::store_verb::begin), 1U);
  ASSERT_EQ(scheduler.drain([]() noexcept {}), 0);
  calls.give_back();
  advance(5s);
  EXPECT_TRUE(called.empty());
  EXPECT_EQ(database->info("a")->state, durable::task_state::pending);
  EXPECT_EQ(database->info("a")->attempts, 0U);
}

}  // namespace
