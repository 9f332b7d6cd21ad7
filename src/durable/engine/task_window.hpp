// The tasks in memory: those due soon wait in the wheel for their time, those due wait for a place.
#pragma once

#include "store_clock.hpp"

#include <tickwheel/durable/store.hpp>
#include <tickwheel/uv/timer.hpp>

#include <boost/intrusive/set.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

namespace tickwheel::durable::detail {

class task_window;

/// A pending task in memory. It waits in the wheel, is due, or was taken to be begun.
class loaded_task : public boost::intrusive::set_base_hook<> {
 public:
  loaded_task(timer_service&, task_window&, pending_row&&) noexcept;

  pending_row row;

 private:
  friend class task_window;
  enum class place : std::uint8_t { none, waiting, due, taken };

  void on_due() noexcept;

  task_window& window_;
  place place_ = place::none;
  member_timer<&loaded_task::on_due> wake_;
};

/// Holds at most `capacity` tasks, by id. If there are more, it holds the earliest ones, and leaves the others out. A look reads them
/// later. Until it has ended, tasks that are later than the first of them are not handed out.
///
/// Of a task that has lost `fragile_after` nodes only one may run at a time. So of those that are due it holds no more than half of
/// `capacity`, and drops the others: they take no place of tasks that may run.
///
/// *Complexity:* O(log n) per task, and O(1) for the latest. *Lifetime:* as the service's timers.
class task_window {
 public:
  /// A task that has lost so many nodes is fragile.
  static constexpr unsigned fragile_after = 2;

  /// Calls `wake` with `context` when a task becomes due.
  task_window(timer_service& timers, std::size_t capacity, void (*wake)(void*) noexcept, void* context) noexcept
      : timers_{timers}, capacity_{capacity}, wake_{wake}, context_{context} {}
  task_window(const task_window&) = delete;
  task_window& operator=(const task_window&) = delete;
  ~task_window() { clear(); }

  /// Makes room for so many tasks. May throw std::bad_alloc.
  void reserve(std::size_t tasks) { tasks_.reserve(tasks); }
  /// Keeps `row`, or what is new of it. In a full window it takes the place of the latest task, which is then left out. A task that was
  /// taken stays as it is. A task for which the service has no timer is forgotten. Returns false if `row` is left out, and later ones are
  /// as well.
  bool add(pending_row&& row, const store_clock&);
  /// The task is no longer pending as it was. Does nothing if it is not here, or was taken.
  void forget(std::string_view id) noexcept;
  void clear() noexcept;

  /// Returns the due task with the earliest time; null: there is none.
  const loaded_task* first_due() const noexcept;
  /// Returns the earliest time of the tasks that are due, were taken and have not started, or were dropped and are to be read again; none:
  /// there are no such tasks.
  std::optional<clock::time_point> first_not_started() const noexcept;
  /// Returns the same of the fragile ones, or of the others, if it may be begun. Tasks of one time come in the order in which they
  /// became due.
  loaded_task* first_due(bool fragile) noexcept { return if_ready(due_[fragile], due_[fragile].begin()); }
  /// Returns the one after `task` of the same kind; null: there is none.
  loaded_task* after(loaded_task& task) noexcept {
    by_time& due = due_[is_fragile(task.row)];
    return if_ready(due, std::next(due.iterator_to(task)));
  }

  /// Takes a due task, to begin it. It keeps its place among `capacity`.
  void take(loaded_task& task) noexcept;
  /// A taken task is due again.
  void put_back(loaded_task& task) noexcept;
  /// A taken task waits again, because the store's clock is not where it was thought to be. It may be forgotten or left out, as in `add`.
  void wait_again(loaded_task& task, const store_clock&) noexcept;
  /// A taken task has started.
  void started(loaded_task& task) noexcept;
  /// A task has left.
  void erase(loaded_task& task) noexcept;
  /// A task has left, although it may be pending still. The next look reads it again.
  void drop(loaded_task& task) noexcept;

  /// Tasks that wait are due if the estimate of the store's clock has been set forward. O(log n) for each.
  void follow(const store_clock&) noexcept;

  /// A look begins. Returns the time from which on it must read tasks again that were left out; none: none was.
  std::optional<clock::time_point> begin_look() noexcept;
  /// The look has ended, or has failed.
  void end_look() noexcept { read_from_.reset(); }
  /// A look has ended that has read all partitions: tasks that were dropped before it are here again, or are not pending.
  void forget_dropped() noexcept { dropped_before_.reset(); }
  /// Returns true if tasks were left out since the last look began. Those that were dropped do not count.
  bool is_short() const noexcept { return left_out_.has_value(); }
  /// Returns true if tasks were dropped since the last look began.
  bool has_dropped() const noexcept { return dropped_.has_value(); }
  /// Returns true if half of the places are free that fragile tasks do not take.
  bool is_half_gone() const noexcept {
    const std::size_t fragile = due_[true].size();
    return fragile != capacity_ && size() - fragile <= (capacity_ - fragile) / 2;
  }
  bool has_waiting() const noexcept { return !waiting_.empty(); }
  /// Returns how many tasks have started, or were forgotten.
  std::uint64_t departures() const noexcept { return departures_; }

  std::size_t size() const noexcept { return tasks_.size(); }

  /// Returns a message that describes an inconsistency, or null.
  const char* problem() const noexcept;

 private:
  friend class loaded_task;

  struct is_earlier {
    bool operator()(const loaded_task& a, const loaded_task& b) const noexcept { return a.row.at < b.row.at; }
  };
  using by_time = boost::intrusive::multiset<loaded_task, boost::intrusive::compare<is_earlier>>;
  struct by_id {
    using is_transparent = void;
    static std::string_view id(std::string_view id) noexcept { return id; }
    static std::string_view id(const std::unique_ptr<loaded_task>& task) noexcept { return task->row.id; }
    template <class T>
    std::size_t operator()(const T& of) const noexcept {
      return std::hash<std::string_view>{}(id(of));
    }
    template <class A, class B>
    bool operator()(const A& a, const B& b) const noexcept {
      return id(a) == id(b);
    }
  };

  static bool is_fragile(const pending_row& row) noexcept { return row.lost >= fragile_after; }
  static void lower(std::optional<clock::time_point>& mark, clock::time_point at) noexcept {
    mark = std::min(mark.value_or(at), at);
  }
  loaded_task* if_ready(by_time& due, const by_time::iterator& task) const noexcept {
    return task == due.end() || (read_from_ && task->row.at > *read_from_) ? nullptr : &*task;
  }
  std::size_t most_fragile() const noexcept { return std::max<std::size_t>(capacity_ / 2, 1); }
  bool has_room_for(clock::time_point at) noexcept;
  bool has_fragile_room_for(clock::time_point at) noexcept;
  loaded_task* latest() noexcept;
  bool wait(loaded_task&, const store_clock&) noexcept;
  void become_due(loaded_task&) noexcept;
  void unlink(loaded_task&) noexcept;

  timer_service& timers_;
  std::size_t capacity_;
  void (*wake_)(void*) noexcept;
  void* context_;
  std::unordered_set<std::unique_ptr<loaded_task>, by_id, by_id> tasks_;
  by_time waiting_;
  std::array<by_time, 2> due_;  // the fragile ones are the second
  by_time taken_;
  // The earliest that was left out since the last look began, that was left out before the look, and that was dropped.
  std::optional<clock::time_point> left_out_, read_from_, dropped_;
  std::optional<clock::time_point> dropped_before_;  // the last look began, and not read again since
  std::uint64_t departures_ = 0;
};

}  // namespace tickwheel::durable::detail
