// Percent-encoding of ids, in paths, queries and headers.
#include "timer_server/text/percent_encoding.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>

using namespace timer_server;
using namespace std::string_literals;

namespace {

TEST(percent_encoding, each_byte_is_decoded) {
  EXPECT_EQ(percent_decode("order-7"), "order-7");
  EXPECT_EQ(percent_decode("a%2Fb%2fc"), "a/b/c");
  EXPECT_EQ(percent_decode("%C3%A4%25"), "\xC3\xA4%");
  EXPECT_EQ(percent_decode("%00"), "\0"s);
  EXPECT_EQ(percent_decode(""), "");
}

TEST(percent_encoding, plus_is_a_space_only_in_a_query) {
  EXPECT_EQ(percent_decode("a+b"), "a+b");
  EXPECT_EQ(percent_decode("a+b%2B", plus_sign::space), "a b+");
}

TEST(percent_encoding, percent_sign_without_digits_is_refused) {
  for (const auto* const text : {"%", "a%", "%2", "%G0", "%0G", "%-1", "%%41", "% 1"})
    EXPECT_EQ(percent_decode(text), std::nullopt) << text;
}

TEST(percent_encoding, is_visible_ascii_and_decodes_to_the_text) {
  EXPECT_EQ(percent_encode("order-7"), "order-7");
  EXPECT_EQ(percent_encode("a b%\xC3\xA4"), "a%20b%25%C3%A4");
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const std::string encoded = percent_encode(all);
  for (const char c : encoded) EXPECT_TRUE(c > ' ' && c < '\x7F');
  EXPECT_EQ(percent_decode(encoded), all);
}

}  // namespace
