// A scheduler on a file that cannot be used, or not now: what the program is told.
#include "sqlite_fixture.hpp"

#include <tickwheel/durable/durable.hpp>

#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <string>

using namespace conformance;
using durable::schedule_result;

namespace {

/// A scheduler on a live loop.
class sqlite_scheduler : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(timers.open(loop), 0); }
  void TearDown() override { timers.close(); }

  void use(const std::string& path) {
    scheduler.emplace(timers, durable::sqlite_store(path));
    scheduler->on_due([this](durable::execution run) noexcept {
      started.insert(std::string{run.id()});
      run.done();
    });
  }
  /// Opens the scheduler. Returns what `ready` was called with.
  int open() {
    std::optional<int> ready;
    EXPECT_EQ(scheduler->open([&](int error) noexcept { ready = error; }), 0);
    wait_for([&] { return ready.has_value(); });
    return ready.value_or(1);
  }
  schedule_result schedule(const std::string& id, const std::string& payload = {}) {
    std::optional<schedule_result> result;
    EXPECT_EQ(scheduler->schedule({.id = id, .due = durable::clock::now(), .payload = payload},
                                  [&](schedule_result r) noexcept { result = r; }),
              0);
    wait_for([&] { return result.has_value(); });
    return result.value_or(schedule_result::unknown);
  }
  template <class Condition>
  void wait_for(Condition is_met) {
    using steady = std::chrono::steady_clock;
    const auto end = steady::now() + 20s;
    while (!is_met() && steady::now() < end) uv_run(loop.get(), UV_RUN_NOWAIT);
    ASSERT_TRUE(is_met());
  }

  test_folder folder;
  live_loop loop;
  tickwheel::timer_service timers;
  std::optional<durable::scheduler> scheduler;
  std::set<std::string> started;
};

TEST_F(sqlite_scheduler, ready_tells_why_a_file_is_refused_and_leaves_it_alone) {
  const std::string letter = folder.file("letter");
  std::ofstream{letter} << "this is a letter, and by no means a database" << std::string(4096, '!');
  const std::string newer = folder.file("newer.db");
  use(newer);
  ASSERT_EQ(open(), 0);
  scheduler->close();
  shell{newer}.run("pragma user_version = 2");
  for (const auto& [path, error] :
       {std::pair{letter, UV_EFTYPE}, {newer, UV_ENOTSUP}, {folder.file("missing/tasks.db"), UV_ENOENT}}) {
    use(path);
    const std::string before = text_of(path);
    EXPECT_EQ(open(), error) << path;
    EXPECT_NE(scheduler->problem().find(path), std::string_view::npos) << scheduler->problem();
    EXPECT_EQ(scheduler->schedule({.id = "a", .due = durable::clock::now()}, [](schedule_result) noexcept {}),
              UV_ECANCELED);
    EXPECT_EQ(text_of(path), before) << path;
  }
}

TEST_F(sqlite_scheduler, second_one_is_busy_until_the_first_is_closed) {
  const std::string file = folder.file("tasks.db");
  durable::scheduler first{timers, durable::sqlite_store(file)};
  std::optional<int> ready;
  ASSERT_EQ(first.open([&](int error) noexcept { ready = error; }), 0);
  wait_for([&] { return ready.has_value(); });
  use(file);
  EXPECT_EQ(open(), UV_EBUSY);
  first.close();
  EXPECT_EQ(open(), 0);
  EXPECT_EQ(schedule("a"), schedule_result::scheduled);
}

// The writer's thread reads the partitions. ThreadSanitizer sees whether the loop's thread writes them meanwhile.
TEST_F(sqlite_scheduler, may_be_closed_while_it_releases_its_partition) {
  use(folder.file("tasks.db"));
  for (int i = 0; i != 20; ++i) {
    ASSERT_EQ(open(), 0);
    wait_for([&] { return scheduler->stats().partitions == 1; });
    ASSERT_EQ(scheduler->drain([]() noexcept {}), 0);
    wait_for([&] { return scheduler->stats().partitions == 0; });
    scheduler->close();
  }
  ASSERT_EQ(open(), 0);
  EXPECT_EQ(schedule("a"), schedule_result::scheduled);
  wait_for([&] { return started.contains("a"); });
}

