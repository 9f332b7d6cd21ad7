// The works of recover: first what was due, then the rest.
#include "../../batch_limits.hpp"
#include "../link/node_state.hpp"
#include "../sql/times.hpp"
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

constexpr std::int64_t page = 1000;  // as in the statement
// A pause counts at most this time of all steps of a recovery, or of one step that reads the rest. The process may have been stopped
// meanwhile.
constexpr std::chrono::nanoseconds longest_recovery = std::chrono::seconds{2};
constexpr std::chrono::nanoseconds longest_step = std::chrono::seconds{2};

// Gives the doubted ids back, and then recovers a page of tasks after the other, a few partitions at a time. It reads tasks that were
// due. While an old snapshot is open, a statement passes over all tasks of its partitions that were due since then. So renewals and
// the window reader have their turn between two statements, and a recovery that is not urgent leaves most of the time of the server to others.
class recover_work final : public work {
 public:
  recover_work(recover_call& c, node_state& of) : work{store_verb::recover, &c}, state_{of} {
    c.recovered = c.died = 0;
    of.max_attempts = c.max_attempts;
  }

 private:
  void on_ask(transaction& to) override {
    makes_room_ = false;
    const recover_call& c = as<recover_call>();
    const auto session = static_cast<std::int64_t>(c.session);
    if (gives_back_) {
      parameters::array ids{element_type::text, c.doubted.size()};
      for (const std::string& id : c.doubted) ids.add(id);
      to.add(statement::give_back).add(session).add(std::move(ids));
      return;
    }
    to.add(statement::recover)
        .add(session)
        .add(std::int64_t{0})
        .add(static_cast<std::int64_t>(c.max_attempts))
        .add(partition_)
        .add(partition_ + limits.recovered_partitions);
  }
  void on_committed(const transaction& of) override {
    auto& c = as<recover_call>();
    const rows answered = of.of(0);
    c.now = from_database(answered.integer(0, 0));
    if (std::exchange(gives_back_, false)) return keep_doubts(answered);
    c.recovered += static_cast<std::uint64_t>(answered.integer(0, 2));
    c.died += static_cast<std::uint64_t>(answered.integer(0, 3));
    makes_room_ = true;
    const int steps = (state_.partitions + limits.recovered_partitions - 1) / limits.recovered_partitions;
    pause(std::min(took(), longest_recovery / steps) * limits.pause_in_round);
    if (answered.integer(0, 1) >= page) return;
    partition_ += limits.recovered_partitions;
    if (partition_ < state_.partitions) return;
    c.recovered += std::exchange(state_.recovered_later, 0);
    c.died += std::exchange(state_.died_later, 0);
    end();
  }
  bool gives_way() const override { return true; }
  steady_time paused_until() const noexcept override {
    return makes_room_ && as<recover_call>().is_urgent ? steady_time::min() : work::paused_until();
  }

  // The rows that another client holds are given back by a later call.
  void keep_doubts(const rows& held) {
    std::vector<std::string>& doubted = as<recover_call>().doubted;
    for (int r = 0; r != held.size(); ++r)
      if (!held.is_null(r, 1)) doubted[static_cast<std::size_t>(held.integer(r, 1) - 1)].clear();
    std::erase(doubted, std::string{});
  }

  node_state& state_;
  bool gives_back_ = true;
  bool makes_room_ = false;     // its pause is for the others
  std::int64_t partition_ = 0;  // the first that is not done
};

// Recovers tasks of all times. A running task is not due if the clock was set back, or after a failover. A statement reads all pending
// tasks of a partition to find such tasks, so this work leaves most of the time of its link to others.
class recover_later_work final : public work {
 public:
  explicit recover_later_work(node_state& of)
      : work{store_verb::recover, nullptr}, state_{of}, session_{static_cast<std::int64_t>(of.session)} {
    of.recovers_all = false;
    of.is_recovering = true;
  }
  ~recover_later_work() override {
    state_.is_recovering = false;
    if (!has_ended() || status() != store_status::ok) state_.recovers_all = true;
  }
  recover_later_work(const recover_later_work&) = delete;
  recover_later_work& operator=(const recover_later_work&) = delete;

 private:
  static constexpr int pauses = 4;  // times as long as a statement takes

  void on_ask(transaction& to) override {
    to.add(statement::recover)
        .add(session_)
        .add(never)
        .add(static_cast<std::int64_t>(state_.max_attempts))
        .add(partition_)
        .add(partition_ + 1);
  }
  void on_committed(const transaction& of) override {
    const rows answered = of.of(0);
    state_.recovered_later += static_cast<std::uint64_t>(answered.integer(0, 2));
    state_.died_later += static_cast<std::uint64_t>(answered.integer(0, 3));
    pause(std::min(took(), longest_step) * pauses);
    if (answered.integer(0, 1) < page && ++partition_ >= state_.partitions) end();
  }
  bool gives_way() const override { return true; }

  node_state& state_;
  const std::int64_t session_;
  std::int64_t partition_ = 0;
};

}  // namespace

std::unique_ptr<work> make_recover(recover_call& c, node_state& of) { return std::make_unique<recover_work>(c, of); }

std::unique_ptr<work> make_recover_later(node_state& of) {
  return of.recovers_all && !of.is_recovering ? std::make_unique<recover_later_work>(of) : nullptr;
}

}  // namespace tickwheel::durable::postgres
