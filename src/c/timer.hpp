// The object inside a tw_timer_t.
#pragma once

#include <tickwheel/tickwheel.h>
#include <tickwheel/core/detail/check.hpp>
#include <tickwheel/uv/detail/forwarding_timer.hpp>

#include <uv.h>
#include <boost/intrusive/list_hook.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>

namespace tickwheel::c {

class service_block;

/// Nanoseconds, with the type of the C interface.
using nanoseconds = std::uint64_t;
inline constexpr nanoseconds for_ever = std::numeric_limits<nanoseconds>::max();

constexpr nanoseconds from_ms(std::uint64_t ms) noexcept {
  return ms > for_ever / 1'000'000 ? for_ever : ms * 1'000'000;
}
constexpr nanoseconds to_ns(std::chrono::nanoseconds d) noexcept { return static_cast<std::uint64_t>(d.count()); }
constexpr std::uint64_t to_ms(nanoseconds ns) noexcept {
  return ns == for_ever ? for_ever : ns / 1'000'000 + (ns % 1'000'000 != 0);
}
constexpr std::chrono::nanoseconds to_chrono(nanoseconds ns) noexcept {
  constexpr auto most = static_cast<nanoseconds>(std::chrono::nanoseconds::max().count());
  return std::chrono::nanoseconds{static_cast<std::int64_t>(ns < most ? ns : most)};
}

/// Returns an address as the C interface shows it.
inline tw_handler_t to_c_handler(wheel_entry::callback handler) noexcept {
  return reinterpret_cast<tw_handler_t>(handler);
}
inline wheel_entry::callback from_c_handler(tw_handler_t handler) noexcept { return detail::id_of(handler); }

/// A timer with a repeat and a close callback.
///
/// *Thread safety:* the loop thread.
class timer final : private detail::forwarding_timer, public boost::intrusive::list_base_hook<> {
 public:
  static timer& make(service_block& of, tw_timer_t& handle) noexcept;

  /// Returns the timer in `handle`. Requires: it was initialised.
  static timer& of(tw_timer_t* handle) noexcept {
    detail::require(handle != nullptr, "a tw_timer_t was null");
    return *std::launder(reinterpret_cast<timer*>(&handle->private_));
  }
  static const timer& of(const tw_timer_t* handle) noexcept { return of(const_cast<tw_timer_t*>(handle)); }

  timer(const timer&) = delete;
  timer& operator=(const timer&) = delete;

  [[nodiscard]] int start(tw_timer_cb call, nanoseconds timeout, nanoseconds repeat) noexcept;
  void stop() noexcept;
  [[nodiscard]] int again() noexcept;
  void touch() noexcept;

  void set_repeat(nanoseconds repeat) noexcept;
  nanoseconds repeat() const noexcept { return repeat_; }
  nanoseconds due_in() const noexcept;

  using forwarding_timer::armed;
  using forwarding_timer::has_ref;
  void set_ref(bool on) noexcept;

  void close(tw_timer_close_cb told) noexcept;
  bool is_closing() const noexcept { return closing_; }

  /// The service is gone: forgets its block.
  void detach() noexcept { block_ = nullptr; }
  /// Destroys this object, and calls the user's close callback. Requires: it was closed, and is in no list.
  void finish() noexcept;

 private:
  explicit timer(service_block& of) noexcept;
  ~timer() = default;

  tw_timer_t* handle() noexcept {
    return reinterpret_cast<tw_timer_t*>(reinterpret_cast<std::byte*>(this) - offsetof(tw_timer_t, private_));
  }
  void check_thread() const noexcept;
  // The user's callback; null: never started.
  tw_timer_cb user_callback() const noexcept {
    return reinterpret_cast<tw_timer_cb>(reinterpret_cast<void (*)()>(target()));
  }
  static void expire(wheel_entry& entry) noexcept;

  service_block* block_;  // null once the block is gone
  uv_loop_t* loop_;
  clock::time_point due_{};  // exact; the wheel stores ticks
  nanoseconds waits_ = 0;    // the delay of the last arm: the timeout, or the repeat
  nanoseconds repeat_ = 0;
  tw_timer_close_cb told_ = nullptr;
  bool closing_ = false;
};

static_assert(sizeof(timer) <= sizeof(tw_timer_t::private_) && alignof(timer) <= alignof(tw_timer_t),
              "tickwheel.h sets aside too little");

}  // namespace tickwheel::c
