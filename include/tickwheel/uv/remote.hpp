// Timers from other threads: a remote_handle posts to a service from any thread, and cancels there, too.
//
// Use it where worker threads hand results back to the loop, or set deadlines for it. A posted call runs on the loop thread
// once its delay has passed since the call. On the loop thread itself a `timer` is cheaper.
//
//   tickwheel::remote_handle loop = timers.remote();               // on the loop thread, or before others are started
//   std::thread worker{[loop, job] {
//     const result* r = job->compute();
//     if (loop.post(0s, [job, r]() noexcept { job->done(*r); }) != 0) job->give_up();
//   }};
//
//   tickwheel::remote_timer deadline;
//   loop.arm(30s, [job]() noexcept { job->too_slow(); }, deadline);
//   if (deadline.cancel() == tickwheel::remote_timer::outcome::cancelled) { ... }   // then it will never run
//
// A loop that is not alive does not poll, and what is posted to it waits: give it a `remote_hold` while somebody still
// intends to post.
//
//   auto hold = timers.hold();                                     // on the loop thread
//   std::thread worker{[loop, hold = std::move(hold)] { ... loop.post(...); }};   // gone with the thread's function
//
// None of this may be called in a signal handler: it allocates, and may wait for a mutex. A handler that wants to reach
// the loop uses uv_signal_t.
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/core/detail/nanoseconds.hpp>
#include <tickwheel/uv/detail/post_queue.hpp>
#include <tickwheel/uv/detail/posted_operation.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <uv.h>

#include <chrono>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace tickwheel {

/// How large a callable may be that is posted, in bytes: six words. It travels in the node, a block of 128 bytes.
inline constexpr std::size_t remote_callable_size = detail::callable_size;

/// What can be posted to another thread: callable without arguments and noexcept, since libuv's C frames, which call it,
/// cannot be unwound; trivially copyable and destructible, since closing the service drops it without running anything of
/// it; and small enough for the node. A lambda that captures pointers and numbers is. Hand over what is not by a pointer.
template <class F>
concept remote_callable = std::is_trivially_copyable_v<F> && std::is_copy_constructible_v<F> &&
                              std::is_trivially_destructible_v<F> && sizeof(F) <= remote_callable_size
                          && alignof(F) <= alignof(std::max_align_t) && std::is_nothrow_invocable_v<F&>;

/// A timer that was armed by `remote_handle::arm`, to cancel it from any thread.
///
/// It keeps 128 bytes until it is destroyed, assigned to or released. *Thread safety:* `cancel` may be called on any
/// thread and on several at once; for all else it is an object like any other. *Complexity:* O(1), no allocation;
/// cancelling may ring the loop. *Lifetime:* movable; destroying or assigning to it cancels. May outlive service and loop.
class TICKWHEEL_API remote_timer {
 public:
  /// What became of a timer.
  enum class outcome {
    cancelled,  ///< by this timer: its handler has not run and never will
    too_late,   ///< the handler runs, or has run; also for one that was never armed, moved from, or released
    closed,     ///< the service was closed first: the handler has not run and never will
  };

  /// Not armed.
  remote_timer() noexcept = default;
  ~remote_timer() {
    cancel();
    release();
  }
  /// Leaves `from` as one that was never armed.
  remote_timer(remote_timer&& from) noexcept
      : operation_{std::exchange(from.operation_, nullptr)}, queue_{std::exchange(from.queue_, nullptr)} {}
  /// Cancels the one it had.
  remote_timer& operator=(remote_timer&& from) noexcept {
    remote_timer{std::move(from)}.swap(*this);
    return *this;
  }

  /// Exactly one of this, the handler and the closing of the service wins, and the answer says which; asked again it is the
  /// same. Within the timer's own handler: too_late. A timer that is cancelled is let go when the loop next takes what
  /// was posted, not at its deadline. Does not wait for a handler that runs: after `too_late` it may still be running.
  outcome cancel() noexcept;

