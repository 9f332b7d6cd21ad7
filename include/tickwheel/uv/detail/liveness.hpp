// Decides whether a service keeps its loop alive, and how many more timers may be armed.
#pragma once

#include <tickwheel/core/wheel.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tickwheel::detail {

/// Holds the loop while a timer with a reference is armed, unless the service has no reference. Also holds it while posted calls
/// or holds need it. At most `max_armed` timers may be armed.
///
/// These conditions are not computed at each arm and cancel. The wheel's counts of arms and of ends grow by one each time. Until they
/// reach certain numbers, neither condition can change. The counts are watched for these numbers.
///
/// *Thread safety:* the loop thread. *Complexity:* O(1).
class liveness {
 public:
  /// Starts again without armed timers. Keeps `has_ref`.
  void restart(std::size_t max_armed, wheel& timers) noexcept {
    timers.watched_arms().watch(0);
    timers.watched_ends().watch(0);
    unref_armed_ = 0;
    max_armed_ = max_armed;
    keeps_place_ = nullptr;
    held_ = false;
    others_ = false;
  }

  /// Counts the arm of an unarmed timer that has a reference. Returns true if it may be armed, and the loop is held. Returns false if
  /// that is not certain. The caller then calls `take_back_arm`.
  static bool count_plain_arm(wheel& timers) noexcept {
    ++timers.watched_arms();
    return !timers.watched_arms().reached();
  }
  /// Takes back the last count.
  static void take_back_arm(wheel& timers) noexcept { --timers.watched_arms(); }
  /// Returns false if the loop is rightly held although a timer was cancelled or has fired. Returns true if that is not certain.
  static bool is_to_check_end(const wheel& timers) noexcept { return timers.watched_ends().reached(); }

  /// Returns whether armed timers hold the loop.
  bool has_ref() const noexcept { return ref_; }
  void set_ref(bool on) noexcept { ref_ = on; }

  /// Sets whether posted calls or holds need the loop.
  void set_others(bool need_loop) noexcept { others_ = need_loop; }

  /// Counts an armed timer that has lost its reference. `remove_unref`: it has a reference again, or is no longer armed.
  void add_unref() noexcept { ++unref_armed_; }
  void remove_unref() noexcept { --unref_armed_; }
  /// Returns the number of armed timers without a reference.
  std::size_t unref_armed() const noexcept { return unref_armed_; }
  /// No timer is armed any more.
  void forget_unref() noexcept { unref_armed_ = 0; }

  /// Returns how many timers may be armed at once.
  std::size_t max_armed() const noexcept { return max_armed_; }
  /// Returns how many more timers may be armed.
  std::size_t places_left(const wheel& timers) const noexcept {
    const std::size_t taken = timers.armed() + (keeps_place_ != nullptr);
    return max_armed_ - std::min(taken, max_armed_);
  }

  /// The handler of `t`, which is no longer armed, is running. No other timer gets the place of `t` until `give_up_place`.
  void keep_place(const wheel_entry& t, wheel& timers) noexcept {
    keeps_place_ = &t;
    timers.watched_arms().watch_within(next_refused(timers));
  }
  bool keeps_place(const wheel_entry& t) const noexcept { return keeps_place_ == &t; }
  void give_up_place() noexcept { keeps_place_ = nullptr; }

  /// Returns true if the loop must be held.
  bool is_to_be_held(const wheel& timers) const noexcept { return (ref_ && timers.armed() != unref_armed_) || others_; }
  /// Returns whether the loop was to be held at the last `update`.
  bool held() const noexcept { return held_; }

  /// Call it when `count_plain_arm` returned false, when `is_to_check_end` returned true, and when a reference or `set_others` has
  /// changed. Returns true if `held` has changed.
  bool update(wheel& timers) noexcept {
    const std::size_t holding = timers.armed() - unref_armed_;
    timers.watched_arms().watch(holding != 0 ? next_refused(timers) : 0);
    timers.watched_ends().watch(std::max<std::size_t>(holding, 1));
    const bool was_held = held_;
    held_ = is_to_be_held(timers);
    return held_ != was_held;
  }

  /// Until the next `update`, `count_plain_arm` returns false.
  static void check_every_arm(wheel& timers) noexcept { timers.watched_arms().watch(0); }

  /// Returns a message that describes an inconsistency, or null. For `timer_service::validate`.
  const char* problem(const wheel& timers) const noexcept {
    const std::size_t holding = timers.armed() - unref_armed_;
    if (!is_to_check_end(timers) && timers.watched_ends().left() > std::max<std::size_t>(holding, 1))
      return "the last timer may end unnoticed";
    const watched_count& arms = timers.watched_arms();
    if (!arms.reached() && arms.left() > next_refused(timers))
      return "more timers than max_armed may be armed unnoticed";
    return nullptr;
  }

 private:
  // Returns n: the n-th arm from now on must be refused if no timer ends before. No sum here exceeds a std::size_t of 64 bits.
  std::uint64_t next_refused(const wheel& timers) const noexcept {
    return std::min(places_left(timers), unlimited - 1) + std::uint64_t{1};
  }

  std::size_t unref_armed_ = 0;  // armed timers that do not hold the loop
  std::size_t max_armed_ = 0;
  const wheel_entry* keeps_place_ = nullptr;  // only compared: it may be gone
  bool held_ = false;
  bool ref_ = true;
  bool others_ = false;
};

}  // namespace tickwheel::detail
