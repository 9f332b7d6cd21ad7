// A disk that is full or fails, and a file that is damaged.
#include "child_process.hpp"
#include "joining.hpp"

#include "../../../src/durable/sqlite/file/checkpoints.hpp"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

using namespace conformance;
using durable::schedule_result;
using durable::store_status;
using durable::task_state;
namespace fs = std::filesystem;
namespace sqlite = tickwheel::durable::sqlite;

namespace {

std::atomic<int> good_syncs = 0;  // of those that are to fail, these go first, and do not
std::atomic<int> failing_syncs = 0;

bool sync_fails() noexcept {
  if (failing_syncs.load() <= 0) return false;
  if (good_syncs > 0) {
    --good_syncs;
    return false;
  }
  --failing_syncs;
  errno = EIO;
  return true;
}

std::string content_of(const std::string& path) {
  std::ifstream in{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

/// A file of which a sync that fails loses all that was written since the last one, as Linux may do. The sync after it succeeds.
class forgetful_file {
 public:
  /// The first sync that has something to write fails, and calls `failed`.
  forgetful_file(std::string path, std::function<void()> failed)
      : path_{std::move(path)}, failed_{std::move(failed)}, on_disk_{content_of(path_)} {
    const std::lock_guard lock{mutex};
    only = this;
  }
  ~forgetful_file() {
    const std::lock_guard lock{mutex};
    only = nullptr;
  }
  forgetful_file(const forgetful_file&) = delete;
  forgetful_file& operator=(const forgetful_file&) = delete;

  bool has_failed() const { return has_failed_; }

  /// Returns true if this sync is to fail.
  static bool sync_fails(int file) noexcept {
    const std::lock_guard lock{mutex};
    return only != nullptr && only->is(file) && only->fails(file);
  }

 private:
  bool is(int file) const noexcept {
    struct stat own {};
    struct stat other {};
    return ::stat(path_.c_str(), &own) == 0 && ::fstat(file, &other) == 0 && own.st_ino == other.st_ino;
  }
  bool fails(int file) noexcept {
    std::string written = content_of(path_);
    if (has_failed_ || written == on_disk_) {
      on_disk_ = std::move(written);
      return false;
    }
    EXPECT_EQ(::pwrite(file, on_disk_.data(), on_disk_.size(), 0), static_cast<ssize_t>(on_disk_.size()));
    EXPECT_EQ(::ftruncate(file, static_cast<off_t>(on_disk_.size())), 0);
    has_failed_ = true;
    failed_();
    errno = EIO;
    return true;
  }

  static inline std::mutex mutex;
  static inline forgetful_file* only = nullptr;

  const std::string path_;
  const std::function<void()> failed_;
  std::string on_disk_;
  std::atomic<bool> has_failed_ = false;
};

}  // namespace

// SQLite calls these in place of the C library's, because a program's own symbols come first.
extern "C" int fdatasync(int file) {
  if (sync_fails() || forgetful_file::sync_fails(file)) return -1;
  return static_cast<int>(::syscall(SYS_fdatasync, file));
}
extern "C" int fsync(int file) {
  if (sync_fails() || forgetful_file::sync_fails(file)) return -1;
  return static_cast<int>(::syscall(SYS_fsync, file));
}

namespace {

constexpr std::size_t most_items = 600;  // of a call that does not fit into the smallest cache
constexpr std::size_t few = 60;
constexpr std::size_t frame = 4096 + 24;

std::string id_of(std::size_t i) { return "t" + std::to_string(100 + i); }

/// No file of this process may grow beyond `bytes`. A write beyond it ends like one to a full disk. No value: no limit.
void limit_files(std::optional<std::uintmax_t> bytes) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  limit.rlim_cur = bytes ? static_cast<rlim_t>(*bytes) : limit.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/// A store of one file, and the rows that other programs see in it.
struct faulty {
  explicit faulty(const std::string& file, const durable::sqlite_options& with = {}) : on{file} {
    on.options = with;
    own.emplace(on);
  }

  template <class Call>
  store_status run(asked<Call>& c) {
    call_runner{on}.run(own->store(), c);
    return c.status;
  }
  store_status put(const std::string& id, const std::string& payload = "data") {
    asked<durable::put_call> c;
    c.items.push_back({due_now(id, payload), {}});
    return run(c);
  }
  /// Waits until the store writes again.
  void recover() {
    for (const auto deadline = std::chrono::steady_clock::now() + 20s; std::chrono::steady_clock::now() < deadline;) {
      asked<durable::purge_call> c;
      c.limit = 0;
      if (run(c) == store_status::ok) return;
    }
    ADD_FAILURE() << "the store does not recover: " << own->store().problem();
  }
  std::string rows() const {
    return shell{on.file}.read(
        "select id || state || ' ' || rev || ' ' || attempt || ' ' || lost || ' ' || length(payload) from tasks order "
        "by id");
  }
  std::string problem() { return std::string{own->store().problem()}; }

  sqlite_fixture on;
  std::optional<node> own;
};

/// The number of rows that `to` has, and `from` has not.
std::size_t news(const std::string& from, const std::string& to) {
  const auto lines = [](const std::string& of) {
    std::set<std::string> all;
    std::istringstream in{of};
    for (std::string line; std::getline(in, line);) all.insert(line);
    return all;
  };
  const auto known = lines(from);
  const auto seen = lines(to);
  return static_cast<std::size_t>(
      std::count_if(seen.begin(), seen.end(), [&](const std::string& row) { return known.count(row) == 0; }));
}

// Runs a call with less space than it needs, then with a little more, until there is enough. Each try but the last changes nothing but
// the elements that it has answered. The rows of a call do not fit into SQLite's cache: with little space a statement fails, with
// more the COMMIT.
template <class Call>
void run_on_a_full_disk(faulty& f, const std::function<void(asked<Call>&)>& prepare) {
  const std::string before = f.rows();
  std::size_t changed = 0;
  std::size_t failures = 0;
  for (std::size_t space = 0;; space += space < 2 * frame ? frame / 2 : 16 * frame) {
    f.recover();
    asked<Call> c;
    prepare(c);
    limit_files(fs::file_size(f.on.file + "-wal") + space);
    const store_status status = f.run(c);
    limit_files({});
    if (status == store_status::ok) break;
    ++failures;
    EXPECT_EQ(status, store_status::unavailable) << f.problem();
    EXPECT_NE(f.problem().find("tasks.db: "), std::string::npos) << f.problem();
    f.recover();
    const std::string after = f.rows();
    changed = std::max(changed, c.carried_out);
    ASSERT_EQ(std::max(news(before, after), news(after, before)), changed) << "with space for " << space << " bytes";
    ASSERT_LT(failures, 100U);
  }
  EXPECT_GE(failures, 5U) << "all of it fits into the cache";
  EXPECT_NE(f.rows(), before);
}

std::vector<durable::begin_call::item> all_pending(node& own) {
  std::vector<durable::begin_call::item> items;
  for (const durable::pending_row& r : own.load()) items.push_back({r.id, r.rev});
  EXPECT_EQ(items.size(), most_items);
  return items;
}

int fill_the_disk_in_each_verb(const std::string& file) {
  faulty f{file, {.cache_bytes = 65'536, .checkpoint_pages = 4000}};  // the log is not started anew
  node& own = *f.own;
  own.start();
  const auto begin_all = [&] {
    const auto items = all_pending(own);
    asked<durable::begin_call> c;
    c.session = own.session();
    c.items = items;
    own.run(c);
    EXPECT_EQ(c.starts.size(), most_items);
    return c.starts;
  };
  run_on_a_full_disk<durable::put_call>(f, [](auto& c) {
    for (std::size_t i = 0; i != most_items; ++i) c.items.push_back({due_now(id_of(i), std::string(500, 'x')), {}});
  });
  const auto items = all_pending(own);
  run_on_a_full_disk<durable::begin_call>(f, [&](auto& c) {
    c.session = own.session();
    c.items = items;
  });
  own.lose();
  run_on_a_full_disk<durable::recover_call>(f, [&](auto& c) {
    c.session = own.session();
    c.max_attempts = 8;
  });
  auto starts = begin_all();
  const auto finish = [&](durable::outcome how) {
    std::vector<durable::finish_call::item> answers;
    for (std::size_t i = 0; i != starts.size(); ++i)
      answers.push_back({.id = id_of(i), .token = starts[i].token, .how = how, .error = "broken"});
    run_on_a_full_disk<durable::finish_call>(f, [&](auto& c) { c.items = answers; });
  };
  finish(durable::outcome::dead);
  own.lose();  // after a start, requests are carried out in parts
  run_on_a_full_disk<durable::revive_call>(f, [](auto& c) {
    for (std::size_t i = 0; i != most_items; ++i) c.ids.push_back(id_of(i));
  });
  run_on_a_full_disk<durable::cancel_call>(f, [](auto& c) {
    for (std::size_t i = 0; i != most_items; ++i) c.ids.push_back(id_of(i));
  });
  f.on.advance(2h);
  run_on_a_full_disk<durable::purge_call>(f, [](auto& c) { c.limit = 1000; });
  EXPECT_EQ(f.rows(), "");
  own.close();
  std::string why;
  EXPECT_TRUE(f.on.validate(&why)) << why;
  return 0;
}

TEST(full_disk, changes_nothing_in_any_verb_until_there_is_space) {
  const test_folder folder;
  child_process filler{
      [&](const child_process::parent&) { return fill_the_disk_in_each_verb(folder.file("tasks.db")); }};
  EXPECT_EQ(filler.exit_code(), 0);
}

int fill_the_disk_while_joining(const std::string& file) {
  faulty f{file};
  f.own->start();
  EXPECT_EQ(f.put("t"), store_status::ok);
  f.own->close();
  limit_files(0);
  const join_answer full = try_to_join(f.on);
  limit_files({});
  EXPECT_EQ(full.status, store_status::unavailable) << full.error;
  EXPECT_NE(full.problem.find("tasks.db: "), std::string::npos) << full.problem;
  f.own->start();
  EXPECT_EQ(f.own->list(task_state::pending), std::vector<std::string>{"t"});
  return 0;
}

TEST(full_disk, makes_join_unavailable) {
  const test_folder folder;
  child_process filler{
      [&](const child_process::parent&) { return fill_the_disk_while_joining(folder.file("tasks.db")); }};
  EXPECT_EQ(filler.exit_code(), 0);
}

// The file is large and its log short: there is space for commits, and none for a checkpoint that makes the file longer.
int fill_the_disk_in_a_checkpoint(const std::string& file) {
  faulty f{file, {.checkpoint_pages = 4}};
  f.own->start();
  for (int i = 0; i != 4; ++i)
    EXPECT_EQ(f.put("large" + std::to_string(i), std::string(500'000, 'x')), store_status::ok);
  f.own->close();
  f.own->start();  // copies the log into the file
  const auto size = fs::file_size(file);
  EXPECT_GT(size, 2'000'000U);
  limit_files(size);
  std::vector<std::string> ids;
  while (ids.size() != 20) {
    ids.push_back(id_of(ids.size()));
    EXPECT_EQ(f.put(ids.back(), std::string(5000, 'x')), store_status::ok) << f.problem();
  }
  for (const auto deadline = std::chrono::steady_clock::now() + 20s;
       f.problem().empty() && std::chrono::steady_clock::now() < deadline;)
    f.on.turn();
  EXPECT_NE(f.problem().find("tasks.db: "), std::string::npos) << "the checkpoint had enough space";
  EXPECT_EQ(fs::file_size(file), size);
  EXPECT_EQ(f.put("during"), store_status::ok) << f.problem();

  limit_files({});
  EXPECT_EQ(f.put("after"), store_status::ok) << f.problem();
  for (const auto deadline = std::chrono::steady_clock::now() + 20s;
       fs::file_size(file) <= size && std::chrono::steady_clock::now() < deadline;)
    EXPECT_EQ(f.put("more" + std::to_string(f.on.timers().now().time_since_epoch().count())), store_status::ok);
  EXPECT_GT(fs::file_size(file), size) << "no checkpoint follows";
  f.own->close();
  f.own->start();
  const auto kept = f.own->list(task_state::pending);
  for (const std::string& id : ids) EXPECT_EQ(std::count(kept.begin(), kept.end(), id), 1) << id;
  EXPECT_EQ(std::count(kept.begin(), kept.end(), "during"), 1);
  f.own->close();
  std::string why;
  EXPECT_TRUE(f.on.validate(&why)) << why;
  return 0;
}

TEST(full_disk, in_a_checkpoint_stops_no_commit) {
  const test_folder folder;
  child_process filler{
      [&](const child_process::parent&) { return fill_the_disk_in_a_checkpoint(folder.file("tasks.db")); }};
  EXPECT_EQ(filler.exit_code(), 0);
}

// --- syncs

class sqlite_sync : public testing::Test {
 protected:
  sqlite_sync() { f.own->start(); }
  ~sqlite_sync() override { good_syncs = failing_syncs = 0; }

  test_folder folder;
  faulty f{folder.file("tasks.db")};
};

TEST_F(sqlite_sync, that_fails_once_makes_a_put_unknown) {
  EXPECT_EQ(f.put("before"), store_status::ok);
  failing_syncs = 1;
  EXPECT_EQ(f.put("during"), store_status::unknown);
  EXPECT_EQ(failing_syncs, 0);
  EXPECT_NE(f.problem().find("tasks.db: "), std::string::npos) << f.problem();
  f.recover();
  EXPECT_EQ(f.put("during"), store_status::ok);
  EXPECT_EQ(f.own->list(task_state::pending), (std::vector<std::string>{"before", "during"}));
}

TEST_F(sqlite_sync, that_goes_on_failing_confirms_nothing) {
  EXPECT_EQ(f.put("before"), store_status::ok);
  failing_syncs = 1'000'000;
  EXPECT_EQ(f.put("a"), store_status::unknown);
  EXPECT_EQ(f.put("b"), store_status::unavailable);
  failing_syncs = 0;
  f.recover();
  EXPECT_EQ(f.put("c"), store_status::ok);
  const auto ids = f.own->list(task_state::pending);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), "before"), 1);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), "b"), 0);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), "c"), 1);
}

