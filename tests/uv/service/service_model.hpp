// A model of a timer_service, made only from its contract, and a comparison of the two.
//
// The model keeps maps and knows no wheel. It follows the rules for stamps, blocks and batches. In each handler it says
// whether that handler may run, and after each turn which ones must have run. Within a pass, timers, posts and zero
// delays may run in any order among each other. A pass that has reached a bound may leave any of them.
#pragma once

#include "../support/probe.hpp"

#include <tickwheel/uv/remote.hpp>

#include <map>

namespace service_model {

using std::chrono::nanoseconds;
using time_point = tickwheel::clock::time_point;

// The operations of the test and of handlers. `again` arms the handler's own timer at a time after its deadline.
enum class act {
  none,
  arm,
  arm_slack,
  arm_at,
  arm_at_unread,
  again,
  cancel,
  destroy,
  post,
  block,
  sleep,
  wait,
  turn,
  read,
  close,
  open,
  reopen,
  ref,
  unref,
  ref_service,
  unref_service,
  arm_all,
  cancel_all
};

struct step {
  act what = act::none;
  std::size_t id = 0;
  std::int64_t by = 0;  // nanoseconds
};
struct operation {
  step first;
  step then;  // in the handler of what `first` has armed or posted
};
using operations = std::vector<operation>;

inline constexpr std::size_t few_timers = 12;

class comparison {
 public:
  comparison(const tickwheel::service_options& options, const operations& all, std::size_t timers = few_timers)
      : options_{options}, all_{all}, units_(timers), model_(timers), then_(timers), has_ref_(timers) {
    for (std::size_t id = 0; id < timers; ++id) make(id);
  }

  // Returns the first difference; nothing if there is none.
  std::optional<std::string> run() {
    open();
    for (at_ = 0; at_ < all_.size() && !wrong_; ++at_) {
      perform(all_[at_].first, all_[at_].then, {});
      compare();
    }
    run_out();
    if (open_) close();
    return wrong_;
  }

  std::size_t fired() const { return fired_; }
  std::size_t waits() const { return waits_; }
  std::size_t refused() const { return refused_in_all_; }
  // Arms for a time that had passed, and that the service had not read.
  std::size_t unread_in_past() const { return unread_in_past_; }

 private:
  // --- what is compared ---

  class unit {
   public:
    unit(comparison& in, std::size_t id) : in_{in}, id_{id}, timeout{in.service_, *this} {}

   private:
    void on_timeout() noexcept { in_.on_timer(id_); }

    comparison& in_;
    std::size_t id_;

   public:
    tickwheel::member_timer<&unit::on_timeout> timeout;
  };

  struct armed {
    bool at_once = false;
    time_point asked{};
    time_point due{};
    std::uint64_t number = 0;    // in the order of arming
    std::uint64_t earliest = 0;  // it may have kept this number of an earlier call
    // of one that is due at once
    std::size_t passes_left = 0;
    bool waits_for_pass = false;  // a pass that is to run it has begun, or was carried over
  };
  struct posted {
    time_point due{};       // the clock's epoch: at once
    bool in_order = false;  // it has no delay
    time_point delivered_at{};
    bool taken = false;
    bool delivered = false;  // it stands in the wheel
    step then{};
    std::size_t passes_left = 0;
  };

  // The stamp that waits, and the last that was judged.
  struct verdicts {
    bool waiting = false;
    bool read = false;   // it does not wait for input
    unsigned quiet = 0;  // polls in a row
    time_point stamp{};  // that waits, or was judged last
    time_point judged{};
    std::uint64_t batch_end = 0;  // posts below this number go before the verdict
    nanoseconds longest{};        // block since the last judged stamp
    nanoseconds later{};          // block since the stamp that waits
  };

  void fail(const std::string& what) {
    if (!wrong_) wrong_ = "operation " + std::to_string(at_) + ": " + what;
  }
  void expect(bool holds, const char* what) {
    if (!holds) fail(what);
  }

  void make(std::size_t id) {
    units_[id] = std::make_unique<unit>(*this, id);
    has_ref_[id] = true;
  }

