#include "round.hpp"

#include "cluster.hpp"
#include "server/database.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace chaos {

namespace {

using namespace std::chrono_literals;
using crash::true_wall;
using steady = std::chrono::steady_clock;

constexpr unsigned max_attempts = 4;
constexpr std::int64_t keep_finished = 300'000 * crash::millisecond;
constexpr std::int64_t hour = 3'600'000 * crash::millisecond;
constexpr unsigned zeros_of_quiet = 4;
constexpr unsigned looks_to_cancel_again = 50;
constexpr unsigned most_counts = 20;
constexpr std::uint64_t partitions = 16;
constexpr std::size_t fat_tasks = 40;
constexpr std::size_t fat_payload = 60'000;
constexpr std::size_t held_ids = 100;

// The database itself notes each start whose session is not a member: nothing else tells of a start of a buried node.
constexpr const char* note_starts_of_strangers = R"(
create table tickwheel.strangers(id text not null, session bigint);
create function tickwheel.note_stranger() returns trigger language plpgsql as $$
begin
  if not exists (select from tickwheel.nodes n where n.session = new.session) then
    insert into tickwheel.strangers values(new.id, new.session);
  end if;
  return null;
end $$;
create trigger note_stranger after update on tickwheel.tasks for each row when (old.state = 0 and new.state = 1)
  execute function tickwheel.note_stranger())";

constexpr std::array names{"kill",     "stop",     "network", "server", "fat",     "holder",
                           "opposite", "snapshot", "cut",     "clock",  "failover"};

class round final : private cluster::observer {
 public:
  round(const round_options& o, shared_servers& servers, std::uint64_t seed)
      : options_{o}, servers_{servers}, random_{seed} {
    choose_faults();
    choose_server();
    processes_.emplace(static_cast<cluster::observer&>(*this), random_,
                       cluster::options{.node = o.node,
                                        .client = o.client,
                                        .folder = server_->folder(),
                                        .server = server_->folder(),
                                        .conninfo = conninfo(),
                                        .faketime = has(fault::clock) ? servers.faketime() : "",
                                        .nodes = o.nodes,
                                        .tasks = o.tasks});
  }

  round_result run() {
    processes_->write("config " + std::to_string(max_attempts) + " " + std::to_string(keep_finished) +
                      " doubts cluster");
    if (!open()) return finish();
    disturb();
    heal_all();
    settle();
    if (is_well() && options_.follows != standby::asynchronous) {
      processes_->effects().judge(database{conninfo()}, out_.broken);
      for (const std::string& id : database{conninfo()}.run("select id from tickwheel.strangers").rows)
        out_.broken.push_back("a session that is no member has begun a task: " + id);
      out_.effects = processes_->effects().effects();
      out_.effects_twice = processes_->effects().twice();
    }
    return finish();
  }

 private:
  // --- set-up

  void choose_faults() {
    faults_ = options_.only;
    if (faults_.empty()) {
      faults_.push_back(fault::kill);
      for (std::size_t i = 1; i != faults; ++i) {
        const auto f = static_cast<fault>(i);
        const bool is_possible = f == fault::failover ? options_.follows != standby::none
                                 : f == fault::clock  ? servers_.can_set_clock() && options_.follows == standby::none
                                 : f == fault::server ? options_.follows == standby::none
                                                      : true;
        if (is_possible && (f == fault::failover || chance(f == fault::clock ? 10 : 30))) faults_.push_back(f);
      }
    }
    out_.has_only_kills = faults_ == std::vector{fault::kill};
  }

  void choose_server() {
    if (options_.follows != standby::none) {
      pair_.emplace(options_.follows);
      server_ = &pair_->primary();
    } else {
      server_ = has(fault::clock) ? &servers_.with_clock() : &servers_.plain();
    }
    if (has(fault::clock)) servers_.set_clock(0);
  }

  std::string conninfo() const { return pair_ ? pair_->conninfo() : server_->conninfo(); }

