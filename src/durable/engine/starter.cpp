#include "starter.hpp"

#include "../batch_limits.hpp"
#include "present.hpp"

#include <tickwheel/uv/timer_service.hpp>

#include <algorithm>
#include <utility>

namespace tickwheel::durable::detail {

namespace {

constexpr unsigned fragile_after = task_window::fragile_after;
constexpr std::size_t most_looked_at = 4 * limits.elements;

}  // namespace

starter::starter(timer_service& timers, const scheduler_options& options, store_clock& time, membership& members,
                 task_window& window, outage_pause& pause, client& of) noexcept
    : timers_{timers},
      options_{options},
      clock_{time},
      members_{members},
      window_{window},
      pause_{pause},
      client_{of} {}

void starter::begin_due(store& tasks, engine& owner) {
  const auto now = present(timers_);
  if (begin_.is_busy || pause_.holds() || !members_.may_start(now)) return;
  begin_.items.clear();
  begin_.starts.clear();
  begin_.taken_in = 0;
  begin_.has_early = false;
  const std::size_t places_taken = running_.size() + members_.doubts();  // a start in doubt may run in the store
  pick(std::min(options_.max_running - std::min(options_.max_running, places_taken), limits.elements));
  if (begin_.items.empty()) return;
  begin_.is_busy = true;
  begin_.owner = &owner;
  begin_.session = members_.session();
  begin_.sent_at = now;
  tasks.begin(begin_);
}

void starter::pick(std::size_t most) {
  std::size_t bytes = 0;
  loaded_task* fragile = fragile_ == 0 ? window_.first_due(true) : nullptr;
  loaded_task* other = window_.first_due(false);
  for (std::size_t looked_at = 0; looked_at != most_looked_at && begin_.items.size() < most; ++looked_at) {
    const bool is_fragile = fragile != nullptr && (other == nullptr || fragile->row.at < other->row.at);
    loaded_task*& next = is_fragile ? fragile : other;
    if (next == nullptr) return;
    loaded_task& task = *next;
    next = window_.after(task);
    if (!may_begin(task)) continue;
    if (bytes != 0 && bytes + task.row.bytes > limits.bytes) return;
    bytes += task.row.bytes;
    if (is_fragile) fragile = nullptr;
    window_.take(task);
    begin_.tasks.push_back(&task);
    begin_.items.push_back({task.row.id, task.row.rev});
  }
}

// Erases a task that is not to be begun. If its begin had an unknown outcome, the start would be given back.
bool starter::may_begin(loaded_task& task) noexcept {
  const pending_row& row = task.row;
  if (members_.owns(row.partition) && !members_.is_doubted(row.id) && !by_id_.contains(row.id)) return true;
  window_.erase(task);
  return false;
}

bool starter::keep_for_end(pending_row& row) {
  const auto known = by_id_.find(row.id);
  if (known == by_id_.end()) return false;
  start& s = *known->second;
  if (row.rev <= s.token) return true;  // of a look that was answered late
  if (s.next == nullptr || s.next->rev < row.rev) s.next = std::make_unique<pending_row>(std::move(row));
  return true;
}

void starter::flight::answer_arrived(store_call& call) noexcept {
  auto& self = static_cast<flight&>(static_cast<begin_call&>(call));
  if (self.tasks.empty()) {  // the session was lost, or the scheduler closes
    self.is_busy = false;
    self.of.client_.wake();
    return;
  }
  self.of.client_.on_answer(self);
  self.arrived_at = present(self.of.timers_);
  self.status == store_status::ok ? self.of.pause_.on_answer() : self.of.pause_.begin();
  self.of.client_.on_arrived(self);
}

// First what has started, because it is late already.
bool starter::flight::take_in_one() noexcept {
  const std::size_t in_starts = status == store_status::ok ? starts.size() : 0;
  if (!tasks.empty()) {  // otherwise the session was lost meanwhile
    if (taken_in < in_starts) {
      begin_call::started& s = starts[taken_in++];
      of.add(s, *std::exchange(tasks[s.index], nullptr));
      return true;
    }
    if (loaded_task* const task = tasks[taken_in++ - in_starts])
      status == store_status::ok ? of.on_not_started(*task) : of.give_up(*task);
  }
  is_busy = !tasks.empty() && taken_in - in_starts != tasks.size();
  if (!is_busy) tasks.clear();
  return is_busy;
}

void starter::on_not_started(loaded_task& task) {
  const std::chrono::nanoseconds early = task.row.at - begin_.now;
  const bool is_early = early > std::chrono::nanoseconds::zero();
  if (is_early && !std::exchange(begin_.has_early, true)) {
    clock_.discard();
    clock_.record(begin_.now, begin_.arrived_at);
  }
  if (!is_early) return window_.drop(task);  // it has changed, or another client of the server holds its row
  // A task that is early by more than a window would keep its place for as long. It is found again when its time is near.
  early <= options_.window ? window_.wait_again(task, clock_) : window_.erase(task);
}

void starter::give_up(loaded_task& task) {
  if (begin_.status == store_status::unavailable) return window_.put_back(task);
  members_.doubt(task.row.id);
  window_.drop(task);
}

void starter::add(begin_call::started& s, loaded_task& task) {
  auto made = std::make_unique<start>();
  made->owner = begin_.owner;
  made->id = task.row.id;
  made->payload = std::move(s.payload);
  made->token = s.token;
  made->attempt = s.attempt;
  made->lost = s.lost;
  made->at = task.row.at;
  made->due = s.due;
  made->period = s.period;
  made->begun_at = begin_.sent_at;
  made->session = begin_.session;
  fragile_ += made->lost >= fragile_after;
  running_.push_back(*made);
  by_id_.emplace(made->id, made.get());
  ready_.push_back(std::move(made));
  window_.started(task);
}

void starter::hand_out_one(start_handler& handler) {
  std::unique_ptr<start> s = std::move(ready_.front());
  ready_.pop_front();
  const auto now = present(timers_);
  if (s->session != members_.session() || now >= members_.safe_until(s->begun_at) || !members_.may_start(now)) {
    if (s->session == members_.session()) members_.doubt(s->id);
    end(*s);
    return;
  }
  ++handed_out_;
  const std::chrono::nanoseconds late = clock_.at(now) - s->at;
  lateness_.record(static_cast<std::uint64_t>(std::max(late / lateness_unit, std::int64_t{0})));
  handler.call(start::give(std::move(s)));
}

void starter::end(start& s) noexcept {
  fragile_ -= s.lost >= fragile_after;
  running_.erase(running_.iterator_to(s));
  if (s.session == members_.session()) {
    by_id_.erase(s.id);
    if (s.next != nullptr) (void)window_.add(std::move(*s.next), clock_);
  }
  client_.wake();
}

void starter::close() noexcept {
  while (!running_.empty()) {
    running_.front().owner = nullptr;
    running_.pop_front();
  }
  by_id_.clear();
  ready_.clear();
  begin_.tasks.clear();
  fragile_ = 0;
}

const char* starter::problem() const noexcept {
  if (running_.size() > options_.max_running) return "more starts are running than max_running";
  std::size_t fragile = 0;
  std::size_t in_session = 0;
  for (const start& s : running_) {
    fragile += s.lost >= fragile_after;
    in_session += s.session == members_.session();
  }
  if (in_session != by_id_.size()) return "an id runs twice in one session, or is not known to run";
  if (fragile != fragile_) return "the count of fragile starts is off";
  return fragile > 1 ? "two tasks that lost two nodes are running" : nullptr;
}

}  // namespace tickwheel::durable::detail