  void forget(std::size_t id) {
    model_[id].reset();
    active_ = true;
  }

  // --- operations ---

  void perform(const step& s, const step& then, const std::optional<time_point>& own_due) {
    const nanoseconds by{s.by};
    switch (s.what) {
      case act::none:
        return;
      case act::arm:
        return arm(s.id, by, 0ns, then);
      case act::arm_slack:
        return arm(s.id, by, by / 2 + 1us, then);
      case act::arm_at:
        return arm_at(s.id, read() + by, then);
      case act::arm_at_unread:
        return arm_at_unread(s.id, time_.now() + by, then);
      case act::again:
        read();
        return arm_at(s.id, own_due.value_or(time_.now()) + by, then);
      case act::arm_all:
        for (std::size_t id = 0; id < units_.size(); ++id) arm(id, by + id * 250ns, 0ns, then);
        return;
      case act::cancel:
        return cancel(s.id);
      case act::cancel_all:
        for (std::size_t id = 0; id < units_.size(); ++id) cancel(id);
        return;
      case act::ref:
      case act::unref:
        has_ref_[s.id] = s.what == act::ref;
        return has_ref_[s.id] ? units_[s.id]->timeout.ref() : units_[s.id]->timeout.unref();
      case act::ref_service:
      case act::unref_service:
        service_has_ref_ = s.what == act::ref_service;
        return service_has_ref_ ? service_.ref() : service_.unref();
      case act::destroy:
        if (model_[s.id]) forget(s.id);
        return make(s.id);
      case act::post:
        return post(by, then);
      case act::block:
        time_.block(by);
        busy_ += by;
        return;
      case act::sleep:
        return sleep(by);
      case act::wait:
        return wait();
      case act::turn:
        return turn();
      case act::read:
        read();
        return;
      case act::close:
        return close();
      case act::open:
        return open();
      case act::reopen:
        close();
        return open();
    }
  }

  void cancel(std::size_t id) {
    expect(units_[id]->timeout.cancel() == model_[id].has_value(), "cancel answers wrongly");
    if (model_[id]) forget(id);
  }

  time_point read() {
    active_ = true;
    return latest_read_ = service_.now();
  }

  time_point begin_of_tick(time_point t) const { return t - (t - origin_) % service_.tick_duration(); }

  std::size_t own_armed() const {
    return static_cast<std::size_t>(std::count_if(model_.begin(), model_.end(), [](auto& m) { return m.has_value(); }));
  }
  // Returns true if a timer holds the loop.
  bool is_held() const {
    for (std::size_t id = 0; id < model_.size(); ++id)
      if (service_has_ref_ && model_[id] && has_ref_[id]) return true;
    return false;
  }
  template <class If>
  std::size_t posts(If&& wanted) const {
    return static_cast<std::size_t>(
        std::count_if(posts_.begin(), posts_.end(), [&](auto& p) { return wanted(p.second); }));
  }
  std::size_t remote_armed() const {
    return posts([](const posted& p) { return p.delivered; });
  }
  // Posts are delivered in order. The service itself says how many of those with a delay are in the wheel.
  void note_delivered() {
    std::size_t in_wheel = service_.stats().pending - own_armed();
    for (auto& [number, p] : posts_) {
      if (in_wheel == 0) break;
      if (!p.taken || p.in_order) return fail("a post was passed over, or another number is armed");
      if (!p.delivered) p.delivered_at = time_.now();
      p.delivered = true;
      --in_wheel;
    }
  }

