// The text that a scrape reads.
#include "../support/probe.hpp"
#include "../support/short_stream.hpp"

#include <tickwheel/uv/prometheus.hpp>
#include <tickwheel/uv/remote.hpp>

#include <gmock/gmock.h>

#include <iomanip>
#include <locale>
#include <map>
#include <set>

using testing::HasSubstr;
using tickwheel::labelled_stats;

namespace {

using prometheus_text = manual_test;

std::string text_of(const tickwheel::service_stats& stats) {
  std::ostringstream out;
  write_prometheus(out, stats);
  return out.str();
}

TEST_F(prometheus_text, has_each_counter) {
  probe fires{timers}, is_cancelled{timers}, waits{timers};
  for (probe* each : {&fires, &is_cancelled}) each->arm(1ms);
  waits.arm(1h);
  is_cancelled.timeout.cancel();
  service.advance(10ms);
  service.time.block(1'010ms);
  service.advance(0ns);
  const std::string text = text_of(timers.stats());
  EXPECT_THAT(text, HasSubstr("# TYPE tickwheel_timers_armed_total counter\ntickwheel_timers_armed_total 3\n"));
  EXPECT_THAT(text, HasSubstr("tickwheel_timers_fired_total 1\n"));
  EXPECT_THAT(text, HasSubstr("tickwheel_timers_cancelled_total 1\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE tickwheel_timers_pending gauge\ntickwheel_timers_pending 1\n"));
  EXPECT_THAT(text, HasSubstr("tickwheel_stalls_total 1\n"));
  EXPECT_THAT(text, HasSubstr("tickwheel_stalled_seconds_total 1\n"));
}

TEST_F(prometheus_text, has_the_load_of_the_loop) {
  service.advance(2s);
  service.time.block(500ms);
  service.advance(0ns);
  const std::string text = text_of(timers.stats());
  EXPECT_THAT(text,
              HasSubstr("# TYPE tickwheel_loop_busy_seconds_total counter\ntickwheel_loop_busy_seconds_total 0.5\n"));
  EXPECT_THAT(text, HasSubstr("tickwheel_loop_idle_seconds_total 2\n"));
  EXPECT_THAT(text, HasSubstr("tickwheel_loop_longest_iteration_seconds 0.5\n"));
  EXPECT_THAT(text, HasSubstr("tickwheel_loop_iteration_seconds_sum 0.5\n"));
}

TEST_F(prometheus_text, slow_handlers_are_written_by_name) {
  probe slow{timers, [&] { service.time.block(5ms); }}, fast{timers};
  for (probe* each : {&slow, &fast}) each->arm(1ms);
  service.advance(1s);
  const std::string text = text_of(timers.stats());
  EXPECT_THAT(text, HasSubstr("# TYPE tickwheel_handler_slow_calls_total counter\n"
                              "tickwheel_handler_slow_calls_total{handler=\"probe::on_timeout\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("tickwheel_handler_slow_seconds_total{handler=\"probe::on_timeout\"} 0.005\n"));
  EXPECT_THAT(text, HasSubstr("tickwheel_handler_longest_seconds{handler=\"probe::on_timeout\"} 0.005\n"));
  EXPECT_THAT(text, testing::Not(HasSubstr("tickwheel_handler_calls_total")));
}

TEST_F(prometheus_text, all_calls_are_written_if_they_are_counted) {
  reopen({.count_handlers = true});
  probe slow{timers, [&] { service.time.block(5ms); }}, fast{timers};
  slow.arm(1ms);
  fast.arm(2ms);
  service.advance(1s);
  const std::string text = text_of(timers.stats());
  EXPECT_THAT(text, HasSubstr("tickwheel_handler_calls_total{handler=\"probe::on_timeout\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("tickwheel_handler_busy_seconds_total{handler=\"probe::on_timeout\"} 0.005\n"));
  EXPECT_THAT(text, HasSubstr("tickwheel_handler_slow_calls_total{handler=\"probe::on_timeout\"} 1\n"));
  EXPECT_GT(timers.stats().handlers.all()[0].late, 3ms);
}

TEST_F(prometheus_text, calls_are_written_only_if_the_service_counts_them) {
  manual_service counts{{.count_handlers = true}}, does_not;
  for (manual_service* each : {&counts, &does_not}) {
    probe slow{each->timers, 1ms, [&] { each->time.block(5ms); }};
    each->advance(1s);
  }
  const labelled_stats both[] = {{R"(loop="0")", counts.timers.stats()}, {R"(loop="1")", does_not.timers.stats()}};
  std::ostringstream out;
  write_prometheus(out, both);
  for (const char* const name : {"handler_calls", "handler_busy_seconds", "handler_late_seconds"}) {
    EXPECT_THAT(out.str(), HasSubstr("tickwheel_" + std::string{name} + "_total{loop=\"0\""));
    EXPECT_THAT(out.str(), testing::Not(HasSubstr("tickwheel_" + std::string{name} + "_total{loop=\"1\"")));
  }
  for (const char* const name : {"handler_slow_calls_total", "handler_slow_seconds_total", "handler_longest_seconds"})
    EXPECT_THAT(out.str(), HasSubstr("tickwheel_" + std::string{name} + "{loop=\"1\""));
}

void first_handler(tickwheel::wheel_entry&) noexcept {}
void second_handler(tickwheel::wheel_entry&) noexcept {}

TEST_F(prometheus_text, handlers_of_one_name_are_one_sample) {
  const tickwheel::named_handler first{&first_handler, "a \"\\\n"}, second{&second_handler, "a \"\\\n"};
  tickwheel::service_stats stats;
  stats.handlers.of(&first_handler).slow_calls = 1;
  stats.handlers.of(&second_handler).slow_calls = 2;
  const labelled_stats one{"loop=\"0\"", stats};
  std::ostringstream out;
  tickwheel::write_prometheus(out, {&one, 1});
  EXPECT_THAT(out.str(), HasSubstr("tickwheel_handler_slow_calls_total{loop=\"0\",handler=\"a \\\"\\\\\\n\"} 3\n"));
}

TEST_F(prometheus_text, handlers_beyond_64_are_others) {
  tickwheel::service_stats stats;
  const auto nth = [](std::uintptr_t n) { return reinterpret_cast<tickwheel::wheel_entry::callback>(16 * (n + 1)); };
  for (int round = 0; round < 2; ++round)
    for (std::uintptr_t n = 0; n < 100; ++n) stats.handlers.of(nth(n)).slow_calls += n;
  ASSERT_EQ(stats.handlers.all().size(), 65U);
  for (std::uintptr_t n = 0; n < 64; ++n) {
    EXPECT_EQ(stats.handlers.all()[n].handler, nth(n));
    EXPECT_EQ(stats.handlers.all()[n].slow_calls, 2 * n);
  }
  EXPECT_THAT(text_of(stats), HasSubstr("tickwheel_handler_slow_calls_total{handler=\"other\"} 5868\n"));
}

TEST_F(prometheus_text, limits_are_gauges) {
  EXPECT_THAT(text_of(timers.stats()), HasSubstr("# TYPE tickwheel_timers_limit gauge\ntickwheel_timers_limit +Inf\n"));
  reopen({.max_armed = 2'000'000, .max_queued = 500});
  EXPECT_THAT(text_of(timers.stats()), HasSubstr("tickwheel_timers_limit 2000000\n"));
  EXPECT_THAT(text_of(timers.stats()), HasSubstr("tickwheel_remote_queue_limit 500\n"));
  tickwheel::remote_handle remote = timers.remote();
  ASSERT_EQ(remote.post([]() noexcept {}), 0);
  EXPECT_THAT(text_of(timers.stats()), HasSubstr("tickwheel_remote_queued 1\n"));
}

TEST_F(prometheus_text, bucket_bounds_are_round_for_each_tick) {
  std::set<std::string> bounds[2];
  for (std::set<std::string>& of : bounds) {
    std::istringstream lines{text_of(timers.stats())};
    for (std::string line; std::getline(lines, line);)
      if (const auto at = line.find("lateness_seconds_bucket{"); at != std::string::npos) of.insert(line);
    reopen({.tick = 1s});
  }
  EXPECT_EQ(bounds[0], bounds[1]);
  EXPECT_EQ(bounds[0].size(), 23U);
  for (const char* const round : {"1e-06", "0.0005", "0.001", "0.2", "10", "+Inf"})
    EXPECT_EQ(bounds[0].count("tickwheel_lateness_seconds_bucket{le=\"" + std::string{round} + "\"} 0"), 1U) << round;
}

TEST_F(prometheus_text, histograms_are_cumulative) {
  probe quick{timers}, slow{timers, [&] { service.time.block(8ms); }};
  quick.arm(1ms);
  slow.arm(2ms);
  service.advance(1s);
  std::istringstream lines{text_of(timers.stats())};
  const std::string bucket = "tickwheel_handler_seconds_bucket{le=\"";
  std::map<double, int> counts;
  for (std::string line; std::getline(lines, line);)
    if (line.rfind(bucket, 0) == 0)
      counts[std::strtod(line.c_str() + bucket.size(), nullptr)] = std::atoi(line.c_str() + line.rfind(' '));
  ASSERT_GT(counts.size(), 20U);
  for (const auto& [limit, count] : counts) EXPECT_EQ(count, limit < 0.01 ? 1 : 2) << limit;
  EXPECT_EQ(counts.rbegin()->second, 2);
  EXPECT_THAT(lines.str(), HasSubstr("tickwheel_handler_seconds_sum 0.008\ntickwheel_handler_seconds_count 2\n"));
  EXPECT_THAT(lines.str(), HasSubstr("_bucket{le=\"+Inf\"} 2\n"));
}

TEST_F(prometheus_text, has_one_type_per_metric_and_a_sample_per_loop) {
  manual_service one, two;
  probe own{two.timers, 1s};
  const labelled_stats both[] = {{R"(loop="0")", one.timers.stats()}, {R"(loop="1")", two.timers.stats()}};
  std::ostringstream out;
  write_prometheus(out, both);
  EXPECT_THAT(out.str(), HasSubstr("tickwheel_timers_pending{loop=\"0\"} 0\ntickwheel_timers_pending{loop=\"1\"} 1\n"));
  EXPECT_THAT(out.str(), HasSubstr("tickwheel_lateness_seconds_bucket{loop=\"1\",le=\"+Inf\"} 0\n"));
  std::istringstream lines{out.str()};
  std::set<std::string> types;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("# TYPE", 0) == 0) {
      EXPECT_TRUE(types.insert(line).second) << line;
    }
  }
  EXPECT_EQ(types.size(), 25U);
}

/// As of a country that groups digits, with whatever is installed.
struct grouping : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

TEST_F(prometheus_text, is_the_same_in_every_locale) {
  tickwheel::service_stats stats;
  stats.armed = 1'234'567;
  stats.stalled = 1500ms;
  std::ostringstream out;
  out.imbue(std::locale{std::locale::classic(), new grouping});
  out << std::showpos;
  write_prometheus(out, stats);
  EXPECT_THAT(out.str(), HasSubstr("tickwheel_timers_armed_total 1234567\n"));
  EXPECT_THAT(out.str(), HasSubstr("tickwheel_stalled_seconds_total 1.5\n"));
  EXPECT_EQ(std::use_facet<std::numpunct<char>>(out.getloc()).thousands_sep(), '.');
}

TEST_F(prometheus_text, counts_have_all_digits) {
  tickwheel::service_stats stats;
  stats.armed = 9'007'199'254'740'991;
  stats.fired = 1'000'000;
  stats.busy = std::chrono::hours{300'000};
  EXPECT_THAT(text_of(stats), HasSubstr("tickwheel_timers_armed_total 9007199254740991\n"));
  EXPECT_THAT(text_of(stats), HasSubstr("tickwheel_timers_fired_total 1000000\n"));
  EXPECT_THAT(text_of(stats), HasSubstr("tickwheel_loop_busy_seconds_total 1080000000\n"));
}

TEST_F(prometheus_text, keeps_flags_of_stream) {
  std::ostringstream out;
  out << std::hex << std::fixed;
  const auto flags = out.flags();
  write_prometheus(out, timers.stats());
  EXPECT_EQ(out.flags(), flags);
  EXPECT_THAT(out.str(), HasSubstr("tickwheel_stalled_seconds_total 0\n"));
}

TEST_F(prometheus_text, keeps_format_of_stream_that_throws) {
  short_stream out;
  out.imbue(std::locale{std::locale::classic(), new grouping});
  out << std::hex << std::setprecision(3);
  const auto flags = out.flags();
  EXPECT_THROW(write_prometheus(out, timers.stats()), std::ios_base::failure);
  EXPECT_EQ(out.flags(), flags);
  EXPECT_EQ(out.precision(), 3);
  EXPECT_EQ(std::use_facet<std::numpunct<char>>(out.getloc()).thousands_sep(), '.');
}

}  // namespace
