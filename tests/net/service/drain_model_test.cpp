// Random calls on drains, their members and their service, compared with a model made only from drain.hpp.
//
// The model keeps no lists and no order. In each handler it says whether that handler may be called, and after each step
// who must have been called, and who must have been notified.
#include <tickwheel/core/detail/splitmix64.hpp>
#include <tickwheel/net/drain.hpp>

#include "../../support/long_runs.hpp"
#include "../../uv/support/probe.hpp"

#include <map>

namespace {

using std::chrono::nanoseconds;
using tickwheel::drain_call;
using tickwheel::drain_limits;
using tickwheel::service_options;
using time_point = tickwheel::clock::time_point;

constexpr std::size_t calls_a_pass = 256;
constexpr int groups = 2;

class drains {
 public:
  explicit drains(std::uint64_t seed) : random_{seed} {
    constexpr std::array<nanoseconds, 3> ticks{17us, 131us, 1000us};
    constexpr std::array<std::size_t, 3> limits{1, service_options{}.max_armed, service_options{}.max_armed};
    options_.tick = any_of(ticks);
    options_.max_armed = any_of(limits);
    options_.work_per_pass = one_in(3) ? 1 : 1000;
    crowd_ = one_in(4) ? 255 + random_.up_to(3) : one_in(4) ? 2 * calls_a_pass + random_.up_to(90) : 6;
    create();
    for (auto left = random_.up_to(crowd_); left != 0; --left) join();
  }

  /// Returns the first difference; an empty string if there is none.
  std::string run() {
    for (at_ = 0; at_ < 60 && wrong_.empty(); ++at_) {
      step(false);
      if (one_in(2)) advance(some_time());
      compare();
    }
    run_out();
    return wrong_;
  }

  std::size_t told() const { return told_; }
  std::size_t stopped() const { return stopped_; }
  std::size_t notified() const { return notified_; }

 private:
  // --- what is compared ---

  struct group {
    group(drains& in, std::size_t number) : in_{in}, number_{number}, drain{*in.timers_, *this} {}
    void on_drained() noexcept { in_.on_drained(number_); }

    drains& in_;
    std::size_t number_;
    tickwheel::drain<&group::on_drained> drain;
  };
  struct connection {
    connection(drains& in, std::size_t id, group& of) : in_{in}, id_{id}, member{of.drain, *this} {}
    void on_drain(drain_call call) noexcept { in_.on_call(id_, call); }

    drains& in_;
    std::size_t id_;
    tickwheel::drain_member<&connection::on_drain> member;
  };

  // --- the model ---

  struct group_model {
    bool draining = false;
    drain_limits limits{};
    time_point stop_at{};
    time_point spread_until{};
    time_point empty_since{};
    std::uint64_t started_in = 0;  // the pass
    std::uint64_t last_pass = 0;
    std::size_t in_pass = 0;  // calls in that
    std::size_t size = 0;
    std::size_t most_after_stop = 0;  // members, before the first was stopped
    std::size_t stops = 0;
  };
  // Likes to do one thing when it is called.
  enum class habit : std::uint8_t { goes, serves, lingers, works, anything };
  struct member_model {
    std::optional<std::size_t> of;  // nothing: it left, or its drain is gone
    habit does{};
    bool busy = false;
    bool told = false;  // since its last request, or since the start
    bool stopped = false;
    std::uint64_t told_in = 0;  // the pass
    time_point must_be_told_after{};
    time_point joined{};
  };

  void fail(const std::string& what) {
    if (wrong_.empty()) wrong_ = "step " + std::to_string(at_) + ": " + what;
  }
  void expect(bool holds, const char* what) {
    if (!holds) fail(what);
  }

  // --- by chance ---