  // True if the timer is armed now.
  bool was_armed(std::size_t id, int answer) {
    if (!open_) return expect(answer == UV_ECANCELED, "a closed service arms"), false;
    const bool was = model_[id].has_value();
    if (was || own_armed() + remote_armed() < options_.max_armed) expect(answer == 0, "an arm is refused");
    if (!was && own_armed() + remote_armed() >= options_.max_armed)
      expect(answer == UV_ENOBUFS, "max_armed is exceeded");
    if (answer != 0) {
      ++refused_;
      ++refused_in_all_;
    }
    return answer == 0;
  }
  void arm(std::size_t id, nanoseconds after, nanoseconds slack, const step& then) {
    auto& t = units_[id]->timeout;
    const int answer = slack == 0ns ? t.arm(after) : t.arm(after, slack);
    if (open_) active_ = true;
    if (!was_armed(id, answer)) return;
    note_armed(id, after <= 0ns && slack <= 0ns, tickwheel::detail::add_saturating(time_.now(), after), slack, then);
  }
  void arm_at(std::size_t id, time_point when, const step& then) {
    const time_point read = latest_read_ = service_.now();
    if (!was_armed(id, units_[id]->timeout.arm_at(when))) return;
    note_armed(id, when <= read, when, 0ns, then);
  }
  // A time that has passed may be later than the last one that the service has read. It is then no zero delay.
  void arm_at_unread(std::size_t id, time_point when, const step& then) {
    if (when <= latest_read_) {
      read();
      return arm_at(id, when, then);
    }
    if (!was_armed(id, units_[id]->timeout.arm_at(when))) return;
    note_armed(id, false, when, 0ns, then);
    unread_in_past_ += when <= time_.now();
  }
  void note_armed(std::size_t id, bool at_once, time_point asked, nanoseconds slack, const step& then) {
    const time_point due = units_[id]->timeout.deadline();
    const nanoseconds tick = service_.tick_duration();
    std::optional<armed>& was = model_[id];
    const bool is_same = at_once && was && was->at_once;
    expect(!is_same || due == was->due, "a zero delay that is armed anew counts from another call than its first");
    // a handler may put it off, but not from one pass after the other
    if (is_same && was->waits_for_pass && (!in_turn_ || was->due < begin_of_tick(last_pass_))) {
      then_[id] = then;
      return;
    }
    // while others wait for their pass, one that does not may keep its place as well
    const std::uint64_t earliest = is_same && !in_turn_ && time_.carrying() ? was->earliest : number_ + 1;
    if (own_armed() + remote_armed() == 0) latest_read_ = time_.now();
    if (at_once) {
      expect(due <= time_.now(), "a zero delay is due after the call");
      ++links_at_once_;
    } else {
      expect(due >= asked, "a deadline is before what was asked for");
      const time_point from = std::max(asked, time_.now());
      // one that had passed, and is no zero delay, is due at the next tick
      const nanoseconds latest = std::max(asked <= time_.now() ? tick : tick - 1ns, slack);
      expect(due == time_point::max() || due - from <= latest, "a deadline is later than a tick or the slack");
      expect(due == time_point::max() || (due - origin_) % tick == 0ns, "a deadline is not rounded to a tick");
    }
    then_[id] = then;
    active_ = active_ || !was;
    was = armed{at_once, at_once ? time_.now() : asked, due, ++number_, earliest, 3 * links_at_once_ + 3};
  }

  void post(nanoseconds after, const step& then) {
    const std::uint64_t number = number_ + 1;
    const int answer = remote_.post(after, [this, number]() noexcept { on_post(number); });
    if (!open_) return expect(answer == UV_ECANCELED, "a closed service takes a post");
    const bool room = posts_.size() < options_.max_armed && posts_.size() - remote_armed() < options_.max_queued;
    expect(answer == (room ? 0 : UV_EAGAIN), "a post is refused without need, or taken beyond a limit");
    if (answer != 0) return;
    ++number_;
    posts_[number] = {.due = after <= 0ns ? time_point{} : tickwheel::detail::add_saturating(time_.now(), after),
                      .then = then,
                      .passes_left = 3 * posts_.size() + 6};
  }

  void open() {
    expect(service_.open(time_, options_) == (open_ ? UV_EALREADY : 0), "open answers wrongly");
    if (open_) return;
    open_ = true;
    busy_ = {};  // the service does not count a block from before it was opened
    active_ = true;
    origin_ = latest_read_ = last_pass_ = time_.now();
    remote_ = service_.remote();
    v_ = {};
    stalls_ = refused_ = ran_timers_ = ran_posts_ = links_at_once_ = links_of_round_ = 0;
    stalled_ = {};
  }
  void close() {
    service_.close();
    open_ = false;
    for (auto& m : model_) m.reset();
    posts_.clear();
    pass_ended_ = true;
  }

