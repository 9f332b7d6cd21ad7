// Whether a service keeps its loop alive, and how many more timers may be armed.
#pragma once

#include <tickwheel/core/wheel.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tickwheel::detail {

/// The loop is held while a timer is armed that has a reference, unless the service has none, and while others need it: posted
/// calls and holds. At most `max_armed` timers may be armed.
///
/// Neither is asked at each arm and cancel. The wheel's counts of arms and of ends only grow. Until they come to certain numbers,
/// neither answer can change.
///
/// *Thread safety:* the loop thread. *Complexity:* O(1).
class liveness {
 public:
  /// Nothing is armed. Keeps `has_ref`.
  void restart(std::size_t max_armed) noexcept {
    arms_to_check_ = 0;
    ends_to_check_ = 0;
    unref_armed_ = 0;
    max_armed_ = max_armed;
    keeps_place_ = nullptr;
    held_ = false;
    others_ = false;
  }

  /// Returns false if one more timer with a reference may be armed, and the loop is held. True: perhaps not.
  bool is_to_check_arm(const wheel& timers) const noexcept { return timers.arms() >= arms_to_check_; }
  /// Returns false if the loop is held rightly although a timer was cancelled or has fired. True: perhaps not.
  bool is_to_check_end(const wheel& timers) const noexcept { return timers.ended() >= ends_to_check_; }

  /// Whether armed timers hold the loop.
  bool has_ref() const noexcept { return ref_; }
  void set_ref(bool on) noexcept { ref_ = on; }

  /// Whether posted calls or holds need the loop.
  void set_others(bool need_loop) noexcept { others_ = need_loop; }

  /// An armed timer has no reference, or has one again, or is armed no more.
  void add_unref() noexcept { ++unref_armed_; }
  void remove_unref() noexcept { --unref_armed_; }
  /// Returns the number of armed timers without a reference.
  std::size_t unref_armed() const noexcept { return unref_armed_; }
  /// All timers are armed no more.
  void forget_unref() noexcept { unref_armed_ = 0; }

  /// Returns how many timers may be armed at once.
  std::size_t max_armed() const noexcept { return max_armed_; }
  /// Returns how many more timers may be armed.
  std::size_t places_left(const wheel& timers) const noexcept {
    const std::size_t taken = timers.armed() + (keeps_place_ != nullptr);
    return max_armed_ - std::min(taken, max_armed_);
  }

  /// The handler of `t`, which is no longer armed, runs. No other timer gets its place until `give_up_place`.
  void keep_place(const wheel_entry& t, const wheel& timers) noexcept {
    keeps_place_ = &t;
    arms_to_check_ = std::min(arms_to_check_, add_saturating(timers.arms(), places_left(timers)));
  }
  bool keeps_place(const wheel_entry& t) const noexcept { return keeps_place_ == &t; }
  void give_up_place() noexcept { keeps_place_ = nullptr; }

  /// Returns true if the loop is to be held.
  bool is_to_be_held(const wheel& timers) const noexcept { return (ref_ && timers.armed() != unref_armed_) || others_; }
  /// Returns what `update` answered last.
  bool held() const noexcept { return held_; }

  /// To be called when `is_to_check_arm` or `is_to_check_end` returned true, and when a reference or `set_others` has changed. Returns
  /// true if the loop is to be held from now on, or no longer: `held` tells which.
  bool update(const wheel& timers) noexcept {
    const std::size_t holding = timers.armed() - unref_armed_;
    arms_to_check_ = holding != 0 ? add_saturating(timers.arms(), places_left(timers)) : 0;
    ends_to_check_ = timers.ended() + std::max<std::size_t>(holding, 1);
    const bool was_held = held_;
    held_ = is_to_be_held(timers);
    return held_ != was_held;
  }

  /// Returns what is wrong, or null. For `timer_service::validate`.
  const char* problem(const wheel& timers) const noexcept {
    const std::size_t holding = timers.armed() - unref_armed_;
    if (ends_to_check_ > timers.ended() && ends_to_check_ - timers.ended() > std::max<std::size_t>(holding, 1))
      return "the last timer may end unnoticed";
    if (arms_to_check_ > timers.arms() && arms_to_check_ - timers.arms() > places_left(timers))
      return "more timers than max_armed may be armed unnoticed";
    return nullptr;
  }

 private:
  static std::uint64_t add_saturating(std::uint64_t a, std::uint64_t b) noexcept {
    return b > ~a ? ~std::uint64_t{0} : a + b;
  }

  std::size_t unref_armed_ = 0;  // armed timers that do not hold the loop
  std::size_t max_armed_ = 0;
  const wheel_entry* keeps_place_ = nullptr;  // only compared: it may be gone
  bool held_ = false;
  bool ref_ = true;
  bool others_ = false;

  // Last, so that a service has them beside what else an arm reads.
  std::uint64_t arms_to_check_ = 0;
  std::uint64_t ends_to_check_ = 0;
};

}  // namespace tickwheel::detail
