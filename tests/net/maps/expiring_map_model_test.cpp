// Random calls on an expiring_map, compared with a std::map of deadlines: after each call, what is found, what is refused, and what
// the handler was told.
#include <tickwheel/core/detail/splitmix64.hpp>
#include <tickwheel/net/expiring_map.hpp>

#include "../../uv/support/probe.hpp"

#include <map>
#include <ostream>

namespace {

using tickwheel::expire_after;
using time_point = tickwheel::clock::time_point;

struct model_options {
  std::size_t capacity;
  std::chrono::nanoseconds limit;
  std::size_t removals_per_pass;
  expire_after expiry;

  friend std::ostream& operator<<(std::ostream& out, const model_options& o) {
    return out << o.capacity << " entries, " << o.limit.count() << " ns, " << o.removals_per_pass << " per pass, "
               << (o.expiry == expire_after::read ? "read" : "write");
  }
};

/// Tells the answers that the map must give. It knows no order and no timer: it forgets an entry when it is told that its handler has run. Handlers run
/// in the order of expiry, give or take a `slack`.
class model {
 public:
  explicit model(std::chrono::nanoseconds slack) : slack_{slack} {}

  struct entry {
    int value;
    time_point expires_at;
  };

  const int* find(int key, time_point now) const {
    const auto found = live_.find(key);
    return found != live_.end() && found->second.expires_at > now ? &found->second.value : nullptr;
  }
  void put(int key, int value, time_point expires_at) {
    const auto found = live_.find(key);
    if (found != live_.end()) waiting_.emplace(key, found->second);
    live_[key] = {value, expires_at};
  }
  void assign(int key, int value, time_point expires_at) { live_.at(key) = {value, expires_at}; }
  void renew(int key, time_point expires_at) { live_.at(key).expires_at = expires_at; }
  void erase(int key) { live_.erase(key); }
  void clear() {
    live_.clear();
    waiting_.clear();
  }
  std::size_t size() const { return live_.size() + waiting_.size(); }

  /// The handler was called with this entry. Returns false if it must not have been.
  bool told(int key, int value, time_point now) {
    const auto [begin, end] = waiting_.equal_range(key);
    for (auto each = begin; each != end; ++each) {
      if (each->second.value != value) continue;
      if (each->second.expires_at > now || !in_order(each->second.expires_at)) return false;
      waiting_.erase(each);
      return true;
    }
    const auto found = live_.find(key);
    if (found == live_.end() || found->second.value != value || found->second.expires_at > now) return false;
    if (!in_order(found->second.expires_at)) return false;
    live_.erase(found);
    return true;
  }
  /// The most time that an entry has waited for its handler.
  std::chrono::nanoseconds latest(time_point now) const {
    auto late = std::chrono::nanoseconds::min();
    for (const auto& [key, e] : live_) late = std::max<std::chrono::nanoseconds>(late, now - e.expires_at);
    for (const auto& [key, e] : waiting_) late = std::max<std::chrono::nanoseconds>(late, now - e.expires_at);
    return late;
  }

 private:
  bool in_order(time_point expires_at) {
    if (expires_at + slack_ < last_told_) return false;
    last_told_ = std::max(last_told_, expires_at);
    return true;
  }

  std::chrono::nanoseconds slack_;
  std::map<int, entry> live_;          // also expired ones, until their handler ran or their key was inserted again
  std::multimap<int, entry> waiting_;  // expired ones whose key was inserted again
  time_point last_told_{};
};

class expiring_map_model : public testing::TestWithParam<model_options> {
 public:
  void on_expired(int key, int value) noexcept {
    EXPECT_TRUE(expected.told(key, value, service.timers.now())) << "at key " << key;
    ++told_in_pass;
    if (random() % 4 == 0) step();
  }

 protected:
  std::uint64_t random() noexcept { return random_.next(); }
  int any_key() noexcept { return static_cast<int>(random() % (GetParam().capacity * 2 + 1)); }

