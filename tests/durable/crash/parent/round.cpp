#include "round.hpp"

#include "orders.hpp"
#include "outsider.hpp"
#include "process.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace crash {

namespace {

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

constexpr std::int64_t hour = 3'600'000 * millisecond;
constexpr unsigned max_attempts = 4;
constexpr std::int64_t keep_finished = 300'000 * millisecond;
constexpr std::size_t abort_batch = 1000;
constexpr unsigned zeros_of_quiet = 4;
constexpr auto short_lease = 500ms;  // for a child that is stopped for longer

const std::vector<const char*> plans{"d",   "d",  "d", "d",  "D", "D", "D",  "l", "f",
                                     "ffd", "fD", "r", "rD", "b", "n", "nd", "fb"};

class round final : private orders::client {
 public:
  round(const round_options& o, std::uint64_t seed)
      : options_{o},
        random_{seed},
        orders_{*this, random_, {.tasks = o.tasks, .plans = plans}},
        file_{o.directory + "/tasks.db"},
        outside_{file_} {
    for (const char* const end : {"", "-wal", "-shm", "-journal", ".lock"}) (void)unlink((file_ + end).c_str());
    if (!o.faketime.empty()) {
      const std::string clock = o.directory + "/clock";
      (void)unlink(clock.c_str());
      environment_ = {"LD_PRELOAD=" + o.faketime, "FAKETIME_TIMESTAMP_FILE=" + clock, "FAKETIME_DONT_FAKE_MONOTONIC=1",
                      "FAKETIME_NO_CACHE=1"};
    }
    // a backup and a clock that is set back would have no clock left that tokens could grow by
    backs_up_ = has_faults() && chance(50);
  }

  round_result run() {
    write("config " + std::to_string(max_attempts) + " " + std::to_string(keep_finished) +
          (options_.how == mode::power || has_faults() ? " doubts" : ""));
    const std::size_t generations = options_.how == mode::abort ? 0 : 1 + below(options_.generations);
    for (std::size_t i = 0; i != generations && out_.problem.empty(); ++i) interrupted(i, generations);
    outside_.end_reading();
    while (out_.problem.empty() && !is_listed_) undisturbed();
    if (const std::string wrong = outside_.check(); !wrong.empty() && out_.broken.empty())
      out_.broken = "SQLite finds an error in the file: " + wrong;
    return std::move(out_);
  }

 private:
  // --- chances

  std::uint64_t below(std::uint64_t n) { return random_.below(n); }
  bool chance(unsigned percent) { return random_.chance(percent); }
  bool has_faults() const { return options_.how == mode::faults; }

  // --- children

  void begin_child(bool may_fail) {
    if (has_copy_ && chance(30)) restore();
    if (backs_up_ && chance(10)) back_up();
    if (!backs_up_ && chance(25)) ahead_ += static_cast<std::int64_t>(below(200)) * millisecond - 100 * millisecond;
    write("start " + std::to_string(true_wall() + ahead_));
    std::vector<std::string> command{options_.child, file_, "ahead=" + std::to_string(ahead_)};
    if (options_.how == mode::power) {
      if (may_fail) command.push_back("crash=" + std::to_string(5 + below(chance(30) ? 60 : 800)));
      // The last child has more errors: no restart after it hides a start that it has forgotten.
      command.push_back("errors=" + std::to_string(!may_fail ? 30 + below(100) : chance(50) ? 40 + below(400) : 0));
      command.push_back("seed=" + std::to_string(1 + below(1U << 30)));
    }
    if (chance(20)) command.push_back("loaded=" + std::to_string(10 + below(100)));
    if (chance(20)) command.push_back("running=" + std::to_string(1 + below(8)));
    if (has_faults()) command.push_back("lease=" + std::to_string(short_lease.count()));
    child_ = std::make_unique<process>(command, environment_);
    is_ready_ = false;
  }

  // Waits for the end of the child.
  int end_child() {
    const int status = child_->wait(input_);
    read_lines();
    input_.clear();
    if (is_saving_) saved();
    // the child may have set its clock, and not told it
    write("end " + std::to_string(true_wall() + std::max(ahead_, asked_ahead_)) + " " + std::to_string(status));
    ahead_ = asked_ahead_;
    orders_.end(0);
    left_asked_ = false;
    child_.reset();
    return status;
  }

