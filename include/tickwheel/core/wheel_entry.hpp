// A wheel_entry is what a wheel holds: embed one in the object that waits, and give it a function to call.
//
// Use it with a bare `wheel`, that is in a simulation, or to drive a wheel from an event loop of your own. In a libuv
// server use `timer`, which is a wheel_entry that knows its service.
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
struct wheel_level;

/// One deadline in a wheel: a list hook, the deadline, the tick at which its slot will be visited, and the callback.
///
/// *Thread safety:* none; one thread uses a wheel and its entries. *Complexity:* O(1), destroying one that is linked included.
/// *Errors:* none. *Lifetime:* the entry is the caller's memory and stays where it is; it must not be armed when destroyed
/// (checked). A cancelled one may be, whether or not it is still linked, and whether or not its wheel still exists.
class wheel_entry {
 public:
  /// Called with the entry that expired, which is already unarmed and unlinked. The callback may arm it, destroy it, and arm,
  /// cancel or destroy any other. The wheel touches nothing of the entry afterwards.
  using callback = void (*)(wheel_entry&) noexcept;

  /// Requires: `run` is not null.
  explicit wheel_entry(callback run) noexcept : run_{run} {}
  ~wheel_entry() { detail::require(!armed(), "a wheel_entry was destroyed while armed; cancel it first"); }

  wheel_entry(const wheel_entry&) = delete;
  wheel_entry& operator=(const wheel_entry&) = delete;

  /// True from `wheel::arm` until it fires, is cancelled, or its wheel is cleared or destroyed.
  bool armed() const noexcept { return deadline_ != never; }

  /// The tick it is due at; `never` when it is not armed.
  tick deadline() const noexcept { return deadline_; }

  /// What it was made with.
  callback handler() const noexcept { return run_; }

 private:
  friend class wheel;
  friend struct chain;
  friend struct chain_group;
  friend struct finest_level;
  friend class immediates;
  friend struct wheel_level;

  // auto_unlink, so that destroying an entry that is still linked costs O(1) and needs no wheel
  using hook = boost::intrusive::list_member_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

  hook link_;
  tick deadline_ = never;
  tick visit_ = never;  // when its slot is visited, at or before the deadline; `never`: linked nowhere
  callback run_;
};

static_assert(sizeof(void*) != 8 || sizeof(wheel_entry) <= 40, "an entry shares the cache line of the object it is in");

}  // namespace tickwheel
