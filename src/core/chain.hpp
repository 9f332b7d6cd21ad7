// A list of entries.
#pragma once

#include <tickwheel/core/wheel_entry.hpp>

#include <boost/intrusive/list.hpp>

namespace tickwheel {

/// Its size is not kept: an entry that is destroyed leaves without the list being told.
struct chain
    : boost::intrusive::list<wheel_entry,
                             boost::intrusive::member_hook<wheel_entry, wheel_entry::hook, &wheel_entry::link_>,
                             boost::intrusive::constant_time_size<false>> {
  /// Unlinks the first entry, and has the next one fetched meanwhile. Requires: not empty.
  wheel_entry& take_front() noexcept {
    wheel_entry& e = front();
    pop_front();
    if (!empty()) __builtin_prefetch(&front(), 1);
    return e;
  }

  void take_all(chain& from) noexcept { splice(end(), from); }
};

}  // namespace tickwheel
