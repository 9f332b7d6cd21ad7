#include "window_reader.hpp"

#include "../batch_limits.hpp"
#include "present.hpp"

#include <tickwheel/uv/timer_service.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

namespace tickwheel::durable::detail {

window_reader::window_reader(timer_service& timers, const scheduler_options& options, const store_clock& time,
                             const membership& members, task_window& window, client& of) noexcept
    : timers_{timers}, options_{options}, clock_{time}, members_{members}, window_{window}, client_{of} {}

void window_reader::close() noexcept {
  tasks_ = nullptr;
  starts_over_ = goes_again_ = is_whole_ = false;
  order_ = {};
  read_to_.clear();
  round_.clear();
  next_step_ = next_if_full_ = {};
}

void window_reader::begin_round(std::size_t looks) {
  if (!client_.wants_tasks()) return;
  round_ = members_.partitions();
  step_ = (round_.size() + looks - 1) / looks;
  longest_step_ = longest_look / static_cast<std::int64_t>(looks);
}

void window_reader::look(bool from_the_beginning) {
  if (!client_.wants_tasks() || members_.partition_count() == 0) return;
  if (load_.is_busy) {
    starts_over_ = starts_over_ || from_the_beginning;
    return;
  }
  is_whole_ = std::exchange(starts_over_, false) || from_the_beginning;
  goes_again_ = false;
  if (is_whole_) read_to_.clear();
  if (const auto from = window_.begin_look())
    for (auto& [partition, read_to] : read_to_) read_to = std::min(read_to, *from);
  take_ranges();
  if (order_.is_empty()) {
    if (members_.partitions().empty()) window_.forget_dropped();
    return window_.end_look();
  }
  began_at_ = present(timers_);
  load_.page = std::max(limits.rows / order_.size(), limits.least_rows);
  took_ = failures_took_ = {};
  load();
}

void window_reader::look_again() {
  goes_again_ = load_.is_busy;
  if (!goes_again_) look(false);
}

void window_reader::take_ranges() {
  const auto now = present(timers_);
  auto newest = clock_.at(now);
  if (const loaded_task* const oldest = window_.first_due()) newest = std::min(newest, oldest->row.at);
  const auto two_windows = std::chrono::duration_cast<clock::duration>(options_.window * 2);
  reading_order::look first;
  for (const partition_number p : members_.partitions()) {
    if (order_.is_put_off(p))
      first.put_off.push_back({p, {}, {}});
    else if (const auto known = read_to_.find(p); known != read_to_.end())
      first.marks.push_back({p, std::min(newest, known->second) - two_windows, {}});
    else
      first.unread.push_back({p, {}, {}});
  }
  if (!is_whole_ && now >= next_step_) first.step = take_step(first.marks);
  order_.begin(std::move(first), now);
}

// Takes the next partitions of the round out of those that were to begin at a mark.
std::vector<load_range> window_reader::take_step(std::vector<load_range>& marks) {
  std::vector<load_range> step;
  while (step.size() != step_ && !round_.empty()) {
    const partition_number next = round_.back();
    round_.pop_back();
    if (std::erase_if(marks, [=](const load_range& r) { return r.partition == next; }) != 0)
      step.push_back({next, {}, {}});
  }
  return step;
}

void window_reader::look_if_half_is_gone() {
  if (load_.is_busy || !window_.is_short() || !window_.is_half_gone()) return;
  if (std::exchange(departures_, window_.departures()) != window_.departures()) looks_in_vain_ = 0;
  if (looks_in_vain_ == limits.looks_in_vain) return;
  ++looks_in_vain_;
  look(false);
}

bool window_reader::is_paused() const noexcept {
  if (!window_.is_short() || window_.is_half_gone()) return false;
  const bool may_find_earlier =
      window_.has_waiting() || window_.has_dropped() || order_.has_failed() || order_.leaves_out();
  return !may_find_earlier || present(timers_) < next_if_full_;
}

void window_reader::load() {
  load_.rows.clear();
  load_.rest.clear();
  order_.take(load_.ranges);
  if (order_.taken() == range_kind::put_off)
    window_.end_look();  // a try may take long, and the look has read all others
  load_.taken_in = load_.in_page = 0;
  load_.window = options_.window;
  load_.is_busy = true;
  sent_at_ = present(timers_);
  tasks_->load(load_);
}

// The next step waits for a multiple of the time that looks from the beginning take. A try to read partitions of which nothing was read
// does not count: while one of them cannot be read no step would come.
void window_reader::note_time() {
  const auto now = present(timers_);
  const bool is_ok = load_.status == store_status::ok;
  const range_kind reads = order_.taken();
  if (reads == range_kind::step || reads == range_kind::unread) {
    took_ += now - sent_at_;
    const auto counted = std::min(took_, is_whole_ ? longest_look : longest_step_);
    if (reads == range_kind::step || (is_whole_ && is_ok)) next_step_ = now + counted * limits.pause_in_round;
    if (is_whole_) client_.on_looked_from_the_beginning(took_);
  }
  if (!is_ok) note_failure(now);
}

// The next step reads the ranges that this one has not read, except a partition that has failed by itself.
void window_reader::note_failure(tickwheel::clock::time_point now) {
  const auto took = now - sent_at_;
  failures_took_ += took;
  const bool is_step = order_.taken() == range_kind::step;
  for (const load_range& r : order_.on_failed(load_.ranges, now, took))
    if (is_step) round_.push_back(r.partition);
}

void window_reader::flight::answer_arrived(store_call& call) noexcept {
  auto& self = static_cast<flight&>(static_cast<load_call&>(call));
  window_reader& reader = self.of;
  if (reader.tasks_ != nullptr) {
    reader.note_time();
    reader.client_.on_answer(self);
    if (self.status == store_status::ok) return reader.client_.on_arrived(self);
  }
  self.is_busy = false;
  if (reader.tasks_ != nullptr) reader.go_on();
}

bool window_reader::take_in_one() {
  if (tasks_ == nullptr || !client_.wants_tasks() || load_.taken_in == load_.rows.size()) {
    end_load();
    return false;
  }
  pending_row& row = load_.rows[load_.taken_in++];
  const partition_number p = row.partition;
  ++load_.in_page;
  if (load_.taken_in == load_.rows.size() || load_.rows[load_.taken_in].partition != p) {
    if (load_.in_page >= load_.page) load_.rest.push_back({p, row.at, row.id});
    load_.in_page = 0;
  }
  const clock::time_point at = row.at;
  if (client_.is_wanted(row) && !window_.add(std::move(row), clock_)) leave_out_later(p, at);
  return true;
}

// The rows come in the order of their times. Of those of the same time some may be in memory.
void window_reader::leave_out_later(partition_number p, clock::time_point than) noexcept {
  const auto is_other = [=](const pending_row& row) { return row.partition != p; };
  const auto next = load_.rows.begin() + static_cast<std::ptrdiff_t>(load_.taken_in);
  if (next != load_.rows.end() && !is_other(*next) && next->at == than) return;
  load_.taken_in = static_cast<std::size_t>(std::find_if(next, load_.rows.end(), is_other) - load_.rows.begin());
  std::erase_if(load_.rest, [=](const load_range& r) { return r.partition == p; });
  load_.in_page = 0;
}

void window_reader::end_load() {
  load_.is_busy = false;
  if (tasks_ == nullptr) return;
  for (const load_range& r : load_.ranges) read_to_[r.partition] = load_.now + load_.window;
  for (const load_range& r : load_.rest) read_to_[r.partition] = r.at;
  order_.on_read(load_.ranges, load_.rest);
  go_on();
}

// Sends the next load of the look, or ends it.
void window_reader::go_on() {
  if (!client_.wants_tasks()) return;
  if (starts_over_) {
    window_.end_look();  // looks that are asked for often would never end, and hold back tasks for as long
    if (!order_.has_failed()) look(true);
    return;
  }
  if (!order_.is_empty()) return load();
  window_.end_look();
  if (!order_.has_failed() && !order_.leaves_out()) window_.forget_dropped();
  const auto now = present(timers_);
  const auto took = std::min<std::chrono::nanoseconds>(now - began_at_ - failures_took_, longest_look);
  next_if_full_ = now + took * limits.pause_if_full;
  if (goes_again_ && !order_.has_failed()) look(false);
}

}  // namespace tickwheel::durable::detail
