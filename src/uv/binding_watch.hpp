// Tells whether a service is still the one that began a pass, because handlers that have run may do anything.
#pragma once

#include <tickwheel/uv/driver.hpp>

#include <cstdint>

namespace tickwheel {

/// Notices when a driver's binding ends.
///
/// *Thread safety:* the loop thread. *Lifetime:* that of the driver, which outlives a pass.
class binding_watch {
 public:
  /// Watches the current binding. Requires: a client is bound to `on`.
  explicit binding_watch(const driver& on) noexcept : driver_{on}, binding_{on.bindings()} {}

  /// Returns true if a handler has closed the service (and maybe opened it again) or destroyed it. Then no part of it may be
  /// touched. Only the driver is asked, because a new service may stand at the same address by then.
  bool ended() const noexcept { return driver_.bound() == nullptr || driver_.bindings() != binding_; }

 private:
  const driver& driver_;
  const std::uint64_t binding_;
};

}  // namespace tickwheel
