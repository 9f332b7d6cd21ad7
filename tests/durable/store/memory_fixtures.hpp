// The fixtures of memory_store: on a clock that the test moves, and on a libuv loop.
#pragma once

#include "../../uv/support/live_loop.hpp"
#include "conformance.hpp"

#include <tickwheel/durable/memory.hpp>
#include <tickwheel/testing.hpp>
#include <tickwheel/uv/remote.hpp>

#include <gtest/gtest.h>
#include <uv.h>

#include <memory>
#include <string>
#include <vector>

namespace conformance {

class memory_fixture : public store_fixture {
 public:
  std::unique_ptr<durable::store> make_store() final { return durable::memory_store(database); }
  bool can_share() const final { return true; }
  bool can_shift_clock() const final { return true; }
  void shift_clock(std::chrono::nanoseconds by) final { database->shift_clock(by); }
  bool can_refuse() const final { return true; }
  void refuse_payload(const std::string& payload) final {
    database->refuse([=](const durable::task& t) { return t.payload == payload; });
  }
  bool validate(std::string* why) final { return database->validate(why); }

  const std::shared_ptr<durable::memory_database> database = std::make_shared<durable::memory_database>();
};

class manual_memory_fixture final : public memory_fixture {
 public:
  tickwheel::timer_service& timers() override { return manual.timers; }
  void turn() override { manual.turn(); }
  void advance(std::chrono::nanoseconds by) override { manual.advance(by); }

  tickwheel::manual_service manual{{}, [](const char* why) noexcept { ADD_FAILURE() << why; }};
};

class live_memory_fixture final : public memory_fixture {
 public:
  live_memory_fixture() {
    EXPECT_EQ(timers_.open(loop_), 0);
    hold_ = timers_.hold();  // a loop that nothing holds does not poll
  }
  ~live_memory_fixture() override {
    hold_ = {};
    timers_.close();
  }
  tickwheel::timer_service& timers() override { return timers_; }
  void turn() override { uv_run(loop_.get(), UV_RUN_NOWAIT); }
  void advance(std::chrono::nanoseconds by) override { database->shift_clock(by); }

 private:
  live_loop loop_;
  tickwheel::timer_service timers_;
  tickwheel::remote_hold hold_;
};

}  // namespace conformance
