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

std::list<std::vector<load_range>> in_parts(const std::vector<load_range>& of, std::size_t at_once) {
  std::list<std::vector<load_range>> parts;
  for (auto from = of.begin(); from != of.end();) {
    const auto count = std::min(at_once, static_cast<std::size_t>(of.end() - from));
    const auto to = from + static_cast<std::ptrdiff_t>(count);
    parts.emplace_back(from, to);
    from = to;
  }
  return parts;
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
  begin_behind_last(range_kind::mark, first.marks, first.marks.size());
  of(range_kind::step) = in_parts(first.step, limits.partitions);
  begin_behind_last(range_kind::unread, first.unread, limits.partitions);
  begin_behind_last(range_kind::put_off, first.put_off, 1);
}

void reading_order::begin_behind_last(range_kind k, ranges& all, std::size_t at_once) {
  const auto is_behind = [p = last(k)](const load_range& r) { return r.partition > p; };
  std::rotate(all.begin(), std::find_if(all.begin(), all.end(), is_behind), all.end());
  of(k) = in_parts(all, at_once);
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

// The parts come after the other loads of this kind, which may be read. Before the store has answered in this look they come first, so that
// few loads tell that it answers for nothing.
void reading_order::repeat_in_parts(const ranges& failed) {
  const std::size_t at_once = (failed.size() + limits.parts_of_failed - 1) / limits.parts_of_failed;
  auto parts = in_parts(failed, at_once);
  auto& loads = of(taken_);
  loads.splice(read_ ? loads.end() : loads.begin(), parts);
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
