#include "verbs.hpp"

#include "../support/bench_tasks.hpp"
#include "../support/failure.hpp"

#include <tickwheel/durable/store.hpp>
#include <tickwheel/uv/event_loop.hpp>
#include <tickwheel/uv/remote.hpp>

#include <uv.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tickwheel::bench {

namespace {

using namespace std::chrono_literals;
using durable::store;
using durable::store_call;

constexpr std::size_t elements = 1000;  // of a call

template <class Call>
struct asked : Call {
  asked() : Call{[](store_call& c) noexcept { static_cast<asked&>(static_cast<Call&>(c)).is_answered = true; }} {}
  bool is_answered = false;
};

/// A member of the store that owns all partitions.
class member {
 public:
  explicit member(std::unique_ptr<store> tasks) : tasks_{std::move(tasks)} {
    if (loop_.open() != 0 || tasks_->open(loop_.timers()) != 0) fail("verbs: the store cannot be opened");
    hold_ = loop_.timers().hold();
    asked<durable::join_call> join;
    join.name = "verbs";
    join.lease = 1h;
    join.keep_finished = 5min;
    ask(&store::join, join);
    if (join.error != 0) fail("verbs: " + std::string{tasks_->problem()});
    session = join.session;
    asked<durable::acquire_call> acquire;
    acquire.session = session;
    acquire.limit = join.partitions;
    ask(&store::acquire, acquire);
    asked<durable::renew_call> renew;
    renew.session = session;
    renew.lease = 1h;
    ask(&store::renew, renew);
    partitions = renew.partitions;
  }
  ~member() {
    tasks_->close();
    hold_ = {};
    loop_.close();
  }
  member(const member&) = delete;
  member& operator=(const member&) = delete;

  template <class Call>
  void ask(void (store::*verb)(Call&) noexcept, asked<Call>& call) {
    call.is_answered = false;
    (tasks_.get()->*verb)(call);
    while (!call.is_answered) loop_.run(UV_RUN_ONCE);
    if (call.status != durable::store_status::ok) fail("verbs: " + std::string{tasks_->problem()});
  }

  durable::session_number session = 0;
  std::vector<durable::partition_number> partitions;

 private:
  event_loop loop_;
  remote_hold hold_;  // a store does not keep the loop alive
  std::unique_ptr<store> tasks_;
};

void put(member& of, std::uint64_t first, std::size_t count) {
  const auto now = durable::clock::now();
  asked<durable::put_call> call;
  for (std::size_t done = 0; done != count; done += call.items.size()) {
    call.items.clear();
    for (std::size_t i = done; i != std::min(done + elements, count); ++i)
      call.items.push_back({{id_of(first + i), now, payload, {}}, durable::on_conflict::keep});
    of.ask(&store::put, call);
  }
}

std::vector<durable::pending_row> load(member& of) {
  std::vector<durable::pending_row> all;
  asked<durable::load_call> call;
  call.window = 2s;
  for (const auto p : of.partitions) call.ranges.push_back({p, {}, {}});
  while (!call.ranges.empty()) {
    call.page = std::max<std::size_t>(elements / call.ranges.size(), 16);
    of.ask(&store::load, call);
    std::vector<durable::load_range> rest;
    std::size_t in_range = 0;
    for (std::size_t i = 0; i != call.rows.size(); ++i) {
      const durable::pending_row& row = call.rows[i];
      ++in_range;
      if (i + 1 != call.rows.size() && call.rows[i + 1].partition == row.partition) continue;
      if (in_range == call.page) rest.push_back({row.partition, row.at, row.id});
      in_range = 0;
    }
    all.insert(all.end(), std::move_iterator{call.rows.begin()}, std::move_iterator{call.rows.end()});
    call.ranges = std::move(rest);
  }
  return all;
}

std::vector<durable::finish_call::item> begin(member& of, const std::vector<durable::pending_row>& rows) {
  std::vector<durable::finish_call::item> starts;
  asked<durable::begin_call> call;
  call.session = of.session;
  for (std::size_t done = 0; done != rows.size(); done += call.items.size()) {
    call.items.clear();
    for (std::size_t i = done; i != std::min(done + elements, rows.size()); ++i)
      call.items.push_back({rows[i].id, rows[i].rev});
    call.starts.clear();
    of.ask(&store::begin, call);
    for (const auto& s : call.starts) starts.push_back({call.items[s.index].id, s.token, durable::outcome::done});
  }
  return starts;
}

void finish(member& of, std::vector<durable::finish_call::item> starts) {
  asked<durable::finish_call> call;
  while (!starts.empty()) {
    const auto from = starts.end() - static_cast<std::ptrdiff_t>(std::min(elements, starts.size()));
    call.items.assign(std::move_iterator{from}, std::move_iterator{starts.end()});
    starts.erase(from, starts.end());
    of.ask(&store::finish, call);
  }
}

template <class F>
void time(std::vector<double>& rates, std::size_t count, const F& what) {
  const auto before = std::chrono::steady_clock::now();
  what();
  rates.push_back(static_cast<double>(count) / seconds(std::chrono::steady_clock::now() - before));
}

}  // namespace

void measure_verbs(const bench_options& o, const store_subject& subject, figure_table& out) {
  member of{subject.make_store()};
  const std::size_t each = std::max<std::size_t>(o.operations / o.rounds, 1);
  std::vector<double> loads, begins, finishes;
  for (std::size_t round = 0; round != o.rounds; ++round) {
    put(of, new_numbers(each), each);
    std::vector<durable::pending_row> rows;
    std::vector<durable::finish_call::item> starts;
    time(loads, each, [&] { rows = load(of); });
    time(begins, each, [&] { starts = begin(of, rows); });
    if (starts.size() != each) fail("verbs: not each task starts");
    time(finishes, each, [&] { finish(of, std::move(starts)); });
  }
  out.add_rate("load", loads);
  out.add_rate("begin", begins);
  out.add_rate("finish", finishes);
}

}  // namespace tickwheel::bench
