// The document that schedules a timer: what it means, and which message each mistake gets.
#include "timer_server/timers/timer_request.hpp"
#include "timer_server/timers/timer_payload.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

using namespace std::chrono_literals;
using namespace std::string_literals;
using namespace timer_server;
using tickwheel::durable::on_conflict;

namespace {

timer_request read(std::string_view json) {
  auto result = read_timer_request(json);
  if (const auto* const mistake = std::get_if<request_mistake>(&result)) {
    ADD_FAILURE() << json << ": " << mistake->detail;
    return {};
  }
  return std::get<timer_request>(std::move(result));
}

request_mistake mistake_in(std::string_view json) {
  auto result = read_timer_request(json);
  auto* const mistake = std::get_if<request_mistake>(&result);
  if (mistake == nullptr) {
    ADD_FAILURE() << json << " was taken";
    return {};
  }
  return *mistake;
}

/// A valid document with more fields.
std::string with(std::string_view fields) {
  return R"({"in":"30m","callback":"http://127.0.0.1:9000/due",)" + std::string{fields} + '}';
}

TEST(timer_request, least_document_has_defaults) {
  const timer_request asked = read(R"({"in":"30m","callback":"http://127.0.0.1:9000/due"})");
  EXPECT_EQ(asked.due, std::nullopt);
  EXPECT_EQ(asked.in, 30min);
  EXPECT_EQ(asked.every, 0s);
  EXPECT_EQ(asked.conflict, on_conflict::keep);
  EXPECT_EQ(asked.callback.url, "http://127.0.0.1:9000/due");
  EXPECT_EQ(asked.callback.method, "POST");
  EXPECT_TRUE(asked.callback.headers.empty());
  EXPECT_EQ(asked.callback.body, "");
}

TEST(timer_request, takes_all_fields) {
  const timer_request asked = read(R"( {
    "due": "2030-01-31T10:30:00+01:00", "callback": "http://127.0.0.1:9000/due?a=b", "method": "PUT",
    "headers": {"Content-Type": "text/plain", "X-Order": "7"}, "body": "one\ntwo \u00e4 \u0000", "every": "P1D",
    "on_conflict": "replace"
  } )");
  EXPECT_EQ(asked.due, std::chrono::sys_days{std::chrono::year{2030} / 1 / 31} + 9h + 30min);
  EXPECT_EQ(asked.every, 24h);
  EXPECT_EQ(asked.conflict, on_conflict::replace);
  EXPECT_EQ(asked.callback.method, "PUT");
  ASSERT_EQ(asked.callback.headers.size(), 2U);
  EXPECT_EQ(asked.callback.headers[0], (std::pair{"Content-Type"s, "text/plain"s}));
  EXPECT_EQ(asked.callback.headers[1], (std::pair{"X-Order"s, "7"s}));
  EXPECT_EQ(asked.callback.body, "one\ntwo \xC3\xA4 \0"s);
}

TEST(timer_request, mistake_names_the_field) {
  for (const auto& [json, field, part] : {
           std::tuple{with(R"("colour":"red")"), "colour", "unknown"},
           {with(R"("":"red")"), "", "unknown"},
           {with(R"("Method":"PUT")"), "Method", "unknown"},
           {with(R"("in":"30m")"), "in", "twice"},
           {with(R"("due":"2030-01-31T09:30:00Z")"), "due", "both"},
           {R"({"callback":"http://127.0.0.1/"})"s, "due", "Give due or in"},
           {R"({})"s, "due", "Give due or in"},
           {R"({"in":"30m"})"s, "callback", "missing"},
           {R"({"due":"2030-13-01T00:00:00Z","callback":"http://127.0.0.1/"})"s, "due", "month"},
           {R"({"due":"2016-12-31T23:59:60Z","callback":"http://127.0.0.1/"})"s, "due", "leap second"},
           {R"({"due":"2030-01-31T09:30:00","callback":"http://127.0.0.1/"})"s, "due", "offset"},
           {R"({"due":1893456000,"callback":"http://127.0.0.1/"})"s, "due", "a number; it must be a string"},
           {R"({"in":30,"callback":"http://127.0.0.1/"})"s, "in", "a number; it must be a string"},
           {R"({"in":null,"callback":"http://127.0.0.1/"})"s, "in", "null"},
           {R"({"in":true,"callback":"http://127.0.0.1/"})"s, "in", "a boolean"},
           {R"({"in":"PT","callback":"http://127.0.0.1/"})"s, "in", "is not a duration"},
           {R"({"in":"99999999999999999999h","callback":"http://127.0.0.1/"})"s, "in", "longer"},
           {R"({"in":"30m","callback":"ftp://127.0.0.1/"})"s, "callback", "ftp"},
           {R"({"in":"30m","callback":""})"s, "callback", "callback"},
           {R"({"in":"30m","callback":{"url":"x"}})"s, "callback", "an object; it must be a string"},
           {R"({"in":"30m","callback":["x"]})"s, "callback", "an array; it must be a string"},
           {with(R"("method":"CONNECT")"), "method", "CONNECT"},
           {with(R"("method":"PO ST")"), "method", "PO ST"},
           {with(R"("every":"PT0.5S")"), "every", "at least"},
           {with(R"("every":"0s")"), "every", "at least"},
           {with(R"("every":"P1M")"), "every", "months"},
           {with(R"("on_conflict":"skip")"), "on_conflict", "\"keep\" or \"replace\""},
           {with(R"("body":{"order":7})"), "body", "an object; it must be a string"},
           {with(R"("headers":"X: y")"), "headers", "an object of strings"},
           {with(R"("headers":[["X","y"]])"), "headers", "an object of strings"},
           {with(R"("headers":{"X":7})"), "headers", "a number; it must be a string"},
           {with(R"("headers":{"X":{"Y":"z"}})"), "headers", "an object; it must be a string"},
           {with(R"("headers":{"X":["y"]})"), "headers", "an array; it must be a string"},
           {with(R"("headers":{"X":"y","x":"z"})"), "headers", "twice"},
       }) {
    const request_mistake mistake = mistake_in(json);
    EXPECT_EQ(mistake.field, field) << json;
    EXPECT_NE(mistake.detail.find(part), std::string::npos) << json << ": " << mistake.detail;
    EXPECT_EQ(mistake.detail.back(), '.') << mistake.detail;
  }
}

TEST(timer_request, refuses_headers_that_would_split_the_request) {
  for (const auto* const headers :
       {R"({"X":"a\r\nHost: b"})", R"({"X":"a\nb"})", R"({"X":"a\rb"})", R"({"X":"a\u0000b"})", R"({"X\r\nY":"b"})",
        R"({"X: Y":"b"})", R"({"":"b"})", R"({"X ":"b"})", R"({"X\u0000":"b"})"}) {
    EXPECT_EQ(mistake_in(with(R"("headers":)"s + headers)).field, "headers") << headers;
  }
}

TEST(timer_request, refuses_headers_that_are_the_services_own) {
  for (const auto* const name : {"Host", "content-length", "Transfer-Encoding", "CONNECTION", "Keep-Alive", "TE",
                                 "Trailer", "Upgrade", "Proxy-Connection", "Expect", "Timer-Id", "timer-due",
                                 "Timer-Anything", "Timer-Signature", "Idempotency-Key"}) {
    EXPECT_EQ(mistake_in(with(R"("headers":{")"s + name + R"(":"x"})")).field, "headers") << name;
  }
}

TEST(timer_request, refuses_too_many_headers) {
  std::string headers;
  for (std::size_t i = 0; i < max_callback_headers; ++i)
    headers += (i == 0 ? "" : ",") + ("\"X-" + std::to_string(i) + R"(":"y")");
  EXPECT_EQ(read(with(R"("headers":{)" + headers + "}")).callback.headers.size(), max_callback_headers);
  const request_mistake mistake = mistake_in(with(R"("headers":{)" + headers + R"(,"Last":"z"})"));
  EXPECT_NE(mistake.detail.find("more than 64"), std::string::npos) << mistake.detail;
}

TEST(timer_request, refuses_documents_that_are_no_object) {
  for (const auto* const json : {"", " ", "{", "}", "[]", "null", "7", "\"in\"", "{\"in\":}", "{in:\"30m\"}",
                                 "{\"in\":\"30m\",}", "{}{}", "{\"in\":\"30m\"}x", "// no\n{}", "{\"in\":\"\xff\"}",
                                 "{\"in\":\"\xed\xa0\x80\"}", "{\"in\":\"\\ud800\"}", "\xef\xbb\xbf"})
    EXPECT_EQ(mistake_in(json).detail.empty(), false) << json;
  using namespace std::string_view_literals;
  for (const auto after : {"\0"sv, "\0{}"sv, " \0x"sv}) {  // the parser takes a zero byte for the end of the text
    const std::string json = with(R"("headers":{})") + std::string{after};
    EXPECT_NE(mistake_in(json).detail.find("error at byte " + std::to_string(json.find('\0') + 1)), std::string::npos);
  }
  EXPECT_EQ(mistake_in("{\"in\":\"30m\"").field, std::nullopt);
  const request_mistake number = mistake_in(R"({"in":1e999,"callback":"http://127.0.0.1/"})");
  EXPECT_EQ(number.field, std::nullopt);
  EXPECT_NE(number.detail.find("error at byte"), std::string::npos) << number.detail;
}

TEST(timer_request, depth_of_a_document_costs_nothing) {
  const std::string deep(1 << 16, '[');
  EXPECT_EQ(mistake_in(deep).detail, "The document is an array; it must be an object.");
  EXPECT_EQ(mistake_in("{\"headers\":" + deep).field, "headers");
}

TEST(timer_request, long_value_is_cut_in_the_message) {
  const request_mistake mistake = mistake_in(R"({"in":")" + std::string(10'000, 'x') + R"("})");
  EXPECT_LT(mistake.detail.size(), 200U);
  std::string umlauts;
  for (int i = 0; i < 100; ++i) umlauts += "x\xC3\xA4\xC3\xA4";
  const std::string detail = mistake_in(R"({"in":")" + umlauts + R"("})").detail;
  EXPECT_NE(detail.find("...\""), std::string::npos);
  EXPECT_LT(static_cast<unsigned char>(detail[detail.find("...\"") - 1]), 0xC0U) << "cut within a character";
}

// --- what the store keeps

TEST(timer_request, payload_is_read_back) {
  callback_request callback{.url = "http://127.0.0.1:9000/due",
                            .method = "PUT",
                            .headers = {{"Content-Type", "text/plain"}, {"X", ""}},
                            .body = "a\"\\\n\0\x1f\xC3\xA4\xF0\x9F\x95\x90"s};
  const auto read = read_payload(write_payload(callback));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->url, callback.url);
  EXPECT_EQ(read->method, callback.method);
  EXPECT_EQ(read->headers, callback.headers);
  EXPECT_EQ(read->body, callback.body);
}

TEST(timer_request, other_text_is_no_payload) {
  for (const auto* const text :
       {"", "{", "7", "[]", "{}", R"({"url":"x"})", R"({"url":1,"method":"POST","body":"","headers":[]})",
        R"({"url":"x","method":"POST","body":"","headers":{}})",
        R"({"url":"x","method":"POST","body":"","headers":[7]})",
        R"({"url":"x","method":"POST","body":"","headers":[["a"]]})",
        R"({"url":"x","method":"POST","body":"","headers":[["a",7]]})", "\xff"})
    EXPECT_FALSE(read_payload(text)) << text;
}

}  // namespace
