// The number of all retries together, counted exactly.
#include <tickwheel/net/retry_budget.hpp>

#include "../../support/prelude.hpp"

#include <gmock/gmock.h>

using testing::HasSubstr;

namespace {

using tickwheel::retry_budget;
using tickwheel::retry_budget_options;
using time_point = tickwheel::clock::time_point;

constexpr time_point noon{12h};
constexpr auto most_possible = std::numeric_limits<unsigned>::max();

unsigned withdraw_all(retry_budget& budget, time_point now) {
  unsigned n = 0;
  while (budget.withdraw(now)) ++n;
  return n;
}

TEST(retry_budget, begins_full) {
  retry_budget budget{{.max_tokens = 7}};
  EXPECT_EQ(budget.available(noon), 7U);
  EXPECT_EQ(withdraw_all(budget, noon), 7U);
  EXPECT_EQ(budget.available(noon), 0U);
}

TEST(retry_budget, earns_share_of_requests_and_no_more) {
  retry_budget budget{{.percent = 20, .max_tokens = 10}};
  withdraw_all(budget, noon);
  for (int i = 0; i < 4; ++i) budget.deposit();
  EXPECT_FALSE(budget.withdraw(noon));
  budget.deposit();
  EXPECT_TRUE(budget.withdraw(noon));
  EXPECT_FALSE(budget.withdraw(noon));
}

TEST(retry_budget, may_earn_several_retries_per_request) {
  retry_budget budget{{.percent = 250, .max_tokens = 10}};
  withdraw_all(budget, noon);
  budget.deposit();
  EXPECT_EQ(budget.available(noon), 2U);
  budget.deposit();
  EXPECT_EQ(budget.available(noon), 5U);
}

TEST(retry_budget, saves_up_to_max_tokens) {
  retry_budget budget{{.percent = 100, .max_tokens = 3}};
  for (int i = 0; i < 1000; ++i) budget.deposit();
  EXPECT_EQ(withdraw_all(budget, noon), 3U);
}

TEST(retry_budget, counts_granted_and_refused_retries) {
  retry_budget budget{{.max_tokens = 2}};
  EXPECT_TRUE(budget.withdraw(noon));
  EXPECT_TRUE(budget.withdraw(noon));
  EXPECT_FALSE(budget.withdraw(noon));
  EXPECT_EQ(budget.withdrawn(), 2U);
  EXPECT_EQ(budget.refused(), 1U);
}

TEST(retry_budget, earns_nothing_by_waiting_by_default) {
  retry_budget budget{{.max_tokens = 2}};
  withdraw_all(budget, noon);
  EXPECT_EQ(budget.available(noon + 24h), 0U);
}

TEST(retries_per_second, are_earned_by_waiting) {
  retry_budget budget{{.per_second = 10, .max_tokens = 100}};
  withdraw_all(budget, noon);
  EXPECT_EQ(budget.available(noon + 100ms - 1ns), 0U);
  EXPECT_EQ(budget.available(noon + 100ms), 1U);
  EXPECT_EQ(withdraw_all(budget, noon + 1s), 10U);
}

TEST(retries_per_second, lose_nothing_to_frequent_questions) {
  retry_budget budget{{.percent = 0, .per_second = 7, .max_tokens = 1000}};
  withdraw_all(budget, noon);
  for (auto at = 0ns; at < 10s; at += 1'000'003ns) budget.available(noon + at);
  EXPECT_EQ(budget.available(noon + 10s - 1ns), 69U);
  EXPECT_EQ(budget.available(noon + 10s), 70U);
}

TEST(retries_per_second, are_saved_up_to_max_tokens) {
  retry_budget budget{{.per_second = 10, .max_tokens = 5}};
  withdraw_all(budget, noon);
  EXPECT_EQ(withdraw_all(budget, noon + 24h * 365 * 200), 5U);
  EXPECT_EQ(withdraw_all(budget, noon + 24h * 365 * 200), 0U);
}

TEST(retries_per_second, are_not_earned_by_time_going_back) {
  retry_budget budget{{.per_second = 10, .max_tokens = 5}};
  withdraw_all(budget, noon);
  EXPECT_EQ(budget.available(noon - 1h), 0U);
  EXPECT_EQ(budget.available(noon), 0U);
  EXPECT_EQ(budget.available(noon + 100ms), 1U);
}

TEST(retries_per_second, are_exact_at_largest_figures) {
  retry_budget budget{{.percent = most_possible, .per_second = most_possible, .max_tokens = most_possible}};
  EXPECT_EQ(budget.available(noon), most_possible);
  budget.deposit();
  EXPECT_EQ(budget.available(noon + 24h * 365 * 200), most_possible);
  retry_budget slow{{.percent = 0, .per_second = 1, .max_tokens = most_possible}};
  EXPECT_TRUE(slow.withdraw(noon));
  EXPECT_EQ(slow.available(noon + 24h * 365 * 100), most_possible);
}

TEST(retry_budget, never_grants_more_than_its_bound) {
  std::minstd_rand random{1};
  for (int round = 0; round < 100; ++round) {
    const retry_budget_options o{.percent = static_cast<unsigned>(random() % 300),
                                 .per_second = static_cast<unsigned>(random() % 50) + 1,
                                 .max_tokens = static_cast<unsigned>(random() % 20) + 1};
    retry_budget budget{o};
    budget.available(noon);
    std::uint64_t requests = 0;
    auto now = noon;
    for (int step = 0; step < 1000; ++step) {
      if (random() % 3 == 0) {
        budget.deposit();
        ++requests;
      } else {
        budget.withdraw(now);
      }
      now += std::chrono::microseconds{random() % 20'000};
      const auto waited = static_cast<std::uint64_t>((now - noon).count());
      const std::uint64_t hundredths =
          o.max_tokens * 100ULL + requests * o.percent + waited * o.per_second / 10'000'000;
      ASSERT_LE(budget.withdrawn() * 100, hundredths);
    }
  }
}

TEST(retry_budget, problem_names_invalid_option) {
  EXPECT_STREQ(retry_budget_options{}.problem(), nullptr);
  EXPECT_THAT(retry_budget_options{.max_tokens = 0}.problem(), HasSubstr("::max_tokens "));
  EXPECT_THAT((retry_budget_options{.percent = 0, .per_second = 0}.problem()), HasSubstr("::percent and per_second "));
  EXPECT_STREQ((retry_budget_options{.percent = 0, .per_second = 1}.problem()), nullptr);
}

TEST(retry_budget, invalid_options_stop_process_and_are_named) {
  EXPECT_DEATH(retry_budget({.max_tokens = 0}), "retry_budget_options::max_tokens is zero");
}

}  // namespace
