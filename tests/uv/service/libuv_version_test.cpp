// Which libuv the tests run against, which one of them prints: what is built against one may be run with another.
#include <gtest/gtest.h>
#include <uv.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

std::string numbers_of(unsigned version) {
  return std::to_string(version >> 16) + "." + std::to_string(version >> 8 & 0xff) + "." +
         std::to_string(version & 0xff);
}

TEST(service_open, libuv_is_the_expected_one) {
  std::printf("libuv %s\n", uv_version_string());
  EXPECT_GE(uv_version(), unsigned{UV_VERSION_HEX});
  if (const char* const asked = std::getenv("TICKWHEEL_TEST_LIBUV")) {  // by ./dev test --libuv
    EXPECT_EQ(numbers_of(uv_version()), asked);
    EXPECT_EQ(numbers_of(UV_VERSION_HEX), asked) << "by the headers";
  }
}

}  // namespace
