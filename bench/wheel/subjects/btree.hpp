// abseil's B-tree by deadline: a balanced tree with many timers per node, which takes fewer cache misses than a binary one.
#pragma once

#include "ticked.hpp"

#include <absl/container/btree_set.h>

#include <cstddef>
#include <string_view>
#include <utility>

namespace tickwheel::bench {

/// A change of the tree moves what it keeps, so an entry keeps no iterator. It is found by its deadline and address.
class btree_timers {
 public:
  static constexpr std::string_view name = "btree";

  class entry {
   public:
    explicit entry(void (*run)(entry&) noexcept) noexcept : run_{run} {}
    bool armed() const noexcept { return deadline_ != never; }
    tick deadline() const noexcept { return deadline_; }

   private:
    friend class btree_timers;
    void (*run_)(entry&) noexcept;
    tick deadline_ = never;
  };

  void arm(entry& e, tick deadline) {
    cancel(e);
    e.deadline_ = deadline;
    by_deadline_.emplace(deadline, &e);
  }

  bool cancel(entry& e) noexcept {
    if (!e.armed()) return false;
    by_deadline_.erase({e.deadline_, &e});
    e.deadline_ = never;
    return true;
  }

  void advance(tick now) noexcept {
    while (!by_deadline_.empty() && by_deadline_.begin()->first <= now) {
      entry& e = *by_deadline_.begin()->second;
      by_deadline_.erase(by_deadline_.begin());
      e.deadline_ = never;
      e.run_(e);
    }
  }

  std::size_t armed() const noexcept { return by_deadline_.size(); }
  tick next_expiry() const noexcept { return by_deadline_.empty() ? never : by_deadline_.begin()->first; }

 private:
  absl::btree_set<std::pair<tick, entry*>> by_deadline_;
};

using btree_subject = ticked_subject<btree_timers>;

}  // namespace tickwheel::bench
