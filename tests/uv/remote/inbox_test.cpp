// The inbox itself: who is told to wake, what comes out in which order, and that nothing falls between pushing, sleeping
// and closing.
#include "../support/long_runs.hpp"

#include <tickwheel/uv/detail/inbox.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <thread>
#include <utility>
#include <vector>

using tickwheel::detail::inbox;
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

std::vector<std::size_t> numbers(inbox_chain chain) {
  std::vector<std::size_t> all;
  while (inbox_link* link = chain.pop()) all.push_back(item_of(*link).number);
  return all;
}

TEST(an_inbox, tells_only_who_pushes_into_it_while_it_sleeps_to_wake) {
  inbox box;
  item items[4];
  EXPECT_EQ(box.push(items[0].link), pushed::asleep);
  EXPECT_EQ(box.push(items[1].link), pushed::queued);
  EXPECT_EQ(box.push(items[2].link), pushed::queued);
  box.take_all();
  EXPECT_TRUE(box.sleep());
  EXPECT_EQ(box.push(items[3].link), pushed::asleep);
}

TEST(an_inbox, is_awake_from_take_all_until_it_sleeps) {
  inbox box;
  item items[2];
  EXPECT_TRUE(box.take_all().empty());
  EXPECT_EQ(box.push(items[0].link), pushed::queued);
  box.take_all();
  EXPECT_EQ(box.push(items[1].link), pushed::queued);
}

TEST(an_inbox, does_not_sleep_on_what_was_pushed) {
  inbox box;
  item items[2];
  items[1].number = 1;
  box.take_all();
  box.push(items[0].link);
  EXPECT_FALSE(box.sleep());
  EXPECT_EQ(box.push(items[1].link), pushed::queued);
  EXPECT_FALSE(box.sleep());
  EXPECT_EQ(numbers(box.take_all()), (std::vector<std::size_t>{0, 1}));
  EXPECT_TRUE(box.sleep());
}

TEST(an_inbox, seems_empty_awake_and_asleep) {
  inbox box;
  item it;
  EXPECT_TRUE(box.seems_empty());
  box.take_all();
  EXPECT_TRUE(box.seems_empty());
  EXPECT_TRUE(box.sleep());
  EXPECT_TRUE(box.seems_empty());
  box.push(it.link);
  EXPECT_FALSE(box.seems_empty());
}

TEST(an_inbox, gives_back_what_was_pushed_in_the_order_of_pushing) {
  inbox box;
  std::vector<item> items(5);
  for (std::size_t i = 0; i < items.size(); ++i) {
    items[i].number = i;
    box.push(items[i].link);
  }
  EXPECT_EQ(numbers(box.take_all()), (std::vector<std::size_t>{0, 1, 2, 3, 4}));
  EXPECT_TRUE(box.take_all().empty());
}

TEST(an_inbox, lets_a_link_be_pushed_again_once_it_was_taken) {
  inbox box;
  item it;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(box.push(it.link), pushed::asleep);
    inbox_chain chain = box.take_all();
    EXPECT_EQ(chain.pop(), &it.link);
    EXPECT_EQ(chain.pop(), nullptr);
    EXPECT_TRUE(box.sleep());
  }
}

TEST(an_inbox, gives_what_it_holds_to_who_closes_it_and_refuses_what_comes_later) {
  inbox box;
  item items[3];
  items[1].number = 1;
  box.push(items[0].link);
  box.push(items[1].link);
  EXPECT_FALSE(box.is_closed());
  EXPECT_EQ(numbers(box.close()), (std::vector<std::size_t>{0, 1}));
  EXPECT_TRUE(box.is_closed());
  EXPECT_EQ(box.push(items[2].link), pushed::closed);
}

TEST(an_inbox, stays_closed) {
  inbox box;
  item it;
  EXPECT_TRUE(box.close().empty());
  EXPECT_TRUE(box.close().empty());
  EXPECT_TRUE(box.take_all().empty());
  EXPECT_TRUE(box.is_closed());
  EXPECT_TRUE(box.seems_empty());
  EXPECT_EQ(box.push(it.link), pushed::closed);
}

TEST(a_chain, appends_another_behind_itself_and_leaves_that_empty) {
  inbox box;
  std::vector<item> items(4);
  for (std::size_t i = 0; i < items.size(); ++i) items[i].number = i;
  inbox_chain all;
  all.append(box.take_all());
  EXPECT_TRUE(all.empty());
  box.push(items[0].link);
  box.push(items[1].link);
  all.append(box.take_all());
  box.push(items[2].link);
  inbox_chain more = box.take_all();
  all.append(std::move(more));
  EXPECT_TRUE(more.empty());  // NOLINT(bugprone-use-after-move): that is what is tested
  EXPECT_EQ(all.pop(), &items[0].link);
  box.push(items[3].link);
  all.append(box.take_all());
  EXPECT_EQ(numbers(all), (std::vector<std::size_t>{1, 2, 3}));
}

TEST(a_chain, stays_as_it_is_when_an_empty_one_is_appended) {
  inbox box;
  std::vector<item> items(2);
  items[1].number = 1;
  box.push(items[0].link);
  inbox_chain all = box.take_all();
  all.append(box.take_all());
  box.push(items[1].link);
  all.append(box.take_all());
  EXPECT_EQ(numbers(all), (std::vector<std::size_t>{0, 1}));
}

// Producers push against a consumer that takes all, sleeps until it is woken, and in the end closes: what was accepted is
// exactly what comes out, in each producer's order, and each sleep was ended by one push, which was told so. A wakeup that
// was lost is one that this waits for. Each producer lets it sleep now and then.
TEST(producers_of_an_inbox, lose_nothing_against_a_consumer_that_closes_it) {
  constexpr unsigned producers = 2;
  const std::size_t each = by_run_length(50'000, 2'000'000);
  inbox box;
  std::vector<std::vector<item>> items(producers);
  std::atomic<std::size_t> accepted{0};
  std::atomic<std::size_t> wakeups{0};
  std::atomic<std::size_t> sleeps{1};  // it was made asleep
  std::vector<std::thread> threads;
  for (unsigned p = 0; p < producers; ++p) {
    items[p].resize(each);
    threads.emplace_back([&, p] {
      std::size_t mine = 0;
      std::size_t seen = sleeps;
      for (std::size_t i = 0; i < each; ++i) {
        if (i % 100 == 99) {
          sleeps.wait(seen);
          seen = sleeps;
        }
        item& it = items[p][i];
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
