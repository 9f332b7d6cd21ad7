#include "world.hpp"

#include "../crash/judge/journal.hpp"
#include "../crash/judge/judge.hpp"
#include "network.hpp"
#include "node.hpp"
#include "run_loop.hpp"

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace simulation {

namespace {

using durable::store_status;
using durable::store_verb;

constexpr nanos time_of_machines = 1000 * 3'600 * second;  // their clocks are far apart
constexpr unsigned most_open = 6;                          // requests for one id
constexpr std::uint32_t first_own_order = 1'000'000;
constexpr unsigned most_rounds = 400;

// Whether an answered call begins or renews a session. A renewal of one that is buried does neither.
bool renews(store_verb v, const durable::store_call& call) {
  return v == store_verb::join || (v == store_verb::renew && !static_cast<const durable::renew_call&>(call).is_buried);
}

class world final : observer {
 public:
  explicit world(const scenario&);
  world(const world&) = delete;
  world& operator=(const world&) = delete;
  ~world();

  result run();

 private:
  struct process {
    unsigned place = 0;
    durable::session_number session = 0;  // in the store; 0: none
    nanos renewed_at = 0;                 // when its last renewal was carried out, or a moment before
    nanos confirmed_from = 0;             // when its last confirmed renewal was sent, by its clock
    std::map<std::string, nanos> begun;   // when the last begin of an id was sent, by its clock
  };
  struct known_task {
    std::uint64_t token = 0;
    std::uint64_t former_token = 0;
    std::map<std::uint32_t, unsigned> open;  // requests, by process
  };

  void on_opened(connection&) override;
  void on_gone(connection&) override;
  void on_asked(connection&, store_verb, const durable::store_call&) override;
  void on_arrived(connection&, store_verb, const durable::store_call&) override;
  void on_carried(connection&, store_verb, const durable::store_call&) override;
  void on_answer(connection&, store_verb, const durable::store_call&, nanos asked_at) override;
  void on_entered(unsigned place, const durable::execution&);

  // events
  void run_until(nanos t);
  void carry_out(const event&);
  void order(const event&);
  void disturb(const event&);
  node* someone_from(unsigned index);
  unsigned open_requests(const std::string& id) const;
  void set_clock(nanos by);
  nanos store_now();

  // judging
  void look_for_burials();
  void check_owner(const connection&, const std::string& id, durable::session_number);
  void validate();
  void accuse(std::string what);
  void check_takeover();
  void check_shares();
  std::string judge();

  // the end
  void repair();
  void bring_to_an_end();
  void list();

  const scenario plan_;
  event_queue queue_;
  machine server_;
  std::shared_ptr<durable::memory_database> database_;
  std::unique_ptr<durable::store> clock_reader_;  // a memory_database reads its clock while a store is open
  journal_writer journal_;
  network net_;
  surroundings surroundings_;
  std::vector<std::unique_ptr<node>> nodes_;
  std::vector<process> processes_{1};   // by number, from 1 on
  std::vector<std::uint32_t> current_;  // by place: its last process
  std::map<std::string, known_task> tasks_;
  std::vector<std::optional<event_kind>> traps_;  // by place: what happens when it has begun something

  nanos clock_ahead_ = 0;
  nanos most_ahead_ = 0;
  std::uint32_t last_order_ = first_own_order;
  bool is_server_touched_ = false;
  bool is_calm_ = false;
  bool is_listed_ = false;
  result out_;
};

network_options options_of(const scenario& s) {
  return {.places = s.nodes,
          .delay = s.delay,
          .jitter = s.jitter,
          .patience = s.patience,
          .silence = 2 * s.lease,
          .seed = s.seed};
}

durable::scheduler_options scheduler_options_of(const scenario& s, unsigned node) {
  durable::scheduler_options o;
  o.lease = std::chrono::nanoseconds{s.lease};
  o.poll = std::chrono::nanoseconds{s.poll};
  o.window = std::chrono::nanoseconds{s.window};
  o.request_timeout = std::chrono::nanoseconds{s.timeout};
  o.keep_finished = std::chrono::nanoseconds{s.keep};
  o.max_running = s.running;
  o.max_loaded = s.loaded;
  o.max_requests = 64;
  o.max_attempts = s.attempts;
  o.retry = {.base = std::chrono::milliseconds{20}, .cap = std::chrono::seconds{1}};
  o.seed = s.seed * 100 + node + 1;
  return o;
}

world::world(const scenario& s)
    : plan_{s},
      server_{time_of_machines, 0},
      database_{std::make_shared<durable::memory_database>(static_cast<std::uint16_t>(s.partitions))},
      clock_reader_{durable::memory_store(database_)},
      journal_{[this] { return store_now(); }},
      net_{queue_, server_, database_, options_of(s), *this},
      surroundings_{queue_,
                    net_,
                    journal_,
                    [this](unsigned place, const durable::execution& run) { on_entered(place, run); },
                    [this](const std::string& id, std::uint32_t number, int by) {
                      unsigned& open = tasks_[id].open[number];
                      open = by < 0 ? open - std::min(open, 1U) : open + 1;
                    },
                    [this](std::string what) { accuse(std::move(what)); }},
      current_(s.nodes),
      traps_(s.nodes) {
  if (clock_reader_->open(server_.timers) != 0) std::abort();
  for (std::size_t v = 0; v != durable::store_verbs; ++v)
    database_->answer_after(static_cast<store_verb>(v), std::chrono::nanoseconds{s.commit});
  // a begin is answered at the moment when it is carried out, so that its owner can be checked
  database_->carry_out_after(store_verb::begin, std::chrono::nanoseconds{s.commit});
  database_->carry_out_after(store_verb::release, std::chrono::nanoseconds{s.commit});
  journal_.line("config %u %" PRId64 " doubts cluster sessions", s.attempts, s.keep);
  for (unsigned n = 0; n != s.nodes; ++n) {
    nodes_.push_back(
        std::make_unique<node>(n, time_of_machines * (n + 2), s.drift[n], scheduler_options_of(s, n), surroundings_));
    queue_.at(n * ms, [this, n] { nodes_[n]->start(); });
  }
  for (const event& e : plan_.events) queue_.at(e.at, [this, &e] { carry_out(e); });
}

world::~world() {
  for (auto& n : nodes_) n->kill();
  queue_.clear();
  clock_reader_->close();
}

nanos world::store_now() { return count(database_->now()) + server_.clock.at(queue_.now()) - server_.shown(); }

void world::accuse(std::string what) {
  if (out_.broken.empty()) out_.broken = std::move(what);
}

result world::run() {
  run_until(plan_.until);
  repair();
  bring_to_an_end();
  if (out_.broken.empty() && nodes_.size() > 1) check_takeover();
  if (out_.broken.empty()) list();
  if (out_.broken.empty()) out_.broken = judge();
  out_.journal = journal_.text();
  out_.simulated = queue_.now();
  return std::move(out_);
}

// --- events

void world::run_until(nanos t) {
  if (!out_.broken.empty()) return;
  simulation::run_until(queue_, server_, nodes_, t, [this](bool is_of_server) {
    if (std::exchange(is_server_touched_, false) || is_of_server) look_for_burials();
    for (const auto& n : nodes_)
      if (n->dies()) n->kill();
    return out_.broken.empty();
  });
}

node* world::someone_from(unsigned index) {
  for (unsigned i = 0; i != nodes_.size(); ++i) {
    node& n = *nodes_[(index + i) % nodes_.size()];
    if (n.can_ask()) return &n;
  }
  return nullptr;
}

unsigned world::open_requests(const std::string& id) const {
  unsigned open = 0;
  if (const auto known = tasks_.find(id); known != tasks_.end())
    for (const auto& [number, its] : known->second.open) open += its;
  return open;
}

void world::carry_out(const event& e) {
  if (is_calm_) return;
  e.id.empty() ? disturb(e) : order(e);
  validate();
}

void world::order(const event& e) {
  node* const n = someone_from(e.node);
  if (n == nullptr || open_requests(e.id) >= most_open) return;
  switch (e.kind) {
    case event_kind::schedule:
      return n->schedule(e);
    case event_kind::finish:
      if (tasks_[e.id].token != 0) n->finish(e.id, e.number, tasks_[e.id].token);
      return;
    case event_kind::refinish:
      if (tasks_[e.id].former_token != 0) n->finish(e.id, e.number, tasks_[e.id].former_token);
      return;
    default:
      return n->ask(e);
  }
}

void world::disturb(const event& e) {
  node& n = *nodes_[e.node];
  if ((e.kind == event_kind::kill || e.kind == event_kind::stop) && e.word == "begin") {
    traps_[e.node] = e.kind;
    return;
  }
  switch (e.kind) {
    case event_kind::start:
      return n.start();
    case event_kind::kill:
      return n.kill();
    case event_kind::power:
      return n.lose_power(e.a != 0);
    case event_kind::close:
      return n.close();
    case event_kind::drain:
      return n.drain();
    case event_kind::pause:
    case event_kind::resume:
      return n.pause(e.kind == event_kind::pause);
    case event_kind::stop:
    case event_kind::suspend:
      return n.stop(e.kind == event_kind::suspend);
    case event_kind::go_on:
      traps_[e.node].reset();
      return n.go_on();
    case event_kind::cut:
      if (e.word != "down") net_.cut(e.node, direction::up, true);
      if (e.word != "up") net_.cut(e.node, direction::down, true);
      return;
    case event_kind::heal:
      net_.cut(e.node, direction::up, false);
      return net_.cut(e.node, direction::down, false);
    case event_kind::slow:
      return net_.slow(e.node, e.a * ms);
    case event_kind::reset:
      return net_.reset(e.node);
    case event_kind::lose:
      return net_.lose_next(e.node, static_cast<link>(e.a % 3), e.word == "up" ? direction::up : direction::down);
    case event_kind::crash:
      return net_.crash_server(e.a != 0);
    case event_kind::restore:
      return net_.start_server();
    case event_kind::clock:
      return set_clock(e.a * ms);
    default:
      return;
  }
}

void world::set_clock(nanos by) {
  server_.catch_up(queue_.now());
  const nanos before = store_now();
  database_->shift_clock(std::chrono::nanoseconds{by});
  clock_ahead_ += by;
  most_ahead_ = std::max(most_ahead_, clock_ahead_);
  journal_.line("clock %" PRId64 " %" PRId64 " %" PRId64, before, before, store_now());
}

// --- what passes through the network

void world::on_opened(connection& c) {
  c.number = static_cast<std::uint32_t>(processes_.size());
  current_[c.place()] = c.number;
  processes_.emplace_back().place = c.place();
  nodes_[c.place()]->set_process(c.number);
  journal_.line("start %" PRId64 " %" PRIu32, store_now(), c.number);
  is_server_touched_ = true;
}

void world::on_gone(connection& c) {
  for (auto& [id, known] : tasks_) known.open.erase(c.number);
  journal_.line("end %" PRId64 " 0 %" PRIu32, store_now(), c.number);
  is_server_touched_ = true;
}

// An owner stops starting at 80 % of its lease, counted from before the renewal was sent.
void world::on_asked(connection& c, store_verb v, const durable::store_call& call) {
  if (v != store_verb::begin) return;
  process& p = processes_[c.number];
  const nanos now = nodes_[c.place()]->local_now();
  for (const auto& item : static_cast<const durable::begin_call&>(call).items) p.begun[item.id] = now;
  if (now - p.confirmed_from >= plan_.lease / 10 * 8)
    accuse("D5 is broken: n" + std::to_string(c.place()) + " begins " + std::to_string((now - p.confirmed_from) / us) +
           " us after it has sent its last confirmed renewal, with a lease of " + std::to_string(plan_.lease / us) +
           " us");
}

void world::on_arrived(connection&, store_verb, const durable::store_call&) { is_server_touched_ = true; }

void world::on_carried(connection& c, store_verb v, const durable::store_call& call) {
  if (call.status != store_status::ok) return;
  if (renews(v, call)) processes_[c.number].renewed_at = queue_.now() - plan_.commit;
  if (v == store_verb::join) {
    const auto& join = static_cast<const durable::join_call&>(call);
    if (join.error != 0) return;
    look_for_burials();
    processes_[c.number].session = join.session;
    journal_.line("joined %" PRId64 " %" PRIu32, store_now(), c.number);
  }
  if (v != store_verb::begin) return;
  const auto& begin = static_cast<const durable::begin_call&>(call);
  for (const auto& start : begin.starts) check_owner(c, begin.items[start.index].id, begin.session);
  if (!begin.starts.empty() && traps_[c.place()]) {
    const event_kind what = *std::exchange(traps_[c.place()], std::nullopt);
    queue_.at(queue_.now(), [this, what, place = c.place()] {
      if (is_calm_) return;
      what == event_kind::kill ? nodes_[place]->kill() : nodes_[place]->stop(false);
    });
  }
}

// One session at a time owns a partition, and starts its tasks.
void world::check_owner(const connection& c, const std::string& id, durable::session_number session) {
  if (database_->owner_of(database_->partition_of(id)) != session)
    accuse("D5 is broken for " + id + ": n" + std::to_string(c.place()) +
           " has begun it, and does not own its partition");
}

void world::on_answer(connection& c, store_verb v, const durable::store_call& call, nanos asked_at) {
  if (call.status != store_status::ok) return;
  if (renews(v, call)) processes_[c.number].confirmed_from = asked_at;
}

// A node drops a start when 80 % of the lease have passed since its begin.
void world::on_entered(unsigned place, const durable::execution& run) {
  const std::string id{run.id()};
  known_task& t = tasks_[id];
  t.former_token = std::exchange(t.token, run.token());
  ++out_.starts;
  const process& p = processes_[current_[place]];
  if (p.session == 0) ++out_.late_starts;
  const auto begun = p.begun.find(id);
  const nanos now = nodes_[place]->local_now();
  if (begun == p.begun.end())
    accuse("D5 is broken: n" + std::to_string(place) + " starts " + id + ", which it has not begun");
  else if (now - begun->second >= plan_.lease / 10 * 8)
    accuse("D5 is broken: n" + std::to_string(place) + " starts " + id + " " +
           std::to_string((now - begun->second) / us) + " us after it has sent the begin, with a lease of " +
           std::to_string(plan_.lease / us) + " us");
}

// --- judging

// A session ends when its process joins anew, or when others have seen no renewal of it for half a lease.
void world::look_for_burials() {
  for (std::uint32_t i = 1; i != processes_.size(); ++i) {
    process& p = processes_[i];
    if (p.session == 0) continue;
    const durable::session_number now = database_->session_of(nodes_[p.place]->name());
    if (now == p.session) continue;
    p.session = 0;
    journal_.line("buried %" PRId64 " %" PRIu32, store_now(), i);
    if (now != 0) continue;
    ++out_.burials;
    const nanos silent = queue_.now() - p.renewed_at;
    if (silent < plan_.lease / 2 - plan_.lease / 50)
      accuse("D5 is broken: n" + std::to_string(p.place) + " is buried " + std::to_string(silent / us) +
             " us after it has renewed its session, with a lease of " + std::to_string(plan_.lease / us) + " us");
  }
}

void world::validate() {
  std::string why;
  if (!database_->validate(&why)) accuse("an invariant of the store is broken: " + why);
  for (const auto& n : nodes_)
    if (!n->validate(&why)) accuse("an invariant of a scheduler is broken: " + why);
}

// A node without power is buried within its lease and two renewals.
void world::check_takeover() {
  const auto victim = static_cast<unsigned>(plan_.seed % nodes_.size());
  const durable::session_number session = database_->session_of(nodes_[victim]->name());
  nodes_[victim]->lose_power(false);
  const nanos round_trips = 8 * (plan_.delay + plan_.commit + plan_.jitter) + 20 * ms;
  run_until(queue_.now() + plan_.lease + plan_.lease / 2 + plan_.lease / 20 + round_trips);
  if (session != 0 && database_->session_of(nodes_[victim]->name()) == session)
    return accuse("D5 is broken: n" + std::to_string(victim) +
                  " has no power, and is not buried within its lease and two renewals");
  nodes_[victim]->start();
  run_until(queue_.now() + 3 * plan_.lease + 10 * round_trips);
  check_shares();
}

// At most ceil(partitions / nodes) each, and none is free.
void world::check_shares() {
  const unsigned fair = (plan_.partitions + plan_.nodes - 1) / plan_.nodes;
  unsigned owned = 0;
  for (const durable::store_node& n : database_->nodes()) {
    owned += n.partitions;
    if (n.partitions > fair)
      accuse("the shares are uneven: a node owns " + std::to_string(n.partitions) + " of " +
             std::to_string(plan_.partitions) + " partitions");
  }
  if (owned != plan_.partitions)
    accuse("D5 is broken: " + std::to_string(plan_.partitions - owned) +
           " partitions are free although all nodes live");
}

std::string world::judge() {
  const crash::journal j = crash::read_journal(journal_.text());
  const crash::verdict v = crash::judge(j);
  out_.tasks = v.tasks;
  return v.violations.empty() ? std::string{} : crash::report(j, v, 3);
}

// --- the end

void world::repair() {
  is_calm_ = true;
  net_.calm();
  for (unsigned n = 0; n != nodes_.size(); ++n) {
    traps_[n].reset();
    nodes_[n]->go_on();
    nodes_[n]->pause(false);
  }
  if (clock_ahead_ < most_ahead_) set_clock(most_ahead_ - clock_ahead_);
}

// Cancels what is periodic, and waits for the rest.
void world::bring_to_an_end() {
  for (unsigned round = 0; round != most_rounds && out_.broken.empty(); ++round) {
    for (const auto& n : nodes_) n->start();
    run_until(queue_.now() + plan_.lease / 2 + 50 * ms);
    bool is_over = database_->size(durable::task_state::pending) + database_->size(durable::task_state::running) == 0;
    for (const auto& [id, known] : tasks_) {
      if (open_requests(id) != 0) is_over = false;
      const auto row = database_->row(id);
      if (!row || row->info.what.period == row->info.what.period.zero() || open_requests(id) >= most_open) continue;
      if (row->info.state != durable::task_state::pending && row->info.state != durable::task_state::running) continue;
      node* const n = someone_from(round);
      event cancel;
      cancel.kind = event_kind::cancel;
      cancel.id = id;
      cancel.number = ++last_order_;
      if (n != nullptr) n->ask(cancel);
    }
    if (is_over && round * plan_.lease > 4 * plan_.lease) break;
  }
}

void world::list() {
  journal_.line("quiet %" PRId64, store_now());
  node* const n = someone_from(0);
  if (n == nullptr) return accuse("no node can be asked in the end");
  n->list_all([this] { is_listed_ = true; });
  for (unsigned round = 0; round != most_rounds && !is_listed_; ++round) run_until(queue_.now() + second);
  if (!is_listed_) accuse("no node lists its tasks in the end");
}

}  // namespace

result run(const scenario& s) { return world{s}.run(); }

}  // namespace simulation
