// Random operations on a wheel, against a sorted map that is too simple to be wrong.
#include "probe.hpp"
#include "wheel_cases.hpp"

#include <map>
#include <memory>
#include <optional>
#include <random>

namespace tickwheel::test {
namespace {

// Timers by number, in a wheel and in a map by deadline. Callbacks arm, cancel and destroy others, and themselves.
class simulation {
 public:
  simulation(const wheel_geometry& geometry, tick origin, std::uint64_t seed)
      : random_{seed},
        timers_{geometry, origin},
        delays_{delays_of_interest(geometry)},
        // checking all invariants looks at every slot
        validate_every_{1 + std::size_t{geometry.levels} * geometry.slots / 64},
        due_(count) {
    for (std::size_t id = 0; id < count; ++id) make(id);
  }

  ~simulation() {
    timers_.clear([](wheel_entry&) noexcept {});
  }

  // Stops at the first difference: what follows would only repeat it.
  void run(std::size_t operations) {
    while (operations_ < operations && !testing::Test::HasFailure()) {
      const auto dice = random_() % 100;
      if (dice < 70)
        change_any();
      else if (dice < 99)
        advance();
      else if (random_() % 20 == 0)
        clear();
      check();
    }
  }

  std::size_t operations() const noexcept { return operations_; }
  std::size_t fired() const noexcept { return timers_.counts().fired; }

 private:
  static constexpr std::size_t count = 150;

  using model = std::multimap<tick, std::size_t>;

  struct item : wheel_entry {
    item(simulation& s, std::size_t i)
        : wheel_entry{[](wheel_entry& e) noexcept {
            auto& self = static_cast<item&>(e);
            self.owner.on_fire(self.id);  // which may destroy self
          }},
          owner{s},
          id{i} {}
    simulation& owner;
    std::size_t id;
    std::size_t armed_in_pass = 0;
  };

  void make(std::size_t id) { items_[id] = std::make_unique<item>(*this, id); }

  tick any_delay() {
    switch (random_() % 8) {
      case 0:
        return random_() % 4;
      case 1:
        return tick{1} << random_() % 45;
      case 2:
      case 3:
        return delays_[random_() % delays_.size()];
      default:
        return random_() % (2 * delays_[random_() % delays_.size()]);
    }
  }

  void forget(std::size_t id) {
    if (due_[id]) model_.erase(*due_[id]);
    due_[id].reset();
  }

  void change_any() {
    ++operations_;
    const std::size_t id = random_() % count;
    switch (random_() % 8) {
      case 0:
      case 1:
        cancel(id);
        break;
      case 2:
        cancel(id);
        make(id);
        break;
      case 3:  // as a connection's idle timer: from now, and longer than what it has left
        arm(id, timers_.now() + delays_.back());
        break;
      default:
        arm(id, timers_.now() + any_delay());
    }
  }

  void arm(std::size_t id, tick deadline) {
    timers_.arm(*items_[id], deadline);
    items_[id]->armed_in_pass = pass_;
    forget(id);
    due_[id] = model_.emplace(std::max(deadline, timers_.now() + 1), id);
    EXPECT_EQ(items_[id]->deadline(), (*due_[id])->first);
  }

  void cancel(std::size_t id) {
    EXPECT_EQ(timers_.cancel(*items_[id]), due_[id].has_value());
    forget(id);
    EXPECT_FALSE(items_[id]->armed());
  }

  void on_fire(std::size_t id) {
    ++fired_in_call_;
    ASSERT_TRUE(due_[id]) << id << " fired, but is not armed";
    EXPECT_LE((*due_[id])->first, timers_.now()) << id << " is early";
    EXPECT_NE(items_[id]->armed_in_pass, pass_) << id << " was armed in this pass";
    forget(id);
    for (auto changes = random_() % 3; changes > 0; --changes) change_any();
    if (random_() % 4 == 0) arm(id, timers_.now() + any_delay());
    if (random_() % 16 == 0) {
      cancel(id);
      make(id);
    }
  }

  tick any_target() {
    const tick next = timers_.next_expiry();
    switch (random_() % 6) {
      case 0:
      case 1:
        return timers_.now() + 1;
      case 2:
      case 3:
        return next == never ? timers_.now() + 3 : next;
      case 4:
        return timers_.now() + random_() % 40;
      default:
        return timers_.now() + any_delay() / 4;
    }
  }

  void advance() {
    const tick target = std::max(any_target(), timers_.now());
    const bool bounded = random_() % 3 == 0;
    for (bool done = false; !done; check()) {
      ++operations_;
      ++pass_;
      fired_in_call_ = 0;
      const std::size_t work = bounded ? random_() % 20 : wheel::npos;
      const advance_result result = timers_.advance(target, work);
      done = result.done;
      EXPECT_EQ(result.ran, fired_in_call_);
      EXPECT_LE(result.ran, work);
      EXPECT_EQ(timers_.now(), target);
      if (done && !model_.empty()) {
        EXPECT_GT(model_.begin()->first, target) << "due, but not run";
      }
      if (testing::Test::HasFailure()) return;
      ++pass_;  // what is armed in between two calls is armed in neither
      if (!done && random_() % 2 == 0) change_any();
    }
  }

  void clear() {
    ++operations_;
    std::size_t listed = 0;
    timers_.for_each_armed([&](wheel_entry& e) {
      ++listed;
      EXPECT_TRUE(due_[static_cast<item&>(e).id]);
    });
    EXPECT_EQ(listed, model_.size());
    timers_.clear([&](wheel_entry& e) {
      const std::size_t id = static_cast<item&>(e).id;
      EXPECT_TRUE(due_[id]);
      forget(id);
      if (random_() % 2 == 0) make(id);
    });
    EXPECT_TRUE(model_.empty());
    EXPECT_TRUE(timers_.empty());
  }

  void check() {
    EXPECT_EQ(timers_.armed(), model_.size());
    const wheel_counts counts = timers_.counts();
    EXPECT_EQ(counts.armed, counts.cancelled + counts.fired + model_.size());
    if (model_.empty()) {
      EXPECT_EQ(timers_.next_expiry(), never);
    } else {
      EXPECT_LE(timers_.next_expiry(), model_.begin()->first);
    }
    if (++checks_ % validate_every_ == 0) {
      EXPECT_TRUE(valid(timers_)) << "after " << operations_ << " operations";
    }
  }

  std::mt19937_64 random_;
  std::map<std::size_t, std::unique_ptr<item>> items_;
  wheel timers_;
  std::vector<tick> delays_;
  std::size_t validate_every_;
  model model_;
  std::vector<std::optional<model::iterator>> due_;
  std::size_t pass_ = 0;
  std::size_t fired_in_call_ = 0;
  std::size_t operations_ = 0;
  std::size_t checks_ = 0;
};

class wheel_model_test : public testing::TestWithParam<wheel_geometry> {};

TEST_P(wheel_model_test, a_wheel_does_what_a_sorted_map_would) {
  std::uint64_t seed = 1;
  for (const tick origin : {tick{0}, tick{0x1234'5678'9ABC}, (tick{1} << 63) - 1000, last_tick - (tick{1} << 61)}) {
    SCOPED_TRACE(origin);
    simulation random{GetParam(), origin, seed++};
    random.run(25'000);
    ASSERT_FALSE(HasFailure());
    EXPECT_GE(random.operations(), 25'000U);
    EXPECT_GE(random.fired(), 1000U);  // else it would test little
  }
}

INSTANTIATE_TEST_SUITE_P(all, wheel_model_test, testing::ValuesIn(all_geometries()), geometry_name);

}  // namespace
}  // namespace tickwheel::test
