// The child of a fork has a copy of a scheduler, which does nothing there.
#include "../model/counting_store.hpp"
#include "../support/manual_node.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

using namespace tickwheel_test;

namespace {

/// Runs `body` in a child. Returns its exit code.
template <class F>
int in_child(F body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(scheduler_in_child, starts_nothing_and_answers_nothing) {
  manual_world world;
  manual_node node{world};
  ASSERT_EQ(node.open(), 0);
  node.schedule("due soon", 10ms);
  int answers = 0;
  ASSERT_EQ(
      node.scheduler.get("due soon", [&](durable::read_result, const durable::task_info&) noexcept { ++answers; }), 0);
  const auto run = [&] {
    world.manual.advance(1min);  // past its lease and all timeouts
    return static_cast<int>(node.started.size()) + answers;
  };
  EXPECT_EQ(in_child(run), 0);
  EXPECT_EQ(run(), 2);
}

TEST(scheduler_in_child, may_be_opened_if_the_parent_had_not_opened_it) {
  manual_world world;
  manual_node node{world};
  EXPECT_EQ(
      in_child([&] { return node.open() == 0 && node.schedule("a") == durable::schedule_result::scheduled ? 7 : 1; }),
      7);
}

TEST(scheduler_in_child, keeps_what_the_parent_was_told_for_the_parent) {
  manual_world world;
  manual_node node{world};
  ASSERT_EQ(node.open(), 0);
  for (const char* id : {"a", "b", "c"}) node.schedule(id, 10ms);
  bool has_forked = false;
  int more = -1;
  node.on_start = [&](durable::execution first) {
    // blocks for longer than a turn may take: the others wait for the next one
    world.manual.time.block(1ms);
    has_forked = true;
    first.done();
  };
  while (!has_forked) world.manual.advance(1ms);
  node.on_start = nullptr;
  const std::size_t started = node.started.size();
  more = in_child([&] {
    world.manual.advance(1s);
    return static_cast<int>(node.started.size() - started);
  });
  EXPECT_EQ(more, 0);
  node.advance(1s);
  EXPECT_EQ(node.started.size(), 3U);
}

/// A store whose thread is in the middle of each begin and each put from the second on, and never goes on.
class busy_store final : public durable_model::counting_store {
 public:
  using counting_store::counting_store;

  void begin(durable::begin_call& c) noexcept override { begin_ = &c; }
  void put(durable::put_call& c) noexcept override {
    if (puts_++ == 0) return counting_store::put(c);
    put_ = &c;
  }
  bool is_in_both() const noexcept { return begin_ != nullptr && put_ != nullptr; }

  /// What the thread was changing at the moment of a fork is neither as before nor as after.
  void leave_both_half_changed() noexcept {
    std::memset(static_cast<void*>(&begin_->starts), 0x5a, sizeof begin_->starts);
    std::memset(static_cast<void*>(&put_->results), 0x5a, sizeof put_->results);
  }

 private:
  durable::begin_call* begin_ = nullptr;
  durable::put_call* put_ = nullptr;
  std::size_t puts_ = 0;
};

TEST(scheduler_in_child, leaves_calls_alone_that_a_thread_of_the_store_was_changing) {
  manual_world world;
  auto made = std::make_unique<busy_store>(durable::memory_store(world.database));
  busy_store& store = *made;
  auto node = std::make_unique<durable::scheduler>(world.manual.timers, std::move(made));
  node->on_due([](durable::execution run) noexcept { run.done(); });
  ASSERT_EQ(node->open([](int) noexcept {}), 0);
  world.manual.advance(10ms);
  const auto schedule = [&](const char* id) {
    ASSERT_EQ(node->schedule({id, world.database->now() + 10ms, "", {}}, [](durable::schedule_result) noexcept {}), 0);
    world.manual.advance(20ms);
  };
  schedule("is begun");
  schedule("is put");
  ASSERT_TRUE(store.is_in_both());
  EXPECT_EQ(in_child([&] {
              store.leave_both_half_changed();
              node.reset();
              return 7;
            }),
            7);
  EXPECT_EQ(in_child([&] {
              node->close();
              store.leave_both_half_changed();
              world.manual.advance(1min);
              node.reset();
              return 7;
            }),
            7);
}

}  // namespace
