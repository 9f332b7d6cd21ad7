#include "window_reader.hpp"

#include "batch_limits.hpp"

#include <tickwheel/uv/timer_service.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

namespace tickwheel::durable::detail {

namespace {

constexpr auto longest_step = std::chrono::seconds{2};  // that counts: this process may have been stopped meanwhile

}  // namespace

window_reader::window_reader(timer_service& timers, const scheduler_options& options, const store_clock& time,
                             const membership& members, task_window& window, client& of) noexcept
    : timers_{timers}, options_{options}, clock_{time}, members_{members}, window_{window}, client_{of} {}

void window_reader::close() noexcept {
  tasks_ = nullptr;
  is_full_ = starts_over_ = is_whole_ = false;
  waiting_.clear();
  round_.clear();
  next_step_ = {};
  timed_ = 0;
}

void window_reader::begin_round(std::size_t looks) {
  if (!client_.wants_tasks()) return;
  round_ = members_.partitions();
  step_ = (round_.size() + looks - 1) / looks;
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
  waiting_.clear();
  for (const partition_number p : members_.partitions()) waiting_.push_back({p, low, {}});
  unread_ = waiting_.size();
  load_.page = std::max(limits.rows / unread_, limits.least_rows);
  is_whole_ = from_the_beginning;
  took_ = {};
  timed_ = from_the_beginning ? unread_ : take_step();
  at_once_ = is_whole_ ? limits.partitions : timed_ != 0 ? timed_ : unread_;
  load();
}

// The partitions of the step come first. Returns how many there are.
std::size_t window_reader::take_step() {
  if (round_.empty() || timers_.read_clock() < next_step_) return 0;
  std::size_t taken = 0;
  while (taken != step_ && !round_.empty()) {
    const partition_number next = round_.back();
    round_.pop_back();
    const auto at =
        std::find_if(waiting_.begin(), waiting_.end(), [=](const load_range& r) { return r.partition == next; });
    if (at == waiting_.end()) continue;
    at->at = {};
    std::swap(*at, waiting_[taken++]);
  }
  return taken;
}

void window_reader::look_if_half_is_gone() {
  if (is_full_ && !is_paused()) look(false);
}

void window_reader::load() {
  load_.rows.clear();
  load_.rest.clear();
  const std::size_t count = std::min(at_once_, waiting_.size());
  load_.ranges.assign(std::move_iterator{waiting_.begin()},
                      std::move_iterator{waiting_.begin() + static_cast<std::ptrdiff_t>(count)});
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(count));
  unread_ -= std::min(unread_, count);
  is_timed_ = timed_ != 0;
  timed_ -= std::min(timed_, count);
  load_.taken_in = load_.in_page = 0;
  load_.window = options_.window;
  load_.is_busy = true;
  sent_at_ = timers_.read_clock();
  tasks_->load(load_);
}

void window_reader::note_time() {
  if (!is_timed_) return;
  const auto now = timers_.read_clock();
  took_ += now - sent_at_;
  next_step_ = now + std::min<std::chrono::nanoseconds>(took_, longest_step) * limits.pause_in_round;
  if (is_whole_) client_.on_looked_from_the_beginning(took_);
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
  waiting_.insert(waiting_.end(), std::move_iterator{load_.rest.begin()}, std::move_iterator{load_.rest.end()});
  if (is_full_ || waiting_.empty()) return;
  if (unread_ == 0 || !is_whole_) at_once_ = waiting_.size();
  load();
}
}  // namespace tickwheel::durable::detail
