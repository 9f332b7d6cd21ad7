// A timing wheel: timers in slots by deadline, so that arming and cancelling one is O(1) however many there are.
//
// Use `wheel` itself to simulate, or to drive timers from an event loop of your own. In a libuv server use
// `timer_service`, which drives one wheel from the loop's poll timeout.
//
// The wheel knows no clock and no thread: every call is told the tick. It is a ring of slots, each a list of the entries due
// in that slot's span of ticks. A cursor goes round and visits the slots as their time comes. With several levels a slot of a
// higher ring holds a longer span, and its entries move down to finer rings shortly before they are due.
//
//   tickwheel::wheel timers;
//   tickwheel::wheel_entry hello{[](tickwheel::wheel_entry&) noexcept { std::puts("hello"); }};
//   timers.arm(hello, 10);
//   timers.advance(9);    // nothing
//   timers.advance(10);   // hello
//
// Three things make it fast. Placement is lazy: moving a timer later only stores the new deadline, and cancelling only stores
// that it is not armed. The visit that comes anyway puts the entry where it belongs or drops it. Bitmaps of occupied slots
// make crossing an empty hour as cheap as crossing a tick. And each coarse slot keeps several chains of entries, so that
// emptying it waits for several cache misses at once instead of one after the other.
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/core/log_histogram.hpp>
#include <tickwheel/core/ticks.hpp>
#include <tickwheel/core/wheel_entry.hpp>
#include <tickwheel/core/wheel_geometry.hpp>

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>

namespace tickwheel {

struct chain_group;
struct hierarchy;

/// No bound.
inline constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

/// What a call of `wheel::advance` did.
struct advance_result {
  std::size_t ran;  ///< callbacks that ran
  bool done;        ///< nothing due is left; false: the work bound was reached, call again
};

/// How many entries were ever armed, cancelled and fired. What is armed now is the difference.
struct wheel_counts {
  std::uint64_t armed = 0;      ///< times an unarmed entry was armed; moving an armed one does not count
  std::uint64_t cancelled = 0;  ///< by `cancel`, or by clearing or destroying the wheel
  std::uint64_t fired = 0;      ///< their callbacks ran
};

/// A hashed or hierarchical timing wheel over entries that the caller owns.
///
/// *Thread safety:* none; one thread uses a wheel and its entries.
/// *Complexity:* `arm` and `cancel` are O(1); `advance` is O(occupied slots passed + entries visited), never O(ticks).
/// Each link is paid for by at most one visit a level, and by one more where thousands are due in one tick.
/// *Errors:* the constructor may throw std::bad_alloc; nothing else allocates or fails, but `validate`, to say why, and `dump`.
/// *Lifetime:* destroying a wheel runs no callback and detaches every entry, which is then unarmed. It may happen
/// inside a callback.
class TICKWHEEL_API wheel {
 public:
  /// No bound of the work of an `advance`.
  static constexpr std::size_t npos = unlimited;

  /// Told of each entry just before its callback; see `on_fire`.
  using fire_hook = void (*)(void* context, wheel_entry&, tick deadline) noexcept;

  /// Asked for each armed entry that leaves its slot to be moved to a finer one; see `on_move`.
  using move_hook = tick (*)(void* context, wheel_entry&) noexcept;

  /// A wheel whose time starts at `now`. Allocates all its slots; O(levels * slots).
  /// Requires: `geometry.valid()`, checked. Throws std::bad_alloc.
  explicit wheel(wheel_geometry geometry = {}, tick now = 0);
  ~wheel();
  wheel(const wheel&) = delete;
  wheel& operator=(const wheel&) = delete;

