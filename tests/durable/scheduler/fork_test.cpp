// The child of a fork has a copy of a scheduler, which does nothing there.
#include "../support/manual_node.hpp"

#include <sys/wait.h>
#include <unistd.h>

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

}  // namespace