  // The first node makes the tables, which the SQL clients need.
  bool open() {
    const database first{conninfo()};
    if (!first.run("drop schema if exists tickwheel cascade").is_ok()) return fail("the old tables cannot be dropped");
    for (member& m : processes_->members())
      if (m.is != role::client) processes_->start(m);
    const auto until = steady::now() + 3 * options_.patience;
    while (!std::all_of(processes_->members().begin(), processes_->members().end(),
                        [](const member& m) { return m.is == role::client || m.is_ready; })) {
      processes_->turn();
      if (!is_well()) return false;
      if (steady::now() > until) return fail("the nodes did not open their store");
    }
    if (!first.run("create table tickwheel.effects(key text not null, token bigint not null)").is_ok())
      return fail("the table of effects cannot be made");
    if (!first.run(note_starts_of_strangers).is_ok()) return fail("the trigger on starts cannot be made");
    for (member& m : processes_->members())
      if (m.is == role::client) processes_->start(m);
    if (has(fault::snapshot)) {
      (void)first.run("alter table tickwheel.tasks set (autovacuum_enabled = off)");
      snapshot_ = std::make_unique<database>(conninfo());
      (void)snapshot_->run("begin isolation level repeatable read; select count(*) from tickwheel.tasks");
      ++out_.made[fault::snapshot];
    }
    return true;
  }

  // --- chances

  std::uint64_t below(std::uint64_t n) { return random_.below(n); }
  bool chance(unsigned percent) { return random_.chance(percent); }
  bool has(fault f) const { return std::find(faults_.begin(), faults_.end(), f) != faults_.end(); }
  std::chrono::milliseconds some_time(std::uint64_t shortest, std::uint64_t longest) {
    return std::chrono::milliseconds{shortest + below(longest - shortest + 1)};
  }
  bool has_live_requester() {
    return std::any_of(processes_->members().begin(), processes_->members().end(),
                       [](const member& m) { return m.is != role::client && m.is_alive(); });
  }

  // --- faults

  void disturb() {
    const auto begin = steady::now();
    end_ = begin + (options_.length != 0ms ? options_.length : some_time(1500, 3500));
    auto next_fault = steady::now() + some_time(50, 400);
    while (steady::now() < end_ && is_well()) {
      processes_->turn();
      heal_those_due();
      if (processes_->orders().made() < options_.tasks && chance(5) && has_live_requester())
        processes_->orders().order_some([] {});
      order_at_rate(begin);
      if (steady::now() < next_fault) continue;
      next_fault = steady::now() + some_time(50, 700);
      make(faults_[below(faults_.size())]);
    }
  }

  void order_at_rate(steady::time_point begin) {
    const auto due = static_cast<std::size_t>((steady::now() - begin) / 1us) * options_.rate / 1'000'000;
    for (; at_rate_ < due && has_live_requester(); ++at_rate_)
      processes_->orders().put(processes_->orders().add_task(), "keep", 0, "d", static_cast<std::int64_t>(below(400)),
                               below(40));
  }

  void make(fault f) {
    const auto is_healthy_node = [](const member& m) { return m.is == role::node && m.is_healthy(); };
    member* const any = processes_->some_member([](const member& m) { return m.is_healthy(); });
    member* const node = processes_->some_member(is_healthy_node);
    switch (f) {
      case fault::kill:
        if (any == nullptr || !kill(*any)) return;
        break;
      case fault::stop:
        if (any == nullptr || any->is == role::client) return;
        stop(*any, chance(50) ? some_time(1000, 2200) : some_time(10, 900));
        break;
      case fault::network: {
        member* const connected =
            processes_->some_member([](const member& m) { return m.network != nullptr && m.is_healthy(); });
        if (connected == nullptr) return;
        break_network(*connected);
        break;
      }
      case fault::server:
        if (out_.made[fault::server] != 0) return;
        restart_server();
        break;
      case fault::fat:
        if (node == nullptr) return;
        stop_while_it_reads(*node);
        break;
      case fault::cut:
        if (node == nullptr) return;
        cut_while_it_reads(*node);
        break;
      case fault::holder:
        if (!hold_ids()) return;
        break;
      case fault::opposite:
        if (!schedule_in_opposite_order()) return;
        break;
      case fault::snapshot:
        return;
      case fault::clock:
        set_clock_some();
        break;
      case fault::failover:
        if (out_.made[fault::failover] != 0) return;
        fail_over();
        break;
    }
    ++out_.made[f];
  }

