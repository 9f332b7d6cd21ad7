// A driver connects a timer_service with its event loop: it tells the time, and wakes the service.
//
// `timer_service::open(uv_loop_t&)` makes the driver of a libuv loop itself. `manual_driver` has a clock that a test moves by
// hand. Write one of your own to use a service on another event loop.
//
// A driver lets waiting I/O go first. When a wakeup is due, it takes a stamp of the time, lets the loop poll once and handle
// what it found, and then calls the service with the stamp. After a block one poll may leave input behind. The service then
// keeps the stamp and asks for further polls before it judges.
#pragma once

#include <tickwheel/core/export.h>

#include <chrono>
#include <cstdint>

extern "C" {
struct uv_handle_s;
struct uv_loop_s;
}

namespace tickwheel {

/// All times are on the steady clock, which nobody sets.
using clock = std::chrono::steady_clock;

/// *Thread safety:* the loop thread only, except `request_pass`, and `now` as it says there. *Complexity:* the functions that the
/// service calls with each arm and each pass are to be O(1). *Errors:* none. A driver fails, if at all, before it is bound.
/// *Lifetime:* outlives the service that is bound to it.
class TICKWHEEL_API driver {
 public:
  /// The part of a service that a driver calls.
  ///
  /// *Thread safety:* the loop thread only. *Complexity:* O(1), except `pass`, which runs as many handlers as the service's
  /// options allow. *Errors:* none. *Lifetime:* may end in a `pass`, which first unbinds it.
  class TICKWHEEL_API client {
   public:
    /// The loop runs again. Nobody ran it from `left` until `entered`: that time is no stall and no block. Requires: called right
    /// before `on_iteration`; `poll_ended_at()` is as it was at `left`, and answers `entered` afterwards.
    virtual void on_resumed(clock::time_point left, clock::time_point entered) noexcept = 0;
    /// An iteration of the loop begins, before it waits for I/O. `now` is the true time. Returns `due(now)`. Requires:
    /// `poll_ended_at()` is still that of the iteration that ends here.
    virtual bool on_iteration(clock::time_point now) noexcept = 0;
    /// A wakeup that `wake_at` asked for has come. Returns true if a pass is due. The driver then runs it after the next poll.
    /// Returns false if the wakeup was too early or no longer needed; the client has asked for its next one.
    virtual bool on_wakeup(clock::time_point now) noexcept = 0;
    /// Returns true if a pass is due at `now`.
    virtual bool due(clock::time_point now) const noexcept = 0;
    /// The loop has polled since it took `stamp`. Runs the timers that are due by then, unless input is left or work bounds are
    /// reached. Asks for the next wakeup or for another pass before it returns. May destroy the client.
    virtual void pass(clock::time_point stamp) noexcept = 0;
    /// `request_pass` was called, once or several times. The driver then runs a pass, whether or not one is `due`.
    virtual void on_pass_requested() noexcept = 0;
    /// Returns true if a stamp that is taken at `now`, the true time, would be judged after one poll. Returns false if the loop was
    /// blocked, because one poll may then leave input behind.
    virtual bool one_poll_is_enough(clock::time_point now) const noexcept = 0;

   protected:
    ~client() = default;
  };

  driver() = default;
  driver(const driver&) = delete;
  driver& operator=(const driver&) = delete;

  /// Returns the true time. May read the clock. Callable on any thread until the client is unbound, because a delay that another
  /// thread posts counts from its call.
  virtual clock::time_point now() noexcept = 0;
  /// Returns true if `now` is `clock::now()`: other threads can then read that without a lock.
  virtual bool on_steady_clock() const noexcept { return false; }
  /// Returns the address of a counter that changes each time the loop has polled. A stamp taken under an older value is stale. The
  /// address stays the same as long as the driver lives.
  virtual const std::uint64_t* epoch() const noexcept = 0;

