// A sqlite_store joins some files, and says why it refuses others.
#include "child_process.hpp"
#include "joining.hpp"

#include "../../../src/durable/sqlite/file/schema.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

using namespace conformance;
using durable::store_status;
namespace fs = std::filesystem;

namespace {

constexpr uid_t nobody = 65'534;

void write_file(const std::string& path, const std::string& text) { std::ofstream{path} << text; }

/// `path` cannot be joined, for this reason and with these words.
void expect_refused(const join_answer& a, int error, const std::string& words) {
  EXPECT_EQ(a.status, store_status::ok);
  EXPECT_EQ(a.error, error) << a.problem;
  EXPECT_NE(a.problem.find(words), std::string::npos) << a.problem;
}

TEST(sqlite_file, open_refuses_a_path_of_no_file) {
  sqlite_fixture on;
  const auto problem_of = [&](const std::string& path) {
    const auto store = on.make_store(path);
    EXPECT_EQ(store->open(on.timers()), UV_EINVAL);
    return std::string{store->problem()};
  };
  EXPECT_EQ(problem_of(""), "sqlite_store: the path is empty");
  EXPECT_EQ(problem_of(":memory:"), "sqlite_store: the path is :memory:, but only a file keeps tasks");
  EXPECT_EQ(problem_of("file:tasks.db"), "sqlite_store: the path is a URI; it must be the name of a file");
  EXPECT_EQ(problem_of(std::string{"a\0b", 3}), "sqlite_store: the path has a NUL");
}

TEST(sqlite_file, open_names_the_invalid_option) {
  sqlite_fixture on;
  on.options = {.cache_bytes = 65'535};
  const auto little = on.make_store();
  EXPECT_EQ(little->open(on.timers()), UV_EINVAL);
  EXPECT_EQ(little->problem(), "sqlite_options::cache_bytes is less than 64 KiB");
  on.options = {.checkpoint_pages = 0};
  const auto never = on.make_store();
  EXPECT_EQ(never->open(on.timers()), UV_EINVAL);
  EXPECT_EQ(never->problem(), "sqlite_options::checkpoint_pages is zero");
}

TEST(sqlite_file, join_makes_a_marked_file_and_its_lock) {
  sqlite_fixture on;
  const join_answer a = try_to_join(on);
  EXPECT_EQ(a.status, store_status::ok);
  EXPECT_EQ(a.error, 0);
  EXPECT_EQ(a.problem, "");
  EXPECT_TRUE(fs::exists(on.file + ".lock"));
  const shell other{on.file};
  EXPECT_EQ(other.read("pragma application_id"), std::to_string(durable::sqlite::application_id));
  EXPECT_EQ(other.read("pragma user_version"), "1");
  EXPECT_EQ(other.read("pragma journal_mode"), "wal");
}

TEST(sqlite_file, second_store_of_one_process_is_busy) {
  sqlite_fixture on;
  node first{on};
  first.start();
  expect_refused(try_to_join(on), UV_EBUSY, "tasks.db: another process or scheduler has it");
  first.close();
  EXPECT_EQ(try_to_join(on).error, 0);
}

#ifdef F_OFD_SETLK
TEST(sqlite_file, is_busy_although_its_lock_file_was_deleted) {
  const test_folder folder;
  const std::string file = folder.file("tasks.db");
  child_process other{[&](const child_process::parent& parent) {
    parent.wait();
    sqlite_fixture on{file};
    return try_to_join(on).error == UV_EBUSY ? 1 : 2;
  }};
  sqlite_fixture on{file};
  node first{on};
  first.start();
  fs::remove(file + ".lock");
  expect_refused(try_to_join(on), UV_EBUSY,
                 "tasks.db: another process or scheduler has it, but its lock file was deleted");
  other.tell();
  EXPECT_EQ(other.exit_code(), 1);
  first.put({.id = "t", .due = durable::clock::time_point{1s}, .payload = ""});
  first.close();
  EXPECT_EQ(try_to_join(on).error, 0);
}
#endif

TEST(sqlite_file, another_name_of_the_file_is_busy) {
  sqlite_fixture on;
  const std::string link = on.folder->file("link.db");
  fs::create_symlink("tasks.db", link);  // to a file that is not there yet
  node first{on};
  first.start();
  expect_refused(try_to_join(on, link), UV_EBUSY, "link.db: another process or scheduler has it");
  expect_refused(try_to_join(on, (on.folder->path() / "." / "tasks.db").string()), UV_EBUSY, "another process");
}

// SQLite names its log after the file, so two names mean two logs: the file is malformed, and confirmed tasks are lost.
TEST(sqlite_file, hard_link_to_an_open_file_is_busy) {
  sqlite_fixture on;
  node first{on};
  first.start();
  shell{on.file}.run("pragma wal_checkpoint(passive)");  // a file without pages cannot be joined under any other name
  const std::string link = on.folder->file("link.db");
  fs::create_hard_link(on.file, link);
  const join_answer a = try_to_join(on, link);
  EXPECT_EQ(a.status, store_status::ok);
  EXPECT_EQ(a.error, UV_EBUSY) << a.problem;
}

// A process that closes any descriptor of a file loses the locks that SQLite has on it.
TEST(sqlite_file, second_process_is_busy_after_the_file_was_closed_here) {
  const test_folder folder;
  const std::string file = folder.file("tasks.db");
  child_process other{[&](const child_process::parent& parent) {
    parent.wait();
    sqlite_fixture on{file};
    return try_to_join(on).error == UV_EBUSY ? 1 : 2;
  }};
  sqlite_fixture on{file};
  node first{on};
  first.start();
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(descriptor, 0);
  ::close(descriptor);
  other.tell();
  EXPECT_EQ(other.exit_code(), 1);
}

// The last connection that is closed deletes the log, with what was committed to it meanwhile.
TEST(sqlite_file, log_stays_when_another_program_closes_the_file) {
  const test_folder folder;
  const std::string file = folder.file("tasks.db");
  child_process other{[&](const child_process::parent& parent) {
    parent.wait();
    return shell{file}.read("select count(*) from tasks") == "1" ? 0 : 1;
  }};
  sqlite_fixture on{file};
  node first{on};
  first.start();
  first.put({.id = "t", .due = durable::clock::time_point{1s}, .payload = ""});
  first.load();
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(descriptor, 0);
  ::close(descriptor);
  struct stat before {};
  ASSERT_EQ(::stat((file + "-wal").c_str(), &before), 0);
  other.tell();
  EXPECT_EQ(other.exit_code(), 0);
  struct stat after {};
  ASSERT_EQ(::stat((file + "-wal").c_str(), &after), 0);
  EXPECT_EQ(after.st_ino, before.st_ino);
}

TEST(sqlite_file, no_descriptor_is_inherited_by_a_program) {
  sqlite_fixture on;
  node first{on};
  first.start();
  first.load();
  int found = 0;
  for (const auto& entry : fs::directory_iterator{"/proc/self/fd"}) {
    std::error_code ignored;
    const fs::path target = fs::read_symlink(entry.path(), ignored);
    if (target.parent_path() != fs::canonical(on.folder->path())) continue;
    ++found;
    EXPECT_NE(::fcntl(std::stoi(entry.path().filename().string()), F_GETFD) & FD_CLOEXEC, 0) << target;
  }
  EXPECT_GE(found, 4) << "the file, its log, the log's index and the lock";
}

TEST(sqlite_file, that_is_no_database_is_left_as_it_is) {
  sqlite_fixture on;
  const std::string text = "this is a letter, and by no means a database" + std::string(4096, '!');
  write_file(on.file, text);
  expect_refused(try_to_join(on), UV_EFTYPE, "tasks.db: file is not a database (SQLite's code 26)");
  EXPECT_EQ(text_of(on.file), text);
  EXPECT_FALSE(fs::exists(on.file + ".lock"));
  write_file(on.file, "brief");
  expect_refused(try_to_join(on), UV_EFTYPE, "file is not a database");
  EXPECT_FALSE(fs::exists(on.file + ".lock"));
}

TEST(sqlite_file, that_is_empty_is_joined) {
  sqlite_fixture on;
  write_file(on.file, "");
  EXPECT_EQ(try_to_join(on).error, 0);
}

// A power failure may tear the first page while it is written. SQLite then takes it from the journal.
TEST(sqlite_file, with_a_torn_start_is_repaired_by_its_journal) {
  sqlite_fixture on;
  {
    const std::string model = on.folder->file("model.db");
    const shell writer{model};
    writer.run("create table a(b); drop table a; pragma cache_size = 1; begin; create table a(b)");
    for (int i = 0; i != 50; ++i) writer.run("insert into a values(zeroblob(2000))");
    fs::copy_file(model, on.file);
    fs::copy_file(model + "-journal", on.file + "-journal");
    writer.run("rollback");
  }
  std::fstream{on.file, std::ios::in | std::ios::out | std::ios::binary} << std::string(16, '\0');
  const join_answer a = try_to_join(on);
  EXPECT_EQ(a.error, 0) << a.problem;
  std::string why;
  EXPECT_TRUE(on.validate(&why)) << why;
}

// Whoever closes another descriptor of a file frees the locks that SQLite has on it.
TEST(sqlite_file, locks_of_this_process_stay_when_its_start_is_read) {
  const test_folder folder;
  const std::string file = folder.file("tasks.db");
  child_process other{[&](const child_process::parent& parent) {
    parent.wait();
    sqlite3* database = nullptr;
    if (sqlite3_open(file.c_str(), &database) != SQLITE_OK) return 2;
    const int result = sqlite3_exec(database, "insert into letters values(2)", nullptr, nullptr, nullptr);
    sqlite3_close(database);
    return result == SQLITE_BUSY ? 1 : 3;
  }};
  const shell program{file};
  program.run("create table letters(a); begin immediate");
  sqlite_fixture on{file};
  EXPECT_NE(try_to_join(on).error, 0);
  other.tell();
  EXPECT_EQ(other.exit_code(), 1);
  program.run("rollback");
}

TEST(sqlite_file, of_another_application_is_left_as_it_is) {
  sqlite_fixture on;
  shell{on.file}.run("create table letters(a); pragma application_id = 4711");
  const std::string before = text_of(on.file);
  expect_refused(try_to_join(on), UV_EFTYPE, "tasks.db: it is a database of another application");
  EXPECT_EQ(text_of(on.file), before);
}

TEST(sqlite_file, of_another_application_without_an_id_is_refused) {
  sqlite_fixture on;
  shell{on.file}.run("create table letters(a)");
  expect_refused(try_to_join(on), UV_EFTYPE, "it is a database of another application");
}

TEST(sqlite_file, of_a_newer_version_is_refused) {
  sqlite_fixture on;
  EXPECT_EQ(try_to_join(on).error, 0);
  shell{on.file}.run("pragma user_version = 2");
  expect_refused(try_to_join(on), UV_ENOTSUP, "tasks.db: a newer version of tickwheel has written it");
}

TEST(sqlite_file, without_its_version_is_refused) {
  sqlite_fixture on;
  EXPECT_EQ(try_to_join(on).error, 0);
  shell{on.file}.run("pragma user_version = 0");
  expect_refused(try_to_join(on), UV_EFTYPE, "its user_version is not one of tickwheel");
}

TEST(sqlite_file, in_a_missing_folder_is_refused) {
  sqlite_fixture on;
  expect_refused(try_to_join(on, on.folder->file("missing/tasks.db")), UV_ENOENT, "No such file or directory");
}

TEST(sqlite_file, that_is_a_folder_is_refused) {
  sqlite_fixture on;
  fs::create_directory(on.file);
  expect_refused(try_to_join(on), UV_EFTYPE, "tasks.db: ");
  expect_refused(try_to_join(on, on.file + "/"), UV_EFTYPE, "Is a directory");
  EXPECT_FALSE(fs::exists(on.file + ".lock"));
}

TEST(sqlite_file, that_is_a_pipe_is_refused) {
  sqlite_fixture on;
  ASSERT_EQ(::mkfifo(on.file.c_str(), 0600), 0);
  expect_refused(try_to_join(on), UV_EFTYPE, "tasks.db: it is not a regular file");
  EXPECT_FALSE(fs::exists(on.file + ".lock"));
}

TEST(sqlite_file, that_was_refused_can_be_joined_later) {
  sqlite_fixture on;
  write_file(on.file, std::string(5000, 'x'));
  const auto store = on.make_store();
  ASSERT_EQ(store->open(on.timers()), 0);
  asked<durable::join_call> refused;
  call_runner{on}.run(*store, refused);
  EXPECT_EQ(refused.error, UV_EFTYPE);
  fs::remove(on.file);
  asked<durable::join_call> joined;
  call_runner{on}.run(*store, joined);
  EXPECT_EQ(joined.status, store_status::ok);
  EXPECT_EQ(joined.error, 0) << store->problem();
  store->close();
}

// Of a user without rights: root may do all.
int join_as_nobody(const std::string& path) {
  if (::geteuid() == 0 && (::setgid(nobody) != 0 || ::setuid(nobody) != 0)) return 97;
  const test_folder own;
  sqlite_fixture on{own.file("unused.db")};
  const join_answer a = try_to_join(on, path);
  return a.status == store_status::ok ? -a.error : 96;
}

TEST(sqlite_file, that_may_only_be_read_is_refused) {
  const test_folder folder;
  const std::string file = folder.file("tasks.db");
  child_process reader{[&](const child_process::parent& parent) {
    parent.wait();
    return join_as_nobody(file);
  }};
  sqlite_fixture on{file};
  EXPECT_EQ(try_to_join(on).error, 0);
  fs::permissions(folder.path(), fs::perms::all);
  fs::permissions(file + ".lock", fs::perms::all);
  fs::permissions(file, fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read);
  reader.tell();
  EXPECT_EQ(reader.exit_code(), -UV_EROFS);
}

TEST(sqlite_file, without_rights_is_refused) {
  const test_folder folder;
  const std::string file = folder.file("tasks.db");
  child_process stranger{[&](const child_process::parent& parent) {
    parent.wait();
    return join_as_nobody(file);
  }};
  sqlite_fixture on{file};
  EXPECT_EQ(try_to_join(on).error, 0);
  fs::permissions(folder.path(), fs::perms::all);
  fs::permissions(file + ".lock", fs::perms::all);
  fs::permissions(file, fs::perms::none);
  stranger.tell();
  EXPECT_EQ(stranger.exit_code(), -UV_EACCES);
}

TEST(sqlite_file, in_a_folder_without_rights_is_refused) {
  const test_folder folder;
  fs::create_directory(folder.path() / "closed");
  fs::permissions(folder.path(), fs::perms::all);
  fs::permissions(folder.path() / "closed", fs::perms::owner_read);
  child_process stranger{[&](const child_process::parent& parent) {
    parent.wait();
    return join_as_nobody(folder.file("closed/tasks.db"));
  }};
  stranger.tell();
  EXPECT_EQ(stranger.exit_code(), -UV_EACCES);
}

}  // namespace
