#include "servers.hpp"

#include "database.hpp"

#include <unistd.h>

#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <vector>

namespace chaos {

namespace {

constexpr std::int64_t second = 1'000'000'000;
const std::vector<std::string> settings{"max_connections = 100"};

}  // namespace

shared_servers::~shared_servers() {
  with_clock_.reset();
  if (!clock_file_.empty()) (void)unlink(clock_file_.c_str());
}

conformance::test_server& shared_servers::plain() {
  if (plain_ == nullptr) plain_ = std::make_unique<conformance::test_server>(settings);
  return *plain_;
}

conformance::test_server& shared_servers::with_clock() {
  if (with_clock_ != nullptr) return *with_clock_;
  clock_file_ = "/tmp/tickwheel_chaos_clock_" + std::to_string(getpid());
  set_clock(0);
  with_clock_ = std::make_unique<conformance::test_server>(
      settings, std::vector<std::string>{"LD_PRELOAD=" + faketime_, "FAKETIME_TIMESTAMP_FILE=" + clock_file_,
                                         "FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_NO_CACHE=1"});
  return *with_clock_;
}

// No look at the clock finds half a file.
void shared_servers::set_clock(std::int64_t ahead) {
  const std::int64_t size = ahead < 0 ? -ahead : ahead;
  std::array<char, 64> text{};
  (void)std::snprintf(text.data(), text.size(), "%c%" PRId64 ".%09" PRId64 "\n", ahead < 0 ? '-' : '+', size / second,
                      size % second);
  const std::string made = clock_file_ + ".new";
  std::ofstream{made} << text.data();
  if (std::rename(made.c_str(), clock_file_.c_str()) != 0) std::abort();
}

server_pair::server_pair(standby how) {
  primary_ = std::make_unique<conformance::test_server>(settings);
  standby_ = std::make_unique<conformance::test_server>(*primary_, settings);
  if (how != standby::synchronous) return;
  const database on{primary_->conninfo()};
  (void)on.run("alter system set synchronous_standby_names = '*'");
  (void)on.run("select pg_reload_conf()");
  // the setting counts from the next look of the other processes at it
  for (int i = 0; i != 500; ++i) {
    if (on.run("select count(*) from pg_stat_replication where sync_state = 'sync'").rows ==
        std::vector<std::string>{"1"})
      return;
    usleep(10'000);
  }
  std::fputs("chaos: the standby does not become synchronous\n", stderr);
  std::exit(2);  // NOLINT(concurrency-mt-unsafe): there is one thread
}

conformance::test_server& server_pair::fail_over() {
  primary_->kill();
  standby_->promote();
  return *standby_;
}

std::string server_pair::conninfo() const {
  return "host=" + primary_->folder() + "," + standby_->folder() +
         " user=tester dbname=postgres target_session_attrs=read-write";
}

}  // namespace chaos
