#include <tickwheel/durable/scheduler_options.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <string>

using namespace std::chrono_literals;
using tickwheel::durable::scheduler_options;

namespace {

TEST(scheduler_options, are_valid_by_default) { EXPECT_EQ(scheduler_options{}.problem(), nullptr); }

TEST(scheduler_options, problem_names_the_invalid_field) {
  struct row {
    const char* field;
    void (*spoil)(scheduler_options&);
  };
  const row rows[] = {
      {"name", [](scheduler_options& o) { o.name = "a\nb"; }},
      {"name", [](scheduler_options& o) { o.name.assign(256, 'x'); }},
      {"lease", [](scheduler_options& o) { o.lease = 100ms - 1ns; }},
      {"poll", [](scheduler_options& o) { o.poll = 1ms - 1ns; }},
      {"window", [](scheduler_options& o) { o.window = o.poll * 2 - 1ns; }},
      {"request_timeout", [](scheduler_options& o) { o.request_timeout = 0ns; }},
      {"keep_finished", [](scheduler_options& o) { o.keep_finished = -1ns; }},
      {"duration", [](scheduler_options& o) { o.lease = std::chrono::nanoseconds::max(); }},
      {"duration", [](scheduler_options& o) { o.poll = std::chrono::nanoseconds::max(); }},
      {"max_running", [](scheduler_options& o) { o.max_running = 0; }},
      {"max_loaded", [](scheduler_options& o) { o.max_loaded = 0; }},
      {"max_requests", [](scheduler_options& o) { o.max_requests = 0; }},
      {"max_request_bytes", [](scheduler_options& o) { o.max_request_bytes = 0; }},
      {"max_payload", [](scheduler_options& o) { o.max_payload = (std::size_t{1} << 30) + 1; }},
      {"max_attempts", [](scheduler_options& o) { o.max_attempts = 0; }},
      {"max_attempts", [](scheduler_options& o) { o.max_attempts = 30'001; }},
      {"base", [](scheduler_options& o) { o.retry.base = 0ns; }},
  };
  for (const row& r : rows) {
    scheduler_options options;
    r.spoil(options);
    ASSERT_NE(options.problem(), nullptr) << r.field;
    EXPECT_NE(std::string{options.problem()}.find(r.field), std::string::npos) << options.problem();
  }
}

}  // namespace
