// Random operations on a scheduler and a SQLite file, compared with a model of each task.
//
// The store's threads are real, and the loop's clock is moved by hand. A restart closes the scheduler without a drain. There are
// no faults and no other nodes. TICKWHEEL_TEST_SEEDS and TICKWHEEL_TEST_OPERATIONS as in model_test.cpp.
#include "../../../src/durable/sqlite/file_store.hpp"
#include "counting_store.hpp"
#include "seeds.hpp"
#include "world/comparison.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

namespace {

using namespace durable_model;
using namespace std::chrono_literals;
namespace durable = tickwheel::durable;

/// A file in a folder of its own.
class sqlite_file final : public backend {
 public:
  sqlite_file() {
    std::string name = (std::filesystem::temp_directory_path() / "tickwheel_model_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    folder_ = name;
  }
  ~sqlite_file() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  sqlite_file(const sqlite_file&) = delete;
  sqlite_file& operator=(const sqlite_file&) = delete;

  void use(tickwheel::manual_driver& time) override { time_ = &time; }
  std::unique_ptr<durable::store> make_store() override {
    return std::make_unique<counting_store>(std::make_unique<durable::sqlite::file_store>(
        (folder_ / "tasks.db").string(), durable::sqlite_options{.checkpoint_pages = 50},
        [this] { return durable::clock::time_point{std::chrono::nanoseconds{now()}}; }));
  }
  nanos now() const override { return time_->now().time_since_epoch().count() + ahead_.load(); }
  void shift(nanos by) override { ahead_ += by; }

  // Moves the clock from one wakeup to the next, and waits for the store's threads after each.
  void advance(tickwheel::manual_driver& time, nanos by) override {
    const auto until = time.now() + std::chrono::nanoseconds{by};
    wait(time);
    while (time.now() < until) {
      const auto next = std::clamp(time.next_wakeup(), time.now() + 100us, std::max(until, time.now() + 100us));
      time.advance(next - time.now());
      wait(time);
    }
  }

 private:
  static void wait(tickwheel::manual_driver& time) {
    const auto patience = std::chrono::steady_clock::now() + 20s;
    time.advance(0ns);
    while (counting_store::open_calls() != 0) {
      if (!time.turn()) std::this_thread::sleep_for(20us);
      if (std::chrono::steady_clock::now() < patience) continue;
      ADD_FAILURE() << "the store does not answer";
      return;
    }
  }

  std::filesystem::path folder_;
  tickwheel::manual_driver* time_ = nullptr;
  std::atomic<nanos> ahead_{1'767'222'000'000'000'000};
};

TEST(durable_model, agrees_with_a_scheduler_on_sqlite) {
  const seed_range seeds = seeds_of_this_run({1, 3, 200}, {1, 100, 2'000});
  std::uint64_t operations = 0;
  std::uint64_t starts = 0;
  for (std::uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    const comparison c =
        run_seed(seed, seeds.operations, [](std::uint16_t) { return std::make_unique<sqlite_file>(); });
    ASSERT_FALSE(c.mismatch) << *c.mismatch;
    operations += c.operations;
    starts += c.starts;
  }
  std::printf("%llu operations, %llu starts\n", static_cast<unsigned long long>(operations),
              static_cast<unsigned long long>(starts));
  EXPECT_GT(starts, 0U);
}

}  // namespace
