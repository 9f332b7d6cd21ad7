// The answers of http_server, without a socket: to whole requests, pieces, rows, and to input that is no request.
#include "http/http_exchange.hpp"
#include "http_pieces.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>

using namespace std::chrono_literals;
using namespace std::string_literals;
using stage = http_exchange::stage;

namespace {

constexpr http_limits usual{.header = 1024, .body = 4096};

/// An exchange, and what it answered.
struct peer {
  explicit peer(const http_limits& limits = usual, std::chrono::seconds keep_alive = 0s)
      : exchange{limits, keep_alive} {}

  http_exchange exchange;
  std::string answers;

  peer& sends(std::string_view bytes) {
    exchange.take(bytes, answers);
    return *this;
  }
  /// The status of each answer, such as "200 404".
  std::string statuses() const {
    std::string all;
    for (std::size_t at = 0; (at = answers.find("HTTP/1.1 ", at)) != std::string::npos; at += 9)
      all += (all.empty() ? "" : " ") + answers.substr(at + 9, 3);
    return all;
  }
  bool says(std::string_view text) const { return answers.find(text) != std::string::npos; }
  bool is_over() const { return exchange.at() == stage::over; }
};

constexpr std::string_view get = "GET / HTTP/1.1\r\nHost: here\r\n\r\n";

TEST(http_exchange, answers_a_request_and_waits_for_the_next) {
  peer p;
  EXPECT_EQ(p.exchange.at(), stage::idle);
  p.sends(get);
  EXPECT_EQ(p.answers, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nHello.\n");
  EXPECT_EQ(p.exchange.at(), stage::idle);
  p.sends(get);
  EXPECT_EQ(p.statuses(), "200 200");
  EXPECT_EQ(p.exchange.answered(), 2U);
}

TEST(http_exchange, answers_requests_in_a_row_in_their_order) {
  peer p;
  p.sends(
      "GET / HTTP/1.1\r\nHost: h\r\n\r\nPOST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabcGET /no "
      "HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(p.statuses(), "200 200 404");
  EXPECT_LT(p.answers.find("Hello."), p.answers.find("abc"));
}

TEST(http_exchange, answers_a_request_that_comes_byte_by_byte) {
  peer p;
  const std::string_view post = "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello";
  for (std::size_t i = 0; i < post.size(); ++i) {
    EXPECT_EQ(p.exchange.at(), i == 0 ? stage::idle : i < post.size() - 5 ? stage::header : stage::body) << i;
    p.sends(post.substr(i, 1));
  }
  EXPECT_EQ(p.exchange.at(), stage::idle);
  EXPECT_TRUE(p.says("\r\n\r\nhello"));
}

TEST(http_exchange, echoes_a_chunked_body) {
  peer p;
  p.sends("POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n");
  EXPECT_EQ(p.statuses(), "200");
  EXPECT_TRUE(p.says("\r\n\r\nabcde"));
}

TEST(http_exchange, echoes_a_chunked_body_that_comes_byte_by_byte) {
  peer p;
  for (const char c : "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n\r\n"s)
    p.sends({&c, 1});
  for (const char c : "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"s)
    p.sends({&c, 1});
  EXPECT_EQ(p.statuses(), "200 200");
  EXPECT_TRUE(p.says("\r\n\r\nabc"));
}

TEST(http_exchange, has_a_client_go_on_that_waits_for_it) {
  peer p;
  p.sends("POST /echo HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n");
  EXPECT_EQ(p.statuses(), "100");
  p.sends("x");
  EXPECT_EQ(p.statuses(), "100 200");
  EXPECT_EQ(p.exchange.answered(), 1U);
}

TEST(http_exchange, interim_response_is_only_for_http_1_1) {
  peer p;
  p.sends("POST /echo HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n");
  EXPECT_EQ(p.statuses(), "");
  p.sends("x");
  EXPECT_EQ(p.statuses(), "200");
}

TEST(http_exchange, answers_head_without_the_body) {
  peer p;
  p.sends("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(p.answers, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n");
}

TEST(http_exchange, says_what_is_not_there_or_not_allowed_and_goes_on) {
  peer p;
  p.sends("GET /no HTTP/1.1\r\nHost: h\r\n\r\n");
  p.sends("DELETE / HTTP/1.1\r\nHost: h\r\n\r\n");
  p.sends("BREW /echo HTTP/1.1\r\nHost: h\r\n\r\n");
  p.sends("GET /?q=1 HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(p.statuses(), "404 405 405 200");
  EXPECT_EQ(p.exchange.refused(), 0U);
}

TEST(http_exchange, ends_where_the_client_wants_it_to) {
  for (const auto* const request :
       {"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "GET / HTTP/1.0\r\n\r\n"}) {
    peer p;
    p.sends(request);
    EXPECT_EQ(p.statuses(), "200");
    EXPECT_TRUE(p.says("Connection: close\r\n"));
    EXPECT_TRUE(p.is_over());
    EXPECT_TRUE(p.exchange.refused() == 0);
  }
}

TEST(http_exchange, ends_where_the_server_wants_it_to_and_says_so) {
  peer p;
  p.sends(get);
  p.exchange.last_answer();
  EXPECT_FALSE(p.is_over());
  p.sends(get).sends(get);
  EXPECT_EQ(p.statuses(), "200 200");
  EXPECT_TRUE(p.says("Connection: close\r\n"));
  EXPECT_TRUE(p.is_over());
}

TEST(http_exchange, tells_how_long_a_connection_is_kept) {
  peer p{usual, 59s};
  p.sends(get);
  EXPECT_TRUE(p.says("Keep-Alive: timeout=59\r\n"));
}

TEST(http_exchange, answers_no_more_than_can_be_sent_and_the_rest_later) {
  peer p{{}};
  std::string many;
  for (int i = 0; i < 100; ++i) many += "GET /large HTTP/1.1\r\nHost: h\r\n\r\n";
  p.sends(many);
  EXPECT_EQ(p.exchange.answered(), 1U);
  EXPECT_TRUE(p.exchange.held_back());
  EXPECT_LE(p.exchange.buffered(), many.size());
  for (unsigned answered = 2; answered <= 100; ++answered) {
    p.answers.clear();
    p.sends("");
    ASSERT_EQ(p.exchange.answered(), answered);
    EXPECT_EQ(p.exchange.held_back(), answered < 100);
  }
  EXPECT_EQ(p.exchange.at(), stage::idle);
}

// --- what is refused: one answer, and then nothing

struct refused {
  std::string name;
  std::string bytes;
  std::string status;
};
class a_bad_request : public testing::TestWithParam<refused> {};

std::string repeat(std::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

const std::string post = "POST /echo HTTP/1.1\r\nHost: h\r\n";

INSTANTIATE_TEST_SUITE_P(
    of, a_bad_request,
    testing::Values(
        refused{"tls", "\x16\x03\x01\x02\x05", "400"}, refused{"an_empty_line", "\r\n\r\n", "400"},
        refused{"zeros", std::string(5, '\0'), "400"}, refused{"no_target", "GET\r\n\r\n", "400"},
        refused{"http_0_9", "GET /\r\n\r\n", "400"}, refused{"http_2", "GET / HTTP/2.0\r\nHost: h\r\n\r\n", "505"},
        refused{"http_2_with_prior_knowledge", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505"},
        refused{"no_host", "GET / HTTP/1.1\r\n\r\n", "400"},
        refused{"two_hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400"},
        refused{"a_field_without_a_colon", "GET / HTTP/1.1\r\nHost: h\r\nbroken\r\n\r\n", "400"},
        refused{"a_space_before_the_colon", "GET / HTTP/1.1\r\nHost : h\r\n\r\n", "400"},
        refused{"a_zero_in_a_field", "GET / HTTP/1.1\r\nHost: h\r\nA: "s + '\0' + "\r\n\r\n", "400"},
        refused{"a_header_too_large_in_one_field", "GET / HTTP/1.1\r\nHost: h\r\nA: " + std::string(2000, 'a'), "431"},
        refused{"a_header_too_large_in_many_fields", "GET / HTTP/1.1\r\nHost: h\r\n" + repeat("A: b\r\n", 300), "431"},
        refused{"a_target_too_large", "GET /" + std::string(2000, 'a'), "431"},
        refused{"a_method_without_end", std::string(2000, 'G'), "431"},
        refused{"a_length_too_large", post + "Content-Length: 4097\r\n\r\n", "413"},
        refused{"a_length_beyond_numbers", post + "Content-Length: 99999999999999999999\r\n\r\n", "400"},
        refused{"a_negative_length", post + "Content-Length: -1\r\n\r\n", "400"},
        refused{"two_lengths", post + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", "400"},
        refused{"length_and_chunks", post + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "400"},
        refused{"another_coding", post + "Transfer-Encoding: gzip\r\n\r\n", "501"},
        refused{"another_coding_before_chunks", post + "Transfer-Encoding: gzip, chunked\r\n\r\n", "501"},
        refused{"two_codings", post + "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n", "501"},
        refused{"chunks_in_http_1_0", "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "400"},
        refused{"a_chunk_without_a_size", post + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n\r\n", "400"},
        refused{"a_chunk_of_another_size", post + "Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n", "400"},
        refused{"a_chunk_too_large", post + "Transfer-Encoding: chunked\r\n\r\n1001\r\n", "413"},
        refused{"chunks_too_large_together",
                post + "Transfer-Encoding: chunked\r\n\r\n" + repeat("100\r\n" + std::string(256, 'x') + "\r\n", 17),
                "413"},
        refused{"a_size_beyond_numbers", post + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", "400"},
        refused{"a_chunk_extension_without_end", post + "Transfer-Encoding: chunked\r\n\r\n1;" + std::string(2000, 'x'),
                "431"},
        refused{"a_trailer_without_end", post + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + repeat("A: b\r\n", 300),
                "431"}),
    [](const auto& of) { return of.param.name; });

TEST_P(a_bad_request, is_answered_with_an_error_and_ends_the_connection) {
  peer p;
  p.sends(GetParam().bytes);
  EXPECT_EQ(p.statuses(), GetParam().status);
  EXPECT_TRUE(p.says("Connection: close\r\n"));
  EXPECT_TRUE(p.is_over());
  EXPECT_EQ(p.exchange.refused(), 1U);
  EXPECT_EQ(p.exchange.answered(), 0U);
}

TEST_P(a_bad_request, is_answered_the_same_when_it_comes_byte_by_byte) {
  peer p;
  for (const char c : GetParam().bytes) {
    p.sends({&c, 1});
    ASSERT_LT(p.exchange.buffered(), usual.header);
  }
  EXPECT_EQ(p.statuses(), GetParam().status);
  EXPECT_TRUE(p.is_over());
}

TEST_P(a_bad_request, is_the_last_that_is_looked_at) {
  peer p;
  p.sends(get).sends(GetParam().bytes);
  const std::string before = p.answers;
  p.sends(get);
  p.exchange.end(p.answers);
  p.exchange.time_out(p.answers);
  EXPECT_EQ(p.answers, before);
  EXPECT_EQ(p.statuses(), "200 " + GetParam().status);
  EXPECT_EQ(p.exchange.buffered(), 0U);
}

// A request of which no more comes, or whose time is over.
TEST(http_exchange, half_a_request_is_answered_with_400_or_408) {
  for (const auto& half : {""s, "GET / HT"s, "GET / HTTP/1.1\r\nHost: h\r\n"s, post + "Content-Length: 3\r\n\r\nab"})
    for (const bool timed_out : {false, true}) {
      peer p;
      p.sends(half);
      EXPECT_EQ(p.answers, "");
      if (timed_out)
        p.exchange.time_out(p.answers);
      else
        p.exchange.end(p.answers);
      EXPECT_EQ(p.answers.empty(), half.empty());
      EXPECT_EQ(p.statuses(), half.empty() ? "" : timed_out ? "408" : "400");
      EXPECT_TRUE(p.is_over());
    }
}

TEST(http_exchange, pieces_of_the_corpus_are_answered_as_the_whole) {
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator{CORPUS}) {
    std::ifstream in{file.path(), std::ios::binary};
    const std::string bytes{std::istreambuf_iterator<char>{in}, {}};
    EXPECT_EQ(what_is_wrong_with(bytes), "") << file.path();
    ++files;
  }
  EXPECT_GE(files, 7);
}

TEST(http_exchange, pieces_with_mistakes_are_answered_as_the_whole) {
  const std::string requests =
      std::string{get} + post + "Content-Length: 5\r\n\r\nhello" + post +
      "Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nX: y\r\n\r\n" +
      std::string{get};
  std::mt19937 random{1};
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = "xx" + requests;
    for (std::size_t mistakes = 1 + random() % 3; mistakes != 0; --mistakes) {
      const std::size_t at = random() % bytes.size();
      constexpr std::string_view likely = "\r\n :;0159afGx\0\xff";
      switch (random() % 3) {
        case 0:
          bytes[at] = likely[random() % likely.size()];
          break;
        case 1:
          bytes.erase(at, 1 + random() % 5);
          break;
        default:
          bytes.insert(at, 1 + random() % 300, likely[random() % likely.size()]);
      }
      bytes += "  ";
    }
    ASSERT_EQ(what_is_wrong_with(bytes), "") << round;
  }
}

TEST(http_exchange, limits_are_exact) {
  const auto header_of = [](std::size_t size) {
    std::string text = "GET / HTTP/1.1\r\nHost: h\r\nA: ";
    return text + std::string(size - text.size() - 4, 'a') + "\r\n\r\n";
  };
  EXPECT_EQ(peer{}.sends(header_of(usual.header)).statuses(), "200");
  EXPECT_EQ(peer{}.sends(header_of(usual.header + 1)).statuses(), "431");
  const auto body_of = [](std::size_t size) {
    return post + "Content-Length: " + std::to_string(size) + "\r\n\r\n" + std::string(size, 'b');
  };
  EXPECT_EQ(peer{}.sends(body_of(usual.body)).statuses(), "200");
  EXPECT_EQ(peer{}.sends(body_of(usual.body + 1)).statuses(), "413");
}

}  // namespace
