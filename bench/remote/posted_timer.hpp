// The node of the subjects that lock, in place of tickwheel's: an operation to queue, and the timer that is made of it.
#pragma once

#include <tickwheel/uv/timer.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <type_traits>

namespace tickwheel::bench {

/// A deadline, and any callable of up to 48 bytes: as much as remote_handle::post_at takes without a second allocation.
struct posted {
  template <class F>
  posted(clock::time_point when, F call) noexcept
      : due{when}, run{[](void* at) noexcept { (*std::launder(static_cast<F*>(at)))(); }} {
    static_assert(std::is_trivially_copyable_v<F> && sizeof(F) <= sizeof callable);
    ::new (static_cast<void*>(callable)) F(call);
  }

  clock::time_point due;
  void (*run)(void*) noexcept;
  alignas(std::max_align_t) std::byte callable[48];
};

/// Is armed in a service until it is due. Then it runs, and frees itself. One allocation, as tickwheel's node.
class posted_timer : private timer {
 public:
  static void arm(timer_service& in, const posted& what) noexcept {
    auto* const made = new (std::nothrow) posted_timer{in, what};
    if (made == nullptr || made->arm_at(what.due) != 0) std::abort();
  }

 private:
  posted_timer(timer_service& in, const posted& what) noexcept : timer{in, &run}, what_{what} {}

  static void run(wheel_entry& entry) noexcept {
    auto* const self = static_cast<posted_timer*>(&timer::from(entry));
    self->what_.run(self->what_.callable);
    delete self;
  }

  posted what_;
};

}  // namespace tickwheel::bench
