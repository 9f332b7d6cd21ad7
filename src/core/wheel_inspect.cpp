// What a wheel says of itself: validate() states each invariant once, dump() shows the slots.
#include <tickwheel/core/wheel.hpp>

#include "wheel_level.hpp"

#include <algorithm>
#include <ostream>
#include <sstream>

namespace tickwheel {

bool wheel::validate(std::string* why) const {
  std::ostringstream broken;
  const auto fails = [&](auto&&... words) {
    if (why != nullptr) {
      broken.str({});
      (broken << ... << words);
      *why = broken.str();
    }
    return false;
  };

  if (cursor_ > now_) return fails("cursor ", cursor_, " is ahead of now ", now_);
  if (ended_ > arms_ || fired_ > ended_) return fails("more entries ended than were armed");

  std::size_t armed_seen = 0;
  tick earliest = never;  // deadline of all that is armed
  for (unsigned k = 0; k < geometry_.levels; ++k) {
    wheel_level& level = levels_[k];
    const bool top = k + 1 == geometry_.levels;
    const auto& from = level.draining;

    // a drain holds entries of its own span, and in the top level those of later rounds
    std::size_t in_drain = 0;
    for (const wheel_level::chain& chain : from.chains)
      for (const wheel_entry& e : chain) {
        ++in_drain;
        if (!e.armed()) continue;
        ++armed_seen;
        earliest = std::min(earliest, e.deadline_);
        if (e.visit_ < from.at || e.deadline_ < e.visit_ || (e.visit_ >> level.shift != from.at >> level.shift && !top))
          return fails("level ", k, " drain due at ", from.at, ": an entry with visit ", e.visit_, ", deadline ",
                       e.deadline_);
      }
    if (!from.active() && in_drain != 0) return fails("level ", k, " drain: ", in_drain, " entries, but it is over");
    if (in_drain > from.left) return fails("level ", k, " drain: ", in_drain, " entries, expected <= ", from.left);

    for (unsigned index = 0; index < level.slots; ++index) {
      const wheel_level::slot& slot = level.info[index];
      std::size_t in_slot = 0;
      for (unsigned i = 0; i < level.chains(); ++i)
        for (const wheel_entry& e : level.chains_of(index)[i]) {
          ++in_slot;
          const auto at = [&](auto&&... expected) {
            return fails("level ", k, " slot ", index, ": an entry with visit ", e.visit_, ", deadline ", e.deadline_,
                         ", expected ", expected...);
          };
          if (level.index_of(e.visit_) != index) return at("in slot ", level.index_of(e.visit_));
          if (e.visit_ < slot.first_visit && (e.armed() || e.visit_ > now_))
            return at("visit >= the slot's first, ", slot.first_visit);
          if (e.armed()) {
            ++armed_seen;
            earliest = std::min(earliest, e.deadline_);
            if (e.deadline_ < e.visit_) return at("deadline >= visit");
            if (e.visit_ < cursor_) return at("visit >= cursor ", cursor_);
          }
          // One turn of a ring holds each span once, so that no two share a slot. The top level is hashed, and exempt;
          // here as above so are dead links that time went over, as nothing arms them where they are.
          if (e.visit_ > now_ && !top && (e.visit_ >> level.shift) - (cursor_ >> level.shift) >= level.slots)
            return at("less than a turn ahead of cursor ", cursor_);
        }
      if (in_slot > slot.count)
        return fails("level ", k, " slot ", index, ": ", in_slot, " entries, expected <= ", slot.count);
      if (in_slot != 0 && !level.occupied.test(index))
        return fails("level ", k, " slot ", index, ": ", in_slot, " entries, but not marked occupied");
      if (slot.count != 0 && !level.occupied.test(index))
        return fails("level ", k, " slot ", index, ": count ", slot.count, ", expected 0 where nothing is marked");
    }

    const tick need = from.active() ? from.attention() : level.next_slot(cursor_, unsigned(-1)).visit;
    if (pass_ == nullptr && armed() != 0 && attention_[k] > need)
      return fails("level ", k, ": next visit at ", attention_[k], ", expected <= ", need);
  }

  if (armed_seen != armed()) return fails(armed(), " entries count as armed, but ", armed_seen, " are linked");
  if (pass_ == nullptr && armed() != 0 && expiry_ > earliest)
    return fails("next expiry ", expiry_, ", expected <= the earliest deadline ", earliest);
  return true;
}

void wheel::dump(std::ostream& out) const {
  out << "wheel: " << geometry_.levels << " x " << geometry_.slots << " slots, now " << now_ << ", cursor " << cursor_
      << ", armed " << armed() << " (armed " << counts().armed << ", cancelled " << counts().cancelled << ", fired "
      << counts().fired << " in all)\n";
  for (unsigned k = 0; k < geometry_.levels; ++k) {
    const wheel_level& level = levels_[k];
    if (level.draining.active())
      out << "  level " << k << " draining: empty by " << level.draining.at << ", entries <= " << level.draining.left
          << '\n';
    for (unsigned index = 0; index < level.slots; ++index)
      if (level.occupied.test(index))
        out << "  level " << k << " slot " << index << ": first visit " << level.info[index].first_visit
            << ", entries <= " << level.info[index].count << '\n';
  }
}

}  // namespace tickwheel
