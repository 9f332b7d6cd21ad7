// The works of the links of one role, in the order of their calls.
#pragma once

#include "../link/link.hpp"
#include "../sql/transaction.hpp"
#include "work.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <iterator>
#include <optional>
#include <utility>

namespace tickwheel::durable::postgres {

/// Runs one transaction at a time on each link. A work goes before earlier ones that run or pause, unless it must follow them.
class lane {
 public:
  void push(work& w) { queue_.push_back(&w); }

  /// Sends the next transaction on this link, if there is one.
  void pump(link& on, steady_time now) {
    if (!on.is_idle()) return;
    running& free = *std::find_if(running_.begin(), running_.end(), [](const running& r) { return r.of == nullptr; });
    work* const next = find(now);
    if (next == nullptr) return;
    free.on = &on;
    free.of = next;
    free.since = now;
    free.sent.clear();
    next->ask(free.sent, now);
    on.run(free.sent);
  }
  /// The transaction on this link has ended. Returns its work.
  work& take(const link& on) noexcept {
    running& ended = *std::find_if(running_.begin(), running_.end(),
                                   [&](const running& r) { return r.of != nullptr && r.on == &on; });
    return *std::exchange(ended.of, nullptr);
  }
  /// The work goes on. Others have their turn if it gives way.
  void keep(work& w) {
    if (!w.gives_way()) return;
    const auto at = std::find(queue_.begin(), queue_.end(), &w);
    std::rotate(at, std::next(at), queue_.end());
  }
  /// A work has ended.
  void remove(work& w) { queue_.erase(std::find(queue_.begin(), queue_.end(), &w)); }
  void clear() noexcept {
    queue_.clear();
    for (running& r : running_) r.of = nullptr;
  }
  /// Returns when the transaction was sent that has waited longest for its end; nothing if none runs.
  std::optional<steady_time> running_since() const noexcept {
    std::optional<steady_time> first;
    for (const running& r : running_)
      if (r.of != nullptr && (!first || r.since < *first)) first = r.since;
    return first;
  }
  /// Returns when the next transaction can be sent, on `links` links: `now`, also if it could have been sent before, or at the end of a
  /// pause.
  std::optional<steady_time> next_time(steady_time now, std::size_t links) const noexcept {
    const auto busy = std::count_if(running_.begin(), running_.end(), [](const running& r) { return r.of != nullptr; });
    if (static_cast<std::size_t>(busy) >= links) return std::nullopt;
    if (find(now) != nullptr) return now;
    std::optional<steady_time> first;
    for (const work* const w : queue_)
      if (w->paused_until() > now && (!first || w->paused_until() < *first)) first = w->paused_until();
    return first;
  }

 private:
  struct running {
    link* on = nullptr;
    work* of = nullptr;  // null: the place is free
    transaction sent;
    steady_time since{};
  };

  bool is_running(const work& w) const noexcept {
    return std::any_of(running_.begin(), running_.end(), [&](const running& r) { return r.of == &w; });
  }
  work* find(steady_time now) const {
    for (auto w = queue_.begin(); w != queue_.end(); ++w) {
      if (is_running(**w) || (*w)->paused_until() > now) continue;
      const bool must_wait =
          std::any_of(queue_.begin(), w, [&](const work* earlier) { return (*w)->must_follow(*earlier); });
      if (!must_wait) return *w;
    }
    return nullptr;
  }

  std::deque<work*> queue_;
  std::array<running, most_links> running_;
};

}  // namespace tickwheel::durable::postgres
