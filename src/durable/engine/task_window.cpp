#include "task_window.hpp"

#include <utility>

namespace tickwheel::durable::detail {

loaded_task::loaded_task(timer_service& timers, task_window& window, pending_row&& of) noexcept
    : row{std::move(of)}, window_{window}, wake_{timers, *this} {
  wake_.unref();
}

void loaded_task::on_due() noexcept { window_.become_due(*this); }

bool task_window::add(pending_row&& row, const store_clock& time) {
  if (const auto known = tasks_.find(std::string_view{row.id}); known != tasks_.end()) {
    loaded_task& task = **known;
    const bool is_older = row.rev < task.row.rev;
    if (task.place_ == loaded_task::place::taken || is_older) return true;
    if (task.place_ == loaded_task::place::due) due_.erase(due_.iterator_to(task));
    task.row = std::move(row);
    return wait(task, time);
  }
  if (tasks_.size() >= capacity_) return false;
  auto made = std::make_unique<loaded_task>(timers_, *this, std::move(row));
  loaded_task& task = *made;
  tasks_.insert(std::move(made));
  return wait(task, time);
}

bool task_window::wait(loaded_task& task, const store_clock& time) noexcept {
  task.place_ = loaded_task::place::waiting;
  const auto when = time.reaches(task.row.at);
  if (when <= timers_.now()) {
    task.wake_.cancel();
    become_due(task);
    return true;
  }
  if (task.wake_.arm_at(when) == 0) return true;
  erase(task);
  return false;
}

void task_window::become_due(loaded_task& task) noexcept {
  task.place_ = loaded_task::place::due;
  due_.insert(due_.end(), task);  // most become due in the order of their times: nothing is searched
  wake_(context_);
}

void task_window::forget(std::string_view id) noexcept {
  const auto known = tasks_.find(id);
  if (known == tasks_.end() || (*known)->place_ == loaded_task::place::taken) return;
  erase(**known);
}

void task_window::clear() noexcept {
  due_.clear();
  tasks_.clear();
}

void task_window::take(loaded_task& task) noexcept {
  due_.erase(due_.iterator_to(task));
  task.place_ = loaded_task::place::taken;
}

void task_window::put_back(loaded_task& task) noexcept { become_due(task); }

void task_window::wait_again(loaded_task& task, const store_clock& time) noexcept { wait(task, time); }

void task_window::erase(loaded_task& task) noexcept {
  if (task.is_linked()) due_.erase(due_.iterator_to(task));
  tasks_.erase(tasks_.find(std::string_view{task.row.id}));
}

const char* task_window::problem() const noexcept {
  if (tasks_.size() > capacity_) return "more tasks are loaded than max_loaded";
  std::size_t due = 0;
  for (const auto& task : tasks_) {
    const bool is_due = task->place_ == loaded_task::place::due;
    due += is_due;
    if (task->is_linked() != is_due) return "a loaded task is among the due ones and is not due, or the reverse";
    if (task->wake_.armed() != (task->place_ == loaded_task::place::waiting))
      return "a waiting task is not armed, or another is";
  }
  return due == due_.size() ? nullptr : "the count of due tasks is off";
}

}  // namespace tickwheel::durable::detail
