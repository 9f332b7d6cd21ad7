// tickwheel-durable-move moves the tasks of a SQLite file to a database, or nothing at all.
#include "lost_standby.hpp"

#include <tickwheel/durable/sqlite.hpp>

#include <sqlite3.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <vector>

using namespace conformance;
using durable::cancel_result;
using durable::finish_result;
using durable::task_state;

namespace {

namespace fs = std::filesystem;

/// A SQLite file in a folder of its own, on the loop of another fixture.
class file_fixture final : public store_fixture {
 public:
  explicit file_fixture(postgres_fixture& loop_of) : on_{loop_of} {
    std::string name = "/tmp/tickwheel_move_XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  ~file_fixture() override { fs::remove_all(folder_); }

  std::unique_ptr<durable::store> make_store() override { return durable::sqlite_store(path()); }
  tickwheel::timer_service& timers() override { return on_.timers(); }
  void turn() override { on_.turn(); }
  void advance(std::chrono::nanoseconds) override {}

  std::string path() const { return folder_ + "/orders.db"; }
  std::string output() const {
    std::ifstream in{folder_ + "/output"};
    return {std::istreambuf_iterator<char>{in}, {}};
  }
  /// Runs statements in the file, which no store has open.
  void edit(const char* sql) const {
    sqlite3* file = nullptr;
    EXPECT_EQ(sqlite3_open(path().c_str(), &file), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(file, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(file);
    sqlite3_close(file);
  }
  /// Lowers the number of rows in the page of the tasks by one.
  void hide_last_task() const {
    edit("pragma journal_mode = delete");
    std::fstream in{path(), std::ios::in | std::ios::out | std::ios::binary};
    std::string pages{std::istreambuf_iterator<char>{in}, {}};
    constexpr std::size_t page = 4096;
    constexpr char leaf_of_table = 0x0d;
    for (std::size_t at = page; at < pages.size(); at += page) {
      char& count = pages[at + 4];
      if (pages[at] != leaf_of_table || count < 2) continue;
      --count;
      in.seekp(0);
      in << pages;
      return;
    }
    ADD_FAILURE() << "there is no page with tasks";
  }
  /// Runs the program, and returns its exit code. `output` has all that it wrote.
  int run(const std::vector<std::string>& arguments) const {
    const pid_t child = ::fork();
    if (child == 0) {
      std::vector<char*> words{const_cast<char*>(MOVE_PROGRAM)};
      for (const std::string& a : arguments) words.push_back(const_cast<char*>(a.c_str()));
      words.push_back(nullptr);
      if (std::freopen((folder_ + "/output").c_str(), "w", stdout) == nullptr || ::dup2(1, 2) < 0) ::_exit(126);
      ::execv(MOVE_PROGRAM, words.data());
      ::_exit(127);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  postgres_fixture& on_;
  std::string folder_;
};

class durable_move : public testing::Test {
 protected:
  int move() { return file.run({file.path(), on.server.conninfo(), on.options.schema}); }

  /// Leaves a task of each state in the file, and remembers what a store says of it.
  void fill() {
    node own{file};
    own.start();
    const auto due = std::chrono::floor<std::chrono::seconds>(durable::clock::now()) + 1h + 123'456'789ns;
    own.put({.id = "pending", .due = due, .payload = std::string{"\0\\\n\t\xff", 5}, .period = 90min});
    own.put({.id = R"(back\slash é)", .due = due});
    const auto past = durable::clock::time_point{1s};
    for (const char* const id : {"again", "running", "stopping", "dead", "finished"})
      own.put({.id = id, .due = past, .payload = "data"});
    own.again("again", own.begin("again").token, due, "two\nlines\tand \\ more");
    token = own.begin("running").token;
    own.begin("stopping");
    EXPECT_EQ(own.cancel("stopping"), cancel_result::running);
    EXPECT_EQ(own.dead("dead", own.begin("dead").token), finish_result::finished);
    EXPECT_EQ(own.done("finished", own.begin("finished").token), finish_result::finished);
    own.put({.id = "cancelled", .due = due});
    EXPECT_EQ(own.cancel("cancelled"), cancel_result::cancelled);
    for (const char* const id :
         {"pending", R"(back\slash é)", "again", "running", "stopping", "dead", "finished", "cancelled"})
      known.emplace(id, own.get(id).value());
    own.close();
  }
  void expect_untouched() {
    EXPECT_TRUE(fs::exists(file.path()));
    EXPECT_EQ(on.other().run("select count(*) from tasks"), "0");
  }
  void expect_output(const std::string& words) const {
    EXPECT_NE(file.output().find(words), std::string::npos) << file.output();
  }

  postgres_fixture on;
  file_fixture file{on};
  durable::revision token = 0;  // of the running task
  std::map<std::string, durable::task_info> known;
};

TEST_F(durable_move, tasks_of_all_states_keep_what_they_have) {
  fill();
  EXPECT_EQ(move(), 0) << file.output();
  EXPECT_EQ(file.output(),
            "                   file     database\n"
            "pending               3            3\n"
            "running               2            2\n"
            "dead                  1            1\n"
            "finished              1            1\n"
            "cancelled             1            1\n"
            "all                   8            8\n"
            "moved; the file is " +
                file.path() + ".moved now\n");
  EXPECT_FALSE(fs::exists(file.path()));
  EXPECT_TRUE(fs::exists(file.path() + ".moved"));
  EXPECT_FALSE(fs::exists(file.path() + "-wal"));

  node own{on};
  ASSERT_EQ(own.join(), 0);
  for (const auto& [id, before] : known) {
    const auto after = own.get(id);
    ASSERT_TRUE(after.has_value()) << id;
    EXPECT_EQ(after->state, before.state) << id;
    EXPECT_EQ(after->what.due, before.what.due) << id;
    EXPECT_EQ(after->what.payload, before.what.payload) << id;
    EXPECT_EQ(after->what.period, before.what.period) << id;
    EXPECT_EQ(after->next, before.next) << id;
    EXPECT_EQ(after->attempts, before.attempts) << id;
    EXPECT_EQ(after->lost, before.lost) << id;
    EXPECT_EQ(after->cancelling, before.cancelling) << id;
    EXPECT_EQ(after->last_error, before.last_error) << id;
  }
  std::string why;
  EXPECT_TRUE(on.validate(&why)) << why;
}

TEST_F(durable_move, running_tasks_are_recovered_with_greater_tokens) {
  fill();
  // as if the machine of the file had a clock that is ten years ahead
  file.edit(
      "update meta set revision = revision + 315360000000000; update tasks set rev = rev + 315360000000000 where "
      "state = 1");
  EXPECT_EQ(move(), 0) << file.output();
  node own{on};
  own.start();
  asked<durable::recover_call> c;
  c.session = own.session();
  c.max_attempts = 8;
  own.run(c);
  EXPECT_EQ(c.recovered, 1U);
  EXPECT_EQ(own.get("stopping")->state, task_state::cancelled);
  EXPECT_EQ(own.get("running")->lost, 1U);
  const auto again = own.begin("running");
  EXPECT_GT(again.token, token + 315360000000000);
  EXPECT_EQ(again.attempt, 2U);
}

TEST_F(durable_move, known_ids_are_refused) {
  fill();
  {
    node own{on};
    own.start();
    own.put({.id = "dead", .due = durable::clock::now() + 1h});
  }
  EXPECT_EQ(move(), 1);
  expect_output("the database has 1 of the ids already, for instance dead; nothing was moved");
  EXPECT_TRUE(fs::exists(file.path()));
  EXPECT_EQ(on.other().run("select count(*) from tasks"), "1");
}

// A run that was killed between the two leaves all tasks in the database and in the file.
TEST_F(durable_move, run_after_one_that_did_not_rename_the_file_says_so) {
  fill();
  EXPECT_EQ(move(), 0) << file.output();
  fs::rename(file.path() + ".moved", file.path());
  EXPECT_EQ(move(), 1);
  expect_output(
      "the database has all 8 tasks of the file, as after a run that ended before it renamed the file; nothing was "
      "moved");
  on.other().run("update tasks set due = due + 1 where id = 'pending'");
  EXPECT_EQ(move(), 1);
  expect_output("the database has 8 of the ids already, for instance again; nothing was moved");
}

TEST(durable_move_standby, commit_without_it_is_a_failure) {
  test_server server;
  postgres_fixture on{server};
  file_fixture file{on};
  {
    node own{file};
    own.start();
    own.put({.id = "t", .due = durable::clock::now() + 1h});
    own.close();
  }
  node{on}.start();
  lost_standby standby{on};
  standby.begin();
  const auto run_without_standby = [&](const std::string& conninfo) {
    std::atomic<bool> has_ended = false;
    std::thread other{[&] {
      while (!standby.is_awaited() && !has_ended) std::this_thread::sleep_for(1ms);
      standby.cancel_wait();
    }};
    EXPECT_EQ(file.run({file.path(), conninfo, on.options.schema}), 1);
    has_ended = true;
    other.join();
    EXPECT_TRUE(fs::exists(file.path()));
    return file.output();
  };
  const std::string why = "canceling wait for synchronous replication";
  const std::string first = run_without_standby(server.conninfo());
  EXPECT_NE(first.find("the commit failed: " + why), std::string::npos) << first;
  // The next run tells that all tasks are there only if they are on the standby, also if its role does not wait for that.
  const std::string again = run_without_standby(server.conninfo("options='-c synchronous_commit=local'"));
  EXPECT_NE(again.find("the database has all tasks of the file, but perhaps its synchronous standby does not: " + why),
            std::string::npos)
      << again;
  EXPECT_NE(again.find("; run the program again\n"), std::string::npos) << again;
  EXPECT_EQ(again.find("nothing was moved"), std::string::npos) << again;
  standby.end();
}

TEST_F(durable_move, file_that_a_scheduler_has_is_refused) {
  node own{file};
  own.start();
  EXPECT_EQ(move(), 1);
  expect_output("another process or scheduler has it");
}

TEST_F(durable_move, task_that_the_database_drops_is_a_difference) {
  fill();
  node{on}.start();
  on.other().run(
      "create function drop_one() returns trigger language plpgsql as $$ begin if new.id = 'again' then return null; "
      "end if; return new; end $$; create trigger drop_one before insert on tasks for each row execute function "
      "drop_one()");
  EXPECT_EQ(move(), 1);
  expect_output("pending               3            2\n");
  expect_output("the database did not take all tasks as they are; nothing was moved");
  expect_untouched();
}

TEST_F(durable_move, task_that_the_database_changes_is_a_difference) {
  fill();
  node{on}.start();
  on.other().run(
      "create function change_one() returns trigger language plpgsql as $$ begin if new.id = 'dead' then new.attempt "
      "= 7; end if; return new; end $$; create trigger change_one before insert on tasks for each row execute "
      "function change_one()");
  EXPECT_EQ(move(), 1);
  expect_output("dead                  1            0\n");
  expect_untouched();
}

// The old service would start all tasks once more if the program noticed it after the commit.
TEST_F(durable_move, file_that_has_the_new_name_is_refused) {
  fill();
  node{on}.start();
  std::ofstream{file.path() + ".moved"} << "of an earlier run";
  EXPECT_EQ(move(), 1);
  expect_output("orders.db: there is a file " + file.path() + ".moved; nothing was moved");
  expect_untouched();
  fs::remove(file.path() + ".moved");
  EXPECT_EQ(move(), 0) << file.output();
}

// SQLite reads such a file without an error, and passes over a row.
TEST_F(durable_move, damaged_file_is_refused) {
  fill();
  node{on}.start();
  file.hide_last_task();
  EXPECT_EQ(move(), 1);
  expect_output("orders.db: it is damaged; SQLite's integrity_check says: ");
  expect_output("; nothing was moved");
  const std::string output = file.output();
  EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 1) << output;
  expect_untouched();
}

// No node could open it.
TEST_F(durable_move, database_of_another_encoding_is_refused) {
  fill();
  const psql admin{on.conninfo};
  admin.run("create database latin_move encoding 'LATIN1' template template0 locale 'C'");
  const std::string latin = on.server.conninfo("dbname=latin_move");
  EXPECT_EQ(file.run({file.path(), latin, on.options.schema}), 1);
  expect_output("the encoding of the database is LATIN1; it must be UTF8; nothing was moved");
  EXPECT_TRUE(fs::exists(file.path()));
  EXPECT_EQ(psql{latin}.run("select count(*) from pg_namespace where nspname like 'test%'"), "0");
  admin.run("drop database latin_move");
}

TEST_F(durable_move, wrong_arguments_are_named) {
  EXPECT_EQ(move(), 1);
  expect_output("orders.db: there is no such file; nothing was moved");
  fill();
  EXPECT_EQ(file.run({file.path(), "host=" + on.server.folder() + "/nowhere"}), 1);
  expect_output("PostgreSQL: connection to server on socket");
  EXPECT_TRUE(fs::exists(file.path()));
  EXPECT_EQ(file.run({file.path()}), 2);
  expect_output("usage: tickwheel-durable-move FILE CONNINFO [SCHEMA]");
}

}  // namespace