// The outcome of a start is not known: the task is running, or pending as before.
TEST_F(sqlite_sync, that_fails_in_begin_leaves_the_task_recoverable) {
  EXPECT_EQ(f.put("t"), store_status::ok);
  const auto rows = f.own->load();
  ASSERT_EQ(rows.size(), 1U);
  asked<durable::begin_call> begin;
  begin.session = f.own->session();
  begin.items.push_back({"t", rows[0].rev});
  failing_syncs = 1;
  EXPECT_EQ(f.run(begin), store_status::unknown);
  f.recover();
  EXPECT_EQ(f.own->get("t")->state, task_state::running) << "the frames of the log were written";
  f.own->recover(8, {"t"});
  EXPECT_EQ(f.own->begin("t").attempt, 1U);
}

// SQLite writes the copy of a log that goes on to the disk only once all is copied. The store does not wait for that.
TEST_F(sqlite_sync, that_fails_after_a_part_of_the_log_was_copied_is_reported) {
  f.own->close();
  const std::atomic<bool> give_up = false;
  const sqlite::connection writer{f.on.file, sqlite::access::existing, 1 << 20, give_up};
  const sqlite::connection reader{f.on.file, sqlite::access::existing, 1 << 20, give_up};
  sqlite::checkpoints log{1, 1000};
  int frames = 0;
  const auto commit = [&] {
    log.committing();
    writer.run("insert into tasks(id, at, due, period, rev) select hex(randomblob(8)), 1, 1, 0, 1");
    EXPECT_TRUE(log.committed(frames += 4));
  };
  commit();
  log.run(reader);  // the first sync of a log is also one of its folder
  commit();
  const shell snapshot{f.on.file};
  snapshot.run("begin");
  EXPECT_EQ(snapshot.read("select count(*) from tasks"), "2");
  commit();        // which is not copied while the snapshot is open
  good_syncs = 1;  // of the log
  failing_syncs = 1;
  try {
    log.run(reader);
    ADD_FAILURE() << "the copy was not written to the disk";
  } catch (const sqlite::failure& thrown) {
    EXPECT_EQ(thrown.system(), EIO);
    EXPECT_FALSE(thrown.leaves_connection());
    EXPECT_STREQ(thrown.text(), "the copy of the write-ahead log does not reach the disk");
  }
  EXPECT_EQ(failing_syncs, 0);
}