  void step() noexcept {
    const auto now = service.timers.now();
    const auto expires_at = now + GetParam().limit;
    const int key = any_key();
    const int value = ++values_;
    const int* const known = expected.find(key, now);
    const bool full = expected.size() == GetParam().capacity;
    switch (random() % 16) {
      case 0:
      case 1:
      case 2:
      case 3: {
        const int answer = map.insert(key, value);
        EXPECT_EQ(answer, known != nullptr ? UV_EEXIST : full ? UV_ENOBUFS : 0);
        if (answer == 0) expected.put(key, value, expires_at);
        break;
      }
      case 4:
      case 5: {
        const int answer = map.insert_or_assign(key, value);
        EXPECT_EQ(answer, known != nullptr || !full ? 0 : UV_ENOBUFS);
        if (answer == 0)
          known != nullptr ? expected.assign(key, value, expires_at) : expected.put(key, value, expires_at);
        break;
      }
      case 6:
        EXPECT_EQ(map.erase(key), known != nullptr);
        if (known != nullptr) expected.erase(key);
        break;
      case 7:
        EXPECT_EQ(map.take(key), known != nullptr ? std::optional{*known} : std::nullopt);
        if (known != nullptr) expected.erase(key);
        break;
      case 8: {
        const int* const found = map.peek(key);
        ASSERT_EQ(found != nullptr, known != nullptr);
        if (known != nullptr) {
          EXPECT_EQ(*found, *known);
        }
        break;
      }
      case 9:
        if (random() % 64 == 0) {
          map.clear();
          expected.clear();
        }
        break;
      default: {
        const int* const found = map.find(key);
        ASSERT_EQ(found != nullptr, known != nullptr);
        if (known == nullptr) break;
        EXPECT_EQ(*found, *known);
        if (GetParam().expiry == expire_after::read) expected.renew(key, expires_at);
      }
    }
    EXPECT_EQ(map.size(), expected.size());
  }

  manual_service service;
  std::chrono::nanoseconds slack() const {
    return GetParam().expiry == expire_after::read ? GetParam().limit / 16 : 0ns;
  }
  model expected{slack()};
  tickwheel::expiring_map<int, int, &expiring_map_model::on_expired> map{service.timers, *this};
  std::size_t told_in_pass = 0;

 private:
  tickwheel::detail::splitmix64 random_{7};
  int values_ = 0;
};

TEST_P(expiring_map_model, agrees_after_each_of_random_calls) {
  const auto& o = GetParam();
  ASSERT_EQ(
      map.open(
          {.capacity = o.capacity, .limit = o.limit, .expiry = o.expiry, .removals_per_pass = o.removals_per_pass}),
      0);
  for (int i = 0; i < 20'000 && !HasFailure(); ++i) {
    for (auto calls = random() % 8; calls != 0; --calls) step();
    told_in_pass = 0;
    switch (random() % 4) {
      case 0: {  // a late loop: what has expired is not found, and waits for the passes
        service.time.oversleep(std::chrono::nanoseconds{
            static_cast<std::int64_t>(random() % (static_cast<std::uint64_t>(o.limit.count()) * 2))});
        break;
      }
      case 1:
        service.time.turn();
        EXPECT_LE(told_in_pass, o.removals_per_pass);
        break;
      default: {
        const std::chrono::nanoseconds by{static_cast<std::int64_t>(
            random() % static_cast<std::uint64_t>(std::max<std::int64_t>(o.limit.count() / 4, 2)))};
        service.time.advance(by);
        // in so much time the passes of a backlog end: each takes 0.1 ms on this clock
        const auto enough = service.tick() + 100us * static_cast<int>(o.capacity / o.removals_per_pass + 2);
        if (by >= enough) {
          EXPECT_LE(expected.latest(service.time.now()), enough + slack());
        }
      }
    }
    std::string why;
    ASSERT_TRUE(map.validate(&why)) << why << " after " << i;
    ASSERT_EQ(map.size(), expected.size());
    ASSERT_EQ(service.time.alive(), map.size() != 0);
  }
  service.check();
  service.advance(2 * o.limit + 1s);
  EXPECT_EQ(map.size(), 0U);
  EXPECT_EQ(expected.size(), 0U);
  EXPECT_GT(map.stats().expired, 100U);
}

INSTANTIATE_TEST_SUITE_P(
    sizes, expiring_map_model,
    testing::Values(model_options{1, 1s, 1, expire_after::write}, model_options{3, 10ms, 1, expire_after::write},
                    model_options{3, 10ms, 2, expire_after::read}, model_options{50, 1s, 256, expire_after::read},
                    model_options{50, 100ms, 7, expire_after::write}, model_options{700, 10s, 16, expire_after::read},
                    model_options{64, 300us, 5, expire_after::read}));

}  // namespace
