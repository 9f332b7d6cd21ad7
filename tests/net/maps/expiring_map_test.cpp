// Maps whose entries expire, on a clock turned by hand.
#include <tickwheel/net/expiring_map.hpp>

#include "../../support/allocation_probe.hpp"
#include "../../uv/support/probe.hpp"
#include "../../uv/support/still_driver.hpp"

namespace {

using tickwheel::expire_after;
using tickwheel::expiring_map_options;

/// A value that cannot be copied, and tells when it is destroyed. What was moved from it tells nothing.
class told {
 public:
  explicit told(std::function<void()> what) noexcept
      : what_{std::make_unique<std::function<void()>>(std::move(what))} {}
  told(told&&) noexcept = default;
  told& operator=(told&&) = delete;
  ~told() {
    if (what_ != nullptr) (*what_)();
  }

 private:
  std::unique_ptr<std::function<void()>> what_;
};

template <class Map>
testing::AssertionResult is_valid_map(const Map& map) {
  std::string why;
  if (map.validate(&why)) return testing::AssertionSuccess();
  return testing::AssertionFailure() << why;
}

class expiring_map : public testing::Test {
 protected:
  using numbers = tickwheel::expiring_map<std::uint64_t, int>;

  void SetUp() override { ASSERT_EQ(map.open({.capacity = 4, .limit = 10s}), 0); }
  void TearDown() override { EXPECT_TRUE(is_valid_map(map)); }
  void reopen(const expiring_map_options& options) {
    map.close();
    ASSERT_EQ(map.open(options), 0);
  }
  void advance(std::chrono::nanoseconds by) {
    service.advance(by);
    EXPECT_TRUE(is_valid_map(map));
  }

