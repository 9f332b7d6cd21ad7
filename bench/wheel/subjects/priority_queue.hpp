// A std::priority_queue with lazy deletion: an entry that was cancelled or moved stays in the heap until its old deadline.
#pragma once

#include "ticked.hpp"

#include <cstddef>
#include <cstdint>
#include <queue>
#include <string_view>

namespace tickwheel::bench {

/// An item in the heap points to its entry. So the memory of an entry must outlive the item, whatever is constructed there.
class priority_queue_timers {
 public:
  static constexpr std::string_view name = "priority_queue";

  class entry {
   public:
    explicit entry(void (*run)(entry&) noexcept) noexcept : run_{run} {}
    bool armed() const noexcept { return arm_ != 0; }
    tick deadline() const noexcept { return deadline_; }

   private:
    friend class priority_queue_timers;
    void (*run_)(entry&) noexcept;
    std::uint64_t arm_ = 0;  // the number of the valid arm; 0: none
    tick deadline_ = never;
  };

  void arm(entry& e, tick deadline) {
    armed_ += e.arm_ == 0;
    e.arm_ = ++arms_;
    e.deadline_ = deadline;
    heap_.push({deadline, e.arm_, &e});
  }

  bool cancel(entry& e) noexcept {
    if (e.arm_ == 0) return false;
    e.arm_ = 0;
    --armed_;
    return true;
  }

  void advance(tick now) noexcept {
    while (!heap_.empty() && heap_.top().deadline <= now) {
      const item top = heap_.top();
      heap_.pop();
      if (top.of->arm_ != top.arm) continue;
      top.of->arm_ = 0;
      --armed_;
      top.of->run_(*top.of);
    }
  }

  std::size_t armed() const noexcept { return armed_; }
  tick next_expiry() const noexcept { return heap_.empty() ? never : heap_.top().deadline; }

 private:
  struct item {
    tick deadline;
    std::uint64_t arm;
    entry* of;
    bool operator<(const item& other) const noexcept { return deadline > other.deadline; }  // the earliest is on top
  };

  std::priority_queue<item> heap_;
  std::uint64_t arms_ = 0;
  std::size_t armed_ = 0;
};

using priority_queue_subject = ticked_subject<priority_queue_timers>;

}  // namespace tickwheel::bench
