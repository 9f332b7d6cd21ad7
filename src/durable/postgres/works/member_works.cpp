// The works of renew, bury, acquire and load.
#include "../link/node_state.hpp"
#include "../sql/times.hpp"
#include "burial.hpp"
#include "works.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace tickwheel::durable::postgres {

namespace {

using namespace std::chrono_literals;

// from one look at backends that shall end to the next
constexpr std::chrono::nanoseconds backend_pause = 5ms;

std::int64_t limit_of(std::size_t rows) noexcept {
  return static_cast<std::int64_t>(std::min<std::size_t>(rows, std::numeric_limits<std::int32_t>::max()));
}

class renew_work final : public work {
 public:
  renew_work(renew_call& c, node_state& of) : work{store_verb::renew, &c}, state_{of} {}

 private:
  void on_ask(transaction& to) override {
    const renew_call& c = as<renew_call>();
    const auto session = static_cast<std::int64_t>(c.session);
    to.add(statement::renew).add(session).add(span_of(c.lease)).add_boolean(c.is_starting);
    (void)to.add(statement::nodes);
    to.add(statement::partitions).add(session);
    to.add(statement::count_dead).add(static_cast<std::int64_t>(most_dead_counted));
  }
  void on_committed(const transaction& of) override {
    auto& c = as<renew_call>();
    c.now = from_database(of.of(0).integer(0, 0));
    c.nodes.clear();
    c.partitions.clear();
    c.free_partitions = 0;
    c.dead = 0;
    c.is_buried = of.of(0).is_null(0, 1);
    end();
    if (c.is_buried) return;
    const rows nodes = of.of(1), parts = of.of(2);
    for (int r = 0; r != nodes.size(); ++r)
      c.nodes.push_back({.session = static_cast<session_number>(nodes.integer(r, 0)),
                         .beat = static_cast<std::uint64_t>(nodes.integer(r, 1)),
                         .expires = from_database(nodes.integer(r, 2)),
                         .lease = std::chrono::nanoseconds{nodes.integer(r, 3)},
                         .partitions = static_cast<std::uint16_t>(nodes.integer(r, 5)),
                         .is_starting = nodes.boolean(r, 4)});
    for (int r = 0; r != parts.size(); ++r) {
      if (parts.boolean(r, 1))
        c.partitions.push_back(static_cast<partition_number>(parts.integer(r, 0)));
      else
        ++c.free_partitions;
    }
    c.dead = static_cast<std::uint64_t>(of.of(3).integer(0, 0));
    // another node has handed some over
    if (!std::includes(state_.owned.begin(), state_.owned.end(), c.partitions.begin(), c.partitions.end()))
      state_.recovers_all = true;
    state_.owned = c.partitions;
  }

  node_state& state_;
};

class bury_work final : public work {
 public:
  bury_work(bury_call& c, node_state& of) : work{store_verb::bury, &c}, state_{of} {
    // a beat that no session has had
    burial_.begin(c.session, c.beat == burial::any_beat ? ~std::uint64_t{0} : c.beat);
  }

 private:
  void on_ask(transaction& to) override { burial_.ask(to); }
  void on_committed(const transaction& of) override {
    if (!burial_.take(of)) {
      if (burial_.must_wait()) pause(backend_pause);
      return;
    }
    call()->now = from_database(of.of(0).integer(0, 0));
    as<bury_call>().is_buried = burial_.is_buried();
    if (!burial_.is_locked()) return end();
    state_.problem = burial::locked;
    end(store_status::unavailable);
  }

  node_state& state_;
  burial burial_;
};

class acquire_work final : public work {
 public:
  acquire_work(acquire_call& c, node_state& of) : work{store_verb::acquire, &c}, state_{of} {}

 private:
  void on_ask(transaction& to) override {
    const acquire_call& c = as<acquire_call>();
    to.add(statement::acquire).add(static_cast<std::int64_t>(c.session)).add(std::int64_t{c.limit});
  }
  void on_committed(const transaction& of) override {
    auto& c = as<acquire_call>();
    const rows taken = of.of(0);
    c.now = from_database(taken.integer(0, 0));
    c.partitions.clear();
    for (int r = 0; r != taken.size(); ++r)
      if (!taken.is_null(r, 1)) c.partitions.push_back(static_cast<partition_number>(taken.integer(r, 1)));
    if (!c.partitions.empty()) state_.recovers_all = true;
    end();
  }

  node_state& state_;
};

class load_work final : public work {
 public:
  explicit load_work(load_call& c) : work{store_verb::load, &c} {}