  /// Lets go of the timer and leaves it armed.
  void release() noexcept;

 private:
  friend class remote_handle;
  remote_timer(detail::posted_operation& posted, detail::post_queue& queue) noexcept
      : operation_{&posted}, queue_{&queue} {
    queue.retain();
  }

  void swap(remote_timer& other) noexcept {
    std::swap(operation_, other.operation_);
    std::swap(queue_, other.queue_);
  }

  detail::posted_operation* operation_ = nullptr;  // one reference
  detail::post_queue* queue_ = nullptr;            // one reference
};

/// Posts to one service; `timer_service::remote` gives it.
///
/// *Thread safety:* any thread, several at once; assigning to it is not. Not in a signal handler. *Complexity:* `post` is
/// O(1): one allocation, one clock read unless the delay is zero or less, two atomic operations, and no lock. The first post
/// since the loop found nothing also takes a mutex that only closing contends for, and wakes the loop. *Lifetime:* may outlive
/// service and loop, and then answers UV_ECANCELED.
///
/// *Order:* what is posted without a delay, or with one that has passed by the time stamp of the pass that delivers it, runs
/// in the order of posting. That holds for one thread's posts, and for those of two threads of which one was made when the
/// other had returned. After a block a delay that has passed waits for input, as a timer does, and then runs among the timers.
/// Posts that were made before the stamp as of which timers are judged are delivered before them; later ones take turns with
/// timers.
///
/// *Memory:* nodes are allocated by the posting thread and freed by the loop's, one each. The memory of a burst is bounded by
/// `max_queued` and `max_armed`, and goes back to the allocator as it runs. Nothing is cached here. In a program that links
/// mimalloc, operator new, and so each node, is mimalloc's, which is made for such blocks.
class remote_handle {
 public:
  /// Empty: every post answers UV_ECANCELED.
  remote_handle() noexcept = default;
  ~remote_handle() {
    if (queue_ != nullptr) queue_->release();
  }
  /// Posts to the same service.
  remote_handle(const remote_handle& from) noexcept : queue_{from.queue_} {
    if (queue_ != nullptr) queue_->retain();
  }
  /// Leaves `from` empty.
  remote_handle(remote_handle&& from) noexcept : queue_{std::exchange(from.queue_, nullptr)} {}
  /// From now on posts where `from` does.
  remote_handle& operator=(remote_handle from) noexcept {
    std::swap(queue_, from.queue_);
    return *this;
  }

  /// Runs `call` on the loop thread once `after` has passed since this call, on the steady clock: never early, late as a
  /// `timer` may be. Zero or less: in the next pass, behind the I/O that waits by then. What is too long for the clock
  /// saturates: still armed, in effect for ever. What is posted in a handler runs in a later pass.
  ///
  /// 0: it will run, or be counted in `service_stats::remote_cancelled` when the service closes first.
  /// UV_EAGAIN: `max_queued` operations wait to be taken, or `max_armed` have not ended; try later, or say no yourself.
  /// UV_ECANCELED: the service is closed, or the handle empty. UV_ENOMEM. On an error nothing has changed.
  template <class D, class F>
  int post(D after, F call) const noexcept {
    clock::time_point due;
    if (const int error = due_after(after, due)) return error;
    return post_at(due, call);
  }

  /// As `post`, at an absolute time; reads no clock. For who has a time stamp at hand: one reading of the clock serves a
  /// whole batch of posts, and on a loop's thread that loop's `now()` does. A time that has passed: in the next pass.
  template <class F>
  int post_at(clock::time_point when, F call) const noexcept {
    detail::posted_operation* posted = nullptr;
    if (const int error = prepare(when, call, posted)) return error;
    return queue_->submit(*posted);
  }

  /// As `post`, and `out` can cancel it. What `out` had is cancelled, as by assigning to it, once the new one is accepted;
  /// on an error `out` is as it was. `out` is written before this returns, but maybe after `call` has run: `call` itself
  /// must not touch it without more ado.
  template <class D, class F>
  int arm(D after, F call, remote_timer& out) const noexcept {
    clock::time_point due;
    if (const int error = due_after(after, due)) return error;
    return arm_at(due, call, out);
  }

