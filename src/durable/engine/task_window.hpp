// The tasks in memory: those due soon wait in the wheel for their time, those due wait for a place.
#pragma once

#include "store_clock.hpp"

#include <tickwheel/durable/store.hpp>
#include <tickwheel/uv/timer.hpp>

#include <boost/intrusive/set.hpp>

#include <cstddef>
#include <functional>
#include <memory>
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
  enum class place : std::uint8_t { waiting, due, taken };

  void on_due() noexcept;

  task_window& window_;
  place place_ = place::waiting;
  member_timer<&loaded_task::on_due> wake_;
};

/// Holds at most `capacity` tasks, by id.
///
/// *Complexity:* O(1) per task, and O(log n) for one that is due after a later one. *Lifetime:* as the service's timers.
class task_window {
 public:
  /// Calls `wake` with `context` when a task becomes due.
  task_window(timer_service& timers, std::size_t capacity, void (*wake)(void*) noexcept, void* context) noexcept
      : timers_{timers}, capacity_{capacity}, wake_{wake}, context_{context} {}
  task_window(const task_window&) = delete;
  task_window& operator=(const task_window&) = delete;
  ~task_window() { clear(); }

  /// Makes room for so many tasks. May throw std::bad_alloc.
  void reserve(std::size_t tasks) { tasks_.reserve(tasks); }
  /// Keeps `row`, or what is new of it. Returns false if there is no room, or the service has no place for a timer: the task is then
  /// forgotten. A task that was taken stays as it is.
  bool add(pending_row&& row, const store_clock&);
  /// The task is no longer pending as it was. Does nothing if it is not here, or was taken.
  void forget(std::string_view id) noexcept;
  void clear() noexcept;

  /// Returns the due task with the earliest time, or the one after `task`; null: there is none. Tasks of one time come in the order
  /// in which they became due.
  loaded_task* first_due() noexcept { return due_.empty() ? nullptr : &*due_.begin(); }
  const loaded_task* first_due() const noexcept { return due_.empty() ? nullptr : &*due_.begin(); }
  loaded_task* after(loaded_task& task) noexcept {
    const auto next = std::next(due_.iterator_to(task));
    return next == due_.end() ? nullptr : &*next;
  }

  /// Takes a due task, to begin it. It keeps its place among `capacity`.
  void take(loaded_task& task) noexcept;
  /// A taken task is due again.
  void put_back(loaded_task& task) noexcept;
  /// A taken task waits again, because the store's clock is not where it was thought to be. It may be forgotten, as in `add`.
  void wait_again(loaded_task& task, const store_clock&) noexcept;
  /// A task has left.
  void erase(loaded_task& task) noexcept;

  std::size_t size() const noexcept { return tasks_.size(); }
  std::size_t capacity() const noexcept { return capacity_; }
  std::size_t due() const noexcept { return due_.size(); }

  /// Returns a message that describes an inconsistency, or null.
  const char* problem() const noexcept;

 private:
  friend class loaded_task;

  struct by_time {
    bool operator()(const loaded_task& a, const loaded_task& b) const noexcept { return a.row.at < b.row.at; }
  };
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

  bool wait(loaded_task&, const store_clock&) noexcept;
  void become_due(loaded_task&) noexcept;

  timer_service& timers_;
  std::size_t capacity_;
  void (*wake_)(void*) noexcept;
  void* context_;
  std::unordered_set<std::unique_ptr<loaded_task>, by_id, by_id> tasks_;
  boost::intrusive::multiset<loaded_task, boost::intrusive::compare<by_time>> due_;
};

}  // namespace tickwheel::durable::detail