  bool one_in(std::uint64_t count) { return random_.up_to(count - 1) == 0; }
  template <class T, std::size_t N>
  T any_of(const std::array<T, N>& from) {
    return from[random_.up_to(N - 1)];
  }
  nanoseconds some_limit() {
    const nanoseconds tick = timers_ ? timers_->tick_duration() : 1ms;
    const std::array<nanoseconds, 8> all{1ns, tick - 1ns, tick, tick + 1ns, 20 * tick, 10ms, 100ms, 30s};
    return any_of(all);
  }
  drain_limits some_limits() {
    if (one_in(20)) return {.hard_stop = one_in(2) ? 0ns : -1ns};
    if (one_in(20)) return {.spread = -1ns};
    return {.hard_stop = one_in(10) ? nanoseconds::max() : some_limit(),
            .spread = one_in(4)    ? 0ns
                      : one_in(20) ? nanoseconds::max()
                                   : some_limit(),
            .seed = random_.next()};
  }
  // Also up to a moment that counts.
  nanoseconds some_time() {
    const group_model& g = model_[random_.up_to(groups - 1)];
    const nanoseconds off{static_cast<int>(random_.up_to(2)) - 1};
    const nanoseconds most = 1h;
    switch (random_.up_to(5)) {
      case 0:
        return g.draining && g.stop_at > now() ? std::min<nanoseconds>(g.stop_at - now() + off, most) : 0ns;
      case 1:
        return g.draining && g.spread_until > now() ? std::min<nanoseconds>(g.spread_until - now() + off, most) : 0ns;
      case 2:
        return some_limit();
      case 3:
        return 10 * some_limit();
      default:
        return (timers_ ? timers_->tick_duration() : 1ms) * static_cast<int>(random_.up_to(3));
    }
  }
  std::optional<std::size_t> any_member() {
    if (members_.empty()) return {};
    const auto found = members_.lower_bound(random_.up_to(next_id_));
    return found == members_.end() ? members_.begin()->first : found->first;
  }

  time_point now() { return time_.now(); }
  // Changes with each turn of the driver.
  std::uint64_t pass() const { return *time_.epoch(); }

  // --- operations ---

  void create() {
    timers_ = std::make_unique<tickwheel::timer_service>();
    for (std::size_t g = 0; g < groups; ++g) make_group(g);
    open();
  }
  void make_group(std::size_t g) {
    groups_[g] = std::make_unique<group>(*this, g);
    model_[g] = {};
  }
  void destroy_group(std::size_t g) {
    for (auto& [id, m] : members_model_)
      if (m.of == g) m.of.reset();
    model_[g] = {};
    groups_[g].reset();
  }
  void open() {
    const int expected = timers_->is_open() ? UV_EALREADY : 0;
    expect(timers_->open(time_, options_) == expected, "open answers wrongly");
  }
  void ended_by_service() {
    for (group_model& g : model_) g.draining = false;
  }
  std::size_t armed() const {
    return static_cast<std::size_t>(std::count_if(model_.begin(), model_.end(), [](auto& g) { return g.draining; }));
  }

  void join() {
    const auto g = static_cast<std::size_t>(one_in(4));
    if (!groups_[g]) return;
    const std::size_t id = next_id_++;
    members_[id] = std::make_unique<connection>(*this, id, *groups_[g]);
    constexpr std::array all{habit::goes,    habit::goes,    habit::serves, habit::serves,
                             habit::lingers, habit::lingers, habit::works,  habit::anything};
    member_model& m = members_model_[id];
    m.of = g;
    m.does = crowd_ < calls_a_pass || one_in(20) ? any_of(all) : all_do_;
    m.must_be_told_after = m.joined = now();
    ++model_[g].size;
    if (one_in(3)) begin(id);
  }
  void left(std::size_t id) {
    member_model& m = members_model_.at(id);
    if (!m.of) return;
    group_model& g = model_[*m.of];
    note_size(g);
    if (--g.size == 0) g.empty_since = now();
    m.of.reset();
  }
  // As many as this may share the spread.
  void note_size(group_model& g) {
    if (g.stops == 0 && now() >= g.stop_at) g.most_after_stop = std::max(g.most_after_stop, g.size);
  }
  void leave(std::size_t id) {
    members_.at(id)->member.leave();
    left(id);
  }
  void destroy(std::size_t id) {
    const auto gone = std::move(members_.at(id));
    members_.erase(id);
    left(id);
    members_model_.erase(id);
  }
  void begin(std::size_t id) {
    members_.at(id)->member.begin_request();
    members_model_.at(id).busy = true;
  }
  void end(std::size_t id) {
    members_.at(id)->member.end_request();
    member_model& m = members_model_.at(id);
    if (!m.busy) return;
    m.busy = false;
    m.must_be_told_after = now();
    if (!m.of) return;
    const group_model& g = model_[*m.of];
    if (g.draining && m.told && timers_->now() >= g.stop_at) return;  // it waits for its turn to be stopped
    m.told = false;
  }
  void serve(std::size_t id) {
    begin(id);
    end(id);
  }

