// The conformance suite of stores: what each store must do, whatever its database.
//
// An executable of the suite is linked with the sources in `store_conformance` (meson.build), and defines `stores_under_test`. Each
// test then runs once for each of these stores, and has its name: state_table.keep_on_dead_answers_ended/memory
#pragma once

#include <tickwheel/durable/store.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace conformance {

using namespace std::chrono_literals;
namespace durable = tickwheel::durable;

/// One empty database, and the loop on which its stores answer. Made anew for each test.
class store_fixture {
 public:
  store_fixture() = default;
  store_fixture(const store_fixture&) = delete;
  store_fixture& operator=(const store_fixture&) = delete;
  virtual ~store_fixture() = default;

  /// Returns another store of the database, which is closed.
  virtual std::unique_ptr<durable::store> make_store() = 0;
  /// The service for `store::open`.
  virtual tickwheel::timer_service& timers() = 0;
  /// Runs the loop once. Waits for a short time if nothing is ready.
  virtual void turn() = 0;
  /// Returns when the store's clock has moved on by `by`: a few milliseconds, because this may wait for them.
  virtual void advance(std::chrono::nanoseconds by) = 0;

  /// Returns true if several stores may be open at a time.
  virtual bool can_share() const { return false; }
  /// Returns true if the store's clock can be set.
  virtual bool can_shift_clock() const { return false; }
  /// Moves the store's clock forward or back. Called only if it can be set.
  virtual void shift_clock(std::chrono::nanoseconds) {}
  /// Returns true if a test can let the database reject a task.
  virtual bool can_refuse() const { return false; }
  /// Lets the database reject each task with this payload from now on.
  virtual void refuse_payload(const std::string&) {}
  /// Returns true if the database kept its promises about itself; `why` says which one it broke. Called after each test, when its first
  /// store is closed.
  virtual bool validate(std::string* /*why*/) { return true; }
};

/// A kind of store: its name in the names of tests, and its fixture.
struct store_kind {
  const char* name;
  std::unique_ptr<store_fixture> (*make)();
};
inline std::ostream& operator<<(std::ostream& out, const store_kind& k) { return out << k.name; }

/// The stores of this executable, which defines it.
std::vector<store_kind> stores_under_test();

inline std::string name_of(const testing::TestParamInfo<store_kind>& test) { return test.param.name; }

/// Runs the tests of a suite on each store.
#define TICKWHEEL_CONFORMANCE(suite) \
  INSTANTIATE_TEST_SUITE_P(, suite, testing::ValuesIn(::conformance::stores_under_test()), ::conformance::name_of)

/// A call that notes its answer.
template <class Call>
struct asked final : Call {
  asked() : Call{&on_answered} {}

  bool is_answered() const { return answers != 0; }

  int answers = 0;
  std::vector<durable::store_call*>* order = nullptr;  ///< each answered call is added to it

 private:
  static void on_answered(durable::store_call& c) noexcept {
    auto& self = static_cast<asked&>(c);
    ++self.answers;
    if (self.order != nullptr) self.order->push_back(&c);
  }
};

/// Passes calls to the verbs of their names.
inline void call(durable::store& s, durable::join_call& c) { s.join(c); }
inline void call(durable::store& s, durable::renew_call& c) { s.renew(c); }
inline void call(durable::store& s, durable::bury_call& c) { s.bury(c); }
inline void call(durable::store& s, durable::acquire_call& c) { s.acquire(c); }
inline void call(durable::store& s, durable::release_call& c) { s.release(c); }
inline void call(durable::store& s, durable::load_call& c) { s.load(c); }
inline void call(durable::store& s, durable::begin_call& c) { s.begin(c); }
inline void call(durable::store& s, durable::finish_call& c) { s.finish(c); }
inline void call(durable::store& s, durable::recover_call& c) { s.recover(c); }
inline void call(durable::store& s, durable::put_call& c) { s.put(c); }
inline void call(durable::store& s, durable::cancel_call& c) { s.cancel(c); }
inline void call(durable::store& s, durable::revive_call& c) { s.revive(c); }
inline void call(durable::store& s, durable::get_call& c) { s.get(c); }
inline void call(durable::store& s, durable::list_call& c) { s.list(c); }
inline void call(durable::store& s, durable::purge_call& c) { s.purge(c); }

