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

TEST(backoff, grows_from_base_by_multiplier_up_to_cap) {
  constexpr nanoseconds odd{(std::int64_t{1} << 60) + 1};  // which no double is
  const struct {
    backoff_options options;
    std::vector<nanoseconds> delays;
  } cases[]{{{.base = 100ms, .cap = 1s, .kind = jitter_kind::none}, {100ms, 200ms, 400ms, 800ms, 1s, 1s}},
            {{.base = 100ms, .cap = 1s, .multiplier = 1.5, .kind = jitter_kind::none}, {100ms, 150ms, 225ms, 337500us}},
            {{.base = odd, .cap = nanoseconds::max(), .multiplier = 1, .kind = jitter_kind::none}, {odd, odd, odd}},
            {{.base = 1ns, .cap = 4ns, .multiplier = 1.9, .kind = jitter_kind::none}, {1ns, 2ns, 3ns, 4ns, 4ns}},
            {{.base = 1us, .cap = 1s, .multiplier = 1.0009, .kind = jitter_kind::none}, {1000ns, 1001ns, 1002ns}},
            {{.base = 1s, .cap = 1s, .kind = jitter_kind::none}, {1s, 1s, 1s}},
            {{.base = 100ms, .cap = 1s, .jitter = 0, .kind = jitter_kind::full}, {100ms, 200ms, 400ms}},
            {{.base = 100ms, .cap = 1s, .jitter = 0, .kind = jitter_kind::additive}, {100ms, 200ms, 400ms}}};
  for (const auto& each : cases)
    EXPECT_EQ(some(backoff{each.options}, static_cast<int>(each.delays.size())), each.delays);
}

TEST(backoff, reset_begins_at_base_again) {
  backoff b{{.base = 100ms, .cap = 1s, .kind = jitter_kind::none}};
  for (int i = 0; i < 5; ++i) b.next();
  EXPECT_EQ(b.steps(), 5U);
  b.reset();
  EXPECT_EQ(b.steps(), 0U);
  EXPECT_EQ(b.next(), 100ms);
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

// Full jitter shortens a delay, by a share of it. Additive jitter lengthens it, beyond the cap.
TEST(backoff_jitter, draws_from_whole_range_and_not_beyond) {
  const struct {
    backoff_options options;
    nanoseconds shortest, longest;
  } cases[]{{{.base = 1s, .cap = 1s}, 0s, 1s},
            {{.base = 1s, .cap = 1s, .jitter = 0.25}, 750ms, 1s},
            {{.base = 1s, .cap = 1s, .jitter = 0.5, .kind = jitter_kind::additive}, 1s, 1500ms}};
  for (const auto& each : cases) {
    SCOPED_TRACE(each.longest.count());
    const auto delays = some(backoff{each.options, 1}, 1000);
    const auto [least, most] = std::minmax_element(delays.begin(), delays.end());
    const nanoseconds near = (each.longest - each.shortest) / 100;
    EXPECT_GE(*least, each.shortest);
    EXPECT_LT(*least, each.shortest + near);
    EXPECT_GT(*most, each.longest - near);
    EXPECT_LE(*most, each.longest);
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

TEST(backoff_options, valid_ones_have_no_problem) {
  for (const backoff_options& o : {backoff_options{},
                                   {.base = 1ns},
                                   {.base = 1s, .cap = 1s},
                                   {.multiplier = 1},
                                   {.multiplier = 1e308},
                                   {.jitter = 0},
                                   {.jitter = 1}})
    EXPECT_STREQ(o.problem(), nullptr);
}

TEST(backoff_options, problem_names_invalid_field) {
  for (const nanoseconds base : {0ns, -1ns}) EXPECT_THAT(backoff_options{.base = base}.problem(), HasSubstr("::base "));
  for (const nanoseconds cap : {1s - 1ns, -nanoseconds{1s}})
    EXPECT_THAT((backoff_options{.base = 1s, .cap = cap}.problem()), HasSubstr("::cap "));
  for (const double m : {0.999, 0.0, -2.0, nan, infinity, -infinity})
    EXPECT_THAT(backoff_options{.multiplier = m}.problem(), HasSubstr("::multiplier ")) << m;
  for (const double j : {-0.001, 1.001, nan, infinity, -infinity})
    EXPECT_THAT(backoff_options{.jitter = j}.problem(), HasSubstr("::jitter ")) << j;
  EXPECT_THAT(backoff_options{.kind = static_cast<jitter_kind>(3)}.problem(), HasSubstr("::kind "));
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