  /// Returns when the last poll ended, or was to end, or a little later. Since then the loop has run callbacks or our passes, or
  /// was kept from running. May be ahead of `now` where the loop's own time is coarse. Not before the client was bound: a block
  /// from before that is none of its stalls.
  virtual clock::time_point poll_ended_at() const noexcept = 0;

  /// Returns how much later than the true time `poll_ended_at` may answer.
  virtual std::chrono::nanoseconds poll_ended_error() const noexcept { return {}; }

  /// Says whether a poll has left input behind.
  enum class unread : std::uint8_t {
    unknown,    ///< this driver cannot tell: a poll during which no timer was touched then counts as quiet
    nothing,    ///< no descriptor of the loop is ready
    something,  ///< some descriptor is ready
  };
  /// Looks for descriptors that are ready now. May make a system call. The service asks once when it is opened, and then only
  /// after a block.
  virtual unread left_unread() noexcept { return unread::unknown; }

  /// Returns true if callbacks of the user may run between `client::on_iteration` and the poll, and the poll may end without a
  /// change of `epoch`. The service then keeps no stamp that was taken in between.
  virtual bool turns_early() const noexcept { return false; }

  /// Calls `client::on_wakeup` once `when` has come. Replaces an earlier request. A driver that cannot be exact may be early: the
  /// client then asks again. Callable in any phase of the loop.
  virtual void wake_at(clock::time_point when) noexcept = 0;
  /// As `wake_at(when)`. `now` is the true time, which was just read: a driver that needs it is spared a read.
  virtual void wake_at_as_of([[maybe_unused]] clock::time_point now, clock::time_point when) noexcept { wake_at(when); }
  /// No wakeup is needed. One that was asked for may still come.
  virtual void cancel_wakeup() noexcept = 0;
  /// Calls `client::pass` after a poll that does not wait. The wakeup that `wake_at` asked for stays.
  virtual void pass_soon() noexcept { continue_pass(); }
  /// Calls `client::pass` again after a poll that does not wait: work is left, or a call was posted meanwhile without a request.
  /// Replaces the wakeup that `wake_at` asked for. Stays due until that pass, also if `hold_loop(false)` follows.
  virtual void continue_pass() noexcept = 0;
  /// Calls `client::on_pass_requested` and then `client::pass` soon, as if a wakeup had come. Callable on any thread, also while the
  /// loop thread is in any other function except `unbind`. Several requests may become one. The pass sees all that the caller did
  /// before. A loop that is not alive need not run it.
  virtual void request_pass() noexcept = 0;
  /// Keeps the loop alive from now on, or no longer. Off at first.
  virtual void hold_loop(bool alive) noexcept = 0;
  /// Returns true for a handle of the driver's own.
  virtual bool owns(const uv_handle_s*) const noexcept = 0;
  /// Returns the libuv loop that it drives; null: there is none.
  virtual uv_loop_s* loop() const noexcept { return nullptr; }

  /// Returns the client; null: none is bound.
  client* bound() const noexcept { return client_; }
  /// Returns how often a client was bound. Tells a client that was unbound meanwhile from one that is bound now, even where both
  /// are at one address.
  std::uint64_t bindings() const noexcept { return bindings_; }
  /// Calls `to` from now on. Requires: no other client is bound.
  void bind(client& to) noexcept {
    client_ = &to;
    ++bindings_;
    on_bind();
  }
  /// The client is gone, and is not called any more. A driver that the service made itself frees itself.
  void unbind() noexcept {
    client_ = nullptr;
    on_unbind();
  }
  /// The process was forked, and this is the child.
  virtual void after_fork() noexcept {}

 protected:
  ~driver() = default;

  /// A client was bound.
  virtual void on_bind() noexcept {}
  /// The client was unbound.
  virtual void on_unbind() noexcept {}

 private:
  client* client_ = nullptr;
  std::uint64_t bindings_ = 0;
};

}  // namespace tickwheel