  manual_service service;
  numbers map{service.timers};
};
class expiring_map_capacity : public expiring_map {};
class expiring_map_read : public expiring_map {};
class expiring_map_service : public expiring_map {};

TEST_F(expiring_map, finds_what_was_inserted) {
  ASSERT_EQ(map.insert(7, 70), 0);
  ASSERT_EQ(map.insert(8, 80), 0);
  ASSERT_NE(map.find(7), nullptr);
  EXPECT_EQ(*map.find(7), 70);
  EXPECT_EQ(*map.peek(8), 80);
  EXPECT_TRUE(map.contains(8));
  EXPECT_EQ(map.find(9), nullptr);
  EXPECT_EQ(map.peek(9), nullptr);
  EXPECT_FALSE(map.contains(9));
  EXPECT_EQ(map.size(), 2U);
}

TEST_F(expiring_map, entry_lives_until_its_limit) {
  ASSERT_EQ(map.insert(7, 70), 0);
  advance(10s - 1ns);
  EXPECT_NE(map.find(7), nullptr);
  advance(1ns);
  EXPECT_EQ(map.find(7), nullptr);
  advance(service.tick());
  EXPECT_EQ(map.size(), 0U);
  EXPECT_EQ(map.stats().expired, 1U);
}

TEST_F(expiring_map, expired_entry_is_not_found_before_timer_ran) {
  ASSERT_EQ(map.insert(7, 70), 0);
  service.time.oversleep(10s);
  EXPECT_EQ(map.size(), 1U) << "the timer has not run";
  EXPECT_EQ(map.find(7), nullptr);
  EXPECT_EQ(map.peek(7), nullptr);
  EXPECT_FALSE(map.contains(7));
  EXPECT_FALSE(map.erase(7));
  EXPECT_FALSE(map.take(7).has_value());
}

TEST_F(expiring_map, entries_expire_each_at_its_time) {
  for (std::uint64_t key = 0; key < 4; ++key) {
    ASSERT_EQ(map.insert(key, 0), 0);
    advance(1s);
  }
  for (std::uint64_t key = 0; key < 4; ++key) {
    EXPECT_TRUE(map.contains(key));
    advance(key == 0 ? 6s : 1s);
    EXPECT_FALSE(map.contains(key));
    advance(service.tick());
    EXPECT_EQ(map.size(), 3U - key);
  }
}

TEST_F(expiring_map, insert_refuses_key_that_is_there) {
  ASSERT_EQ(map.insert(7, 70), 0);
  advance(5s);
  EXPECT_EQ(map.insert(7, 71), UV_EEXIST);
  EXPECT_EQ(*map.find(7), 70);
  EXPECT_EQ(map.stats().refused, 1U);
  advance(5s);
  EXPECT_FALSE(map.contains(7)) << "a refused insert is no write";
}

TEST_F(expiring_map, insert_takes_key_whose_entry_has_expired) {
  ASSERT_EQ(map.insert(7, 70), 0);
  service.time.oversleep(10s);
  EXPECT_EQ(map.insert(7, 71), 0);
  EXPECT_EQ(*map.find(7), 71);
  EXPECT_EQ(map.size(), 1U);
  EXPECT_EQ(map.stats().expired, 1U);
}

TEST_F(expiring_map, assign_replaces_value_and_begins_limit_anew) {
  ASSERT_EQ(map.insert_or_assign(7, 70), 0);
  ASSERT_EQ(map.insert(8, 80), 0);
  const int* const place = map.find(7);
  advance(6s);
  ASSERT_EQ(map.insert_or_assign(7, 71), 0);
  EXPECT_EQ(map.find(7), place) << "the pointer stays valid";
  EXPECT_EQ(*place, 71);
  advance(6s);
  EXPECT_TRUE(map.contains(7));
  EXPECT_FALSE(map.contains(8));
  advance(4s);
  EXPECT_FALSE(map.contains(7));
  EXPECT_EQ(map.stats().inserted, 2U);
  EXPECT_EQ(map.stats().assigned, 1U);
}

TEST_F(expiring_map, assign_may_take_value_of_its_own_entry) {
  tickwheel::expiring_map<int, std::vector<int>> vectors{service.timers};
  ASSERT_EQ(vectors.open({.capacity = 4, .limit = 10s}), 0);
  ASSERT_EQ(vectors.insert(1, std::vector<int>{1, 2, 3}), 0);
  ASSERT_EQ(vectors.insert_or_assign(1, std::move(*vectors.find(1))), 0);
  EXPECT_EQ(*vectors.find(1), (std::vector<int>{1, 2, 3}));
}

// Both were found before the entry expired. They belong to the entry that makes room.
TEST_F(expiring_map, insert_may_take_key_and_value_of_expired_entry) {
  struct person {
    std::string name, address;
  };
  tickwheel::expiring_map<std::string, person> people{service.timers};
  ASSERT_EQ(people.open({.capacity = 1, .limit = 10s}), 0);
  const std::string long_name(100, 'n'), other_name(100, 'o'), address(100, 'a');
  const auto found_and_expired = [&]() -> person& {
    people.clear();
    EXPECT_EQ(people.insert(std::string{long_name}, person{other_name, address}), 0);
    person& found = *people.find(long_name);
    service.time.oversleep(10s);
    service.timers.update_now();
    return found;
  };
  EXPECT_EQ(people.insert(std::string{other_name}, std::move(found_and_expired())), 0);
  EXPECT_EQ(people.find(other_name)->address, address);
  EXPECT_EQ(people.insert_or_assign(std::string{long_name}, std::move(found_and_expired())), 0);
  EXPECT_EQ(people.find(long_name)->address, address);
  EXPECT_EQ(people.insert(std::move(found_and_expired().name), person{}), 0);
  EXPECT_TRUE(people.contains(other_name));
}

TEST_F(expiring_map, read_does_not_prolong_by_default) {
  ASSERT_EQ(map.insert(7, 70), 0);
  advance(9s);
  EXPECT_NE(map.find(7), nullptr);
  advance(1s);
  EXPECT_EQ(map.find(7), nullptr);
}

TEST_F(expiring_map_read, find_begins_limit_anew) {
  reopen({.capacity = 4, .limit = 10s, .expiry = expire_after::read});
  ASSERT_EQ(map.insert(7, 70), 0);
  ASSERT_EQ(map.insert(8, 80), 0);
  for (int i = 0; i < 10; ++i) {
    advance(9s);
    ASSERT_NE(map.find(7), nullptr);
    EXPECT_EQ(*map.find(7), 70);
  }
  EXPECT_EQ(map.stats().expired, 1U);
  advance(10s - 1ns);
  EXPECT_TRUE(map.contains(7));
  advance(1ns);
  EXPECT_FALSE(map.contains(7));
}

TEST_F(expiring_map_read, peek_and_contains_are_no_reads) {
  reopen({.capacity = 4, .limit = 10s, .expiry = expire_after::read});
  ASSERT_EQ(map.insert(7, 70), 0);
  advance(9s);
  EXPECT_NE(map.peek(7), nullptr);
  EXPECT_TRUE(map.contains(7));
  advance(1s);
  EXPECT_EQ(map.find(7), nullptr);
}

TEST_F(expiring_map_read, find_does_not_revive_expired_entry) {
  reopen({.capacity = 4, .limit = 10s, .expiry = expire_after::read});
  ASSERT_EQ(map.insert(7, 70), 0);
  service.time.oversleep(10s);
  EXPECT_EQ(map.find(7), nullptr);
  advance(service.tick());
  EXPECT_EQ(map.find(7), nullptr);
  EXPECT_EQ(map.size(), 0U);
}

// A read moves an entry in the order of expiry only if it was placed a sixteenth of the limit ago.
TEST_F(expiring_map_read, entry_is_removed_within_a_sixteenth_of_its_limit) {
  reopen({.capacity = 100, .limit = 16s, .expiry = expire_after::read});
  for (std::uint64_t key = 0; key < 100; ++key) ASSERT_EQ(map.insert(key, 0), 0);
  for (int i = 0; i < 9; ++i) {
    advance(100ms);
    ASSERT_NE(map.find(0), nullptr);
  }
  advance(15'100ms);
  for (std::uint64_t key = 1; key < 100; ++key) EXPECT_FALSE(map.contains(key));
  EXPECT_EQ(map.size(), 100U) << "they wait for the first, which has 900 ms";
  advance(900ms - 1ns);
  EXPECT_TRUE(map.contains(0));
  advance(service.tick());
  EXPECT_EQ(map.size(), 0U);
}

TEST_F(expiring_map_read, entries_expire_in_order_of_last_read) {
  reopen({.capacity = 4, .limit = 10s, .expiry = expire_after::read});
  for (std::uint64_t key = 0; key < 4; ++key) ASSERT_EQ(map.insert(key, 0), 0);
  for (const std::uint64_t key : {2U, 0U, 3U, 1U}) {
    advance(1s);
    ASSERT_NE(map.find(key), nullptr);
  }
  advance(7s + service.tick());
  for (const std::uint64_t key : {2U, 0U, 3U, 1U}) {
    EXPECT_FALSE(map.contains(key));
    EXPECT_EQ(map.size(), key == 2 ? 3U : key == 0 ? 2U : key == 3 ? 1U : 0U);
    advance(1s);
  }
}

TEST_F(expiring_map, erased_entry_is_gone_and_its_key_free) {
  ASSERT_EQ(map.insert(7, 70), 0);
  EXPECT_TRUE(map.erase(7));
  EXPECT_FALSE(map.erase(7));
  EXPECT_FALSE(map.contains(7));
  EXPECT_EQ(map.size(), 0U);
  EXPECT_EQ(map.insert(7, 71), 0);
  EXPECT_EQ(*map.find(7), 71);
  EXPECT_EQ(map.stats().removed, 1U);
}

TEST_F(expiring_map, take_returns_value_once) {
  ASSERT_EQ(map.insert(7, 70), 0);
  EXPECT_EQ(map.take(7), 70);
  EXPECT_EQ(map.take(7), std::nullopt);
}

TEST_F(expiring_map, clear_removes_all) {
  for (std::uint64_t key = 0; key < 4; ++key) ASSERT_EQ(map.insert(key, 0), 0);
  map.clear();
  EXPECT_EQ(map.size(), 0U);
  EXPECT_FALSE(service.time.alive());
  EXPECT_EQ(map.insert(1, 1), 0);
  EXPECT_TRUE(map.contains(1));
  EXPECT_EQ(map.stats().removed, 4U);
}

TEST_F(expiring_map, limit_beyond_the_clock_never_expires) {
  reopen({.capacity = 4, .limit = std::chrono::nanoseconds::max()});
  ASSERT_EQ(map.insert(7, 70), 0);
  advance(24h * 365 * 200);
  EXPECT_TRUE(map.contains(7));
}

TEST_F(expiring_map, invalid_options_are_named) {
  const auto problem = [](const expiring_map_options& options) { return std::string{options.problem()}; };
  EXPECT_EQ(problem({.limit = 1s}), "expiring_map_options::capacity is zero");
  EXPECT_EQ(problem({.capacity = std::size_t{1} << 31, .limit = 1s}), "expiring_map_options::capacity is above 2^30");
  EXPECT_EQ(problem({.capacity = 1}), "expiring_map_options::limit is not positive");
  EXPECT_EQ(problem({.capacity = 1, .limit = 1s, .expiry = static_cast<expire_after>(9)}),
            "expiring_map_options::expiry is none of expire_after");
  EXPECT_EQ(problem({.capacity = 1, .limit = 1s, .removals_per_pass = 0}),
            "expiring_map_options::removals_per_pass is zero");
  EXPECT_EQ((expiring_map_options{.capacity = std::size_t{1} << 30, .limit = 1ns}.problem()), nullptr);
  numbers another{service.timers};
  EXPECT_EQ(another.open({}), UV_EINVAL);
  EXPECT_FALSE(another.is_open());
}

TEST_F(expiring_map, is_closed_before_open_and_after_close) {
  numbers another{service.timers};
  EXPECT_EQ(another.insert(1, 1), UV_ECANCELED);
  EXPECT_EQ(another.find(1), nullptr);
  another.clear();
  another.close();
  ASSERT_EQ(another.open({.capacity = 4, .limit = 1s}), 0);
  EXPECT_EQ(another.open({.capacity = 4, .limit = 1s}), UV_EALREADY);
  ASSERT_EQ(another.insert(1, 1), 0);
  another.close();
  EXPECT_FALSE(another.is_open());
  EXPECT_EQ(another.capacity(), 0U);
  EXPECT_EQ(another.find(1), nullptr);
  EXPECT_FALSE(another.erase(1));
  EXPECT_EQ(another.insert(1, 1), UV_ECANCELED);
  EXPECT_EQ(another.stats().removed, 1U);
  ASSERT_EQ(another.open({.capacity = 4, .limit = 1s}), 0);
  EXPECT_EQ(another.find(1), nullptr);
  EXPECT_TRUE(is_valid_map(another));
}

TEST_F(expiring_map, open_without_memory_answers_and_leaves_it_closed) {
  for (std::size_t spared = 0; spared < 3; ++spared) {
    numbers another{service.timers};
    const int error = [&] {
      const allocations::failure none{spared};
      return another.open({.capacity = 100, .limit = 1s});
    }();
    EXPECT_EQ(error, UV_ENOMEM);
    EXPECT_FALSE(another.is_open());
    EXPECT_EQ(another.open({.capacity = 100, .limit = 1s}), 0);
  }
}

// Only the queue, because a map would have such a value on the stack.
TEST_F(expiring_map, size_beyond_size_t_is_refused) {
  using large = std::array<std::byte, std::size_t{1} << 40>;
  tickwheel::detail::expiry_queue<int, large> entries;
  EXPECT_FALSE(entries.open(std::size_t{1} << 25, 1s));
  EXPECT_EQ(entries.capacity(), 0U);
}

TEST_F(expiring_map, allocates_only_in_open) {
  const auto before = allocations::count();
  for (std::uint64_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(map.insert_or_assign(i % 3, 1), 0);
    (void)map.find(i);
    map.erase(i / 2);
    service.time.advance(3s);
  }
  map.clear();
  EXPECT_EQ(allocations::count(), before);
}

TEST_F(expiring_map, strings_are_looked_up_without_copy) {
  tickwheel::expiring_map<std::string, int> names{service.timers};
  ASSERT_EQ(names.open({.capacity = 4, .limit = 10s}), 0);
  ASSERT_EQ(names.insert(std::string(100, 'x'), 1), 0);
  const std::string all(101, 'x');
  const auto before = allocations::count();
  EXPECT_NE(names.find(std::string_view{all}.substr(1)), nullptr);
  EXPECT_NE(names.find(all.c_str() + 1), nullptr);
  EXPECT_EQ(names.find(all), nullptr);
  EXPECT_EQ(names.find("y"), nullptr);
  EXPECT_EQ(names.peek("y"), nullptr);
  EXPECT_FALSE(names.contains(std::string_view{all}));
  EXPECT_TRUE(names.erase(std::string_view{all}.substr(1)));
  EXPECT_EQ(allocations::count(), before);
}

TEST_F(expiring_map, refused_key_and_value_stay_with_caller) {
  tickwheel::expiring_map<std::string, std::unique_ptr<int>> owners{service.timers};
  ASSERT_EQ(owners.open({.capacity = 1, .limit = 10s}), 0);
  ASSERT_EQ(owners.insert(std::string{"a"}, std::make_unique<int>(1)), 0);
  std::string key = "b";
  auto value = std::make_unique<int>(2);
  EXPECT_EQ(owners.insert(std::move(key), std::move(value)), UV_ENOBUFS);
  EXPECT_EQ(key, "b");
  EXPECT_NE(value, nullptr);
  key = "a";
  EXPECT_EQ(owners.insert(std::move(key), std::move(value)), UV_EEXIST);
  EXPECT_EQ(key, "a");
  EXPECT_NE(value, nullptr);
}

template <class Map, class K, class V>
concept inserts = requires(Map& map, K&& key, V&& value) {
  map.insert(std::forward<K>(key), std::forward<V>(value));
};

TEST_F(expiring_map, insert_compiles_only_if_it_cannot_throw) {
  using names = tickwheel::expiring_map<std::string, int>;
  static_assert(inserts<names, std::string, int>);
  static_assert(!inserts<names, const std::string&, int>, "the copy may throw");
  static_assert(!inserts<names, const char*, int>);
  static_assert(inserts<numbers, const std::uint64_t&, const int&>);
}

TEST_F(expiring_map, neither_copies_nor_moves) {
  static_assert(!std::is_copy_constructible_v<numbers> && !std::is_move_constructible_v<numbers>);
  static_assert(!std::is_copy_assignable_v<numbers> && !std::is_move_assignable_v<numbers>);
}

/// Keys that all meet in one cell.
struct same_hash {
  std::size_t operator()(std::uint64_t) const noexcept { return 42; }
};

TEST_F(expiring_map, keys_with_one_hash_are_told_apart) {
  tickwheel::expiring_map<std::uint64_t, int, nullptr, same_hash> crowded{service.timers};
  ASSERT_EQ(crowded.open({.capacity = 100, .limit = 10s}), 0);
  for (std::uint64_t key = 0; key < 100; ++key) ASSERT_EQ(crowded.insert(key, static_cast<int>(key)), 0);
  for (std::uint64_t key = 0; key < 100; key += 2) EXPECT_TRUE(crowded.erase(key));
  for (std::uint64_t key = 0; key < 100; ++key) {
    EXPECT_EQ(crowded.contains(key), key % 2 == 1);
    if (key % 2 == 1) {
      EXPECT_EQ(*crowded.find(key), static_cast<int>(key));
    }
  }
  EXPECT_TRUE(is_valid_map(crowded));
}

TEST_F(expiring_map_capacity, one_more_than_capacity_is_refused) {
  for (std::uint64_t key = 0; key < 4; ++key) ASSERT_EQ(map.insert(key, 0), 0);
  EXPECT_EQ(map.insert(4, 0), UV_ENOBUFS);
  EXPECT_EQ(map.insert_or_assign(4, 0), UV_ENOBUFS);
  EXPECT_EQ(map.insert(3, 0), UV_EEXIST);
  EXPECT_EQ(map.insert_or_assign(3, 0), 0) << "it needs no place";
  EXPECT_TRUE(map.erase(0));
  EXPECT_EQ(map.insert(4, 0), 0);
}

TEST_F(expiring_map_capacity, expired_entries_make_room_without_handler) {
  for (std::uint64_t key = 0; key < 4; ++key) ASSERT_EQ(map.insert(key, 0), 0);
  service.time.oversleep(10s);
  for (std::uint64_t key = 10; key < 14; ++key) EXPECT_EQ(map.insert(key, 0), 0);
  EXPECT_EQ(map.insert(14, 0), UV_ENOBUFS);
  advance(0s);
  EXPECT_EQ(map.size(), 4U);
  EXPECT_EQ(map.stats().expired, 4U);
}

TEST_F(expiring_map_service, refuses_first_entry_if_max_armed_timers_are_armed) {
  manual_service small{{.max_armed = 1}};
  numbers refused{small.timers};
  ASSERT_EQ(refused.open({.capacity = 4, .limit = 10s}), 0);
  probe other{small.timers, 1h};
  EXPECT_EQ(refused.insert(1, 1), UV_ENOBUFS);
  EXPECT_EQ(refused.size(), 0U);
  other.timeout.cancel();
  EXPECT_EQ(refused.insert(1, 1), 0);
  EXPECT_EQ(refused.insert(2, 2), 0) << "all entries share one timer";
  EXPECT_TRUE(is_valid_map(refused));
}

TEST_F(expiring_map_service, entries_share_one_timer_that_is_not_moved) {
  ASSERT_EQ(map.insert(1, 1), 0);
  const auto armed = service.timers.stats().armed;
  for (std::uint64_t key = 2; key < 5; ++key) ASSERT_EQ(map.insert(key, 0), 0);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(map.insert_or_assign(3, i), 0);
  EXPECT_EQ(service.timers.stats().armed, armed);
  EXPECT_EQ(service.timers.stats().pending, 1U);
}

TEST_F(expiring_map_service, holds_loop_while_it_has_entries) {
  EXPECT_FALSE(service.time.alive());
  ASSERT_EQ(map.insert(1, 1), 0);
  EXPECT_TRUE(service.time.alive());
  map.unref();
  EXPECT_FALSE(map.has_ref());
  EXPECT_FALSE(service.time.alive());
  map.ref();
  EXPECT_TRUE(service.time.alive());
  EXPECT_TRUE(map.erase(1));
  EXPECT_FALSE(service.time.alive());
}

TEST_F(expiring_map_service, entries_are_lost_when_service_closes) {
  ASSERT_EQ(map.insert(1, 1), 0);
  service.timers.close();
  EXPECT_EQ(map.find(1), nullptr);
  EXPECT_EQ(map.peek(1), nullptr);
  EXPECT_FALSE(map.erase(1));
  EXPECT_EQ(map.insert(2, 2), UV_ECANCELED);
  ASSERT_EQ(service.timers.open(service.time), 0);
  EXPECT_EQ(map.find(1), nullptr) << "also when it is open again";
  EXPECT_EQ(map.insert(2, 2), 0);
  EXPECT_EQ(map.find(1), nullptr);
  EXPECT_EQ(map.size(), 1U);
  advance(10s + service.tick());
  EXPECT_EQ(map.size(), 0U);
  EXPECT_EQ(map.stats().removed, 1U);
}

TEST_F(expiring_map_service, map_outlives_its_service) {
  mortal_service own;
  tickwheel::expiring_map<int, std::unique_ptr<int>> orphan{*own.timers};
  ASSERT_EQ(orphan.open({.capacity = 4, .limit = 10s}), 0);
  ASSERT_EQ(orphan.insert(1, std::make_unique<int>(1)), 0);
  own.timers.reset();
  EXPECT_EQ(orphan.find(1), nullptr);
  EXPECT_EQ(orphan.peek(1), nullptr);
  EXPECT_FALSE(orphan.contains(1));
  EXPECT_FALSE(orphan.erase(1));
  orphan.clear();
  EXPECT_EQ(orphan.size(), 0U);
}

TEST_F(expiring_map_service, wrong_thread_stops_process_with_message) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto elsewhere = [](auto call) { std::thread{call}.join(); };
  EXPECT_DEATH(elsewhere([this] { (void)map.insert(1, 1); }), "tickwheel: .*thread");
  ASSERT_EQ(map.insert(1, 1), 0);
  EXPECT_DEATH(elsewhere([this] { map.erase(1); }), "tickwheel: .*thread");
}

// The time of the iteration is read once for all that ask for it, and never by a lookup that comes later.
TEST_F(expiring_map_service, calls_read_clock_once_per_iteration) {
  still_driver driver;
  tickwheel::timer_service timers;
  ASSERT_EQ(timers.open(driver), 0);
  probe other{timers, 1h};
  numbers counted{timers};
  ASSERT_EQ(counted.open({.capacity = 1000, .limit = 2h, .expiry = expire_after::read}), 0);
  ++driver.polls;
  timers.now();
  const int before = driver.reads;
  for (std::uint64_t key = 0; key < 1000; ++key) {
    ASSERT_EQ(counted.insert(key, 0), 0);
    ASSERT_NE(counted.find(key), nullptr);
    ASSERT_NE(counted.peek(key), nullptr);
  }
  EXPECT_EQ(driver.reads, before);
  ++driver.polls;
  for (std::uint64_t key = 0; key < 1000; ++key) ASSERT_NE(counted.find(key), nullptr);
  EXPECT_EQ(driver.reads, before + 1);
}

TEST_F(expiring_map, destructor_of_value_may_use_the_map) {
  tickwheel::expiring_map<int, told> tellers{service.timers};
  int calls = 0;
  const auto erases = [&](int other) {
    return told{[&tellers, &calls, other] {
      ++calls;
      tellers.erase(other);
    }};
  };
  const auto fill = [&] {
    for (int key = 0; key < 4; ++key) ASSERT_EQ(tellers.insert(key, erases((key + 1) % 4)), 0);
  };
  ASSERT_EQ(tellers.open({.capacity = 4, .limit = 10s}), 0);
  fill();
  EXPECT_TRUE(tellers.erase(2));
  EXPECT_EQ(calls, 4) << "each has erased the next";
  fill();
  tellers.clear();
  EXPECT_EQ(calls, 8);
  fill();
  service.advance(11s);
  EXPECT_EQ(calls, 12);
  fill();
  ASSERT_EQ(tellers.insert_or_assign(0, erases(0)), 0);
  EXPECT_EQ(calls, 17) << "its old value has erased all others, and they the new value";
  EXPECT_EQ(tellers.size(), 0U);
  fill();
  tellers.close();
  EXPECT_EQ(calls, 21);
}

TEST_F(expiring_map, destructor_of_value_may_destroy_the_map) {
  using tellers = tickwheel::expiring_map<int, told>;
  enum class by { erase, take, clear, close, expiry, assign, replace, lost };
  for (const by way : {by::erase, by::take, by::clear, by::close, by::expiry, by::assign, by::replace, by::lost}) {
    mortal_service own;
    auto doomed = std::make_unique<tellers>(*own.timers);
    ASSERT_EQ(doomed->open({.capacity = 4, .limit = 10s}), 0);
    for (int key = 0; key < 3; ++key) {
      ASSERT_EQ(doomed->insert(key, told{[&doomed] { doomed.reset(); }}), 0);
    }
    tellers* const map_of_now = doomed.get();
    switch (way) {
      case by::erase:
        map_of_now->erase(1);
        break;
      case by::take: {
        const auto taken = map_of_now->take(1);
        EXPECT_TRUE(taken.has_value());
        break;
      }
      case by::clear:
        map_of_now->clear();
        break;
      case by::close:
        map_of_now->close();
        break;
      case by::expiry:
        own.time.advance(11s);
        break;
      case by::assign:
        EXPECT_EQ(map_of_now->insert_or_assign(1, told{[] {}}), 0);
        break;
      case by::replace:
        own.time.oversleep(10s);
        EXPECT_EQ(map_of_now->insert(1, told{[] {}}), 0);
        break;
      case by::lost:
        own.timers->close();
        ASSERT_EQ(own.timers->open(own.time), 0);
        EXPECT_EQ(map_of_now->insert(1, told{[] {}}), UV_ECANCELED);
        break;
    }
    EXPECT_EQ(doomed, nullptr) << static_cast<int>(way);
  }
}

TEST_F(expiring_map, entry_that_a_lost_value_inserts_stays) {
  tickwheel::expiring_map<int, told> tellers{service.timers};
  ASSERT_EQ(tellers.open({.capacity = 8, .limit = 10s}), 0);
  ASSERT_EQ(tellers.insert(0, told{[&] { EXPECT_EQ(tellers.insert(9, told{[] {}}), 0); }}), 0);
  for (const int key : {1, 2}) ASSERT_EQ(tellers.insert(key, told{[] {}}), 0);
  service.timers.close();
  ASSERT_EQ(service.timers.open(service.time), 0);
  EXPECT_EQ(tellers.insert(5, told{[] {}}), 0);
  EXPECT_TRUE(tellers.contains(9));
  EXPECT_TRUE(tellers.contains(5));
  EXPECT_EQ(tellers.size(), 2U);
}

TEST_F(expiring_map, destructor_of_value_may_insert_while_cleared) {
  tickwheel::expiring_map<int, told> tellers{service.timers};
  ASSERT_EQ(tellers.open({.capacity = 4, .limit = 10s}), 0);
  int calls = 0;
  std::function<void()> again = [&] {
    ++calls;
    if (tellers.is_open()) {
      EXPECT_EQ(tellers.insert(calls, told{again}), 0);
    }
  };
  ASSERT_EQ(tellers.insert(0, told{again}), 0);
  tellers.clear();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(tellers.size(), 1U) << "the entry that was inserted meanwhile";
  EXPECT_TRUE(service.time.alive());
  tellers.close();
  EXPECT_EQ(calls, 2);
}

}  // namespace
