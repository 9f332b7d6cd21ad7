// The works of recover: first what was due, then the rest.
#include "../../batch_limits.hpp"
#include "../link/node_state.hpp"
#include "../sql/times.hpp"
#include "lost_tasks.hpp"
#include "works.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tickwheel::durable::postgres {

namespace {

using detail::limits;

// A pause counts at most this time of all steps of a recovery, or of one step that reads the rest. The process may have been stopped
// meanwhile.
constexpr std::chrono::nanoseconds longest_recovery = std::chrono::seconds{2};
constexpr std::chrono::nanoseconds longest_step = std::chrono::seconds{2};

// Gives the doubted ids back, and then recovers a page of tasks after the other, a few partitions at a time. It reads tasks that were
// due. While an old snapshot is open, a statement passes over all tasks of its partitions that were due since then. So renewals and
// the window reader have their turn between two statements, and a recovery that is not urgent leaves most of the time of the server to others.
class recover_work final : public work {
 public:
  recover_work(recover_call& c, node_state& of)
      : work{store_verb::recover, &c}, state_{of}, tasks_{c.session, 0, limits.recovered_partitions} {
    c.recovered = c.died = 0;
    of.max_attempts = c.max_attempts;
    doubts_.push_back(all_indices(c.doubted.size()));
  }

 private:
  bool gives_back() const noexcept { return !doubts_.empty(); }

  void on_ask(transaction& to) override {
    makes_room_ = false;
    (void)to.add(statement::wait_briefly);
    const recover_call& c = as<recover_call>();
    if (!gives_back()) return tasks_.ask(to, c.max_attempts);
    parameters::array ids{element_type::text, doubts_.back().size()};
    for (const std::size_t i : doubts_.back()) ids.add(c.doubted[i]);
    to.add(statement::give_back).add(static_cast<std::int64_t>(c.session)).add(std::move(ids));
  }
  void on_committed(const transaction& of) override {
    auto& c = as<recover_call>();
    const rows answered = of.of(1);
    c.now = from_database(answered.integer(0, 0));
    if (gives_back()) return on_given_back(answered);
    const auto [recovered, died] = tasks_.take(answered);
    c.recovered += recovered;
    c.died += died;
    make_room();
    end_if_done();
  }
  bool narrow() override {
    if (gives_back()) {
      on_not_given_back();
      return true;
    }
    const bool is_smaller = tasks_.refuse();
    end_if_done();
    return is_smaller;
  }
  void on_refused() override {
    if (gives_back()) return on_not_given_back();
    if (!tasks_.refuse()) return on_given_up();
    make_room();
    end_if_done();
  }
  void on_damaged() override {
    if (gives_back()) return on_not_given_back();
    if (!tasks_.refuse()) tasks_.pass_over_damage();
    make_room();
    end_if_done();
  }
  bool gives_way() const override { return true; }
  steady_time paused_until() const noexcept override {
    return makes_room_ && as<recover_call>().is_urgent ? steady_time::min() : work::paused_until();
  }

  void make_room() {
    makes_room_ = true;
    const int steps = (state_.partitions + limits.recovered_partitions - 1) / limits.recovered_partitions;
    pause(std::min(took(), longest_recovery / steps) * limits.pause_in_round);
  }
  void end_if_done() {
    if (!tasks_.is_done(state_.partitions)) return;
    as<recover_call>().recovered += std::exchange(state_.recovered_later, 0);
    as<recover_call>().died += std::exchange(state_.died_later, 0);
    end();
  }

  // A row that another client holds, or that the server refuses to change, is given back by a later call.
  void on_given_back(const rows& held) {
    for (int r = 0; r != held.size(); ++r)
      if (!held.is_null(r, 1)) keep_doubt(doubts_.back()[static_cast<std::size_t>(held.integer(r, 1) - 1)]);
    end_group();
  }
  void on_not_given_back() {
    if (doubts_.back().size() > 1) return split_last(doubts_);
    for (const std::size_t alone : doubts_.back()) keep_doubt(alone);
    end_group();
  }
  void keep_doubt(std::size_t i) { as<recover_call>().doubted[i].clear(); }
  void end_group() {
    doubts_.pop_back();
    if (doubts_.empty()) std::erase(as<recover_call>().doubted, std::string{});
  }

  node_state& state_;
  std::vector<indices> doubts_;  // the groups of doubted ids that are to be given back, before all else
  lost_tasks tasks_;
  bool makes_room_ = false;  // its pause is for the others
};

// Recovers tasks of all times. A running task is not due if the clock was set back, or after a failover. A statement reads all pending
// tasks of a partition to find such tasks, so this work leaves most of the time of its link to others. A later recovery tries those again
// that it has passed over. The usual recoveries do that for tasks that are due.
class recover_later_work final : public work {
 public:
  explicit recover_later_work(node_state& of)
      : work{store_verb::recover, nullptr}, state_{of}, tasks_{of.session, never, 1} {
    of.recovers_all = false;
    of.is_recovering = true;
  }
  ~recover_later_work() override {
    state_.is_recovering = false;
    if (!has_ended() || status() != store_status::ok || tasks_.has_left_early()) state_.recovers_all = true;
  }
  recover_later_work(const recover_later_work&) = delete;
  recover_later_work& operator=(const recover_later_work&) = delete;

 private:
  static constexpr int pauses = 4;  // times as long as a statement takes

  void on_ask(transaction& to) override {
    (void)to.add(statement::wait_briefly);
    tasks_.ask(to, state_.max_attempts);
  }
  void on_committed(const transaction& of) override {
    const auto [recovered, died] = tasks_.take(of.of(1));
    state_.recovered_later += recovered;
    state_.died_later += died;
    make_room();
  }
  bool narrow() override {
    const bool is_smaller = tasks_.refuse();
    if (is_smaller) make_room();
    return is_smaller;
  }
  void on_refused() override {
    if (!tasks_.refuse()) return on_given_up();
    make_room();
  }
  void on_damaged() override {
    if (!tasks_.refuse()) tasks_.pass_over_damage();
    make_room();
  }
  bool gives_way() const override { return true; }

  void make_room() {
    pause(std::min(took(), longest_step) * pauses);
    end_if_done();
  }
  void end_if_done() {
    if (tasks_.is_done(state_.partitions)) end();
  }

  node_state& state_;
  lost_tasks tasks_;
};

}  // namespace

std::unique_ptr<work> make_recover(recover_call& c, node_state& of) { return std::make_unique<recover_work>(c, of); }

std::unique_ptr<work> make_recover_later(node_state& of) {
  return of.recovers_all && !of.is_recovering ? std::make_unique<recover_later_work>(of) : nullptr;
}

}  // namespace tickwheel::durable::postgres
