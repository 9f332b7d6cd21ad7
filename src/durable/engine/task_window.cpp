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
    if (row.rev < task.row.rev) return true;
    const bool has_changed = row.rev != task.row.rev;
    if (task.place_ == loaded_task::place::taken) {
      if (has_changed) lower(dropped_, row.at);  // its begin will start nothing
      return true;
    }
    if (has_changed) {
      unlink(task);
      task.row = std::move(row);
    }
    return wait(task, time);
  }
  if (is_fragile(row) && time.reaches(row.at) <= timers_.now() && !has_fragile_room_for(row.at)) return true;
  if (!has_room_for(row.at)) return false;
  auto made = std::make_unique<loaded_task>(timers_, *this, std::move(row));
  loaded_task& task = *made;
  tasks_.insert(std::move(made));
  return wait(task, time);
}

// A task that is not earlier than one that was left out has no place, so that the others are started before it.
bool task_window::has_room_for(clock::time_point at) noexcept {
  if (left_out_ && at >= *left_out_) return false;
  if (tasks_.size() < capacity_) return true;
  loaded_task* const last = latest();
  const bool is_latest = last == nullptr || at >= last->row.at;
  lower(left_out_, is_latest ? at : last->row.at);
  if (!is_latest) erase(*last);
  return !is_latest;
}

// Of the fragile tasks that are due the earliest ones stay.
bool task_window::has_fragile_room_for(clock::time_point at) noexcept {
  if (due_[true].size() < most_fragile()) return true;
  loaded_task& last = *due_[true].rbegin();
  const bool is_last = at >= last.row.at;
  is_last ? lower(dropped_, at) : drop(last);
  return !is_last;
}

// Null: all were taken.
loaded_task* task_window::latest() noexcept {
  loaded_task* last = nullptr;
  for (by_time* const in : {&due_[true], &due_[false], &waiting_})
    if (!in->empty() && (last == nullptr || last->row.at < in->rbegin()->row.at)) last = &*in->rbegin();
  return last;
}

const loaded_task* task_window::first_due() const noexcept {
  const loaded_task* first = nullptr;
  for (const by_time& in : due_)
    if (!in.empty() && (first == nullptr || in.begin()->row.at < first->row.at)) first = &*in.begin();
  return first;
}

std::optional<clock::time_point> task_window::first_not_started() const noexcept {
  std::optional<clock::time_point> first;
  if (const loaded_task* const due = first_due()) first = due->row.at;
  if (!taken_.empty()) lower(first, taken_.begin()->row.at);
  for (const auto& mark : {dropped_, dropped_before_})
    if (mark) lower(first, *mark);
  return first;
}

// Most tasks are where they were at the last look: they are armed again, because the estimate of the store's clock may have changed. One
// that has moved gives up its place to an earlier one that was left out. Returns false then.
bool task_window::wait(loaded_task& task, const store_clock& time) noexcept {
  if (left_out_ && task.row.at > *left_out_) {
    ++departures_;
    erase(task);
    return false;
  }
  const auto when = time.reaches(task.row.at);
  if (when <= timers_.now()) {
    task.wake_.cancel();
    if (task.place_ != loaded_task::place::due) become_due(task);
    return true;
  }
  if (task.place_ != loaded_task::place::waiting) {
    unlink(task);
    task.place_ = loaded_task::place::waiting;
    waiting_.insert(waiting_.end(), task);
  }
  if (task.wake_.arm_at(when) != 0) erase(task);
  return true;
}

void task_window::become_due(loaded_task& task) noexcept {
  unlink(task);
  task.place_ = loaded_task::place::due;
  by_time& due = due_[is_fragile(task.row)];
  due.insert(due.end(), task);  // most become due in the order of their times: nothing is searched
  wake_(context_);
  if (due_[true].size() > most_fragile()) drop(*due_[true].rbegin());
}

void task_window::unlink(loaded_task& task) noexcept {
  if (task.place_ == loaded_task::place::waiting) waiting_.erase(waiting_.iterator_to(task));
  if (by_time& due = due_[is_fragile(task.row)]; task.place_ == loaded_task::place::due)
    due.erase(due.iterator_to(task));
  if (task.place_ == loaded_task::place::taken) taken_.erase(taken_.iterator_to(task));
  task.place_ = loaded_task::place::none;
}

void task_window::forget(std::string_view id) noexcept {
  const auto known = tasks_.find(id);
  if (known == tasks_.end() || (*known)->place_ == loaded_task::place::taken) return;
  ++departures_;
  erase(**known);
}

void task_window::clear() noexcept {
  waiting_.clear();
  for (by_time& due : due_) due.clear();
  taken_.clear();
  tasks_.clear();
  for (auto* const mark : {&left_out_, &read_from_, &dropped_, &dropped_before_}) mark->reset();
}

void task_window::take(loaded_task& task) noexcept {
  unlink(task);
  task.place_ = loaded_task::place::taken;
  taken_.insert(taken_.end(), task);
}

void task_window::put_back(loaded_task& task) noexcept { become_due(task); }

void task_window::wait_again(loaded_task& task, const store_clock& time) noexcept { (void)wait(task, time); }

void task_window::follow(const store_clock& time) noexcept {
  while (!waiting_.empty() && time.reaches(waiting_.begin()->row.at) <= timers_.now()) {
    loaded_task& first = *waiting_.begin();
    first.wake_.cancel();
    become_due(first);
  }
}

void task_window::started(loaded_task& task) noexcept {
  ++departures_;
  erase(task);
}

std::optional<clock::time_point> task_window::begin_look() noexcept {
  if (left_out_) lower(read_from_, *std::exchange(left_out_, std::nullopt));
  std::optional<clock::time_point> from = read_from_;
  if (const auto dropped = std::exchange(dropped_, std::nullopt)) {
    lower(from, *dropped);
    lower(dropped_before_, *dropped);
  }
  return from;
}

void task_window::erase(loaded_task& task) noexcept {
  unlink(task);
  tasks_.erase(tasks_.find(std::string_view{task.row.id}));
}

void task_window::drop(loaded_task& task) noexcept {
  lower(dropped_, task.row.at);
  erase(task);
}

const char* task_window::problem() const noexcept {
  if (tasks_.size() > capacity_) return "more tasks are loaded than max_loaded";
  std::size_t waiting = 0;
  std::size_t fragile = 0;
  std::size_t others = 0;
  std::size_t taken = 0;
  for (const auto& task : tasks_) {
    const bool waits = task->place_ == loaded_task::place::waiting;
    const bool is_due = task->place_ == loaded_task::place::due;
    waiting += waits;
    taken += task->place_ == loaded_task::place::taken;
    (is_fragile(task->row) ? fragile : others) += is_due;
    if (task->place_ == loaded_task::place::none) return "a loaded task has no place";
    if (task->wake_.armed() != waits) return "a waiting task is not armed, or another is";
  }
  if (waiting != waiting_.size()) return "the count of waiting tasks is off";
  if (taken != taken_.size()) return "the count of taken tasks is off";
  if (fragile != due_[true].size()) return "the count of due tasks that are fragile is off";
  if (fragile > most_fragile()) return "fragile tasks take more than half of max_loaded";
  return others == due_[false].size() ? nullptr : "the count of due tasks that are not fragile is off";
}

}  // namespace tickwheel::durable::detail