 private:
  void on_ask(transaction& to) override {
    const load_call& c = as<load_call>();
    const std::size_t n = c.ranges.size();
    parameters::array parts{element_type::smallint, n}, times{element_type::bigint, n}, ids{element_type::text, n};
    for (const load_range& range : c.ranges) {
      parts.add_smallint(static_cast<std::int16_t>(range.partition));
      times.add(to_database(range.at));
      ids.add(range.id);
    }
    (void)to.add(statement::read_clock);
    to.add(statement::load)
        .add(std::move(parts))
        .add(std::move(times))
        .add(std::move(ids))
        .add(span_of(c.window))
        .add(limit_of(c.page));
  }
  void on_committed(const transaction& of) override {
    auto& c = as<load_call>();
    c.now = from_database(of.of(0).integer(0, 0));
    c.rows.clear();
    const rows found = of.of(1);
    std::vector<std::pair<std::int64_t, pending_row>> read;
    read.reserve(static_cast<std::size_t>(found.size()));
    for (int r = 0; r != found.size(); ++r) {
      const std::int64_t range = found.integer(r, 0);
      read.emplace_back(range, pending_row{.partition = c.ranges[static_cast<std::size_t>(range - 1)].partition,
                                           .id = std::string{found.bytes(r, 1)},
                                           .rev = static_cast<revision>(found.integer(r, 2)),
                                           .at = from_database(found.integer(r, 3)),
                                           .bytes = static_cast<std::uint32_t>(found.integer(r, 4)),
                                           .lost = static_cast<std::uint16_t>(found.integer(r, 5))});
    }
    // the server reads range after range, but does not promise that
    const auto by_range = [](const auto& a, const auto& b) {
      return std::tie(a.first, a.second.at, a.second.id) < std::tie(b.first, b.second.at, b.second.id);
    };
    if (!std::is_sorted(read.begin(), read.end(), by_range)) std::sort(read.begin(), read.end(), by_range);
    c.rows.reserve(read.size());
    for (auto& [range, row] : read) c.rows.push_back(std::move(row));
    end();
  }
};

class beat_work final : public work {
 public:
  explicit beat_work(session_number session) : work{store_verb::renew, nullptr}, session_{session} {}

 private:
  void on_ask(transaction& to) override { to.add(statement::beat).add(static_cast<std::int64_t>(session_)); }
  void on_committed(const transaction&) override { end(); }

  session_number session_;
};

}  // namespace

std::unique_ptr<work> make_renew(renew_call& c, node_state& of) { return std::make_unique<renew_work>(c, of); }
std::unique_ptr<work> make_bury(bury_call& c, node_state& of) { return std::make_unique<bury_work>(c, of); }
std::unique_ptr<work> make_acquire(acquire_call& c, node_state& of) { return std::make_unique<acquire_work>(c, of); }
std::unique_ptr<work> make_load(load_call& c) { return std::make_unique<load_work>(c); }
std::unique_ptr<work> make_beat(session_number session) { return std::make_unique<beat_work>(session); }

std::unique_ptr<work> make_work(store_verb verb, store_call& call, node_state& of) {
  switch (verb) {
    case store_verb::join:
      return make_join(static_cast<join_call&>(call), of);
    case store_verb::renew:
      return make_renew(static_cast<renew_call&>(call), of);
    case store_verb::bury:
      return make_bury(static_cast<bury_call&>(call), of);
    case store_verb::acquire:
      return make_acquire(static_cast<acquire_call&>(call), of);
    case store_verb::release:
      return make_release(static_cast<release_call&>(call));
    case store_verb::load:
      return make_load(static_cast<load_call&>(call));
    case store_verb::begin:
      return make_begin(static_cast<begin_call&>(call), of);
    case store_verb::finish:
      return make_finish(static_cast<finish_call&>(call));
    case store_verb::recover:
      return make_recover(static_cast<recover_call&>(call), of);
    case store_verb::put:
      return make_put(static_cast<put_call&>(call));
    case store_verb::cancel:
      return make_cancel(static_cast<cancel_call&>(call));
    case store_verb::revive:
      return make_revive(static_cast<revive_call&>(call));
    case store_verb::get:
      return make_get(static_cast<get_call&>(call));
    case store_verb::list:
      return make_list(static_cast<list_call&>(call));
    case store_verb::purge:
      return make_purge(static_cast<purge_call&>(call), of);
  }
  return nullptr;
}

}  // namespace tickwheel::durable::postgres
