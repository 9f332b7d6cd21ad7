// Looks into the store: which pending tasks `load` answers, and in which order.
#include "conformance.hpp"

#include <map>
#include <set>

using namespace conformance;
using durable::pending_row;

namespace {

class store_load : public store_test {
 protected:
  std::vector<pending_row> load(std::vector<durable::load_range> ranges, std::size_t page = 1000,
                                std::chrono::nanoseconds window = 0ns) {
    asked<durable::load_call> c;
    c.ranges = std::move(ranges);
    c.page = page;
    c.window = window;
    own.run(c);
    return c.rows;
  }
  static std::vector<std::string> ids_of(const std::vector<pending_row>& rows) {
    std::vector<std::string> ids;
    for (const pending_row& r : rows) ids.push_back(r.id);
    return ids;
  }
  std::vector<std::string> sorted_ids_of(const std::vector<pending_row>& rows) {
    auto ids = ids_of(rows);
    std::sort(ids.begin(), ids.end());
    return ids;
  }
  /// Puts tasks at the same time until a partition has `count`, and returns that partition. Ids are of different lengths.
  durable::partition_number fill_a_partition(std::size_t count, time at) {
    std::map<durable::partition_number, std::size_t> filled;
    for (std::size_t i = 0;; ++i) {
      const auto put = own.put({.id = std::to_string(i * 7919), .due = at});
      if (++filled[put.partition] == count) return put.partition;
    }
  }
};

TICKWHEEL_CONFORMANCE(store_load);

TEST_P(store_load, answers_a_row_as_it_was_put) {
  const auto put = own.put({.id = "t", .due = past + 1ns, .payload = "12345"});
  EXPECT_LT(put.partition, own.partitions());
  const auto rows = own.load();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].id, "t");
  EXPECT_EQ(rows[0].partition, put.partition);
  EXPECT_EQ(rows[0].rev, put.rev);
  EXPECT_EQ(rows[0].at, past + 1ns);
  EXPECT_EQ(rows[0].bytes, 5U);
  EXPECT_EQ(rows[0].lost, 0U);
}

TEST_P(store_load, answers_pending_tasks_only) {
  make_running("running");
  make_dead("dead");
  make_finished("finished");
  make_cancelled("cancelled");
  EXPECT_TRUE(own.load(24h).empty());
}

TEST_P(store_load, answers_the_time_of_the_next_attempt) {
  const auto token = make_running();
  own.get("t");
  const time next = own.now() + 30min;
  EXPECT_EQ(own.again("t", token, next), durable::finish_result::finished);
  EXPECT_TRUE(own.load(29min).empty());
  const auto rows = own.load(31min);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].at, next);
}

TEST_P(store_load, window_counts_from_now) {
  own.get("t");
  own.put({.id = "soon", .due = own.now() + 10s});
  own.put({.id = "later", .due = own.now() + 30min});
  own.put(due_now("overdue"));
  EXPECT_EQ(ids_of(own.load(0ns)), std::vector<std::string>{"overdue"});
  EXPECT_EQ(sorted_ids_of(own.load(1min)), (std::vector<std::string>{"overdue", "soon"}));
  EXPECT_EQ(sorted_ids_of(own.load(1h)), (std::vector<std::string>{"later", "overdue", "soon"}));
}

TEST_P(store_load, window_end_is_included) {
  if (!fixture->can_shift_clock()) GTEST_SKIP() << "the store's clock cannot be set";
  own.get("t");
  const time due = own.now() + 1h;
  own.put({.id = "t", .due = due});
  own.get("t");
  fixture->shift_clock(due - 10s - 1ns - own.now());
  const auto before = own.load(10s);
  EXPECT_EQ(before.size(), own.now() < due - 10s ? 0U : 1U);  // a clock that goes on by itself may be later
  fixture->shift_clock(1ns);
  EXPECT_EQ(own.load(10s).size(), 1U);
}

TEST_P(store_load, orders_by_time_and_then_by_id) {
  const auto p = fill_a_partition(12, past + 1s);
  std::size_t others = 0;
  for (int i = 0; others < 12; ++i)
    others +=
        own.put({.id = "z" + std::to_string(i), .due = past + std::chrono::milliseconds{i % 3 * 1000}}).partition == p;
  const auto rows = load({{p, time{}, {}}});
  ASSERT_EQ(rows.size(), 24U);
  for (std::size_t i = 1; i < rows.size(); ++i)
    EXPECT_LT(std::pair(rows[i - 1].at, rows[i - 1].id), std::pair(rows[i].at, rows[i].id));
}

