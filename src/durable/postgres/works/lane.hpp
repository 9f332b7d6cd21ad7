// The works of one link, in the order of their calls.
#pragma once

#include "../link/link.hpp"
#include "../sql/transaction.hpp"
#include "work.hpp"

#include <algorithm>
#include <deque>
#include <iterator>
#include <optional>
#include <utility>

namespace tickwheel::durable::postgres {

/// Runs one transaction at a time. A work that pauses lets later ones pass, unless they must follow it.
class lane {
 public:
  void push(work& w) { queue_.push_back(&w); }
  /// The work whose transaction runs; null: none.
  work* active() const noexcept { return active_; }
  steady_time active_since() const noexcept { return since_; }

  /// Sends the next transaction, if there is one.
  void pump(link& on, steady_time now) {
    if (active_ != nullptr || !on.is_idle()) return;
    work* const next = find(now);
    if (next == nullptr) return;
    active_ = next;
    since_ = now;
    sent_.clear();
    next->ask(sent_, now);
    on.run(sent_);
  }
  /// The transaction has ended. Returns its work.
  work& take() noexcept { return *std::exchange(active_, nullptr); }
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
    active_ = nullptr;
  }
  /// Returns when the next transaction can be sent: `now`, also if it could have been sent before, or at the end of a pause.
  std::optional<steady_time> next_time(steady_time now) const noexcept {
    if (active_ != nullptr) return std::nullopt;
    if (find(now) != nullptr) return now;
    std::optional<steady_time> first;
    for (const work* const w : queue_)
      if (w->paused_until() > now && (!first || w->paused_until() < *first)) first = w->paused_until();
    return first;
  }

 private:
  work* find(steady_time now) const {
    for (auto w = queue_.begin(); w != queue_.end(); ++w) {
      if ((*w)->paused_until() > now) continue;
      const bool must_wait =
          std::any_of(queue_.begin(), w, [&](const work* earlier) { return (*w)->must_follow(*earlier); });
      if (!must_wait) return *w;
    }
    return nullptr;
  }

  std::deque<work*> queue_;
  transaction sent_;
  work* active_ = nullptr;
  steady_time since_{};
};

}  // namespace tickwheel::durable::postgres
