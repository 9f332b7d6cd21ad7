// Half a million simulated calls on a clock turned by hand, whose answers are late, doubled, lost or errors. Callers cancel, destroy
// and restart calls, and close the policy or the service, also in handlers. A ledger of its own checks each attempt, and that each
// call has exactly one result.
#include <tickwheel/core/detail/splitmix64.hpp>
#include <tickwheel/net/call_policy.hpp>

#include "../../support/long_runs.hpp"
#include "../../uv/support/probe.hpp"

#include <queue>
#include <unordered_map>

namespace {

using std::chrono::nanoseconds;
using tickwheel::call_attempt;
using tickwheel::call_policy_options;
using tickwheel::deadline;
using time_point = tickwheel::clock::time_point;

struct scenario {
  const char* name;
  call_policy_options options;
  tickwheel::service_options of_service{};

  friend std::ostream& operator<<(std::ostream& out, const scenario& s) { return out << s.name; }
};

class simulation {
 public:
  struct call : tickwheel::policy_call {
    call(simulation& in, std::size_t at) : policy_call{in.service.timers}, of{in}, place{at} {}
    ~call() { of.on_destroyed(*this); }
    int send(call_attempt a) noexcept { return of.on_send(*this, a); }
    void on_failed(int error) noexcept { of.on_failed(*this, error); }

    simulation& of;
    std::size_t place;
    // since the last start
    bool running = false;  // no result yet
    unsigned sent = 0;
    unsigned hedges = 0;
    time_point begun{};
    time_point not_before{};
    nanoseconds hedge_delay{};
    deadline limit{};
    std::vector<call_attempt> waiting;  // attempts that have neither ended nor been seen to expire
    time_point sent_at[2]{};            // the first attempt or last retry, and the hedge
  };
  using policy = tickwheel::call_policy<&call::send, &call::on_failed>;

  explicit simulation(const scenario& s) : scenario_{s}, service{s.of_service}, random_{99} {
    calls_.resize(96);
    reopen();
  }
  ~simulation() { calls_.clear(); }
  simulation(const simulation&) = delete;
  simulation& operator=(const simulation&) = delete;

  void run(std::uint64_t count) {
    for (std::uint64_t steps = 0; started_ < count && !testing::Test::HasFailure(); ++steps) {
      step();
      if (steps % 1024 == 0) check();
    }
    // the rest ends by itself, if it is limited at all
    while (!answers_.empty()) deliver_next();
    service.time.advance(1h);
    for (auto& c : calls_) {
      if (c != nullptr && c->running) {
        EXPECT_EQ(scenario_.options.total_timeout, nanoseconds::max()) << "a call has no result in an hour";
        end_by_cancel(*c);
      }
    }
    check();
    EXPECT_EQ(results_, started_);
    EXPECT_FALSE(service.time.alive());
  }

  // how often the rare events happened
  std::uint64_t answered = 0, failed = 0, cancelled = 0, unmatched = 0, retries = 0, hedges = 0, hedges_won = 0,
                closed = 0;
  std::uint64_t out_of_budget = 0, out_of_attempts = 0, past_deadline = 0, most_answers = 0;

 private:
  enum class kind : std::uint8_t { answer, error };
  struct answer {
    time_point at;
    std::uint64_t id;
    kind what;
    nanoseconds at_least;
    bool operator<(const answer& other) const { return at > other.at; }  // the earliest is the top
  };

  const call_policy_options& options() const { return scenario_.options; }
  std::uint64_t any(std::uint64_t below) { return random_.up_to(below - 1); }
  bool one_in(std::uint64_t n) { return any(n) == 0; }
  time_point now() { return service.timers.is_open() ? service.timers.read_clock() : service.time.now(); }

  void reopen() {
    ASSERT_EQ(policy_.open(options()), 0) << options().problem();
    deposits_ = taken_ = 0;
    answers_since_open_ = 0;
    times_.clear();
    opened_at_ = now();
  }