TEST_F(sqlite_scheduler, full_disk_makes_requests_unavailable_and_loses_nothing) {
  std::signal(SIGXFSZ, SIG_IGN);
  use(folder.file("tasks.db"));
  ASSERT_EQ(open(), 0);
  EXPECT_EQ(schedule("before"), schedule_result::scheduled);
  wait_for([&] { return started.contains("before"); });
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  rlimit full = limit;
  full.rlim_cur = 1;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  EXPECT_EQ(schedule("meanwhile", std::string(50'000, 'x')), schedule_result::unavailable);
  EXPECT_FALSE(scheduler->problem().empty());
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  schedule_result after{};
  do {
    after = schedule("after");
  } while (after == schedule_result::unavailable);
  EXPECT_EQ(after, schedule_result::scheduled);
  wait_for([&] { return started.contains("after"); });
  EXPECT_FALSE(started.contains("meanwhile"));
}

// Nobody tells an unreferenced scheduler that its service has closed. Answers of the writer's thread go on arriving.
TEST_F(sqlite_scheduler, without_reference_survives_answers_after_its_service) {
  use(folder.file("tasks.db"));
  ASSERT_EQ(open(), 0);
  scheduler->unref();
  uv_timer_t program;  // holds the loop, as the rest of a program does
  ASSERT_EQ(uv_timer_init(loop.get(), &program), 0);
  uv_timer_start(
      &program, [](uv_timer_t* t) { uv_close(reinterpret_cast<uv_handle_t*>(t), nullptr); }, 200, 0);
  std::optional<schedule_result> result;
  ASSERT_EQ(scheduler->schedule({.id = "a", .due = durable::clock::now() + 1h},
                                [&](schedule_result r) noexcept { result = r; }),
            0);
  uv_run(loop.get(), UV_RUN_NOWAIT);
  timers.close();
  uv_run(loop.get(), UV_RUN_DEFAULT);
  EXPECT_EQ(scheduler->cancel("a", [](durable::cancel_result) noexcept {}), UV_ECANCELED);
  EXPECT_TRUE(result.has_value());
}

// The trigger is a program's own.
TEST_F(sqlite_scheduler, repeats_an_end_that_the_file_rejects) {
  const std::string file = folder.file("tasks.db");
  use(file);
  std::optional<durable::finish_result> confirmed;
  scheduler->on_due([&](durable::execution run) noexcept {
    started.insert(std::string{run.id()});
    run.done([&](durable::finish_result r) noexcept { confirmed = r; });
  });
  ASSERT_EQ(open(), 0);
  shell{file}.run(
      "create trigger keep before update on tasks when old.ended is not new.ended begin select raise(abort, 'not "
      "now'); end");
  EXPECT_EQ(schedule("a"), schedule_result::scheduled);
  wait_for([&] { return started.contains("a"); });
  for (int i = 0; i != 20; ++i) schedule("other " + std::to_string(i));
  EXPECT_FALSE(confirmed.has_value());
  EXPECT_EQ(scheduler->stats().stale, 0U);
  shell{file}.run("drop trigger keep");
  wait_for([&] { return confirmed.has_value(); });
  EXPECT_EQ(*confirmed, durable::finish_result::finished);
}

TEST_F(sqlite_scheduler, counts_a_cancel_that_the_file_rejects_as_unavailable) {
  const std::string file = folder.file("tasks.db");
  use(file);
  ASSERT_EQ(open(), 0);
  std::optional<schedule_result> kept;
  ASSERT_EQ(scheduler->schedule({.id = "a", .due = durable::clock::now() + 1h},
                                [&](schedule_result r) noexcept { kept = r; }),
            0);
  wait_for([&] { return kept.has_value(); });
  shell{file}.run("create trigger keep before update on tasks begin select raise(abort, 'not now'); end");
  std::optional<durable::cancel_result> result;
  ASSERT_EQ(scheduler->cancel("a", [&](durable::cancel_result r) noexcept { result = r; }), 0);
  wait_for([&] { return result.has_value(); });
  EXPECT_EQ(*result, durable::cancel_result::unavailable);
  EXPECT_EQ(scheduler->stats().unavailable, 1U);
}

}  // namespace
