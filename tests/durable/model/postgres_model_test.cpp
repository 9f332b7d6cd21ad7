// Random operations on a scheduler and a PostgreSQL server, compared with a model of each task.
//
// The connections are on a libuv loop of their own. The scheduler's clock and the server's are moved by hand: while a call is open
// only if the loop stands still. A restart closes the scheduler without a drain. There are no faults and no other nodes.
// TICKWHEEL_TEST_SEEDS and TICKWHEEL_TEST_OPERATIONS as in model_test.cpp.
#include "../postgres/postgres_fixture.hpp"
#include "counting_store.hpp"
#include "seeds.hpp"
#include "world/comparison.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

namespace {

using namespace durable_model;
using namespace std::chrono_literals;
namespace durable = tickwheel::durable;

/// A schema whose clock reads a sequence, which no transaction holds back.
class postgres_schema final : public backend {
 public:
  explicit postgres_schema(std::uint16_t partitions) {
    on_.options.partitions = partitions;
    conformance::node first{on_};  // makes the tables
    EXPECT_EQ(first.join(), 0);
    first.close();
    on_.other().run(
        "create sequence model_clock; create or replace function now_ns() returns bigint language sql volatile as "
        "'select last_value from " +
        quoted("model_clock") + "'");
    for (const char* const table : {"nodes", "parts", "tasks", "links"})
      on_.other().run(std::string{"alter table "} + table + " set (autovacuum_enabled = off)");
  }

  void use(tickwheel::manual_driver& time) override {
    time_ = &time;
    tell_time();
  }
  std::unique_ptr<durable::store> make_store() override {
    return std::make_unique<counting_store>(on_.make_store(), &on_.timers());
  }
  nanos now() const override { return time_->now().time_since_epoch().count() + ahead_; }
  void shift(nanos by) override {
    ahead_ += by;
    tell_time();
  }

  void follow_clock() override { tell_time(); }

  // Moves the clocks from one wakeup to the next, and waits for the answers after each.
  void advance(tickwheel::manual_driver& time, nanos by) override {
    const auto until = time.now() + std::chrono::nanoseconds{by};
    tell_time();  // the loop may have stood still
    wait(time);
    while (time.now() < until) {
      const auto next = std::clamp(time.next_wakeup(), time.now() + 100us, std::max(until, time.now() + 100us));
      // first the server's: a handler must not run before its task is due there
      tell_time(next);
      time.advance(next - time.now());
      wait(time);
    }
  }

 private:
  std::string quoted(const std::string& name) const {
    std::string text;
    for (const char c : on_.schema() + "." + name) text.append(c == '\'' ? 2 : 1, c);
    return text;
  }
  void tell_time() { tell_time(time_->now()); }
  void tell_time(tickwheel::clock::time_point t) {
    on_.other().run("select setval('" + quoted("model_clock") + "', " +
                    std::to_string(t.time_since_epoch().count() + ahead_) + ")");
  }
  void wait(tickwheel::manual_driver& time) {
    const auto patience = std::chrono::steady_clock::now() + 20s;
    time.advance(0ns);
    while (counting_store::open_calls() != 0) {
      on_.turn();
      time.advance(0ns);
      if (std::chrono::steady_clock::now() < patience) continue;
      ADD_FAILURE() << "the store does not answer";
      return;
    }
  }

  conformance::postgres_fixture on_;
  tickwheel::manual_driver* time_ = nullptr;
  nanos ahead_ = 1'767'222'000'000'000'000;
};

TEST(durable_model, agrees_with_a_scheduler_on_postgres) {
  const seed_range seeds = seeds_of_this_run({1, 3, 100}, {1, 100, 1'000});
  std::uint64_t operations = 0;
  std::uint64_t starts = 0;
  for (std::uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    const comparison c = run_seed(
        seed, seeds.operations, [](std::uint16_t partitions) { return std::make_unique<postgres_schema>(partitions); });
    ASSERT_FALSE(c.mismatch) << *c.mismatch;
    operations += c.operations;
    starts += c.starts;
  }
  std::printf("%llu operations, %llu starts\n", static_cast<unsigned long long>(operations),
              static_cast<unsigned long long>(starts));
  EXPECT_GT(starts, 0U);
}

}  // namespace
