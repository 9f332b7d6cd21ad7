// Random operations on a service, compared with a model of its contract.
//
// Of a seed that fails, the message has its options, and those of its operations that are needed to fail. Put them into
// `replays` to run them again.
#include "service_model.hpp"
#include "../../support/long_runs.hpp"

using std::chrono::nanoseconds;
using tickwheel::service_options;
using tickwheel::unlimited;
using tickwheel::wheel_geometry;
using namespace service_model;

namespace {

// Operations that have failed once. Failures that are left in the service are excused in service_model.hpp.
struct replay {
  service_options options;
  operations all;
};
const replay replays[] = {
    // the clock blocks, then the service is opened, then the clock waits, and blocks again: only the second block is a stall
    {{.tick = 17000ns, .geometry = {1, 8}, .work_per_pass = 1000, .max_armed = 9U, .max_queued = 3U, .io_wait = 2},
     {{{act::close, 11, 397'484}, {}},
      {{act::block, 7, 2'000'001}, {}},
      {{act::open, 2, 34'001}, {}},
      {{act::sleep, 1, 795'104}, {}},
      {{act::block, 7, 700'000'000}, {}},
      {{act::turn, 2, 0}, {}}}},
    // a post that blocks, and one behind it that waits for the next pass; then a timer that came due in the block
    {{.tick = 17000ns, .geometry = {1, 8}, .work_per_pass = 1, .io_wait = 2},
     {{{act::post, 8, 0}, {act::block, 7, 3'000'000}},
      {{act::post, 1, 0}, {}},
      {{act::arm, 6, 81'133'664}, {}},
      {{act::turn, 2, 0}, {}}}},
    // a block that ends the wait for an earlier one, with a timer due in each
    {{.tick = 1us, .geometry = {2, 4}, .work_per_pass = 1, .io_wait = 1},
     {{{act::arm, 5, 3'848'612}, {}},
      {{act::arm_at, 10, 1'811'058}, {}},
      {{act::block, 6, 2'000'001}, {}},
      {{act::wait, 11, 0}, {}},
      {{act::block, 0, 700'000'000}, {}}}},
    // a time that is read in a handler, and again after the pass
    {{.tick = 1us, .geometry = {1, 8}, .io_wait = 100},
     {{{act::arm_at, 9, -226'797}, {act::again, 9, 40'145'659}},
      {{act::arm_at, 5, 0}, {act::block, 3, 700'000'000}},
      {{act::turn, 10, 0}, {}},
      {{act::read, 1, 0}, {}}}},
    // a handler of a zero delay that closes its service
    {{.tick = 131us, .geometry = {2, 4}},
     {{{act::arm, 6, 0}, {act::reopen, 0, 0}}, {{act::wait, 3, 0}, {}}, {{act::arm, 10, 23'287'356}, {}}}},
    // a turn without a service
    {{.tick = 17us, .geometry = {1, 8}, .work_per_pass = 1},
     {{{act::close, 5, 0}, {}},
      {{act::block, 1, 700'000'000}, {}},
      {{act::turn, 6, 0}, {}},
      {{act::open, 10, 0}, {}},
      {{act::arm, 8, 0}, {}}}},
    // a zero delay
    {{.tick = 1us, .geometry = {3, 8}}, {{{act::arm, 2, 0}, {}}}},
};

// Options and operations by chance, near the limits that the contract names.
class generator {
 public:
  explicit generator(std::uint64_t seed) : random_{seed} {
    constexpr std::array ticks{1us, 17us, 131us, 1000us};
    constexpr std::array geometries{wheel_geometry{1, 8}, wheel_geometry{2, 4},   wheel_geometry{3, 8},
                                    wheel_geometry{},     wheel_geometry{1, 512}, wheel_geometry{3, 32}};
    constexpr std::array<std::size_t, 6> works{1, 2, 3, 7, 1000, 1000};
    constexpr std::array<std::size_t, 3> limits{3, 9, unlimited};
    constexpr std::array<unsigned, 4> io_waits{0, 1, 2, 100};
    options.tick = any_of(ticks);
    options.geometry = any_of(geometries);
    options.work_per_pass = any_of(works);
    // now and then more links than an idle turn drops
    if (random_() % 20 == 0) timers = 400;
    options.max_armed = timers == few_timers ? any_of(limits) : 350;
    options.max_queued = any_of(limits);
    options.io_wait = any_of(io_waits);
    for (std::size_t left = 20 + random_() % 200; left != 0; --left) all.push_back(any_operation());
  }

  service_options options;
  operations all;
  std::size_t timers = few_timers;

 private:
  template <class T, std::size_t N>
  T any_of(const std::array<T, N>& from) {
    return from[random_() % N];
  }
  nanoseconds up_to(nanoseconds most) {
    return nanoseconds{static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most.count() + 1))};
  }

  nanoseconds delay() {
    switch (random_() % 8) {
      case 0:
      case 1:
        return 0ns;
      case 2:
        return -up_to(1ms);
      case 3:
        return options.tick * static_cast<int>(random_() % 20) + nanoseconds{static_cast<int>(random_() % 3) - 1};
      case 4:
        return up_to(100ms);
      case 5:
        return random_() % 16 == 0 ? nanoseconds{std::chrono::hours{random_() % 4 == 0 ? 1'000'000 : 2}} : up_to(1ms);
      default:
        return up_to(5ms);
    }
  }
  nanoseconds block() {
    constexpr std::array<nanoseconds, 8> all_blocks{10us, 1ms, 2ms, 2ms + 1ns, 3ms, 10ms + 1ns, 40ms, 700ms};
    return any_of(all_blocks);
  }
  step of(act what) {
    const bool blocks = what == act::block;
    const bool sleeps = what == act::sleep;
    nanoseconds by = blocks ? block() : sleeps ? up_to(random_() % 2 != 0 ? 3ms : 50us) : delay();
    if (what == act::post) by = std::min<nanoseconds>(by, 1s);
    if (what == act::arm_at_unread && random_() % 2 != 0)
      by = -up_to(random_() % 2 != 0 ? nanoseconds{3ms} : 2 * options.tick);
    return {what, random_() % timers, by.count()};
  }
  operation any_operation() {
    constexpr std::array firsts{
        act::arm,           act::arm,    act::arm,  act::arm_slack, act::arm_at, act::arm_at,  act::arm_at_unread,
        act::arm_at_unread, act::cancel, act::post, act::post,      act::post,   act::destroy, act::block,
        act::sleep,         act::sleep,  act::wait, act::wait,      act::wait,   act::turn,    act::turn,
        act::turn,          act::turn,   act::turn, act::turn,      act::turn,   act::turn,    act::read,
        act::ref,           act::unref,  act::unref};
    constexpr std::array thens{act::none,    act::none,   act::arm,  act::arm_at, act::arm_at_unread,
                               act::again,   act::cancel, act::post, act::block,  act::read,
                               act::destroy, act::ref,    act::unref};
    constexpr std::array rare{act::open,          act::open,    act::ref_service, act::ref_service,
                              act::unref_service, act::arm_all, act::cancel_all,  act::cancel_all};
    const act first = random_() % 150 == 0 ? act::close : random_() % 10 == 0 ? any_of(rare) : any_of(firsts);
    const act then = random_() % 150 == 0 ? act::close : random_() % 150 == 0 ? act::reopen : any_of(thens);
    operation made{of(first), of(then)};
    if (then == act::again) made.then.id = made.first.id;
    return made;
  }

  std::mt19937_64 random_;
};

// Returns the difference without its place.
std::string kind_of(const std::optional<std::string>& wrong) { return wrong ? wrong->substr(wrong->find(':')) : ""; }

// Leaves out what is not needed to fail in that way.
operations shrunk(const generator& made, const std::string& kind) {
  operations all = made.all;
  const auto fails = [&](const operations& some) {
    return kind_of(comparison{made.options, some, made.timers}.run()) == kind;
  };
  for (std::size_t length = all.size(); length != 0; length /= 2) {
    for (std::size_t from = 0; from + length <= all.size();) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(from);
      operations fewer{all.begin(), begin};
      fewer.insert(fewer.end(), begin + static_cast<std::ptrdiff_t>(length), all.end());
      if (fails(fewer))
        all = std::move(fewer);
      else
        from += length;
    }
  }
  for (operation& one : all) {
    const step then = std::exchange(one.then, {});
    if (!fails(all)) one.then = then;
  }
  return all;
}

std::string text_of(const service_options& o, const operations& all) {
  constexpr std::array names{"none",   "arm",         "arm_slack",     "arm_at",  "arm_at_unread", "again",
                             "cancel", "destroy",     "post",          "block",   "sleep",         "wait",
                             "turn",   "read",        "close",         "open",    "reopen",        "ref",
                             "unref",  "ref_service", "unref_service", "arm_all", "cancel_all"};
  std::ostringstream out;
  const auto write = [&](const step& s) {
    out << "{act::" << names[static_cast<std::size_t>(s.what)] << ", " << s.id << ", " << s.by << '}';
  };
  out << "{.tick = " << o.tick.count() << "ns, .geometry = {" << o.geometry.levels << ", " << o.geometry.slots
      << "}, .work_per_pass = " << o.work_per_pass << ", .max_armed = " << o.max_armed
      << "U, .max_queued = " << o.max_queued << "U, .io_wait = " << o.io_wait << "}\n";
  for (const operation& one : all) {
    out << '{';
    write(one.first);
    out << ", ";
    write(one.then);
    out << "},\n";
  }
  return out.str();
}

TEST(service_model, agrees_about_what_has_failed_once) {
  for (const replay& one : replays)
    EXPECT_EQ(comparison(one.options, one.all).run(), std::nullopt) << text_of(one.options, one.all);
}

TEST(service_model, agrees_about_random_operations) {
  const std::size_t seeds = by_run_length(600, 20'000);
  std::size_t fired = 0, waits = 0, refused = 0, unread_in_past = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const generator made{seed};
    comparison both{made.options, made.all, made.timers};
    if (const auto wrong = both.run()) {
      const operations fewer = shrunk(made, kind_of(wrong));
      FAIL() << "seed " << seed << ", " << made.timers << " timers, "
             << *comparison(made.options, fewer, made.timers).run() << '\n'
             << text_of(made.options, fewer);
    }
    fired += both.fired();
    waits += both.waits();
    refused += both.refused();
    unread_in_past += both.unread_in_past();
  }
  EXPECT_GT(fired, 10 * seeds);  // else it would test little
  EXPECT_GT(waits, seeds);
  EXPECT_GT(refused, seeds);
  EXPECT_GT(unread_in_past, seeds / 2);
}

}  // namespace
