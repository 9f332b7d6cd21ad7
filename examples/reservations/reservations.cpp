// Holds on stock: each keeps a unit for half an hour, and gives it back unless the sale was confirmed by then.
//
//   reservations --holds 5000000 --hold-time 30m
//
// A sale opens, and millions of customers put an article into their basket within a minute. Each hold counts as reserved, so that
// nothing is sold twice. It ends confirmed, released by the customer, or when its time is up. Time is manual
// (tickwheel::manual_driver), so half an hour takes seconds, with the same result each time.
//
// Read it from the top:
//
//   article   the stock, and the part of it that is reserved
//   hold      one unit for one customer; it is itself the timer that expires when its time is up
//   sale      the simulation
//
// After each step the article of that step must have reserved == confirmed + open, and not more than its stock reserved. Now and then all
// holds are counted. Exit code 0: that was so; 1: it was not; 2: asked for something impossible.

#include "../support/command_line.hpp"

#include <tickwheel/tickwheel.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <limits>
#include <vector>

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

void require(bool holds, const char* broken) {
  if (holds) return;
  std::fprintf(stderr, "reservations: WRONG: %s\n", broken);
  std::exit(1);  // NOLINT(concurrency-mt-unsafe): there is one thread
}

// --- what is sold ----------------------------------------------------------------------------------------------------

struct article {
  std::uint32_t units = 0;
  std::uint32_t reserved = 0;   // decides whether one more can be held
  std::uint32_t open = 0;       // holds that wait for their customer
  std::uint32_t confirmed = 0;  // holds that were paid: sold

  bool has_left() const noexcept { return reserved < units; }
  void check() const noexcept {
    require(reserved == confirmed + open, "reserved is not what is confirmed and open");
    require(reserved <= units, "oversold");
  }
};

// --- one unit for one customer ---------------------------------------------------------------------------------------

// The smallest timer, as a base, is 48 bytes; with its article and state a hold is one cache line.
class hold : private tickwheel::timer {
 public:
  enum class state : std::uint8_t { none, open, confirmed, released, expired };

  hold(tickwheel::timer_service& timers, article& of) noexcept : timer{timers, &on_due}, article_{of} {}

  /// Requires: the article has one left. Returns 0, or a UV_ code without holding anything.
  int begin(nanoseconds time) noexcept {
    if (const int error = arm_at(service().now() + time)) return error;
    state_ = state::open;
    ++article_.open;
    ++article_.reserved;
    article_.check();
    return 0;
  }

  /// The customer has paid. Returns false if that is too late. The timer stays armed, and finds the hold confirmed when it expires.
  /// Cancelling it would also be right.
  bool confirm() noexcept {
    if (state_ != state::open) return false;
    state_ = state::confirmed;
    --article_.open;
    ++article_.confirmed;
    article_.check();
    return true;
  }

  /// The customer does not want it any more. Returns false if that is too late.
  bool release() noexcept {
    if (state_ != state::open) return false;
    cancel();
    give_back(state::released);
    return true;
  }

  state how() const noexcept { return state_; }
  const article& what() const noexcept { return article_; }
  bool waits() const noexcept { return armed(); }

 private:
  // Its time is up: checks again whether it was confirmed.
  static void on_due(wheel_entry& entry) noexcept {
    auto& self = static_cast<hold&>(timer::from(entry));
    if (self.state_ == state::open) self.give_back(state::expired);
  }

  void give_back(state why) noexcept {
    state_ = why;
    --article_.open;
    --article_.reserved;
    article_.check();
  }

  article& article_;
  state state_ = state::none;
};
static_assert(sizeof(void*) != 8 || sizeof(hold) <= 64);

// --- the sale --------------------------------------------------------------------------------------------------------

struct options {
  std::uint32_t holds = 5'000'000;
  std::uint32_t articles = 1000;
  milliseconds hold_time = 30min;
  milliseconds rush = 1min;
  double confirmed = 0.5, released = 0.25;
  std::uint64_t seed = 1;
};

/// SplitMix64: reproducible, and so fast that it is not the thing that is measured.
class random_numbers {
 public:
  explicit random_numbers(std::uint64_t seed) noexcept : state_{seed} {}
  /// Returns a number from 0 to below `bound`.
  std::uint32_t below(std::uint32_t bound) noexcept {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z ^= z >> 27;
    return static_cast<std::uint32_t>(((z >> 32) * bound) >> 32);
  }
  /// Returns a number from 0 to below 1.
  double part() noexcept { return below(std::numeric_limits<std::uint32_t>::max()) * 0x1p-32; }

 private:
  std::uint64_t state_;
};

class sale {
 public:
  /// Every tenth article has far too few units. The others have enough for all customers.
  explicit sale(const options& o) : asked_{o}, random_{o.seed}, articles_(o.articles) {
    const std::uint32_t mean = o.holds / o.articles;
    const std::uint32_t others = o.articles - o.articles / 10;
    const std::uint32_t enough = (o.holds + others - 1) / others;
    for (std::size_t i = 0; i < articles_.size(); ++i)
      articles_[i].units = i % 10 == 9 ? mean / 10 : enough + mean / 4 + 1;
    require(timers_.open(time_) == 0, "no memory");
  }

