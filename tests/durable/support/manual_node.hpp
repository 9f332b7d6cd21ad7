// A scheduler on manual time and a memory_database, which notes what it starts and what it is answered.
#pragma once

#include <tickwheel/durable/durable.hpp>
#include <tickwheel/durable/memory.hpp>
#include <tickwheel/testing.hpp>
#include <tickwheel/uv/service_options.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tickwheel_test {

using namespace std::chrono_literals;
namespace durable = tickwheel::durable;

/// Reports a failed check of a service as a failed test.
inline void report(const char* why) noexcept { ADD_FAILURE() << why; }

/// Manual time, and a database on it.
struct manual_world {
  explicit manual_world(const tickwheel::service_options& of = {}) : manual{of, &report} {}

  tickwheel::manual_service manual;
  std::shared_ptr<durable::memory_database> database = std::make_shared<durable::memory_database>();

  void check() const {
    std::string why;
    EXPECT_TRUE(database->validate(&why)) << why;
  }
};

/// One node of a world.
class manual_node {
 public:
  explicit manual_node(manual_world& in, durable::scheduler_options options = {}, bool starts = true)
      : manual_node{in, durable::memory_store(in.database), std::move(options), starts} {}
  /// `tasks` is a store of the world's database.
  manual_node(manual_world& in, std::unique_ptr<durable::store> tasks, durable::scheduler_options options = {},
              bool starts = true)
      : world{in}, scheduler{in.manual.timers, std::move(tasks), with_seed(std::move(options))} {
    if (starts) {
      scheduler.on_due([this](durable::execution run) noexcept {
        started.push_back(std::string{run.id()});
        on_start ? on_start(std::move(run)) : run.done();
      });
    }
  }

  /// Opens the scheduler. Returns what `ready` was called with; no value: it was not called.
  std::optional<int> open(std::chrono::nanoseconds wait = 10ms) {
    EXPECT_EQ(scheduler.open([this](int error) noexcept { ready = error; }), 0);
    advance(wait);
    return ready;
  }
  void advance(std::chrono::nanoseconds by) {
    world.manual.advance(by);
    if (!is_check_due()) return;
    std::string why;
    EXPECT_TRUE(scheduler.validate(&why)) << why;
    world.check();
  }

  /// Asks and waits for the answer.
  durable::schedule_result schedule(std::string id, std::chrono::nanoseconds in = 1s,
                                    durable::on_conflict conflict = durable::on_conflict::keep,
                                    std::chrono::nanoseconds period = {}) {
    return schedule(durable::task{std::move(id), world.database->now() + in, "payload", period}, conflict);
  }
  durable::schedule_result schedule(durable::task what, durable::on_conflict conflict = durable::on_conflict::keep) {
    std::optional<durable::schedule_result> result;
    EXPECT_EQ(scheduler.schedule(
                  std::move(what), [&](durable::schedule_result r) noexcept { result = r; }, conflict),
              0);
    return answer_of(result);
  }
  durable::cancel_result cancel(const std::string& id) {
    std::optional<durable::cancel_result> result;
    EXPECT_EQ(scheduler.cancel(id, [&](durable::cancel_result r) noexcept { result = r; }), 0);
    return answer_of(result);
  }
  durable::revive_result revive(const std::string& id) {
    std::optional<durable::revive_result> result;
    EXPECT_EQ(scheduler.revive(id, [&](durable::revive_result r) noexcept { result = r; }), 0);
    return answer_of(result);
  }
  std::optional<durable::task_info> get(const std::string& id) {
    std::optional<durable::read_result> result;
    durable::task_info found;
    EXPECT_EQ(scheduler.get(id,
                            [&](durable::read_result r, durable::task_info i) noexcept {
                              result = r;
                              found = std::move(i);
                            }),
              0);
    return answer_of(result) == durable::read_result::ok ? std::optional{found} : std::nullopt;
  }
  durable::task_state state(const std::string& id) const { return world.database->info(id).value().state; }

  manual_world& world;
  std::optional<int> ready;
  std::vector<std::string> started;                  // ids, in the order of the starts
  std::function<void(durable::execution)> on_start;  // instead of `done`
  durable::scheduler scheduler;

 private:
  // A check visits all rows. If there are many, it comes after several advances.
  bool is_check_due() {
    unchecked_ += 64;
    if (unchecked_ < world.database->size()) return false;
    unchecked_ = 0;
    return true;
  }
  static durable::scheduler_options with_seed(durable::scheduler_options options) {
    if (options.seed == 0) options.seed = 7;
    return options;
  }
  template <class Result>
  Result answer_of(std::optional<Result>& result) {
    EXPECT_FALSE(result.has_value()) << "answered within the request";
    for (int i = 0; i != 100 && !result; ++i) advance(1ms);
    EXPECT_TRUE(result.has_value()) << "not answered";
    return result.value_or(Result{});
  }

  std::size_t unchecked_ = 0;  // 64 for each advance since the last check
};

}  // namespace tickwheel_test
