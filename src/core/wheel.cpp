#include <tickwheel/core/wheel.hpp>

#include "hierarchy.hpp"

#include <algorithm>
#include <utility>

namespace tickwheel {

// Functions that every entry passes through are `inline`. Rarely called functions are `cold`: they are compiled for
// size.

// The running advance. It lives on the stack, so that it outlives a wheel that a callback destroys.
struct wheel::pass {
  tick now;
  tick cursor;                // the slot that is being visited
  std::size_t work;           // visits that may follow
  std::size_t work_left = 0;  // visits that may not follow, because the pass was stopped
  std::size_t ran = 0;
  bool cancelled = false;  // a callback cleared or destroyed the wheel
  bool destroyed = false;  // a callback destroyed the wheel: do not touch it

  std::size_t unused_work() const noexcept { return work + work_left; }
};

namespace {

const wheel_geometry& checked(const wheel_geometry& geometry) noexcept {
  detail::require(geometry.valid(),
                  "wheel: bad geometry: levels >= 1, slots a power of two (>= 4 with several levels), span <= 64 bits");
  return geometry;
}

}  // namespace

[[gnu::cold]] wheel::wheel(wheel_geometry geometry, tick now)
    : levels_{std::make_unique<hierarchy>(checked(geometry))},
      lowest_{levels_->lowest},
      coarse_from_{geometry.levels > 1 ? levels_->finest.reach : tick{1} << 63},
      geometry_{geometry} {
  coarse_begin_ = coarse_from_;
  set_now(std::min(now, last_tick));
  set_expiry(last_tick);
}

[[gnu::cold]] wheel::~wheel() {
  if (pass_ != nullptr) pass_->destroyed = true;
  clear([](wheel_entry&) noexcept {});
}

// Arms `e` for the deadline that can be given and is nearest to `deadline`.
[[gnu::cold]] bool wheel::arm_in_range(wheel_entry& e, tick deadline) noexcept {
  return arm_counted(e, std::clamp(deadline, earliest_, last_tick));
}

// Takes an entry out of its slot, if it is in one, and links it.
bool wheel::relink(wheel_entry& e, tick deadline, tick ahead) noexcept {
  if (e.visit_ != never) e.link_.unlink();
  return link(e, deadline, ahead);
}

// Links `e`, which is due `ahead` ticks after `earliest_`. Returns true if `next_expiry()` may have become earlier. The
// rare cases end in a tail call, and compute the cursor again. So the common cases save no registers, which saves a
// tenth of the cost of arming.
inline bool wheel::link(wheel_entry& e, tick deadline, tick ahead) noexcept {
  // negative for the finest level, for a hashed wheel, and if very far ahead
  const auto beyond_finest = static_cast<std::int64_t>(ahead - coarse_begin_);
  if (beyond_finest >= 0) {
    wheel_level& level = *lowest_;
    coarse_slot& slot = level.slot_of(deadline);
    const tick begin = level.begin_of_span(deadline);
    // A slot whose first visit is `begin` has entries of this span, and takes one more. So the level's reach is compared
    // only if there is no such slot.
    if (!level.only_adds(slot, begin)) return link_coarse(e, deadline, slot);
    wheel_level::add(slot, e, begin);
    return expiry_is_bound_;
  }
  finest_level& finest = levels_->finest;
  if (static_cast<tick>(beyond_finest) + finest.reach >= finest.reach) return link_far(e, deadline);
  return finest.link(e, deadline) ? expect_visit(deadline) : move_crowd(e, deadline);
}

// Same as `link`, beyond the finest level. `slot` is the one in the lowest coarse level, if that level reaches so far.
[[gnu::noinline]] bool wheel::link_coarse(wheel_entry& e, tick deadline, coarse_slot& slot) noexcept {
  wheel_level& level = *lowest_;
  if (deadline - earliest_ - coarse_begin_ >= level.reach) return link_far(e, deadline);
  return level.link(slot, e, deadline) ? bring_forward(level, e) : expiry_is_bound_;
}

// With `e` its finest slot becomes a crowd, which moves to the ring of crowds. Entries that are linked to the slot
// later stay there until they are a crowd of their own.
[[gnu::cold]] bool wheel::move_crowd(wheel_entry& e, tick deadline) noexcept {
  finest_level& from = levels_->finest;
  wheel_level& to = levels_->crowds();
  from.put(e, deadline);
  if (!to.take_crowd(from.slot_at(deadline), pace.finest_crowd, deadline, cursor())) return expect_visit(deadline);
  from.clear_slot(from.index_of(deadline));
  return bring_forward(to, e);
}

// The next slot of the ring of crowds must be started. Its entries stay together until they are due, as long as no
// entry of a sample was cancelled or moved later. Visiting live entries twice made a burst slower by 40 %. Returns
// false if the slot is to be emptied at a pace.
[[gnu::cold]] bool wheel::visit_crowds(wheel_level& crowds, tick cursor) noexcept {
  const unsigned index = crowds.next.index;
  const auto still_due = [&](wheel_entry& e) noexcept {
    return e.deadline_ == e.visit_ && (move_hook_ == nullptr || move_hook_(move_context_, e) == e.deadline_);
  };
  const std::span<chain> from = crowds.chains_of(index);
  const bool live = !crowds.undone && std::all_of(from.begin(), from.end(), [&](chain& entries) noexcept {
    return all_of_sample(entries, still_due);
  });
  if (!live && !crowds.keeps_together(index)) return false;
  for (chain& entries : from) {
    if (entries.empty()) continue;
    if (const tick due = entries.front().visit_; !live || due <= cursor) levels_->left_over.add(entries, due);
  }
  crowds.keep_together(index, cursor + std::min(pace.ticks_between_samples, never - cursor));
  crowds.find_next(cursor, pace.look_ahead);
  levels_->find_next_coarse();
  return true;
}

bool wheel::link_far(wheel_entry& e, tick deadline) noexcept {
  if (wheel_level& level = *lowest_; level.shift == 0)
    return level.link_in_any_turn(e, deadline) ? bring_forward(level, e) : expiry_is_bound_;
  wheel_level& level = levels_->coarse_for(deadline, cursor());
  if (!level.reaches(deadline, cursor())) return link_later_round(level, e, deadline);
  return level.link(e, deadline) ? bring_forward(level, e) : expiry_is_bound_;
}

[[gnu::cold]] bool wheel::link_later_round(wheel_level& level, wheel_entry& e, tick deadline) noexcept {
  level.link_later_round(e, deadline, cursor());
  return bring_forward(level, e);
}

bool wheel::bring_forward(wheel_level& level, const wheel_entry& e) noexcept {
  return expect_visit(levels_->bring_forward(level, e, cursor()));
}

// A level must be visited at `start_by`. During a pass `expiry_` is not later than that. The end of the pass computes
// it. `expiry_` is at least now(), except at the end of time, where it is one tick before: see `note_expiry`.
inline bool wheel::expect_visit(tick start_by) noexcept {
  const bool sooner = start_by < expiry_;
  if (sooner) expiry_ = std::max(start_by, earliest_ - 1);
  return sooner || expiry_is_bound_;
}

advance_result wheel::run_pass(tick now, std::size_t work, std::size_t* unused) noexcept {
  detail::require(pass_ == nullptr, "wheel::advance was called from a callback of the same wheel");
  const tick from = cursor();
  if (now < earliest_ || now >= last_tick) [[unlikely]]
    return run_pass_at_rest(now, work, unused);
  earliest_ = now + 1;
  return run_pass_from<false>(from, now, work, unused);
}

// Time stands still, or ends.
[[gnu::cold]] advance_result wheel::run_pass_at_rest(tick now, std::size_t work, std::size_t* unused) noexcept {
  const tick from = cursor();
  now = std::max(this->now(), std::min(now, last_tick));
  set_now(now);
  return run_pass_from<true>(from, now, work, unused);
}

// Without `may_end` time does not reach its end.
template <bool may_end>
inline advance_result wheel::run_pass_from(tick from, tick now, std::size_t work, std::size_t* unused) noexcept {
  set_cursor(from, now);
  if (armed() == 0) {
    skip_idle_time();
    sweep(work);
    return {0, true};
  }

  pass running{.now = now, .cursor = from, .work = work};
  const bool done = visit_all<may_end>(running);
  if (unused != nullptr) *unused = running.unused_work();
  return {running.ran, done};
}

// Returns true if nothing due is left.
template <bool may_end>
inline bool wheel::visit_all(pass& running) noexcept {
  const tick now = running.now;
  pass_ = &running;
  expiry_ = now;
  hierarchy& levels = *levels_;
  backlog& left_over = levels.left_over;
  if (!left_over.empty() && left_over.goes_first() && !visit_backlog(running)) return end_cut_short(running);
  tick next;
  for (;;) {
    next = visit_slots<may_end>(running);
    if (running.cancelled) [[unlikely]]
      return end_cancelled(running);
    if (left_over.empty()) [[likely]]
      break;
    // the backlog may add entries to the slots; at the end of time those slots may be due again
    if (!visit_backlog(running) || next <= now) return end_cut_short(running);
  }
  pass_ = nullptr;

  if (next <= now) {
    set_expiry(next);
    return false;
  }
  // as `set_expiry`, with what is known here
  coarse_begin_ = coarse_from_;
  expiry_ = may_end && at_end_of_time_ ? last_tick - 1 : std::min(next, last_tick);
  expiry_is_bound_ = geometry_.slots > pace.look_ahead;
  return true;
}

// Ends a pass that must be continued by another call.
[[gnu::cold]] bool wheel::end_cut_short(const pass& running) noexcept {
  if (running.cancelled) return end_cancelled(running);
  pass_ = nullptr;
  set_expiry(0);
  return false;
}

[[gnu::cold]] bool wheel::end_cancelled(const pass& running) noexcept {
  if (running.destroyed) return true;
  pass_ = nullptr;
  set_expiry(levels_->expiry());
  return armed() == 0 || expiry_ > running.now;
}

// Visits the slots whose time has come. Stops when the work bound is reached or a callback cancels the pass. Returns
// the tick of the next visit.
template <bool may_end>
[[gnu::always_inline]] inline tick wheel::visit_slots(pass& running) noexcept {
  hierarchy& levels = *levels_;
  tick next;
  while ((next = levels.start_by()) <= running.now) {
    running.cursor = std::max(running.cursor, next);
    set_cursor(running.cursor, running.now);
    // coarse slots first, because emptying them may add entries to the finest level
    const bool coarse = levels.next_coarse->start_by == next;
    if (!(coarse ? visit_coarse(*levels.next_coarse, running) : visit_finest<may_end>(running)))
      return running.cancelled ? 0 : levels.start_by();
    // at the end of time a new entry is due at once; it waits for the next call
    if (may_end && running.cursor == last_tick && (!coarse || levels.first == 0)) return levels.start_by();
  }
  return next;
}

// Visits the backlog. Returns false if the work bound ended the visit or a callback cancelled the pass.
[[gnu::cold]] bool wheel::visit_backlog(pass& running) noexcept {
  return take_from(levels_->left_over, running.work, running);
}

// Sets `expiry_` to `next`. The levels know of no earlier visit, but may not have examined every slot.
void wheel::set_expiry(tick next) noexcept {
  note_expiry(next);
  expiry_is_bound_ = geometry_.slots > pace.look_ahead;
}

// At the end of time each `advance` must look for due entries, also if it is given an earlier tick. During a pass no
// `advance` may take the fast path.
void wheel::note_expiry(tick next) const noexcept {
  expiry_ = at_end_of_time_ ? last_tick - 1 : pass_ != nullptr ? now() : std::clamp(next, now(), last_tick);
}

// Visits the slot of the cursor, from both ends, so that the cache misses of two entries overlap. With a million timers and
// a tick of 1 ms this halves the cost of firing. Returns false under the same conditions as `visit_backlog`.
template <bool may_end>
inline bool wheel::visit_finest(pass& running) noexcept {
  finest_level& level = levels_->finest;
  const tick cursor = running.cursor;
  chain& slot = level.slot_at(cursor);
  if (may_end && cursor == last_tick) [[unlikely]]
    return visit_end_of_time(running);
  const std::size_t granted = running.unused_work();
  if (slot.empty()) [[unlikely]] {  // its entries were destroyed or moved
    if (running.work == 0) return false;
    --running.work;
  } else {
    bool back = false;
    do {
      if (running.work == 0) return end_cut_visit(running, granted);
      --running.work;
      wheel_entry& e = back ? slot.take_back() : slot.take_front();
      back = !back;
      if (!take(e, running)) return false;
    } while (slot.begin() != slot.end());  // same as `empty()`, for a list that was in use
  }
  level.end_visit(cursor);
  return true;
}

// Same as `visit_finest`, at the end of time. A new entry is due in this same slot. A mark keeps it for the next call.
[[gnu::cold]] bool wheel::visit_end_of_time(pass& running) noexcept {
  finest_level& level = levels_->finest;
  chain& slot = level.slot_at(last_tick);
  {
    wheel_entry mark{nullptr};
    mark.visit_ = last_tick;
    slot.push_back(mark);
    while (&slot.front() != &mark) {
      if (running.work == 0) return false;
      --running.work;
      if (!take(slot.take_front(), running)) return false;
    }
  }  // the mark leaves the list here
  if (slot.empty()) level.end_visit(last_tick);
  return true;
}

// The work bound ended a visit to the finest slot of the cursor. `granted` visits were left when it began. The rest of a
// crowd moves to the backlog, so that it does not delay later slots. Returns false, as the other visits do.
[[gnu::cold]] bool wheel::end_cut_visit(const pass& running, std::size_t granted) noexcept {
  finest_level& level = levels_->finest;
  const tick cursor = running.cursor;
  if (levels_->left_over.record_cut(cursor, granted - running.unused_work()) >= pace.crowd) {
    levels_->left_over.add(level.slot_at(cursor), cursor);
    level.end_visit(cursor);
  }
  return false;
}

// Visits a coarse level: starts its next slot, or continues the slot that is being emptied. Returns false under the
// same conditions as `visit_backlog`.
inline bool wheel::visit_coarse(wheel_level& level, pass& running) noexcept {
  const tick cursor = running.cursor;
  if (level.next.start_by <= cursor && level.next_precedes_emptying()) {
    if (level.next.index == slot_bitmap::none) {
      // search all slots, so that a jump over empty turns does not walk them
      level.find_next(cursor, wheel_level::unlimited_slots);
      levels_->find_next_coarse();
      return true;
    }
    if (running.work == 0) return false;
    if (levels_->holds_crowds(level)) {
      if (visit_crowds(level, cursor)) return true;
    } else if (level.next_is_sparse()) {
      return visit_sparse(level, running);
    }
    if (!level.being_emptied()) {
      level.begin_emptying(cursor);
      if (level.emptying.due > cursor) {  // it starts gently
        levels_->find_next_coarse();
        return true;
      }
    }
  }
  return running.work != 0 && empty_further(level, running);
}

// Visits the next slot of a coarse level, which is sparse. It may come before a slot that is being emptied. Fires one entry,
// after all others have left. They move on, or go to the finest slot of the cursor, which is visited next: those that are
// due as well, and those that the work bound leaves over. Returns false if the callback cancelled the pass.
bool wheel::visit_sparse(wheel_level& level, pass& running) noexcept {
  chain entries;
  level.take_sparse(entries, running.cursor);
  levels_->find_next_coarse();
  if (entries.empty()) --running.work;  // a slot without entries counts as one visit
  wheel_entry* first_due = nullptr;
  while (!entries.empty()) {
    wheel_entry& e = entries.take_front();
    const bool due = e.deadline_ <= running.now;
    if (running.work == 0 || (due && first_due != nullptr)) {
      levels_->finest.link_now(e, running.cursor);
      continue;
    }
    --running.work;
    if (due)
      first_due = &e;
    else
      move_out_of_line(e);
  }
  if (first_due == nullptr) return true;
  ++running.ran;
  fire(*first_due, running.now);
  return !running.cancelled;
}

// Empties a slot of a coarse level: completely if its time has come, otherwise as far as its pace requires. Returns
// false under the same conditions as `visit_backlog`.
bool wheel::empty_further(wheel_level& level, pass& running) noexcept {
  wheel_level::emptying_slot& from = level.emptying;
  const std::size_t step = from.begin_step(running.now);
  const std::size_t unused = running.unused_work();
  const bool dry = take_from(from, std::min(step, running.work), running);
  if (running.cancelled) return false;
  if (running.unused_work() == unused) --running.work;  // a slot without entries counts as one visit
  const std::size_t visits = unused - running.unused_work();
  from.left -= std::min(from.left, visits);

  const bool bound_reached = !dry && visits != step;
  if (dry) {
    level.end_emptying();
  } else if (bound_reached) {
    end_cut_step(level, running.now);
  } else {
    from.end_step();
  }
  level.update_start_by();
  levels_->find_next_coarse();
  return !bound_reached;
}

// The work bound ended a step before its end. No slot may wait for the rest of a crowd whose time has come.
[[gnu::cold]] void wheel::end_cut_step(wheel_level& level, tick now) noexcept {
  wheel_level::emptying_slot& from = level.emptying;
  if (from.at > now || from.left < pace.crowd) {
    from.due = std::min(from.due_by_pace(), now);
    return;
  }
  for (chain& entries : from.chains)
    if (!entries.empty()) levels_->left_over.add(entries, from.at);
  level.end_emptying();
}

// Takes up to `granted` entries and counts them as work. Returns true if none is left. After a callback has cancelled
// the pass, the caller must not touch `from`. Requires: the work bound allows so many.
bool wheel::take_from(chain_group& from, std::size_t granted, pass& running) noexcept {
  // until the first due entry; from then on each entry is unlinked before its callback, which may destroy the others
  const std::size_t moved = from.take_until_due(granted, running.now, [&](wheel_entry& e) noexcept { move(e); });
  running.work -= moved;
  for (std::size_t left = granted - moved;; --left) {
    chain* const next = from.next_chain();
    if (next == nullptr) return true;
    if (left == 0 || running.work == 0) return false;
    --running.work;
    if (!take(next->take_front(), running)) return false;
  }
}

// Visits one entry. Returns false if its callback cancelled the pass.
inline bool wheel::take(wheel_entry& e, pass& running) noexcept {
  if (e.deadline_ <= running.now) {
    ++running.ran;
    fire(e, running.now);
    return !running.cancelled;
  }
  move_out_of_line(e);
  return true;
}

// Rare for entries of a finest slot. In line, it would take registers there.
[[gnu::noinline]] void wheel::move_out_of_line(wheel_entry& e) noexcept { move(e); }

// Moves an entry that was taken from its slot to its next slot, or drops it if it was cancelled.
inline void wheel::move(wheel_entry& e) noexcept {
  if (e.deadline_ == never) {
    e.visit_ = never;
    return;
  }
  if (move_hook_ != nullptr) e.deadline_ = std::clamp(move_hook_(move_context_, e), e.deadline_, last_tick);
  link(e, e.deadline_, e.deadline_ - earliest_);
}

inline void wheel::fire(wheel_entry& e, tick now) noexcept {
  const tick deadline = e.deadline_;
  lateness_.record(now - deadline);
  e.deadline_ = never;
  e.visit_ = never;
  ++ended_;
  if (fire_hook_ != nullptr) fire_hook_(fire_context_, e, deadline);
  e.run_(e);
}

void wheel::arm_immediate(wheel_entry& e, tick since) noexcept {
  e.link_.unlink();
  if (!e.armed()) ++arms_;
  e.deadline_ = since;
  levels_->immediate_entries.add(e);
  has_immediates_ = true;
}

bool wheel::is_immediate(const wheel_entry& e) noexcept { return e.armed() && e.visit_ == immediates::visit; }

bool wheel::immediates_wait() const noexcept { return levels_->immediate_entries.has_ready(); }

bool wheel::collect_immediates() noexcept {
  if (!has_immediates_) return false;
  levels_->immediate_entries.collect();
  has_immediates_ = levels_->immediate_entries.has_ready();  // an immediate that was armed anew for later has left
  return has_immediates_;
}

bool wheel::in_immediate_round() const noexcept { return levels_->immediate_entries.in_round(); }

advance_result wheel::run_immediates(tick now, std::size_t work) noexcept {
  detail::require(pass_ == nullptr, "wheel::run_immediates was called from a callback of the same wheel");
  immediates& immediate_entries = levels_->immediate_entries;
  pass running{.now = now, .cursor = cursor(), .work = work};
  pass_ = &running;
  while (immediate_entries.has_ready() && running.work != 0) {
    --running.work;
    wheel_entry& e = immediate_entries.take();
    if (!e.armed()) continue;
    ++running.ran;
    fire(e, std::max(now, e.deadline_));
    if (running.destroyed) return {running.ran, true};
  }
  pass_ = nullptr;
  if (running.cancelled) set_expiry(levels_->expiry());
  has_immediates_ = !immediate_entries.empty();
  return {running.ran, !immediate_entries.has_ready()};
}

// No entry is armed, so the cursor jumps. Cancelled entries stay linked until their slot comes round or `sweep` drops
// them.
[[gnu::cold]] void wheel::skip_idle_time() noexcept {
  levels_->undo_emptying();
  coarse_begin_ = coarse_from_;
  find_start_by();
}

// Requires: no slot is being emptied.
void wheel::find_start_by() noexcept {
  levels_->find_start_by(cursor(), pace.look_ahead);
  set_expiry(levels_->expiry());
}

// Drops up to `work` entries, of each chain those before the first armed one. A slot without entries counts as one, and armed
// entries of a slot count as `armed_slot`. Returns true if none is left.
[[gnu::cold]] bool wheel::drop_cancelled(std::span<chain> slot, std::size_t& work) noexcept {
  const std::size_t allowed = work;
  bool live = false;
  for (bool dry = false; !dry;) {
    dry = true;
    for (chain& entries : slot) {  // in turn, to overlap their cache misses
      if (entries.empty()) continue;
      if (entries.front().armed()) {
        live = true;
        continue;
      }
      if (work == 0) return false;
      dry = false;
      --work;
      entries.take_front().visit_ = never;
    }
  }
  if (live)
    work -= std::min(work, pace.armed_slot);
  else if (work == allowed)
    --work;
  return !live;
}

[[gnu::cold]] void wheel::sweep(std::size_t work) noexcept {
  if (work == 0 || pass_ != nullptr) return;
  hierarchy& levels = *levels_;
  if (armed() == 0) {
    levels.undo_emptying();
    levels.all_outside_slots([&](chain& entries) noexcept {
      for (; !entries.empty() && work != 0; --work) entries.take_front().visit_ = never;
      return work != 0;
    });
    has_immediates_ = !levels.immediate_entries.empty();
  } else {
    if (!levels.left_over.empty()) return;
    if (expiry_is_bound_) refine_expiry();
    const std::span<chain> next = levels.next_slot();
    if (next.empty() || !drop_cancelled(next, work)) return;  // the next visit has an armed entry, or continues a slot
  }
  levels.all_of([&](auto& level) noexcept {
    const auto begin = level.index_of(cursor()), end = begin + level.slots;
    for (unsigned at = begin; work != 0 && (at = level.occupied.next_between(at, end)) != slot_bitmap::none; ++at) {
      const unsigned index = at & (level.slots - 1);
      if (drop_cancelled(level.chains_of(index), work)) level.clear_slot(index);
    }
    return work != 0;
  });
  find_start_by();
}

void wheel::cancel_pass() noexcept { pass_->cancelled = true; }

void wheel::stop_pass() noexcept {
  detail::require(pass_ != nullptr, "wheel::stop_pass was called while nothing runs");
  pass_->work_left += std::exchange(pass_->work, 0);
}

// Unlinks entries until it has unlinked one that was armed, and returns that one. Returns null if no entry is linked
// any more.
[[gnu::cold]] wheel_entry* wheel::detach_one(position& from) noexcept {
  wheel_entry* found = nullptr;
  const auto detach_up_to_armed = [&](chain& entries) noexcept {
    while (!entries.empty()) {
      wheel_entry& e = entries.take_front();
      e.visit_ = never;
      if (cancel(e)) {
        found = &e;
        return false;
      }
    }
    return true;
  };
  levels_->undo_emptying();
  if (!levels_->all_outside_slots(detach_up_to_armed)) return found;
  has_immediates_ = false;
  unsigned k = 0;
  levels_->all_of([&](auto& level) noexcept {
    if (k++ < from.level) return true;
    for (; (from.index = level.occupied.next_between(from.index, level.slots)) != slot_bitmap::none;
         level.clear_slot(from.index))
      for (chain& entries : level.chains_of(from.index))
        if (!detach_up_to_armed(entries)) return false;
    from = {k, 0};
    return true;
  });
  if (found == nullptr) skip_idle_time();
  return found;
}

[[gnu::cold]] bool wheel::empty() const noexcept {
  const auto all_empty = [](std::span<const chain> chains) noexcept {
    return std::all_of(chains.begin(), chains.end(), [](const chain& entries) noexcept { return entries.empty(); });
  };
  return levels_->immediate_entries.empty() && all_empty(levels_->left_over.chains) &&
         levels_->all_of([&](auto& level) noexcept {
           if (!all_empty(level.chains_being_emptied())) return false;
           for (unsigned index = 0; (index = level.occupied.next_between(index, level.slots)) != slot_bitmap::none;
                ++index)
             if (!all_empty(level.chains_of(index))) return false;
           return true;
         });
}

// Returns a lower bound of the deadlines of all entries that are due.
[[gnu::cold]] tick wheel::left_over_since() const noexcept {
  return levels_->left_over.empty() ? cursor() : std::min(cursor(), levels_->left_over.since);
}

// The levels must also know the result: `link` leaves `expiry_` unchanged if the level has no earlier visit. In a pass the
// bound stays one, because the end of the pass sets it.
void wheel::refine_expiry() const noexcept {
  if (pass_ != nullptr) return;
  if (!levels_->know_next()) levels_->find_start_by(cursor(), wheel_level::unlimited_slots);
  note_expiry(levels_->expiry());
  expiry_is_bound_ = false;
}

[[gnu::cold]] void wheel::walk_armed(void (*visit)(void*, wheel_entry&), void* context) const {
  const auto walk = [&](chain& entries) {
    for (wheel_entry& e : entries)
      if (e.armed()) visit(context, e);
    return true;
  };
  levels_->all_outside_slots(walk);
  levels_->all_of([&](auto& level) {
    for (chain& entries : level.chains_being_emptied()) walk(entries);
    for (unsigned index = 0; index < level.slots; ++index)
      for (chain& entries : level.chains_of(index)) walk(entries);
    return true;
  });
}

}  // namespace tickwheel
