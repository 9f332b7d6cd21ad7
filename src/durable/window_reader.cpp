#include "window_reader.hpp"

#include "batch_limits.hpp"

#include <tickwheel/uv/timer_service.hpp>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace tickwheel::durable::detail {

window_reader::window_reader(timer_service& timers, const scheduler_options& options, const store_clock& time,
                             const membership& members, task_window& window, client& of) noexcept
    : timers_{timers}, options_{options}, clock_{time}, members_{members}, window_{window}, client_{of} {}

void window_reader::close() noexcept {
  tasks_ = nullptr;
  is_full_ = starts_over_ = false;
}

void window_reader::look(bool from_the_beginning) {
  if (!client_.wants_tasks() || members_.partition_count() == 0) return;
  if (load_.is_busy) {
    starts_over_ = starts_over_ || from_the_beginning;
    return;
  }
  is_full_ = false;
  clock::time_point low{};
  if (!from_the_beginning) {
    low = clock_.at(timers_.read_clock());
    if (const loaded_task* const oldest = window_.first_due()) low = std::min(low, oldest->row.at);
    low -= std::chrono::duration_cast<clock::duration>(options_.window * 2);
  }
  load_.ranges.clear();
  for (const partition_number p : members_.partitions()) load_.ranges.push_back({p, low, {}});
  load_.page = std::max(limits.rows / load_.ranges.size(), limits.least_rows);
  load();
}

void window_reader::look_if_half_is_gone() {
  if (is_full_ && !is_paused()) look(false);
}

void window_reader::load() {
  load_.rows.clear();
  load_.rest.clear();
  load_.taken_in = load_.in_page = 0;
  load_.window = options_.window;
  load_.is_busy = true;
  tasks_->load(load_);
}

void window_reader::flight::answer_arrived(store_call& call) noexcept {
  auto& self = static_cast<flight&>(static_cast<load_call&>(call));
  if (self.of.tasks_ != nullptr) {
    self.of.client_.on_answer(self);
    if (self.status == store_status::ok) return self.of.client_.on_arrived(self);
  }
  self.is_busy = false;
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
  if (members_.owns(p) && !window_.add(std::move(row), clock_) && window_.size() >= window_.capacity()) {
    is_full_ = true;
    load_.taken_in = load_.rows.size();
  }
  return true;
}

void window_reader::end_load() {
  load_.is_busy = false;
  if (tasks_ == nullptr || !client_.wants_tasks()) return;
  if (std::exchange(starts_over_, false)) return look(true);
  if (is_full_ || load_.rest.empty()) return;
  load_.ranges = std::move(load_.rest);
  load();
}
}  // namespace tickwheel::durable::detail
