// The table of counts by handler, against a list that is searched.
#include <tickwheel/uv/handler_stats.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

using tickwheel::handler_stats;
using tickwheel::handler_table;

namespace {

using handler_id = tickwheel::expiry_report::handler_id;

// They are only compared.
handler_id at(std::uintptr_t address) {
  return reinterpret_cast<handler_id>(address);  // NOLINT(performance-no-int-to-ptr)
}

/// The first handlers have a place of their own, in the order of their first call. All others share the last place.
class listed_handlers {
 public:
  handler_stats& of(handler_id handler) {
    const auto own =
        std::find_if(places_.begin(), places_.end(), [&](const handler_stats& one) { return one.handler == handler; });
    if (own != places_.end()) return *own;
    if (places_.size() == handler_table::capacity) {
      shared_ = true;
      return others_;
    }
    places_.push_back({});
    places_.back().handler = handler;
    return places_.back();
  }

  std::vector<handler_stats> all() const {
    std::vector<handler_stats> all = places_;
    if (shared_) all.push_back(others_);
    return all;
  }

 private:
  std::vector<handler_stats> places_;
  handler_stats others_;
  bool shared_ = false;
};

/// The bucket at which the search for a handler begins.
std::size_t bucket_of(std::uintptr_t address) {
  return static_cast<std::size_t>((std::uint64_t{address >> 4} * 0x9e3779b97f4a7c15) >> 32) %
         (2 * handler_table::capacity);
}

/// Returns addresses whose search begins in one of the last `buckets` buckets, and goes on in the first ones.
std::vector<std::uintptr_t> colliding(std::size_t count, std::size_t buckets) {
  std::vector<std::uintptr_t> found;
  for (std::uintptr_t address = 1; found.size() < count; ++address)
    if (bucket_of(address) >= 2 * handler_table::capacity - buckets) found.push_back(address);
  return found;
}

std::vector<std::uintptr_t> functions(std::size_t count, std::uintptr_t apart) {
  std::vector<std::uintptr_t> all;
  for (std::uintptr_t n = 1; n <= count; ++n) all.push_back(n * apart);
  return all;
}

void expect_same(const handler_table& table, const listed_handlers& list) {
  const std::vector<handler_stats> expected = list.all();
  const auto all = table.all();
  ASSERT_EQ(all.size(), expected.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].handler, expected[i].handler) << i;
    EXPECT_EQ(all[i].calls, expected[i].calls) << i;
  }
}

TEST(handler_table_test, counts_as_a_list_that_is_searched) {
  std::mt19937 random{1};
  const std::size_t most = handler_table::capacity;
  for (const std::size_t count : {std::size_t{1}, std::size_t{2}, most - 1, most, most + 1, 2 * most, 5 * most}) {
    for (const auto& pool : {functions(count, 16), functions(count, 1), functions(count, 4096), colliding(count, 1),
                             colliding(count, 3), colliding(count, 128)}) {
      handler_table table;
      listed_handlers list;
      std::uniform_int_distribution<std::size_t> any{0, count - 1};
      for (std::size_t call = 0; call < 4 * count; ++call) {
        const handler_id handler = at(pool[any(random)]);
        ++table.of(handler).calls;
        ++list.of(handler).calls;
      }
      expect_same(table, list);
    }
  }
}

TEST(handler_table_test, a_copy_counts_on_its_own) {
  handler_table table;
  ++table.of(at(16)).calls;
  handler_table copy = table;
  ++copy.of(at(16)).calls;
  ++copy.of(at(32)).calls;
  EXPECT_EQ(table.all().size(), 1U);
  EXPECT_EQ(table.of(at(16)).calls, 1U);
  EXPECT_EQ(copy.of(at(16)).calls, 2U);
}

}  // namespace