/// Runs the loop of a fixture until calls are answered.
class call_runner {
 public:
  explicit call_runner(store_fixture& on) : on_{on} {}

  /// Calls the verb and waits for its answer. The test fails if the answer comes within the verb, twice, or never.
  template <class Call>
  void run(durable::store& s, asked<Call>& c) {
    call(s, c);
    EXPECT_FALSE(c.is_answered()) << "answered within the verb";
    wait_for(c);
  }

  template <class Call>
  void wait_for(const asked<Call>& c) {
    using steady = std::chrono::steady_clock;
    for (const auto deadline = steady::now() + 20s; !c.is_answered() && steady::now() < deadline;) on_.turn();
    ASSERT_EQ(c.answers, 1) << "not answered exactly once";
  }

 private:
  store_fixture& on_;
};

/// A node: a store that has joined, and its calls. Each function waits for its answer, which must be `ok`.
class node {
 public:
  using time = durable::clock::time_point;

  explicit node(store_fixture& on) : on_{on}, store_{on.make_store()} {}
  ~node() { close(); }
  node(const node&) = delete;
  node& operator=(const node&) = delete;

  durable::store& store() { return *store_; }
  durable::session_number session() const { return session_; }
  std::uint16_t partitions() const { return partitions_; }
  const std::vector<durable::partition_number>& owned() const { return owned_; }
  /// Returns the store's time at the last answer.
  time now() const { return now_; }

  /// Runs a call, which must answer `ok`.
  template <class Call>
  void run(asked<Call>& c) {
    call_runner{on_}.run(*store_, c);
    EXPECT_EQ(c.status, durable::store_status::ok);
    now_ = c.now;
  }

  /// Opens the store, and joins. Returns the answer of `join`.
  int join(std::chrono::nanoseconds keep_finished = 1h, std::string name = "a", std::chrono::nanoseconds lease = 1h) {
    EXPECT_EQ(store_->open(on_.timers()), 0);
    asked<durable::join_call> c;
    c.name = std::move(name);
    c.keep_finished = keep_finished;
    c.lease = lease;
    run(c);
    session_ = c.session;
    partitions_ = c.partitions;
    owned_.clear();
    return c.error;
  }
  /// Opens the store, joins, and owns all partitions that are free.
  void start(std::chrono::nanoseconds keep_finished = 1h, std::string name = "a", std::chrono::nanoseconds lease = 1h) {
    ASSERT_EQ(join(keep_finished, std::move(name), lease), 0) << store_->problem();
    acquire();
  }
  void close() { store_->close(); }
  /// Ends the session as a crash does, and joins anew: what ran is lost.
  void lose(std::chrono::nanoseconds keep_finished = 1h) {
    close();
    start(keep_finished);
  }

