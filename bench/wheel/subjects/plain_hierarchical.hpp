// A hierarchical timing wheel as in textbooks: scheme 7 of Varghese and Lauck, as the timers of Linux were until 4.7.
//
// It has none of tickwheel's tricks. So the difference to `wheel` is what they buy.
#pragma once

#include "ticked.hpp"

#include <boost/intrusive/list.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

namespace tickwheel::bench {

/// Four levels of 256 slots, each 256 times as coarse as the one before. A timer is in the finest level that reaches its deadline. When a
/// level has gone round, the next slot of the level above is emptied at once, and its timers are placed anew: the cascade.
class plain_hierarchical_timers {
  using hook = boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

 public:
  static constexpr std::string_view name = "plain_hierarchical";
  static constexpr unsigned levels = 4, bits = 8;
  static constexpr std::size_t slots = std::size_t{1} << bits;
  /// A timer farther away waits there, and is then placed again.
  static constexpr tick farthest = (tick{1} << (levels * bits)) - 1;

  class entry : public hook {
   public:
    explicit entry(void (*run)(entry&) noexcept) noexcept : run_{run} {}
    bool armed() const noexcept { return is_linked(); }
    tick deadline() const noexcept { return deadline_; }

   private:
    friend class plain_hierarchical_timers;
    void (*run_)(entry&) noexcept;
    tick deadline_ = never;
  };

  plain_hierarchical_timers() {
    for (auto& level : wheel_) level = std::vector<list>(slots);
  }

  void arm(entry& e, tick deadline) noexcept {
    cancel(e);
    e.deadline_ = std::max(deadline, now_ + 1);
    place(e);
    ++armed_;
  }

  bool cancel(entry& e) noexcept {
    if (!e.is_linked()) return false;
    e.unlink();
    --armed_;
    return true;
  }

  void advance(tick now) noexcept {
    while (now_ < now) {
      ++now_;
      for (unsigned level = 1; level < levels && now_ % (tick{1} << (level * bits)) == 0; ++level)
        cascade(slot(level, now_));
      run(slot(0, now_));
    }
  }

  std::size_t armed() const noexcept { return armed_; }
  /// It wakes up at each tick.
  tick next_expiry() const noexcept { return armed_ == 0 ? never : now_ + 1; }

 private:
  using list =
      boost::intrusive::list<entry, boost::intrusive::base_hook<hook>, boost::intrusive::constant_time_size<false>>;

  list& slot(unsigned level, tick at) noexcept { return wheel_[level][(at >> (level * bits)) % slots]; }

  void place(entry& e) noexcept {
    const tick away = std::min(e.deadline_ - now_, farthest);
    unsigned level = 0;
    while (away >> ((level + 1) * bits) != 0) ++level;
    slot(level, now_ + away).push_back(e);
  }

  // A timer that waits farther away may come back to this slot, so the slot is emptied first.
  void cascade(list& coarse) noexcept {
    list moved;
    moved.swap(coarse);
    while (!moved.empty()) {
      entry& e = moved.front();
      moved.pop_front();
      place(e);
    }
  }

  void run(list& due) noexcept {
    while (!due.empty()) {
      entry& e = due.front();
      due.pop_front();
      --armed_;
      e.run_(e);
    }
  }

  std::array<std::vector<list>, levels> wheel_;
  tick now_ = 0;
  std::size_t armed_ = 0;
};

using plain_hierarchical_subject = ticked_subject<plain_hierarchical_timers>;

}  // namespace tickwheel::bench