  // At least one node stays.
  bool kill(member& m) {
    const auto alive = std::count_if(processes_->members().begin(), processes_->members().end(),
                                     [](const member& o) { return o.is == role::node && o.is_healthy(); });
    if (m.is == role::node && alive < 2) return false;
    // An answer has just been given: if it was given too early, its write is under way.
    if (chance(50)) processes_->await_answer();
    processes_->kill(m);
    m.heals_at = steady::now() + some_time(0, 2000);
    return true;
  }

  void stop(member& m, std::chrono::milliseconds during) {
    processes_->stop(m);
    m.heals_at = steady::now() + during;
  }

  void break_network(member& m) {
    processes_->trouble(m, "network");
    weather w;
    switch (below(6)) {
      case 0:
        return m.network->cut();
      case 1:
        w.holds_answers = true;
        break;
      case 2:
        w.holds_questions = true;
        break;
      case 3:
        w.holds_answers = w.holds_questions = true;
        break;
      case 4:
        w.refuses = true;
        m.network->cut();
        break;
      default:
        w.delay = some_time(1, 80);
    }
    m.network->set(w);
    m.cuts_at_healing = chance(50);
    m.heals_at = steady::now() + (chance(40) ? some_time(1000, 2200) : some_time(20, 900));
  }

  void restart_server() {
    processes_->write("trouble % 0 server");
    server_->begin_to_stop();
    while (!server_->has_stopped()) {
      processes_->wait(1ms);
      heal_those_due();
    }
    processes_->wait(some_time(0, 400));
    const auto begin = steady::now();
    server_->start();
    end_ += steady::now() - begin;
  }

  void fail_over() {
    processes_->write("trouble % 0 failover");
    if (options_.follows == standby::asynchronous) {
      server_->stop_sending();
      processes_->wait(some_time(0, 400));
    }
    const auto begin = steady::now();
    server_ = &pair_->fail_over();
    end_ += steady::now() - begin;
    processes_->move_to(server_->folder());
  }

  // A step forward or back, and now and then an hour.
  void set_clock_some() {
    if (ahead_ >= hour / 2) return set_clock(ahead_ - hour);
    if (chance(30)) return set_clock(ahead_ + hour);
    set_clock(static_cast<std::int64_t>(below(600)) * crash::millisecond - 300 * crash::millisecond);
  }

  void set_clock(std::int64_t ahead) {
    processes_->write("trouble % 0 clock");
    const std::int64_t at = true_wall();
    servers_.set_clock(ahead);
    processes_->journal().set_clock(at, true_wall(), ahead);
    ahead_ = ahead;
    processes_->set_ahead(ahead);
    largest_ahead_ = std::max(largest_ahead_, ahead);
  }

  // One `begin` starts those of a node, if they are due at once and loaded before.
  void order_large_tasks() {
    const std::int64_t due = processes_->orders().due_in(200);
    for (std::size_t i = 0; i != fat_tasks; ++i)
      processes_->orders().put_at(processes_->orders().add_task(), "keep", 0, "d", due, fat_payload);
    processes_->wait(some_time(150, 200));
  }

  // Its backend hangs with its locks while it sends the answer.
  void stop_while_it_reads(member& m) {
    order_large_tasks();
    processes_->wait(some_time(0, 100));
    if (m.is_healthy()) stop(m, some_time(1200, 2200));
  }

  // The server has not committed an answer that does not fit into its buffers.
  void cut_while_it_reads(member& m) {
    processes_->trouble(m, "network");
    m.network->cut_within_answer(fat_payload + below(3 * fat_payload));
    order_large_tasks();
    processes_->wait(some_time(100, 500));
    m.network->cut_within_answer(0);
  }

