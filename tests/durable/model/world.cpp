#include "world.hpp"

#include "../../../src/durable/batch_limits.hpp"

#include <tickwheel/uv/timer_service.hpp>

#include <uv.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace durable_model {

namespace {

using namespace std::chrono_literals;
namespace durable = tickwheel::durable;
using durable::memory_fault;
using durable::store_verb;

constexpr nanos us = 1'000;
constexpr nanos ms = 1'000 * us;
constexpr nanos second = 1'000 * ms;
constexpr nanos hour = 3'600 * second;
constexpr nanos last_due = 7'258'118'400 * second - 1;
// a timer expires at the end of its tick, and an answer is delivered in the next iteration
constexpr bool answers_wait = durable::detail::limits.turn == 0ns;  // a turn takes in one element
constexpr nanos patience = answers_wait ? 50 * ms : 5 * ms;
constexpr std::size_t most_behind = 12;  // the model tries all orders of requests that may have ended
constexpr std::size_t most_events = 120;

std::chrono::nanoseconds duration(nanos n) { return std::chrono::nanoseconds{n}; }
nanos count(durable::clock::time_point t) {
  return t == durable::clock::time_point::max() ? never : std::chrono::nanoseconds{t.time_since_epoch()}.count();
}
durable::clock::time_point time_of(nanos n) {
  return durable::clock::time_point{std::chrono::duration_cast<durable::clock::duration>(duration(n))};
}

answer of(durable::schedule_result r) {
  constexpr std::array<answer, 8> all{answer::scheduled, answer::replaced, answer::exists,      answer::ended,
                                      answer::running,   answer::refused,  answer::unavailable, answer::unknown};
  return all.at(static_cast<std::size_t>(r));
}
answer of(durable::cancel_result r) {
  constexpr std::array<answer, 6> all{answer::cancelled, answer::running,     answer::finished,
                                      answer::not_found, answer::unavailable, answer::unknown};
  return all.at(static_cast<std::size_t>(r));
}
answer of(durable::finish_result r) {
  constexpr std::array<answer, 3> all{answer::finished, answer::stale, answer::unknown};
  return all.at(static_cast<std::size_t>(r));
}
answer of(durable::revive_result r) {
  constexpr std::array<answer, 5> all{answer::revived, answer::not_dead, answer::not_found, answer::unavailable,
                                      answer::unknown};
  return all.at(static_cast<std::size_t>(r));
}
row_state of(durable::task_state s) {
  constexpr std::array<row_state, 5> all{row_state::pending, row_state::running, row_state::dead, row_state::finished,
                                         row_state::cancelled};
  return all.at(static_cast<std::size_t>(s));
}
durable::task_state to_library(row_state s) { return static_cast<durable::task_state>(static_cast<int>(s) - 1); }
shown_row shown(const durable::task_info& i) {
  return {of(i.state), count(i.what.due), i.what.period.count(), count(i.next), i.attempts,
          i.lost,      i.cancelling,      i.what.payload,        i.last_error};
}

class memory final : public backend {
 public:
  explicit memory(std::uint16_t partitions) : database_{std::make_shared<durable::memory_database>(partitions)} {}
  std::unique_ptr<durable::store> make_store() override { return durable::memory_store(database_); }
  nanos now() const override { return count(database_->now()); }
  void shift(nanos by) override { database_->shift_clock(duration(by)); }
  void advance(tickwheel::manual_driver& time, nanos by) override { time.advance(duration(by)); }
  durable::memory_database* faults() noexcept override { return database_.get(); }

 private:
  std::shared_ptr<durable::memory_database> database_;
};

class world {
 public:
  world(choices& decide, const make_backend& make, bool keeps_trace);
  world(const world&) = delete;
  world& operator=(const world&) = delete;
  ~world();

  void run(std::uint64_t operations);
  comparison result();

 private:
  struct node {
    std::string name;
    durable::scheduler_options options;
    bool starts = true;
    std::unique_ptr<durable::scheduler> scheduler;
    int member = -1;  // of its opening; -1: closed
    bool has_joined = false, is_paused = false, is_draining = false, is_drained = false, is_crashed = false;
    bool closes_next = false;  // in the next callable
    bool is_closing = false;
    int last_answered = 0;  // while it closes
    std::size_t requests = 0, bytes = 0;
    std::uint64_t started = 0, scheduled = 0, unavailable = 0;  // by this scheduler
  };
  struct open_request {
    verb what{};
    int id = 0;  // -1: a list
    int node = 0, member = 0;
    nanos issued = 0;
    std::size_t bytes = 0;
    bool is_counted = true;
    row_state state{};  // of a list
    std::string after;
    std::size_t limit = 0;
  };
  struct held {
    durable::execution run;
    int id = 0, node = 0, member = 0;
    nanos period = 0;
  };

  // operations
  void step();
  void schedule(node&, durable::on_conflict);
  void schedule_many(node&);
  void schedule(node&, int id, durable::on_conflict, content);
  void ask_invalid(node&);
  void cancel(node&, int id);
  void revive(node&, int id);
  void get(node&, int id);
  void list(node&);
  void finish_by_token(node&, int id);
  void end(held, unsigned how);
  void open(node&);
  void close(node&, bool destroys);
  void drain(node&);
  void move_time();
  void stall();
  void disturb();
  void settle();
  template <class Ask>
  void ask_until_decided(Ask&& ask);

  // what comes back
  void on_start(int node, durable::execution);
  void on_answer(int number, answer);
  void on_read(int number, durable::read_result, const durable::task_info*);
  void on_listed(int number, durable::read_result, const std::vector<durable::task_info>&);
  std::optional<open_request> take(int number, bool is_decided);
  void look_at(store_verb, const durable::store_call&);
  void in_callable(node&);
  void block();

  int request_error(const node&, std::size_t bytes) const;
  template <class Call>
  int accept(node& n, verb what, int id, std::size_t bytes, int expected, Call&& call);
  int number_of(node&, verb, int id, std::size_t bytes, request);
  void advance(nanos by);
  void check();
  void check_deadlines();
  void settle_closed();
  node& any_node() { return nodes_[decide_.below(nodes_.size())]; }
  int any_id() { return static_cast<int>(decide_.below(ids_)); }
  std::string name_of_id(int id) const;
  nanos any_delay();
  span estimated(nanos delay) const;
  content any_content();
  void refresh() { facts_.now = std::chrono::nanoseconds{time_.now().time_since_epoch()}.count(); }
  void fail(const char* format, ...) __attribute__((format(printf, 2, 3)));
  void note(const char* format, ...) __attribute__((format(printf, 2, 3)));
  bool fits(bool is_possible, int id, const char* what);

  choices& decide_;
  const bool keeps_trace_;
  std::string trace_;
  std::deque<std::string> events_;
  std::optional<std::string> mismatch_;
  std::uint64_t operations_ = 0, starts_ = 0;

