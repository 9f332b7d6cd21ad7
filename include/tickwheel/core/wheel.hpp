// A timing wheel keeps timers in slots by deadline. Arming or cancelling a timer is O(1), however many timers there
// are.
//
// Use `wheel` itself in simulations, or in an event loop of your own. In a libuv server use `timer_service`, which
// drives one wheel from the loop's poll timeout.
//
// The wheel knows no clock and no thread: the caller passes the tick to every call. The wheel is a ring of slots. Each
// slot is a list of the entries that are due in its span of ticks. A cursor moves round the ring and visits the slots
// when their time comes. With several levels a slot of a higher ring spans more ticks. Its entries move down to finer
// rings shortly before they are due.
//
//   tickwheel::wheel timers;
//   tickwheel::wheel_entry hello{[](tickwheel::wheel_entry&) noexcept { std::puts("hello"); }};
//   timers.arm(hello, 10);
//   timers.advance(9);    // nothing
//   timers.advance(10);   // hello
//
// Three techniques make it fast. Placement is lazy. Moving a timer later only stores the new deadline, and cancelling
// it only stores that it is not armed. The next visit of its slot moves or drops the entry.
//
// Bitmaps mark the occupied slots. So crossing an empty hour costs no more than crossing a tick.
//
// Each coarse slot has several chains of entries. So emptying it waits for several cache misses at once.
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/core/detail/watched_count.hpp>
#include <tickwheel/core/log_histogram.hpp>
#include <tickwheel/core/ticks.hpp>
#include <tickwheel/core/wheel_entry.hpp>
#include <tickwheel/core/wheel_geometry.hpp>

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

namespace tickwheel {

struct chain;
struct chain_group;
struct hierarchy;

/// No bound.
inline constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

/// The result of `wheel::advance`.
struct advance_result {
  std::size_t ran;  ///< number of callbacks that ran
  bool done;        ///< true: nothing due is left; false: the work bound left visits over, call again
};

/// Totals of entries armed, cancelled and fired. The number of armed entries is the difference.
struct wheel_counts {
  std::uint64_t armed = 0;      ///< times an unarmed entry was armed; moving an armed entry does not count
  std::uint64_t cancelled = 0;  ///< entries that `cancel`, clearing or destroying the wheel disarmed
  std::uint64_t fired = 0;      ///< entries whose callbacks ran
};

/// A hashed or hierarchical timing wheel. The caller owns the entries.
///
/// - *Thread safety:* none. One thread uses a wheel and its entries.
/// - *Complexity:* `arm` and `cancel` are O(1). `advance` is O(occupied slots passed + entries visited), never
///   O(ticks). Each link costs at most one visit per level, and one more if thousands of entries are due in one tick.
/// - *Errors:* the constructor may throw std::bad_alloc. No other call allocates or fails, except `dump`, and
///   `validate` when it reports a broken invariant.
/// - *Lifetime:* destroying a wheel detaches every entry, which is then unarmed, and runs no callback. A callback may
///   destroy the wheel.
class TICKWHEEL_API wheel {
 public:
  /// No bound for the work of an `advance`.
  static constexpr std::size_t npos = unlimited;

  /// Called for each entry just before its callback; see `on_fire`.
  using fire_hook = void (*)(void* context, wheel_entry&, tick deadline) noexcept;

  /// Returns the deadline of an armed entry that may move from its slot to a finer one; see `on_move`.
  using move_hook = tick (*)(void* context, wheel_entry&) noexcept;

  /// Creates a wheel whose time starts at `now`. Allocates all slots; O(levels * slots). Requires: `geometry.valid()`,
  /// checked. Throws std::bad_alloc.
  explicit wheel(wheel_geometry geometry = {}, tick now = 0);
  ~wheel();
  wheel(const wheel&) = delete;
  wheel& operator=(const wheel&) = delete;

