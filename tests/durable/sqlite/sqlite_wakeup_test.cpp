// How a sqlite_store wakes its loop: by a pipe, or by posts to the service.
#include "sqlite_fixture.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>

using namespace conformance;

namespace {

/// Lets no descriptor be opened as long as it lives.
class no_descriptors {
 public:
  no_descriptors() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit none = before_;
    none.rlim_cur = 0;
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~no_descriptors() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }
  no_descriptors(const no_descriptors&) = delete;
  no_descriptors& operator=(const no_descriptors&) = delete;

 private:
  rlimit before_{};
};

class sqlite_wakeup : public testing::Test {
 protected:
  /// Opens a store without descriptors, and joins.
  void join_without_a_pipe(durable::store& store) {
    {
      const no_descriptors now;
      ASSERT_EQ(store.open(on.timers()), 0);
    }
    asked<durable::join_call> join;
    join.name = "a";
    join.lease = 1h;
    call_runner{on}.run(store, join);
    ASSERT_EQ(join.error, 0) << store.problem();
  }

  /// Returns the number of handles that poll a descriptor, and closes them as a program does that walks over its loop.
  int close_polls() {
    int closed = 0;
    const auto close = [](uv_handle_t* h, void* count) {
      if (uv_handle_get_type(h) != UV_POLL || uv_is_closing(h) != 0) return;
      uv_close(h, nullptr);
      ++*static_cast<int*>(count);
    };
    uv_walk(on.loop(), close, &closed);
    return closed;
  }

  /// Returns how many descriptors the kernel polls for the loop.
  int count_polled() {
    std::ifstream set{"/proc/self/fdinfo/" + std::to_string(uv_backend_fd(on.loop()))};
    int polled = 0;
    for (std::string line; std::getline(set, line);) polled += line.starts_with("tfd:");
    return polled;
  }

  /// Waits until another connection sees the row.
  void wait_for_row(const std::string& id) const {
    const shell other{on.file};
    while (other.read("select count(*) from tasks where id = '" + id + "'") != "1") {
    }
  }

  sqlite_fixture on{{}, {.max_queued = 1}};
};

TEST_F(sqlite_wakeup, comes_while_the_queue_of_posts_is_full) {
  node own{on};
  own.start();
  bool ran = false;
  auto block = [&ran]() noexcept { ran = true; };
  ASSERT_EQ(on.timers().remote().post(block), 0);
  asked<durable::put_call> put;
  put.items.push_back({due_now("t"), {}});
  own.run(put);
  EXPECT_TRUE(ran);
}

TEST_F(sqlite_wakeup, refused_post_is_repeated) {
  const auto store = on.make_store();
  join_without_a_pipe(*store);
  bool ran = false;
  auto block = [&ran]() noexcept { ran = true; };
  ASSERT_EQ(on.timers().remote().post(block), 0);  // the queue is full until the loop runs
  asked<durable::put_call> put;
  put.items.push_back({due_now("t"), {}});
  store->put(put);
  wait_for_row("t");
  call_runner{on}.wait_for(put);
  EXPECT_TRUE(ran);
  EXPECT_EQ(put.results.at(0).result, durable::schedule_result::scheduled);
  EXPECT_EQ(close_polls(), 0) << "there was a pipe, so nothing was posted";
  store->close();
}

TEST_F(sqlite_wakeup, comes_after_the_program_closed_the_handle) {
  node own{on};
  own.start();
  EXPECT_EQ(close_polls(), 1);
  own.put(due_now("a"));
  own.close();  // its handle is closed already
  own.start();
  own.put(due_now("b"));
  EXPECT_EQ(close_polls(), 1);
}

TEST_F(sqlite_wakeup, on_its_way_when_the_handle_is_closed_comes_anew) {
  node own{on};
  own.start();
  asked<durable::put_call> put;
  asked<durable::get_call> get;
  put.items.push_back({due_now("a"), {}});
  get.ids = {"a"};
  own.store().put(put);
  wait_for_row("a");
  EXPECT_EQ(close_polls(), 1);
  own.store().get(get);
  call_runner{on}.wait_for(get);
  EXPECT_TRUE(put.is_answered());
}

TEST_F(sqlite_wakeup, lost_with_the_handle_comes_although_nothing_is_asked) {
  node own{on};
  own.start();
  asked<durable::put_call> put;
  put.items.push_back({due_now("a"), {}});
  own.store().put(put);
  wait_for_row("a");
  EXPECT_EQ(close_polls(), 1);
  call_runner{on}.wait_for(put);
}

TEST_F(sqlite_wakeup, lost_with_the_handle_comes_after_the_queue_of_posts_was_full) {
  node own{on};
  own.start();
  asked<durable::put_call> put;
  put.items.push_back({due_now("a"), {}});
  own.store().put(put);
  wait_for_row("a");
  EXPECT_EQ(close_polls(), 1);
  bool ran = false;
  auto block = [&ran]() noexcept { ran = true; };
  ASSERT_EQ(on.timers().remote().post(block), 0);
  std::this_thread::sleep_for(150ms);  // the post of the wakeup is refused meanwhile
  call_runner{on}.wait_for(put);
  EXPECT_TRUE(ran);
}

TEST_F(sqlite_wakeup, pipe_stays_polled_while_a_child_runs_before_uv_loop_fork) {
  node own{on};
  own.start();
  const int polled = count_polled();
  asked<durable::put_call> put;
  put.items.push_back({due_now("a"), {}});
  own.store().put(put);
  wait_for_row("a");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto end = std::chrono::steady_clock::now() + 20ms;
    while (std::chrono::steady_clock::now() < end) uv_run(on.loop(), UV_RUN_NOWAIT);
    ::_exit(put.is_answered() ? 2 : 0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(count_polled(), polled);
  call_runner{on}.wait_for(put);
}

// The child polls its parent's pipe.
TEST_F(sqlite_wakeup, is_not_taken_by_a_child_of_a_fork) {
  node own{on};
  own.start();
  asked<durable::put_call> put;
  put.items.push_back({due_now("a"), {}});
  own.store().put(put);
  wait_for_row("a");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (uv_loop_fork(on.loop()) != 0) ::_exit(1);
    on.timers().after_fork();
    // as long as the parent's thread may need to write
    const auto end = std::chrono::steady_clock::now() + 100ms;
    while (std::chrono::steady_clock::now() < end) uv_run(on.loop(), UV_RUN_NOWAIT);
    ::_exit(put.is_answered() ? 2 : 0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  call_runner{on}.wait_for(put);
  EXPECT_EQ(put.status, durable::store_status::ok);
}

}  // namespace
