// A wheel holds wheel_entry objects. Embed one in the object that waits, and give it a function to call.
//
// Use it with a bare `wheel`: in a simulation, or in an event loop of your own. In a libuv server use `timer`, which is
// a wheel_entry that knows its service.
//
//   struct job : tickwheel::wheel_entry {
//     job() : wheel_entry{[](wheel_entry& e) noexcept { static_cast<job&>(e).run(); }} {}
//     void run() noexcept;
//   };
#pragma once

#include <tickwheel/core/detail/check.hpp>
#include <tickwheel/core/ticks.hpp>

#include <boost/intrusive/list_hook.hpp>

namespace tickwheel {

class wheel;
struct chain;
struct chain_group;
struct finest_level;
class immediates;
struct coarse_slot;
struct wheel_level;

/// One deadline in a wheel. It consists of a list hook, the deadline, the tick at which its slot is visited, and the
/// callback.
///
/// - *Thread safety:* none. One thread uses a wheel and its entries.
/// - *Complexity:* O(1), also to destroy a linked entry.
/// - *Errors:* none.
/// - *Lifetime:* the caller owns the entry, which must not move. Destroying an armed entry stops the process. A
///   cancelled entry may be destroyed at any time: while it is still linked, and after its wheel.
class wheel_entry {
 public:
  /// Called with the entry that expired, which is already unarmed and unlinked. The callback may arm or destroy it. It
  /// may also arm, cancel or destroy any other entry. The wheel does not touch the entry afterwards.
  using callback = void (*)(wheel_entry&) noexcept;

  /// Requires: `run` is not null.
  explicit wheel_entry(callback run) noexcept : run_{run} {}
  ~wheel_entry() { detail::require(!armed(), "a wheel_entry was destroyed while armed; cancel it first"); }

  wheel_entry(const wheel_entry&) = delete;
  wheel_entry& operator=(const wheel_entry&) = delete;

  /// Returns true from `wheel::arm` until the entry fires, is cancelled, or its wheel is cleared or destroyed.
  bool armed() const noexcept { return deadline_ != never; }

  /// Returns the tick at which the entry is due, or `never` if it is not armed.
  tick deadline() const noexcept { return deadline_; }

  /// Returns the callback that the constructor was given.
  callback handler() const noexcept { return run_; }

 private:
  friend class wheel;
  friend struct chain;
  friend struct chain_group;
  friend struct finest_level;
  friend class immediates;
  friend struct wheel_level;

  // auto_unlink: destroying a linked entry takes O(1) and needs no wheel
  using hook = boost::intrusive::list_member_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

  hook link_;
  tick deadline_ = never;
  tick visit_ = never;  // tick of the visit of its slot, not after the deadline; `never`: not linked
  callback run_;
};

static_assert(sizeof(void*) != 8 || sizeof(wheel_entry) <= 40, "an entry shares the cache line of the object it is in");

}  // namespace tickwheel
