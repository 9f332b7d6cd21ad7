// The URLs, methods and headers that a callback may have.
#include "timer_server/callbacks/callback_caller.hpp"
#include "timer_server/callbacks/message/request_text.hpp"
#include "timer_server/callbacks/message/url.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

using namespace timer_server;
using testing::HasSubstr;

namespace {

callback_url parse(std::string_view text) {
  callback_url parts;
  EXPECT_EQ(parse_url(text, parts), nullptr) << text;
  return parts;
}

std::string refusal(std::string_view text) {
  const char* const problem = problem_of_url(text);
  return problem == nullptr ? "" : problem;
}

TEST(callback_url, splits_a_name_with_port_path_and_query) {
  const callback_url u = parse("HTTP://Shop.Example:8080/due?id=1&x=%20");
  EXPECT_EQ(u.host, "shop.example");
  EXPECT_EQ(u.port, 8080);
  EXPECT_EQ(u.authority, "shop.example:8080");
  EXPECT_EQ(u.target, "/due?id=1&x=%20");
  EXPECT_FALSE(u.is_address);
}

TEST(callback_url, defaults_port_and_path) {
  const callback_url u = parse("http://a-b_c.example");
  EXPECT_EQ(u.port, 80);
  EXPECT_EQ(u.authority, "a-b_c.example");
  EXPECT_EQ(u.target, "/");
  EXPECT_EQ(parse("http://h:80/").authority, "h");
  EXPECT_EQ(parse("http://h?q").target, "/?q");
}

TEST(callback_url, accepts_addresses) {
  EXPECT_TRUE(parse("http://127.0.0.1:9/").is_address);
  const callback_url u = parse("http://[::1]:9/x");
  EXPECT_TRUE(u.is_address);
  EXPECT_EQ(u.host, "::1");
  EXPECT_EQ(u.authority, "[::1]:9");
}

TEST(callback_url, refuses_with_a_reason) {
  const std::string long_label = "http://" + std::string(64, 'a');
  const std::string long_url = "http://h/" + std::string(9000, 'a');
  const struct {
    std::string_view url, why;
  } table[] = {
      {"", "empty"},
      {"ftp://h/", "does not begin with http://"},
      {"h/x", "does not begin with http://"},
      {"https://h/", "https is not supported yet"},
      {"http://", "host is empty"},
      {"http:///x", "host is empty"},
      {"http://:80/", "host is empty"},
      {"http://[]/", "host is empty"},
      {"http://u@h/", "user name"},
      {"http://u:p@h/", "user name"},
      {"http://h/#f", "fragment"},
      {"http://h#f", "fragment"},
      {"http://h/a b", "space"},
      {"http://h/\r\nX: y", "control"},
      {std::string_view{"http://h/\0x", 11}, "control"},
      {"http://h/\x7f", "control"},
      {"http://m\xc3\xbcller/", "beyond ASCII"},
      {"http://h:0/", "port"},
      {"http://h:65536/", "port"},
      {"http://h:/", "port"},
      {"http://h:8a/", "port"},
      {"http://h:-1/", "port"},
      {"http://h:99999999999999999999/", "port"},
      {"http://h:1:2/", "port"},
      {"http://[::1/", "without ']'"},
      {"http://[::1]x/", "follows ']'"},
      {"http://[fe80::1%25lo]/", "no IPv6 address"},
      {"http://[1.2.3.4]/", "no IPv6 address"},
      {"http://a..b/", "is empty"},
      {"http://./", "is empty"},
      {"http://a%41/", "other than letters"},
      {"http://h\\x/", "other than letters"},
      {"http://1.2.3/", "no IPv4 address"},
      {"http://256.1.1.1/", "no IPv4 address"},
      {"http://2130706433/", "no IPv4 address"},
      {"http://h/%4", "two hexadecimal digits"},
      {"http://h/<", "percent-encoded"},
      {long_label, "longer than 63"},
      {long_url, "longer than 8000"},
  };
  for (const auto& row : table) EXPECT_THAT(refusal(row.url), HasSubstr(std::string{row.why})) << row.url;
}

TEST(callback_request, method_must_be_a_token) {
  EXPECT_EQ(problem_of_method("POST"), nullptr);
  EXPECT_EQ(problem_of_method("PATCH"), nullptr);
  for (const char* const bad : {"", "PO ST", "GET\r\n", "CONNECT", "TRACE"})
    EXPECT_NE(problem_of_method(bad), nullptr) << bad;
  EXPECT_NE(problem_of_method(std::string(33, 'A')), nullptr);
}

TEST(callback_request, header_cannot_inject_or_override) {
  EXPECT_EQ(problem_of_header("Timer-Id", "a\tb"), nullptr);
  EXPECT_EQ(problem_of_header("X", ""), nullptr);
  EXPECT_NE(problem_of_header("", "a"), nullptr);
  EXPECT_NE(problem_of_header("X:", "a"), nullptr);
  EXPECT_NE(problem_of_header("X", "a\r\nHost: b"), nullptr);
  EXPECT_NE(problem_of_header("X", std::string{"\0", 1}), nullptr);
  for (const char* const reserved :
       {"Host", "CONTENT-LENGTH", "transfer-encoding", "Connection", "Timer-Signature", "Expect"})
    EXPECT_NE(problem_of_header(reserved, "1"), nullptr) << reserved;
}

TEST(callback_request, head_has_all_headers) {
  const callback_request r{.url = "http://h:81/p?q", .headers = {{"Timer-Id", "a"}}, .body = "hi"};
  std::string out = "old";
  write_request_head(out, r, parse(r.url), "t=1,v1=2");
  EXPECT_EQ(
      out,
      "POST /p?q HTTP/1.1\r\nHost: h:81\r\nUser-Agent: tickwheel-timer-server\r\nTimer-Id: a\r\nContent-Length: 2\r\n"
      "Timer-Signature: t=1,v1=2\r\n\r\n");
}

TEST(callback_request, get_without_body_has_no_length) {
  const callback_request r{.url = "http://h/", .method = "GET", .headers = {{"user-agent", "me"}}, .body = ""};
  std::string out;
  write_request_head(out, r, parse(r.url), {});
  EXPECT_EQ(out, "GET / HTTP/1.1\r\nHost: h\r\nuser-agent: me\r\n\r\n");
}

}  // namespace
