#include "batch_work.hpp"

#include "../sql/times.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tickwheel::durable::postgres {

namespace {

// Most clients hold a row for less than the pauses between so many looks.
constexpr std::size_t patient_looks = 3;

}  // namespace

batch_work::batch_work(store_verb verb, store_call& call, std::size_t size) : work{verb, &call}, is_answered_(size) {
  if (size == 0) return;
  groups_.push_back(all_indices(size));
}

batch_work::batch_work(store_verb verb, write_call& call, std::size_t size)
    : batch_work{verb, static_cast<store_call&>(call), size} {
  call.held.clear();
  if (call.leaves_held) writes_ = &call;
}

void batch_work::on_ask(transaction& to) {
  if (!std::exchange(has_begun_, true)) put_some_off();
  is_looking_ = groups_.empty();
  if (is_looking_) {
    current_ = std::exchange(rest_, {});
    if (current_.empty()) {
      (void)to.add(statement::read_clock);
      return;
    }
    parameters::array ids{element_type::text, current_.size()};
    for (const std::size_t i : current_) ids.add(id(i));
    to.add(statement::look).add(std::move(ids));
    // It may see a commit that is not on the synchronous standby, because somebody has cancelled the wait.
    (void)to.add(statement::await_standby);
    return;
  }
  current_ = std::move(groups_.back());
  groups_.pop_back();
  if (waits_briefly_) (void)to.add(statement::wait_briefly);
  write(to, current_);
}

void batch_work::on_committed(const transaction& of) {
  const rows answered = of.of(!is_looking_ && waits_briefly_ ? 1 : 0);
  call()->now = from_database(answered.integer(0, 0));
  if (is_looking_) {
    if (!current_.empty()) on_looked(answered);
  } else {
    on_written(answered, current_);
    if (!ignores_rest())
      std::copy_if(current_.begin(), current_.end(), std::back_inserter(rest_),
                   [this](std::size_t i) { return !is_answered_[i]; });
  }
  current_.clear();
  end_if_done();
}

void batch_work::on_looked(const rows& found) {
  ++looks_;
  indices again;
  for (int r = 0; r != found.size(); ++r) {
    const std::size_t i = current_[static_cast<std::size_t>(found.integer(r, 1) - 1)];
    const bool is_forgotten = found.boolean(r, 6);
    const known_row row{.exists = !found.is_null(r, 2) && !is_forgotten,
                        .is_forgotten = is_forgotten,
                        .state = static_cast<task_state>(found.integer(r, 2)),
                        .rev = static_cast<revision>(found.integer(r, 3)),
                        .ended = static_cast<revision>(found.integer(r, 4))};
    if (decide(i, row))
      answer(i);
    else
      again.push_back(i);
  }
  if (again.empty()) return;
  if (writes_ != nullptr && looks_ >= patient_looks) return leave_held(again);
  if (is_tired()) return abandon(again);
  groups_.push_back(std::move(again));
  pause();
}

void batch_work::end_if_done() {
  if (!groups_.empty() || !rest_.empty()) return;
  if (has_abandoned_ && answered_ == 0) return end(store_status::unavailable);
  if (has_unanswered_) return end(store_status::unknown);
  if (has_committed()) end();  // otherwise it reads the clock next
}

bool batch_work::must_follow(const work& earlier) const {
  for (std::size_t i = 0; i != is_answered_.size(); ++i)
    if (earlier.is_about(id(i))) return true;
  return false;
}

bool batch_work::is_about(std::string_view wanted) const {
  const auto i = find(wanted);
  return i && !is_answered_[*i];
}

std::optional<std::size_t> batch_work::find(std::string_view wanted) const {
  return places_.find(wanted, is_answered_.size(), [this](std::size_t i) -> std::string_view { return id(i); });
}

void batch_work::on_repeat() {
  if (is_looking_)
    rest_ = std::exchange(current_, {});
  else
    groups_.push_back(std::exchange(current_, {}));
}

void batch_work::put_some_off() {
  if (groups_.empty()) return;
  std::erase_if(groups_.front(), [this](std::size_t i) {
    if (!is_put_off(i)) return false;
    answer(i);
    return true;
  });
  if (groups_.front().empty()) groups_.clear();
}

bool batch_work::narrow() {
  const bool may_leave = writes_ != nullptr || ignores_rest();
  if (is_looking_ || (!may_leave && is_tired())) return false;
  waits_briefly_ = true;
  indices& last = groups_.back();
  if (last.size() > 1) {
    split_last(groups_);
    return true;
  }
  if (!may_leave) return false;
  on_blocked(last.front());
  if (writes_ != nullptr)
    leave_held(last);
  else
    answer(last.front());
  groups_.pop_back();
  end_if_done();
  return true;
}

void batch_work::on_tired() {
  if (is_looking_) return on_given_up();
  abandon(groups_.back());
  groups_.pop_back();
  end_if_done();
}

void batch_work::on_refused() {
  if (is_looking_) return on_given_up();
  if (groups_.back().size() > 1) return split_last(groups_);
  refuse(groups_.back().front());
  answer_last();
}

// The element that is alone is answered, and the call is ok. Otherwise it would pass for an outage.
void batch_work::on_damaged() {
  if (is_looking_) return on_given_up();
  if (groups_.back().size() > 1) return split_last(groups_);
  (void)leave(groups_.back().front());
  answer_last();
}

void batch_work::answer_last() {
  answer(groups_.back().front());
  groups_.pop_back();
  end_if_done();
}

void batch_work::on_given_up() {
  if (!has_committed()) return work::on_given_up();
  for (const indices& group : groups_) abandon(group);
  groups_.clear();
  abandon(rest_);
  rest_.clear();
  end_if_done();
}

void batch_work::leave_held(const indices& held) {
  writes_->held.resize(is_answered_.size());
  for (const std::size_t i : held) {
    writes_->held[i] = true;
    answer(i);
  }
}

void batch_work::abandon(const indices& group) {
  for (const std::size_t i : group) {
    has_abandoned_ = true;
    has_unanswered_ |= !leave(i) && !ignores_rest();
  }
}

}  // namespace tickwheel::durable::postgres