  void start(std::size_t number) {
    if (!groups_[number]) return;
    group_model& g = model_[number];
    const drain_limits limits = some_limits();
    const int expected = limits.problem() != nullptr     ? UV_EINVAL
                         : g.draining                    ? UV_EALREADY
                         : !timers_->is_open()           ? UV_ECANCELED
                         : armed() >= options_.max_armed ? UV_ENOBUFS
                                                         : 0;
    expect(groups_[number]->drain.start(limits) == expected, "start answers wrongly");
    if (expected != 0) return;
    const std::size_t size = g.size;
    g = {};
    g.draining = true;
    g.limits = limits;
    g.stop_at = tickwheel::detail::add_saturating(now(), limits.hard_stop);
    g.spread_until = tickwheel::detail::add_saturating(g.stop_at, limits.spread);
    g.empty_since = now();
    g.started_in = pass();
    g.size = size;
    for (auto& [id, m] : members_model_) {
      if (m.of != number) continue;
      m.told = m.stopped = false;
      m.must_be_told_after = m.joined = now();
    }
  }
  void cancel(std::size_t number) {
    if (!groups_[number]) return;
    expect(groups_[number]->drain.cancel() == model_[number].draining, "cancel answers wrongly");
    model_[number].draining = false;
  }

  void step(bool in_handler) {
    if (!timers_) return create();
    if (const auto id = any_member()) {
      switch (random_.up_to(9)) {
        case 0:
          return leave(*id);
        case 1:
          return destroy(*id);
        case 2:
          return begin(*id);
        case 3:
          return end(*id);
        case 4:
          return serve(*id);
        default:
          break;
      }
    }
    const auto g = static_cast<std::size_t>(one_in(4));
    switch (random_.up_to(in_handler ? 30 : 16)) {
      case 0:
      case 1:
      case 2:
        return start(g);
      case 3:
        return one_in(3) ? cancel(g) : void();
      case 4:
        if (!one_in(5)) return;
        timers_->close();
        ended_by_service();
        return one_in(2) ? open() : void();
      case 5:
        return timers_->is_open() && !one_in(8) ? void() : open();
      case 6:
        if (!one_in(5)) return;
        groups_[g] ? destroy_group(g) : make_group(g);
        return;
      case 7:
        if (!one_in(10)) return;
        timers_.reset();
        ended_by_service();
        // the drains of a service that is gone may only be destroyed
        for (std::size_t each = 0; each < groups; ++each) destroy_group(each);
        return;
      case 8:
        time_.block(one_in(2) ? 2ms + 1ns : 40ms);
        blocked_until_ = now();
        return;
      case 9:
        return in_handler ? void() : pipeline();
      case 10:
        return in_handler ? void() : join_all();
      default:
        return join();
    }
  }

  void join_all() {
    constexpr std::array all{habit::goes, habit::serves, habit::lingers, habit::works};
    all_do_ = any_of(all);
    for (auto left = one_in(3) ? crowd_ : 1; left != 0; --left) join();
  }

  // Each member ends a request and begins another one before each pass.
  void pipeline() {
    if (!timers_->is_open()) return;
    const nanoseconds tick = timers_->tick_duration();
    for (auto left = 5 + random_.up_to(20); left != 0 && timers_; --left) {
      for (auto& [id, c] : members_) {
        end(id);
        begin(id);
      }
      advance(tick);
    }
  }

  void advance(nanoseconds by) {
    if (by > 0ns || one_in(2)) time_.advance(by);
    check_who_waits();
  }

  // --- handlers ---

  void begin_handler(group_model& g) {
    expect(g.draining, "a handler of a drain that is not draining");
    expect(pass() != g.started_in, "a handler in the pass in which the drain was started");
    if (std::exchange(g.last_pass, pass()) != pass()) g.in_pass = 0;
    expect(++g.in_pass <= calls_a_pass, "more than 256 calls in a pass");
  }

  void on_call(std::size_t id, drain_call call) {
    if (!wrong_.empty()) return;
    const auto found = members_model_.find(id);
    if (found == members_model_.end()) return fail("a destroyed member is called");
    member_model& m = found->second;
    if (!m.of) return fail("a member that left is called");
    group_model& g = model_[*m.of];
    begin_handler(g);
    expect(!m.stopped, "a member is called after it was told to stop");
    if (call == drain_call::idle) {
      ++told_;
      expect(!m.busy, "a busy member is told that it is idle");
      expect(!m.told, "a member is told twice that it is idle");
      expect(m.told_in != pass(), "a member is told twice in a pass");
      m.told = true;
      m.told_in = pass();
    } else {
      ++stopped_;
      expect(now() >= g.stop_at, "a member is told to stop before the hard stop");
      note_size(g);
      expect_share(g, ++g.stops);
      m.stopped = true;
    }
    react(id, m.does, call);
  }