  /// Makes `entry` due at `deadline`, whether or not it is armed already. A deadline at or before `now()` is due at `now() +
  /// 1`: what a callback arms never runs in the pass that is running. Deadlines beyond `last_tick` saturate there. At that
  /// tick itself, the end of time, there is no later one: what is armed then is due at once, and a pass may run it once more.
  /// Requires: the entry is in no other wheel.
  ///
  /// Returns true if `next_expiry()` may have become earlier; a caller who waits for it then asks for it again. That
  /// includes each time that `entry` becomes the only one armed.
  ///
  /// Moving an armed entry later writes the entry alone; O(1) in any case, nothing is allocated.
  bool arm(wheel_entry& entry, tick deadline) noexcept {
    const std::uint64_t arms_before = arms_;
    const bool sooner = arm_beside_others(entry, deadline);
    return sooner ||
           (arms_ != arms_before && armed() == 1);  // asked afterwards, this costs nothing where nobody wants to know
  }

  /// As `arm`, for a caller who does not need to be told that `entry` is the only one armed. A few instructions less.
  bool arm_beside_others(wheel_entry& entry, tick deadline) noexcept {
    const tick earliest = earliest_;
    deadline = deadline < earliest ? earliest : deadline > last_tick ? last_tick : deadline;
    if (!entry.armed()) ++arms_;
    entry.deadline_ = deadline;
    // One compare for the fast path: earliest <= visit_ <= deadline. An unlinked entry has visit_ == never, and one
    // whose visit is past (a dead link that time went over) wraps to a large number; both are placed.
    return entry.visit_ - earliest > deadline - earliest && relink(entry, deadline);
  }

  /// Disarms `entry`; true when it was armed. Requires: it is in no other wheel. Its callback does not run until it is armed
  /// again, even when the running pass had already reached it. O(1): writes the entry, which stays linked until its slot is
  /// visited, and a counter.
  bool cancel(wheel_entry& entry) noexcept {
    if (!entry.armed()) return false;
    entry.deadline_ = never;
    ++ended_;
    return true;
  }

  /// Makes `entry` due as an immediate, whether or not it is armed already: it waits for no tick, and `advance` does not run it.
  /// The first `run_immediates` after the next `collect_immediates` runs it. Until then `next_expiry() <= now()`. `since` is
  /// what `entry.deadline()` answers meanwhile. Requires: `entry` is in no other wheel; `since <= last_tick`. O(1), nothing is
  /// allocated.
  void arm_immediate(wheel_entry& entry, tick since) noexcept;

  /// Lets the next `run_immediates` run the immediates that are armed now, and no later one. Returns true if there are any,
  /// armed or cancelled. O(1).
  bool collect_immediates() noexcept;

  /// Runs collected immediates in the order of arming, after at most `work` visits (a callback, or a cancelled entry dropped).
  /// `done`: no collected one is left. Their lateness is counted until `now`, which does not move the wheel's time. Callbacks
  /// may do what those of `advance` may.
  advance_result run_immediates(tick now, std::size_t work = npos) noexcept;

  /// Returns true while immediates are left that were collected before the last of them ran. Callbacks may arm immediates
  /// again and again: a caller that must come to an end stops when this is false. O(1).
  bool in_immediate_round() const noexcept;

  /// Moves time to `now` and runs what is due: every entry with a deadline at or before it. A `now` before `now()`
  /// counts as `now()`. After at most `work` visits (a callback, a move between slots, a dead entry dropped, a slot found
  /// empty) it stops; the next call goes on where this one stopped.
  ///
  /// Callbacks may arm, cancel and destroy any entry, and clear or destroy the wheel; they may not call `advance`
  /// (checked). On time, entries run in order of their deadlines, in no order within a tick. A late call runs what is
  /// due in any order: the first touch of an entry is as late as it may get.
  advance_result advance(tick now, std::size_t work = npos) noexcept {
    // an empty tick: nothing to visit, so the cursor just moves; with the comparisons in this order in a fifth less time
    const tick after = now + 1;
    if (now < expiry_ && after >= earliest_) [[likely]] {
      earliest_ = after;
      return {0, true};
    }
    return run_pass(now, work);
  }