  /// Arms `entry` for `deadline`, or moves it there if it is already armed. A deadline at or before `now()` becomes
  /// `now() + 1`. So an entry that a callback arms never runs in the same pass. Deadlines beyond `last_tick` saturate
  /// there. Requires: the entry is in no other wheel.
  ///
  /// At `last_tick`, the end of time, no later tick exists. An entry that is armed then is due at once, and a pass may
  /// run it once more.
  ///
  /// Returns true if `next_expiry()` may have become earlier, and always if `entry` becomes the only armed one. A
  /// caller that waits for `next_expiry()` then calls it again.
  ///
  /// O(1), allocates nothing. Moving an armed entry later writes only to the entry.
  bool arm(wheel_entry& entry, tick deadline) noexcept {
    const std::uint64_t arms_before = arms();
    const bool sooner = arm_beside_others(entry, deadline);
    // checked last, so that it costs nothing if the caller ignores the result
    return sooner || (arms() != arms_before && armed() == 1);
  }

  /// Same as `arm`, but may return false if `entry` becomes the only armed one. Saves a few instructions.
  bool arm_beside_others(wheel_entry& entry, tick deadline) noexcept {
    if (!entry.armed()) ++arms_;
    // Both a deadline before `earliest_` and `never`, for which the sum wraps.
    if (deadline + 1 <= earliest_) [[unlikely]]
      return arm_in_range(entry, deadline);
    return arm_counted(entry, deadline);
  }

  /// Same as `arm_beside_others`, for a caller that knows more. It has counted the entry, by `++watched_arms()`, if that is
  /// not armed. Requires: `earliest_deadline() <= deadline <= last_tick`, checked in a debug build; the entry is in no
  /// other wheel.
  bool arm_counted(wheel_entry& entry, tick deadline) noexcept {
#ifndef NDEBUG
    detail::require(earliest_ <= deadline && deadline <= last_tick, "wheel::arm_counted: the deadline is out of range");
#endif
    entry.deadline_ = deadline;
    // It stays where it is if its slot is yet to be visited, and not after the deadline. One that is in no slot has
    // visit_ == never. The visit of a cancelled one may have passed, or that of one that a late pass has not reached.
    if (entry.visit_ > deadline || entry.visit_ < earliest_) return relink(entry, deadline, deadline - earliest_);
    return false;
  }

  /// Disarms `entry`. Returns true if it was armed. Requires: it is in no other wheel. Its callback does not run until
  /// it is armed again, even if the running pass had already reached it. O(1): writes the entry and a counter. The
  /// entry stays linked until its slot is visited.
  bool cancel(wheel_entry& entry) noexcept {
    if (!entry.armed()) return false;
    entry.deadline_ = never;
    ++ended_;
    return true;
  }

  /// Arms `entry` as an immediate, or makes it one if it is already armed. An immediate waits for no tick, and
  /// `advance` does not run it. The first `run_immediates` after the next `collect_immediates` runs it. Until then
  /// `next_expiry() <= now()`, and `entry.deadline()` returns `since`. Requires: `entry` is in no other wheel, and
  /// `since` is at most `last_tick`. O(1), allocates nothing.
  void arm_immediate(wheel_entry& entry, tick since) noexcept;

  /// Returns true if `entry` is armed as an immediate of its wheel. O(1).
  static bool is_immediate(const wheel_entry& entry) noexcept;

  /// Returns true if collected immediates wait for `run_immediates`. O(1).
  bool immediates_wait() const noexcept;

  /// Selects the immediates that are armed now for the next `run_immediates`. Returns true if there are any, armed or
  /// cancelled. O(1).
  bool collect_immediates() noexcept;

  /// Runs the collected immediates in the order of arming. Stops after at most `work` visits. A visit is a callback, or
  /// the drop of a cancelled entry. `done` is true if no collected immediate is left. Lateness counts until `now`,
  /// which does not move the wheel's time. Callbacks may do the same as those of `advance`.
  advance_result run_immediates(tick now, std::size_t work = npos) noexcept;

  /// Returns true while immediates are left that were collected before the last of them ran. Callbacks may arm
  /// immediates again and again: a caller that must end stops when this is false. O(1).
  bool in_immediate_round() const noexcept;

