#include <tickwheel/core/wheel.hpp>

#include "wheel_level.hpp"

#include <algorithm>
#include <bit>

namespace tickwheel {

namespace {

// How many occupied slots a level looks at to find its next visit before it settles for "look again then". A level of
// up to 64 slots always knows.
constexpr unsigned look_ahead = 64;
constexpr unsigned unlimited_slots = ~0U;

// A visit to a slot that is emptied ahead of its time moves at least so many entries: in smaller steps the steps
// themselves would become wakeups.
constexpr std::size_t drain_step = 128;

}  // namespace

// The advance that is running. It lives on the stack, so that it outlives a wheel destroyed by a callback.
struct wheel::pass {
  std::size_t work;
  std::size_t ran = 0;
  bool cancelled = false;  // the wheel was cleared or destroyed: touch nothing of it
};

wheel::wheel(wheel_geometry geometry, tick now) : cursor_{std::min(now, last_tick)}, geometry_{geometry} {
  detail::require(geometry.valid(),
                  "wheel: bad geometry: levels >= 1, slots a power of two (>= 4 with several levels), span <= 64 bits");
  set_now(cursor_);
  levels_ = std::make_unique<wheel_level[]>(geometry.levels);
  attention_ = std::make_unique<tick[]>(geometry.levels);
  for (unsigned k = 0; k < geometry.levels; ++k) {
    levels_[k].reset(geometry, k);
    attention_[k] = never;
  }
  for (unsigned width = 0; width <= 64; ++width) {
    unsigned k = 0;
    while (k + 1 < geometry.levels && width > geometry.slot_bits() + geometry.width_bits(k)) ++k;
    level_of_width_[width] = static_cast<unsigned char>(k);
  }
}

wheel::~wheel() {
  clear([](wheel_entry&) noexcept {});
}

bool wheel::relink(wheel_entry& e) noexcept {
  e.link_.unlink();
  return place(e);
}

// Links `e` to the lowest level that reaches its deadline: one whose slot for it is fewer than a full turn ahead, so
// that no two spans share a slot. The highest level takes what is farther away, too; its entries wait for their round.
// True when the wheel may need its next visit earlier for it.
bool wheel::place(wheel_entry& e) noexcept {
  const tick deadline = e.deadline_;
  unsigned k = level_of_width_[std::bit_width(deadline - cursor_)];
  if (k + 1 < geometry_.levels && (deadline >> levels_[k].shift) - (cursor_ >> levels_[k].shift) >= geometry_.slots)
    ++k;
  const tick attention = levels_[k].link(e, deadline, turn_++);
  attention_[k] = std::min(attention_[k], attention);
  const bool sooner = attention < expiry_;
  if (sooner) expiry_ = attention;
  return sooner || !expiry_exact_;
}

advance_result wheel::run_pass(tick now, std::size_t work) noexcept {
  detail::require(pass_ == nullptr, "wheel::advance was called from a callback of the same wheel");
  set_now(std::max(now_, std::min(now, last_tick)));
  if (armed() == 0) {
    skip_idle_time();
    sweep(work);
    return {0, true};
  }

  pass running{.work = work};
  pass_ = &running;
  for (;;) {
    // the level with the earliest need; of equals the highest, since emptying it may add to the lower ones
    unsigned k = 0;
    for (unsigned i = 1; i < geometry_.levels; ++i)
      if (attention_[i] <= attention_[k]) k = i;
    expiry_ = attention_[k];
    if (expiry_ > now_) break;

    wheel_level& level = levels_[k];
    cursor_ = std::max(cursor_, attention_[k]);
    if (!level.draining.active()) {
      // looking at all slots when the few that come next do not decide keeps a jump over empty turns from walking them
      if (level.next.index == slot_bitmap::none) attention_[k] = level.find_next(cursor_, unlimited_slots);
      if (attention_[k] > now_) continue;
      level.begin_drain();
    }
    if (!drain(k, running)) {
      if (running.cancelled) return {running.ran, true};
      expiry_ = std::min(attention_[k], now_);  // the bound was reached: work is left
      break;
    }
    // the end of time: what was armed meanwhile is due at once, and waits for the next call
    if (cursor_ == last_tick && k == 0) {
      expiry_ = *std::min_element(&attention_[0], &attention_[0] + geometry_.levels);
      break;
    }
  }
  pass_ = nullptr;

  expiry_exact_ = geometry_.slots <= look_ahead;
  const bool done = expiry_ > now_;
  if (done) cursor_ = now_;
  return {running.ran, done};
}

// Empties the drain of level `k`: wholly when its time has come, else as far as its pace asks for. False when the work
// bound was reached or a callback cancelled the pass.
bool wheel::drain(unsigned k, pass& running) noexcept {
  wheel_level& level = levels_[k];
  wheel_level::drain& from = level.draining;
  if (from.at <= now_) {
    from.keep = 0;
  } else if (!from.in_step) {
    const tick room = from.at - now_ - 1;
    from.keep = room >= from.left / from.rate ? from.left : static_cast<std::size_t>(room) * from.rate;
    from.keep = std::min(from.keep, from.left - std::min(from.left, drain_step));
  }
  from.in_step = true;

  while (wheel_level::chain* chain = from.next_chain()) {
    if (from.keep != 0 && from.left <= from.keep) {
      from.in_step = false;
      attention_[k] = from.attention();
      return true;
    }
    if (running.work == 0) {
      attention_[k] = std::min(from.attention(), now_);  // a step begun is finished, though its pace may allow more
      return false;
    }
    --running.work;
    if (from.left != 0) --from.left;

    wheel_entry& e = chain->front();
    chain->pop_front();
    if (!chain->empty()) __builtin_prefetch(&chain->front(), 1);
    if (e.deadline_ == never) {
      e.visit_ = never;
    } else if (e.deadline_ <= now_) {
      ++running.ran;
      fire(e);
      if (running.cancelled) return false;
    } else {
      place(e);
    }
  }
  level.end_drain();
  attention_[k] = level.find_next(cursor_, look_ahead);
  return true;
}

void wheel::fire(wheel_entry& e) noexcept {
  lateness_.record(now_ - e.deadline_);
  e.deadline_ = never;
  e.visit_ = never;
  ++fired_;
  ++ended_;
  if (fire_hook_ != nullptr) [[unlikely]]
    fire_hook_(fire_context_, e);
  e.run_(e);
}

// Nothing is armed, so nothing that is linked matters: the cursor jumps. The dead links stay where they are until their
// slot comes round, or until `sweep` gets to them.
void wheel::skip_idle_time() noexcept {
  cursor_ = now_;
  for (unsigned k = 0; k < geometry_.levels; ++k)
    if (levels_[k].draining.active()) levels_[k].undo_drain();
  find_attention();
}

// Requires: no drain is going on.
void wheel::find_attention() noexcept {
  expiry_ = never;
  expiry_exact_ = geometry_.slots <= look_ahead;
  for (unsigned k = 0; k < geometry_.levels; ++k) {
    attention_[k] = levels_[k].find_next(cursor_, look_ahead);
    expiry_ = std::min(expiry_, attention_[k]);
  }
}

void wheel::sweep(std::size_t work) noexcept {
  if (armed() != 0 || work == 0 || empty()) return;
  for (unsigned k = 0; k < geometry_.levels; ++k) {
    wheel_level& level = levels_[k];
    if (level.draining.active()) level.undo_drain();
    for (unsigned index; work != 0 && (index = level.occupied.distance_from(0)) != slot_bitmap::none;) {
      wheel_level::chain* chains = level.chains_of(index);
      unsigned dry = 0;
      for (unsigned i = 0; dry < level.chains() && work != 0; i = (i + 1) & (level.chains() - 1)) {
        if (chains[i].empty()) {
          ++dry;
          continue;
        }
        dry = 0;
        --work;
        wheel_entry& e = chains[i].front();
        chains[i].pop_front();
        e.visit_ = never;
      }
      if (dry == level.chains()) {
        level.info[index] = {};
        level.occupied.clear(index);
      }
    }
  }
  find_attention();
}

void wheel::cancel_pass() noexcept {
  if (pass_ == nullptr) return;
  pass_->cancelled = true;
  pass_ = nullptr;
}

// Unlinks entries until one of them was armed, and returns that one; null when nothing is linked any more.
wheel_entry* wheel::detach_one() noexcept {
  const auto take = [this](wheel_level::chain& chain) noexcept -> wheel_entry* {
    while (!chain.empty()) {
      wheel_entry& e = chain.front();
      chain.pop_front();
      e.visit_ = never;
      if (cancel(e)) return &e;
    }
    return nullptr;
  };
  for (unsigned k = 0; k < geometry_.levels; ++k) {
    wheel_level& level = levels_[k];
    if (level.draining.active()) level.undo_drain();
    for (unsigned index; (index = level.occupied.distance_from(0)) != slot_bitmap::none;) {
      for (unsigned i = 0; i < level.chains(); ++i)
        if (wheel_entry* e = take(level.chains_of(index)[i])) return e;
      level.info[index] = {};
      level.occupied.clear(index);
    }
  }
  skip_idle_time();
  return nullptr;
}

bool wheel::empty() const noexcept {
  for (unsigned k = 0; k < geometry_.levels; ++k)
    if (levels_[k].draining.active() || levels_[k].occupied.distance_from(0) != slot_bitmap::none) return false;
  return true;
}

void wheel::refine_expiry() const noexcept {
  expiry_ = never;
  for (unsigned k = 0; k < geometry_.levels; ++k) {
    const wheel_level& level = levels_[k];
    expiry_ = std::min(expiry_, level.draining.active() ? level.draining.attention()
                                                        : level.next_slot(cursor_, unlimited_slots).attention);
  }
  expiry_exact_ = true;
}

void wheel::walk_armed(void (*visit)(void*, wheel_entry&), void* context) const {
  const auto walk = [&](wheel_level::chain& chain) {
    for (wheel_entry& e : chain)
      if (e.armed()) visit(context, e);
  };
  for (unsigned k = 0; k < geometry_.levels; ++k) {
    wheel_level& level = levels_[k];
    for (wheel_level::chain& chain : level.draining.chains) walk(chain);
    for (unsigned i = 0; i < level.slots << level.chain_bits; ++i) walk(level.lists[i]);
  }
}

}  // namespace tickwheel