// A page that a failed sync has lost is still in the log. It is copied again before the log is started anew.
TEST_F(sqlite_sync, that_fails_in_a_checkpoint_loses_no_commit) {
  std::vector<std::string> ids;
  const auto put_next = [&] {
    ids.push_back(id_of(ids.size()));
    EXPECT_EQ(f.put(ids.back(), std::string(3000, 'x')), store_status::ok) << f.problem();
  };
  const auto first_of_log = [&] { return content_of(f.on.file + "-wal").substr(0, 32); };
  const auto put_until = [&](const std::function<bool()>& is_over) {
    for (const auto deadline = std::chrono::steady_clock::now() + 20s;
         !is_over() && std::chrono::steady_clock::now() < deadline;) {
      put_next();
      f.on.turn();  // a checkpoint that is due has its turn
    }
    EXPECT_TRUE(is_over());
  };
  while (ids.size() != 5) put_next();
  std::optional<shell> snapshot{f.on.file};
  forgetful_file file{f.on.file, [&] { snapshot.reset(); }};
  snapshot->run("begin");
  EXPECT_EQ(snapshot->read("select count(*) from tasks"), "5");  // so that the log is copied in part
  put_until([&] { return file.has_failed(); });
  const std::string former = first_of_log();
  put_until([&] { return first_of_log() != former; });
  f.own->close();
  std::string why;
  EXPECT_TRUE(f.on.validate(&why)) << why;
  f.own->start();
  EXPECT_EQ(f.own->list(task_state::pending).size(), ids.size());
}

