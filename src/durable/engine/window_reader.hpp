// The window reader reads the tasks that are due soon from the store into the window.
#pragma once

#include "arrivals.hpp"
#include "membership.hpp"
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
/// A partition that cannot be read holds up no others for long. What begins at a mark is read first, then a step of the round, then
/// partitions of which nothing was read. A load that fails ends its kind in this look. The next looks read that kind one by one,
/// because nothing tells which of several partitions has failed: what begins at a mark after three failures in a row, the others at
/// once. The partition that failed last comes last. One that fails alone at its mark then counts as one of which nothing was read.
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
  static constexpr std::size_t all_at_once = static_cast<std::size_t>(-1);

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

  /// A load reads from the marks of partitions, a step of the round, partitions of which nothing was read, or further pages of the
  /// last two.
  enum class kind : std::uint8_t { marks, step, unread, further };

  void take_ranges();
  void take_step(std::vector<load_range>&);
  void note_time();
  void note_failure(tickwheel::clock::time_point now);
  void drop_first(std::size_t count);
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
  kind reads_ = kind::further;       // of the load in flight
  std::vector<load_range> waiting_;  // ranges that are to be read, in the order of their kinds
  std::size_t marks_ = 0;            // how many of each kind
  std::size_t in_step_ = 0;
  std::size_t unread_ = 0;
  std::size_t marks_at_once_ = all_at_once;                // how many of each kind in one load
  std::size_t at_once_;                                    // of the others
  unsigned mark_failures_ = 0;                             // loads of marks since they were all read
  bool is_whole_ = false;                                  // the look reads all from the beginning
  std::map<partition_number, clock::time_point> read_to_;  // of a partition that has no entry nothing was read
  partition_number failed_at_mark_ = 0;                    // the last whose load has failed
  partition_number failed_unread_ = 0;                     // the same
  tickwheel::clock::time_point next_try_{};                // of what was never read
  tickwheel::clock::time_point sent_at_{};
  std::chrono::nanoseconds took_{};      // the first pages from the beginning
  std::vector<partition_number> round_;  // partitions that are to be read from the beginning
  std::size_t step_ = 0;                 // how many of them at once
  std::chrono::nanoseconds longest_step_{};
  tickwheel::clock::time_point next_step_{};
  tickwheel::clock::time_point began_at_{};      // when the look began
  tickwheel::clock::time_point next_if_full_{};  // when the next one may begin, if the window is full
  std::uint64_t departures_ = 0;                 // from the window, when half of it had gone the last time
  unsigned looks_in_vain_ = 0;                   // since then
  bool starts_over_ = false;                     // a look from the beginning follows
  bool goes_again_ = false;                      // a look follows
  bool has_read_ = false;                        // the look has read something
  std::chrono::nanoseconds failures_took_{};     // the loads of the look that have failed
  bool has_failed_ = false;                      // the last look, or it has left out what had failed before
};

}  // namespace tickwheel::durable::detail