  tickwheel::manual_driver time_{tickwheel::clock::time_point{std::chrono::hours{1}}};
  tickwheel::timer_service timers_;
  std::unique_ptr<backend> database_;
  durable::memory_database* faults_ = nullptr;
  std::unique_ptr<durable::store> clock_reader_;  // a memory_database reads its clock while a store is open
  facts facts_;
  durable::scheduler_options options_;
  std::size_t ids_ = 8;
  bool is_crowd_ = false, may_disturb_ = false, may_shift_ = false, is_calm_ = false, is_ending_ = false;
  nanos least_offset_ = 0, greatest_offset_ = 0, longest_delay_ = 0;
  bool has_blocked_ = false;  // a callable
  nanos behind_ = 0;          // how much later than asked the last advance ended
  std::vector<task_model> models_;
  std::vector<std::vector<std::uint64_t>> tokens_;  // by id: the last ones
  std::vector<std::uint64_t> last_token_;
  std::unordered_set<std::uint64_t> all_tokens_;
  std::vector<node> nodes_;
  std::map<int, open_request> open_;
  std::vector<held> held_;
  std::vector<int> closed_;      // members that have closed in this operation
  std::vector<bool> is_unsure_;  // by id: a request was answered `unknown`
  int last_number_ = 0;
  bool is_asking_ = false;
  std::optional<shown_row> last_read_;
  bool is_decided_ = false;  // the last answer was neither `unavailable` nor `unknown`
};

// --- set-up

world::world(choices& decide, const make_backend& make, bool keeps_trace) : decide_{decide}, keeps_trace_{keeps_trace} {
  if (timers_.open(time_) != 0) std::abort();
  database_ = make(decide_.pick<std::uint16_t>({1, 1, 2, 4}));
  database_->use(time_);
  faults_ = database_->faults();
  if (faults_ == nullptr) longest_delay_ = ms;  // the store's threads answer a little later
  is_crowd_ = decide_.one_in(100) && !answers_wait;
  if (is_crowd_) ids_ = 2200;
  const std::size_t nodes = faults_ == nullptr ? 1 : 1 + decide_.below(3);
  may_disturb_ = decide_.below(4) != 0;
  may_shift_ = decide_.below(3) == 0;

  durable::scheduler_options& o = options_;
  // a look into a file takes real time
  const nanos poll = faults_ == nullptr ? decide_.pick<nanos>({50 * ms, 250 * ms})
                                        : decide_.pick<nanos>({5 * ms, 20 * ms, 50 * ms, 250 * ms});
  o.poll = duration(poll);
  o.window = duration(poll * decide_.pick<nanos>({2, 3, 8}));
  o.lease = duration(std::max(100 * ms, poll * decide_.pick<nanos>({4, 20, faults_ == nullptr ? 20 : 100})));
  o.request_timeout = duration(decide_.pick<nanos>({ms, 10 * ms, 100 * ms, second, 5 * second}));
  o.keep_finished = duration(decide_.pick<nanos>({0, ms, 100 * ms, second, 300 * second}));
  o.max_running = decide_.pick<std::size_t>({1, 2, 3, 1024});
  o.max_loaded = decide_.pick<std::size_t>({1, 2, 4, 100});
  o.max_requests = decide_.pick<std::size_t>({1, 2, 4, answers_wait ? 3 : 64});
  o.max_request_bytes = decide_.pick<std::size_t>({8, 40, 64 << 20});
  o.max_payload = 64;
  o.max_attempts = decide_.pick<unsigned>({1, 2, 3, 5});
  o.retry = {.base = duration(decide_.pick<nanos>({ms, 20 * ms})),
             .cap = duration(decide_.pick<nanos>({20 * ms, second}))};
  if (is_crowd_) {
    o.max_running = decide_.pick<std::size_t>({3, 1024, 4096});
    o.max_loaded = decide_.pick<std::size_t>({100, 1024, 100'000});
    o.max_requests = 65'536;
    o.max_request_bytes = 64 << 20;
    o.max_payload = 65'536;
  }
  facts_.keep_finished = o.keep_finished.count();
  facts_.max_attempts = o.max_attempts;
  facts_.is_behind = answers_wait;
  for (std::size_t i = 0; i != ids_; ++i) models_.emplace_back(facts_);
  tokens_.resize(ids_);
  last_token_.resize(ids_);
  is_unsure_.resize(ids_);
  refresh();

  for (std::size_t i = 0; i != nodes; ++i) {
    node n;
    n.name = "n" + std::to_string(i);
    n.options = options_;
    n.options.name = n.name;
    n.options.seed = 1 + decide_.up_to(999);
    n.starts = i == 0 || decide_.below(4) != 0;
    nodes_.push_back(std::move(n));
  }
  note(
      "world: %zu nodes, %zu ids, poll %lld, lease %lld, timeout %lld, keep %lld, running %zu, loaded %zu, attempts %u",
      nodes, ids_, static_cast<long long>(poll), static_cast<long long>(o.lease.count()),
      static_cast<long long>(o.request_timeout.count()), static_cast<long long>(o.keep_finished.count()), o.max_running,
      o.max_loaded, o.max_attempts);
  if (faults_ != nullptr) {
    faults_->on_call([this](store_verb v, const durable::store_call& c) { look_at(v, c); });
    faults_->refuse([](const durable::task& t) { return t.payload.starts_with('R'); });
    clock_reader_ = database_->make_store();
    if (clock_reader_->open(timers_) != 0) std::abort();
  }
  open(nodes_.front());
  const nanos offset = database_->now() - facts_.now;
  facts_.clock.set(facts_.now, offset);
  least_offset_ = greatest_offset_ = offset;
}

world::~world() {
  is_ending_ = true;
  for (node& n : nodes_) n.scheduler.reset();
  held_.clear();
  if (clock_reader_ != nullptr) clock_reader_->close();
  timers_.close();
}

void world::note(const char* format, ...) {
  char line[256];
  int used = std::snprintf(line, sizeof line, "%lld ", static_cast<long long>(facts_.now));
  va_list more;
  va_start(more, format);
  std::vsnprintf(line + used, sizeof line - static_cast<std::size_t>(used), format, more);
  va_end(more);
  if (keeps_trace_) trace_.append(line).append("\n");
  events_.emplace_back(line);
  if (events_.size() > most_events) events_.pop_front();
}

void world::fail(const char* format, ...) {
  if (mismatch_) return;
  char line[400];
  va_list more;
  va_start(more, format);
  std::vsnprintf(line, sizeof line, format, more);
  va_end(more);
  note("MISMATCH %s", line);
  std::string all = std::string{line} + " after " + std::to_string(operations_) + " operations; the last events:\n";
  for (const std::string& event : events_) all += event + "\n";
  mismatch_ = std::move(all);
}

bool world::fits(bool is_possible, int id, const char* what) {
  if (is_possible || mismatch_) return is_possible;
  const std::string name = name_of_id(id);
  fail("%s %s: no possible row fits", name.c_str(), what);
  *mismatch_ += "rows that were possible:\n" + models_[static_cast<std::size_t>(id)].describe();
  for (const node& n : nodes_) {
    if (n.scheduler == nullptr) continue;
    const durable::scheduler_stats s = n.scheduler->stats();
    char line[200];
    std::snprintf(line, sizeof line,
                  "%s: requests %zu running %zu loaded %zu partitions %zu overdue %lld session %llu\n", n.name.c_str(),
                  s.requests, s.running, s.loaded, s.partitions, static_cast<long long>(s.oldest_overdue.count()),
                  static_cast<unsigned long long>(faults_ != nullptr ? faults_->session_of(n.name) : 0));
    *mismatch_ += line;
  }
  if (faults_ != nullptr) {
    if (const auto row = faults_->row(name)) {
      char line[200];
      std::snprintf(line, sizeof line,
                    "the row: %s attempts %u lost %u stop %d rev %llu ended %llu session %llu next %lld\n",
                    to_string(row->info.state), row->info.attempts, row->info.lost, row->info.cancelling,
                    static_cast<unsigned long long>(row->rev), static_cast<unsigned long long>(row->ended),
                    static_cast<unsigned long long>(row->session), static_cast<long long>(count(row->info.next)));
      *mismatch_ += line;
      std::snprintf(line, sizeof line, "the store's clock: %lld; the owner of its partition: %llu\n",
                    static_cast<long long>(database_->now()),
                    static_cast<unsigned long long>(faults_->owner_of(row->partition)));
      *mismatch_ += line;
    }
  }
  return false;
}

std::string world::name_of_id(int id) const { return "t" + std::to_string(id); }

// --- schedulers

void world::open(node& n) {
  if (n.scheduler == nullptr) {
    n.scheduler = std::make_unique<durable::scheduler>(timers_, database_->make_store(), n.options);
    n.started = n.scheduled = n.unavailable = 0;
    n.is_paused = false;
    const int index = static_cast<int>(&n - nodes_.data());
    if (n.starts)
      n.scheduler->on_due([this, index](durable::execution run) noexcept { on_start(index, std::move(run)); });
  }
  n.member = static_cast<int>(facts_.members.size());
  facts_.members.push_back({true, n.starts, -1});
  n.has_joined = n.is_draining = n.is_drained = n.is_crashed = n.is_closing = false;
  note("%s opens as member %d", n.name.c_str(), n.member);
  is_asking_ = true;
  const int error = n.scheduler->open([this, &n, opened = n.member](int result) noexcept {
    refresh();
    note("%s ready %d", n.name.c_str(), result);
    if (is_asking_) fail("ready was called within open");
    if (result == 0) {
      if (opened != n.member || n.has_joined) fail("ready was called twice, or too late");
      n.has_joined = true;
      return;
    }
    if (result != UV_ECANCELED || n.has_joined || !n.is_closing) fail("ready got %d", result);
  });
  is_asking_ = false;
  if (error != 0) fail("open answered %d", error);
}

void world::close(node& n, bool destroys) {
  if (n.scheduler == nullptr || n.is_closing) return;
  note("%s %s", n.name.c_str(), destroys ? "is destroyed" : "closes");
  const int member = n.member;
  if (member >= 0) facts_.members[static_cast<std::size_t>(member)].gone_at = never;
  n.is_closing = true;
  n.last_answered = 0;
  if (destroys) {
    const auto last = std::move(n.scheduler);
    if (member >= 0) last->close();
  } else {
    n.scheduler->close();
    if (n.scheduler->stats().requests != 0) fail("a closed scheduler has open requests");
  }
  n.is_closing = false;
  n.member = -1;
  n.closes_next = false;
  if (member < 0) return;
  for (const auto& [number, r] : open_)
    if (r.member == member && r.is_counted) fail("request %d was not answered when %s closed", number, n.name.c_str());
  std::erase_if(open_, [=](const auto& each) { return each.second.member == member; });
  n.requests = n.bytes = 0;
  closed_.push_back(member);
}

// In a callable the search for what may have happened would run in the middle of an answer.
void world::settle_closed() {
  for (const int m : std::exchange(closed_, {})) {
    for (task_model& model : models_) model.on_close(m);
    facts_.members[static_cast<std::size_t>(m)].is_open = false;
  }
}

void world::drain(node& n) {
  if (n.member < 0) return;
  const int expected = n.is_draining ? UV_EALREADY : 0;
  note("%s drains", n.name.c_str());
  const int error = n.scheduler->drain([this, &n, drained = n.member]() noexcept {
    refresh();
    note("%s drained", n.name.c_str());
    if (n.member != drained || n.is_drained) fail("drained was called twice, or too late");
    n.is_drained = true;
    if (std::any_of(held_.begin(), held_.end(), [=](const held& h) { return h.member == drained; }))
      fail("%s drained while an execution is held", n.name.c_str());
  });
  if (error != expected) fail("drain answered %d", error);
  n.is_draining = true;
}

// A callable may do anything.
void world::in_callable(node& n) {
  if (is_ending_ || n.member < 0 || n.is_closing) return;
  if (std::exchange(n.closes_next, false)) return close(n, decide_.one_in(2));
  if (open_.size() <= most_behind && decide_.one_in(4)) block();
  if (decide_.one_in(40)) {
    const int id = any_id();
    decide_.one_in(2) ? cancel(n, id) : get(n, id);
  }
}

// A slow callable: the turn ends in the middle of a batch.
void world::block() {
  has_blocked_ = facts_.is_behind = true;
  time_.block(duration(decide_.pick<nanos>({100 * us, 299 * us, 300 * us, ms})));
  refresh();
}

// --- requests

int world::request_error(const node& n, std::size_t bytes) const {
  if (n.member < 0 || n.is_closing) return UV_ECANCELED;
  if (n.requests >= n.options.max_requests) return UV_EAGAIN;
  if (n.bytes == 0) return 0;
  const std::size_t left = n.options.max_request_bytes - std::min(n.bytes, n.options.max_request_bytes);
  return bytes > left ? UV_EAGAIN : 0;
}

int world::number_of(node& n, verb what, int id, std::size_t bytes, request r) {
  const int number = ++last_number_;
  r.number = number;
  r.what = what;
  r.member = n.member;
  open_[number] = {what, id, static_cast<int>(&n - nodes_.data()), n.member, facts_.now, bytes, true, {}, {}, 0};
  if (id >= 0) models_[static_cast<std::size_t>(id)].ask(r);
  ++n.requests;
  n.bytes += bytes;
  return number;
}

// Calls the scheduler, and compares the code that it returns.
template <class Call>
int world::accept(node& n, verb what, int id, std::size_t bytes, int expected, Call&& call) {
  if (n.scheduler == nullptr) return UV_ECANCELED;
  is_asking_ = true;
  const int error = call();
  is_asking_ = false;
  if (error != expected)
    fail("%s: verb %d of t%d with %zu bytes returned %d, expected %d", n.name.c_str(), static_cast<int>(what), id,
         bytes, error, expected);
  return error;
}

nanos world::any_delay() {
  const nanos poll = options_.poll.count();
  const nanos window = options_.window.count();
  switch (decide_.below(12)) {
    case 0:
      return -hour;
    case 1:
      return -1;
    case 2:
      return 0;
    case 3:
      return 1;
    case 4:
      return ms;
    case 5:
      return poll;
    case 6:
      return window + decide_.pick<nanos>({-1, 0, 1, ms});
    case 7:
      return 2 * window;
    case 8:
      return decide_.one_in(4) ? hour : poll / 2;
    default:
      return static_cast<nanos>(decide_.up_to(static_cast<std::uint64_t>(2 * poll)));
  }
}

content world::any_content() {
  content c;
  c.due = facts_.clock.at(facts_.now) + any_delay();
  if (decide_.one_in(50)) c.due = decide_.pick<nanos>({1, last_due, last_due - hour});
  const nanos shortest = faults_ == nullptr ? 20 * ms : ms;  // each period of a file is two commits
  if (decide_.one_in(4)) c.period = decide_.pick<nanos>({shortest, 10 * shortest, options_.poll.count() * 2, hour});
  c.is_refused = faults_ != nullptr && decide_.one_in(25);
  c.payload = (c.is_refused ? "R" : "p") + std::to_string(facts_.contents.size());
  if (decide_.one_in(10)) c.payload.resize(decide_.pick<std::size_t>({options_.max_payload, 32}), '.');
  return c;
}

void world::schedule(node& n, durable::on_conflict conflict) { schedule(n, any_id(), conflict, any_content()); }

void world::schedule(node& n, int id, durable::on_conflict conflict, content what) {
  const std::string name = name_of_id(id);
  const std::size_t bytes = name.size() + what.payload.size();
  const int expected = request_error(n, bytes);
  const bool is_keep = conflict == durable::on_conflict::keep;
  const verb v = is_keep ? verb::keep : verb::replace;
  if (n.scheduler == nullptr) return;
  int number = 0;
  if (expected == 0) {
    facts_.contents.push_back(what);
    request r;
    r.content = static_cast<int>(facts_.contents.size()) - 1;
    number = number_of(n, v, id, bytes, r);
  }
  note("%d: %s %s %s due %lld period %lld payload %.20s", number, n.name.c_str(), is_keep ? "keep" : "replace",
       name.c_str(), static_cast<long long>(what.due), static_cast<long long>(what.period), what.payload.c_str());
  accept(n, v, id, bytes, expected, [&] {
    return n.scheduler->schedule(
        {name, time_of(what.due), what.payload, duration(what.period)},
        [this, number](durable::schedule_result r) noexcept { on_answer(number, of(r)); }, conflict);
  });
}

// More than the library sends or reads at once: 1,000 elements, or 4 MiB.
void world::schedule_many(node& n) {
  const auto many = decide_.pick<std::size_t>({999, 1000, 1001, 2100});
  const auto bytes = decide_.pick<std::size_t>({8, 8, 4200, 65'536});
  const nanos delay = any_delay();
  const auto step = decide_.pick<nanos>({0, 1, 100 * us});
  for (std::size_t i = 0; i != (bytes > 8 ? std::min<std::size_t>(many, 1001) : many); ++i) {
    content c;
    c.due = facts_.clock.at(facts_.now) + delay + static_cast<nanos>(i) * step;
    c.payload = "c" + std::to_string(i);  // others begin with their number in `facts`
    c.payload.resize(bytes, '.');
    schedule(n, static_cast<int>(i), durable::on_conflict::keep, std::move(c));
  }
}

void world::ask_invalid(node& n) {
  if (n.scheduler == nullptr) return;
  const int expected = n.member < 0 || n.is_closing ? UV_ECANCELED : UV_EINVAL;
  const auto never_called = [this](auto&&...) noexcept { fail("an invalid request was answered"); };
  durable::task t{"t1", time_of(facts_.clock.at(facts_.now)), {}, {}};
  int error = 0;
  switch (decide_.below(7)) {
    case 0:
      t.due = time_of(last_due + 1);
      break;
    case 1:
      t.due = time_of(0);
      break;
    case 2:
      t.period = duration(ms - 1);
      break;
    case 3:
      t.payload.resize(options_.max_payload + 1);
      break;
    case 4:
      t.id = decide_.one_in(2) ? "" : "a\n";
      break;
    case 5:
      error = n.scheduler->cancel("", never_called);
      if (error != expected) fail("a cancel without an id returned %d", error);
      return;
    default:
      error = n.scheduler->list(durable::task_state::pending, {}, decide_.one_in(2) ? 0 : 10'001, never_called);
      if (error != expected) fail("a list with an invalid limit returned %d", error);
      return;
  }
  error = n.scheduler->schedule(std::move(t), never_called);
  if (error != expected) fail("an invalid task returned %d", error);
}

void world::cancel(node& n, int id) {
  if (n.scheduler == nullptr) return;
  const std::string name = name_of_id(id);
  const int expected = request_error(n, name.size());
  const int number = expected == 0 ? number_of(n, verb::cancel, id, name.size(), {}) : 0;
  note("%d: %s cancel %s", number, n.name.c_str(), name.c_str());
  accept(n, verb::cancel, id, name.size(), expected, [&] {
    return n.scheduler->cancel(name, [this, number](durable::cancel_result r) noexcept { on_answer(number, of(r)); });
  });
}

void world::revive(node& n, int id) {
  if (n.scheduler == nullptr) return;
  const std::string name = name_of_id(id);
  const int expected = request_error(n, name.size());
  const int number = expected == 0 ? number_of(n, verb::revive, id, name.size(), {}) : 0;
  note("%d: %s revive %s", number, n.name.c_str(), name.c_str());
  accept(n, verb::revive, id, name.size(), expected, [&] {
    return n.scheduler->revive(name, [this, number](durable::revive_result r) noexcept { on_answer(number, of(r)); });
  });
}

void world::get(node& n, int id) {
  if (n.scheduler == nullptr) return;
  const std::string name = name_of_id(id);
  const int expected = request_error(n, name.size());
  const int number = expected == 0 ? number_of(n, verb::get, id, name.size(), {}) : 0;
  note("%d: %s get %s", number, n.name.c_str(), name.c_str());
  accept(n, verb::get, id, name.size(), expected, [&] {
    return n.scheduler->get(
        name, [this, number](durable::read_result r, durable::task_info i) noexcept { on_read(number, r, &i); });
  });
}

void world::list(node& n) {
  if (n.scheduler == nullptr) return;
  const auto state = static_cast<row_state>(1 + decide_.below(5));
  const std::string after = decide_.one_in(2) ? "" : name_of_id(any_id());
  const auto limit = decide_.pick<std::size_t>({1, 3, 10'000});
  const int expected = request_error(n, after.size());
  const int number = expected == 0 ? number_of(n, verb::look, -1, after.size(), {}) : 0;
  if (expected == 0) {
    open_request& r = open_[number];
    r.state = state;
    r.after = after;
    r.limit = limit;
    request look;
    look.number = number;
    look.what = verb::look;
    look.member = n.member;
    for (task_model& m : models_) m.ask(look);
  }
  note("%d: %s list state %d after %s limit %zu", number, n.name.c_str(), static_cast<int>(state), after.c_str(),
       limit);
  accept(n, verb::look, -1, after.size(), expected, [&] {
    return n.scheduler->list(to_library(state), after, limit,
                             [this, number](durable::read_result r, std::vector<durable::task_info> all) noexcept {
                               on_listed(number, r, all);
                             });
  });
}

// With a token of this task, of another one, or with none that was given.
void world::finish_by_token(node& n, int id) {
  if (n.scheduler == nullptr) return;
  std::uint64_t token = decide_.one_in(8) ? 0 : 12345;
  const auto& known = tokens_[static_cast<std::size_t>(id)];
  const auto& others = tokens_[decide_.below(ids_)];
  if (!known.empty() && decide_.below(8) != 0)
    token = decide_.one_in(3) ? known[decide_.below(known.size())] : known.back();
  else if (!others.empty())
    token = others.back();
  const std::string name = name_of_id(id);
  const int expected = request_error(n, name.size());
  request r;
  r.token = token;
  r.how = ending::done;
  const int number = expected == 0 ? number_of(n, verb::finish, id, name.size(), r) : 0;
  note("%d: %s finish %s token %llu", number, n.name.c_str(), name.c_str(), static_cast<unsigned long long>(token));
  accept(n, verb::finish, id, name.size(), expected, [&] {
    return n.scheduler->finish(name, token,
                               [this, number](durable::finish_result f) noexcept { on_answer(number, of(f)); });
  });
}

// --- starts

// The scheduler estimates the store's clock from its answers, and never takes it for later than it is, unless it was set back.
span world::estimated(nanos delay) const {
  const nanos least = facts_.now + least_offset_ - longest_delay_;
  const nanos greatest = facts_.now + greatest_offset_;
  const auto later = [=](nanos from) { return delay < last_due - from ? from + std::max<nanos>(delay, 0) : last_due; };
  return {later(least), later(greatest)};
}

void world::on_start(int index, durable::execution run) {
  refresh();
  node& n = nodes_[static_cast<std::size_t>(index)];
  ++starts_;
  ++n.started;
  const std::string name{run.id()};
  const std::string payload{run.payload()};
  int id = -1;
  if (std::sscanf(name.c_str(), "t%d", &id) != 1 || id < 0 || static_cast<std::size_t>(id) >= ids_)
    return fail("a start of %s", name.c_str());
  note("%s starts %s token %llu attempt %u due %lld payload %.20s", n.name.c_str(), name.c_str(),
       static_cast<unsigned long long>(run.token()), run.attempt(), static_cast<long long>(count(run.due())),
       payload.c_str());
  if (is_asking_) fail("a start within a request");
  if (n.member < 0 || n.is_closing) return fail("a start of a closed scheduler");
  if (n.is_drained) fail("a start after drained");
  const auto i = static_cast<std::size_t>(id);
  if (!all_tokens_.insert(run.token()).second)
    fail("token %llu was given twice", static_cast<unsigned long long>(run.token()));
  if (run.token() <= last_token_[i] && nodes_.size() == 1) fail("a token does not grow");
  last_token_[i] = std::max(last_token_[i], run.token());
  if (run.attempt() > options_.max_attempts) fail("attempt %u of %u", run.attempt(), options_.max_attempts);
  const nanos due = count(run.due());
  fits(models_[i].on_start(n.member, run.token(), run.attempt(), due, payload), id, "started");
  const auto number = static_cast<std::size_t>(std::atoi(payload.c_str() + 1));
  const nanos period = payload.starts_with('c') ? 0 : facts_.contents.at(number).period;
  auto& tokens = tokens_[i];
  tokens.push_back(run.token());
  if (tokens.size() > 8) tokens.erase(tokens.begin());

  held h{std::move(run), id, index, n.member, period};
  if (!is_calm_) in_callable(n);
  if (is_calm_)
    end(std::move(h), 0);
  else if (const auto how = static_cast<unsigned>(decide_.below(12)); how < 6)
    end(std::move(h), how);
  else
    held_.push_back(std::move(h));
}

// 0: done, 1: retry_after, 2: fail, 3: bury, 4: destroyed, 5: done.
void world::end(held h, unsigned how) {
  node& n = nodes_[static_cast<std::size_t>(h.node)];
  const bool is_inert = n.member != h.member || n.is_closing;
  request r;
  r.token = h.run.token();
  r.member = h.member;
  const nanos delay = decide_.pick<nanos>({0, -1, ms, options_.poll.count(), hour, never});
  const bool is_last = h.run.attempt() >= options_.max_attempts;
  std::string error = decide_.one_in(5) ? "" : "e" + std::to_string(facts_.errors.size());
  if (how == 4) error = "no answer";
  switch (how) {
    case 1:
      r.how = ending::again;
      r.gives_back = true;
      r.at = estimated(delay);
      break;
    case 2:
    case 4: {
      r.how = !is_last ? ending::again : h.period != 0 ? ending::done : ending::dead;
      nanos backoff = options_.retry.base.count();
      for (unsigned i = 1; i < h.run.attempt(); ++i) backoff *= 2;
      backoff = std::min(backoff, options_.retry.cap.count());
      r.at = {estimated(0).lo, estimated(backoff).hi};
      break;
    }
    case 3:
      r.how = ending::dead;
      break;
    default:
      r.how = ending::done;
  }
  if ((how == 2 || how == 3 || how == 4) && !error.empty()) {
    r.error = static_cast<int>(facts_.errors.size());
    facts_.errors.push_back(error);
  }
  const int number = ++last_number_;
  note("%d: %s ends t%d token %llu by %u%s", number, n.name.c_str(), h.id, static_cast<unsigned long long>(r.token),
       how, is_inert ? ", inert" : "");
  if (!is_inert) {
    r.number = number;
    r.what = verb::finish;
    r.is_over = how == 4;  // nobody is told
    models_[static_cast<std::size_t>(h.id)].ask(r);
    if (how != 4) open_[number] = {verb::finish, h.id, h.node, h.member, facts_.now, 0, false, {}, {}, 0};
  }
  const auto confirmed = [this, number, is_inert](durable::finish_result f) noexcept {
    if (is_ending_) return;
    if (is_inert) return fail("the end of an inert execution was confirmed");
    on_answer(number, of(f));
  };
  durable::execution run = std::move(h.run);
  switch (how) {
    case 1:
      return run.retry_after(duration(delay), confirmed);
    case 2:
      return run.fail(error, confirmed);
    case 3:
      return run.bury(error, confirmed);
    case 4:
      return;
    default:
      return run.done(confirmed);
  }
}

// --- answers

std::optional<world::open_request> world::take(int number, bool is_decided) {
  refresh();
  const auto found = open_.find(number);
  if (found == open_.end()) {
    fail("request %d was answered twice, or was never accepted", number);
    return std::nullopt;
  }
  if (is_asking_) fail("request %d was answered within a request", number);
  const open_request r = found->second;
  if (r.what != verb::finish) is_decided_ = is_decided;
  node& n = nodes_[static_cast<std::size_t>(r.node)];
  if (r.member != n.member) fail("request %d was answered after its scheduler was closed", number);
  if (r.is_counted) {
    --n.requests;
    n.bytes -= r.bytes;
  }
  if (n.is_closing) {
    if (number < n.last_answered) fail("request %d was answered out of order by close", number);
    n.last_answered = number;
  } else if (r.id >= 0 && is_decided) {
    for (const auto& [other, o] : open_) {
      if (other >= number) break;
      if (o.id == r.id && o.member == r.member)
        fail("request %d was answered before request %d of the same id", number, other);
    }
  }
  open_.erase(found);
  return r;
}

void world::on_answer(int number, answer a) {
  if (is_ending_) return;
  const auto r = take(number, a != answer::unavailable && a != answer::unknown);
  if (!r) return;
  note("%d: %s", number, durable_model::name_of(a));
  node& n = nodes_[static_cast<std::size_t>(r->node)];
  if (a == answer::unknown && r->what == verb::finish && !n.is_closing) fail("a finish was answered unknown");
  if (a == answer::unknown) is_unsure_[static_cast<std::size_t>(r->id)] = true;
  if (a == answer::scheduled || a == answer::replaced) ++n.scheduled;
  if ((a == answer::unknown || a == answer::unavailable) && r->what != verb::finish) ++n.unavailable;
  fits(models_[static_cast<std::size_t>(r->id)].on_answer(number, a), r->id, durable_model::name_of(a));
  if (!is_calm_) in_callable(n);
}

void world::on_read(int number, durable::read_result result, const durable::task_info* info) {
  if (is_ending_) return;
  const auto r = take(number, result != durable::read_result::unavailable);
  if (!r) return;
  note("%d: read %s %s attempts %u lost %u next %lld error %s", number, to_string(result), to_string(info->state),
       info->attempts, info->lost, static_cast<long long>(count(info->next)), info->last_error.c_str());
  node& n = nodes_[static_cast<std::size_t>(r->node)];
  task_model& model = models_[static_cast<std::size_t>(r->id)];
  if (result == durable::read_result::unavailable) {
    ++n.unavailable;
    model.on_answer(number, answer::unavailable);
  } else {
    const shown_row row = shown(*info);
    const bool is_found = result == durable::read_result::ok;
    last_read_ = is_found ? std::optional{row} : std::nullopt;
    if (is_found && info->what.id != name_of_id(r->id)) fail("get answered the task %s", info->what.id.c_str());
    fits(model.on_read(number, is_found ? &row : nullptr), r->id, "read");
  }
  if (!is_calm_) in_callable(n);
}

void world::on_listed(int number, durable::read_result result, const std::vector<durable::task_info>& all) {
  if (is_ending_) return;
  const auto r = take(number, result != durable::read_result::unavailable);
  if (!r) return;
  note("%d: list %s %zu", number, to_string(result), all.size());
  node& n = nodes_[static_cast<std::size_t>(r->node)];
  if (result == durable::read_result::unavailable) {
    ++n.unavailable;
    for (task_model& m : models_) m.on_answer(number, answer::unavailable);
    return;
  }
  if (all.size() > r->limit) fail("list answered more than its limit");
  std::vector<bool> is_listed(ids_);
  std::string before = r->after;
  for (const durable::task_info& i : all) {
    if (i.what.id <= before) fail("list: %s is out of order", i.what.id.c_str());
    before = i.what.id;
    if (of(i.state) != r->state) fail("list: %s is in another state", i.what.id.c_str());
    const int id = std::atoi(i.what.id.c_str() + 1);
    if (id < 0 || static_cast<std::size_t>(id) >= ids_) return fail("list: unknown id %s", i.what.id.c_str());
    is_listed[static_cast<std::size_t>(id)] = true;
    const shown_row row = shown(i);
    fits(models_[static_cast<std::size_t>(id)].on_read(number, &row), id, "listed");
  }
  for (std::size_t i = 0; i != ids_; ++i) {
    if (is_listed[i]) continue;
    const std::string name = name_of_id(static_cast<int>(i));
    const bool is_in_page = name > r->after && (all.size() < r->limit || name < before);
    if (is_in_page)
      fits(models_[i].on_absent(number, r->state), static_cast<int>(i), "not listed");
    else
      models_[i].on_answer(number, answer::unavailable);
  }
}

// Looks at each call of the memory_database.
void world::look_at(store_verb v, const durable::store_call& c) {
  switch (v) {
    case store_verb::join: {  // its former session is over
      refresh();
      const std::string& name = static_cast<const durable::join_call&>(c).name;
      for (const node& n : nodes_)
        if (n.name == name && n.member >= 0) facts_.members[static_cast<std::size_t>(n.member)].gone_at = facts_.now;
      return;
    }
    case store_verb::bury:
      for (const node& n : nodes_)
        if (n.member >= 0 && faults_->session_of(n.name) == static_cast<const durable::bury_call&>(c).session)
          facts_.members[static_cast<std::size_t>(n.member)].gone_at = never;
      return;
    case store_verb::begin: {
      const auto& call = static_cast<const durable::begin_call&>(c);
      if (call.items.size() > std::min<std::size_t>(1000, options_.max_running)) fail("a begin of too many tasks");
      for (const node& n : nodes_) {
        if (faults_->session_of(n.name) != call.session) continue;
        if (n.is_paused || !n.starts) fail("%s begins while it is paused, or without a handler", n.name.c_str());
        if (n.is_draining && n.member >= 0 && !n.is_closing) fail("%s begins while it drains", n.name.c_str());
      }
      return;
    }
    case store_verb::put: {
      const auto& call = static_cast<const durable::put_call&>(c);
      std::size_t bytes = 0;
      for (const auto& item : call.items) bytes += item.what.id.size() + item.what.payload.size();
      if (call.items.size() > 1000 || (bytes > (4U << 20) && call.items.size() > 1)) fail("a put is too large");
      return;
    }
    case store_verb::finish:
      if (static_cast<const durable::finish_call&>(c).items.size() > 1000) fail("a finish is too large");
      return;
    default:
      return;
  }
}

// --- time and faults

void world::advance(nanos by) {
  const nanos end = facts_.now + by;
  database_->advance(time_, by);
  // the turns that follow those that slow callables have ended
  while (std::exchange(has_blocked_, false)) database_->advance(time_, ms);
  facts_.is_behind = answers_wait;
  refresh();
  behind_ = facts_.now - end;
}

void world::move_time() {
  const nanos poll = options_.poll.count();
  const nanos lease = options_.lease.count();
  const nanos nudge = decide_.pick<nanos>({-ms, -1, 0, 1, ms});
  nanos by = 0;
  switch (decide_.below(16)) {
    case 0:
      by = 0;
      break;
    case 1:
      by = poll + nudge;
      break;
    case 2:
      by = options_.window.count() + nudge;
      break;
    case 3:
      by = lease / 4 + nudge;
      break;
    case 4:
      by = decide_.one_in(8) ? lease * decide_.pick<nanos>({1, 2, 3}) : poll * 2;
      break;
    case 5:
      by = options_.request_timeout.count() + nudge;
      break;
    case 6:
      by = options_.keep_finished.count() + nudge;
      break;
    case 7:
    case 8:
      by = 100 * us;
      break;
    case 9:
      by = poll * 10;
      break;
    default:
      by = static_cast<nanos>(decide_.up_to(static_cast<std::uint64_t>(poll)));
  }
  by = std::clamp<nanos>(by, 0, poll * (decide_.one_in(50) ? 400 : 40));
  note("advance %lld", static_cast<long long>(by));
  advance(by);
}

// The loop stands still, as while its process is stopped.
void world::stall() {
  const nanos lease = options_.lease.count();
  const nanos by = decide_.pick<nanos>({ms, options_.poll.count(), lease / 10 * 8 - 1, lease / 10 * 8, lease,
                                        options_.request_timeout.count(), options_.window.count()});
  if (by > options_.poll.count() * 100) return;
  note("stall %lld", static_cast<long long>(by));
  longest_delay_ = std::max(longest_delay_, by);
  if (decide_.one_in(2))
    time_.oversleep(duration(by));
  else
    time_.block(duration(by));
  refresh();
  advance(2 * ms);
}

void world::disturb() {
  if (faults_ == nullptr || !may_disturb_) return;
  durable::memory_database& d = *faults_;
  const auto v = static_cast<store_verb>(decide_.below(durable::store_verbs));
  const auto any_verb = [&] {
    return decide_.one_in(2) ? v
                             : decide_.pick({store_verb::put, store_verb::cancel, store_verb::begin, store_verb::finish,
                                             store_verb::get, store_verb::recover});
  };
  node& n = any_node();
  switch (decide_.below(16)) {
    case 0:
    case 1:
    case 2:
    case 3: {
      const store_verb failing = any_verb();
      const auto fault = static_cast<memory_fault>(decide_.below(5));
      const std::size_t calls = 1 + decide_.below(2);
      note("fail_next %s %d %zu", to_string(failing), static_cast<int>(fault), calls);
      return d.fail_next(failing, fault, calls);
    }
    case 4:
    case 5: {
      const store_verb slow = any_verb();
      const nanos delay = decide_.pick<nanos>({0, 0, 100 * us, 2 * ms, options_.request_timeout.count() + ms,
                                               options_.poll.count(), options_.lease.count() / 2});
      note("carry_out_after %s %lld", to_string(slow), static_cast<long long>(delay));
      longest_delay_ = std::max(longest_delay_, delay);
      return d.carry_out_after(slow, duration(delay));
    }
    case 6:
    case 7: {
      const store_verb slow = any_verb();
      const nanos delay = decide_.pick<nanos>({0, 0, 100 * us, 2 * ms, options_.request_timeout.count() + ms,
                                               options_.poll.count(), options_.lease.count() / 2});
      note("answer_after %s %lld", to_string(slow), static_cast<long long>(delay));
      longest_delay_ = std::max(longest_delay_, delay);
      return d.answer_after(slow, duration(delay));
    }
    case 8:
    case 9:
      note("answer_lost");
      return d.answer_lost();
    case 10:
      note("outage");
      return d.outage(true);
    case 11:
    case 12:
      note("outage over");
      for (const node& each : nodes_) d.outage(each.name, false);
      return d.outage(false);
    case 13:
      note("outage of %s", n.name.c_str());
      return d.outage(n.name, true);
    case 14: {
      const auto session = d.session_of(n.name);
      if (session == 0) return;
      note("bury %s", n.name.c_str());
      if (n.member >= 0) facts_.members[static_cast<std::size_t>(n.member)].gone_at = never;
      d.bury(session);
      return;
    }
    default: {
      for (std::size_t all = 0; all != durable::store_verbs; ++all) {
        d.carry_out_after(static_cast<store_verb>(all), 0ns);
        d.answer_after(static_cast<store_verb>(all), 0ns);
      }
      note("no delays");
    }
  }
}

// --- a run

void world::step() {
  node& n = any_node();
  switch (const std::size_t what = decide_.below(100); what) {
    case 0:
    case 1: {  // a restart
      const bool crashes = faults_ != nullptr && n.member >= 0 && !n.is_crashed && decide_.one_in(2);
      if (crashes) {
        const bool keeps = decide_.one_in(2);
        note("%s crashes, unconfirmed writes are %s", n.name.c_str(), keeps ? "kept" : "lost");
        faults_->crash(n.name, keeps);
        n.is_crashed = true;
        facts_.members[static_cast<std::size_t>(n.member)].gone_at = never;
        if (decide_.one_in(2)) return;
      }
      close(n, decide_.one_in(2));
      if (decide_.one_in(2)) open(n);
      return;
    }
    case 2:
      n.closes_next = n.member >= 0;
      return;
    case 3:
      if (decide_.one_in(4)) drain(n);
      return;
    case 4:
      if (n.scheduler == nullptr) return;
      n.is_paused = !n.is_paused;
      note("%s %s", n.name.c_str(), n.is_paused ? "pauses" : "resumes");
      n.is_paused ? n.scheduler->pause() : n.scheduler->resume();
      return;
    case 5:
      return ask_invalid(n);
    case 6:
      return list(n);
    case 7:
      if (decide_.one_in(4)) stall();
      return;
    case 8: {
      if (!may_shift_) return;
      const nanos by = decide_.pick<nanos>(
          {ms, -ms, options_.window.count(), -options_.window.count(), hour, -hour, options_.keep_finished.count()});
      note("clock %lld", static_cast<long long>(by));
      database_->shift(by);
      const nanos offset = database_->now() - facts_.now;
      facts_.clock.set(facts_.now, offset);
      least_offset_ = std::min(least_offset_, offset);
      greatest_offset_ = std::max(greatest_offset_, offset);
      return;
    }
    default:
      if (n.member < 0 && decide_.one_in(4)) return open(n);
      if (what < 28) return schedule(n, durable::on_conflict::keep);
      if (what < 34) return schedule(n, durable::on_conflict::replace);
      if (what < 42) return cancel(n, any_id());
      if (what < 45) return revive(n, any_id());
      if (what < 50) return get(n, any_id());
      if (what < 55) return finish_by_token(n, any_id());
      if (what < 65) {
        if (held_.empty()) return;
        const std::size_t i = decide_.below(held_.size());
        held h = std::move(held_[i]);
        held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
        return end(std::move(h), static_cast<unsigned>(decide_.below(6)));
      }
      if (what < 70) return disturb();
      if (what < 72 && is_crowd_) return schedule_many(n);
      return move_time();
  }
}

void world::check_deadlines() {
  for (const auto& [number, r] : open_) {
    if (r.what == verb::finish) continue;
    if (r.issued + options_.request_timeout.count() + patience + behind_ < facts_.now)
      fail("request %d was not answered within the timeout", number);
    return;
  }
}

void world::check() {
  settle_closed();
  if (mismatch_) return;
  check_deadlines();
  for (const node& n : nodes_) {
    if (n.scheduler == nullptr) continue;
    if (operations_ % 16 != 0) continue;
    const durable::scheduler_stats s = n.scheduler->stats();
    if (s.requests != n.requests) fail("%s has %zu requests, expected %zu", n.name.c_str(), s.requests, n.requests);
    if (s.running > options_.max_running) fail("%s runs too many", n.name.c_str());
    if (s.loaded > options_.max_loaded) fail("%s has loaded too many", n.name.c_str());
    if (s.started != n.started) fail("%s: stats count other starts", n.name.c_str());
    std::string why;
    if (!n.scheduler->validate(&why)) fail("%s: %s", n.name.c_str(), why.c_str());
  }
  if (operations_ % 64 == 0) {
    std::string why;
    if (!timers_.validate(&why)) fail("timers: %s", why.c_str());
  }
  if (faults_ == nullptr) return;
  if (database_->now() != facts_.clock.at(facts_.now)) fail("the clock of the database is off");
  if (faults_->open_calls(store_verb::put) + faults_->open_calls(store_verb::cancel) +
          faults_->open_calls(store_verb::revive) ==
      0) {
    for (std::size_t i = 0; i != ids_; ++i) {
      if (!is_unsure_[i]) continue;
      models_[i].on_quiet();
      is_unsure_[i] = false;
    }
  }
  if (operations_ % 16 == 0) {
    std::string why;
    if (!faults_->validate(&why)) fail("database: %s", why.c_str());
    const int id = any_id();
    const auto info = faults_->info(name_of_id(id));
    const shown_row row = info ? shown(*info) : shown_row{};
    fits(models_[static_cast<std::size_t>(id)].shows(info ? &row : nullptr), id, "in the database");
  }
}

// Faults that were planned for later calls are still there.
template <class Ask>
void world::ask_until_decided(Ask&& ask) {
  is_decided_ = false;
  for (int tries = 0; tries != 100 && !is_decided_ && !mismatch_; ++tries) {
    if (faults_ != nullptr) faults_->answer_lost();
    const auto is_request = [](const auto& each) { return each.second.what != verb::finish; };
    if (std::none_of(open_.begin(), open_.end(), is_request)) ask();
    advance(ms);
    check();
  }
  if (!is_decided_) fail("a request was not answered although all faults are over");
}

// All faults end, and everything runs on; a node that could not join tries again within a second. Then nothing may be left that
// had to start.
void world::settle() {
  note("settle");
  is_calm_ = true;
  if (faults_ != nullptr) {
    for (const node& n : nodes_) faults_->outage(n.name, false);
    faults_->outage(false);
    for (std::size_t v = 0; v != durable::store_verbs; ++v) {
      faults_->carry_out_after(static_cast<store_verb>(v), 0ns);
      faults_->answer_after(static_cast<store_verb>(v), 0ns);
    }
  }
  for (node& n : nodes_) {
    if (n.member >= 0 && (n.is_crashed || n.is_draining)) close(n, false);
    check();
    if (n.member < 0) open(n);
    if (n.is_paused) n.scheduler->resume();
    n.is_paused = n.closes_next = false;
  }
  while (!held_.empty()) {
    held h = std::move(held_.back());
    held_.pop_back();
    end(std::move(h), 0);
  }
  const nanos poll = options_.poll.count();
  const auto run_for = [&](nanos by) {
    for (nanos left = by; left > 0 && !mismatch_; left -= 4 * poll) {
      if (faults_ != nullptr) faults_->answer_lost();
      advance(std::min(left, 4 * poll));
      check();
    }
  };
  run_for((faults_ != nullptr ? 3 * second : 0) + options_.lease.count() * 3 + options_.request_timeout.count() +
          10 * poll);
  for (std::size_t i = 0; i != ids_ && !mismatch_; ++i) {
    ask_until_decided([&] { get(nodes_.front(), static_cast<int>(i)); });
    if (!last_read_ || last_read_->period == 0) continue;
    ask_until_decided([&] { cancel(nodes_.front(), static_cast<int>(i)); });
  }
  // Tasks that wait for a place in memory start one after the other.
  run_for(options_.lease.count() * 2 + options_.window.count() * 10 + options_.retry.cap.count() + 20 * poll);
  const nanos late = options_.window.count() * 2 + 12 * poll + 100 * ms;
  for (std::size_t i = 0; i != ids_ && !mismatch_; ++i) {
    const int id = static_cast<int>(i);
    ask_until_decided([&] { get(nodes_.front(), id); });
    if (!last_read_) continue;
    if (last_read_->state == row_state::running) fits(false, id, "is running at the end");
    if (last_read_->state == row_state::pending && last_read_->next < facts_.clock.at(facts_.now) - late)
      fits(false, id, "was not started");
  }
  if (mismatch_) return;
  for (const node& n : nodes_) {
    const durable::scheduler_stats s = n.scheduler->stats();
    if (s.scheduled != n.scheduled)
      fail("%s: stats count %llu scheduled, expected %llu", n.name.c_str(),
           static_cast<unsigned long long>(s.scheduled), static_cast<unsigned long long>(n.scheduled));
    if (s.unavailable != n.unavailable)
      fail("%s: stats count %llu unavailable, expected %llu", n.name.c_str(),
           static_cast<unsigned long long>(s.unavailable), static_cast<unsigned long long>(n.unavailable));
    if (!n.has_joined) fail("%s has not joined", n.name.c_str());
    if (s.requests != 0 || s.running != 0) fail("%s is not idle", n.name.c_str());
  }
  if (!open_.empty()) fail("request %d was never answered", open_.begin()->first);
}

void world::run(std::uint64_t operations) {
  while (operations_ < operations && !mismatch_ && !decide_.is_over()) {
    ++operations_;
    step();
    check();
  }
  if (!mismatch_) settle();
}

comparison world::result() { return {std::move(mismatch_), operations_, starts_, std::move(trace_)}; }

}  // namespace

std::unique_ptr<backend> memory_backend(std::uint16_t partitions) { return std::make_unique<memory>(partitions); }

comparison run(choices decide, std::uint64_t operations, const make_backend& make, bool keeps_trace) {
  world w{decide, make, keeps_trace};
  w.run(operations);
  return w.result();
}

comparison run_seed(std::uint64_t seed, std::uint64_t operations, const make_backend& make, bool keeps_trace) {
  comparison c = run(choices{seed}, operations, make, keeps_trace);
  if (c.mismatch) c.mismatch = "seed " + std::to_string(seed) + ": " + *c.mismatch;
  return c;
}

}  // namespace durable_model