  /// The rush: makes holds as fast as possible, in a burst per millisecond.
  void open() {
    const auto begin = tickwheel::clock::now();
    const auto bursts = static_cast<std::uint64_t>(asked_.rush.count());
    for (std::uint64_t burst = 1; burst <= bursts; ++burst) {
      const auto target = static_cast<std::size_t>(asked_.holds * burst / bursts);
      while (holds_.size() < target) request();
      time_.advance(1ms);
    }
    took_ = tickwheel::clock::now() - begin;
  }

  /// Customers decide one after the other, until a little after the last hold has expired. So some are too late. Each hold is decided once,
  /// in an order far from the order in which they were made.
  void decide() {
    constexpr std::uint64_t stride = 1'000'000'007;  // a prime larger than the number of holds: reaches each of them
    const auto seconds = static_cast<std::uint64_t>((asked_.rush + asked_.hold_time) / 1s) + 1;
    std::uint64_t seen = 0;
    for (std::uint64_t second = 1; second <= seconds; ++second) {
      for (const std::uint64_t target = holds_.size() * second / seconds; seen < target; ++seen)
        decide(holds_[seen * stride % holds_.size()]);
      time_.advance(1s);
      if (second % 300 == 0) recount();
    }
    time_.advance(asked_.hold_time);
    recount();
  }

  /// Prints how the holds ended. Requires: they have all ended.
  void report() const {
    std::size_t ends[5]{}, still_armed = 0;
    for (const hold& h : holds_) {
      ++ends[static_cast<std::size_t>(h.how())];
      still_armed += h.waits();
    }
    const auto count_of = [&](hold::state s) { return ends[static_cast<std::size_t>(s)]; };
    const double seconds = std::chrono::duration<double>(took_).count();
    std::printf("%zu holds in %.2f s: %.1f M holds/s; %zu bytes of timer a hold, %zu with what it is about\n",
                holds_.size(), seconds, static_cast<double>(holds_.size()) / seconds / 1e6, sizeof(tickwheel::timer),
                sizeof(hold));
    std::printf("%zu confirmed, %zu released, %zu expired; %zu times sold out, %zu times too late\n",
                count_of(hold::state::confirmed), count_of(hold::state::released), count_of(hold::state::expired),
                sold_out_, too_late_);
    require(count_of(hold::state::none) == 0 && count_of(hold::state::open) == 0 && still_armed == 0,
            "a hold has not ended");
    std::printf("reserved == confirmed + open after each of %zu steps, nothing oversold: right\n", 2 * holds_.size());
  }

 private:
  void request() {
    article& wanted = articles_[random_.below(asked_.articles)];
    if (wanted.has_left())
      require(holds_.emplace_back(timers_, wanted).begin(asked_.hold_time) == 0, "a hold was refused");
    else
      ++sold_out_;
  }

  void decide(hold& h) {
    const double mind = random_.part();
    if (mind < asked_.confirmed)
      too_late_ += !h.confirm();
    else if (mind < asked_.confirmed + asked_.released)
      too_late_ += !h.release();
  }

  /// The counts of the articles must agree with their holds.
  void recount() const {
    std::vector<article> counted(articles_.size());
    for (const hold& h : holds_) {
      article& a = counted[static_cast<std::size_t>(&h.what() - articles_.data())];
      a.open += h.how() == hold::state::open;
      a.confirmed += h.how() == hold::state::confirmed;
      require(h.how() != hold::state::open || h.waits(), "an open hold has no timer");
    }
    for (std::size_t i = 0; i < counted.size(); ++i)
      require(counted[i].open == articles_[i].open && counted[i].confirmed == articles_[i].confirmed &&
                  counted[i].open + counted[i].confirmed == articles_[i].reserved,
              "the count of all holds differs from what was reserved");
  }

  const options& asked_;
  random_numbers random_;
  tickwheel::manual_driver time_;
  tickwheel::timer_service timers_;
  std::vector<article> articles_;
  std::deque<hold> holds_;  // a deque, because timers cannot move
  std::size_t sold_out_ = 0, too_late_ = 0;
  nanoseconds took_{};
};

}  // namespace

int main(int argc, char** argv) {
  options o;
  CLI::App app{"Holds on stock, millions of them, on a clock turned by hand: nothing is oversold.", "reservations"};
  app.add_option("--holds", o.holds, "how many to make")->capture_default_str()->check(CLI::Range(1, 100'000'000));
  app.add_option("--articles", o.articles, "how many there are to choose from")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  add_duration(app, "--hold-time", o.hold_time, 1min, 1s,
               "how long each keeps its unit: minutes, or with a unit [30m]");
  add_duration(app, "--rush", o.rush, 1s, 1ms, "the time they are all made in: seconds, or with a unit [1m]");
  app.add_option("--confirmed", o.confirmed, "share of the customers that pay")
      ->capture_default_str()
      ->check(number_range(0, 1));
  app.add_option("--released", o.released, "share of them that change their mind")
      ->capture_default_str()
      ->check(number_range(0, 1));
  app.add_option("--seed", o.seed, "of the random numbers")->capture_default_str()->check(whole_number());
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  if (o.confirmed + o.released > 1) {
    std::fprintf(stderr, "reservations: --released: with --confirmed it is more than all\n");
    return exit_bad_usage;
  }
  sale s{o};
  s.open();
  s.decide();
  s.report();
  return 0;
}