  /// Moves time to `now` and runs every entry with a deadline at or before it. A `now` before `now()` counts as
  /// `now()`. Stops after at most `work` visits, and the next call continues there. A visit is a callback, a move
  /// between slots, the drop of a cancelled entry, or an empty slot.
  ///
  /// Callbacks may arm, cancel and destroy any entry, and clear or destroy the wheel. They must not call `advance`
  /// (checked).
  ///
  /// A call on time runs entries in the order of their deadlines, and in no particular order within a tick. A late call
  /// runs due entries in any order, so that none waits longer than it must.
  advance_result advance(tick now, std::size_t work = npos) noexcept {
    // An empty tick: there is nothing to visit, so only the cursor moves. This order of the comparisons saves a fifth
    // of the time.
    const tick after = now + 1;
    if (now < expiry_ && after >= earliest_) [[likely]] {
      earliest_ = after;
      return {0, true};
    }
    return run_pass(now, work, nullptr);
  }

  /// Same as `advance`, and takes off `work` the visits that it has made. Nothing is taken off while nothing is armed. `work`
  /// must outlive the call, also if a callback destroys the wheel.
  advance_result advance_within(tick now, std::size_t& work) noexcept { return run_pass(now, work, &work); }

  /// Ends the running `advance` or `run_immediates` as if its work bound was reached: after the callback that runs, or that
  /// the `on_fire` hook is told of. O(1). Requires: called from a callback or from that hook (checked).
  void stop_pass() noexcept;

  /// Drops up to `work` cancelled entries that are still linked, or slots that all their entries left. It goes through each level
  /// from the slot that time has reached. A slot that is empty counts one, and one with an armed entry eight. Does nothing in a
  /// callback, or if the next visit is to an armed entry. Calling it is optional, because later visits drop the entries. Use it
  /// when the thread is awake anyway. O(work), and once as much as `next_expiry`.
  void sweep(std::size_t work) noexcept;

  /// Returns the tick by which `advance` must be called next, or `never` if nothing is armed. It is never later than the
  /// earliest deadline of the entries that are no immediates. It is often earlier, when a coarse slot must be emptied. A
  /// tick at or before `now()` means that work is left over, or that immediates wait. One that was cancelled or destroyed
  /// counts until the next `collect_immediates` and `run_immediates`. O(1) up to 64 slots per level, otherwise
  /// O(occupied slots of the level).
  tick next_expiry() const noexcept { return has_immediates_ && armed() != 0 ? left_over_since() : next_in_slots(); }

  /// Same as `next_expiry`, but ignores immediates.
  tick next_in_slots() const noexcept {
    if (armed() == 0) return never;
    if (expiry_is_bound_) refine_expiry();
    return expiry_ <= now() ? left_over_since() : expiry_;
  }

  /// Returns a lower bound of `next_expiry()` if that is ahead of `now()`, and otherwise a tick at or before `now()`.
  /// Needs one load. The bound may not move while nothing is armed.
  tick expiry_bound() const noexcept { return has_immediates_ ? now() : expiry_; }

  /// Returns the earliest deadline that `arm` gives: `now() + 1`, except at the end of time.
  tick earliest_deadline() const noexcept { return earliest_; }

  /// Returns the tick that was passed to the running or last `advance`.
  tick now() const noexcept { return earliest_ - !at_end_of_time_; }

  /// Returns the number of armed entries.
  std::size_t armed() const noexcept { return static_cast<std::size_t>(arms() - ended()); }

  /// Returns true if no entry is linked, armed or not. O(slots that may hold entries).
  bool empty() const noexcept;

  /// Returns how many entries were ever armed. `armed()` is the difference of `arms()` and `ended()`, which both only
  /// grow. So a caller that waits until `armed()` reaches a bound can exclude it by one of them.
  std::uint64_t arms() const noexcept { return arms_.value(); }
  /// Returns how many of the entries that were ever armed are no longer armed.
  std::uint64_t ended() const noexcept { return ended_.value(); }

