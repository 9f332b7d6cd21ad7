// A SQLite VFS that can lose power. It keeps what was written since the last sync of a file in memory. At the loss it drops, cuts or
// reorders these writes, and kills the process.
#pragma once

#include <cstdint>

namespace crash {

struct power_loss_options {
  std::uint64_t seed = 1;
  std::uint64_t at = 0;      ///< the loss comes with this write or sync; 0: never
  std::uint64_t errors = 0;  ///< one of so many writes fails, and more syncs, while `allow_errors` allows it; 0: none
};

/// Makes it the default VFS, on top of the system's. Call it before a database is opened. Returns false if it cannot.
bool install_power_loss(const power_loss_options&);

/// Writes and syncs may fail from now on, or not any more. At first they do not.
void allow_errors(bool are_allowed) noexcept;

}  // namespace crash
