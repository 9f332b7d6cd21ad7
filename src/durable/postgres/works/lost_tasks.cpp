#include "lost_tasks.hpp"

#include <utility>

namespace tickwheel::durable::postgres {

namespace {

constexpr std::size_t page = 1000;  // as in the statements

}  // namespace

void lost_tasks::ask(transaction& to, unsigned max_attempts) const {
  const bool is_group = !groups_.empty();
  parameters::array ids{element_type::text, is_group ? groups_.back().size() : passed_over_.size()};
  if (is_group)
    for (const std::size_t i : groups_.back()) ids.add(page_[i].id);
  else
    for (const std::string& id : passed_over_) ids.add(id);
  if (is_looking_) {
    to.add(statement::find_lost)
        .add(session_)
        .add(latest_)
        .add(partition_)
        .add(partition_ + step())
        .add(std::move(ids));
    return;
  }
  to.add(statement::recover)
      .add(session_)
      .add(latest_)
      .add(static_cast<std::int64_t>(max_attempts))
      .add(partition_)
      .add(partition_ + step())
      .add(std::move(ids))
      .add_boolean(is_group);
}

lost_tasks::counts lost_tasks::take(const rows& answered) {
  if (std::exchange(is_looking_, false)) {
    take_page(answered);
    return {};
  }
  if (!groups_.empty())
    end_group();
  else if (static_cast<std::size_t>(answered.integer(0, 1)) < page)
    next_partitions();
  else if (answered.integer(0, 4) == 0)
    is_looking_ = passes_over_page_ = true;
  return {static_cast<std::uint64_t>(answered.integer(0, 2)), static_cast<std::uint64_t>(answered.integer(0, 3))};
}

void lost_tasks::take_page(const rows& found) {
  const bool passes_over = std::exchange(passes_over_page_, false);
  page_.clear();
  for (int r = 0; r != found.size(); ++r)
    if (!found.is_null(r, 1)) page_.push_back({std::string{found.bytes(r, 1)}, found.boolean(r, 2)});
  if (page_.empty()) return next_partitions();  // they have changed, or the server refuses a write of nothing
  if (!passes_over) return groups_.push_back(all_indices(page_.size()));
  for (lost_task& each : page_) pass_over(each);
}

bool lost_tasks::refuse() {
  if (is_looking_) return false;
  if (groups_.empty()) {
    is_looking_ = true;
  } else if (groups_.back().size() > 1) {
    split_last(groups_);
  } else {
    pass_over(page_[groups_.back().front()]);
    end_group();
  }
  return true;
}

void lost_tasks::pass_over_damage() {
  is_looking_ = passes_over_page_ = false;
  if (step() == 1) return next_partitions();
  one_by_one_until_ = partition_ + step_;
}

void lost_tasks::pass_over(lost_task& task) {
  has_left_early_ |= task.is_early;
  passed_over_.push_back(std::move(task.id));
}

void lost_tasks::end_group() {
  groups_.pop_back();
  if (groups_.empty() && page_.size() < page) next_partitions();
}

void lost_tasks::next_partitions() {
  partition_ += step();
  passed_over_.clear();
}

}  // namespace tickwheel::durable::postgres