  /// As `arm`, at an absolute time, as `post_at`.
  template <class F>
  int arm_at(clock::time_point when, F call, remote_timer& out) const noexcept {
    detail::posted_operation* posted = nullptr;
    if (const int error = prepare(when, call, posted)) return error;
    // the timer's reference: counted while nobody else has the node
    posted->references.store(2, std::memory_order_relaxed);
    if (const int error = queue_->submit(*posted)) return error;
    out = remote_timer{*posted, *queue_};
    return 0;
  }

 private:
  friend class timer_service;
  explicit remote_handle(detail::post_queue* queue) noexcept : queue_{queue} {
    if (queue_ != nullptr) queue_->retain();
  }

  template <class D>
  int due_after(D after, clock::time_point& due) const noexcept {
    return queue_ == nullptr ? UV_ECANCELED : queue_->due_after(detail::to_nanoseconds(after), due);
  }

  template <class F>
  int prepare(clock::time_point due, const F& call, detail::posted_operation*& posted) const noexcept {
    static_assert(
        std::is_trivially_copyable_v<F> && std::is_copy_constructible_v<F> && std::is_trivially_destructible_v<F>,
        "what is posted to another thread is trivially copyable and destructible: capture pointers and "
        "numbers, not objects that own something");
    static_assert(sizeof(F) <= remote_callable_size,
                  "what is posted to another thread has at most remote_callable_size bytes: hand over the rest by a "
                  "pointer");
    static_assert(alignof(F) <= alignof(std::max_align_t), "what is posted to another thread is not over-aligned");
    static_assert(std::is_nothrow_invocable_v<F&>,
                  "what is posted to another thread is called without arguments and is noexcept: libuv's C frames "
                  "cannot be unwound");
    if (queue_ == nullptr) return UV_ECANCELED;
    const int error = queue_->reserve(due, posted);
    if constexpr (remote_callable<F>) {  // else one of the above has said what is wrong
      if (error == 0) posted->call_with(call);
    }
    return error;
  }

  detail::post_queue* queue_ = nullptr;  // one reference
};

/// Keeps a loop alive while somebody still intends to post to it; `timer_service::hold` gives one, on the loop thread.
///
/// *Thread safety:* may be copied, moved and released on any thread; one object as any other. *Complexity:* O(1); the last
/// release rings the loop, which then delivers what was posted before, and may end. *Lifetime:* may outlive service and
/// loop; without effect once the service is closed. It holds the loop whether or not the service was told to `unref`.
class remote_hold {
 public:
  /// Holds nothing.
  remote_hold() noexcept = default;
  ~remote_hold() { release(); }
  /// One hold more, of the same loop.
  remote_hold(const remote_hold& from) noexcept : queue_{from.queue_} { add(); }
  /// Leaves `from` holding nothing.
  remote_hold(remote_hold&& from) noexcept : queue_{std::exchange(from.queue_, nullptr)} {}
  /// Lets go of what it held.
  remote_hold& operator=(remote_hold from) noexcept {
    std::swap(queue_, from.queue_);
    return *this;
  }

  /// Lets go; idempotent.
  void release() noexcept {
    if (queue_ == nullptr) return;
    queue_->drop_hold();
    queue_->release();
    queue_ = nullptr;
  }

  /// True until it is released or moved from.
  explicit operator bool() const noexcept { return queue_ != nullptr; }

 private:
  friend class timer_service;
  explicit remote_hold(detail::post_queue* queue) noexcept : queue_{queue} { add(); }

  void add() noexcept {
    if (queue_ == nullptr) return;
    queue_->retain();
    queue_->add_hold();
  }

  detail::post_queue* queue_ = nullptr;  // one reference
};

}  // namespace tickwheel
