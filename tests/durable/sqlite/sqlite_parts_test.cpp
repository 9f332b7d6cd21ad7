// The parts of a sqlite_store by themselves: plans of its statements, checkpoints, periods, lists of calls.
#include "sqlite_fixture.hpp"

#include "../../../src/durable/sqlite/file/checkpoints.hpp"
#include "../../../src/durable/sqlite/file/schema.hpp"
#include "../../../src/durable/sqlite/threads/queued_call.hpp"
#include "../../../src/durable/sqlite/threads/store_state.hpp"
#include "../../../src/durable/sqlite/threads/work_queues.hpp"
#include "../../../src/durable/sqlite/verbs/reads.hpp"
#include "../../../src/durable/sqlite/verbs/requests.hpp"
#include "../../../src/durable/sqlite/verbs/starts.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <string>
#include <thread>
#include <vector>

using namespace conformance;
namespace sqlite = tickwheel::durable::sqlite;

namespace {

class sqlite_plans : public testing::Test {
 protected:
  /// Returns the plan of the one statement that has `part`.
  std::string plan_of(const std::string& part) {
    std::vector<std::string> found;
    for (sqlite3_stmt* s = sqlite3_next_stmt(file.get(), nullptr); s != nullptr; s = sqlite3_next_stmt(file.get(), s))
      if (const std::string sql = sqlite3_sql(s); sql.find(part) != std::string::npos) found.push_back(sql);
    EXPECT_EQ(found.size(), 1U) << part;
    return found.empty() ? "" : shell{path}.plan(found[0]);
  }

  const test_folder folder;
  const std::string path = folder.file("tasks.db");
  const std::atomic<bool> give_up = false;
  const sqlite::connection file{path, sqlite::access::create, 1 << 20, give_up};
  const bool is_prepared = (sqlite::prepare_file(file), true);
  sqlite::starts starts{file};
  sqlite::requests requests{file};
  sqlite::reads reads{file};
};

TEST_F(sqlite_plans, no_statement_scans_the_table_or_sorts) {
  int statements = 0;
  for (sqlite3_stmt* s = sqlite3_next_stmt(file.get(), nullptr); s != nullptr; s = sqlite3_next_stmt(file.get(), s)) {
    const std::string sql = sqlite3_sql(s);
    const std::string plan = shell{path}.plan(sql);
    // SQLite also calls it a scan to count rows that it has found
    EXPECT_EQ(plan.find("SCAN t"), std::string::npos) << sql << "\n" << plan;
    EXPECT_EQ(plan.find("TEMP B-TREE"), std::string::npos) << sql << "\n" << plan;
    ++statements;
  }
  EXPECT_GT(statements, 12);
}

TEST_F(sqlite_plans, each_verb_uses_its_index) {
  EXPECT_EQ(plan_of("(at, id) > "), "SEARCH tasks USING INDEX due ((at,id)>(?,?) AND at<?)");
  EXPECT_EQ(plan_of("set state = 1"), "SEARCH tasks USING INDEX sqlite_autoindex_tasks_1 (id=?)");
  EXPECT_EQ(plan_of("state = 1 and id >"), "SEARCH tasks USING INDEX other (state=? AND id>?)");
  EXPECT_EQ(plan_of("state = 0 and id >"), "SEARCH tasks USING INDEX sqlite_autoindex_tasks_1 (id>?)");
  EXPECT_EQ(plan_of("state = ?1 and id >"), "SEARCH tasks USING INDEX other (state=? AND id>?)");
  EXPECT_NE(plan_of("count(*)").find("SEARCH tasks USING COVERING INDEX other (state=?)"), std::string::npos);
  EXPECT_NE(plan_of("delete").find("INDEX gone (gone"), std::string::npos) << plan_of("delete");
}

class sqlite_checkpoints : public sqlite_plans {
 protected:
  /// Commits a row, and returns what `committed` says.
  bool commit() {
    log.committing();
    file.run("insert into tasks(id, at, due, period, rev) select hex(randomblob(8)), 1, 1, 0, 1");
    return log.committed(frames);
  }
  std::string log_bytes() const { return std::to_string(std::filesystem::file_size(path + "-wal")); }

  int frames = 0;
  sqlite::checkpoints log{20, 80};
  const sqlite::connection other{path, sqlite::access::existing, 1 << 20, give_up};

