// Delays between retries: a sequence, no clock.
#include <tickwheel/net/backoff.hpp>

#include "../../support/allocation_probe.hpp"
#include "../../support/prelude.hpp"

#include <gmock/gmock.h>

using testing::HasSubstr;

namespace {

using std::chrono::nanoseconds;
using tickwheel::backoff;
using tickwheel::backoff_options;
using tickwheel::jitter_kind;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

std::vector<nanoseconds> some(backoff b, int n) {
  std::vector<nanoseconds> all;
  for (int i = 0; i < n; ++i) all.push_back(b.next());
  return all;
}

TEST(backoff, doubles_from_base_up_to_cap) {
  const backoff b{{.base = 100ms, .cap = 1s, .kind = jitter_kind::none}};
  EXPECT_EQ(some(b, 6), (std::vector<nanoseconds>{100ms, 200ms, 400ms, 800ms, 1s, 1s}));
}

TEST(backoff, grows_by_multiplier) {
  const backoff b{{.base = 100ms, .cap = 1s, .multiplier = 1.5, .kind = jitter_kind::none}};
  EXPECT_EQ(some(b, 4), (std::vector<nanoseconds>{100ms, 150ms, 225ms, 337500us}));
}

TEST(backoff, multiplier_of_one_stays_at_base) {
  constexpr nanoseconds odd{(std::int64_t{1} << 60) + 1};  // which no double is
  const backoff b{{.base = odd, .cap = nanoseconds::max(), .multiplier = 1, .kind = jitter_kind::none}};
  EXPECT_EQ(some(b, 3), (std::vector<nanoseconds>{odd, odd, odd}));
}

TEST(backoff, reset_begins_at_base_again) {
  backoff b{{.base = 100ms, .cap = 1s, .kind = jitter_kind::none}};
  for (int i = 0; i < 5; ++i) b.next();
  EXPECT_EQ(b.steps(), 5U);
  b.reset();
  EXPECT_EQ(b.steps(), 0U);
  EXPECT_EQ(b.next(), 100ms);
}

TEST(backoff, cap_at_base_stays_at_base) {
  const backoff b{{.base = 1s, .cap = 1s, .kind = jitter_kind::none}};
  EXPECT_EQ(some(b, 3), (std::vector<nanoseconds>{1s, 1s, 1s}));
}

TEST(backoff, saturates_at_longest_duration) {
  backoff plain{{.base = 1h, .cap = nanoseconds::max(), .multiplier = 1e300, .kind = jitter_kind::none}};
  EXPECT_EQ(plain.next(), 1h);
  EXPECT_EQ(plain.next(), nanoseconds::max());
  EXPECT_EQ(plain.next(), nanoseconds::max());
  for (const auto kind : {jitter_kind::full, jitter_kind::additive}) {
    backoff b{{.base = nanoseconds::max(), .cap = nanoseconds::max(), .kind = kind}, 1};
    for (int i = 0; i < 100; ++i) ASSERT_GE(b.next(), 0ns);
  }
}

TEST(backoff_jitter, full_draws_between_zero_and_delay) {
  backoff b{{.base = 1s, .cap = 1s}, 1};
  nanoseconds least = nanoseconds::max();
  nanoseconds most = 0ns;
  for (int i = 0; i < 1000; ++i) {
    const auto d = b.next();
    ASSERT_GE(d, 0ns);
    ASSERT_LE(d, 1s);
    least = std::min(least, d);
    most = std::max(most, d);
  }
  EXPECT_LT(least, 10ms);
  EXPECT_GT(most, 990ms);
}

TEST(backoff_jitter, full_share_keeps_rest_of_delay) {
  backoff b{{.base = 1s, .cap = 1s, .jitter = 0.25}, 1};
  nanoseconds least = nanoseconds::max();
  for (int i = 0; i < 1000; ++i) {
    const auto d = b.next();
    ASSERT_GE(d, 750ms);
    ASSERT_LE(d, 1s);
    least = std::min(least, d);
  }
  EXPECT_LT(least, 755ms);
}

TEST(backoff_jitter, additive_never_shortens_and_exceeds_cap) {
  backoff b{{.base = 1s, .cap = 1s, .jitter = 0.5, .kind = jitter_kind::additive}, 1};
  nanoseconds most = 0ns;
  for (int i = 0; i < 1000; ++i) {
    const auto d = b.next();
    ASSERT_GE(d, 1s);
    ASSERT_LE(d, 1500ms);
    most = std::max(most, d);
  }
  EXPECT_GT(most, 1490ms);
}

TEST(backoff_jitter, zero_changes_nothing) {
  for (const auto kind : {jitter_kind::full, jitter_kind::additive}) {
    const backoff b{{.base = 100ms, .cap = 1s, .jitter = 0, .kind = kind}};
    EXPECT_EQ(some(b, 3), (std::vector<nanoseconds>{100ms, 200ms, 400ms}));
  }
}

// The figures are part of the promise: whoever changes the sequence changes what users have recorded.
TEST(backoff_jitter, seed_gives_same_delays_on_every_machine) {
  const backoff full{{.base = 1s, .cap = 8s}, 42};
  EXPECT_EQ(some(full, 4), (std::vector<nanoseconds>{75817894ns, 651979246ns, 3177942922ns, 3464606007ns}));
  const backoff additive{{.base = 1s, .cap = 8s, .jitter = 0.1, .kind = jitter_kind::additive}, 42};
  EXPECT_EQ(some(additive, 4), (std::vector<nanoseconds>{1060701454ns, 2177761905ns, 4014554519ns, 8321758199ns}));
}

TEST(backoff_jitter, seed_repeats_its_sequence) {
  const backoff_options o{};
  EXPECT_EQ(some(backoff{o, 7}, 20), some(backoff{o, 7}, 20));
  EXPECT_NE(some(backoff{o, 7}, 20), some(backoff{o, 8}, 20));
}

TEST(backoff_jitter, without_seed_two_clients_differ) {
  const backoff a;
  const backoff b;
  EXPECT_NE(some(a, 20), some(b, 20));
}

TEST(backoff_jitter, reset_does_not_repeat_sequence) {
  backoff b{{}, 7};
  const auto first = b.next();
  b.reset();
  EXPECT_NE(b.next(), first);
}

TEST(backoff_jitter, copy_continues_sequence) {
  backoff b{{}, 7};
  b.next();
  backoff copy = b;
  for (int i = 0; i < 20; ++i) ASSERT_EQ(copy.next(), b.next());
}

// --- what is refused -------------------------------------------------------------------------------------------------

std::string wrong_with(const backoff_options& o) {
  const char* const why = o.problem();
  return why != nullptr ? why : "nothing";
}

TEST(backoff_options, defaults_are_valid) { EXPECT_EQ(wrong_with({}), "nothing"); }

TEST(backoff_options, base_that_is_not_positive_is_named) {
  EXPECT_THAT(wrong_with({.base = 0ns}), HasSubstr("::base "));
  EXPECT_THAT(wrong_with({.base = -1ns}), HasSubstr("::base "));
  EXPECT_EQ(wrong_with({.base = 1ns}), "nothing");
}

TEST(backoff_options, cap_below_base_is_named) {
  EXPECT_THAT(wrong_with({.base = 1s, .cap = 1s - 1ns}), HasSubstr("::cap "));
  EXPECT_THAT(wrong_with({.base = 1s, .cap = -1s}), HasSubstr("::cap "));
  EXPECT_EQ(wrong_with({.base = 1s, .cap = 1s}), "nothing");
}

TEST(backoff_options, multiplier_below_one_is_named) {
  for (const double m : {0.999, 0.0, -2.0, nan, infinity, -infinity})
    EXPECT_THAT(wrong_with({.multiplier = m}), HasSubstr("::multiplier ")) << m;
  EXPECT_EQ(wrong_with({.multiplier = 1}), "nothing");
  EXPECT_EQ(wrong_with({.multiplier = 1e308}), "nothing");
}

TEST(backoff_options, jitter_outside_range_is_named) {
  for (const double j : {-0.001, 1.001, nan, infinity, -infinity})
    EXPECT_THAT(wrong_with({.jitter = j}), HasSubstr("::jitter ")) << j;
  EXPECT_EQ(wrong_with({.jitter = 0}), "nothing");
  EXPECT_EQ(wrong_with({.jitter = 1}), "nothing");
}

TEST(backoff_options, unknown_kind_of_jitter_is_named) {
  EXPECT_THAT(wrong_with({.kind = static_cast<jitter_kind>(3)}), HasSubstr("::kind "));
}

TEST(backoff_options, invalid_options_stop_process_and_are_named) {
  EXPECT_DEATH(backoff({.base = 0ns}), "backoff_options::base is not positive");
  EXPECT_DEATH(backoff({.multiplier = nan}, 1), "backoff_options::multiplier");
}

TEST(backoff, allocates_nothing) {
  const auto before = allocations::count();
  backoff b;
  for (int i = 0; i < 1000; ++i) b.next();
  EXPECT_EQ(allocations::count(), before);
}

}  // namespace
