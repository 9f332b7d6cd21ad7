// Random operations on a service, against a sorted map: what is due runs, not early and not late, and the loop is held
// exactly as long as a timer that counts is armed.
#include "../support/probe.hpp"

#include <map>

using std::chrono::microseconds;
using tickwheel::wheel_geometry;
using time_point = tickwheel::clock::time_point;

namespace {

class simulation {
 public:
  simulation(const wheel_geometry& geometry, unsigned seed)
      : random_{seed}, service_{{.geometry = geometry, .work_per_pass = 7, .max_armed = limit}}, due_(count) {
    for (std::size_t id = 0; id < count; ++id) make(id);
  }

  // Stops at the first difference: what follows would only repeat it.
  void run(int operations) {
    for (int i = 0; i < operations && !testing::Test::HasFailure(); ++i) {
      SCOPED_TRACE(i);
      operate();
      check();
    }
  }

  const tickwheel::service_stats& stats() const { return service_.timers.stats(); }

 private:
  static constexpr std::size_t count = 400;
  static constexpr std::size_t limit = 350;

  void make(std::size_t id) {
    probes_[id] = std::make_unique<probe>(service_.timers, [this, id] { on_fire(id); });
    has_ref_[id] = true;
  }

  std::size_t any() { return random_() % count; }

  void operate() {
    switch (random_() % 32) {
      case 0:  // more links than an idle turn drops
        for (std::size_t id = 0; id < count; ++id) arm(id, 20ms + microseconds{random_() % 100});
        break;
      case 1:
      case 2:
        for (std::size_t id = 0; id < count; ++id) cancel(id);
        break;
      case 3:
        cancel(any());
        break;
      case 4: {
        const std::size_t id = any();
        cancel(id);
        make(id);
        break;
      }
      case 5:
      case 6:
        set_ref(any(), random_() % 2 != 0);
        break;
      case 7:
        service_ref_ = random_() % 4 != 0;
        service_ref_ ? service_.timers.ref() : service_.timers.unref();
        break;
      case 8:
      case 9:
      case 10:
        service_.time.turn();
        break;
      case 11:
      case 12:
      case 13:
      case 14:
      case 15:
      case 16:
        service_.time.advance(microseconds{random_() % 10'000});
        if (!model_.empty()) {
          EXPECT_GT(model_.begin()->first + service_.tick(), service_.time.now()) << "due, but not run";
        }
        break;
      default:
        arm(any(), microseconds{random_() % 60'000});
    }
  }

  void arm(std::size_t id, std::chrono::nanoseconds after) {
    const bool room = due_[id] || model_.size() < limit;
    const bool by_stamp = random_() % 2 != 0;
    auto& timeout = probes_[id]->timeout;
    const time_point from = by_stamp ? service_.timers.now() : service_.time.now();
    const int answer = by_stamp ? timeout.arm_at(from + after) : timeout.arm(after);
    EXPECT_EQ(answer, room ? 0 : UV_ENOBUFS);
    if (!room) return;
    forget(id);
    due_[id] = model_.emplace(from + after, id);
  }

  void cancel(std::size_t id) {
    EXPECT_EQ(probes_[id]->timeout.cancel(), due_[id].has_value());
    forget(id);
  }

  void set_ref(std::size_t id, bool on) {
    on ? probes_[id]->timeout.ref() : probes_[id]->timeout.unref();
    has_ref_[id] = on;
  }

  void forget(std::size_t id) {
    if (due_[id]) model_.erase(*due_[id]);
    due_[id].reset();
  }

  void on_fire(std::size_t id) {
    ASSERT_TRUE(due_[id]) << id << " fired, but is not armed";
    EXPECT_GE(service_.time.now(), (*due_[id])->first) << id << " is early";
    forget(id);
    switch (random_() % 8) {
      case 0:
        arm(id, microseconds{random_() % 30'000});
        break;
      case 1:
        arm(any(), microseconds{random_() % 30'000});
        break;
      case 2:
        cancel(any());
        break;
      case 3:
        set_ref(any(), random_() % 2 != 0);
        break;
      default:
        break;
    }
  }

  void check() {
    EXPECT_TRUE(is_valid(service_.timers));
    EXPECT_TRUE(adds_up(service_.timers));
    EXPECT_EQ(stats().pending, model_.size());
    const bool holds =
        std::any_of(model_.begin(), model_.end(), [this](const auto& entry) { return has_ref_[entry.second]; });
    EXPECT_EQ(service_.time.alive(), service_ref_ && holds);
  }

  std::mt19937 random_;
  manual_service service_;
  bool service_ref_ = true;
  std::map<std::size_t, std::unique_ptr<probe>> probes_;
  std::multimap<time_point, std::size_t> model_;
  std::vector<std::optional<decltype(model_)::iterator>> due_;
  std::map<std::size_t, bool> has_ref_;
};

TEST(service_model, sorted_map_agrees_about_timers_and_liveness) {
  for (const wheel_geometry& geometry : {wheel_geometry{}, wheel_geometry::hashed(8), wheel_geometry::hashed(512),
                                         wheel_geometry::hierarchical(3, 32)}) {
    for (const unsigned seed : {1U, 2U, 3U, 4U}) {
      SCOPED_TRACE(testing::Message{} << geometry.levels << " levels of " << geometry.slots << ", seed " << seed);
      simulation random{geometry, seed};
      random.run(4000);
      ASSERT_FALSE(HasFailure());
      EXPECT_GT(random.stats().fired, 1000U);  // else it would test little
      EXPECT_GT(random.stats().refused, 0U);
      EXPECT_GT(random.stats().carried, 0U);
    }
  }
}

}  // namespace