// --- pages

void overwrite(const std::string& file, std::size_t offset, const std::string& bytes) {
  std::fstream out{file, std::ios::in | std::ios::out | std::ios::binary};
  out.seekp(static_cast<std::streamoff>(offset));
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(out.good());
}

// Calls all verbs on a damaged file. Each answers; returns how many did not answer ok.
std::size_t call_all(faulty& f) {
  std::size_t failed = 0;
  const auto note = [&](store_status s) {
    if (s == store_status::ok) return;
    ++failed;
    EXPECT_NE(f.problem().find("tasks.db: "), std::string::npos) << f.problem();
  };
  asked<durable::load_call> load;
  for (const durable::partition_number p : f.own->owned()) load.ranges.push_back({p, {}, {}});
  load.page = 1000;
  note(f.run(load));
  asked<durable::begin_call> begin;
  begin.session = f.own->session();
  for (const durable::pending_row& r : load.rows) begin.items.push_back({r.id, r.rev});
  note(f.run(begin));
  asked<durable::finish_call> finish;
  for (const auto& s : begin.starts)
    if (s.index % 2 == 0)
      finish.items.push_back({.id = begin.items[s.index].id, .token = s.token, .how = durable::outcome::done});
  note(f.run(finish));
  note(f.put("new"));
  asked<durable::cancel_call> cancel;
  asked<durable::get_call> get;
  for (std::size_t i = 0; i != few; ++i) {
    cancel.ids.push_back(id_of(i));
    get.ids.push_back(id_of(i));
  }
  note(f.run(cancel));
  note(f.run(get));
  for (const task_state s : {task_state::pending, task_state::running, task_state::dead}) {
    asked<durable::list_call> list;
    list.state = s;
    list.limit = 1000;
    note(f.run(list));
  }
  return failed;
}

