// An application that uses the SQL functions of the store in transactions of its own. The parent gives it commands, and may kill it at
// any moment.
//
//   chaos_client CONNINFO NAME
//
//   schedule N ID DUE PERIOD keep PAYLOAD
//   cancel N ID
//   finish N ID TOKEN KEY     inserts KEY into the table `effects` in the transaction that ends the start; commits only if that ends now
//   transaction K MS commit|rollback     the next K commands are one transaction, which stays open for so long
//
// The lines that it writes are those of a scheduler, see `journal.hpp`. A transaction that was rolled back is `unavailable`, and one
// whose commit has no answer `unknown`.
#include "../crash/child/commanded_scheduler.hpp"
#include "server/database.hpp"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace {

using crash::next_word;
using crash::number_of;
using crash::say;
using namespace std::chrono_literals;

struct answer {
  unsigned number = 0;
  std::string text;
};

class client {
 public:
  client(std::string conninfo, std::string name) : conninfo_{std::move(conninfo)}, name_{std::move(name)} {
    connect();
    say("ready 0");
  }

  void obey(std::string_view line) {
    std::string_view rest = line;
    if (next_word(rest) == "transaction") {
      left_ = number_of<unsigned>(next_word(rest));
      open_for_ = std::chrono::milliseconds{number_of<int>(next_word(rest))};
      commits_ = rest == "commit";
      return;
    }
    batch_.emplace_back(line);
    if (left_ > 1) {
      --left_;
      return;
    }
    run_batch();
    left_ = 0;
    open_for_ = {};
    commits_ = true;
    batch_.clear();
  }

 private:
  // The backends of this client's former life may still have something to do.
  void connect() {
    for (;;) {
      connection_.emplace(conninfo_ + " application_name=" + name_);
      const auto ended = connection_->run(
          "select pg_terminate_backend(pid, 1000) from pg_stat_activity where application_name = $1 and pid <> "
          "pg_backend_pid()",
          {name_});
      if (ended.is_ok() && connection_->run("set search_path = tickwheel; set client_min_messages = error").is_ok())
        return;
      std::this_thread::sleep_for(20ms);
    }
  }

  void run_batch() {
    std::vector<answer> answers;
    for (const std::string& line : batch_) {
      std::string_view rest = line;
      (void)next_word(rest);
      answers.push_back({number_of<unsigned>(next_word(rest)), {}});
      say("asked %u", answers.back().number);
    }
    const std::string outcome = transact(answers);
    for (const answer& a : answers) say("answered %u %s", a.number, outcome.empty() ? a.text.c_str() : outcome.c_str());
    if (!connection_->is_connected()) connect();
  }

  // Returns the answer that all of them have; empty: each has its own.
  std::string transact(std::vector<answer>& answers) {
    if (!connection_->run("begin").is_ok()) return "unavailable";
    bool commits = commits_;
    for (std::size_t i = 0; i != batch_.size(); ++i) {
      const auto result = ask(batch_[i]);
      if (!result.is_ok() || result.rows.empty()) {
        (void)connection_->run("rollback");
        return "unavailable";
      }
      answers[i].text = result.rows.front();
      // an effect of a start that has ended or was given up
      if (batch_[i].starts_with("finish") && answers[i].text != "finished") commits = false;
    }
    std::this_thread::sleep_for(open_for_);
    if (!commits) {
      (void)connection_->run("rollback");
      return batch_.size() == 1 && answers.front().text == "stale" ? "" : "unavailable";
    }
    const auto committed = connection_->run("commit");
    if (committed.is_ok()) return {};
    return committed.state == "lost" ? "unknown" : "unavailable";
  }

  chaos::sql_result ask(std::string_view rest) const {
    const auto what = next_word(rest);
    (void)next_word(rest);
    const std::string id{next_word(rest)};
    if (what == "schedule") {
      const auto due = number_of<std::int64_t>(next_word(rest)) / 1000;
      const auto period = number_of<std::int64_t>(next_word(rest)) / 1000;
      (void)next_word(rest);
      return connection_->run(
          "select tickwheel_schedule($1::text, timestamptz 'epoch' + $2::bigint * interval '1 microsecond', "
          "convert_to($3::text, 'UTF8'), $4::bigint * interval '1 microsecond')",
          {id, std::to_string(due), std::string{rest}, std::to_string(period)});
    }
    if (what == "cancel") return connection_->run("select tickwheel_cancel($1::text)", {id});
    if (what == "finish") {
      const std::string token{next_word(rest)};
      const auto inserted =
          connection_->run("insert into effects(key, token) values($1::text, $2::bigint)", {std::string{rest}, token});
      if (!inserted.is_ok()) return inserted;
      return connection_->run("select tickwheel_done($1::text, $2::bigint)", {id, token});
    }
    crash::fail("unknown command", std::string{what}.c_str());
  }

  const std::string conninfo_;
  const std::string name_;
  std::optional<chaos::database> connection_;
  unsigned left_ = 0;
  std::chrono::milliseconds open_for_{};
  bool commits_ = true;
  std::vector<std::string> batch_;
};

}  // namespace

int main(int count, char** words) {
  if (count != 3) crash::fail("usage", "chaos_client CONNINFO NAME");
  client c{words[1], words[2]};
  std::string line;
  while (std::getline(std::cin, line)) c.obey(line);
  return 0;
}