  /// Returns the count behind `arms()`, for a caller that watches it, or counts before `arm_counted`. The wheel does not
  /// ask what is watched.
  detail::watched_count& watched_arms() noexcept { return arms_; }
  /// As above.
  const detail::watched_count& watched_arms() const noexcept { return arms_; }
  /// Returns the count behind `ended()`, for a caller that watches it.
  detail::watched_count& watched_ends() noexcept { return ended_; }
  /// As above.
  const detail::watched_count& watched_ends() const noexcept { return ended_; }

  /// Returns the totals of armed, cancelled and fired entries.
  wheel_counts counts() const noexcept { return {arms(), ended() - lateness_.count(), lateness_.count()}; }
  /// Returns the geometry that the constructor was given.
  wheel_geometry geometry() const noexcept { return geometry_; }

  /// Returns how late the fired entries were, in ticks: `now()` minus the deadline.
  const log_histogram& lateness() const noexcept { return lateness_; }

  /// Sets a hook that is called just before each callback, when the entry is no longer armed. Null removes it. The hook
  /// must not touch the wheel, but may call `stop_pass`.
  void on_fire(fire_hook hook, void* context) noexcept {
    fire_hook_ = hook;
    fire_context_ = context;
  }

  /// Sets a hook that returns the deadline of an armed entry. Null removes it. It is called before an entry moves to a
  /// finer slot, and also for entries that then stay where they are. The returned deadline may be later than the armed
  /// one; an earlier one is ignored. So entries that their owner has postponed without calling `arm` do not crowd the
  /// slot of their old deadline. The hook must have no side effects, and must not touch the wheel.
  void on_move(move_hook hook, void* context) noexcept {
    move_hook_ = hook;
    move_context_ = context;
  }

  /// Calls `visit(wheel_entry&)` for every armed entry, in no particular order; use it to save timers before a
  /// shutdown. `visit` may cancel entries. It must not arm or destroy any. O(slots + linked entries).
  template <class F>
  void for_each_armed(F&& visit) const {
    using function = std::remove_reference_t<F>;
    walk_armed([](void* context, wheel_entry& entry) { (*static_cast<function*>(context))(entry); },
               const_cast<void*>(static_cast<const void*>(std::addressof(visit))));
  }

  /// Detaches all entries, and calls `dispose(wheel_entry&)` for each one that was armed, after it is detached.
  /// `dispose` may destroy that entry or any other. It must not arm any. No callback runs. O(linked entries).
  template <class F>
  void clear(F&& dispose) {
    if (pass_ != nullptr) cancel_pass();
    position from;
    while (wheel_entry* entry = detach_one(from)) dispose(*entry);
  }

  /// Checks every invariant. Returns false if one is broken, and stores which one, with level and slot, in `why`.
  /// O(slots + entries).
  bool validate(std::string* why = nullptr) const;

  /// Writes the geometry, time, counts and each occupied slot, one line each. O(slots + entries). Throws what the
  /// stream throws.
  void dump(std::ostream&) const;

 private:
  struct pass;

  // the slot at which a walk over all slots continues
  struct position {
    unsigned level = 0;
    unsigned index = 0;
  };

  void set_now(tick now) noexcept {
    at_end_of_time_ = now == last_tick;
    earliest_ = now + !at_end_of_time_;
  }

  // All earlier slots were visited. It is now(), unless a pass runs or work is left over.
  tick cursor() const noexcept { return now() - (coarse_from_ - coarse_begin_); }
  void set_cursor(tick cursor, tick now) noexcept { coarse_begin_ = coarse_from_ - (now - cursor); }