  /// When nothing is armed, drops up to `work` cancelled entries that are still linked, or slots that were left by all their
  /// entries; without effect otherwise. Never needed, as a later visit drops them; for when the caller is awake anyway.
  /// O(work). Without effect in a callback.
  void sweep(std::size_t work) noexcept;

  /// The tick by which `advance` should be called next: never later than the earliest deadline, often earlier, when a
  /// coarse slot is to be emptied. `never` when nothing is armed; at or before `now()` when work is left over.
  /// O(1) up to 64 slots a level, else O(occupied slots of the level).
  tick next_expiry() const noexcept { return has_immediates_ && armed() != 0 ? left_over_since() : next_in_slots(); }

  /// As `next_expiry`, but leaves immediates out of account.
  tick next_in_slots() const noexcept {
    if (armed() == 0) return never;
    if (!expiry_exact_) refine_expiry();
    return expiry_ <= now() ? left_over_since() : expiry_;
  }

  /// In one load, a lower bound of a `next_expiry()` that is ahead of `now()`; at most `now()` when that is not. May
  /// stand still when nothing is armed.
  tick expiry_bound() const noexcept { return has_immediates_ ? now() : expiry_; }

  /// The tick the running or last `advance` was told.
  tick now() const noexcept { return earliest_ - !at_end_of_time_; }

  /// How many entries are armed.
  std::size_t armed() const noexcept { return static_cast<std::size_t>(arms_ - ended_); }

  /// True when no entry is linked, armed or not. O(slots that may hold entries).
  bool empty() const noexcept;

  /// How many entries were ever armed, and how many of them are no longer: `armed()` is the difference. Each only grows,
  /// so a caller who watches for `armed()` to reach a bound can tell from one of them that it is not there yet.
  std::uint64_t arms() const noexcept { return arms_; }
  /// See `arms`.
  std::uint64_t ended() const noexcept { return ended_; }

  /// What was armed, cancelled and fired so far.
  wheel_counts counts() const noexcept { return {arms_, ended_ - lateness_.count(), lateness_.count()}; }
  /// What it was made with.
  wheel_geometry geometry() const noexcept { return geometry_; }

  /// How late each entry that fired was, in ticks: `now()` less its deadline.
  const log_histogram& lateness() const noexcept { return lateness_; }

  /// Calls `hook(context, entry, deadline)` just before each callback, when the entry is no longer armed; null: no hook.
  /// The hook must not touch the wheel.
  void on_fire(fire_hook hook, void* context) noexcept {
    fire_hook_ = hook;
    fire_context_ = context;
  }

  /// Asks `hook(context, entry)` for the deadline of each armed entry that is about to be moved to a finer slot. The answer
  /// may be later than the entry was armed for; an earlier one is ignored. So entries whose owner has put them off without a
  /// word do not crowd the slot in which they would be due. The hook must not touch the wheel. Null: no hook.
  void on_move(move_hook hook, void* context) noexcept {
    move_hook_ = hook;
    move_context_ = context;
  }

  /// Calls `visit(wheel_entry&)` for every armed entry, in no order: what to save before a shutdown. `visit` may cancel
  /// entries, and must not arm or destroy any. O(slots + linked entries).
  template <class F>
  void for_each_armed(F&& visit) const {
    using function = std::remove_reference_t<F>;
    walk_armed([](void* context, wheel_entry& entry) { (*static_cast<function*>(context))(entry); },
               const_cast<void*>(static_cast<const void*>(std::addressof(visit))));
  }

  /// Detaches one entry after the other, and calls `dispose(wheel_entry&)` for each that was armed, once it is detached;
  /// `dispose` may destroy it, or any other, and must not arm any. No callback runs. O(linked entries).
  template <class F>
  void clear(F&& dispose) {
    if (pass_ != nullptr) cancel_pass();
    position from;
    while (wheel_entry* entry = detach_one(from)) dispose(*entry);
  }

