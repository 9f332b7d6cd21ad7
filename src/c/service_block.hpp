// The object behind a tw_service_t: the service, and the close callbacks that are still to be called.
//
// It is on the heap, so that the size of a timer_service is not part of the C interface. It lives until the service's close
// callback.
//
// Close callbacks run in the closing phase of the loop, as in libuv. For that, a uv_idle_t is made and closed at once, one for
// all handles that are closed until then. It is never open, so a walk over the loop does not find it as a handle to close.
#pragma once

#include "timer.hpp"

#include <tickwheel/tickwheel.h>
#include <tickwheel/uv/timer_service.hpp>

#include <uv.h>
#include <boost/intrusive/list.hpp>

namespace tickwheel::c {

/// A service, its timers, and those of them that are closing.
///
/// *Thread safety:* the loop thread.
class service_block {
 public:
  [[nodiscard]] static int open(uv_loop_t& loop, tw_service_t& handle, const service_options& options) noexcept;

  /// Returns the block, or null if the service was closed and its user was told. After that the memory is the user's, but may
  /// still hold null.
  static service_block* find(const tw_service_t& handle) noexcept {
    return static_cast<service_block*>(handle.private_[0]);
  }
  /// Returns the block, or null if the service is closing or closed.
  static service_block* find_open(const tw_service_t& handle) noexcept {
    service_block* const found = find(handle);
    return found != nullptr && !found->is_closing() ? found : nullptr;
  }
  /// Returns the block. Requires: the service was opened, and its close callback was not called (checked).
  static service_block& of(const tw_service_t* handle) noexcept {
    detail::require(handle != nullptr && find(*handle) != nullptr, "a tw_service_t was null, or closed");
    return *find(*handle);
  }

  service_block(const service_block&) = delete;
  service_block& operator=(const service_block&) = delete;

  timer_service& timers() noexcept { return timers_; }
  const timer_service& timers() const noexcept { return timers_; }
  uv_loop_t& loop() noexcept { return loop_; }
  bool is_closing() const noexcept { return !timers_.is_open(); }
  /// Stops the process if the calling thread is not the loop's. Does nothing for a closing service, because its thread is no
  /// longer known.
  void check_thread() const noexcept {
    if (!is_closing()) timers_.check_thread();
  }

  /// Adds a timer of this service.
  void add(timer& t) noexcept { open_.push_back(t); }
  /// Starts to close a timer. `timer::finish` ends it later.
  void close(timer& t) noexcept;
  void close(tw_service_close_cb told) noexcept;
  /// Calls `slow` for each slow handler from now on, unless it is null.
  void on_slow_handler(tw_slow_handler_cb slow) noexcept;

 private:
  using timer_list = boost::intrusive::list<timer>;

  service_block(uv_loop_t& loop, tw_service_t& handle) noexcept : loop_{loop}, handle_{handle} {}
  ~service_block() = default;

  void call_later() noexcept;
  void call() noexcept;
  void finish() noexcept;

  uv_loop_t& loop_;
  tw_service_t& handle_;
  timer_service timers_;
  timer_list open_, closed_;
  uv_idle_t closer_{};
  bool called_later_ = false;
  tw_service_close_cb told_ = nullptr;
  tw_slow_handler_cb slow_ = nullptr;
};

}  // namespace tickwheel::c