  void sleep(nanoseconds by) { time_.oversleep(by); }
  // As a loop does that waits for nothing else. A wakeup that has come already may have been early.
  void wait() {
    if (open_ && !time_.carrying()) {
      const time_point now = time_.now();
      time_point until = time_.next_wakeup() > now ? time_.next_wakeup() : time_point::max();
      const auto consider = [&](time_point due) { until = due > now ? std::min(until, due) : until; };
      for (const auto& m : model_) consider(m && !m->at_once ? m->due : now);
      for (const auto& p : posts_) consider(p.second.due + service_.tick_duration());
      if (std::any_of(model_.begin(), model_.end(), [](auto& m) { return m && m->at_once; })) until = now;
      if (until - now < 1h) sleep(until - now);
    }
    turn();
  }

  // --- a turn ---

  void turn() {
    const time_point now = time_.now();
    const verdicts before = v_;
    const nanoseconds busy = std::exchange(busy_, 0ns);
    first_of_later_ = number_ + 1;
    stamp_ = now;
    work_ = 0;
    pass_ended_ = !open_;
    const bool was_open = open_;
    if (open_) {
      note_busy(busy);
      begin_pass();
      for (auto& m : model_)
        if (m && m->at_once) m->waits_for_pass = true;
    }
    active_ = false;
    in_turn_ = true;
    const bool passed = time_.turn();
    in_turn_ = false;
    latest_read_ = time_.now();
    if (!was_open) return expect(!passed, "a closed service has a pass");
    if (passed) last_pass_ = stamp_;
    if (pass_ended_) return;
    active_ = false;  // what the pass has done does not count
    passed ? end_pass() : end_without_pass(before);
  }

  void note_busy(nanoseconds busy) {
    if (busy > options_.stall_grace) {
      ++stalls_;
      stalled_ += busy - options_.stall_grace;
    }
    if (busy > 2ms) {
      v_.longest = std::max(v_.longest, busy);
      if (v_.waiting) v_.later = std::max(v_.later, busy);
    }
  }

  void begin_pass() {
    for (auto& [number, p] : posts_) {
      if (!p.taken) p.in_order = p.due == time_point{};
      p.taken = true;
    }
    if (!v_.waiting) {
      v_.waiting = true;
      v_.stamp = stamp_;
      v_.read = v_.longest == 0ns;
      v_.quiet = 0;
      v_.batch_end = first_of_later_;
    }
    if (v_.read) return;
    const nanoseconds bound = std::min<nanoseconds>(v_.longest * options_.io_wait, 1s);
    v_.quiet = active_ ? 0 : v_.quiet + 1;
    v_.read = stamp_ - v_.stamp >= bound || v_.quiet == 2;
    if (!v_.read) ++waits_;
  }

  // Returns true if everything that precedes the verdicts has been done.
  bool may_judge() const {
    return v_.waiting && v_.read && std::none_of(posts_.begin(), posts_.end(), [this](const auto& p) {
             return !p.second.delivered && p.first < v_.batch_end;
           });
  }
  time_point latest_judged() const { return may_judge() ? v_.stamp : v_.judged; }
  void judge() {
    v_.judged = v_.stamp;
    v_.waiting = false;
    v_.longest = v_.later;
    v_.later = {};
  }

  bool is_due_at_once(const std::optional<armed>& m) const { return m && m->at_once && m->number < first_of_later_; }

