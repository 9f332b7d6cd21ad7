#include "round.hpp"

#include "../crash/orders.hpp"
#include "database.hpp"
#include "effects.hpp"
#include "member.hpp"
#include "merged_journal.hpp"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>

namespace chaos {

namespace {

using namespace std::chrono_literals;
using crash::next_word;
using crash::number_of;
using crash::true_wall;
using steady = std::chrono::steady_clock;

constexpr unsigned max_attempts = 4;
constexpr std::int64_t keep_finished = 300'000 * crash::millisecond;
constexpr std::int64_t hour = 3'600'000 * crash::millisecond;
constexpr unsigned most_open = 3;  // requests for one id
constexpr unsigned external = 12;  // percent of the tasks
constexpr unsigned zeros_of_quiet = 4;
constexpr std::uint64_t partitions = 16;
constexpr std::size_t fat_tasks = 40;
constexpr std::size_t fat_payload = 60'000;
constexpr std::size_t held_ids = 100;
constexpr std::array names{"kill",     "stop",     "network", "server", "fat",     "holder",
                           "opposite", "snapshot", "cut",     "clock",  "failover"};

const std::vector<const char*> plans{"d",   "d",  "d", "d",  "D", "D", "D",  "l", "l",
                                     "ffd", "fD", "r", "rD", "b", "n", "nd", "fb"};

class round final : private crash::orders::client {
 public:
  round(const round_options& o, shared_servers& servers, std::uint64_t seed)
      : options_{o},
        servers_{servers},
        random_{seed},
        orders_{*this, random_, {.tasks = o.tasks, .most_open = most_open, .plans = plans, .external = external}} {
    choose_faults();
    choose_server();
    for (std::size_t i = 0; i != o.nodes; ++i) add_member(role::node);
    add_member(role::producer);
    add_member(role::client);
    add_member(role::client);
  }