  void interrupted(std::size_t index, std::size_t of) {
    begin_child(true);
    const bool is_early = chance(15);
    const bool drains = options_.how == mode::kill && !is_early && chance(8);
    const bool is_impatient = chance(40);
    const auto begin = steady::now();
    auto until = begin + (is_early ? std::chrono::microseconds{below(15'000)} : 10s);
    bool was_ready = false;
    const std::size_t share = options_.tasks * (index + 1) / (of + 1);
    const std::size_t share_before_ready = orders_.made() + (share - std::min(share, orders_.made())) / 4;
    bool is_draining = false;
    while (steady::now() < until) {
      if (!turn(1ms)) break;
      if (is_ready_ && !was_ready) {
        was_ready = true;
        if (!is_early)
          until = steady::now() + std::chrono::microseconds{below(2) == 0 ? below(60'000) : below(300'000)};
      }
      if (has_faults() && was_ready && !is_draining) {
        const auto now = steady::now();
        disturb();
        until += steady::now() - now;
      }
      if (orders_.made() < (was_ready ? share : share_before_ready) && !is_draining && (!was_ready || chance(40)))
        order_some();
      if (was_ready && chance(1)) set_clock_some();
      if (drains && was_ready && !is_draining && steady::now() + 20ms > until) {
        is_draining = true;
        until = steady::now() + options_.patience;
        child_->send("drain\n");
      }
    }
    if (steady::now() >= until) {
      if (is_draining) out_.problem = "the child did not drain";
      if (!was_ready && !is_early && options_.how != mode::power) out_.problem = "the child did not open its store";
      // An answer has just been given: if it was given too early, its write is under way.
      if (was_ready && is_impatient && !is_draining) await_answer();
      child_->signal(SIGKILL);
    }
    check_end(end_child(), is_draining);
    ++out_.kills;
  }

  void await_answer() {
    const auto until = steady::now() + 20ms;
    const std::size_t before = orders_.answers();
    while (orders_.answers() == before && steady::now() < until)
      if (!turn(1ms)) return;
  }

  // --- faults

  void disturb() {
    if (!chance(5)) return;
    switch (below(9)) {
      case 0:
        return stop_for_a_while();
      case 1:
      case 2:
        return fill_disk();
      case 3:
        return child_->send("limit -1\n");
      case 4:
        return outside_.is_reading() ? outside_.end_reading() : outside_.begin_reading();
      case 5:
        return outside_.look();
      case 6:
        return child_->send("touch\n");
      case 7:
        return try_second_child();
      default:
        if (backs_up_ && !is_saving_) back_up();
    }
  }

  // For longer than its lease, or only a moment.
  void stop_for_a_while() {
    child_->signal(SIGSTOP);
    std::this_thread::sleep_for(chance(40) ? short_lease + 50ms : std::chrono::milliseconds{below(40)});
    child_->signal(SIGCONT);
  }

  // The log or the file may not grow any more, or only a little.
  void fill_disk() {
    std::error_code missing;
    auto size = std::filesystem::file_size(file_ + (chance(70) ? "-wal" : ""), missing);
    if (missing) return;
    size += below(chance(50) ? 5'000 : 60'000);
    child_->send("limit " + std::to_string(size) + "\n");
  }

  void try_second_child() {
    if (chance(50)) child_->send("touch\n");
    (void)turn(1ms);
    process second{{options_.child, file_, "busy=1"}, environment_};
    std::string ignored;
    if (second.wait(ignored) != 0) out_.broken = "a second process has not found the file busy";
  }

  void back_up() {
    write("backup " + std::to_string(true_wall() + std::max(ahead_, asked_ahead_)));
    has_copy_ = outside_.back_up();
    is_saving_ = true;
    child_ == nullptr ? saved() : child_->send("mark\n");
  }

  // All that was asked before the copy was complete has been read.
  void saved() {
    is_saving_ = false;
    write("saved " + std::to_string(true_wall() + std::max(ahead_, asked_ahead_)));
  }

  void restore() {
    if (!outside_.restore()) out_.problem = "the backup could not be restored";
    write("restored " + std::to_string(true_wall() + std::max(ahead_, asked_ahead_)));
  }

  void check_end(int status, bool may_exit) {
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && options_.how == mode::abort) return;
    if (may_exit && WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    if (out_.problem.empty())
      out_.problem = "the child has ended by itself, with the wait status " + std::to_string(status);
  }

  // The last child: nothing happens to it, except that a task may abort it.
  void undisturbed() {
    begin_child(false);
    if (quiet_until_ == steady::time_point{}) quiet_until_ = steady::now() + options_.patience;
    const auto latest = quiet_until_ + 10 * options_.patience;
    std::size_t answers = orders_.answers();
    auto next_look = steady::now();
    const std::size_t share_before_ready = orders_.made() + (options_.tasks - orders_.made()) / 4;
    while (turn(1ms)) {
      if (options_.how == mode::abort && (batch_is_quiet_ || orders_.made() == 0))
        order_batch();
      else if (options_.how != mode::abort && orders_.made() < options_.tasks) {
        if (is_ready_ ? chance(40) : orders_.made() < share_before_ready) order_some();
      } else if (!is_quiet_ && is_ready_ && steady::now() >= next_look) {
        next_look = steady::now() + 10ms;
        settle();
      }
      if (is_listed_) break;
      // a slow machine goes on and on
      if (std::exchange(answers, orders_.answers()) != orders_.answers())
        quiet_until_ = std::min(latest, steady::now() + options_.patience);
      if (steady::now() <= quiet_until_) continue;
      if (!is_quiet_) {
        be_quiet();
        continue;
      }
      out_.problem = "the child did not list its tasks";
      child_->signal(SIGKILL);
      break;
    }
    if (is_listed_) child_->signal(SIGKILL);
    check_end(end_child(), false);
    out_.kills += !is_listed_;
  }

  // Lets the last tasks end.
  void settle() {
    if (!has_settled_clock_) {
      has_settled_clock_ = true;
      child_->send("calm\n");
      set_clock(std::max(largest_ahead_, ahead_) + 1000 * millisecond);
    }
    if (orders_.settle() || left_asked_) return;
    left_asked_ = true;
    child_->send("left\n");
  }

  void be_quiet() {
    is_quiet_ = true;
    write("quiet " + std::to_string(true_wall() + std::max(ahead_, asked_ahead_)));
    child_->send("list\n");
    quiet_until_ = steady::now() + options_.patience;
  }

  void on_left(std::string_view rest) {
    left_asked_ = false;
    // the states are not read at one moment: what went from one to the other shows itself by a start, or the next time
    if (rest != "0 0") zeros_ = 0;
    if (is_quiet_ || rest != "0 0" || ++zeros_ < zeros_of_quiet) return;
    zeros_ = 0;
    if (options_.how == mode::abort && orders_.made() < options_.tasks)
      batch_is_quiet_ = true;
    else
      be_quiet();
  }

  bool turn(std::chrono::milliseconds patience) {
    const bool is_alive = child_->exchange(input_, patience);
    read_lines();
    return is_alive;
  }

  // --- the journal

  void write(const std::string& line) { out_.journal += line + '\n'; }

  void read_lines() {
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = input_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      const auto line = std::string_view{input_}.substr(begin, end - begin);
      out_.journal.append(line).push_back('\n');
      note(line);
    }
    input_.erase(0, begin);
  }

  // Keeps what later requests refer to.
  void note(std::string_view line) {
    (void)next_word(line);
    (void)next_word(line);
    const auto what = next_word(line);
    if (what == "ready") {
      is_ready_ = line == "0";
    } else if (what == "closed") {
      is_ready_ = false;
    } else if (what == "left") {
      on_left(line);
    } else if (what == "marked") {
      saved();
    } else if (what == "listed") {
      is_listed_ = true;
    } else if (what == "clock") {
      ahead_ = asked_ahead_;
    } else {
      if (what == "entered") zeros_ = 0;
      orders_.note(what, line);
    }
  }

  // --- requests

  unsigned on_order(const std::string& journal_line, const std::string& command) override {
    write(journal_line);
    child_->send(command);
    return 0;
  }
  std::int64_t now() const override { return true_wall() + ahead_; }

  void order_some() {
    orders_.order_some([this] {
      if (chance(50)) return set_clock_some();
      if (options_.how == mode::kill && chance(5)) child_->send("reopen\n");
    });
  }

  // A step forward and back, and now and then an hour forward for a moment.
  void set_clock_some() {
    if (backs_up_) return;
    if (asked_ahead_ >= hour / 2) return set_clock(asked_ahead_ - hour);
    const bool is_clock_mode = options_.how == mode::clock;
    if (!is_clock_mode && chance(70)) return;
    if (chance(is_clock_mode ? 30 : 5)) return set_clock(asked_ahead_ + hour);
    set_clock(static_cast<std::int64_t>(below(300)) * millisecond - 150 * millisecond);
  }

  void set_clock(std::int64_t ahead) {
    asked_ahead_ = ahead;
    largest_ahead_ = std::max(largest_ahead_, ahead);
    child_->send("clock " + std::to_string(ahead) + "\n");
  }

  void order_batch() {
    batch_is_quiet_ = false;
    const std::size_t count = std::min(abort_batch, options_.tasks - orders_.made());
    const std::size_t poison = below(count);
    for (std::size_t i = 0; i != count; ++i) {
      const std::size_t which = orders_.add_task();
      if (i == poison) out_.poison.push_back(orders_.tasks()[which].id);
      orders_.put(which, "keep", 0,
                  i == poison  ? "a"
                  : chance(50) ? "d"
                               : "D",
                  static_cast<std::int64_t>(below(400)), below(40));
    }
    quiet_until_ = steady::now() + options_.patience;
  }

  const round_options& options_;
  chances random_;
  orders orders_;
  const std::string file_;
  outsider outside_;
  std::vector<std::string> environment_;
  round_result out_;
  std::unique_ptr<process> child_;
  std::string input_;
  bool is_ready_ = false;
  bool backs_up_ = false;
  bool has_copy_ = false;
  bool is_saving_ = false;        // a copy is complete, and its mark has not come back
  std::int64_t ahead_ = 0;        // as the child has told
  std::int64_t asked_ahead_ = 0;  // as it was told
  std::int64_t largest_ahead_ = 0;
  bool has_settled_clock_ = false;
  bool left_asked_ = false;
  unsigned zeros_ = 0;  // answers in a row, without a start, that nothing is left
  bool batch_is_quiet_ = false;
  bool is_quiet_ = false;
  bool is_listed_ = false;
  steady::time_point quiet_until_{};
};

}  // namespace

round_result run_round(const round_options& options, std::uint64_t seed) { return round{options, seed}.run(); }

}  // namespace crash