  // No share of the spread begins before its time.
  void expect_share(const group_model& g, std::size_t stops) {
    if (g.limits.spread == 0ns || now() >= g.spread_until) return;
    const double share = static_cast<double>(g.limits.spread.count()) / static_cast<double>(g.most_after_stop);
    const double passed = static_cast<double>((now() - g.stop_at).count());
    expect(static_cast<double>(stops - 1) <= passed / share + 1e-3, "a member is told to stop before its share");
  }

  void react(std::size_t id, habit does, drain_call call) {
    switch (does) {
      case habit::goes:
        one_in(2) ? destroy(id) : leave(id);
        break;
      case habit::serves:
        serve(id);
        break;
      case habit::works:
        if (call == drain_call::idle) begin(id);
        break;
      case habit::lingers:
        break;
      case habit::anything:
        for (auto left = random_.up_to(4); left != 0; --left) step(true);
    }
    if (one_in(crowd_)) step(true);
  }

  void on_drained(std::size_t number) {
    if (!wrong_.empty()) return;
    ++notified_;
    group_model& g = model_[number];
    begin_handler(g);
    expect(g.size == 0, "the owner is notified before all have left");
    expect(!groups_[number]->drain.draining(), "it drains while the owner is notified");
    g.draining = false;
    for (auto left = random_.up_to(2); left != 0; --left) step(true);
  }

  // --- after each step ---

  // Time in which so many members are visited twice: one pass follows the other a tick later.
  nanoseconds enough(std::size_t members) const {
    return timers_->tick_duration() * static_cast<int>(2 * members / calls_a_pass + 4) + 1ms;
  }
  // Nothing can be done while the loop is blocked.
  nanoseconds late(time_point due) { return now() - std::max(due, blocked_until_); }
  void check_who_waits() {
    if (!timers_ || !timers_->is_open() || !wrong_.empty()) return;
    for (const group_model& g : model_) {
      if (!g.draining) continue;
      expect(g.size != 0 || late(g.empty_since) <= enough(0), "the owner is not notified");
    }
    for (auto& [id, m] : members_model_) {
      if (!m.of || !model_[*m.of].draining || m.stopped) continue;
      group_model& g = model_[*m.of];
      const nanoseconds longest = enough(members_.size());
      expect(m.busy || m.told || late(m.must_be_told_after) <= longest, "an idle member is not told");
      if (g.spread_until <= now())
        expect(late(std::max(g.spread_until, m.joined)) <= longest, "a member is not told to stop");
    }
  }

  void compare() {
    if (!wrong_.empty() || !timers_) return;
    std::string why;
    if (at_ % 8 == 0 && !timers_->validate(&why)) fail(why);
    for (std::size_t g = 0; g < groups; ++g) {
      if (!groups_[g]) continue;
      expect(groups_[g]->drain.draining() == model_[g].draining, "draining answers wrongly");
      expect(groups_[g]->drain.size() == model_[g].size, "size answers wrongly");
    }
    for (auto& [id, c] : members_)
      expect(c->member.in_flight() == members_model_.at(id).busy, "in_flight answers wrongly");
    if (timers_->is_open()) expect(time_.alive() == (armed() != 0), "another number is armed");
  }

  // All members leave: each drain ends.
  void run_out() {
    for (auto& [id, m] : members_model_) m.does = habit::goes;
    while (!members_.empty()) destroy(members_.begin()->first);
    crowd_ = 1'000'000;
    if (!timers_ || !timers_->is_open()) return;
    advance(10ms);
    compare();
  }

  tickwheel::detail::splitmix64 random_;
  service_options options_;
  std::size_t crowd_ = 0;
  habit all_do_ = habit::serves;

  tickwheel::manual_driver time_{time_point{1h}};
  std::unique_ptr<tickwheel::timer_service> timers_;
  std::array<std::unique_ptr<group>, groups> groups_;
  std::map<std::size_t, std::unique_ptr<connection>> members_;
  std::array<group_model, groups> model_;
  std::map<std::size_t, member_model> members_model_;
  time_point blocked_until_{};
  std::size_t next_id_ = 0;
  int at_ = 0;
  std::size_t told_ = 0, stopped_ = 0, notified_ = 0;
  std::string wrong_;
};

TEST(drain_model, agrees_about_random_calls) {
  const std::size_t seeds = by_run_length(100, 20'000);
  std::size_t told = 0, stopped = 0, notified = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    drains both{seed};
    const std::string wrong = both.run();
    ASSERT_EQ(wrong, "") << "seed " << seed;
    told += both.told();
    stopped += both.stopped();
    notified += both.notified();
  }
  EXPECT_GT(told, 100 * seeds);  // else it would test little
  EXPECT_GT(stopped, 10 * seeds);
  EXPECT_GT(notified, seeds);
}

}  // namespace