  void end_pass() {
    note_delivered();
    if (may_judge()) judge();
    const bool bound_reached = work_ >= options_.work_per_pass || options_.work_per_pass < 100 ||
                               time_.now() - stamp_ >= options_.time_per_pass;
    if (time_.carrying()) {
      const bool posted_meanwhile = !posts_.empty() && posts_.rbegin()->first >= first_of_later_;
      expect(bound_reached || v_.waiting || posted_meanwhile, "a pass asks for another one without need");
      for (auto& m : model_)
        if (is_due_at_once(m)) expect(m->passes_left-- != 0, "a zero delay starves");
      for (auto& [number, p] : posts_)
        if (p.in_order) expect(p.passes_left-- != 0, "a post starves");
      return;
    }
    expect(!v_.waiting, "no pass follows though a stamp waits");
    // those that were made since the last round are the next one, also if they were cancelled
    links_at_once_ -= links_of_round_;
    for (auto& m : model_) {
      if (is_due_at_once(m)) expect(bound_reached && m->passes_left-- != 0, "a zero delay has not run");
      // one that a handler has armed for a time that had passed may wait for the next pass
      expect(!m || m->at_once || m->due > v_.judged || m->number >= first_of_later_, "a timer has not run");
      if (m && m->at_once) ++links_at_once_;
    }
    links_of_round_ = links_at_once_;
    for (auto& [number, p] : posts_) {
      expect(p.delivered || !p.taken, "a post has not run");
      expect(!p.delivered || std::max(p.due, p.delivered_at) + service_.tick_duration() > v_.judged,
             "a post with a delay has not run");
    }
  }

  void end_without_pass(const verdicts& before) {
    const nanoseconds longest = v_.longest, later = v_.later;
    v_ = before;
    v_.longest = longest;
    v_.later = later;
    expect(!v_.waiting, "no pass though a stamp waits");
    expect(work_ == 0, "a handler without a pass");
    for (const auto& m : model_) {
      expect(!is_due_at_once(m), "no pass for a zero delay");
      expect(!m || m->at_once || m->due > stamp_, "no pass for a timer");
    }
    for (const auto& [number, p] : posts_) {
      expect(p.delivered || !p.taken, "no pass for a post");
      expect(std::max(p.due, p.delivered_at) + service_.tick_duration() > stamp_, "no pass for a post with a delay");
    }
  }

  // --- handlers ---

  void begin_handler(time_point due, nanoseconds rounding) {
    ++fired_;
    note_delivered();
    expect(open_ && in_turn_ && !pass_ended_, "a handler after the service was closed, or outside a turn");
    expect(++work_ <= options_.work_per_pass, "a pass does more than work_per_pass");
    const auto& why = service_.why();
    if (const auto sums = adds_up(why); !sums) fail(sums.message());
    expect(why.due == due && why.due <= why.ran, "why() tells another deadline");
    expect(why.ran == time_.now(), "why() tells another time of the call");
    expect(why.rounding == rounding, "why() tells another rounding");
  }

  void on_timer(std::size_t id) {
    if (wrong_) return;
    if (!model_[id]) return fail("a timer ran that is not armed");
    const armed was = *std::exchange(model_[id], {});
    begin_handler(was.due, was.at_once ? 0ns : service_.tick_duration());
    expect(!units_[id]->timeout.armed(), "a timer is armed in its handler");
    ++ran_timers_;
    if (was.at_once) {
      expect(was.number < first_of_later_, "a zero delay ran in the pass that was running");
      for (const auto& m : model_)
        expect(!m || !m->at_once || m->number > was.earliest, "zero delays ran out of order");
      expect(service_.judged_at() == stamp_, "a zero delay was judged as of another stamp");
    } else {
      expect(time_.now() >= was.asked, "a timer is early");
      expect(was.due <= latest_judged(), "a timer was judged too soon");
      expect(service_.judged_at() >= was.due && service_.judged_at() <= latest_judged(),
             "judged as of a stamp that may not be");
    }
    const step then = std::exchange(then_[id], {});
    perform(then, then.what == act::again ? then : step{}, was.due);
  }

