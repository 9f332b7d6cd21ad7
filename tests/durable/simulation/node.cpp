#include "node.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cinttypes>
#include <cstdlib>
#include <string_view>
#include <type_traits>
#include <utility>

namespace simulation {

namespace {

constexpr nanos open_again_after = 300 * ms;
constexpr std::size_t list_page = 1000;
constexpr std::array states{durable::task_state::pending, durable::task_state::running, durable::task_state::dead,
                            durable::task_state::finished, durable::task_state::cancelled};

std::string name_of(unsigned index) {
  std::string name{"n"};
  return name.append(std::to_string(index));
}

}  // namespace

node::node(unsigned index, nanos shows, std::int64_t drift, durable::scheduler_options options, surroundings& world)
    : index_{index}, name_{name_of(index)}, world_{world}, machine_{shows, drift}, options_{std::move(options)} {
  options_.name = name_;
}

node::~node() { end_process(); }

// --- the process

void node::start() {
  if (scheduler_ != nullptr) return;
  if (is_frozen_) go_on();
  machine_.catch_up(world_.queue.now());
  is_dirty_ = true;
  ++life_;
  scheduler_ =
      std::make_unique<durable::scheduler>(machine_.timers, world_.net.make_store(index_, name_, *this), options_);
  scheduler_->on_due([this](durable::execution run) noexcept { on_due(std::move(run)); });
  open();
}

void node::open() {
  is_open_ = true;
  const int error = scheduler_->open([this](int result) noexcept {
    if (result == 0) return;
    is_open_ = false;
    held_.clear();
    // its name is taken until the session of the process before has run out
    world_.queue.after(open_again_after, [this, life = life_] {
      receive([this, life] {
        if (life == life_ && scheduler_ != nullptr && !is_open_) open();
      });
    });
  });
  if (error != 0) std::abort();
}

// Whatever its callables are told from now on is not noted.
void node::end_process() {
  dies_ = true;
  mailbox_.clear();
  scheduler_.reset();
  held_.clear();
  on_listed_ = nullptr;
  is_open_ = dies_ = false;
  ++life_;
  is_dirty_ = true;
}

void node::kill() {
  if (scheduler_ == nullptr) return;
  end_process();
}

void node::lose_power(bool keeps) {
  if (scheduler_ == nullptr) return;
  world_.net.lose_power(index_, keeps);
  end_process();
}

void node::close() {
  if (scheduler_ == nullptr || is_frozen_) return;
  machine_.catch_up(world_.queue.now());
  if (dies_) return;
  scheduler_->close();
  end_process();
}

void node::drain() {
  if (!can_ask()) return;
  machine_.catch_up(world_.queue.now());
  is_dirty_ = true;
  (void)scheduler_->drain([this]() noexcept {
    world_.queue.after(0, [this, life = life_] {
      if (life == life_) close();
    });
  });
}

void node::pause(bool on) {
  if (!can_ask()) return;
  machine_.catch_up(world_.queue.now());
  is_dirty_ = true;
  on ? scheduler_->pause() : scheduler_->resume();
}

void node::stop(bool holds_clock) {
  if (scheduler_ == nullptr || is_frozen_) return;
  machine_.catch_up(world_.queue.now());
  is_frozen_ = true;
  holds_clock_ = holds_clock;
  if (holds_clock) machine_.clock.hold(world_.queue.now());
  is_dirty_ = true;
}

void node::go_on() {
  if (!is_frozen_) return;
  is_frozen_ = false;
  is_dirty_ = true;
  if (holds_clock_) machine_.clock.release(world_.queue.now());
  holds_clock_ = false;
  machine_.oversleep(world_.queue.now());
  went_on_at_ = machine_.shown();
  std::vector<std::function<void()>> waiting;
  waiting.swap(mailbox_);
  const std::uint64_t life = life_;
  for (const auto& each : waiting) {
    if (life != life_ || scheduler_ == nullptr || dies_) return;
    each();
  }
}

void node::receive(std::function<void()> what) {
  if (scheduler_ == nullptr || dies_) return;
  if (is_frozen_) {
    mailbox_.push_back(std::move(what));
    return;
  }
  machine_.catch_up(world_.queue.now());
  is_dirty_ = true;
  if (scheduler_ != nullptr && !dies_) what();
}

void node::catch_up(nanos t) {
  machine_.catch_up(t);
  is_dirty_ = true;
}

nanos node::next(nanos t) {
  if (is_dirty_) next_ = is_frozen_ || scheduler_ == nullptr ? never : machine_.next(t);
  is_dirty_ = false;
  return next_;
}

// --- what it asks

void node::asked(const std::string& id, std::uint32_t number) {
  machine_.catch_up(world_.queue.now());
  is_dirty_ = true;
  world_.count(id, process_, 1);
  world_.journal.of_process(process_, "asked %" PRIu32, number);
}

void node::rejected(const std::string& id, std::uint32_t number, int error) {
  if (error == 0) return;
  world_.count(id, process_, -1);
  world_.journal.of_process(process_, "rejected %" PRIu32 " %d", number, error);
}

// A request is answered within its timeout. A process that stands still does so when it goes on.
void node::check_time(const std::string& id, nanos asked_at) {
  constexpr nanos rounding = 5 * ms;  // a timer expires at the end of its tick
  const nanos timeout = std::chrono::nanoseconds{options_.request_timeout}.count();
  const nanos late = machine_.shown() - std::max(asked_at + timeout, went_on_at_);
  if (late > rounding)
    world_.accuse("D9 is broken for " + id + ": a request was answered " + std::to_string(late / us) +
                  " us after its timeout by " + name_);
}

template <class Result>
auto node::note_answer(const std::string& id, std::uint32_t number) {
  return [this, id = std::string{id}, number, process = process_, asked_at = machine_.shown()](Result r) noexcept {
    if (dies_) return;
    if constexpr (!std::is_same_v<Result, durable::finish_result>) check_time(id, asked_at);  // a finish has no timeout
    world_.count(id, process, -1);
    world_.journal.of_process(process, "answered %" PRIu32 " %s", number, to_string(r));
  };
}

void node::schedule(const event& e) {
  const auto slash = e.word.find('/');
  const bool keeps = e.word.substr(0, slash) == "keep";
  const nanos due = count(durable::memory_database::first_day) + e.a * ms;
  durable::task what;
  what.id = e.id;
  what.due = wall_time(due);
  what.period = std::chrono::nanoseconds{e.b * ms};
  what.payload = std::to_string(e.number);
  what.payload.append("/").append(e.word.substr(slash + 1));
  world_.journal.line("order %" PRIu32 " schedule %s %" PRId64 " %" PRId64 " %s", e.number, e.id.c_str(), due, e.b * ms,
                      keeps ? "keep" : "replace");
  asked(e.id, e.number);
  rejected(e.id, e.number,
           scheduler_->schedule(std::move(what), note_answer<durable::schedule_result>(e.id, e.number),
                                keeps ? durable::on_conflict::keep : durable::on_conflict::replace));
}

void node::ask(const event& e) {
  const char* const what = e.kind == event_kind::cancel ? "cancel" : e.kind == event_kind::revive ? "revive" : "get";
  world_.journal.line("order %" PRIu32 " %s %s", e.number, what, e.id.c_str());
  asked(e.id, e.number);
  int error = 0;
  if (e.kind == event_kind::cancel) {
    error = scheduler_->cancel(e.id, note_answer<durable::cancel_result>(e.id, e.number));
  } else if (e.kind == event_kind::revive) {
    error = scheduler_->revive(e.id, note_answer<durable::revive_result>(e.id, e.number));
  } else {
    error = scheduler_->get(e.id, [this, id = e.id, number = e.number, process = process_](
                                      durable::read_result r, durable::task_info of) noexcept {
      if (dies_) return;
      if (r != durable::read_result::ok) return note_answer<durable::read_result>(id, number)(r);
      world_.count(id, process, -1);
      world_.journal.of_process(process, "answered %" PRIu32 " ok %s %u %u %d", number, to_string(of.state),
                                of.attempts, of.lost, of.cancelling ? 1 : 0);
    });
  }
  rejected(e.id, e.number, error);
}

void node::finish(const std::string& id, std::uint32_t number, std::uint64_t token) {
  world_.journal.line("order %" PRIu32 " finish %s %" PRIu64, number, id.c_str(), token);
  asked(id, number);
  rejected(id, number, scheduler_->finish(id, token, note_answer<durable::finish_result>(id, number)));
}

void node::list_all(std::function<void()> done) {
  on_listed_ = std::move(done);
  list(0, {});
}

void node::list(std::size_t state, std::string after) {
  if (state == states.size()) return on_listed_();
  machine_.catch_up(world_.queue.now());
  is_dirty_ = true;
  auto print = [this, state, after](durable::read_result r, std::vector<durable::task_info> tasks) noexcept {
    if (dies_) return;
    if (r != durable::read_result::ok) {
      world_.queue.after(10 * ms, [this, state, after] { list(state, after); });
      return;
    }
    for (const auto& t : tasks)
      world_.journal.of_process(process_, "row %s %s %u %u %d", to_string(t.state), t.what.id.c_str(), t.attempts,
                                t.lost, t.cancelling ? 1 : 0);
    const bool is_last = tasks.size() != list_page;
    const std::string next = is_last ? std::string{} : tasks.back().what.id;
    world_.queue.after(0, [this, state, is_last, next] { list(is_last ? state + 1 : state, next); });
  };
  if (scheduler_->list(states.at(state), after, list_page, std::move(print)) != 0) std::abort();
}

// --- what it runs

void node::on_due(durable::execution run) {
  if (dies_) {  // it is dead already, and says nothing
    const std::uint64_t token = run.token();
    held_.emplace(token, std::move(run));
    return;
  }
  const std::string_view payload = run.payload();
  const auto slash = payload.find('/');
  world_.journal.of_process(process_, "entered %.*s %" PRIu64 " %u %" PRId64 " %.*s", static_cast<int>(run.id().size()),
                            run.id().data(), run.token(), run.attempt(), count(run.due()), static_cast<int>(slash),
                            payload.data());
  world_.on_entered(index_, run);
  const auto plan = payload.substr(slash + 1);
  const char letter = plan[std::min<std::size_t>(run.attempt(), plan.size()) - 1];
  // of the token, so that another start of this task does otherwise
  const std::uint64_t random = run.token() * 0x9E3779B97F4A7C15 >> 32;
  const auto lease = std::chrono::nanoseconds{options_.lease}.count();
  switch (letter) {
    case 'D':
      return end_later(std::move(run), static_cast<nanos>(1 + random % 30) * ms);
    case 'l':
      return end_later(std::move(run), lease / 1000 * static_cast<nanos>(100 + random % 1500));
    case 'r':
      return end(std::move(run), random % 4 == 0 ? 'd' : 'r');
    case 'k': {
      const std::uint64_t token = run.token();
      held_.emplace(token, std::move(run));
      dies_ = true;
      return;
    }
    default:
      return end(std::move(run), letter);
  }
}

void node::end_later(durable::execution run, nanos delay) {
  const std::uint64_t token = run.token();
  held_.emplace(token, std::move(run));
  world_.queue.after(delay, [this, token, life = life_] {
    if (life != life_) return;
    receive([this, token] {
      const auto held = held_.find(token);
      if (held == held_.end()) return;
      durable::execution ended = std::move(held->second);
      held_.erase(held);
      end(std::move(ended), 'd');
    });
  });
}

void node::end(durable::execution run, char letter) {
  const std::string id{run.id()};
  const std::uint64_t token = run.token();
  const std::uint32_t process = process_;
  world_.count(id, process, 1);
  auto confirm = [this, id = std::string{id}, token, process](durable::finish_result r) noexcept {
    if (dies_) return;
    world_.count(id, process, -1);
    world_.journal.of_process(process, "ended %s %" PRIu64 " %s", id.c_str(), token, to_string(r));
  };
  const auto announce = [&](const char* how) {
    world_.journal.of_process(process, "ending %s %" PRIu64 " %s", id.c_str(), token, how);
  };
  switch (letter) {
    case 'd':
      announce("done");
      return run.done(std::move(confirm));
    case 'r':
      announce("again");
      return run.retry_after(std::chrono::milliseconds{token % 20}, std::move(confirm));
    case 'f':
      announce("fail");
      return run.fail("planned", std::move(confirm));
    case 'b':
      announce("bury");
      return run.bury("planned", std::move(confirm));
    default:  // n: nobody tells
      announce("fail");
      return confirm(durable::finish_result::unknown);
  }
}

}  // namespace simulation
