// The wait of one coroutine for one operation of a socket, and the limit of that wait.
#pragma once

#include <tickwheel/core/detail/nanoseconds.hpp>
#include <tickwheel/uv/tcp_limit.hpp>
#include <tickwheel/uv/timer.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <uv.h>

#include <chrono>
#include <coroutine>
#include <utility>

namespace tickwheel {
class tcp_socket;
}

namespace tickwheel::detail {

class tcp_side;

/// The part of an awaitable that a socket knows. It is in the frame of the coroutine that waits, and moves only before that.
class tcp_wait {
 public:
  tcp_wait() noexcept = default;
  tcp_wait(tcp_wait&&) noexcept = default;
  tcp_wait& operator=(tcp_wait&&) = delete;

  bool is_pending() const noexcept { return pending_; }

 protected:
  ~tcp_wait() = default;

  std::coroutine_handle<> waiting_;
  ssize_t result_ = 0;

 private:
  friend tcp_side;
  bool pending_ = false;
};

/// One direction of a socket: at most one coroutine waits for it.
///
/// A limit costs little, because the timer is not moved for each operation. It stays armed when an operation ends in time. When it
/// expires, it is armed again for the operation that then waits. It does not keep the loop alive: the socket does. A limit that is a
/// duration reads the clock.
///
/// *Thread safety:* the loop thread. *Complexity:* O(1), no allocation. *Lifetime:* as `timer`. A coroutine that is resumed may
/// destroy anything except the side that resumes it.
class tcp_side : private timer {
 public:
  /// Is called with the owner when the limit has passed. Ends the operation, and calls `end(UV_ETIMEDOUT)`.
  using on_expired = void (*)(void* owner) noexcept;

  tcp_side(timer_service& service, void* owner, on_expired expired) noexcept
      : timer{service, handler()}, owner_{owner}, expired_{expired} {
    timer::unref();
  }

  bool is_awaited() const noexcept { return wait_ != nullptr; }

  /// Waits from now on. 0, UV_EBUSY: another coroutine waits. UV_ECANCELED, UV_ENOBUFS: the limit was refused.
  int begin(tcp_wait& wait, const tcp_limit& limit) noexcept {
    if (wait_ != nullptr) return UV_EBUSY;
    end_ = clock::time_point::max();
    if (!limit.is_none())
      if (const int error = start(limit)) return error;
    wait.pending_ = true;
    wait_ = &wait;
    return 0;
  }

  /// Nobody waits any more.
  void forget() noexcept {
    if (wait_ != nullptr) std::exchange(wait_, nullptr)->pending_ = false;
  }

  /// Resumes the coroutine that waits. Requires: one does.
  void end(ssize_t result) noexcept {
    tcp_wait& ended = *std::exchange(wait_, nullptr);
    ended.pending_ = false;
    ended.result_ = result;
    ended.waiting_.resume();
  }

  /// There will be no further operation.
  void close() noexcept { timer::cancel(); }

  static callback handler() noexcept { return callback_of_type<&run, tcp_socket>::get(); }

 private:
  int start(const tcp_limit& limit) noexcept {
    if (!service().is_open()) return refuse_when_closed();
    is_responsive_ = limit.is_length();
    // The stamp of the iteration may be older than this call, and a limit that counts from it would end early.
    const clock::time_point now = is_responsive_ ? service().update_now() : clock::time_point{};
    end_ = is_responsive_ ? add_saturating(service().responsive_now(), limit.length()) : limit.until();
    const clock::time_point due = is_responsive_ ? add_saturating(now, limit.length()) : end_;
    // The stamp of the next pass may be older than this call. The armed timer would then end an operation without a poll.
    if (armed() && due_ <= due && !is_known_to_have_passed(due)) return 0;
    due_ = due;
    return arm_verdict_at(due);
  }

  static void run(wheel_entry& entry) noexcept {
    auto& self = static_cast<tcp_side&>(timer::from(entry));
    if (self.wait_ == nullptr || self.end_ == clock::time_point::max()) return;
    const clock::time_point judged = self.service().judged_at();
    const clock::time_point now = self.is_responsive_ ? self.service().responsive_judged_at() : judged;
    if (now >= self.end_) return self.expired_(self.owner_);
    self.due_ = add_saturating(judged, self.end_ - now);
    self.arm_again_at(self.due_);
  }

  tcp_wait* wait_ = nullptr;
  clock::time_point end_ = clock::time_point::max();  // of the operation, on responsive time if it has a length
  clock::time_point due_{};                           // of the timer, while it is armed
  void* owner_;
  on_expired expired_;
  bool is_responsive_ = false;
};

}  // namespace tickwheel::detail
