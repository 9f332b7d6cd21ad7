// What a wheel says of itself: validate() states each invariant once, dump() shows the slots.
#include <tickwheel/core/wheel.hpp>

#include "hierarchy.hpp"

#include <algorithm>
#include <cinttypes>
#include <concepts>
#include <cstdio>
#include <initializer_list>
#include <ostream>

namespace tickwheel {

namespace {

// A piece of a sentence. (Streams of any number of any kind of pieces took 17 KB of code.)
struct word {
  word(const char* t) noexcept : text{t} {}  // NOLINT(google-explicit-constructor)
  template <std::unsigned_integral N>
  word(N n) noexcept : number{n} {}  // NOLINT(google-explicit-constructor)

  const char* text = nullptr;  // null: the number
  std::uint64_t number = 0;
};

// Not by std::to_string: with it the library exports a table of digits that is the standard library's.
void append(std::string& sentence, std::initializer_list<word> words) {
  for (const word& w : words) {
    char digits[sizeof "18446744073709551615"];
    if (w.text == nullptr) std::snprintf(digits, sizeof digits, "%" PRIu64, w.number);
    sentence += w.text != nullptr ? w.text : digits;
  }
}

}  // namespace

bool wheel::validate(std::string* why) const {
  const auto fails = [&](std::initializer_list<word> words) {
    if (why != nullptr) {
      why->clear();
      append(*why, words);
    }
    return false;
  };

  if (expiry_ + at_end_of_time_ < now() || expiry_ > last_tick)
    return fails({"next expiry ", expiry_, ", expected now ", now(), " or later"});
  if (ended_ > arms_ || lateness_.count() > ended_) return fails({"more entries ended than were armed"});

  std::size_t armed_seen = 0;
  tick earliest = never;  // deadline of all that is armed
  const auto count_armed = [&](const wheel_entry& e) {
    if (!e.armed()) return;
    ++armed_seen;
    earliest = std::min(earliest, e.deadline_);
  };

  const bool immediates_are_right = levels_->at_once.all_of([&](const chain& entries) {
    for (const wheel_entry& e : entries) {
      count_armed(e);
      if (!has_immediates_) return fails({"an immediate is linked, expected none"});
      if (e.visit_ != immediates::visit)
        return fails({"an immediate with visit ", e.visit_, ", expected ", immediates::visit});
    }
    return true;
  });
  if (!immediates_are_right) return false;
  if (has_immediates_) earliest = now();

  for (unsigned i = 0; i < levels_->count; ++i) {
    const wheel_level& level = levels_->coarse[i];
    const unsigned k = levels_->first + i;
    const bool top = i + 1 == levels_->count;
    const auto& from = level.draining;

    // a drain holds entries of its own span, and in the top level those of later rounds
    std::size_t in_drain = 0;
    for (const chain& entries : from.chains)
      for (const wheel_entry& e : entries) {
        ++in_drain;
        count_armed(e);
        if (e.armed() && (e.visit_ < from.at || e.deadline_ < e.visit_ ||
                          (e.visit_ >> level.shift != from.at >> level.shift && !top)))
          return fails(
              {"level ", k, " drain due at ", from.at, ": an entry with visit ", e.visit_, ", deadline ", e.deadline_});
      }
    if (!from.active() && in_drain != 0) return fails({"level ", k, " drain: ", in_drain, " entries, but it is over"});
    if (in_drain > from.left) return fails({"level ", k, " drain: ", in_drain, " entries, expected <= ", from.left});
    if (from.active() && expiry_ > now() && from.due_by_pace() <= now())
      return fails({"level ", k, " drain due at ", from.at, ": ", from.left, " entries left at ", now(),
                    ", expected <= ", from.rate * (from.at - now()), " by its pace"});
    if (pass_ == nullptr && armed() != 0 && level.attention > from.due)
      return fails({"level ", k, " needs a visit at ", level.attention, ", expected <= ", from.due,
                    ", when its drain is to go on"});
    if (pass_ == nullptr && armed() != 0 && levels_->next_coarse->attention > level.attention)
      return fails({"level ", k, " needs a visit at ", level.attention, ", but level ",
                    levels_->first + static_cast<unsigned>(levels_->next_coarse - &levels_->coarse[0]),
                    " counts as the first that does"});

    for (unsigned index = 0; index < level.slots; ++index) {
      const wheel_level::slot& slot = level.ring[index];
      std::size_t in_slot = 0;
      for (const chain& entries : level.chains_of(index))
        for (const wheel_entry& e : entries) {
          ++in_slot;
          if (e.visit_ < slot.first_visit && (e.armed() || e.visit_ > now()))
            return fails({"level ", k, " slot ", index, ": an entry with visit ", e.visit_,
                          ", expected visit >= the slot's first, ", slot.first_visit});
        }
      if (in_slot > slot.count)
        return fails({"level ", k, " slot ", index, ": ", in_slot, " entries, expected <= ", slot.count});
      if (slot.count == 0) continue;
      if (!level.occupied.test(index))
        return fails({"level ", k, " slot ", index, ": count ", slot.count, ", expected 0 where nothing is marked"});
      if (slot.count > 1 && slot.first_visit >= cursor() && slot.first_visit != level.begin_of_span(slot.first_visit))
        return fails({"level ", k, " slot ", index, ": first visit ", slot.first_visit, " of ", slot.count,
                      " entries, expected the begin of a span"});
      if (pass_ != nullptr || armed() == 0) continue;
      // No level needs attention later than any of its slots, also while one of them is being emptied. Of those that
      // come before that one, each has at most one entry, so that it takes one visit.
      const wheel_level::prospect need = level.prospect_of(index, cursor());
      if (level.attention > need.attention)
        return fails(
            {"level ", k, " needs attention at ", level.attention, ", but its slot ", index, " at ", need.attention});
      if (from.active() && need.visit < from.at && slot.count > 1)
        return fails({"level ", k, " drain due at ", from.at, ": slot ", index, " with ", slot.count,
                      " entries is to be emptied before, at ", need.visit});
    }
  }

  unsigned k = 0;
  const bool slots_are_right = levels_->all_of([&](auto& level) {
    const bool top = k + 1 == geometry_.levels;
    for (unsigned index = 0; index < level.slots; ++index)
      for (const chain& entries : level.chains_of(index))
        for (const wheel_entry& e : entries) {
          count_armed(e);
          const auto at = [&](std::initializer_list<word> expected) {
            fails({"level ", k, " slot ", index, ": an entry with visit ", e.visit_, ", deadline ", e.deadline_,
                   ", expected "});
            if (why != nullptr) append(*why, expected);
            return false;
          };
          if (level.index_of(e.visit_) != index) return at({"in slot ", level.index_of(e.visit_)});
          if (!level.occupied.test(index)) return at({"the slot marked as occupied"});
          if (e.armed() && e.deadline_ < e.visit_) return at({"deadline >= visit"});
          if (e.armed() && e.visit_ < cursor()) return at({"visit >= cursor ", cursor()});
          // One turn of a ring holds each span once, so that no two share a slot. The top level is hashed, and exempt;
          // here as above so are dead links that time went over, as nothing arms them where they are.
          if (e.visit_ > now() && !top && (e.visit_ >> level.shift) - (cursor() >> level.shift) >= level.slots)
            return at({"less than a turn ahead of cursor ", cursor()});
        }
    if (pass_ == nullptr && armed() != 0)
      if constexpr (requires { level.next_visit(tick{}); })
        if (const tick need = level.next_visit(cursor()); level.attention > need)
          return fails({"level ", k, ": next visit at ", level.attention, ", expected <= ", need});
    ++k;
    return true;
  });
  if (!slots_are_right) return false;

  if (armed_seen != armed()) return fails({armed(), " entries count as armed, but ", armed_seen, " are linked"});
  if (pass_ == nullptr && armed() != 0 && expiry_ > now() && expiry_ > levels_->attention())
    return fails({"next expiry ", expiry_, ", but the levels need a visit at ", levels_->attention()});
  const tick next = expiry_ <= now() || has_immediates_ ? cursor() : expiry_;
  if (pass_ == nullptr && armed() != 0 && next > earliest)
    return fails({"next expiry ", next, ", expected <= the earliest deadline ", earliest});
  return true;
}

void wheel::dump(std::ostream& out) const {
  out << "wheel: " << geometry_.levels << " x " << geometry_.slots << " slots, now " << now() << ", cursor " << cursor()
      << ", armed " << armed() << " (armed " << counts().armed << ", cancelled " << counts().cancelled << ", fired "
      << counts().fired << " in all)\n";
  for (unsigned i = 0; i < levels_->count; ++i) {
    const wheel_level& level = levels_->coarse[i];
    if (level.draining.active())
      out << "  level " << levels_->first + i << " draining: empty by " << level.draining.at
          << ", entries <= " << level.draining.left << '\n';
  }
  unsigned k = 0;
  levels_->all_of([&](auto& level) {
    for (unsigned index = 0; index < level.slots; ++index)
      if (level.occupied.test(index)) {
        out << "  level " << k << " slot " << index;
        if constexpr (requires { level.draining; })
          out << ": first visit " << level.ring[index].first_visit << ", entries <= " << level.ring[index].count;
        out << '\n';
      }
    ++k;
    return true;
  });
}

}  // namespace tickwheel