  void on_post(std::uint64_t number) noexcept {
    if (wrong_) return;
    const auto found = posts_.find(number);
    if (found == posts_.end()) return fail("a post ran that does not wait");
    const posted was = found->second;
    for (auto p = posts_.begin(); p != found; ++p)
      expect(!p->second.in_order || !was.in_order, "posts ran out of order");
    posts_.erase(found);
    const auto& why = service_.why();
    begin_handler(was.due == time_point{} ? stamp_ : why.due, was.due == time_point{} ? 0ns : why.rounding);
    expect(was.taken, "a post ran in the pass that was running");
    expect(was.due <= stamp_ && was.due <= why.due, "a post is early");
    ++ran_posts_;
    perform(was.then, {}, {});
  }

  // --- after each operation ---

  void compare() {
    if (wrong_) return;
    std::string why;
    if (!service_.validate(&why)) fail(why);
    const auto& s = service_.stats();
    if (!adds_up(service_)) fail("the counts do not add up");
    if (!open_) return;
    expect(s.pending == own_armed() + remote_armed(), "another number is armed");
    expect(s.fired >= ran_timers_ && s.fired <= ran_timers_ + ran_posts_, "another number has fired");
    expect(s.remote_ran == ran_posts_ && s.remote_accepted == ran_posts_ + posts_.size(), "another number was posted");
    expect(s.refused == refused_, "another number was refused");
    expect(s.stalls == stalls_ && s.stalled == stalled_, "stalls were counted otherwise");
    expect(!is_held() || time_.alive(), "an armed timer does not hold the loop");
    expect(is_held() || !posts_.empty() || !time_.alive(), "no timer and no post holds the loop, and it is held");
    for (std::size_t id = 0; id < units_.size(); ++id) {
      const auto& m = model_[id];
      const auto& t = units_[id]->timeout;
      expect(t.armed() == m.has_value() && t.deadline() == (m ? m->due : time_point::max()), "another deadline");
      if (m && !time_.carrying()) expect(time_.next_wakeup() <= std::max(m->due, time_.now()), "it wakes up too late");
      if (m && m->at_once)
        expect(time_.carrying() || time_.next_wakeup() <= time_.now(), "a poll waits before a zero delay");
    }
  }

  // Lets everything that is armed end.
  void run_out() {
    for (step& s : then_) s = {};
    for (auto& [number, p] : posts_) p.then = {};
    for (std::size_t id = 0; id < model_.size() && open_; ++id)
      if (model_[id] && model_[id]->due > time_.now() + 1h) perform({act::cancel, id}, {}, {});
    for (int turns = 0; turns < 5000 && open_ && !wrong_ && (own_armed() != 0 || !posts_.empty()); ++turns) {
      wait();
      compare();
    }
    expect(!open_ || (own_armed() == 0 && posts_.empty()), "what was armed does not end");
  }

  const tickwheel::service_options options_;
  const operations& all_;
  tickwheel::manual_driver time_{time_point{1h}};
  tickwheel::timer_service service_;
  tickwheel::remote_handle remote_;

  // by the ids of the timers
  std::vector<std::unique_ptr<unit>> units_;
  std::vector<std::optional<armed>> model_;
  std::vector<step> then_;
  std::vector<bool> has_ref_;

  bool open_ = false;
  bool service_has_ref_ = true;
  time_point origin_{};
  time_point latest_read_{};  // the service has read no later time
  std::map<std::uint64_t, posted> posts_;
  verdicts v_;
  nanoseconds busy_{};  // since the last turn
  bool active_ = false;
  std::uint64_t number_ = 0;
  std::size_t links_at_once_ = 0, links_of_round_ = 0;  // at most so many are in the service, and in its round

  bool in_turn_ = false;
  bool pass_ended_ = false;
  time_point stamp_{};
  time_point last_pass_{};  // the stamp of the last pass before this turn
  std::uint64_t first_of_later_ = 0;
  std::size_t work_ = 0;

  std::uint64_t stalls_ = 0, refused_ = 0, ran_timers_ = 0, ran_posts_ = 0;
  nanoseconds stalled_{};
  std::size_t fired_ = 0, waits_ = 0, refused_in_all_ = 0, unread_in_past_ = 0, at_ = 0;
  std::optional<std::string> wrong_;
};

}  // namespace service_model
