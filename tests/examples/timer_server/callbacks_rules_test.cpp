// The addresses that may be called, the meaning of an answer, and the signature of a body.
#include "timer_server/callbacks/address_rules.hpp"
#include "timer_server/callbacks/callback_outcome.hpp"
#include "timer_server/callbacks/delivery/host_resolver.hpp"
#include "timer_server/callbacks/message/signature.hpp"

#include <gtest/gtest.h>
#include <uv.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <string>

using namespace std::chrono_literals;
using namespace timer_server;
using kind = callback_outcome::kind;

namespace {

union any_address {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};

any_address address(const char* text) {
  any_address a{};
  EXPECT_TRUE(uv_ip4_addr(text, 80, &a.v4) == 0 || uv_ip6_addr(text, 80, &a.v6) == 0) << text;
  return a;
}

bool allows(const address_rules& rules, const char* text) { return rules.allows(address(text).any); }

TEST(address_rules, default_is_loopback) {
  const address_rules rules;
  for (const char* const yes : {"127.0.0.1", "127.255.255.255", "::1", "::ffff:127.0.0.1"})
    EXPECT_TRUE(allows(rules, yes)) << yes;
  for (const char* const no : {"0.0.0.0", "126.255.255.255", "128.0.0.0", "10.0.0.1", "169.254.169.254", "::", "::2",
                               "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1"})
    EXPECT_FALSE(allows(rules, no)) << no;
  EXPECT_FALSE(rules.allows(sockaddr{.sa_family = AF_UNIX, .sa_data = {}}));
}

TEST(address_rules, ranges_end_where_the_prefix_says) {
  address_rules rules = address_rules::none();
  EXPECT_FALSE(allows(rules, "127.0.0.1"));
  EXPECT_EQ(rules.allow("10.1.2.128/25"), nullptr);
  EXPECT_TRUE(allows(rules, "10.1.2.128"));
  EXPECT_TRUE(allows(rules, "10.1.2.255"));
  EXPECT_FALSE(allows(rules, "10.1.2.127"));
  EXPECT_FALSE(allows(rules, "10.1.3.0"));
  EXPECT_EQ(rules.allow("fd00::/8"), nullptr);
  EXPECT_TRUE(allows(rules, "fdff::1"));
  EXPECT_FALSE(allows(rules, "fe00::1"));
  EXPECT_EQ(rules.allow("192.0.2.7"), nullptr);
  EXPECT_TRUE(allows(rules, "192.0.2.7"));
  EXPECT_FALSE(allows(rules, "192.0.2.6"));
}

TEST(address_rules, ipv6_range_never_allows_ipv4) {
  address_rules rules = address_rules::none();
  EXPECT_EQ(rules.allow("::/0"), nullptr);
  EXPECT_TRUE(allows(rules, "2001:db8::1"));
  EXPECT_FALSE(allows(rules, "10.0.0.1"));
  EXPECT_FALSE(allows(rules, "::ffff:10.0.0.1"));
  EXPECT_EQ(rules.allow("0.0.0.0/0"), nullptr);
  EXPECT_TRUE(allows(rules, "10.0.0.1"));
}

TEST(address_rules, mapped_range_is_an_ipv4_range) {
  address_rules rules = address_rules::none();
  EXPECT_EQ(rules.allow("::ffff:10.0.0.0/104"), nullptr);
  EXPECT_TRUE(allows(rules, "10.200.0.1"));
  EXPECT_FALSE(allows(rules, "11.0.0.0"));
}

TEST(address_rules, refuses_ranges_with_a_reason) {
  address_rules rules = address_rules::none();
  for (const char* const bad :
       {"", "/", "a", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/8x", "10.0.0.0/99999999999", "10.0.0.1/8",
        "::/129", "fd00::1/8", "::ffff:0:0/90", "10.0.0", "fe80::1%lo", " 10.0.0.1"})
    EXPECT_NE(rules.allow(bad), nullptr) << bad;
  EXPECT_FALSE(allows(rules, "10.0.0.1"));
}

TEST(address_rules, check_keeps_only_allowed_addresses) {
  any_address a = address("10.0.0.1"), b = address("127.0.0.1"), c = address("::1"), d = address("127.0.0.1");
  std::array<addrinfo, 4> all{};
  all[0].ai_addr = &a.any;
  all[1].ai_addr = &b.any;
  all[2].ai_addr = &c.any;
  all[3].ai_addr = &d.any;
  for (std::size_t at = 0; at + 1 < all.size(); ++at) all[at].ai_next = &all[at + 1];
  const resolution r = check_addresses(all.data(), address_rules{});
  ASSERT_EQ(r.allowed.size(), 2U);
  EXPECT_EQ(text_of(reinterpret_cast<const sockaddr&>(r.allowed[0])), "127.0.0.1");
  EXPECT_EQ(text_of(reinterpret_cast<const sockaddr&>(r.allowed[1])), "::1");
  EXPECT_EQ(r.refused, "10.0.0.1");
}

const auto now = std::chrono::system_clock::from_time_t(784111777);  // Sun, 06 Nov 1994 08:49:37 GMT

TEST(callback_outcome, status_decides) {
  const struct {
    unsigned status;
    kind what;
  } table[] = {{200, kind::done},   {204, kind::done},   {299, kind::done},   {300, kind::dead},   {301, kind::dead},
               {304, kind::dead},   {308, kind::dead},   {400, kind::dead},   {401, kind::dead},   {404, kind::dead},
               {410, kind::dead},   {408, kind::failed}, {425, kind::failed}, {429, kind::failed}, {500, kind::failed},
               {502, kind::failed}, {503, kind::failed}, {504, kind::failed}, {599, kind::failed}, {600, kind::failed},
               {999, kind::failed}, {0, kind::failed}};
  for (const auto& row : table) {
    const callback_outcome o = outcome_of(row.status, {}, now);
    EXPECT_EQ(o.what, row.what) << row.status;
    EXPECT_EQ(o.status, row.status);
    EXPECT_EQ(o.error.empty(), row.what == kind::done) << row.status;
  }
}

TEST(callback_outcome, only_429_and_503_may_ask_to_wait) {
  for (const unsigned status : {429U, 503U}) {
    const callback_outcome o = outcome_of(status, "7", now);
    EXPECT_EQ(o.what, kind::asked_to_wait);
    EXPECT_EQ(o.delay, 7s);
    EXPECT_EQ(outcome_of(status, "soon", now).what, kind::failed);
  }
  EXPECT_EQ(outcome_of(408, "7", now).what, kind::failed);
  EXPECT_EQ(outcome_of(500, "7", now).what, kind::failed);
  EXPECT_EQ(outcome_of(200, "7", now).what, kind::done);
  EXPECT_EQ(outcome_of(404, "7", now).what, kind::dead);
}

TEST(callback_outcome, retry_after_is_seconds_or_date) {
  const struct {
    const char* text;
    std::chrono::seconds wait;
  } table[] = {{"0", 1s},
               {"1", 1s},
               {"3600", 1h},
               {"3601", 1h},
               {"99999999999999999999999999", 1h},
               {"Sun, 06 Nov 1994 08:49:47 GMT", 10s},
               {"Sunday, 06-Nov-94 08:49:47 GMT", 10s},
               {"Sun Nov  6 08:49:47 1994", 10s},
               {"Sun, 06 Nov 1994 08:49:37 GMT", 1s},
               {"Thu, 01 Jan 1970 00:00:00 GMT", 1s},
               {"Fri, 31 Dec 9999 23:59:59 GMT", 1h}};
  for (const auto& row : table) EXPECT_EQ(wait_of(row.text, now), row.wait) << row.text;
  for (const char* const bad :
       {"", "-1", "1.5", "soon", "7 ", "Sun, 06 Nov 1994 08:49:47", "Sun, 06 Nov 1994 08:49:47 GMT x"})
    EXPECT_EQ(wait_of(bad, now), std::nullopt) << bad;
}

// Computed by OpenSSL's command line:
// printf '1767225600.{"a":1}' | openssl dgst -sha256 -hmac secret
TEST(callback_request, signature_is_that_of_openssl) {
  const auto at = std::chrono::system_clock::from_time_t(1767225600) + 900ms;
  EXPECT_EQ(signature_of("{\"a\":1}", "secret", at),
            "t=1767225600,v1=96a067a1c95eb143fc00b9097bcfcbcd5456adda508c443ff219748e764dbed7");
}

}  // namespace