  std::vector<durable::partition_number> acquire(std::uint16_t limit = 0xffff) {
    asked<durable::acquire_call> c;
    c.session = session_;
    c.limit = limit;
    run(c);
    owned_.insert(owned_.end(), c.partitions.begin(), c.partitions.end());
    return c.partitions;
  }
  void release(std::vector<durable::partition_number> partitions, durable::session_number to = 0) {
    asked<durable::release_call> c;
    c.session = session_;
    c.partitions = std::move(partitions);
    c.to = to;
    run(c);
  }
  /// Renews the session of this node, or another.
  void renew(asked<durable::renew_call>& c, std::optional<durable::session_number> session = {}) {
    c.session = session.value_or(session_);
    c.lease = 1h;
    run(c);
  }
  /// Returns what `renew` says of a node. No value: it is no member.
  std::optional<durable::store_node> member(durable::session_number session) {
    asked<durable::renew_call> c;
    renew(c);
    for (const durable::store_node& n : c.nodes)
      if (n.session == session) return n;
    return std::nullopt;
  }
  /// Returns true if the session is gone then.
  bool bury(durable::session_number session, std::uint64_t beat) {
    asked<durable::bury_call> c;
    c.session = session;
    c.beat = beat;
    run(c);
    return c.is_buried;
  }
  /// Ends the session of another node, which must be a member.
  void bury(durable::session_number session) {
    const auto other = member(session);
    ASSERT_TRUE(other.has_value());
    EXPECT_TRUE(bury(session, other->beat));
  }
  durable::put_call::answered put(durable::task what, durable::on_conflict conflict = durable::on_conflict::keep) {
    asked<durable::put_call> c;
    c.items.push_back({std::move(what), conflict});
    run(c);
    return c.results.size() == 1 ? c.results[0] : durable::put_call::answered{durable::schedule_result::unknown};
  }
  durable::cancel_result cancel(std::string id) {
    asked<durable::cancel_call> c;
    c.ids.push_back(std::move(id));
    run(c);
    return c.results.size() == 1 ? c.results[0] : durable::cancel_result::unknown;
  }
  durable::revive_call::answered revive(std::string id) {
    asked<durable::revive_call> c;
    c.ids.push_back(std::move(id));
    run(c);
    return c.results.size() == 1 ? c.results[0] : durable::revive_call::answered{durable::revive_result::unknown};
  }
  std::optional<durable::task_info> get(std::string id) {
    asked<durable::get_call> c;
    c.ids.push_back(std::move(id));
    run(c);
    return c.results.size() == 1 ? c.results[0] : std::nullopt;
  }
  std::vector<std::string> list(durable::task_state state, std::string after = {}, std::size_t limit = 10'000) {
    asked<durable::list_call> c;
    c.state = state;
    c.after = std::move(after);
    c.limit = limit;
    run(c);
    std::vector<std::string> ids;
    for (const durable::task_info& i : c.results) ids.push_back(i.what.id);
    return ids;
  }
  /// Returns the pending rows that are due within `window` in the partitions of this node.
  std::vector<durable::pending_row> load(std::chrono::nanoseconds window = 0ns, std::size_t page = 1000) {
    asked<durable::load_call> c;
    for (const durable::partition_number p : owned_) c.ranges.push_back({p, time{}, {}});
    c.window = window;
    c.page = page;
    run(c);
    return c.rows;
  }
  /// Starts a task with this rev. No value: it did not start.
  std::optional<durable::begin_call::started> begin(std::string id, durable::revision rev) {
    asked<durable::begin_call> c;
    c.session = session_;
    c.items.push_back({std::move(id), rev});
    run(c);
    return c.starts.size() == 1 ? std::optional{c.starts[0]} : std::nullopt;
  }
  /// Starts a task that is pending and due.
  durable::begin_call::started begin(const std::string& id) {
    for (const durable::pending_row& r : load())
      if (r.id == id)
        if (auto s = begin(id, r.rev)) return *s;
    ADD_FAILURE() << id << " did not start";
    return {};
  }
  durable::finish_result finish(durable::finish_call::item how) {
    asked<durable::finish_call> c;
    c.items.push_back(std::move(how));
    run(c);
    return c.results.size() == 1 ? c.results[0] : durable::finish_result::unknown;
  }
  durable::finish_result done(std::string id, durable::revision token) {
    return finish({.id = std::move(id), .token = token, .how = durable::outcome::done});
  }
  durable::finish_result again(std::string id, durable::revision token, time at, std::string error = {},
                               bool gives_attempt_back = false) {
    return finish({.id = std::move(id),
                   .token = token,
                   .how = durable::outcome::again,
                   .at = at,
                   .gives_attempt_back = gives_attempt_back,
                   .error = std::move(error)});
  }
  durable::finish_result dead(std::string id, durable::revision token, std::string error = {}) {
    return finish({.id = std::move(id), .token = token, .how = durable::outcome::dead, .error = std::move(error)});
  }
  struct recovery {
    std::uint64_t recovered = 0, died = 0;
    bool operator==(const recovery&) const = default;
  };
  recovery recover(unsigned max_attempts = 8, std::vector<std::string> doubted = {}) {
    asked<durable::recover_call> c;
    c.session = session_;
    c.max_attempts = max_attempts;
    c.doubted = std::move(doubted);
    run(c);
    return {c.recovered, c.died};
  }
  std::size_t purge(std::size_t limit = 1000) {
    asked<durable::purge_call> c;
    c.limit = limit;
    run(c);
    return c.purged;
  }

