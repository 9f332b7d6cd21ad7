// The inbox itself: which push requests a wakeup, what comes out in which order, and that nothing is lost between pushing, sleeping and
// closing.
#include "../../support/long_runs.hpp"

#include <tickwheel/uv/detail/inbox.hpp>

using tickwheel::detail::inbox_chain;
using tickwheel::detail::inbox_link;
using tickwheel::detail::pushed;

namespace {

struct item {
  inbox_link link;  // first, so that a link's address is its item's
  unsigned producer = 0;
  std::size_t number = 0;
};

item& item_of(inbox_link& link) { return reinterpret_cast<item&>(link); }

using counted = std::vector<std::size_t>;
counted numbers(inbox_chain chain) {
  counted all;
  while (inbox_link* link = chain.pop()) all.push_back(item_of(*link).number);
  return all;
}

/// An inbox, asleep, and items with their numbers.
class inbox : public testing::Test {
 protected:
  inbox() {
    for (std::size_t i = 0; i < items.size(); ++i) items[i].number = i;
  }
  pushed push(std::size_t i) { return box.push(items[i].link); }

  tickwheel::detail::inbox box;
  std::vector<item> items{5};
};

TEST_F(inbox, only_push_while_asleep_requests_wakeup) {
  EXPECT_EQ(push(0), pushed::asleep);
  EXPECT_EQ(push(1), pushed::queued);
  EXPECT_EQ(push(2), pushed::queued);
  box.take_all();
  EXPECT_TRUE(box.sleep());
  EXPECT_EQ(push(3), pushed::asleep);
}

TEST_F(inbox, take_all_leaves_it_awake) {
  EXPECT_TRUE(box.take_all().empty());
  EXPECT_EQ(push(0), pushed::queued);
  box.take_all();
  EXPECT_EQ(push(1), pushed::queued);
}

TEST_F(inbox, sleep_fails_if_something_was_pushed) {
  box.take_all();
  push(0);
  EXPECT_FALSE(box.sleep());
  EXPECT_EQ(push(1), pushed::queued);
  EXPECT_FALSE(box.sleep());
  EXPECT_EQ(numbers(box.take_all()), (counted{0, 1}));
  EXPECT_TRUE(box.sleep());
}

TEST_F(inbox, seems_empty_awake_and_asleep) {
  EXPECT_TRUE(box.seems_empty());
  box.take_all();
  EXPECT_TRUE(box.seems_empty());
  EXPECT_TRUE(box.sleep());
  EXPECT_TRUE(box.seems_empty());
  push(0);
  EXPECT_FALSE(box.seems_empty());
}

TEST_F(inbox, take_all_returns_links_in_order_of_pushing) {
  for (std::size_t i = 0; i < items.size(); ++i) push(i);
  EXPECT_EQ(numbers(box.take_all()), (counted{0, 1, 2, 3, 4}));
  EXPECT_TRUE(box.take_all().empty());
}

TEST_F(inbox, taken_link_can_be_pushed_again) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(push(0), pushed::asleep);
    inbox_chain chain = box.take_all();
    EXPECT_EQ(chain.pop(), &items[0].link);
    EXPECT_EQ(chain.pop(), nullptr);
    EXPECT_TRUE(box.sleep());
  }
}

TEST_F(inbox, close_returns_last_links_and_refuses_later_ones) {
  push(0);
  push(1);
  EXPECT_FALSE(box.is_closed());
  EXPECT_EQ(numbers(box.close()), (counted{0, 1}));
  EXPECT_TRUE(box.is_closed());
  EXPECT_EQ(push(2), pushed::closed);
}

TEST_F(inbox, stays_closed) {
  EXPECT_TRUE(box.close().empty());
  EXPECT_TRUE(box.close().empty());
  EXPECT_TRUE(box.take_all().empty());
  EXPECT_TRUE(box.is_closed());
  EXPECT_TRUE(box.seems_empty());
  EXPECT_EQ(push(0), pushed::closed);
}

TEST_F(inbox, chain_appends_another_and_leaves_it_empty) {
  inbox_chain all;
  all.append(box.take_all());
  EXPECT_TRUE(all.empty());
  push(0);
  push(1);
  all.append(box.take_all());
  push(2);
  inbox_chain more = box.take_all();
  all.append(std::move(more));
  EXPECT_TRUE(more.empty());  // NOLINT(bugprone-use-after-move): that is what is tested
  EXPECT_EQ(all.pop(), &items[0].link);
  push(3);
  all.append(box.take_all());
  EXPECT_EQ(numbers(all), (counted{1, 2, 3}));
}

TEST_F(inbox, chain_is_unchanged_by_appending_empty_one) {
  push(0);
  inbox_chain all = box.take_all();
  all.append(box.take_all());
  push(1);
  all.append(box.take_all());
  EXPECT_EQ(numbers(all), (counted{0, 1}));
}

// Producers push against a consumer that takes all, sleeps until it is woken, and in the end closes. The accepted items are exactly those
// that come out, in each producer's order. Each sleep was ended by one push, which was told so. The test waits for a wakeup that was lost.
// Each producer lets the consumer sleep now and then.
TEST_F(inbox, loses_no_push_of_producers_against_close) {
  constexpr unsigned producers = 2;
  const std::size_t each = by_run_length(50'000, 2'000'000);
  std::vector<std::vector<item>> of_producers(producers);
  std::atomic<std::size_t> accepted{0};
  std::atomic<std::size_t> wakeups{0};
  std::atomic<std::size_t> sleeps{1};  // it was made asleep
  std::vector<std::thread> threads;
  for (unsigned p = 0; p < producers; ++p) {
    of_producers[p].resize(each);
    threads.emplace_back([&, p] {
      std::size_t mine = 0;
      std::size_t seen = sleeps;
      for (std::size_t i = 0; i < each; ++i) {
        if (i % 100 == 99) {
          sleeps.wait(seen);
          seen = sleeps;
        }
        item& it = of_producers[p][i];
        it.producer = p;
        it.number = i;
        const pushed what = box.push(it.link);
        if (what == pushed::closed) break;
        ++mine;
        if (what == pushed::asleep) {
          wakeups.fetch_add(1);
          wakeups.notify_one();
        }
      }
      accepted += mine;
    });
  }
  std::size_t taken = 0;
  std::size_t next[producers] = {};
  const auto take = [&](inbox_chain chain) {
    while (inbox_link* link = chain.pop()) {
      const item& it = item_of(*link);
      ASSERT_EQ(it.number, next[it.producer]++);
      ++taken;
    }
  };
  while (taken < each) {
    wakeups.wait(sleeps - 1);
    EXPECT_EQ(wakeups, sleeps);
    take(box.take_all());
    while (!box.sleep()) take(box.take_all());
    ++sleeps;
    sleeps.notify_all();
  }
  EXPECT_GT(sleeps, each / producers / 100);  // as often as the producer that is ahead has let it sleep
  take(box.close());
  ++sleeps;
  sleeps.notify_all();
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(taken, accepted);
}

}  // namespace
