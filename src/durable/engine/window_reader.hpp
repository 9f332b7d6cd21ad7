// The window reader reads the tasks that are due soon from the store into the window.
#pragma once

#include "arrivals.hpp"
#include "membership.hpp"
#include "reading_order.hpp"
#include "store_clock.hpp"
#include "task_window.hpp"

#include <tickwheel/durable/scheduler_options.hpp>
#include <tickwheel/durable/store.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace tickwheel::durable::detail {

/// A pause counts at most this time of a look from the beginning, or of all steps of a round. The process may have been stopped
/// meanwhile.
inline constexpr std::chrono::nanoseconds longest_look = std::chrono::seconds{2};

/// A look reads the pending tasks of all own partitions that are due within `window`, page after page. It starts at the low-water mark
/// of each partition: two windows before the end of what was read of it, and before the oldest task in memory. Tasks before the mark
/// are late comers. It reads no more of a partition whose next task the full window leaves out. The next look goes on there.
///
/// A look from the beginning finds late comers. A server's index keeps what an old snapshot may see, and such a look passes over all
/// of that. So it reads the first pages of a few partitions at a time. A round has steps: a look ends with the next partitions of the
/// round. It leaves them out if the last step was only a short time ago in comparison with how long it took.
///
/// `reading_order` tells what a load reads, also after one that has failed.
class window_reader {
 public:
  /// The part of the engine that it calls.
  class client {
   public:
    virtual void on_answer(const store_call&) noexcept = 0;
    /// An answer is there to be taken in.
    virtual void on_arrived(arrival&) noexcept = 0;
    /// Returns true if `row` belongs into the window. It may be moved from otherwise.
    virtual bool is_wanted(pending_row& row) noexcept = 0;
    /// Returns false if the node starts nothing any more.
    virtual bool wants_tasks() const noexcept = 0;
    /// The store has taken this time for the first pages of a whole look from the beginning so far.
    virtual void on_looked_from_the_beginning(std::chrono::nanoseconds took) noexcept = 0;

   protected:
    ~client() = default;
  };

  window_reader(timer_service&, const scheduler_options&, const store_clock&, const membership&, task_window&,
                client&) noexcept;
  window_reader(const window_reader&) = delete;
  window_reader& operator=(const window_reader&) = delete;

  void open(store& tasks) noexcept { tasks_ = &tasks; }
  void close() noexcept;

  /// Begins a look, unless one is under way. A look from the beginning then follows.
  void look(bool from_the_beginning);
  /// Begins a look, after the one that is under way, which may have passed over a new task.
  void look_again();
  /// The next looks, at most so many if the store is quick, read all partitions from the beginning.
  void begin_round(std::size_t looks);
  /// Returns true until they have.
  bool is_in_round() const noexcept { return !round_.empty(); }
  /// Reads tasks that were left out for want of room, if half of the window has gone. If no task has started or was cancelled since the
  /// last time, it does so a few times more, and then leaves it to the polls.
  void look_if_half_is_gone();
  /// Returns true if the window is full, and no look shall read it again. No look finds a task that is earlier than those that are due,
  /// except if some were dropped, or the last look has failed. Then, or if some tasks wait, a look may find an earlier one, but reads
  /// all that is in the window: the next one waits for a multiple of the time that it takes.
  bool is_paused() const noexcept;

 private:
  struct flight final : load_call, arrival {
    explicit flight(window_reader& r) noexcept : load_call{&answer_arrived}, of{r} {}
    static void answer_arrived(store_call&) noexcept;
    bool take_in_one() noexcept override { return of.take_in_one(); }
    window_reader& of;
    std::size_t taken_in = 0;      // rows
    std::size_t in_page = 0;       // of these, those of the page that is taken in
    std::vector<load_range> rest;  // behind the pages that were full
    bool is_busy = false;
  };

  void take_ranges();
  std::vector<load_range> take_step(std::vector<load_range>& marks);
  void note_time();
  void note_failure(tickwheel::clock::time_point now);
  bool take_in_one();
  void leave_out_later(partition_number, clock::time_point than) noexcept;
  void end_load();
  void go_on();
  void load();

  timer_service& timers_;
  const scheduler_options& options_;
  const store_clock& clock_;
  const membership& members_;
  task_window& window_;
  client& client_;
  store* tasks_ = nullptr;

  flight load_{*this};
  reading_order order_;
  std::map<partition_number, clock::time_point> read_to_;  // of a partition that has no entry nothing was read

  std::vector<partition_number> round_;  // partitions that are to be read from the beginning
  std::size_t step_ = 0;                 // how many of them at once
  std::chrono::nanoseconds longest_step_{};
  tickwheel::clock::time_point next_step_{};

  bool is_whole_ = false;                    // the look reads all from the beginning
  bool starts_over_ = false;                 // a look from the beginning follows
  bool goes_again_ = false;                  // a look follows
  tickwheel::clock::time_point began_at_{};  // when the look began
  tickwheel::clock::time_point sent_at_{};   // when its last load was sent
  std::chrono::nanoseconds took_{};          // the first pages from the beginning
  std::chrono::nanoseconds failures_took_{};

  tickwheel::clock::time_point next_if_full_{};  // when the next look may begin, if the window is full
  std::uint64_t departures_ = 0;                 // from the window, when half of it had gone the last time
  unsigned looks_in_vain_ = 0;                   // since then
};

}  // namespace tickwheel::durable::detail