 private:
  store_fixture& on_;
  std::unique_ptr<durable::store> store_;
  durable::session_number session_ = 0;
  std::uint16_t partitions_ = 0;
  std::vector<durable::partition_number> owned_;
  time now_{};
};

/// Returns all that a store says of a task, for comparisons.
inline std::string described(const std::optional<durable::task_info>& i) {
  if (!i) return "none";
  std::string text = durable::to_string(i->state);
  const auto add = [&](const char* name, auto number) { text += std::string{name} + std::to_string(number); };
  add(" due ", i->what.due.time_since_epoch().count());
  add(" period ", i->what.period.count());
  add(" next ", i->next.time_since_epoch().count());
  add(" attempts ", i->attempts);
  add(" lost ", i->lost);
  return text + (i->cancelling ? " cancelling" : "") + " payload '" + i->what.payload + "' error '" + i->last_error +
         "'";
}

/// A time in the past of the store's clock.
inline constexpr durable::clock::time_point past{1s};

/// A task that is due.
inline durable::task due_now(std::string id = "t", std::string payload = "data") {
  return {.id = std::move(id), .due = past, .payload = std::move(payload)};
}

/// A test of a store: a database, and a node that has joined it and owns all partitions.
class store_test : public testing::TestWithParam<store_kind> {
 protected:
  using time = durable::clock::time_point;

  void SetUp() override { own.start(); }
  void TearDown() override {
    own.close();
    std::string why;
    EXPECT_TRUE(fixture->validate(&why)) << why;
  }

  /// A task that is due in an hour.
  durable::task due_later(std::string id = "t") const {
    return {.id = std::move(id), .due = own.now() + 1h, .payload = "data"};
  }
  /// A task that was due a second ago, and is every hour.
  durable::task periodic(std::string id = "t") const {
    return {.id = std::move(id), .due = own.now() - 1s, .payload = "data", .period = 1h};
  }

  // Put a task into the store, in the state of the name. Those that run it return its token.
  durable::revision make_pending(const std::string& id = "t") { return own.put(due_now(id)).rev; }
  durable::revision make_running(const std::string& id = "t") {
    own.put(due_now(id));
    return own.begin(id).token;
  }
  durable::revision make_dead(const std::string& id = "t", std::string error = "broken") {
    const durable::revision token = make_running(id);
    EXPECT_EQ(own.dead(id, token, std::move(error)), durable::finish_result::finished);
    return token;
  }
  durable::revision make_finished(const std::string& id = "t") {
    const durable::revision token = make_running(id);
    EXPECT_EQ(own.done(id, token), durable::finish_result::finished);
    return token;
  }
  void make_cancelled(const std::string& id = "t") {
    make_pending(id);
    EXPECT_EQ(own.cancel(id), durable::cancel_result::cancelled);
  }
  /// Running, and a cancel came.
  durable::revision make_stopping(const std::string& id = "t") {
    const durable::revision token = make_running(id);
    EXPECT_EQ(own.cancel(id), durable::cancel_result::running);
    return token;
  }
  /// Running in a session that is gone.
  durable::revision make_orphan(const std::string& id = "t") {
    const durable::revision token = make_running(id);
    own.lose();
    return token;
  }
  /// Joins anew. Tasks that end from now on are forgotten at once.
  void forget_ended_at_once() { own.lose(0ns); }

  durable::task_state state_of(const std::string& id = "t") {
    const auto i = own.get(id);
    EXPECT_TRUE(i.has_value());
    return i ? i->state : durable::task_state{};
  }

  const std::unique_ptr<store_fixture> fixture = GetParam().make();
  node own{*fixture};
};

}  // namespace conformance
