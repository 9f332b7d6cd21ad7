// Tells whether this process is the child of a fork.
#pragma once

#include <uv.h>

namespace tickwheel::durable::detail {

/// Remembers the process that made it. A child of a fork has copies of all objects, but only the thread that forked.
///
/// *Thread safety:* any thread.
class fork_check {
 public:
  /// Returns true in a child of the process that made this object.
  bool is_in_child() const noexcept { return uv_os_getpid() != made_by_; }

 private:
  uv_pid_t made_by_ = uv_os_getpid();
};

}  // namespace tickwheel::durable::detail
