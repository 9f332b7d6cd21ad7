#include "cluster.hpp"

#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>

namespace chaos {

using namespace std::chrono_literals;
using crash::next_word;
using crash::number_of;

namespace {

constexpr unsigned external = 12;  // percent of the tasks

const std::vector<const char*> plans{"d",   "d",  "d", "d",  "D", "D", "D",  "l", "l",
                                     "ffd", "fD", "r", "rD", "b", "n", "nd", "fb"};

}  // namespace

cluster::cluster(observer& of, crash::chances& random, options o)
    : observer_{of},
      random_{random},
      options_{std::move(o)},
      orders_{*this, random_, {.tasks = options_.tasks, .most_open = most_open, .plans = plans, .external = external}},
      disk_{options_.folder} {
  for (std::size_t i = 0; i != options_.nodes; ++i) add_member(role::node);
  add_member(role::producer);
  add_member(role::client);
  add_member(role::client);
}

void cluster::add_member(role is) {
  member m;
  m.is = is;
  m.number = static_cast<unsigned>(members_.size()) + 1;
  if (is != role::client) {
    const std::string folder = options_.folder + "/to" + std::to_string(m.number);
    (void)mkdir(folder.c_str(), 0755);
    m.network = std::make_unique<proxy>(folder + "/.s.PGSQL.5432", options_.server + "/.s.PGSQL.5432");
  }
  members_.push_back(std::move(m));
}

void cluster::start(member& m) {
  const std::string name = std::string{m.is == role::client ? "client" : "node"} + std::to_string(m.number) + "-" +
                           std::to_string(++m.lives);
  std::vector<std::string> command{options_.node, options_.conninfo, name};
  if (m.is == role::client) {
    // it ends the backends of its former life by this name
    command = {options_.client, options_.conninfo, "client" + std::to_string(m.number)};
  } else {
    command[1] = "host=" + options_.folder + "/to" + std::to_string(m.number) + " user=tester dbname=postgres";
    if (m.is == role::producer) command.push_back("producer=1");
    if (random_.chance(15)) command.push_back("running=" + std::to_string(1 + random_.below(8)));
    if (random_.chance(15)) command.push_back("loaded=" + std::to_string(10 + random_.below(100)));
  }
  write("start % " + std::to_string(m.number));
  std::vector<std::string> environment;
  // the clock of a node counts for nothing
  if (!options_.faketime.empty() && m.is != role::client)
    environment = {"LD_PRELOAD=" + options_.faketime, "FAKETIME_DONT_FAKE_MONOTONIC=1",
                   (random_.chance(50) ? "FAKETIME=+" : "FAKETIME=-") + std::to_string(random_.below(3600))};
  m.process = std::make_unique<crash::process>(command, environment);
  m.is_ready = false;
}

void cluster::kill(member& m) {
  m.process->signal(SIGKILL);
  bury(m, true);
}

void cluster::stop(member& m) {
  trouble(m, "stopped");
  m.process->signal(SIGSTOP);
  m.is_stopped = true;
}

// Waits for the end of a process.
void cluster::bury(member& m, bool was_killed) {
  const int status = m.process->wait(m.input);
  read_lines(m);
  m.input.clear();
  write("end % " + std::to_string(status) + " " + std::to_string(m.number));
  if (!was_killed && problem_.empty())
    problem_ =
        "process " + std::to_string(m.number) + " has ended by itself, with the wait status " + std::to_string(status);
  orders_.end(m.number);
  m.process.reset();
  m.is_ready = m.is_stopped = false;
  m.open_finishes = 0;
  observer_.on_end(m);
  for (auto& [order, start] : external_)
    if (start.first == m.number) lost_external_.push_back(start.second);
  std::erase_if(external_, [&](const auto& e) { return e.second.first == m.number; });
}

void cluster::heal(member& m) {
  m.heals_at.reset();
  if (!m.is_alive()) return start(m);
  if (std::exchange(m.is_stopped, false)) m.process->signal(SIGCONT);
  if (m.network == nullptr) return;
  m.network->set({});
  if (std::exchange(m.cuts_at_healing, false)) m.network->cut();
}

void cluster::move_to(const std::string& server) {
  for (member& m : members_) {
    if (m.network == nullptr) continue;
    m.network->lead_to(server + "/.s.PGSQL.5432");
    m.network->cut();
  }
}

// --- lines

void cluster::turn() {
  await_output(members_, 1ms);
  for (member& m : members_) {
    if (!m.is_alive()) continue;
    const bool goes_on = m.process->exchange(m.input, 0ms);
    read_lines(m);
    if (!goes_on) bury(m, false);
  }
  for (const std::int64_t since : disk_.take_stalls()) journal_.add(since, "trouble % 0 slow");
  send_externals();
}

void cluster::wait(std::chrono::milliseconds during) {
  const auto until = std::chrono::steady_clock::now() + during;
  while (std::chrono::steady_clock::now() < until) turn();
}

void cluster::await_answer() {
  const auto until = std::chrono::steady_clock::now() + 20ms;
  const std::size_t before = orders_.answers();
  while (orders_.answers() == before && std::chrono::steady_clock::now() < until) turn();
}

void cluster::read_lines(member& m) {
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = m.input.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const auto line = std::string_view{m.input}.substr(begin, end - begin);
    journal_.add_of_process(m.number, line);
    note(m, line);
  }
  m.input.erase(0, begin);
}

void cluster::note(member& m, std::string_view line) {
  (void)next_word(line);
  const auto at = static_cast<std::int64_t>(number_of(next_word(line)));
  const auto what = next_word(line);
  const std::string_view rest = line;
  if (what == "ready") {
    m.is_ready = line == "0";
    if (m.is == role::client) free_lost();
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
    if (what == "answered") on_answered(line);
    if (what == "ending") ++m.open_finishes;
    if (what == "ended") --m.open_finishes;
    orders_.note(what, line);
  }
  observer_.on_line(m, what, rest);
}

// --- starts that SQL clients end

void cluster::send_externals() {
  while (!waiting_.empty()) {
    route_ = some_client();
    if (route_ == nullptr) return;
    external_start_ = &waiting_.front();
    orders_.finish(orders_.find(waiting_.front().id), number_of(waiting_.front().token));
    external_start_ = nullptr;
    route_ = nullptr;
    waiting_.pop_front();
  }
}

void cluster::on_answered(std::string_view rest) {
  const auto order = number_of(next_word(rest));
  const auto known = external_.find(order);
  if (known == external_.end()) return;
  effects_.note(known->second.second, rest);
  free(known->second.second);
  external_.erase(known);
}

// The node may end the start now. If the effect has happened, that changes nothing.
void cluster::free(const external_start& s) {
  for (member& m : members_)
    if (m.number == s.process && m.is_alive()) m.process->send("free " + s.id + " " + s.token + "\n");
}

// A client that is ready has ended the backends of its former life.
void cluster::free_lost() {
  for (const external_start& s : std::exchange(lost_external_, {})) {
    effects_.note(s, "unknown");
    free(s);
  }
}

unsigned cluster::on_order(const std::string& journal_line, const std::string& command) {
  member* to = route_;
  const bool is_for_sql = (command.starts_with("schedule") && command.find(" replace ") == std::string::npos) ||
                          command.starts_with("cancel");
  if (to == nullptr && is_for_sql && random_.chance(20)) to = some_client();
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

}  // namespace chaos
