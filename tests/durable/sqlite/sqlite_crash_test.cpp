// A file after a crash, a full disk, a restored backup and a move: this remains.
#include "child_process.hpp"
#include "joining.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <string>

using namespace conformance;
using durable::schedule_result;
using durable::store_status;
using durable::task_state;
namespace fs = std::filesystem;

namespace {

/// Waits until another connection reads this.
void wait_for(const std::string& file, const std::string& sql, const std::string& expected) {
  const shell other{file};
  for (const auto deadline = std::chrono::steady_clock::now() + 20s; other.read(sql) != expected;)
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << sql;
}

void back_up(const std::string& from, const std::string& to) {
  const shell source{from};
  const shell target{to};
  sqlite3_backup* const copy = sqlite3_backup_init(target.get(), "main", source.get(), "main");
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(sqlite3_backup_step(copy, -1), SQLITE_DONE);
  EXPECT_EQ(sqlite3_backup_finish(copy), SQLITE_OK);
}

void restore(const std::string& backup, const std::string& file) {
  fs::copy_file(backup, file, fs::copy_options::overwrite_existing);
  fs::remove(file + "-wal");
  fs::remove(file + "-shm");
}

// Runs until the parent kills it: its loop does not run, so nothing that it asked is answered.
template <class Call>
int ask_and_die(sqlite_fixture& on, node& own, asked<Call>& call, const std::string& sql, const std::string& done,
                const child_process::parent& parent) {
  conformance::call(own.store(), call);
  wait_for(on.file, sql, done);
  EXPECT_FALSE(call.is_answered());
  parent.tell();
  parent.wait();
  return 0;
}

TEST(sqlite_restart, keeps_a_put_without_an_answer) {
  const test_folder folder;
  const std::string file = folder.file("tasks.db");
  child_process dies{[&](const child_process::parent& parent) {
    sqlite_fixture on{file};
    node own{on};
    own.start();
    asked<durable::put_call> put;
    put.items.push_back({due_now("t"), {}});
    return ask_and_die(on, own, put, "select state from tasks", "0", parent);
  }};
  dies.wait();
  dies.kill();
  EXPECT_EQ(dies.exit_code(), -1);

  sqlite_fixture on{file};
  node own{on};
  own.start();
  EXPECT_EQ(own.put(due_now("t")).result, schedule_result::exists);
  EXPECT_EQ(own.begin("t").attempt, 1U);
}

TEST(sqlite_restart, recovers_a_begin_without_an_answer) {
  const test_folder folder;
  const std::string file = folder.file("tasks.db");
  child_process dies{[&](const child_process::parent& parent) {
    sqlite_fixture on{file};
    node own{on};
    own.start();
    asked<durable::begin_call> begin;
    begin.session = own.session();
    begin.items.push_back({"t", own.put(due_now("t")).rev});
    return ask_and_die(on, own, begin, "select state from tasks", "1", parent);
  }};
  dies.wait();
  dies.kill();
  EXPECT_EQ(dies.exit_code(), -1);

  sqlite_fixture on{file};
  node own{on};
  own.start();
  EXPECT_EQ(own.recover(), (node::recovery{1, 0}));
  const auto again = own.begin("t");
  EXPECT_EQ(again.attempt, 2U);
  EXPECT_EQ(again.lost, 1U);
}

TEST(sqlite_backup, of_a_running_store_has_what_was_confirmed) {
  sqlite_fixture on;
  node own{on};
  own.start();
  own.put(due_now("a"));
  back_up(on.file, on.folder->file("backup.db"));
  own.put(due_now("b"));
  own.close();
  EXPECT_EQ(shell{on.folder->file("backup.db")}.read("select id from tasks order by id"), "a");
  EXPECT_EQ(shell{on.file}.read("select id from tasks order by id"), "a\nb");
}

TEST(sqlite_backup, when_restored_repeats_no_token_and_no_session) {
  sqlite_fixture on;
  const std::string backup = on.folder->file("backup.db");
  node own{on};
  own.start();
  own.put(due_now("t"));
  back_up(on.file, backup);
  const durable::session_number session = own.session();
  const durable::revision token = own.begin("t").token;
  own.close();
  restore(backup, on.file);
  own.start();
  EXPECT_GT(own.session(), token);
  EXPECT_GT(own.session(), session);
  EXPECT_GT(own.begin("t").token, token);
  EXPECT_EQ(own.done("t", token), durable::finish_result::stale);
}

// A process that is restarted at once again and again hands out few tokens: its file's counter stays near the clock.
TEST(sqlite_backup, when_restored_after_many_openings_repeats_no_token) {
  sqlite_fixture on;
  const std::string backup = on.folder->file("backup.db");
  node own{on};
  own.start();
  own.put(due_now("t"));
  back_up(on.file, backup);
  for (int i = 0; i != 20; ++i) own.lose();
  const durable::revision token = own.begin("t").token;
  own.close();
  restore(backup, on.file);
  own.start();
  EXPECT_GT(own.session(), token);
  EXPECT_GT(own.begin("t").token, token);
}

TEST(sqlite_restart, repeats_no_token_if_the_clock_was_set_back) {
  sqlite_fixture on;
  node own{on};
  own.start();
  own.put(due_now("t"));
  const durable::revision token = own.begin("t").token;
  own.close();
  on.shift_clock(-24h);
  own.start();
  EXPECT_GT(own.session(), token);
  EXPECT_EQ(own.recover(), (node::recovery{1, 0}));
  EXPECT_GT(own.begin("t").token, token);
}

// The limit of a file's size ends like a full disk.
int fill_the_disk(const std::string& file) {
  sqlite_fixture on{file};
  node own{on};
  own.start();
  own.put(due_now("before"));
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const rlim_t former = limit.rlim_cur;
  limit.rlim_cur = fs::file_size(file + "-wal") + 4096;
  EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  asked<durable::put_call> put;
  put.items.push_back({due_now("during", std::string(100'000, 'x')), {}});
  call_runner{on}.run(own.store(), put);
  EXPECT_EQ(put.status, store_status::unavailable) << own.store().problem();
  EXPECT_NE(own.store().problem().find("tasks.db: "), std::string::npos);
  EXPECT_FALSE(own.get("during").has_value());

  limit.rlim_cur = former;
  EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  EXPECT_EQ(own.put(due_now("during", std::string(100'000, 'x'))).result, schedule_result::scheduled);
  EXPECT_EQ(own.list(task_state::pending), (std::vector<std::string>{"before", "during"}));
  own.close();
  std::string why;
  EXPECT_TRUE(on.validate(&why)) << why;
  return 0;
}

TEST(full_disk, refuses_for_a_while) {
  const test_folder folder;
  child_process filler{[&](const child_process::parent&) { return fill_the_disk(folder.file("tasks.db")); }};
  EXPECT_EQ(filler.exit_code(), 0);
}

TEST(sqlite_file, that_was_moved_confirms_nothing_until_it_is_back) {
  sqlite_fixture on;
  node own{on};
  own.start();
  own.put(due_now("a"));
  const std::string elsewhere = on.folder->file("elsewhere.db");
  fs::rename(on.file, elsewhere);
  const auto status_of_put = [&](const std::string& id) {
    asked<durable::put_call> put;
    put.items.push_back({due_now(id), {}});
    call_runner{on}.run(own.store(), put);
    return put.status;
  };
  EXPECT_EQ(status_of_put("b"), store_status::unknown);
  EXPECT_NE(own.store().problem().find("the file or its log was moved or deleted"), std::string::npos);
  EXPECT_EQ(status_of_put("c"), store_status::unavailable);
  fs::rename(elsewhere, on.file);
  EXPECT_EQ(own.put(due_now("d")).result, schedule_result::scheduled);
  const auto ids = own.list(task_state::pending);
  EXPECT_EQ(ids.front(), "a");
  EXPECT_EQ(ids.back(), "d");
  EXPECT_EQ(std::count(ids.begin(), ids.end(), "c"), 0);
}

TEST(sqlite_file, with_another_in_its_place_ends_the_session) {
  sqlite_fixture on;
  node own{on};
  own.start();
  own.put(due_now("a"));
  {
    sqlite_fixture other;
    EXPECT_EQ(try_to_join(other).error, 0);
    for (const char* const suffix : {"", "-wal", "-shm"}) {
      fs::remove(on.file + suffix);
      if (fs::exists(other.file + suffix)) fs::copy_file(other.file + suffix, on.file + suffix);
    }
  }
  asked<durable::put_call> put;
  put.items.push_back({due_now("b"), {}});
  call_runner{on}.run(own.store(), put);
  EXPECT_EQ(put.status, store_status::unknown);
  asked<durable::renew_call> renew;
  renew.session = own.session();
  call_runner{on}.run(own.store(), renew);
  EXPECT_EQ(renew.status, store_status::ok);
  EXPECT_TRUE(renew.is_buried);
}

TEST(sqlite_restart, takes_keep_finished_of_the_last_join) {
  sqlite_fixture on;
  node own{on};
  own.start(1h);
  own.put(due_now("t"));
  EXPECT_EQ(own.cancel("t"), durable::cancel_result::cancelled);
  on.advance(10min);
  own.close();
  own.start(11min);
  EXPECT_EQ(own.cancel("t"), durable::cancel_result::cancelled);
  EXPECT_EQ(shell{on.file}.read("select keep_finished from meta"), "660000000000");
  own.close();
  own.start(10min);
  EXPECT_EQ(own.cancel("t"), durable::cancel_result::not_found);
  EXPECT_EQ(own.put(due_now("t")).result, schedule_result::scheduled);
}

}  // namespace