  void check() {
    service.check();
    std::string why;
    EXPECT_TRUE(policy_.validate(&why)) << why;
  }

  // A time near one that decides something.
  nanoseconds any_time() {
    const nanoseconds decisive[]{
        options().attempt_timeout, options().total_timeout, policy_.hedge_delay(), options().hedge_delay, 5ms, 40ms};
    nanoseconds t = decisive[any(std::size(decisive))];
    if (t > 1min) t = 1s;
    switch (any(4)) {
      case 0:
        return t;
      case 1:
        return std::max(t - nanoseconds{static_cast<std::int64_t>(any(400'000))}, nanoseconds{1});
      case 2:
        return t + nanoseconds{static_cast<std::int64_t>(any(400'000))};
      default:
        return random_.up_to(2 * t);
    }
  }

  void step() {
    switch (any(24)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
      case 5:
        start_any();
        break;
      case 6:
        if (call* const c = any_call()) {
          if (c->running && one_in(4)) end_by_cancel(*c);
        }
        break;
      case 7:
        if (one_in(8)) calls_[any(calls_.size())].reset();
        break;
      case 8:
        if (one_in(64)) fail_all();
        break;
      case 9:
        if (one_in(8)) block(any_time());
        break;
      case 10:
        service.time.advance(random_.up_to(any_time() / 8));
        break;
      case 11:
        if (one_in(1000)) close_policy();
        break;
      case 12:
        if (one_in(1000)) service.timers.close();
        break;
      default:
        if (!answers_.empty()) deliver_next();
    }
    recover();
  }

  // Opens what a handler has closed.
  void recover() {
    if (!service.timers.is_open()) {
      for (auto& c : calls_)
        if (c != nullptr && c->running) end_by_cancel(*c);
      ASSERT_EQ(service.timers.open(service.time, scenario_.of_service), 0);
    }
    if (!policy_.is_open()) reopen();
  }

  call* any_call() { return calls_[any(calls_.size())].get(); }

  void start_any() {
    const std::size_t place = any(calls_.size());
    if (calls_[place] == nullptr) calls_[place] = std::make_unique<call>(*this, place);
    start(*calls_[place]);
  }

  void start(call& c) {
    if (c.running) {
      // a handler of this step may have closed the service
      EXPECT_EQ(policy_.start(c), service.timers.is_open() ? UV_EALREADY : UV_ECANCELED);
      return;
    }
    deadline until{};
    if (one_in(4)) until = deadline::after(any_time(), now());
    if (one_in(100)) until = deadline::at(now());
    c.running = true;
    c.sent = c.hedges = 0;
    c.begun = now();
    c.not_before = time_point::min();
    c.hedge_delay = policy_.hedge_delay();
    if (one_in(32) || times_.size() % 1024 < 2 || times_.size() == 99 || times_.size() == 100) {
      EXPECT_EQ(c.hedge_delay, expected_hedge_delay()) << times_.size() << " answers";
    }
    c.limit = tighter(until, deadline::after(options().total_timeout, c.begun));
    c.waiting.clear();
    const std::size_t place = c.place;
    const bool could = policy_.is_open() && service.timers.is_open();
    const std::size_t pending = policy_.pending();
    const std::uint64_t before = sends_;
    const int error = policy_.start(c, until);
    if (error == 0) {
      EXPECT_GT(sends_, before);
      return;
    }
    // it is refused, or its only attempt could not be sent; nobody has destroyed it
    ASSERT_NE(calls_[place], nullptr);
    EXPECT_FALSE(c.pending());
    if (sends_ == before) {
      c.running = false;
      if (error == UV_ECANCELED) {
        EXPECT_FALSE(could);
      } else if (error == UV_ETIMEDOUT) {
        EXPECT_TRUE(until.passed(now()));
      } else {
        EXPECT_EQ(error, UV_ENOBUFS);
        EXPECT_TRUE(pending == options().capacity || service.timers.stats().pending >= scenario_.of_service.max_armed);
      }
      return;
    }
    EXPECT_EQ(error, UV_EPIPE);
    note_failure(c);
    result(c);
  }

  int on_send(call& c, call_attempt a) {
    EXPECT_TRUE(c.running && c.pending());
    EXPECT_EQ(a.number, ++c.sent);
    EXPECT_EQ(c.attempts(), c.sent);
    EXPECT_LE(c.sent, options().max_attempts);
    EXPECT_GT(a.id, last_id_) << "ids count up";
    last_id_ = a.id;
    EXPECT_EQ(c.until(), c.limit);
    EXPECT_FALSE(c.limit.passed(now()));
    EXPECT_EQ(a.until, tighter(c.limit, deadline::after(options().attempt_timeout, now())));
    ++sends_;
    if (a.number == 1) {
      ++started_;
      ++deposits_;
      EXPECT_FALSE(a.is_hedge);
    } else if (a.is_hedge) {
      ++hedges;
      EXPECT_GT(options().hedge_quantile, 0);
      EXPECT_EQ(a.number, 2U);
      EXPECT_EQ(++c.hedges, 1U);
      EXPECT_EQ(c.waiting.size(), 1U);
      EXPECT_GE(now() - c.begun, c.hedge_delay);
    } else {
      ++retries;
      for (const call_attempt& old : c.waiting) EXPECT_TRUE(old.until.passed(now())) << "it still waited";
      forget_waiting(c);
      EXPECT_GE(now(), c.not_before);
    }
    if (a.number != 1) ++taken_;
    expect_within_budget();
    c.waiting.push_back(a);
    c.sent_at[a.is_hedge] = now();
    waiting_.emplace(a.id, &c);
    return decide(c, a);
  }

  void expect_within_budget() {
    const auto& budget = options().budget;
    const auto elapsed = static_cast<std::uint64_t>((now() - opened_at_).count());
    const std::uint64_t earned = std::uint64_t{budget.max_tokens} * 100 + deposits_ * budget.percent +
                                 elapsed / 10'000'000 * budget.per_second + budget.per_second;
    EXPECT_LE(taken_ * 100, earned);
  }

  // The fate of an attempt.
  int decide(call& c, call_attempt a) {
    const auto later = [&](kind what) {
      answers_.push({now() + any_time(), a.id, what, one_in(8) ? any_time() : 0ns});
    };
    switch (any(32)) {
      case 0:  // lost
      case 1:
      case 2:
      case 3:
        return 0;
      case 4:  // doubled
      case 5:
        later(kind::answer);
        later(kind::answer);
        return 0;
      case 6:
        later(kind::answer);
        later(kind::error);
        return 0;
      case 7:
      case 8:
      case 9:
        later(kind::error);
        return 0;
      case 10:
      case 11:
        forget(c, a.id);
        c.not_before = std::max(c.not_before, now());
        return UV_EPIPE;
      case 12:  // from a cache
        complete(a.id);
        return one_in(2) ? 0 : int{UV_EPIPE};
      case 13:
        if (one_in(2)) report_failure(a.id, one_in(2) ? any_time() : 0ns);
        return 0;
      case 14:
        if (one_in(8)) {
          end_by_cancel(c);
          return one_in(2) ? 0 : int{UV_EPIPE};
        }
        return 0;
      case 15:
        if (one_in(8)) {
          const int error = one_in(2) ? 0 : int{UV_EPIPE};
          calls_[c.place].reset();
          return error;
        }
        return 0;
      case 16:
        if (one_in(1000)) {
          close_policy();
          return one_in(2) ? 0 : int{UV_EPIPE};
        }
        return 0;
      case 17:
        if (one_in(1000)) {
          service.timers.close();
          if (one_in(2)) return 0;
          forget(c, a.id);
          return UV_EPIPE;
        }
        return 0;
      case 18:
        if (one_in(4)) start_any();
        return 0;
      default:
        answers_.push({now() + random_.up_to(std::min<nanoseconds>(any_time(), 50ms)), a.id, kind::answer, 0ns});
        return 0;
    }
  }

  void deliver_next() {
    const answer next = answers_.top();
    answers_.pop();
    if (next.at > service.time.now()) service.time.advance(next.at - service.time.now());
    if (next.what == kind::answer)
      complete(next.id);
    else
      report_failure(next.id, next.at_least);
  }

  // Finds the call of an attempt that waits; null if it does not, or may have expired.
  call* certainly_waiting(std::uint64_t id) {
    const auto found = waiting_.find(id);
    if (found == waiting_.end()) return nullptr;
    for (const call_attempt& a : found->second->waiting)
      if (a.id == id) return a.until.passed(now()) ? nullptr : found->second;
    ADD_FAILURE() << "the ledger is wrong";
    return nullptr;
  }
  bool may_wait(std::uint64_t id) const { return waiting_.count(id) != 0; }

  void complete(std::uint64_t id) {
    call* const certain = certainly_waiting(id);
    const bool may = may_wait(id);
    const std::uint64_t won = policy_.stats().hedges_won;
    const std::uint64_t unmatched_before = policy_.stats().unmatched;
    note_answer_time(id);
    call* const got = policy_.complete(id);
    if (certain != nullptr) {
      EXPECT_EQ(got, certain);
    }
    if (got == nullptr) {
      ++unmatched;
      EXPECT_EQ(policy_.stats().unmatched, unmatched_before + 1);
      return;
    }
    EXPECT_TRUE(may) << "an attempt was answered that had ended";
    EXPECT_FALSE(got->pending());
    ++answered;
    most_answers = std::max(most_answers, ++answers_since_open_);
    hedges_won += policy_.stats().hedges_won - won;
    result(*got);
  }

  void note_answer_time(std::uint64_t id) {
    const call* const c = policy_.find(id);
    if (c == nullptr || !service.timers.is_open()) return;
    time_point since = c->sent_at[0];
    for (const call_attempt& a : c->waiting) {
      if (!a.is_hedge || a.id != id) continue;
      // its first attempt waits, unless a failure or the policy has ended that one
      const auto first = std::find_if(c->waiting.begin(), c->waiting.end(),
                                      [&](const auto& other) { return policy_.find(other.id) != nullptr; });
      if (first->id == id) since = c->sent_at[1];
    }
    times_.push_back(std::max(service.timers.now() - since, 0ns));
  }
  nanoseconds expected_hedge_delay() const {
    if (options().hedge_quantile == 0 || !policy_.is_open()) return nanoseconds::max();
    if (times_.size() < 100) return options().hedge_delay;
    std::vector<nanoseconds> last(
        times_.end() - static_cast<std::ptrdiff_t>(std::min<std::size_t>(times_.size(), 1024)), times_.end());
    const auto rank = std::ceil(options().hedge_quantile * static_cast<double>(last.size()));
    const auto place = last.begin() + static_cast<std::ptrdiff_t>(rank) - 1;
    std::nth_element(last.begin(), place, last.end());
    return *place;
  }

  void report_failure(std::uint64_t id, nanoseconds at_least) {
    call* const certain = certainly_waiting(id);
    const auto found = waiting_.find(id);
    const bool may = found != waiting_.end();
    if (certain != nullptr) {
      certain->not_before = std::max(certain->not_before, now() + at_least);
      forget(*certain, id);
    } else if (may) {
      // it may have expired, unnoticed by the ledger
      forget(*found->second, id);
    }
    const bool did = policy_.fail(id, UV_EAGAIN, at_least);
    if (certain != nullptr) {
      EXPECT_TRUE(did);
    }
    if (!may) {
      EXPECT_FALSE(did);
    }
    unmatched += !did;
  }

  void fail_all() {
    failing_all_ = true;
    policy_.fail_all(UV_ECONNRESET);
    failing_all_ = false;
    for (auto& c : calls_) {
      if (c == nullptr) continue;
      std::vector<std::uint64_t> gone;
      for (const call_attempt& a : c->waiting)
        if (policy_.find(a.id) == nullptr) gone.push_back(a.id);
      for (const std::uint64_t id : gone) forget(*c, id);
    }
  }

  void on_failed(call& c, int error) {
    EXPECT_TRUE(c.running);
    EXPECT_FALSE(c.pending());
    EXPECT_TRUE(error == UV_ETIMEDOUT || error == UV_EAGAIN || error == UV_EPIPE || error == UV_ECONNRESET ||
                error == UV_ENOBUFS)
        << uv_err_name(error);
    if (!failing_all_) {
      for (const call_attempt& old : c.waiting) EXPECT_TRUE(old.until.passed(now())) << "it still waited";
    }
    note_failure(c);
    result(c);
    switch (any(32)) {
      case 0:
      case 1:
      case 2:
        start(c);
        return;
      case 3:
      case 4:
        calls_[c.place].reset();
        return;
      case 5:
        if (call* const other = any_call()) {
          if (other->running) end_by_cancel(*other);
        }
        return;
      case 6:
        calls_[any(calls_.size())].reset();
        return;
      case 7:
        start_any();
        return;
      case 8:
        if (one_in(500)) close_policy();
        return;
      case 9:
        if (one_in(500)) service.timers.close();
        return;
      case 10:
        if (!failing_all_ && one_in(50)) fail_all();
        return;
      case 11:
        if (one_in(50)) service.time.block(any_time());
        return;
      default:
        return;
    }
  }

  void note_failure(const call& c) {
    ++failed;
    out_of_budget += c.last_retry() == tickwheel::retry_result::out_of_budget;
    out_of_attempts += c.last_retry() == tickwheel::retry_result::out_of_attempts;
    past_deadline += c.last_retry() == tickwheel::retry_result::past_deadline;
    EXPECT_NE(c.last_retry(), tickwheel::retry_result::scheduled);
  }

  void end_by_cancel(call& c) {
    EXPECT_TRUE(c.running);
    EXPECT_TRUE(c.cancel());
    EXPECT_FALSE(c.pending());
    ++cancelled;
    result(c);
  }

  void on_destroyed(call& c) {
    if (!c.running) return;
    EXPECT_TRUE(c.pending());
    ++cancelled;
    result(c);
  }

  void close_policy() {
    ++closed;
    policy_.close();
    for (auto& c : calls_) {
      if (c == nullptr) continue;
      EXPECT_FALSE(c->pending());
      if (!c->running) continue;
      ++cancelled;
      result(*c);
    }
    if (one_in(2)) reopen();
  }

  void result(call& c) {
    EXPECT_TRUE(c.running) << "a second result";
    c.running = false;
    ++results_;
    forget_waiting(c);
  }
  void forget(call& c, std::uint64_t id) {
    waiting_.erase(id);
    c.waiting.erase(std::remove_if(c.waiting.begin(), c.waiting.end(), [&](const auto& a) { return a.id == id; }),
                    c.waiting.end());
  }
  void forget_waiting(call& c) {
    for (const call_attempt& a : c.waiting) waiting_.erase(a.id);
    c.waiting.clear();
  }

  void block(nanoseconds by) { service.time.block(by); }

  const scenario scenario_;

 public:
  manual_service service;

 private:
  tickwheel::detail::splitmix64 random_;
  policy policy_;
  std::vector<std::unique_ptr<call>> calls_;
  std::priority_queue<answer> answers_;
  std::unordered_map<std::uint64_t, call*> waiting_;
  std::uint64_t last_id_ = 0;
  std::uint64_t sends_ = 0;
  std::uint64_t started_ = 0;
  std::uint64_t results_ = 0;
  std::uint64_t deposits_ = 0;  // since the policy was opened
  std::uint64_t taken_ = 0;
  std::uint64_t answers_since_open_ = 0;
  std::vector<nanoseconds> times_;  // of all answers since the policy was opened
  time_point opened_at_{};
  bool failing_all_ = false;
};

constexpr tickwheel::backoff_options soon{.base = 1ms, .cap = 20ms};
constexpr tickwheel::backoff_options no_delay{.base = 1ns, .cap = 1ns, .kind = tickwheel::jitter_kind::none};
constexpr call_policy_options usual{
    .capacity = 96, .attempt_timeout = 50ms, .total_timeout = 200ms, .backoff = soon, .hedge_delay = 10ms, .seed = 5};

template <class Change>
constexpr call_policy_options usual_but(Change change) {
  call_policy_options changed = usual;
  change(changed);
  return changed;
}

const scenario scenarios[]{
    {"retries", usual},
    {"hedges", usual_but([](auto& o) {
       o.hedge_quantile = 0.95;
       o.budget.percent = 50;
     })},
    {"hedge_of_two_attempts", usual_but([](auto& o) {
       o.hedge_quantile = 0.5;
       o.max_attempts = 2;
       o.budget = {.percent = 10, .max_tokens = 1};
     })},
    {"one_attempt", usual_but([](auto& o) {
       o.hedge_quantile = 0.9;
       o.max_attempts = 1;
     })},
    {"attempt_longer_than_call", usual_but([](auto& o) {
       o.attempt_timeout = 300ms;
       o.hedge_quantile = 0.9;
     })},
    {"hedge_at_deadline_of_attempt", usual_but([](auto& o) {
       o.hedge_quantile = 0.9;
       o.hedge_delay = o.attempt_timeout;
     })},
    {"no_delay", usual_but([](auto& o) {
       o.backoff = no_delay;
       o.max_attempts = call_policy_options::unlimited;
       o.budget = {.percent = 90, .per_second = 20, .max_tokens = 10};
     })},
    {"full_policy", usual_but([](auto& o) {
       o.capacity = 8;
       o.hedge_quantile = 0.75;
     })},
    {"full_service", usual_but([](auto& o) { o.hedge_quantile = 0.75; }), {.max_armed = 30}},
    {"no_limits", usual_but([](auto& o) {
       o.attempt_timeout = o.total_timeout = nanoseconds::max();
       o.hedge_quantile = 0.25;
       o.budget.percent = 30;
     })},
};
class call_policy_model : public testing::TestWithParam<scenario> {};

TEST_P(call_policy_model, each_call_has_one_result_within_limits) {
  simulation s{GetParam()};
  const std::size_t operations = by_run_length(500'000, 10'000'000) / std::size(scenarios);
  s.run(operations);
  const auto& o = GetParam().options;
  for (const std::uint64_t each : {s.answered, s.failed, s.cancelled, s.unmatched, s.closed})
    EXPECT_GT(each, operations / 10'000);
  EXPECT_GT(s.most_answers, 1024U);
  if (o.max_attempts > 1) {
    EXPECT_GT(s.retries, operations / 50);
    if (o.hedge_quantile > 0) {
      EXPECT_GT(s.hedges, operations / 500);
      EXPECT_GT(s.hedges_won, operations / 5000);
    }
  } else {
    EXPECT_EQ(s.retries + s.hedges, 0U);
  }
  if (o.max_attempts != call_policy_options::unlimited) {
    EXPECT_GT(s.out_of_attempts, 0U);
  }
  if (o.max_attempts > 1) {
    EXPECT_GT(s.out_of_budget, 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(scenarios, call_policy_model, testing::ValuesIn(scenarios),
                         [](const auto& of) { return std::string{of.param.name}; });

}  // namespace
