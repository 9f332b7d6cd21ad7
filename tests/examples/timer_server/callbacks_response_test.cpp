// The answers of callees: whole, in pieces, without end, and bytes that are no response.
#include "timer_server/callbacks/message/response_reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

using namespace timer_server;
using stage = response_reader::stage;
using testing::HasSubstr;

namespace {

constexpr response_limits usual{.header = 512, .body = 1024, .interim_responses = 3};

struct response {
  std::string_view bytes;
  unsigned status;
  bool is_kept;
};

constexpr response whole[] = {
    {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, true},
    {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, true},
    {"HTTP/1.1 204 No Content\r\n\r\n", 204, true},
    {"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", 304, true},
    {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", 200, false},
    {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, false},
    {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", 200, true},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", 200, true},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200, true},
    {"HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nRetry-After: 5\r\n\r\n", 503, true},
    {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: "
     "1\r\n\r\nx",
     201, true},
};

TEST(response_reader, reads_whole_responses_however_they_are_cut) {
  for (const response& r : whole) {
    for (std::size_t first = 0; first <= r.bytes.size(); ++first) {
      response_reader reader{usual, false};
      if (first != 0) reader.take(r.bytes.substr(0, first));
      if (first != r.bytes.size()) {
        ASSERT_EQ(reader.problem(), nullptr) << r.bytes;
        reader.take(r.bytes.substr(first));
      }
      EXPECT_EQ(reader.status(), r.status) << r.bytes << first;
      EXPECT_EQ(reader.keeps_connection(), r.is_kept) << r.bytes;
      EXPECT_EQ(reader.retry_after(), std::nullopt) << "a trailer says nothing";
    }
  }
}

TEST(response_reader, reads_whole_responses_byte_by_byte) {
  for (const response& r : whole) {
    response_reader reader{usual, false};
    stage last = stage::reading;
    for (const char c : r.bytes) {
      ASSERT_EQ(last, stage::reading) << r.bytes;
      last = reader.take({&c, 1});
    }
    EXPECT_EQ(last, stage::complete) << r.bytes;
    EXPECT_EQ(reader.status(), r.status);
  }
}

TEST(response_reader, incomplete_response_is_malformed_when_it_ends) {
  for (const response& r : whole) {
    for (std::size_t size = 0; size < r.bytes.size(); ++size) {
      response_reader reader{usual, false};
      ASSERT_TRUE(size == 0 || reader.take(r.bytes.substr(0, size)) == stage::reading);
      EXPECT_EQ(reader.end(), stage::malformed) << r.bytes.substr(0, size);
      EXPECT_EQ(reader.has_begun(), size != 0);
    }
  }
}

TEST(response_reader, body_until_close_ends_with_the_connection) {
  response_reader reader{usual, false};
  EXPECT_EQ(reader.take("HTTP/1.1 200 OK\r\n\r\nhel"), stage::reading);
  EXPECT_EQ(reader.take("lo"), stage::reading);
  EXPECT_EQ(reader.end(), stage::complete);
  EXPECT_FALSE(reader.keeps_connection());
}

TEST(response_reader, response_to_head_has_no_body) {
  response_reader reader{usual, true};
  EXPECT_EQ(reader.take("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"), stage::complete);
  EXPECT_TRUE(reader.keeps_connection());
}

TEST(response_reader, keeps_retry_after) {
  response_reader reader{usual, false};
  EXPECT_EQ(reader.take("HTTP/1.1 503 Busy\r\nretry-after:  12 \r\nContent-Length: 0\r\n\r\n"), stage::complete);
  EXPECT_EQ(reader.retry_after(), "12");
}

TEST(response_reader, bytes_after_the_response_end_the_connection) {
  response_reader reader{usual, false};
  EXPECT_EQ(reader.take("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab"), stage::complete);
  EXPECT_FALSE(reader.keeps_connection());
}

std::string problem_of(std::string_view bytes, std::size_t piece) {
  response_reader reader{usual, false};
  for (std::size_t at = 0; at < bytes.size(); at += piece)
    if (reader.take(bytes.substr(at, piece)) != stage::reading) break;
  return reader.problem() == nullptr ? "" : reader.problem();
}

TEST(response_reader, refuses_garbage_and_floods_with_a_reason) {
  const std::string begin = "HTTP/1.1 200 OK\r\n", chunked = begin + "Transfer-Encoding: chunked\r\n\r\n";
  std::string interim, fields;
  for (int i = 0; i < 4; ++i) interim += "HTTP/1.1 100 Continue\r\n\r\n";
  for (int i = 0; i < 100; ++i) fields += "X: abcdef\r\n";
  const struct {
    std::string bytes, why;
  } table[] = {
      {"SSH-2.0-x\r\n", "does not answer in HTTP/1"},
      {"HTTP/2 200\r\n\r\n", "does not answer in HTTP/1"},
      {"\r\nHTTP/1.1 200 OK\r\n\r\n", "does not answer in HTTP/1"},
      {"HTTP/1.1 2x0 OK\r\n\r\n", "no valid HTTP/1"},
      {"HTTP/1.1 20 OK\r\n\r\n", "no valid HTTP/1"},
      {"HTTP/1.7 200 OK\r\n\r\n", "no valid HTTP/1"},
      {begin + "no colon\r\n\r\n", "no valid HTTP/1"},
      {begin + "Content-Length: -1\r\n\r\n", "no valid HTTP/1"},
      {begin + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", "no valid HTTP/1"},
      {begin + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "no valid HTTP/1"},
      {begin + fields + "\r\n", "header of the response is too large"},
      {begin + std::string(600, 'x'), "header of the response is too large"},
      {begin + "Content-Length: 1025\r\n\r\n", "body of the response is too large"},
      {begin + "\r\n" + std::string(1025, 'x'), "body of the response is too large"},
      {chunked + "401\r\n", "body of the response is too large"},
      {chunked + "300\r\n" + std::string(0x300, 'x') + "\r\n300\r\n", "body of the response is too large"},
      {chunked + "zz\r\n", "no valid HTTP/1"},
      {chunked + "fffffffffffffffff\r\n", "no valid HTTP/1"},
      {chunked + "1;" + std::string(600, 'x'), "header of the response is too large"},
      {chunked + "0\r\n" + fields, "header of the response is too large"},
      {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "another protocol"},
      {interim, "too many 1xx"},
  };
  for (const auto& row : table)
    for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, row.bytes.size()})
      EXPECT_THAT(problem_of(row.bytes, piece), HasSubstr(row.why)) << row.bytes.substr(0, 60) << " by " << piece;
}

}  // namespace
