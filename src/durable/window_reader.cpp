#include "window_reader.hpp"

#include <tickwheel/uv/timer_service.hpp>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace tickwheel::durable::detail {

namespace {

// of all partitions together; a callback that takes them in is short
constexpr std::size_t rows_per_load = 1000;
constexpr std::size_t least_page = 16;

}  // namespace

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
  load_.page = std::max(rows_per_load / load_.ranges.size(), least_page);
  load();
}

void window_reader::look_if_half_is_gone() {
  if (is_full_ && !is_paused()) look(false);
}

void window_reader::load() {
  load_.rows.clear();
  load_.window = options_.window;
  load_.is_busy = true;
  tasks_->load(load_);
}

void window_reader::flight::answer_arrived(store_call& call) noexcept {
  auto& self = static_cast<flight&>(static_cast<load_call&>(call));
  self.is_busy = false;
  if (self.of.tasks_ == nullptr) return;
  self.of.client_.on_answer(self);
  if (self.status == store_status::ok && self.of.client_.wants_tasks()) self.of.on_loaded();
}

// The ranges whose page was full go on behind its last row.
void window_reader::on_loaded() {
  std::vector<load_range> more;
  std::size_t in_page = 0;
  for (std::size_t i = 0; i != load_.rows.size(); ++i) {
    pending_row& row = load_.rows[i];
    ++in_page;
    if (i + 1 == load_.rows.size() || load_.rows[i + 1].partition != row.partition) {
      if (in_page >= load_.page) more.push_back({row.partition, row.at, row.id});
      in_page = 0;
    }
    if (!members_.owns(row.partition)) continue;
    if (!window_.add(std::move(row), clock_) && window_.size() >= window_.capacity()) {
      is_full_ = true;
      break;
    }
  }
  if (std::exchange(starts_over_, false)) return look(true);
  if (is_full_ || more.empty()) return;
  load_.ranges = std::move(more);
  load();
}

}  // namespace tickwheel::durable::detail