  round_result run() {
    write("config " + std::to_string(max_attempts) + " " + std::to_string(keep_finished) + " doubts cluster");
    if (!open()) return finish();
    disturb();
    heal_all();
    settle();
    if (out_.problem.empty()) {
      effects_.judge(database{conninfo()}, out_.broken);
      out_.effects = effects_.effects();
      out_.effects_twice = effects_.twice();
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

  // The folder of the proxies.
  std::string home() { return pair_ ? pair_->primary().folder() : server_->folder(); }
  std::string conninfo() const { return pair_ ? pair_->conninfo() : server_->conninfo(); }

  void add_member(role is) {
    member m;
    m.is = is;
    m.number = static_cast<unsigned>(members_.size()) + 1;
    if (is != role::client) {
      const std::string folder = home() + "/to" + std::to_string(m.number);
      (void)mkdir(folder.c_str(), 0755);
      m.network = std::make_unique<proxy>(folder + "/.s.PGSQL.5432", server_->folder() + "/.s.PGSQL.5432");
    }
    members_.push_back(std::move(m));
  }

  // The first node makes the tables, which the SQL clients need.
  bool open() {
    const database first{conninfo()};
    if (!first.run("drop schema if exists tickwheel cascade").is_ok()) return fail("the old tables cannot be dropped");
    for (member& m : members_)
      if (m.is != role::client) start(m);
    const auto until = steady::now() + options_.patience;
    while (!std::all_of(members_.begin(), members_.end(),
                        [](const member& m) { return m.is == role::client || m.is_ready; })) {
      turn();
      if (!out_.problem.empty()) return false;
      if (steady::now() > until) return fail("the nodes did not open their store");
    }
    if (!first.run("create table tickwheel.effects(key text not null, token bigint not null)").is_ok())
      return fail("the table of effects cannot be made");
    for (member& m : members_)
      if (m.is == role::client) start(m);
    if (has(fault::snapshot)) {
      (void)first.run("alter table tickwheel.tasks set (autovacuum_enabled = off)");
      snapshot_ = std::make_unique<database>(conninfo());
      (void)snapshot_->run("begin isolation level repeatable read; select count(*) from tickwheel.tasks");
      ++out_.made[fault::snapshot];
    }
    return true;
  }

  void start(member& m) {
    const std::string name = std::string{m.is == role::client ? "client" : "node"} + std::to_string(m.number) + "-" +
                             std::to_string(++m.lives);
    std::vector<std::string> command{options_.node, conninfo(), name};
    if (m.is == role::client) {
      // it ends the backends of its former life by this name
      command = {options_.client, conninfo(), "client" + std::to_string(m.number)};
    } else {
      command[1] = "host=" + home() + "/to" + std::to_string(m.number) + " user=tester dbname=postgres";
      if (m.is == role::producer) command.push_back("producer=1");
      if (chance(15)) command.push_back("running=" + std::to_string(1 + below(8)));
      if (chance(15)) command.push_back("loaded=" + std::to_string(10 + below(100)));
    }
    write("start % " + std::to_string(m.number));
    std::vector<std::string> environment;
    // the clock of a node counts for nothing
    if (has(fault::clock) && m.is != role::client)
      environment = {"LD_PRELOAD=" + servers_.faketime(), "FAKETIME_DONT_FAKE_MONOTONIC=1",
                     (chance(50) ? "FAKETIME=+" : "FAKETIME=-") + std::to_string(below(3600))};
    m.process = std::make_unique<crash::process>(command, environment);
    m.is_ready = false;
  }

  // --- chances

  std::uint64_t below(std::uint64_t n) { return random_.below(n); }
  bool chance(unsigned percent) { return random_.chance(percent); }
  bool has(fault f) const { return std::find(faults_.begin(), faults_.end(), f) != faults_.end(); }
  std::chrono::milliseconds some_time(std::uint64_t shortest, std::uint64_t longest) {
    return std::chrono::milliseconds{shortest + below(longest - shortest + 1)};
  }
  template <class F>
  member* some_member(F&& fits) {
    std::vector<member*> fitting;
    for (member& m : members_)
      if (fits(m)) fitting.push_back(&m);
    return fitting.empty() ? nullptr : fitting[below(fitting.size())];
  }
  bool has_live_requester() const {
    return std::any_of(members_.begin(), members_.end(),
                       [](const member& m) { return m.is != role::client && m.is_alive(); });
  }

  // --- faults

  void disturb() {
    end_ = steady::now() + some_time(1500, 3500);
    auto next_fault = steady::now() + some_time(50, 400);
    while (steady::now() < end_ && out_.problem.empty()) {
      turn();
      heal_those_due();
      if (orders_.made() < options_.tasks && chance(5) && has_live_requester()) orders_.order_some([] {});
      if (steady::now() < next_fault) continue;
      next_fault = steady::now() + some_time(50, 700);
      make(faults_[below(faults_.size())]);
    }
  }

  void make(fault f) {
    const auto is_healthy_node = [](const member& m) { return m.is == role::node && m.is_healthy(); };
    member* const any = some_member([](const member& m) { return m.is_healthy(); });
    member* const node = some_member(is_healthy_node);
    switch (f) {
      case fault::kill:
        if (any == nullptr || !kill(*any)) return;
        break;
      case fault::stop:
        if (any == nullptr || any->is == role::client) return;
        stop(*any, chance(50) ? some_time(1000, 2200) : some_time(10, 900));
        break;
      case fault::network: {
        member* const connected = some_member([](const member& m) { return m.network != nullptr && m.is_healthy(); });
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
    const auto alive = std::count_if(members_.begin(), members_.end(),
                                     [](const member& o) { return o.is == role::node && o.is_healthy(); });
    if (m.is == role::node && alive < 2) return false;
    // An answer has just been given: if it was given too early, its write is under way.
    if (chance(50)) await_answer();
    m.process->signal(SIGKILL);
    bury(m, true);
    m.heals_at = steady::now() + some_time(0, 2000);
    return true;
  }

  void await_answer() {
    const auto until = steady::now() + 20ms;
    const std::size_t before = orders_.answers();
    while (orders_.answers() == before && steady::now() < until) turn();
  }

  // Waits for the end of a process.
  void bury(member& m, bool was_killed) {
    const int status = m.process->wait(m.input);
    read_lines(m);
    m.input.clear();
    write("end % " + std::to_string(status) + " " + std::to_string(m.number));
    if (!was_killed && out_.problem.empty())
      out_.problem = "process " + std::to_string(m.number) + " has ended by itself, with the wait status " +
                     std::to_string(status);
    orders_.end(m.number);
    m.process.reset();
    m.is_ready = m.is_stopped = false;
    if (m.number == asked_) asked_ = 0;
    for (auto& [order, start] : external_)
      if (start.first == m.number) lost_external_.push_back(start.second);
    std::erase_if(external_, [&](const auto& e) { return e.second.first == m.number; });
  }

  void trouble(const member& m, const char* cause) { write("trouble % " + std::to_string(m.number) + " " + cause); }

  void stop(member& m, std::chrono::milliseconds during) {
    trouble(m, "stopped");
    m.process->signal(SIGSTOP);
    m.is_stopped = true;
    m.heals_at = steady::now() + during;
  }

  void break_network(member& m) {
    trouble(m, "network");
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
    write("trouble % 0 server");
    server_->stop_immediately();
    wait(some_time(0, 400));
    const auto begin = steady::now();
    server_->start();
    end_ += steady::now() - begin;
  }

  void fail_over() {
    write("trouble % 0 failover");
    if (options_.follows == standby::asynchronous) {
      server_->stop_sending();
      wait(some_time(0, 400));
    }
    const auto begin = steady::now();
    server_ = &pair_->fail_over();
    end_ += steady::now() - begin;
    for (member& m : members_) {
      if (m.network == nullptr) continue;
      m.network->lead_to(server_->folder() + "/.s.PGSQL.5432");
      m.network->cut();
    }
  }

  // A step forward or back, and now and then an hour.
  void set_clock_some() {
    if (ahead_ >= hour / 2) return set_clock(ahead_ - hour);
    if (chance(30)) return set_clock(ahead_ + hour);
    set_clock(static_cast<std::int64_t>(below(600)) * crash::millisecond - 300 * crash::millisecond);
  }

  void set_clock(std::int64_t ahead) {
    write("trouble % 0 clock");
    const std::int64_t at = true_wall();
    servers_.set_clock(ahead);
    journal_.set_clock(at, true_wall(), ahead);
    ahead_ = ahead;
    largest_ahead_ = std::max(largest_ahead_, ahead);
  }

  void order_large_tasks() {
    for (std::size_t i = 0; i != fat_tasks; ++i) orders_.put(orders_.add_task(), "keep", 0, "d", 150, fat_payload);
    wait(some_time(150, 250));
  }

  // Its backend hangs with its locks while it sends the answer.
  void stop_while_it_reads(member& m) {
    order_large_tasks();
    if (m.is_healthy()) stop(m, some_time(1200, 2200));
  }

  // The answer trickles, and its transaction is not committed.
  void cut_while_it_reads(member& m) {
    trouble(m, "network");
    weather trickling;
    trickling.delay = some_time(20, 60);
    m.network->set(trickling);
    order_large_tasks();
    wait(some_time(0, 400));
    m.network->cut();
    m.network->set({});
  }

  bool hold_ids() {
    member* const holder = some_member([](const member& m) { return m.is == role::client && m.is_ready; });
    if (holder == nullptr) return false;
    const auto during = some_time(300, 2000);
    holder->process->send("transaction " + std::to_string(held_ids) + " " + std::to_string(during.count()) +
                          (chance(60) ? " commit\n" : " rollback\n"));
    route_ = holder;
    for (std::size_t i = 0; i != held_ids; ++i) {
      const std::size_t old = orders_.tasks().size() < held_ids ? 0 : orders_.tasks().size() - held_ids + i;
      if (i < held_ids / 2 && old != 0 && orders_.tasks()[old].open < most_open)
        orders_.cancel(old);
      else
        orders_.put(orders_.add_task(), "keep", 0, "d", static_cast<std::int64_t>(below(400)), below(40));
    }
    route_ = nullptr;
    return true;
  }

  bool schedule_in_opposite_order() {
    std::vector<member*> clients;
    for (member& m : members_)
      if (m.is == role::client && m.is_ready) clients.push_back(&m);
    if (clients.size() < 2) return false;
    std::vector<std::size_t> both(10);
    for (std::size_t& which : both) which = orders_.add_task();
    for (member* const c : clients) {
      c->process->send("transaction " + std::to_string(both.size()) + " 0 commit\n");
      route_ = c;
      for (const std::size_t which : both)
        orders_.put(which, "keep", 0, "d", static_cast<std::int64_t>(below(100)), below(40));
      route_ = nullptr;
      std::reverse(both.begin(), both.end());
    }
    return true;
  }

  void heal(member& m) {
    m.heals_at.reset();
    if (!m.is_alive()) return start(m);
    if (std::exchange(m.is_stopped, false)) m.process->signal(SIGCONT);
    if (m.network == nullptr) return;
    m.network->set({});
    if (std::exchange(m.cuts_at_healing, false)) m.network->cut();
  }

  void heal_those_due() {
    for (member& m : members_)
      if (m.heals_at && steady::now() >= *m.heals_at) heal(m);
  }

  void heal_all() {
    snapshot_.reset();
    for (member& m : members_)
      if (m.heals_at) heal(m);
    // what is due when the clock was ahead is due again
    if (has(fault::clock)) set_clock(largest_ahead_ + 1000 * crash::millisecond);
  }

  // --- the end

  void settle() {
    auto quiet_until = steady::now() + options_.patience;
    const auto latest = quiet_until + 5 * options_.patience;
    std::size_t answers = orders_.answers();
    auto next_look = steady::now();
    while (out_.problem.empty() && (!is_listed_ || told_ != options_.nodes)) {
      turn();
      if (!is_quiet_ && steady::now() >= next_look) {
        next_look = steady::now() + 10ms;
        look();
      }
      if (orders_.answers() != std::exchange(answers, orders_.answers()))
        quiet_until = std::min(latest, steady::now() + options_.patience);
      if (steady::now() <= quiet_until) continue;
      if (is_quiet_) return void(fail("the tasks were not listed"));
      out_.activity = activity();
      if (getenv("CHAOS_GDB")) {
        for (auto& m : members_)
          if (m.is_alive()) {
            std::fprintf(stderr, "member %u pid %d\n", m.number, m.process->id());
          }
        std::fprintf(stderr, "%s", out_.activity.c_str());
        std::this_thread::sleep_for(600s);
      }
      be_quiet();
      quiet_until = steady::now() + options_.patience;
    }
  }

  // What the server does while nothing goes on.
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
    if (orders_.settle() || asked_ != 0) return;
    member& m = members_.front();
    if (!m.is_ready) return;
    asked_ = m.number;
    m.process->send("left\n");
  }

  void be_quiet() {
    is_quiet_ = true;
    write("quiet %");
    members_.front().process->send("list\n");
    for (member& m : members_)
      if (m.is == role::node) m.process->send("partitions\n");
  }

  void on_left(std::string_view rest) {
    asked_ = 0;
    // the states are not read at one moment: what went from one to the other shows itself by a start, or the next time
    if (rest != "0 0") zeros_ = 0;
    if (is_quiet_ || rest != "0 0" || ++zeros_ < zeros_of_quiet) return;
    be_quiet();
  }

  round_result finish() {
    for (member& m : members_) {
      if (!m.is_alive()) continue;
      m.process->signal(SIGKILL);
      bury(m, true);
    }
    out_.journal = journal_.text();
    return std::move(out_);
  }

  bool fail(const char* what) {
    if (out_.problem.empty()) out_.problem = what;
    return false;
  }

  // --- lines

  void write(std::string line) { journal_.add(true_wall(), std::move(line)); }

  void turn() {
    await_output(members_, 1ms);
    for (member& m : members_) {
      if (!m.is_alive()) continue;
      const bool goes_on = m.process->exchange(m.input, 0ms);
      read_lines(m);
      if (!goes_on) bury(m, false);
    }
    send_externals();
  }

  void wait(std::chrono::milliseconds during) {
    const auto until = steady::now() + during;
    while (steady::now() < until) turn();
  }

  void read_lines(member& m) {
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = m.input.find('\n', begin)) != std::string::npos; begin = end + 1) {
      const auto line = std::string_view{m.input}.substr(begin, end - begin);
      journal_.add_of_process(m.number, line);
      note(m, line);
    }
    m.input.erase(0, begin);
  }

  void note(member& m, std::string_view line) {
    (void)next_word(line);
    const auto at = static_cast<std::int64_t>(number_of(next_word(line)));
    const auto what = next_word(line);
    if (what == "ready") {
      m.is_ready = line == "0";
      if (m.is == role::client) free_lost();
    } else if (what == "left") {
      on_left(line);
    } else if (what == "listed") {
      is_listed_ = true;
    } else if (what == "partitions") {
      owned_ += number_of(line);
      if (++told_ == options_.nodes && owned_ > partitions)
        out_.broken.push_back("the nodes own " + std::to_string(owned_) + " partitions, and there are " +
                              std::to_string(partitions));
    } else if (what == "stalled") {
      const auto gap = static_cast<std::int64_t>(number_of(line)) * crash::millisecond;
      journal_.add(at - gap, "trouble % " + std::to_string(m.number) + " slow");
    } else if (what == "log") {
      if (line.find("lost") != std::string_view::npos) trouble(m, "connection");
    } else if (what == "external") {
      const std::string id{next_word(line)};
      const std::string token{next_word(line)};
      waiting_.push_back({m.number, id, token, std::string{line}});
    } else if (what == "row") {
      const auto state = next_word(line);
      const std::string id{next_word(line)};
      if (state == "finished" && orders_.tasks()[orders_.find(id)].is_external) effects_.note_finished(id);
    } else {
      if (what == "entered") zeros_ = 0;
      if (what == "answered") on_answered(line);
      orders_.note(what, line);
    }
  }

  // --- starts that SQL clients end

  void send_externals() {
    while (!waiting_.empty()) {
      route_ = some_member([](const member& m) { return m.is == role::client && m.is_ready; });
      if (route_ == nullptr) return;
      external_start_ = &waiting_.front();
      orders_.finish(orders_.find(waiting_.front().id), number_of(waiting_.front().token));
      external_start_ = nullptr;
      route_ = nullptr;
      waiting_.pop_front();
    }
  }

  void on_answered(std::string_view rest) {
    const auto order = number_of(next_word(rest));
    const auto known = external_.find(order);
    if (known == external_.end()) return;
    effects_.note(known->second.second, rest);
    free(known->second.second);
    external_.erase(known);
  }

  // The node may end the start now. If the effect has happened, that changes nothing.
  void free(const external_start& s) {
    for (member& m : members_)
      if (m.number == s.process && m.is_alive()) m.process->send("free " + s.id + " " + s.token + "\n");
  }

  // A client that is ready has ended the backends of its former life.
  void free_lost() {
    for (const external_start& s : std::exchange(lost_external_, {})) {
      effects_.note(s, "unknown");
      free(s);
    }
  }

  // --- requests

  std::int64_t now() const override { return true_wall() + ahead_; }

  unsigned on_order(const std::string& journal_line, const std::string& command) override {
    member* to = route_;
    const bool is_for_sql = (command.starts_with("schedule") && command.find(" replace ") == std::string::npos) ||
                            command.starts_with("cancel");
    if (to == nullptr && is_for_sql && chance(20))
      to = some_member([](const member& m) { return m.is == role::client && m.is_ready; });
    if (to == nullptr) to = some_member([](const member& m) { return m.is != role::client && m.is_alive(); });
    write(journal_line);
    if (external_start_ != nullptr) {
      std::string_view words = command;
      (void)next_word(words);
      external_[number_of(next_word(words))] = {to->number, *external_start_};
      to->process->send(command.substr(0, command.size() - 1) + " " + external_start_->key + "\n");
    } else {
      to->process->send(command);
    }
    return to->number;
  }

  const round_options& options_;
  shared_servers& servers_;
  std::optional<server_pair> pair_;             // its own servers
  conformance::test_server* server_ = nullptr;  // the primary
  crash::chances random_;
  crash::orders orders_;
  std::vector<fault> faults_;
  std::vector<member> members_;
  std::unique_ptr<database> snapshot_;
  merged_journal journal_;
  effects_judge effects_;
  round_result out_;
  member* route_ = nullptr;                                                          // of the next order; null: any
  external_start* external_start_ = nullptr;                                         // that the next order ends
  std::deque<external_start> waiting_;                                               // for an SQL client
  std::unordered_map<std::uint64_t, std::pair<unsigned, external_start>> external_;  // by order: the client
  std::vector<external_start> lost_external_;                                        // whose client is dead
  steady::time_point end_{};                                                         // of the faults
  unsigned asked_ = 0;       // the process that was asked what is left
  unsigned zeros_ = 0;       // answers in a row, without a start, that nothing is left
  std::size_t told_ = 0;     // nodes that have told their partitions
  std::uint64_t owned_ = 0;  // partitions that they have
  std::int64_t ahead_ = 0;   // of the clock of the database
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
