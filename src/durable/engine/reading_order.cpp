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

std::list<std::vector<load_range>> in_parts(std::vector<load_range>&& all, std::size_t at_once) {
  std::list<std::vector<load_range>> parts;
  if (all.size() <= at_once) {
    if (!all.empty()) parts.push_back(std::move(all));
    return parts;
  }
  for (auto from = all.begin(); from != all.end();) {
    const auto count = std::min(at_once, static_cast<std::size_t>(all.end() - from));
    const auto to = from + static_cast<std::ptrdiff_t>(count);
    parts.emplace_back(std::move_iterator{from}, std::move_iterator{to});
    from = to;
  }
  return parts;
}

bool contains(const std::vector<load_range>& ranges, partition_number p) {
  return std::any_of(ranges.begin(), ranges.end(), [=](const load_range& r) { return r.partition == p; });
}

}  // namespace

void reading_order::begin(look first, time_point now) {
  for (auto& loads : loads_) loads.clear();
  suspicions_.clear();
  read_.reset();
  has_read_several_ = has_failed_ = is_another_ = repeats_next_ = false;
  failures_in_a_row_ = 0;
  forget_all_but(first.put_off);
  put_off_ = static_cast<std::int64_t>(first.put_off.size());
  leaves_out_ =
      std::erase_if(first.put_off, [&](const load_range& r) { return trials_[r.partition].retry_at > now; }) != 0;
  begin_behind_last(range_kind::mark, first.marks, first.marks.size());
  of(range_kind::step) = in_parts(std::move(first.step), limits.partitions);
  begin_behind_last(range_kind::unread, first.unread, limits.partitions);
  begin_behind_last(range_kind::put_off, first.put_off, 1);
}

// The node may have lost partitions that were put off.
void reading_order::forget_all_but(const ranges& put_off) {
  if (trials_.size() == put_off.size()) return;
  std::erase_if(trials_, [&](const auto& each) { return each.second.is_put_off && !contains(put_off, each.first); });
}

void reading_order::begin_behind_last(range_kind k, ranges& all, std::size_t at_once) {
  const auto is_behind = [p = last(k)](const load_range& r) { return r.partition > p; };
  std::rotate(all.begin(), std::find_if(all.begin(), all.end(), is_behind), all.end());
  of(k) = in_parts(std::move(all), at_once);
}

bool reading_order::is_empty() const noexcept {
  return std::all_of(loads_.begin(), loads_.end(), [](const auto& loads) { return loads.empty(); });
}

std::size_t reading_order::size() const noexcept {
  std::size_t sum = 0;
  for (const auto& loads : loads_)
    for (const ranges& each : loads) sum += each.size();
  return sum;
}

void reading_order::take(ranges& next) {
  std::size_t kind = 0;
  while (loads_[kind].empty()) ++kind;
  const auto k = static_cast<range_kind>(kind);
  if (std::exchange(taken_, k) != k) {
    failures_in_a_row_ = 0;
    is_another_ = false;
  }
  is_repeated_ = std::exchange(repeats_next_, false);
  next = std::move(of(k).front());
  of(k).pop_front();
  if (!is_another_) last(k) = next.back().partition;
}

void reading_order::on_read(const ranges& read, ranges& rest) {
  note_answer(read);
  if (taken_ == range_kind::mark && !trials_.empty())
    for (const load_range& r : read)
      if (!contains(rest, r.partition)) trials_.erase(r.partition);
  if (taken_ == range_kind::put_off) {
    trial& t = trials_[*read_];
    t.is_put_off = false;
    if (t.pauses > 1 && rest.empty())  // what has failed for long can be read again: perhaps the others as well
      for (auto& each : trials_) each.second.retry_at = {};
  }
  if (rest.empty()) return;
  if (taken_ == range_kind::mark)  // before what is read from the beginning, which may fail
    of(taken_).push_front(std::move(rest));
  else
    of(range_kind::further).push_back(std::move(rest));
}

void reading_order::note_answer(const ranges& read) {
  const partition_number p = read.back().partition;
  has_read_several_ |= read.size() > 1 || (read_ && *read_ != p);
  read_ = p;
  for (const suspicion& s : std::exchange(suspicions_, {}))
    if (has_answered_for_others(s.partition)) put_off(s);
  failures_in_a_row_ = 0;
  is_another_ = false;
}

bool reading_order::has_answered_for_others(partition_number p) const noexcept {
  return has_read_several_ || (read_ && *read_ != p);
}

std::vector<load_range> reading_order::on_failed(const ranges& failed, time_point now, std::chrono::nanoseconds took) {
  if (took <= limits.quick_failure && !is_repeated_) {
    repeats_next_ = true;
    of(taken_).push_front(failed);
    return {};
  }
  has_failed_ = true;
  ranges dropped;
  if (is_another_) {
    dropped = failed;
    drop_all(dropped);
    return dropped;
  }
  if (failed.size() > 1) {
    read_in_parts(failed);
    return dropped;
  }
  const partition_number p = failed.front().partition;
  const bool is_alone = has_answered_for_others(p);
  // A step may fail only from the beginning. A further page is read again from its mark.
  if (taken_ != range_kind::step && (taken_ != range_kind::further || trials_.contains(p))) {
    const suspicion s{p, now, took};
    is_alone ? put_off(s) : suspicions_.push_back(s);
  }
  if (!is_alone) dropped = failed;
  const bool may_be_the_store = !is_alone && ++failures_in_a_row_ >= limits.failures_in_a_row;
  if (taken_ == range_kind::put_off || (may_be_the_store && !try_another())) drop_all(dropped);
  return dropped;
}

// The parts come after the other loads of this kind, which may be read. Before the store has answered in this look they come first, so that
// few loads tell that it answers for nothing.
void reading_order::read_in_parts(const ranges& failed) {
  const std::size_t at_once = (failed.size() + limits.parts_of_failed - 1) / limits.parts_of_failed;
  auto parts = in_parts(ranges{failed}, at_once);
  auto& loads = of(taken_);
  loads.splice(read_ ? loads.end() : loads.begin(), parts);
}

// Takes the largest load, and of several the last: what fails is often side by side. Returns false if there is no other load of this kind.
bool reading_order::try_another() {
  auto& loads = of(taken_);
  if (loads.empty()) return false;
  const auto is_smaller = [](const ranges& a, const ranges& b) { return a.size() < b.size(); };
  const auto largest = std::max_element(loads.rbegin(), loads.rend(), is_smaller);
  loads.splice(loads.begin(), loads, std::prev(largest.base()));
  return is_another_ = true;
}

void reading_order::drop_all(ranges& into) {
  for (const ranges& each : std::exchange(of(taken_), {})) into.insert(into.end(), each.begin(), each.end());
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