TEST_P(store_load, orders_ids_by_their_bytes) {
  std::map<durable::partition_number, std::vector<std::string>> by_partition;
  for (const char* id :
       {"a", "B", "b", "a!", "aa", "Z", "~", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "_", "-", "0"})
    by_partition[own.put({.id = id, .due = past}).partition].emplace_back(id);
  for (auto& [p, ids] : by_partition) {
    std::sort(ids.begin(), ids.end());  // std::string compares bytes
    EXPECT_EQ(ids_of(load({{p, time{}, {}}})), ids);
  }
}

TEST_P(store_load, answers_range_after_range) {
  for (int i = 0; i < 40; ++i) own.put(due_now("t" + std::to_string(i)));
  std::vector<durable::load_range> ranges;
  for (int p = own.partitions() - 1; p >= 0; --p)
    ranges.push_back({static_cast<durable::partition_number>(p), time{}, {}});
  const auto rows = load(ranges);
  ASSERT_EQ(rows.size(), 40U);
  EXPECT_TRUE(
      std::is_sorted(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.partition > b.partition; }));
}

TEST_P(store_load, page_limits_each_range) {
  for (int i = 0; i < 100; ++i) own.put(due_now("t" + std::to_string(i)));
  std::map<durable::partition_number, std::size_t> all, paged;
  for (const pending_row& r : own.load()) ++all[r.partition];
  for (const pending_row& r : own.load(0ns, 3)) ++paged[r.partition];
  EXPECT_EQ(paged.size(), all.size());
  for (const auto& [p, count] : all) EXPECT_EQ(paged[p], std::min<std::size_t>(count, 3)) << "partition " << p;
}

TEST_P(store_load, pages_of_equal_times_leave_none_out) {
  const auto p = fill_a_partition(50, past);
  const auto all = ids_of(load({{p, time{}, {}}}));
  ASSERT_EQ(all.size(), 50U);
  for (const std::size_t page : {1U, 7U, 49U, 50U, 51U}) {
    std::vector<std::string> seen;
    durable::load_range from{p, time{}, {}};
    for (;;) {
      const auto rows = load({from}, page);
      if (rows.empty()) break;
      EXPECT_LE(rows.size(), page);
      for (const pending_row& r : rows) seen.push_back(r.id);
      from.at = rows.back().at;
      from.id = rows.back().id;
    }
    EXPECT_EQ(seen, all) << "page " << page;
  }
}

TEST_P(store_load, range_without_id_begins_with_its_time) {
  const auto p = fill_a_partition(3, past);
  EXPECT_EQ(load({{p, past, {}}}).size(), 3U);
  EXPECT_EQ(load({{p, past - 1ns, {}}}).size(), 3U);
  EXPECT_EQ(load({{p, past + 1ns, {}}}).size(), 0U);
}

TEST_P(store_load, range_with_id_begins_after_it) {
  const auto p = fill_a_partition(3, past);
  const auto all = ids_of(load({{p, time{}, {}}}));
  EXPECT_EQ(ids_of(load({{p, past, all[0]}})), (std::vector<std::string>{all[1], all[2]}));
  EXPECT_EQ(ids_of(load({{p, past, all[2]}})), std::vector<std::string>{});
  EXPECT_EQ(ids_of(load({{p, past - 1ns, all[2]}})), all) << "an id counts only at its time";
  EXPECT_EQ(ids_of(load({{p, past, "~"}})), std::vector<std::string>{}) << "no row has this id";
}

TEST_P(store_load, changes_nothing) {
  make_pending();
  const std::string before = described(own.get("t"));
  const auto first = own.load(), second = own.load();
  ASSERT_EQ(first.size(), 1U);
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(first[0].rev, second[0].rev);
  EXPECT_EQ(described(own.get("t")), before);
}

TEST_P(store_load, ids_spread_over_the_partitions) {
  std::set<durable::partition_number> used;
  for (int i = 0; i < 40 * own.partitions(); ++i) used.insert(own.put(due_now("t" + std::to_string(i))).partition);
  EXPECT_EQ(used.size(), own.partitions());
}

}  // namespace
