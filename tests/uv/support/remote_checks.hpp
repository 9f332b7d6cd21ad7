// Checks that tests of remote_handle and remote_timer share.
#pragma once

#include <tickwheel/uv/remote.hpp>

#include "../../support/prelude.hpp"

#include <cstring>

/// A callable that counts its calls in `into`.
inline auto count_in(int& into) {
  return [&into]() noexcept { ++into; };
}

/// A callable that does nothing.
inline constexpr auto nothing = []() noexcept {};

/// Each accepted operation ran, was cancelled by its remote_timer, or was counted by close. Requires: the service is closed.
inline testing::AssertionResult remote_adds_up(const tickwheel::timer_service& closed) {
  const auto& s = closed.stats();
  if (s.remote_accepted == s.remote_ran + s.remote_withdrawn + s.remote_cancelled) return testing::AssertionSuccess();
  return testing::AssertionFailure() << s.remote_accepted << " accepted, but " << s.remote_ran << " ran, "
                                     << s.remote_withdrawn << " withdrawn and " << s.remote_cancelled << " cancelled";
}

/// A cancel of an armed timer on a thread that is interrupted between its two halves.
class cancel_in_steps {
 public:
  explicit cancel_in_steps(tickwheel::remote_timer& timer) {
    static_assert(sizeof(parts_) == sizeof timer);
    std::memcpy(&parts_, &timer, sizeof timer);
  }

  /// Returns true if the cancel wins.
  bool win() {
    using tickwheel::detail::operation_state;
    return parts_.posted->change(operation_state::armed, operation_state::cancelled);
  }
  /// Pushes the notice.
  void tell_loop() { parts_.queue->notify(*parts_.posted); }

 private:
  struct {
    tickwheel::detail::posted_operation* posted;
    tickwheel::detail::post_queue* queue;
  } parts_;
};
