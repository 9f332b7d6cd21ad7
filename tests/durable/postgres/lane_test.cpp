// The works of the links of one role, without a server.
#include "../../../src/durable/postgres/works/lane.hpp"

#include <gtest/gtest.h>

using namespace tickwheel::durable::postgres;
using namespace std::chrono_literals;

namespace {

// Pauses for 10 ms after its first transaction.
class pausing_work final : public work {
 public:
  pausing_work() : work{tickwheel::durable::store_verb::finish, nullptr} {}

 private:
  void on_ask(transaction&) override {}
  void on_committed(const transaction&) override { pause(10ms); }
};

TEST(lane, pause_that_has_ended_is_due_now) {
  const steady_time start{1s};
  lane of_starts;
  pausing_work paused, waiting;
  paused.take({}, start, 1s);
  of_starts.push(paused);
  of_starts.push(waiting);
  EXPECT_EQ(of_starts.next_time(start, 1), start + 10ms);
  // another link was busy until after the pause, and asks again when the timer must wake
  EXPECT_EQ(of_starts.next_time(start + 10ms, 1), start + 10ms);
  EXPECT_EQ(of_starts.next_time(start + 11ms, 1), start + 11ms);
}

TEST(lane, without_works_is_never_due) { EXPECT_EQ(lane{}.next_time(steady_time{1s}, 1), std::nullopt); }

}  // namespace
