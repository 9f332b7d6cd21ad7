// The handler of a map whose entries expire: whom it gets, when, and what it may do.
#include <tickwheel/net/expiring_map.hpp>

#include "../../uv/support/probe.hpp"

namespace {

/// A map with a handler that does what the test wants.
struct keeper {
  using key = std::string;
  using value = std::unique_ptr<int>;

  explicit keeper(tickwheel::timer_service& timers,
                  tickwheel::expiring_map_options options = {.capacity = 1000, .limit = 10s})
      : service{timers} {
    EXPECT_EQ(map.open(options), 0);
  }
  int put(int n) { return map.insert(name(n), std::make_unique<int>(n)); }
  int put_all(int count) {
    for (int n = 0; n < count; ++n)
      if (const int error = put(n)) return error;
    return 0;
  }
  static std::string name(int n) { return "a name that is too long for a small string " + std::to_string(n); }
  bool valid() const {
    std::string why;
    const bool is = map.validate(&why);
    EXPECT_TRUE(is) << why;
    return is;
  }

  void on_expired(key k, value v) noexcept {
    EXPECT_EQ(k, name(*v));
    EXPECT_TRUE(valid());
    expired.push_back(*v);
    const auto call = then;  // a copy, because the call may destroy this
    if (call) call();
  }

  tickwheel::timer_service& service;
  std::vector<int> expired;
  std::function<void()> then;
  tickwheel::expiring_map<key, value, &keeper::on_expired> map{service, *this};
};

struct expiring_map_handler : testing::Test {
  void advance(std::chrono::nanoseconds by) {
    service.advance(by);
    EXPECT_TRUE(k.valid());
  }
  std::chrono::nanoseconds tick() const { return service.tick(); }