  bool hold_ids() {
    member* const holder = processes_->some_client();
    if (holder == nullptr) return false;
    const auto during = options_.hold != 0ms ? options_.hold : some_time(300, 2000);
    if (options_.hold != 0ms && steady::now() + during > end_) return false;
    holder->process->send("transaction " + std::to_string(held_ids) + " " + std::to_string(during.count()) +
                          (chance(60) ? " commit\n" : " rollback\n"));
    processes_->route(holder);
    for (std::size_t i = 0; i != held_ids; ++i) {
      const std::size_t old =
          processes_->orders().tasks().size() < held_ids ? 0 : processes_->orders().tasks().size() - held_ids + i;
      if (i < held_ids / 2 && old != 0 && processes_->orders().tasks()[old].open < cluster::most_open)
        processes_->orders().cancel(old);
      else
        processes_->orders().put(processes_->orders().add_task(), "keep", 0, "d", static_cast<std::int64_t>(below(400)),
                                 below(40));
    }
    processes_->route(nullptr);
    return true;
  }

  bool schedule_in_opposite_order() {
    std::vector<member*> clients;
    for (member& m : processes_->members())
      if (m.is == role::client && m.is_ready) clients.push_back(&m);
    if (clients.size() < 2) return false;
    std::vector<std::size_t> both(10);
    for (std::size_t& which : both) which = processes_->orders().add_task();
    for (member* const c : clients) {
      c->process->send("transaction " + std::to_string(both.size()) + " 0 commit\n");
      processes_->route(c);
      for (const std::size_t which : both)
        processes_->orders().put(which, "keep", 0, "d", static_cast<std::int64_t>(below(100)), below(40));
      processes_->route(nullptr);
      std::reverse(both.begin(), both.end());
    }
    return true;
  }

  void heal_those_due() {
    for (member& m : processes_->members())
      if (m.heals_at && steady::now() >= *m.heals_at) processes_->heal(m);
  }

  void heal_all() {
    snapshot_.reset();
    for (member& m : processes_->members())
      if (m.heals_at) processes_->heal(m);
    if (!has(fault::clock)) return;
    // what is due when the clock was ahead is due again
    set_clock(largest_ahead_ + 1000 * crash::millisecond);
    cancel_waiting_clients();
  }

  // The server measures deadlock_timeout by its wall clock. It does not find a deadlock that began before the clock went back by an hour.
  void cancel_waiting_clients() const {
    (void)database{conninfo()}.run(
        "select pg_cancel_backend(pid) from pg_stat_activity where application_name ~ '^client' and wait_event_type = "
        "'Lock'");
  }

  // --- the end

  void settle() {
    auto quiet_until = steady::now() + options_.patience;
    const auto latest = quiet_until + 5 * options_.patience;
    std::size_t answers = processes_->orders().answers();
    auto next_look = steady::now();
    while (is_well() && (!is_listed_ || told_ != options_.nodes)) {
      processes_->turn();
      if (counts_again_at_ && steady::now() >= *counts_again_at_) count_partitions();
      if (!is_quiet_ && steady::now() >= next_look) {
        next_look = steady::now() + 10ms;
        look();
      }
      if (processes_->orders().answers() != std::exchange(answers, processes_->orders().answers()))
        quiet_until = is_quiet_ ? quiet_until : std::min(latest, steady::now() + options_.patience);
      if (steady::now() <= quiet_until) continue;
      if (is_quiet_) return void(fail("the tasks were not listed"));
      out_.activity = activity();
      be_quiet();
      quiet_until = steady::now() + options_.patience;
    }
  }

  // The connections of the server while nothing goes on.
  std::string activity() const {
    std::string text;
    const auto found = database{conninfo()}.run(
        "select concat_ws(' ', pid, application_name, state, wait_event, 'behind', pg_blocking_pids(pid), left(query, "
        "100)) "
        "from pg_stat_activity where backend_type = 'client backend' order by pid");
    for (const std::string& line : found.rows) text += line + "\n";
    return text;
  }

