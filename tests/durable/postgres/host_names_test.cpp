// The hosts that a connection tries, without a server.
#include "../../../src/durable/postgres/link/host_names.hpp"

#include <gtest/gtest.h>

#include <stdlib.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

using namespace tickwheel::durable::postgres;

namespace {

class hosts_of : public testing::Test, protected host_names::client {
 protected:
  void SetUp() override {
    std::string name = "/tmp/tickwheel_hosts_XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    set("PGSERVICEFILE", folder_ + "/services");
    ASSERT_EQ(uv_loop_init(&loop_), 0);
  }
  void TearDown() override {
    EXPECT_EQ(uv_loop_close(&loop_), 0);
    for (const char* const variable : set_) ::unsetenv(variable);
    std::filesystem::remove_all(folder_);
  }
  void set(const char* variable, const std::string& value) {
    ASSERT_EQ(::setenv(variable, value.c_str(), 1), 0);
    set_.push_back(variable);
  }
  void write_services(const std::string& lines) const { std::ofstream{folder_ + "/services"} << lines; }

  /// Returns each host as "name address port"; or why there is none.
  std::vector<std::string> hosts(const std::string& conninfo) {
    found_.clear();
    host_names names{loop_, *this};
    names.start(conninfo);
    asked_ = uv_loop_alive(&loop_) != 0;
    uv_run(&loop_, UV_RUN_DEFAULT);
    return found_;
  }
  /// Whether the thread pool was asked.
  bool has_asked() const { return asked_; }

 private:
  void on_resolved(host_list all) noexcept override {
    for (const host_address& h : all) found_.push_back(h.host + " " + h.address + " " + h.port);
  }
  void on_unresolved(const std::string& why) noexcept override { found_.push_back(why); }

  std::string folder_;
  std::vector<const char*> set_;
  uv_loop_t loop_{};
  bool asked_ = false;
  std::vector<std::string> found_;
};

using lines = std::vector<std::string>;

TEST_F(hosts_of, service_counts_more_than_environment) {
  write_services("[shop]\nhost=127.0.0.1,/run\nport=6101,6102\n");
  set("PGHOST", "127.0.0.9");
  set("PGHOSTADDR", "");
  set("PGPORT", "6104");
  EXPECT_EQ(hosts("service=shop"), (lines{"127.0.0.1  6101", "/run  6102"}));
  EXPECT_EQ(hosts("service=shop port=1"), (lines{"127.0.0.1  1", "/run  1"}));
  EXPECT_EQ(hosts("service=shop host=127.0.0.2 port=1"), lines{"127.0.0.2  1"});
  EXPECT_EQ(hosts("dbname=shop"), lines{"127.0.0.9  6104"});
  EXPECT_FALSE(has_asked());
}

TEST_F(hosts_of, service_of_environment_counts) {
  write_services("[shop]\nhostaddr=127.0.0.1\nport=6101\n");
  set("PGSERVICE", "shop");
  EXPECT_EQ(hosts("dbname=shop"), lines{" 127.0.0.1 6101"});
}

TEST_F(hosts_of, names_of_service_are_resolved_by_thread_pool) {
  write_services("[shop]\nhost=localhost\nport=6101\n");
  const lines found = hosts("service=shop");
  EXPECT_TRUE(has_asked());
  ASSERT_FALSE(found.empty());
  for (const std::string& host : found)
    EXPECT_TRUE(host == "localhost 127.0.0.1 6101" || host == "localhost ::1 6101") << host;
}

TEST_F(hosts_of, service_that_is_gone_has_none) {
  write_services("[other]\nhost=localhost\n");
  EXPECT_EQ(hosts("service=shop"), lines{});
}

}  // namespace