TEST(sqlite_file, each_damaged_page_has_a_clear_answer) {
  const test_folder folder;
  const std::string file = folder.file("tasks.db");
  {
    faulty f{file};
    f.own->start();
    for (std::size_t i = 0; i != few; ++i) f.own->put(due_now(id_of(i), std::string(300, 'x')));
    f.own->close();
    f.own->start();  // copies the log into the file
  }
  fs::remove(file + "-wal");
  fs::remove(file + "-shm");
  const std::string sound = file + ".sound";
  fs::copy_file(file, sound);
  const auto restore = [&] {
    fs::copy_file(sound, file, fs::copy_options::overwrite_existing);
    fs::remove(file + "-wal");
    fs::remove(file + "-shm");
  };
  const std::size_t page_size = 4096;
  const std::size_t pages = fs::file_size(file) / page_size;
  ASSERT_GE(pages, 8U);
  std::size_t refused = 0;
  std::size_t failed = 0;
  for (std::size_t page = 0; page != pages; ++page) {
    restore();
    overwrite(file, page * page_size, std::string(page_size, '\xff'));
    faulty f{file};
    const int error = f.own->join();
    EXPECT_TRUE(error == 0 || error == UV_EFTYPE) << error << " for page " << page;
    EXPECT_EQ(error == 0, f.problem().empty()) << f.problem();
    refused += error != 0;
    if (error != 0) continue;
    f.own->acquire();
    failed += call_all(f) != 0;
  }
  EXPECT_GE(refused, 1U) << "the first page";
  EXPECT_GE(refused + failed, pages / 2);

  restore();
  faulty f{file};
  f.own->start();
  EXPECT_EQ(f.own->list(task_state::pending).size(), few);
}

}  // namespace