  void look() {
    if (processes_->orders().settle() || asked_ != 0) return;
    std::vector<member>& all = processes_->members();
    if (std::any_of(all.begin(), all.end(), [](const member& m) { return m.open_finishes != 0; })) return;
    member& m = all.front();
    if (!m.is_ready) return;
    asked_ = m.number;
    m.process->send("left\n");
  }

  void be_quiet() {
    is_quiet_ = true;
    processes_->write("quiet %");
    processes_->members().front().process->send("list\n");
    count_partitions();
  }

  void count_partitions() {
    counts_again_at_.reset();
    told_ = owned_ = 0;
    for (member& m : processes_->members())
      if (m.is == role::node) m.process->send("partitions\n");
  }

  void on_partitions(std::uint64_t count) {
    owned_ += count;
    if (++told_ != options_.nodes || owned_ <= partitions) return;
    // a node learns by its next renewal that it was buried
    if (++counts_ == most_counts) {
      out_.broken.push_back("the nodes own " + std::to_string(owned_) + " partitions, and there are " +
                            std::to_string(partitions));
      return;
    }
    told_ = 0;
    counts_again_at_ = steady::now() + 100ms;
  }

  void on_end(const member& m) override {
    if (m.number == asked_) asked_ = 0;
  }

  void on_line(const member&, std::string_view what, std::string_view rest) override {
    if (what == "left") {
      on_left(rest);
    } else if (what == "entered") {
      zeros_ = 0;
    } else if (what == "listed") {
      is_listed_ = true;
    } else if (what == "partitions") {
      on_partitions(crash::number_of(rest));
    } else if (what == "row") {
      const auto state = crash::next_word(rest);
      const std::string id{crash::next_word(rest)};
      crash::orders& all = processes_->orders();
      if (state == "finished" && all.tasks()[all.find(id)].is_external) processes_->effects().note_finished(id);
    }
  }

  void on_left(std::string_view rest) {
    asked_ = 0;
    // the states are not read at one moment: what went from one to the other shows itself by a start, or the next time
    if (rest != "0 0") {
      zeros_ = 0;
      if (++busy_looks_ % looks_to_cancel_again == 0) processes_->orders().settle_again();
    }
    if (is_quiet_ || rest != "0 0" || ++zeros_ < zeros_of_quiet) return;
    be_quiet();
  }

  round_result finish() {
    for (member& m : processes_->members()) {
      if (m.is_alive()) processes_->kill(m);
    }
    if (out_.problem.empty()) out_.problem = processes_->problem();
    out_.journal = processes_->journal().text();
    return std::move(out_);
  }

  bool is_well() const { return out_.problem.empty() && processes_->problem().empty(); }

  bool fail(const char* what) {
    if (out_.problem.empty()) out_.problem = what;
    return false;
  }

  const round_options& options_;
  shared_servers& servers_;
  std::optional<server_pair> pair_;             // its own servers
  conformance::test_server* server_ = nullptr;  // the primary
  crash::chances random_;
  std::optional<cluster> processes_;
  std::vector<fault> faults_;
  std::unique_ptr<database> snapshot_;
  round_result out_;
  steady::time_point end_{};  // of the faults
  unsigned asked_ = 0;        // the process that was asked what is left
  unsigned zeros_ = 0;        // answers in a row, without a start, that nothing is left
  unsigned busy_looks_ = 0;   // answers that something is left
  std::size_t at_rate_ = 0;   // tasks that were ordered at the rate
  std::size_t told_ = 0;      // nodes that have told their partitions
  std::uint64_t owned_ = 0;   // partitions that they have
  unsigned counts_ = 0;       // in which they had more than there are
  std::optional<steady::time_point> counts_again_at_;
  std::int64_t ahead_ = 0;  // of the clock of the database
  std::int64_t largest_ahead_ = 0;
  bool is_quiet_ = false;
  bool is_listed_ = false;
};

}  // namespace

const char* to_string(fault f) noexcept { return names.at(static_cast<std::size_t>(f)); }

round_result run_round(const round_options& options, shared_servers& servers, std::uint64_t seed) {
  return round{options, servers, seed}.run();
}

}  // namespace chaos
