// Inspection of a wheel: `validate()` checks each invariant, and `dump()` prints the occupied slots.
#include <tickwheel/core/wheel.hpp>

#include "hierarchy.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <ostream>

namespace tickwheel {

namespace {

// Appends a sentence to `why`, if it is not null, with the next number in place of each %. Returns false. Streams would
// add 17 KB of code. With std::to_string the library would export a table of digits that belongs to the standard
// library.
[[gnu::cold, gnu::noinline]] bool say(std::string* why, const char* sentence,
                                      std::initializer_list<std::uint64_t> numbers = {}) {
  if (why == nullptr) return false;
  const std::uint64_t* next = numbers.begin();
  for (; *sentence != '\0'; ++sentence) {
    char digits[sizeof "18446744073709551615"]{*sentence};
    if (*sentence == '%') std::snprintf(digits, sizeof digits, "%" PRIu64, *next++);
    *why += digits;
  }
  return false;
}

}  // namespace

bool wheel::validate(std::string* why) const {
  if (why != nullptr) why->clear();

  if (expiry_ + at_end_of_time_ < now() || expiry_ > last_tick)
    return say(why, "next expiry %, expected now % or later", {expiry_, now()});
  if (ended() > arms() || lateness_.count() > ended()) return say(why, "more entries ended than were armed");

  std::size_t armed_seen = 0;
  tick earliest = never;  // earliest deadline of all armed entries
  const auto count_armed = [&](const wheel_entry& e) {
    if (!e.armed()) return;
    ++armed_seen;
    earliest = std::min(earliest, e.deadline_);
  };

  const bool immediates_are_right = levels_->immediate_entries.all_of([&](const chain& entries) {
    for (const wheel_entry& e : entries) {
      count_armed(e);
      if (!has_immediates_) return say(why, "an immediate is linked, expected none", {});
      if (e.visit_ != immediates::visit)
        return say(why, "an immediate with visit %, expected %", {e.visit_, immediates::visit});
    }
    return true;
  });
  if (!immediates_are_right) return false;
  if (has_immediates_) earliest = now();

  const backlog& left_over = levels_->left_over;
  for (const chain& entries : left_over.chains)
    for (const wheel_entry& e : entries) {
      count_armed(e);
      if (e.armed() && (e.deadline_ < e.visit_ || e.visit_ < left_over.since))
        return say(why, "backlog: an entry with visit %, deadline %, expected deadline >= visit >= %",
                   {e.visit_, e.deadline_, left_over.since});
    }
  if (!left_over.empty() && armed() != 0 && expiry_ > now())
    return say(why, "next expiry %, expected <= now % while entries are left over", {expiry_, now()});

  for (unsigned k = 0; k < levels_->count; ++k) {
    const wheel_level& level = levels_->coarse[k];
    const bool top = k + 1 == levels_->count;
    const auto& from = level.emptying;

    // a slot that is being emptied holds entries of its span; in the top level also those of later rounds
    std::size_t in_emptying = 0;
    for (const chain& entries : from.chains)
      for (const wheel_entry& e : entries) {
        ++in_emptying;
        count_armed(e);
        if (e.armed() && (e.visit_ < from.at || e.deadline_ < e.visit_ ||
                          (e.visit_ >> level.shift != from.at >> level.shift && !top)))
          return say(why, "level % slot to be empty by %: an entry with visit %, deadline %",
                     {k, from.at, e.visit_, e.deadline_});
      }
    if (!from.active() && in_emptying != 0)
      return say(why, "level % slot being emptied: % entries, but it is over", {k, in_emptying});
    if (in_emptying > from.left)
      return say(why, "level % slot being emptied: % entries, expected <= %", {k, in_emptying, from.left});
    if (from.active() && expiry_ > now() && from.due_by_pace() <= now())
      return say(why, "level % slot to be empty by %: % entries left at %, expected <= % by its pace",
                 {k, from.at, from.left, now(), from.rate * (from.at - now())});
    if (pass_ == nullptr && armed() != 0 && level.start_by > from.due)
      return say(why, "level % needs a visit at %, expected <= %, when its emptying is to go on",
                 {k, level.start_by, from.due});
    if (pass_ == nullptr && armed() != 0 && levels_->next_coarse->start_by > level.start_by)
      return say(why, "level % needs a visit at %, but level % counts as the first that does",
                 {k, level.start_by, static_cast<unsigned>(levels_->next_coarse - &levels_->coarse[0])});

    for (unsigned index = 0; index < level.slots; ++index) {
      const wheel_level::slot& slot = level.ring[index];
      std::size_t in_slot = 0;
      for (const chain& entries : level.chains_of(index))
        for (const wheel_entry& e : entries) {
          ++in_slot;
          if (e.visit_ < slot.first_visit && (e.armed() || e.visit_ > now()))
            return say(why, "level % slot %: an entry with visit %, expected visit >= the slot's first, %",
                       {k, index, e.visit_, slot.first_visit});
        }
      if (in_slot > slot.count)
        return say(why, "level % slot %: % entries, expected <= %", {k, index, in_slot, slot.count});
      if (slot.count == 0) continue;
      if (slot.count <= level.sparse && in_slot != slot.chains[0].size() && !levels_->holds_crowds(level))
        return say(why, "level % slot %: % entries in the first chain, expected all %",
                   {k, index, slot.chains[0].size(), in_slot});
      if (!level.occupied.test(index))
        return say(why, "level % slot %: count %, expected 0 where nothing is marked", {k, index, slot.count});
      if (slot.count > level.sparse && !level.keeps_together(index) && slot.first_visit >= cursor() &&
          slot.first_visit != level.begin_of_span(slot.first_visit))
        return say(why, "level % slot %: first visit % of % entries, expected the begin of a span",
                   {k, index, slot.first_visit, slot.count});
      if (pass_ != nullptr || armed() == 0) continue;
      // No level is started later than any of its slots requires, also while one of them is being emptied. A slot that
      // comes before that one is sparse, so that it takes one step.
      const wheel_level::candidate need = level.candidate_of(index, cursor());
      if (level.start_by > need.start_by)
        return say(why, "level % must be started by %, but its slot % by %", {k, level.start_by, index, need.start_by});
      if (from.active() && need.visit < from.at && slot.count > level.sparse && !level.keeps_together(index))
        return say(why, "level % slot to be empty by %: slot % with % entries is to be emptied before, at %",
                   {k, from.at, index, slot.count, need.visit});
    }
  }

  unsigned k = 0;
  const bool slots_are_right = levels_->all_of([&](auto& level) {
    const bool top = k + 1 == geometry_.levels;
    for (unsigned index = 0; index < level.slots; ++index)
      for (const chain& entries : level.chains_of(index))
        for (const wheel_entry& e : entries) {
          count_armed(e);
          const auto at = [&](const char* expected, std::uint64_t number = 0) {
            say(why, "level % slot %: an entry with visit %, deadline %, expected ", {k, index, e.visit_, e.deadline_});
            return say(why, expected, {number});
          };
          // Cancelled entries that time has passed may leave with a crowd. They do not matter here or below, because no
          // call arms them where they are.
          const bool passed = !e.armed() && e.visit_ <= now();
          if (level.index_of(e.visit_) != index && !passed) return at("in slot %", level.index_of(e.visit_));
          if (!level.occupied.test(index)) return at("the slot marked as occupied");
          if (e.armed() && e.deadline_ < e.visit_) return at("deadline >= visit");
          if (e.armed() && e.visit_ < cursor()) return at("visit >= cursor %", cursor());
          // One turn of a ring holds each span once, so that no two share a slot. The top level is hashed, and exempt.
          if (e.visit_ > now() && !top && (e.visit_ >> level.shift) - (cursor() >> level.shift) >= level.slots)
            return at("less than a turn ahead of cursor %", cursor());
        }
    if constexpr (requires { level.emptying; }) {
      ++k;
    } else if (pass_ == nullptr) {
      for (unsigned index = 0; index < level.slots; ++index)
        if (const std::size_t in_slot = level.ring[index].entries.size(); in_slot > level.ring[index].count())
          return say(why, "level % slot %: % entries, expected <= %", {k, index, in_slot, level.ring[index].count()});
      if (const tick need = level.next_visit(cursor()); armed() != 0 && level.start_by > need)
        return say(why, "level %: next visit at %, expected <= %", {k, level.start_by, need});
    }
    return true;
  });
  if (!slots_are_right) return false;

  if (armed_seen != armed()) return say(why, "% entries count as armed, but % are linked", {armed(), armed_seen});
  if (pass_ == nullptr && armed() != 0 && expiry_ > now() && expiry_ > levels_->start_by())
    return say(why, "next expiry %, but the levels need a visit at %", {expiry_, levels_->start_by()});
  const tick next = expiry_ <= now() || has_immediates_ ? left_over_since() : expiry_;
  if (pass_ == nullptr && armed() != 0 && next > earliest)
    return say(why, "next expiry %, expected <= the earliest deadline %", {next, earliest});
  return true;
}

void wheel::dump(std::ostream& out) const {
  out << "wheel: " << geometry_.levels << " x " << geometry_.slots << " slots, now " << now() << ", cursor " << cursor()
      << ", armed " << armed() << " (armed " << counts().armed << ", cancelled " << counts().cancelled << ", fired "
      << counts().fired << " in all)\n";
  if (!levels_->left_over.empty()) out << "  left over: due since " << levels_->left_over.since << '\n';
  for (unsigned k = 0; k < levels_->count; ++k) {
    const wheel_level& level = levels_->coarse[k];
    if (level.emptying.active())
      out << "  level " << k << " emptying: empty by " << level.emptying.at << ", entries <= " << level.emptying.left
          << '\n';
  }
  unsigned k = 0;
  levels_->all_of([&](auto& level) {
    constexpr bool coarse = requires { level.emptying; };
    const char* const crowds = coarse && k < levels_->first ? " crowds," : "";
    for (unsigned index = 0; index < level.slots; ++index)
      if (level.occupied.test(index)) {
        out << "  level " << k << crowds << " slot " << index;
        if constexpr (coarse)
          out << ": first visit " << level.ring[index].first_visit << ", entries <= " << level.ring[index].count;
        out << '\n';
      }
    if constexpr (coarse) ++k;
    return true;
  });
}

}  // namespace tickwheel