  bool arm_in_range(wheel_entry&, tick deadline) noexcept;
  TICKWHEEL_CALLED_OFTEN bool relink(wheel_entry&, tick deadline, tick ahead) noexcept;
  bool link(wheel_entry&, tick deadline, tick ahead) noexcept;
  bool link_coarse(wheel_entry&, tick deadline, coarse_slot&) noexcept;
  bool link_far(wheel_entry&, tick deadline) noexcept;
  bool link_later_round(wheel_level& level, wheel_entry&, tick deadline) noexcept;
  bool move_crowd(wheel_entry&, tick deadline) noexcept;
  bool visit_crowds(wheel_level& crowds, tick cursor) noexcept;
  bool bring_forward(wheel_level& level, const wheel_entry&) noexcept;
  bool expect_visit(tick start_by) noexcept;
  advance_result run_pass(tick now, std::size_t work, std::size_t* unused) noexcept;
  advance_result run_pass_at_rest(tick now, std::size_t work, std::size_t* unused) noexcept;
  template <bool may_end>
  [[gnu::always_inline]] advance_result run_pass_from(tick from, tick now, std::size_t work,
                                                      std::size_t* unused) noexcept;
  template <bool may_end>
  [[gnu::always_inline]] bool visit_all(pass& running) noexcept;
  bool end_cancelled(const pass& running) noexcept;
  bool end_cut_short(const pass& running) noexcept;
  template <bool may_end>
  tick visit_slots(pass& running) noexcept;
  bool visit_backlog(pass& running) noexcept;
  template <bool may_end>
  bool visit_finest(pass& running) noexcept;
  bool visit_end_of_time(pass& running) noexcept;
  bool end_cut_visit(const pass& running, std::size_t granted) noexcept;
  bool visit_coarse(wheel_level& level, pass& running) noexcept;
  bool visit_sparse(wheel_level& level, pass& running) noexcept;
  bool empty_further(wheel_level& level, pass& running) noexcept;
  void end_cut_step(wheel_level& level, tick now) noexcept;
  bool take_from(chain_group& from, std::size_t granted, pass& running) noexcept;
  bool take(wheel_entry&, pass& running) noexcept;
  void move(wheel_entry&) noexcept;
  void move_out_of_line(wheel_entry&) noexcept;
  void fire(wheel_entry&, tick now) noexcept;
  void set_expiry(tick next) noexcept;
  void note_expiry(tick next) const noexcept;
  void skip_idle_time() noexcept;
  static bool drop_cancelled(std::span<chain>, std::size_t& work) noexcept;
  void find_start_by() noexcept;
  void cancel_pass() noexcept;
  wheel_entry* detach_one(position& from) noexcept;
  tick left_over_since() const noexcept;
  void refine_expiry() const noexcept;
  void walk_armed(void (*visit)(void*, wheel_entry&), void* context) const;

  // the cache line that `arm`, `cancel` and an empty `advance` use
  tick earliest_ = 1;                     // see earliest_deadline
  mutable tick expiry_ = last_tick;       // no visit is needed before; at least now(), except at the end of time
  bool at_end_of_time_ = false;           // now() is the last tick
  mutable bool expiry_is_bound_ = false;  // next_expiry() can find a later tick by a search of all slots
  bool has_immediates_ = false;           // immediates are linked, armed or not
  detail::watched_count arms_;            // times an unarmed entry was armed
  detail::watched_count ended_;           // of those, how many fired or were cancelled

  // A deadline so many ticks after `earliest_` goes to a coarse level: `coarse_from_`, less how far the cursor is
  // behind now(). The cursor is kept as this difference. So an advance over an empty tick stores one word instead of
  // three, in half the time, and arming takes one instruction to count from the cursor.
  tick coarse_begin_;
  std::unique_ptr<hierarchy> levels_;
  wheel_level* lowest_;   // of the coarse levels
  tick coarse_from_;      // how many ticks the finest level covers; 2^63 for a hashed wheel, which has none
  pass* pass_ = nullptr;  // the running advance; on its stack
  wheel_geometry geometry_;
  fire_hook fire_hook_ = nullptr;
  void* fire_context_ = nullptr;
  move_hook move_hook_ = nullptr;
  void* move_context_ = nullptr;
  log_histogram lateness_;

  // Without it, what follows a wheel would lie exactly 4,096 bytes after the first fields. A processor that compares only
  // the last 12 bits of addresses lets a load there wait for a store here.
  [[maybe_unused]] std::byte apart_[64];
};

}  // namespace tickwheel
