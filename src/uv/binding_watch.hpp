// Whether a service is still the one that began a pass, after handlers have run which may do anything.
#pragma once

#include <tickwheel/uv/driver.hpp>

#include <cstdint>

namespace tickwheel {

/// *Thread safety:* the loop thread. *Lifetime:* that of the driver, which outlives a pass.
class binding_watch {
 public:
  /// Requires: somebody is bound to `on`.
  explicit binding_watch(const driver& on) noexcept : driver_{on}, binding_{on.bindings()} {}

  /// True when a handler has closed the service, and maybe opened it again, or destroyed it: nothing of it may be touched.
  /// Asked of the driver alone, as another service may stand there by then, which is as old as that one was.
  bool ended() const noexcept { return driver_.bound() == nullptr || driver_.bindings() != binding_; }

 private:
  const driver& driver_;
  const std::uint64_t binding_;
};

}  // namespace tickwheel
