// A hashed timing wheel as in textbooks: scheme 6 of Varghese and Lauck, which Netty's HashedWheelTimer also is.
//
// It has none of tickwheel's tricks. So the difference to `wheel_hashed`, which has as many slots, is what they buy.
#pragma once

#include "ticked.hpp"

#include <boost/intrusive/list.hpp>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

namespace tickwheel::bench {

/// One slot per tick, modulo the number of slots. A timer beyond one revolution stays in its slot, and counts the rounds until it is due.
/// Each tick visits its slot, occupied or not, and each timer in it.
class plain_hashed_timers {
  using hook = boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

 public:
  static constexpr std::string_view name = "plain_hashed";
  static constexpr std::size_t slots = 4096;

  class entry : public hook {
   public:
    explicit entry(void (*run)(entry&) noexcept) noexcept : run_{run} {}
    bool armed() const noexcept { return is_linked(); }
    tick deadline() const noexcept { return deadline_; }

   private:
    friend class plain_hashed_timers;
    void (*run_)(entry&) noexcept;
    tick deadline_ = never;
    tick rounds_ = 0;
  };

  plain_hashed_timers() : slots_(slots) {}

  void arm(entry& e, tick deadline) noexcept {
    cancel(e);
    e.deadline_ = std::max(deadline, now_ + 1);
    e.rounds_ = (e.deadline_ - now_ - 1) / slots;
    slots_[e.deadline_ % slots].push_back(e);
    ++armed_;
  }

  bool cancel(entry& e) noexcept {
    if (!e.is_linked()) return false;
    e.unlink();
    --armed_;
    return true;
  }

  void advance(tick now) noexcept {
    while (now_ < now) visit(slots_[++now_ % slots]);
  }

  std::size_t armed() const noexcept { return armed_; }
  /// It wakes up at each tick.
  tick next_expiry() const noexcept { return armed_ == 0 ? never : now_ + 1; }

 private:
  using list =
      boost::intrusive::list<entry, boost::intrusive::base_hook<hook>, boost::intrusive::constant_time_size<false>>;

  // Callbacks run when the slot has been walked, because they may arm and cancel any timer.
  void visit(list& slot) noexcept {
    list due;
    for (auto at = slot.begin(); at != slot.end();) {
      entry& e = *at++;
      if (e.rounds_-- != 0) continue;
      e.unlink();
      due.push_back(e);
    }
    while (!due.empty()) {
      entry& e = due.front();
      due.pop_front();
      --armed_;
      e.run_(e);
    }
  }

  std::vector<list> slots_;
  tick now_ = 0;
  std::size_t armed_ = 0;
};

using plain_hashed_subject = ticked_subject<plain_hashed_timers>;

}  // namespace tickwheel::bench
