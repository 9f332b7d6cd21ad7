#include "reading_order.hpp"

#include "../batch_limits.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tickwheel::durable::detail {

namespace {

// Failures count at most this time. The process may have been stopped meanwhile.
constexpr std::chrono::nanoseconds longest_failure = std::chrono::seconds{30};

// The first try comes after this time at the latest, because the store may have failed just then.
constexpr std::chrono::nanoseconds longest_first_pause = std::chrono::seconds{2};

std::vector<load_range> part(const std::vector<load_range>& of, std::size_t begin, std::size_t count) {
  const auto first = of.begin() + static_cast<std::ptrdiff_t>(begin);
  return {first, first + static_cast<std::ptrdiff_t>(std::min(count, of.size() - begin))};
}

}  // namespace

void reading_order::begin(look first, time_point now) {
  for (auto& loads : loads_) loads.clear();
  suspicions_.clear();
  read_.reset();
  repeats_next_ = false;
  put_off_ = static_cast<std::int64_t>(first.put_off.size());
  has_failed_ =
      std::erase_if(first.put_off, [&](const load_range& r) { return trials_[r.partition].retry_at > now; }) != 0;
  const std::size_t all_marks = first.marks.size();
  add_behind_last(range_kind::mark, std::move(first.marks), all_marks);
  add(range_kind::step, first.step, limits.partitions);
  add_behind_last(range_kind::unread, std::move(first.unread), limits.partitions);
  add_behind_last(range_kind::put_off, std::move(first.put_off), 1);
}

void reading_order::add_behind_last(range_kind k, ranges&& added, std::size_t at_once) {
  const auto is_behind = [p = last(k)](const load_range& r) { return r.partition > p; };
  std::rotate(added.begin(), std::find_if(added.begin(), added.end(), is_behind), added.end());
  add(k, added, at_once);
}

void reading_order::add(range_kind k, const ranges& added, std::size_t at_once) {
  for (std::size_t i = 0; i < added.size(); i += at_once) of(k).push_back(part(added, i, at_once));
}

std::size_t reading_order::size() const noexcept {
  std::size_t sum = 0;
  for (const auto& loads : loads_)
    for (const ranges& each : loads) sum += each.size();
  return sum;
}

void reading_order::take(ranges& next) {
  const auto first = std::find_if(loads_.begin(), loads_.end(), [](const auto& loads) { return !loads.empty(); });
  const auto k = static_cast<range_kind>(first - loads_.begin());
  if (std::exchange(taken_, k) != k) failures_in_a_row_ = 0;
  is_repeated_ = std::exchange(repeats_next_, false);
  next = std::move(first->front());
  first->pop_front();
  last(k) = next.back().partition;
}

void reading_order::on_read(const ranges& read, ranges& rest) {
  failures_in_a_row_ = 0;
  read_ = read.back().partition;
  for (const suspicion& s : std::exchange(suspicions_, {})) put_off(s);
  if (taken_ == range_kind::put_off) trials_[*read_].is_put_off = false;
  if (taken_ == range_kind::mark && !trials_.empty())
    for (const load_range& r : read) trials_.erase(r.partition);
  if (rest.empty()) return;
  if (taken_ == range_kind::mark)  // before what is read from the beginning, which may fail
    of(taken_).push_front(std::move(rest));
  else
    of(range_kind::further).push_back(std::move(rest));
}

std::vector<load_range> reading_order::on_failed(const ranges& failed, time_point now, std::chrono::nanoseconds took) {
  has_failed_ = true;
  if (took <= limits.quick_failure && !is_repeated_) {
    repeats_next_ = true;
    of(taken_).push_front(failed);
    return {};
  }
  if (failed.size() > 1) {
    repeat_in_parts(failed);
    return {};
  }
  const partition_number p = failed.front().partition;
  const bool has_answered = read_ && *read_ != p;
  if (taken_ != range_kind::step && taken_ != range_kind::further) {
    const suspicion s{p, now, took};
    has_answered ? put_off(s) : suspicions_.push_back(s);
  }
  ranges dropped;
  if (!has_answered) dropped.push_back(failed.front());
  const bool may_be_the_store = !has_answered && ++failures_in_a_row_ == limits.failures_in_a_row;
  if (may_be_the_store || taken_ == range_kind::put_off)
    for (const ranges& each : std::exchange(of(taken_), {})) dropped.insert(dropped.end(), each.begin(), each.end());
  return dropped;
}

// After the other loads of this kind, which may be read.
void reading_order::repeat_in_parts(const ranges& failed) {
  add(taken_, failed, (failed.size() + limits.parts_of_failed - 1) / limits.parts_of_failed);
}

void reading_order::put_off(const suspicion& s) {
  trial& t = trials_[s.partition];
  const auto pause = t.pauses == 0 ? std::min(s.took, longest_first_pause) : std::min(s.took, longest_failure);
  t.pauses = t.pauses == 0 ? 1 : std::min(t.pauses, std::max(put_off_, std::int64_t{1})) * limits.pause_if_failed;
  t.retry_at = s.at + pause * t.pauses;
  t.is_put_off = true;
}

bool reading_order::is_put_off(partition_number p) const noexcept {
  const auto known = trials_.find(p);
  return known != trials_.end() && known->second.is_put_off;
}

}  // namespace tickwheel::durable::detail
