// The timer server's options name addresses, files with secrets, and stores. And the lines of its log.
#include "timer_server/service/event_log.hpp"
#include "timer_server/service/listen_address.hpp"
#include "timer_server/service/secret_file.hpp"
#include "timer_server/service/store_location.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <variant>

using namespace timer_server;

namespace {

TEST(server_options, listen_takes_addresses_with_a_port) {
  for (const auto* const text : {"127.0.0.1:8081", "0.0.0.0:0", "[::1]:8081", "[::]:65535"}) {
    const auto address = listen_address::read(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(address->text(), text);
  }
  for (const auto* const text :
       {"", ":", "127.0.0.1", "127.0.0.1:", ":8081", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:80x",
        "localhost:8081", "::1:8081", "[]:8081", "[::1]", "[127.0.0.1]:80", "127.0.0.1 :80"})
    EXPECT_FALSE(listen_address::read(text)) << text;
}

TEST(server_options, loopback_is_only_this_machine) {
  for (const auto* const text : {"127.0.0.1:1", "127.255.255.254:1", "[::1]:1"})
    EXPECT_TRUE(listen_address::read(text)->is_loopback()) << text;
  for (const auto* const text :
       {"0.0.0.0:1", "10.0.0.1:1", "128.0.0.1:1", "[::]:1", "[fe80::1]:1", "[::ffff:127.0.0.1]:1"})
    EXPECT_FALSE(listen_address::read(text)->is_loopback()) << text;
}

struct secret_file_test : testing::Test {
  std::string directory = "/tmp/tickwheel_secret_XXXXXX";
  void SetUp() override { ASSERT_NE(::mkdtemp(directory.data()), nullptr); }
  void TearDown() override { std::filesystem::remove_all(directory); }

  std::string file(const std::string& content, mode_t mode) const {
    const std::string path = directory + "/file";
    std::filesystem::remove(path);
    std::ofstream{path} << content;
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }
};

TEST_F(secret_file_test, is_read_if_others_may_not_read_it) {
  for (const mode_t mode : {0400U, 0600U, 0640U, 0440U}) {
    const auto content = read_secret_file(file("secret\n", mode));
    ASSERT_TRUE(std::holds_alternative<std::string>(content)) << std::get<file_problem>(content).why;
    EXPECT_EQ(std::get<std::string>(content), "secret\n");
  }
}

TEST_F(secret_file_test, is_refused_if_others_may_read_or_write_it) {
  for (const mode_t mode : {0644U, 0604U, 0602U, 0660U, 0601U, 0777U}) {
    const auto content = read_secret_file(file("secret\n", mode));
    ASSERT_TRUE(std::holds_alternative<file_problem>(content)) << mode;
    EXPECT_NE(std::get<file_problem>(content).why.find("0600"), std::string::npos);
  }
}

TEST_F(secret_file_test, is_refused_if_it_is_none) {
  EXPECT_TRUE(std::holds_alternative<file_problem>(read_secret_file(directory + "/none")));
  EXPECT_TRUE(std::holds_alternative<file_problem>(read_secret_file(directory)));
  EXPECT_TRUE(std::holds_alternative<file_problem>(read_secret_file("/dev/zero")));
  ASSERT_EQ(::mkfifo((directory + "/pipe").c_str(), 0600), 0);
  EXPECT_TRUE(std::holds_alternative<file_problem>(read_secret_file(directory + "/pipe")));
  const auto large = read_secret_file(file(std::string((1 << 20) + 1, 'x'), 0600));
  EXPECT_TRUE(std::holds_alternative<file_problem>(large));
}

TEST(server_options, store_names_what_is_wrong_and_no_password) {
  std::string why;
  EXPECT_NE(open_store({.url = "sqlite:x.db"}, {}, why), nullptr);
  EXPECT_EQ(open_store({.url = "sqlite:"}, {}, why), nullptr);
  EXPECT_EQ(why.find("--store: sqlite: has no file"), 0);
  EXPECT_EQ(open_store({.url = "mysql://user:password@host"}, {}, why), nullptr);
  EXPECT_EQ(why.find("password"), std::string::npos);
  EXPECT_EQ(open_store({.url = "postgresql://host/shop", .schema = std::string(64, 'x')}, {}, why), nullptr);
#ifdef WITH_POSTGRES
  EXPECT_EQ(why, "--schema: it does not have 1 to 63 bytes");
#endif
}

/// Returns the line of a log for one event.
std::string line(log_format format, const std::variant<std::string, std::uint64_t>& value) {
  std::FILE* const file = std::tmpfile();
  event_log{format, file}.write("event", {{"name", value}});
  std::rewind(file);
  std::array<char, 512> text{};
  const std::size_t size = std::fread(text.data(), 1, text.size(), file);
  std::fclose(file);
  return {text.data(), size};
}

TEST(server_options, log_has_a_line_for_an_event_whatever_its_values) {
  for (const std::string value : {"plain", "with space", "", "a\nb", "\x1b[31m", "\"", "\xff"}) {
    for (const log_format format : {log_format::text, log_format::json}) {
      const std::string text = line(format, value);
      EXPECT_EQ(text.find('\n'), text.size() - 1) << text;
      EXPECT_EQ(text.find('\x1b'), std::string::npos);
    }
    const auto parsed = nlohmann::json::parse(line(log_format::json, value), nullptr, false);
    EXPECT_EQ(parsed.value("event", ""), "event");
    EXPECT_EQ(parsed.value("name", ""), value == "\xff" ? "\xEF\xBF\xBD" : value);
  }
  EXPECT_NE(line(log_format::text, "plain").find("Z event name=plain\n"), std::string::npos);
  EXPECT_NE(line(log_format::text, "with space").find("Z event name=\"with space\"\n"), std::string::npos);
}

TEST(server_options, log_has_a_count_as_a_number) {
  for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{7}, std::numeric_limits<std::uint64_t>::max()}) {
    const auto parsed = nlohmann::json::parse(line(log_format::json, count));
    EXPECT_TRUE(parsed.at("name").is_number_unsigned());
    EXPECT_EQ(parsed.at("name").get<std::uint64_t>(), count);
    EXPECT_NE(line(log_format::text, count).find("Z event name=" + std::to_string(count) + "\n"), std::string::npos);
  }
}

}  // namespace
