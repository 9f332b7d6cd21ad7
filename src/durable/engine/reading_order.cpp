#include "reading_order.hpp"

#include "../batch_limits.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

namespace tickwheel::durable::detail {

namespace {

bool is_from_the_beginning(range_kind k) noexcept { return k == range_kind::step || k == range_kind::unread; }

// Moves the partitions up to `failed` to the end, so that it comes last.
void begin_behind(partition_number failed, std::vector<load_range>& ranges) {
  const auto is_behind = [=](const load_range& r) { return r.partition > failed; };
  std::rotate(ranges.begin(), std::find_if(ranges.begin(), ranges.end(), is_behind), ranges.end());
}

void insert(std::vector<load_range>& into, std::vector<load_range>::iterator before, std::vector<load_range>& from) {
  into.insert(before, std::move_iterator{from.begin()}, std::move_iterator{from.end()});
}

}  // namespace

void reading_order::begin(std::vector<load_range> marks, std::vector<load_range> step, std::vector<load_range> unread,
                          bool leaves_out) {
  has_read_ = false;
  has_failed_ = leaves_out;
  if (at_once(range_kind::mark) == 1) begin_behind(failed_at_mark_, marks);
  if (at_once(range_kind::unread) == 1) begin_behind(failed_unread_, unread);
  ranges_ = {std::move(marks), std::move(step), std::move(unread), {}};
}

std::size_t reading_order::size() const noexcept {
  std::size_t sum = 0;
  for (const auto& ranges : ranges_) sum += ranges.size();
  return sum;
}

std::size_t reading_order::at_once(range_kind k) const noexcept {
  if (k == range_kind::mark && mark_failures_ >= limits.failures_until_single) return 1;
  if (is_from_the_beginning(k)) return reads_one_by_one_ ? 1 : limits.partitions;
  return size();
}

void reading_order::take(std::vector<load_range>& ranges) {
  const auto next = std::find_if(ranges_.begin(), ranges_.end(), [](const auto& r) { return !r.empty(); });
  taken_ = static_cast<range_kind>(next - ranges_.begin());
  const auto end = next->begin() + static_cast<std::ptrdiff_t>(std::min(at_once(taken_), next->size()));
  ranges.assign(std::move_iterator{next->begin()}, std::move_iterator{end});
  next->erase(next->begin(), end);
}

void reading_order::on_read(std::vector<load_range>& rest) {
  has_read_ = true;
  if (taken_ == range_kind::mark) {  // before what is read from the beginning, which may fail
    insert(of(range_kind::mark), of(range_kind::mark).begin(), rest);
    if (of(range_kind::mark).empty()) mark_failures_ = 0;
    return;
  }
  insert(of(range_kind::further), of(range_kind::further).end(), rest);
  const bool are_read = of(range_kind::step).empty() && of(range_kind::unread).empty();
  if (is_from_the_beginning(taken_) && are_read && !has_failed_) reads_one_by_one_ = false;
}

reading_order::failure reading_order::on_failed(const std::vector<load_range>& ranges) {
  has_failed_ = true;
  if (taken_ == range_kind::further) return {};
  failure f{.dropped = std::exchange(of(taken_), {}), .is_alone = ranges.size() == 1};
  if (taken_ == range_kind::mark) {
    f.is_alone = has_read_ && at_once(range_kind::mark) == 1;  // otherwise the store may have failed
    note_failed_mark(ranges.back().partition, f.is_alone);
  } else {
    reads_one_by_one_ = true;
    if (taken_ == range_kind::unread) failed_unread_ = ranges.back().partition;
  }
  if (!f.is_alone) f.dropped.insert(f.dropped.end(), ranges.begin(), ranges.end());
  return f;
}

void reading_order::note_failed_mark(partition_number last, bool is_alone) noexcept {
  if (is_alone) {
    mark_failures_ = limits.failures_until_single - 1;  // the others are read together, until a load fails again
  } else {
    failed_at_mark_ = last;
    ++mark_failures_;
  }
}

}  // namespace tickwheel::durable::detail
