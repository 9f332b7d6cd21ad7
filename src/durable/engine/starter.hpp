// The starter begins due tasks in the store, and hands the starts out.
#pragma once

#include "arrivals.hpp"
#include "membership.hpp"
#include "outage_pause.hpp"
#include "start.hpp"
#include "store_clock.hpp"
#include "task_window.hpp"

#include <tickwheel/core/log_histogram.hpp>
#include <tickwheel/durable/scheduler.hpp>
#include <tickwheel/durable/scheduler_options.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tickwheel::durable::detail {

/// One `begin` at a time is with the store: the oldest due tasks, as many as there are free places.
///
/// A start takes a place among `max_running` from its begin until the store has confirmed its end. A task that lost two nodes runs
/// only if no other such task runs: of the tasks that were lost together, the one that kills its node dies alone.
///
/// It runs beside tasks that lost fewer, so another task may kill it the third time. To run it with nothing beside it, the node would
/// have to start nothing until all executions have ended, and until this one has: they may take hours.
///
/// A task may be pending again while its start is not known to have ended, or while the user keeps the execution after `finish` by token.
/// It then waits with its start, and takes no place in the window.
class starter {
 public:
  using steady_time = tickwheel::clock::time_point;

  /// The part of the engine that it calls.
  class client {
   public:
    virtual void wake() noexcept = 0;
    virtual void on_answer(const store_call&) noexcept = 0;
    /// An answer is there to be taken in.
    virtual void on_arrived(arrival&) noexcept = 0;

   protected:
    ~client() = default;
  };

  starter(timer_service&, const scheduler_options&, store_clock&, membership&, task_window&, outage_pause&,
          client&) noexcept;
  starter(const starter&) = delete;
  starter& operator=(const starter&) = delete;

  /// Begins what is due, unless a begin is with the store. Requires: the node has joined.
  void begin_due(store&, engine& owner);
  /// The session was lost: others recover what a begin in flight starts.
  void forget_session() noexcept {
    begin_.tasks.clear();
    by_id_.clear();
  }
  /// The store was closed. All starts become inert.
  void close() noexcept;

  bool has_starts() const noexcept { return !ready_.empty(); }
  /// Calls the handler with the oldest start. Drops the start if its session was lost, or if too much of the lease has passed since its
  /// begin or the last renewal. The node may have been stopped or cut off then, and does not know what others did meanwhile. The handler
  /// may destroy the starter.
  void hand_out_one(start_handler&);
  /// The store has confirmed the end of `s`.
  void end(start& s) noexcept;
  /// Returns true if `row` is of a task that runs. The row is kept, unless it is from before the start, and put into the window when the
  /// start ends.
  bool keep_for_end(pending_row& row);

  bool is_idle() const noexcept { return running_.empty() && !begin_.is_busy; }
  std::size_t running() const noexcept { return running_.size(); }
  /// The oldest start; null: there is none.
  const start* oldest() const noexcept { return running_.empty() ? nullptr : &running_.front(); }
  std::uint64_t handed_out() const noexcept { return handed_out_; }
  /// How late handlers were called, in units of `lateness_unit`.
  const log_histogram& lateness() const noexcept { return lateness_; }
  static constexpr std::chrono::nanoseconds lateness_unit{1024};

  /// Returns a message that describes an inconsistency, or null.
  const char* problem() const noexcept;

 private:
  struct flight final : begin_call, arrival {
    explicit flight(starter& s) noexcept : begin_call{&answer_arrived}, of{s} {}
    static void answer_arrived(store_call&) noexcept;
    bool take_in_one() noexcept override;
    starter& of;
    engine* owner = nullptr;
    std::vector<loaded_task*> tasks;  // of the items; null: it has started
    steady_time sent_at{};
    steady_time arrived_at{};
    std::size_t taken_in = 0;  // starts, then tasks
    bool has_early = false;    // a task was begun before its time
    bool is_busy = false;
  };

  void pick(std::size_t most);
  bool may_begin(loaded_task&) noexcept;
  void on_not_started(loaded_task&);
  void give_up(loaded_task&);
  void add(begin_call::started&, loaded_task&);

  timer_service& timers_;
  const scheduler_options& options_;
  store_clock& clock_;
  membership& members_;
  task_window& window_;
  outage_pause& pause_;
  client& client_;

  flight begin_{*this};
  start_list running_;                                  // in the order of their begins
  std::deque<std::unique_ptr<start>> ready_;            // of these, those to be handed out
  std::unordered_map<std::string_view, start*> by_id_;  // those of this session
  std::size_t fragile_ = 0;                             // of these, those that lost two nodes
  std::uint64_t handed_out_ = 0;
  log_histogram lateness_;
};

}  // namespace tickwheel::durable::detail