  manual_service service;
  keeper k{service.timers};
};

TEST_F(expiring_map_handler, gets_each_expired_entry_once_in_order) {
  ASSERT_EQ(k.put_all(100), 0);
  advance(10s - 1ns);
  EXPECT_TRUE(k.expired.empty());
  advance(1ns + tick());
  ASSERT_EQ(k.expired.size(), 100U);
  EXPECT_TRUE(std::is_sorted(k.expired.begin(), k.expired.end()));
  advance(1h);
  EXPECT_EQ(k.expired.size(), 100U);
}

TEST_F(expiring_map_handler, does_not_run_for_other_ends) {
  ASSERT_EQ(k.put_all(10), 0);
  EXPECT_TRUE(k.map.erase(keeper::name(1)));
  EXPECT_NE(k.map.take(keeper::name(2)), std::nullopt);
  ASSERT_EQ(k.map.insert_or_assign(keeper::name(3), std::make_unique<int>(3)), 0);
  k.map.clear();
  ASSERT_EQ(k.put_all(10), 0);
  k.map.close();
  advance(1h);
  EXPECT_TRUE(k.expired.empty());
}

TEST_F(expiring_map_handler, entry_is_gone_when_it_runs) {
  ASSERT_EQ(k.put(1), 0);
  k.then = [this] {
    EXPECT_FALSE(k.map.contains(keeper::name(1)));
    EXPECT_EQ(k.map.size(), 0U);
  };
  advance(11s);
  EXPECT_EQ(k.expired.size(), 1U);
}

TEST_F(expiring_map_handler, entry_replaced_after_its_expiry_is_told) {
  ASSERT_EQ(k.put(1), 0);
  ASSERT_EQ(k.put(2), 0);
  service.time.oversleep(10s);
  ASSERT_EQ(k.put(1), 0);
  EXPECT_EQ(k.map.size(), 3U) << "the expired one waits for its handler";
  EXPECT_TRUE(k.map.contains(keeper::name(1)));
  EXPECT_TRUE(k.valid());
  advance(tick());
  EXPECT_EQ(k.expired, (std::vector{1, 2}));
  EXPECT_TRUE(k.map.contains(keeper::name(1)));
  advance(10s + tick());
  EXPECT_EQ(k.expired, (std::vector{1, 2, 1}));
}

TEST_F(expiring_map_handler, erase_of_expired_entry_leaves_it_to_handler) {
  ASSERT_EQ(k.put(1), 0);
  service.time.oversleep(10s);
  EXPECT_FALSE(k.map.erase(keeper::name(1)));
  advance(tick());
  EXPECT_EQ(k.expired.size(), 1U);
}

TEST_F(expiring_map_handler, expired_entries_count_until_it_ran) {
  keeper small{service.timers, {.capacity = 2, .limit = 10s}};
  ASSERT_EQ(small.put_all(2), 0);
  service.time.oversleep(10s);
  EXPECT_EQ(small.put(3), UV_ENOBUFS);
  EXPECT_EQ(small.put(1), UV_ENOBUFS) << "the expired entry of this key has its place still";
  EXPECT_TRUE(small.valid());
  advance(tick());
  EXPECT_EQ(small.put(3), 0);
  EXPECT_EQ(small.expired, (std::vector{0, 1}));
}

TEST_F(expiring_map_handler, pass_removes_no_more_than_its_bound) {
  for (const std::size_t bound : {1U, 7U, 256U}) {
    keeper bounded{service.timers, {.capacity = 1000, .limit = 10s, .removals_per_pass = bound}};
    ASSERT_EQ(bounded.put_all(1000), 0);
    service.time.oversleep(10s + tick());
    for (std::size_t told = 0; told != 1000;) {
      ASSERT_TRUE(service.turn());
      const std::size_t more = std::min<std::size_t>(bound, 1000 - told);
      ASSERT_EQ(bounded.expired.size(), told + more);
      told += more;
      ASSERT_TRUE(bounded.valid());
      // what is left is due at once, and the loop does not wait for it
      ASSERT_EQ(service.time.next_wakeup(), told == 1000 ? tickwheel::clock::time_point::max() : service.time.now());
    }
    EXPECT_FALSE(service.time.alive());
  }
}

TEST_F(expiring_map_handler, entry_inserted_by_it_lives_its_limit) {
  ASSERT_EQ(k.put(1), 0);
  k.then = [this] {
    if (k.expired.size() < 10) {
      EXPECT_EQ(k.put(1), 0);
    }
  };
  for (std::size_t i = 1; i < 10; ++i) {
    advance(10s + tick());
    EXPECT_EQ(k.expired.size(), i);
    EXPECT_TRUE(k.map.contains(keeper::name(1)));
  }
}

TEST_F(expiring_map_handler, may_insert_although_max_armed_timers_are_armed) {
  manual_service small{{.max_armed = 1}};
  keeper one{small.timers};
  probe other{small.timers};
  ASSERT_EQ(one.put(1), 0);
  one.then = [&] {
    EXPECT_EQ(other.timeout.arm(1h), UV_ENOBUFS);
    EXPECT_EQ(one.put(2), 0);
  };
  small.advance(11s);
  EXPECT_EQ(one.expired.size(), 1U);
}

TEST_F(expiring_map_handler, may_erase_entries_that_are_due) {
  ASSERT_EQ(k.put_all(10), 0);
  service.timers.now();
  k.then = [this] {
    for (int n = 0; n < 10; ++n) EXPECT_FALSE(k.map.erase(keeper::name(n))) << "they have expired";
  };
  advance(11s);
  EXPECT_EQ(k.expired.size(), 10U);
}

TEST_F(expiring_map_handler, may_erase_entries_that_are_not_due) {
  ASSERT_EQ(k.put(0), 0);
  advance(1s);
  ASSERT_EQ(k.put(1), 0);
  k.then = [this] { EXPECT_TRUE(k.map.erase(keeper::name(1))); };
  advance(1h);
  EXPECT_EQ(k.expired, std::vector{0});
  EXPECT_FALSE(service.time.alive());
}

TEST_F(expiring_map_handler, may_clear_the_map) {
  ASSERT_EQ(k.put_all(10), 0);
  k.then = [this] { k.map.clear(); };
  advance(11s);
  EXPECT_EQ(k.expired, std::vector{0});
  EXPECT_FALSE(service.time.alive());
}

TEST_F(expiring_map_handler, may_clear_the_map_and_insert) {
  ASSERT_EQ(k.put_all(10), 0);
  k.then = [this] {
    k.map.clear();
    k.then = {};
    EXPECT_EQ(k.put(77), 0);
  };
  advance(11s);
  EXPECT_EQ(k.expired, std::vector{0});
  advance(10s + tick());
  EXPECT_EQ(k.expired, (std::vector{0, 77}));
}

TEST_F(expiring_map_handler, may_close_and_open_the_map) {
  ASSERT_EQ(k.put_all(10), 0);
  k.then = [this] {
    k.map.close();
    k.then = {};
    EXPECT_EQ(k.put(1), UV_ECANCELED);
    EXPECT_EQ(k.map.open({.capacity = 10, .limit = 1s}), 0);
    EXPECT_EQ(k.put(77), 0);
  };
  advance(11s);
  advance(1s);
  EXPECT_EQ(k.expired, (std::vector{0, 77}));
}

TEST_F(expiring_map_handler, may_destroy_the_map) {
  auto doomed = std::make_unique<keeper>(service.timers);
  ASSERT_EQ(doomed->put_all(10), 0);
  int calls = 0;
  doomed->then = [&] {
    ++calls;
    doomed.reset();
  };
  advance(11s);
  EXPECT_EQ(doomed, nullptr);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(service.timers.stats().pending, 0U);
}

TEST_F(expiring_map_handler, may_close_service) {
  ASSERT_EQ(k.put_all(10), 0);
  k.then = [this] {
    service.timers.close();
    EXPECT_EQ(k.put(1), UV_ECANCELED);
    EXPECT_FALSE(k.map.contains(keeper::name(2)));
  };
  service.time.advance(11s);
  EXPECT_EQ(k.expired, std::vector{0});
}

TEST_F(expiring_map_handler, may_close_and_open_service_and_insert) {
  ASSERT_EQ(k.put_all(10), 0);
  k.then = [this] {
    k.then = {};
    service.timers.close();
    ASSERT_EQ(service.timers.open(service.time), 0);
    EXPECT_EQ(k.put(77), 0);
    EXPECT_EQ(k.map.size(), 1U) << "the others are lost";
  };
  service.time.advance(11s);
  EXPECT_EQ(k.expired, std::vector{0});
  service.time.advance(11s);
  EXPECT_EQ(k.expired, (std::vector{0, 77}));
}

TEST_F(expiring_map_handler, may_destroy_service) {
  mortal_service own;
  keeper orphan{*own.timers};
  ASSERT_EQ(orphan.put_all(10), 0);
  orphan.then = [&] { own.timers.reset(); };
  own.time.advance(11s);
  EXPECT_EQ(own.timers, nullptr);
  EXPECT_EQ(orphan.expired, std::vector{0});
  EXPECT_FALSE(orphan.map.contains(keeper::name(5)));
}

TEST_F(expiring_map_handler, may_take_references_and_be_const) {
  struct watcher {
    void on_expired(int&& key, const int& value) const noexcept { *sum += key + value; }
    int* sum;
  };
  int sum = 0;
  watcher w{&sum};
  tickwheel::expiring_map<int, int, &watcher::on_expired> map{service.timers, w};
  ASSERT_EQ(map.open({.capacity = 1, .limit = 1s}), 0);
  ASSERT_EQ(map.insert(3, 4), 0);
  service.advance(2s);
  EXPECT_EQ(sum, 7);
}

}  // namespace
