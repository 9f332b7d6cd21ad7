// What is behind a tw_service_t: the service itself, and who is told when what was closed.
//
// It is on the heap, so that the size of a timer_service is not part of the C interface, and lives until the close callback.
//
// Close callbacks come in the closing phase of the loop, as libuv's. For that a uv_idle_t is made and closed at once, one for all
// that is closed until then; it is never open, so that a walk over the loop finds nothing of it to close.
#pragma once

#include "timer.hpp"

#include <tickwheel/tickwheel.h>
#include <tickwheel/uv/timer_service.hpp>

#include <uv.h>
#include <boost/intrusive/list.hpp>

namespace tickwheel::c {

/// *Thread safety:* the loop thread.
class service_block {
 public:
  static int open(uv_loop_t& loop, tw_service_t& handle, const service_options& options) noexcept;

  /// Null when it was closed and its user was told: its memory, which is the user's by then, may still say so.
  static service_block* find(const tw_service_t& handle) noexcept {
    return static_cast<service_block*>(handle.private_[0]);
  }
  /// Null when it is closing, too.
  static service_block* find_open(const tw_service_t& handle) noexcept {
    service_block* const found = find(handle);
    return found != nullptr && !found->is_closing() ? found : nullptr;
  }
  /// Requires: it was opened, and not all closed since.
  static service_block& of(const tw_service_t* handle) noexcept {
    detail::require(handle != nullptr && find(*handle) != nullptr, "a tw_service_t was null, or closed");
    return *find(*handle);
  }

  service_block(const service_block&) = delete;
  service_block& operator=(const service_block&) = delete;

  timer_service& timers() noexcept { return timers_; }
  uv_loop_t& loop() noexcept { return loop_; }
  bool is_closing() const noexcept { return !timers_.is_open(); }
  /// Stops the process on another thread than the loop's. Of a service that is closing nobody knows any more whose it is.
  void check_thread() const noexcept {
    if (is_closing()) return;
    timers_.check_thread(
        "wrong thread: a service, or a timer of it, was used on a thread that does not run its loop "
        "(tw_service_use_on_this_thread hands it over)");
  }

  /// A timer of ours.
  void add(timer& t) noexcept { open_.push_back(t); }
  /// One that is to be closed; `timer::finish` ends it later.
  void close(timer& t) noexcept;
  void close(tw_service_close_cb told) noexcept;

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
};

}  // namespace tickwheel::c