  /// Checks every invariant. False when one is broken; `why` then says which, with level and slot. O(slots + entries).
  bool validate(std::string* why = nullptr) const;

  /// Writes geometry, time, counts and each occupied slot, a line each. O(slots + entries). Throws what the stream throws.
  void dump(std::ostream&) const;

 private:
  struct pass;

  // of a slot: where a walk over all of them goes on
  struct position {
    unsigned level = 0;
    unsigned index = 0;
  };

  void set_now(tick now) noexcept {
    at_end_of_time_ = now == last_tick;
    earliest_ = now + !at_end_of_time_;
  }

  // every slot before it was visited
  tick cursor() const noexcept { return cursor_ < now() ? cursor_ : now(); }

  bool relink(wheel_entry&, tick deadline) noexcept;
  bool link(wheel_entry&, tick deadline, tick ahead) noexcept;
  bool link_far(wheel_entry&, tick deadline, tick cursor) noexcept;
  bool link_later_round(wheel_level& level, wheel_entry&, tick deadline) noexcept;
  bool move_crowd(wheel_entry&, tick deadline) noexcept;
  bool visit_crowds(wheel_level& crowds) noexcept;
  bool bring_forward(wheel_level& level, const wheel_entry&) noexcept;
  bool expect_visit(tick start_by) noexcept;
  advance_result run_pass(tick now, std::size_t work) noexcept;
  advance_result end_cancelled(const pass& running) noexcept;
  advance_result end_cut_short(const pass& running) noexcept;
  tick visit_slots(pass& running) noexcept;
  bool visit_backlog(pass& running) noexcept;
  bool visit_finest(pass& running) noexcept;
  bool visit_end_of_time(pass& running) noexcept;
  bool end_cut_visit(std::size_t visits) noexcept;
  bool visit_coarse(wheel_level& level, pass& running) noexcept;
  bool visit_lone(wheel_level& level, pass& running) noexcept;
  bool empty_further(wheel_level& level, pass& running) noexcept;
  bool take_from(chain_group& from, std::size_t granted, pass& running) noexcept;
  bool take(wheel_entry&, pass& running) noexcept;
  void move(wheel_entry&) noexcept;
  void move_out_of_line(wheel_entry&) noexcept;
  void fire(wheel_entry&, tick now) noexcept;
  void set_expiry(tick next) noexcept;
  void note_expiry(tick next) const noexcept;
  void skip_idle_time() noexcept;
  void find_start_by() noexcept;
  void cancel_pass() noexcept;
  wheel_entry* detach_one(position& from) noexcept;
  tick left_over_since() const noexcept;
  void refine_expiry() const noexcept;
  void walk_armed(void (*visit)(void*, wheel_entry&), void* context) const;

  // the line that arm, cancel and an empty advance work on
  tick earliest_ = 1;                 // the earliest deadline that can be given: now() + 1, but for the end of time
  mutable tick expiry_ = last_tick;   // nothing needs a visit before; at least now(), but for the end of time
  bool at_end_of_time_ = false;       // now() is the last tick
  mutable bool expiry_exact_ = true;  // false: next_expiry() can find a later one by looking at all slots
  bool has_immediates_ = false;       // some are linked, armed or not
  pass* pass_ = nullptr;              // the advance now running; on its stack
  std::uint64_t arms_ = 0;            // times an unarmed entry was armed
  std::uint64_t ended_ = 0;           // of those, how many fired or were cancelled

  // While a pass runs or work is left over, the cursor; else never: the cursor is now(). So an advance over an empty tick
  // stores one word, not three, and takes half the time.
  tick cursor_ = never;
  std::unique_ptr<hierarchy> levels_;
  wheel_geometry geometry_;
  fire_hook fire_hook_ = nullptr;
  void* fire_context_ = nullptr;
  move_hook move_hook_ = nullptr;
  void* move_context_ = nullptr;
  log_histogram lateness_;
};

}  // namespace tickwheel