  void SetUp() override {
    sqlite3_wal_hook(
        file.get(),
        [](void* to, sqlite3*, const char*, int count) {
          *static_cast<int*>(to) = count;
          return SQLITE_OK;
        },
        &frames);
  }
};

TEST_F(sqlite_checkpoints, are_due_after_so_many_pages) {
  int commits = 0;
  const int before = (commit(), frames);
  while (!commit()) ++commits;
  EXPECT_GE(frames, 20);
  EXPECT_LT(frames - before, 40);
  EXPECT_GT(commits, 1);
  EXPECT_FALSE(commit());
}

TEST_F(sqlite_checkpoints, start_the_log_anew_once_all_is_copied) {
  while (!commit()) {
  }
  const int longest = frames;
  EXPECT_FALSE(log.run(other));
  commit();
  EXPECT_LT(frames, longest);
}

TEST_F(sqlite_checkpoints, without_a_commit_since_the_last_do_nothing) {
  commit();
  EXPECT_FALSE(log.run(other));
  // another connection commits, which this object does not know
  other.run("insert into tasks(id, at, due, period, rev) values('x', 1, 1, 0, 1)");
  const std::string size = log_bytes();
  EXPECT_FALSE(log.run(file));
  commit();
  EXPECT_GT(frames, 1) << "the log was started anew, so a checkpoint has run";
}

TEST_F(sqlite_checkpoints, ask_the_writer_to_complete_a_long_log) {
  const sqlite::connection reader{path, sqlite::access::existing, 1 << 20, give_up};
  commit();
  reader.run("begin");
  reader.integer("select count(*) from tasks");  // all that is later cannot be copied
  for (int due = 0; due < 8;) due += commit() ? 1 : 0;
  EXPECT_TRUE(log.run(other));
  reader.run("commit");
  const int longest = frames;
  commit();
  EXPECT_GT(frames, longest);
  log.complete(file);
  commit();
  EXPECT_LT(frames, longest);
}

// 3,000,000,000 pages do not fit into an int
TEST_F(sqlite_checkpoints, of_a_log_that_is_never_long_leave_nothing_to_the_writer) {
  sqlite::checkpoints patient{1, 3'000'000'000};
  const sqlite::connection reader{path, sqlite::access::existing, 1 << 20, give_up};
  reader.run("begin");
  reader.integer("select count(*) from tasks");  // so that no copy is complete
  patient.committing();
  commit();
  EXPECT_TRUE(patient.committed(frames));
  EXPECT_FALSE(patient.run(other));
  reader.run("commit");
}

// 160 times the option is the length of a long log
TEST_F(sqlite_checkpoints, are_never_due_with_the_largest_option) {
  sqlite::store_state state{
      "tasks.db", {.checkpoint_pages = std::numeric_limits<std::size_t>::max()}, [] { return durable::clock::now(); }};
  state.log.committing();
  EXPECT_FALSE(state.log.committed(std::numeric_limits<int>::max()));
}

TEST(store_periods, next_is_the_first_after_now) {
  using sqlite::next_period;
  EXPECT_EQ(next_period(100, 10, 100), 110);
  EXPECT_EQ(next_period(100, 10, 109), 110);
  EXPECT_EQ(next_period(100, 10, 110), 120);
  EXPECT_EQ(next_period(100, 10, 111), 120);
  EXPECT_EQ(next_period(100, 10, 50), 110) << "a clock that was set back repeats no period";
  EXPECT_EQ(next_period(100, sqlite::never, 100), sqlite::never);
  EXPECT_EQ(next_period(sqlite::end_of_range - 20, 10, 0), sqlite::end_of_range - 10);
  EXPECT_EQ(next_period(sqlite::end_of_range - 10, 10, 0), sqlite::never);
}

// The order in which the threads of the store work.
class sqlite_queues : public testing::Test {
 protected:
  using reading = sqlite::work_queues::reading;

  void SetUp() override { queues.resume_reader(); }

  /// Lets the reader have its next work, in a thread of its own.
  std::thread read_next(reading& next) {
    return std::thread{[this, &next] {
      sqlite::queued_call* call = nullptr;
      next = queues.next_reading(call);
      is_asked_first = !is_resumed;
    }};
  }

  std::atomic<bool> is_resumed = false;
  std::atomic<bool> is_asked_first = false;
  std::array<sqlite::queued_call, 4> loads{};
  sqlite::work_queues queues;
};

TEST_F(sqlite_queues, reader_has_a_checkpoint_between_two_loads) {
  for (auto& load : loads) {
    load.kind = sqlite::verb::load;
    queues.push(load);
  }
  sqlite::queued_call* call = nullptr;
  EXPECT_EQ(queues.next_reading(call), reading::call);
  queues.request_checkpoint();
  EXPECT_EQ(queues.next_reading(call), reading::checkpoint);
  queues.request_checkpoint();
  EXPECT_EQ(queues.next_reading(call), reading::call);
  EXPECT_EQ(call, &loads[1]);
  EXPECT_EQ(queues.next_reading(call), reading::checkpoint);
  EXPECT_EQ(queues.next_reading(call), reading::call);
  EXPECT_EQ(queues.next_reading(call), reading::call);
}

// The log is started anew if nobody reads it then.
TEST_F(sqlite_queues, reader_waits_until_the_writer_has_completed_a_checkpoint) {
  loads[0].kind = sqlite::verb::load;
  queues.push(loads[0]);
  queues.request_checkpoint();
  queues.request_completion();
  reading next{};
  std::thread reader = read_next(next);
  sqlite::work_queues::writing work;
  EXPECT_TRUE(queues.next_writing(work, 0ms));
  EXPECT_TRUE(work.completes_checkpoint);
  is_resumed = true;
  queues.resume_checkpoints();
  reader.join();
  EXPECT_FALSE(is_asked_first);
  EXPECT_EQ(next, reading::call);
}

TEST_F(sqlite_queues, reader_ends_also_while_it_waits_for_the_writer) {
  queues.request_completion();
  EXPECT_FALSE((queues.stop(), queues.suspend_reader()));
  reading next{};
  read_next(next).join();
  EXPECT_EQ(next, reading::stop);
}

TEST_F(sqlite_queues, sort_brings_calls_into_their_order) {
  std::array<sqlite::queued_call, 7> calls{};
  const std::array<std::uint64_t, 7> numbers{5, 1, 7, 3, 2, 6, 4};
  sqlite::call_list list;
  list.sort();
  for (std::size_t i = 0; i < calls.size(); ++i) {
    calls[i].number = numbers[i];
    list.push(calls[i]);
  }
  list.sort();
  for (std::uint64_t expected = 1; expected <= 7; ++expected) EXPECT_EQ(list.pop().number, expected);
  EXPECT_TRUE(list.empty());
}

TEST(sqlite_failure, tells_outages_from_final_errors) {
  using sqlite::failure;
  EXPECT_TRUE((failure{SQLITE_FULL, 0, ""}.is_outage()));
  EXPECT_TRUE((failure{SQLITE_BUSY_SNAPSHOT, 0, ""}.is_outage()));
  EXPECT_TRUE((failure{SQLITE_IOERR_WRITE, ENOSPC, ""}.is_outage()));
  EXPECT_TRUE((failure{SQLITE_CANTOPEN, EMFILE, ""}.is_outage()));
  EXPECT_FALSE((failure{SQLITE_IOERR_FSYNC, EIO, ""}.is_outage()));
  EXPECT_EQ((failure{SQLITE_IOERR_FSYNC, EIO, ""}.uv_code()), UV_EIO);
  EXPECT_EQ((failure{SQLITE_CORRUPT, 0, ""}.uv_code()), UV_EFTYPE);
  EXPECT_EQ((failure{SQLITE_READONLY_DBMOVED, 0, ""}.uv_code()), UV_EROFS);
  EXPECT_EQ((failure{SQLITE_CANTOPEN, EROFS, ""}.uv_code()), UV_EROFS);
  EXPECT_EQ((failure{SQLITE_CANTOPEN, EACCES, ""}.uv_code()), UV_EACCES);
  EXPECT_EQ(failure::final(UV_EBUSY, "").uv_code(), UV_EBUSY);
}

TEST(sqlite_failure, of_a_sync_loses_writes) {
  using sqlite::failure;
  EXPECT_TRUE((failure{SQLITE_IOERR_FSYNC, EIO, ""}.loses_writes()));
  EXPECT_TRUE((failure{SQLITE_IOERR_DIR_FSYNC, EIO, ""}.loses_writes()));
  EXPECT_FALSE((failure{SQLITE_IOERR_WRITE, EIO, ""}.loses_writes()));
}

// The index of the log is written after the log: no space for it is not the same as no space for the log.
TEST(sqlite_failure, of_a_commit_is_known_only_before_its_last_frame) {
  using sqlite::failure;
  EXPECT_TRUE((failure{SQLITE_FULL, 0, ""}.leaves_no_commit()));
  EXPECT_TRUE((failure{SQLITE_IOERR_WRITE, EFBIG, ""}.leaves_no_commit()));
  EXPECT_FALSE((failure{SQLITE_IOERR_SHMSIZE, ENOSPC, ""}.leaves_no_commit()));
  EXPECT_FALSE((failure{SQLITE_IOERR_FSYNC, ENOSPC, ""}.leaves_no_commit()));
  EXPECT_FALSE((failure{SQLITE_IOERR_WRITE, EIO, ""}.leaves_no_commit()));
  EXPECT_FALSE((failure{SQLITE_NOMEM, 0, ""}.leaves_no_commit()));
}

}  // namespace
