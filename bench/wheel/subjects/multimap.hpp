// A std::multimap by deadline: a balanced tree, as the timers of nginx and of the kernel's hrtimers are.
#pragma once

#include "ticked.hpp"

#include <cstddef>
#include <map>
#include <string_view>

namespace tickwheel::bench {

class multimap_timers {
 public:
  static constexpr std::string_view name = "multimap";

  class entry {
   public:
    explicit entry(void (*run)(entry&) noexcept) noexcept : run_{run} {}
    bool armed() const noexcept { return armed_; }
    tick deadline() const noexcept { return at_->first; }

   private:
    friend class multimap_timers;
    void (*run_)(entry&) noexcept;
    std::multimap<tick, entry*>::iterator at_;
    bool armed_ = false;
  };

  void arm(entry& e, tick deadline) {
    cancel(e);
    e.at_ = by_deadline_.emplace(deadline, &e);
    e.armed_ = true;
  }

  bool cancel(entry& e) noexcept {
    if (!e.armed_) return false;
    by_deadline_.erase(e.at_);
    e.armed_ = false;
    return true;
  }

  void advance(tick now) noexcept {
    while (!by_deadline_.empty() && by_deadline_.begin()->first <= now) {
      entry& e = *by_deadline_.begin()->second;
      by_deadline_.erase(by_deadline_.begin());
      e.armed_ = false;
      e.run_(e);
    }
  }

  std::size_t armed() const noexcept { return by_deadline_.size(); }
  tick next_expiry() const noexcept { return by_deadline_.empty() ? never : by_deadline_.begin()->first; }

 private:
  std::multimap<tick, entry*> by_deadline_;
};

using multimap_subject = ticked_subject<multimap_timers>;

}  // namespace tickwheel::bench
