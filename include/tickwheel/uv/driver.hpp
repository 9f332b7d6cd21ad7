// The seam between a timer_service and what turns it: a driver says what time it is, and wakes the service.
//
// There is a driver for a libuv loop, which `timer_service::open(uv_loop_t&)` makes itself, and `manual_driver`, whose
// clock you turn by hand to test your timeouts without sleeping. Write one of your own to drive a service from another
// event loop.
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
}

namespace tickwheel {

/// All times are on the steady clock, which nobody sets.
using clock = std::chrono::steady_clock;

/// *Thread safety:* the loop thread only, except `ring`, and `now` as it says there. *Complexity:* what the service calls with
/// each arm and pass is to be O(1). *Errors:* none: what can fail, a driver does before it is bound. *Lifetime:* outlives the
/// service it is bound to.
class TICKWHEEL_API driver {
 public:
  /// What a driver turns: the service.
  ///
  /// *Thread safety:* the loop thread only. *Complexity:* O(1), but `pass`, which runs handlers, as many as the service's
  /// options allow. *Errors:* none. *Lifetime:* may end in a `pass`, which first unbinds it.
  class TICKWHEEL_API client {
   public:
    /// The loop runs again. Nobody ran it from `left` until `entered`: that time is no stall and no block. To be called right
    /// before `turn`. `polled()` is still what it was; from here on it answers `entered`.
    virtual void resumed(clock::time_point left, clock::time_point entered) noexcept = 0;
    /// Once an iteration of the loop, before it waits for I/O; `now` is the true time, and `polled()` still what it was in
    /// the iteration that ends here.
    virtual void turn(clock::time_point now) noexcept = 0;
    /// A wakeup that `wake_at` asked for has come. Returns true if a pass is due. The driver then runs it after the next poll.
    /// Returns false if the wakeup was too early or no longer needed; the client has asked for its next one.
    virtual bool woken(clock::time_point now) noexcept = 0;
    /// True when a pass is due at `now`.
    virtual bool due(clock::time_point now) const noexcept = 0;
    /// The loop has polled since it took `stamp`. Runs what is due by then, unless input is left or work bounds are reached, and
    /// before it returns asks for the next wakeup or for another pass. It may destroy the client.
    virtual void pass(clock::time_point stamp) noexcept = 0;
    /// `ring` was called, once or several times: the driver has a pass follow, whether or not one is `due`.
    virtual void rung() noexcept = 0;

   protected:
    ~client() = default;
  };

  driver() = default;
  driver(const driver&) = delete;
  driver& operator=(const driver&) = delete;

  /// The true time. May read the clock. Callable on any thread, since a delay posted by another thread counts from its
  /// call; not called any more once the client is unbound.
  virtual clock::time_point now() noexcept = 0;
  /// True when `now` is `clock::now()`, so that other threads can read that instead, without a lock.
  virtual bool on_steady_clock() const noexcept { return false; }
  /// Where a number stands that changes when the loop has waited: time stamps from before are then out of date. Stays
  /// where it is as long as the driver lives.
  virtual const std::uint64_t* epoch() const noexcept = 0;

  /// When the loop last came back from waiting, or was to, or a little later: it has been busy since, with callbacks or with
  /// us, or was kept from running. May be ahead of `now` where the loop's own time is coarse.
  virtual clock::time_point polled() const noexcept = 0;

  /// How much later than the true time `polled` may answer.
  virtual std::chrono::nanoseconds polled_error() const noexcept { return {}; }

  /// Says whether a poll has left input behind.
  enum class unread : std::uint8_t {
    unknown,    ///< this driver cannot tell: the service then looks for a poll in which no timer was touched
    nothing,    ///< no descriptor of the loop is ready
    something,  ///< some descriptor is ready
  };
  /// Looks for descriptors that are ready now. May make a system call: the service asks once when it is opened, and then only after a block.
  virtual unread left_unread() noexcept { return unread::unknown; }

  /// True if callbacks of the user may run between `client::turn` and the poll, and the poll may end without a change of
  /// `epoch`. The service then keeps no stamp that was taken in between.
  virtual bool turns_early() const noexcept { return false; }

  /// Has `woken` called once `when` has come; replaces what was asked for earlier. A driver that cannot be as exact may be
  /// early: the client then asks again. Callable in any phase of the loop.
  virtual void wake_at(clock::time_point when) noexcept = 0;
  /// Calls the client's `pass` once I/O had its turn, after a poll that does not wait. What `wake_at` asked for stays.
  virtual void pass_soon() noexcept { pass_again(); }
  /// Calls the client's `pass` again once I/O had its turn: work is left over, or something was posted meanwhile, for which
  /// nobody rings. Takes the place of what `wake_at` asked for, and stays due until that pass, also when `hold(false)`
  /// follows.
  virtual void pass_again() noexcept = 0;
  /// Has the client's `pass` run soon, `rung` first, as if a wakeup had come. Callable on any thread, also while the loop
  /// thread is within any other function but `unbind`; several calls may become one. What the caller did before is to be
  /// seen by the pass. A loop that is not alive need not notice.
  virtual void ring() noexcept = 0;
  /// Nothing more to wake for. A wakeup that was asked for may still come.
  virtual void rest() noexcept = 0;
  /// Whether the client keeps the loop alive. Off at first.
  virtual void hold(bool alive) noexcept = 0;
  /// True for a handle of the driver's own.
  virtual bool owns(const uv_handle_s*) const noexcept = 0;

  /// Who is woken; null: nobody.
  client* bound() const noexcept { return client_; }
  /// How often a client was bound. Tells who was unbound meanwhile from who is bound now, even where both are at one
  /// address.
  std::uint64_t bindings() const noexcept { return bindings_; }
  /// From now on `to` is turned. Requires: no other client is bound.
  void bind(client& to) noexcept {
    client_ = &to;
    ++bindings_;
    on_bind();
  }
  /// The client is gone; calls nothing of it from now on. A driver that the service made itself frees itself.
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
  /// It is gone.
  virtual void on_unbind() noexcept {}

 private:
  client* client_ = nullptr;
  std::uint64_t bindings_ = 0;
};

}  // namespace tickwheel
