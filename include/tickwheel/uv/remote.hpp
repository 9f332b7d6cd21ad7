// Timers from other threads: a remote_handle posts to a service from any thread, and a remote_timer cancels on any thread.
//
// Use it where worker threads hand results back to the loop, or set deadlines for it. A posted callable runs on the loop
// thread. On the loop thread itself a `timer` is cheaper.
//
//   tickwheel::remote_handle loop = timers.remote();               // on the loop thread, or before others are started
//   std::thread worker{[loop, job] {
//     std::unique_ptr<result> r = job->compute();
//     auto done = [job, r = std::move(r)]() noexcept { job->done(*r); };
//     if (loop.post(std::move(done)) != 0) job->give_up();
//   }};
//
//   tickwheel::remote_timer deadline;
//   if (loop.arm(30s, [job]() noexcept { job->too_slow(); }, deadline) != 0) job->give_up();
//   if (deadline.cancel() == tickwheel::remote_timer::outcome::cancelled) { ... }   // then it never runs
//
// A loop that is not alive does not poll, so posted callables wait. A `remote_hold` keeps the loop alive while a thread still
// intends to post.
//
//   auto hold = timers.hold();                                     // on the loop thread
//   std::thread worker{[loop, hold = std::move(hold)] { ... loop.post(...); }};   // released with the thread's function
//
// Do not call any of this in a signal handler: it allocates, and may wait for a mutex. A signal handler reaches the loop through
// uv_signal_t.
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

/// The size in bytes up to which a callable is posted without an allocation of its own: six words. The callable travels in the
/// node of its operation, a block of 128 bytes.
inline constexpr std::size_t remote_callable_size = detail::callable_size;

/// A callable that can be posted to another thread.
///
/// It takes no arguments and is noexcept, because libuv's C frames, which call it, cannot be unwound. Moving and destroying it
/// throw nothing. It owns what it captures: the loop's thread runs it and destroys it.
template <class F>
concept remote_callable = std::is_object_v<F> && std::is_nothrow_move_constructible_v<F> &&
    std::is_nothrow_destructible_v<F> && std::is_nothrow_invocable_v<F&>;

/// A timer that `remote_handle::arm` armed. It can be cancelled on any thread.
///
/// *Thread safety:* any thread may call `cancel`, several at once. All other functions are those of an ordinary object.
/// *Complexity:* O(1), no allocation; cancelling may wake the loop. *Errors:* none. *Lifetime:* movable; destroying it or
/// assigning to it cancels. It may outlive the service and the loop. It keeps a block of 128 bytes until it is destroyed,
/// assigned to or released, but never the callable.
class TICKWHEEL_API remote_timer {
 public:
  /// How a timer ended.
  enum class outcome {
    cancelled,  ///< by this timer: its callable has not run and never will
    too_late,   ///< its callable runs or has run; or it was never armed, moved from or released
    closed,     ///< the service was closed first: its callable has not run and never will
  };

  /// Makes a timer that is not armed.
  remote_timer() noexcept = default;
  ~remote_timer() {
    cancel();
    release();
  }
  /// Leaves `from` as a timer that was never armed.
  remote_timer(remote_timer&& from) noexcept
      : operation_{std::exchange(from.operation_, nullptr)}, queue_{std::exchange(from.queue_, nullptr)} {}
  /// Cancels this timer first.
  remote_timer& operator=(remote_timer&& from) noexcept {
    remote_timer{std::move(from)}.swap(*this);
    return *this;
  }

  /// Cancels the timer, and returns how it ended. Exactly one of this call, the callable and the closing of the service wins.
  /// Later calls return the same. Returns `too_late` within the timer's own callable.
  ///
  /// The callable is destroyed on the loop's thread, when the loop next takes posted operations, not at the deadline. This call
  /// does not wait for a callable that runs: after `too_late` it may still be running.
  outcome cancel() noexcept;

  /// Gives up the timer and leaves it armed.
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

/// Posts to one service. `timer_service::remote` returns it.
///
/// *Thread safety:* any thread, several at once, except assignment. Not in a signal handler. *Complexity:* `post` is O(1): one
/// allocation, one clock read unless the delay is zero or less, two atomic operations, and no lock. A callable larger than
/// `remote_callable_size` costs a second allocation. The first post after the loop found nothing also wakes the loop, under a
/// mutex that only closing contends for. *Errors:* a UV_ code. *Lifetime:* may outlive the service and the loop, and then
/// returns UV_ECANCELED.
///
/// *Callables:* each is a `remote_callable`, moved in, or copied if it is an lvalue. An accepted callable is destroyed exactly
/// once, on the loop's thread: after it ran, when the loop takes its cancel, or when the service closes. Its destructor may do
/// what a handler may, closing and destroying the service included. A refused callable is left to the caller as it was. If the
/// service closes during the call, it may have been moved out and back in between.
///
/// *Order:* callables without a delay run in the order of posting. So do those whose delay has passed by the time stamp of the
/// pass that delivers them. The order holds for the posts of one thread, and for those of two threads if one call returned
/// before the other began. After a block, a callable whose delay has passed waits for input as a timer does, and then runs
/// among the timers. Posts made before the stamp as of which timers are judged are delivered before those timers run. Later
/// posts and timers take turns.
///
/// *Memory:* the posting thread allocates a node per operation, and the loop's thread frees it. `max_queued` and `max_armed`
/// bound the memory of a burst, which goes back to the allocator as the burst runs. Nothing is cached. A program that links
/// mimalloc gets its nodes from it, because they come from operator new; mimalloc is made for blocks that another thread frees.
class remote_handle {
 public:
  /// Makes an empty handle: every post returns UV_ECANCELED.
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
  /// From now on posts to the service of `from`.
  remote_handle& operator=(remote_handle from) noexcept {
    std::swap(queue_, from.queue_);
    return *this;
  }

  /// Runs `call` on the loop's thread in the next pass, after the input that waits by then. A callable that is posted in a
  /// handler runs in a later pass.
  ///
  /// Returns 0: `call` will run, or count in `service_stats::remote_cancelled` if the service closes first.
  /// UV_EAGAIN: the queue is full (`max_queued`), or `max_armed` operations have not ended. Retry later, or reject the request.
  /// UV_ECANCELED: the service is closed, or this handle is empty.
  /// UV_ENOMEM: no memory for the node or for a large callable.
  /// After an error nothing has changed, and `call` is the caller's.
  template <class F>
  [[nodiscard]] int post(F&& call) const noexcept {
    return post_at(clock::time_point::min(), std::forward<F>(call));
  }

  /// As `post(call)`, once `after`, any std::chrono duration, has passed since this call, on the steady clock. Never early;
  /// late as a `timer` may be. Zero or less is no delay. A delay that is too long for the clock saturates: `call` is armed, in
  /// effect for ever. Reads the clock unless `after` is zero or less. Returns as `post(call)`.
  template <class D, class F>
  [[nodiscard]] int post(D after, F&& call) const noexcept {
    clock::time_point due;
    if (const int error = due_after(after, due)) return error;
    return post_at(due, std::forward<F>(call));
  }

  /// As `post(call)`, at an absolute time. A time that has passed is no delay. Reads no clock: one time stamp serves a batch of
  /// posts, and on a loop's thread that loop's `now()` does. Returns as `post(call)`.
  template <class F>
  [[nodiscard]] int post_at(clock::time_point when, F&& call) const noexcept {
    return submit<false>(when, std::forward<F>(call), nullptr);
  }

  /// As `post(after, call)`, and `out` can cancel it. Cancels the former timer of `out` once the new one is accepted. After an
  /// error `out` is unchanged. Writes `out` before it returns, but maybe after `call` has run: `call` itself must not use `out`
  /// without further synchronization. Returns as `post(call)`.
  template <class D, class F>
  [[nodiscard]] int arm(D after, F&& call, remote_timer& out) const noexcept {
    clock::time_point due;
    if (const int error = due_after(after, due)) return error;
    return arm_at(due, std::forward<F>(call), out);
  }

  /// As `arm`, at an absolute time; see `post_at`.
  template <class F>
  [[nodiscard]] int arm_at(clock::time_point when, F&& call, remote_timer& out) const noexcept {
    return submit<true>(when, std::forward<F>(call), &out);
  }

 private:
  friend class timer_service;
  explicit remote_handle(detail::post_queue* queue) noexcept : queue_{queue} {
    if (queue_ != nullptr) queue_->retain();
  }

  template <class D>
  [[nodiscard]] int due_after(D after, clock::time_point& due) const noexcept {
    return queue_ == nullptr ? UV_ECANCELED : queue_->due_after(detail::to_nanoseconds(after), due);
  }

  template <class F>
  static constexpr void check_callable() noexcept {
    using callable = std::decay_t<F>;
    static_assert(std::is_invocable_v<callable&>, "a callable that is posted to another thread must take no arguments");
    static_assert(!std::is_invocable_v<callable&> || std::is_nothrow_invocable_v<callable&>,
                  "a callable that is posted to another thread must be noexcept: libuv's C frames cannot be unwound");
    static_assert(std::is_nothrow_move_constructible_v<callable> && std::is_nothrow_destructible_v<callable>,
                  "a callable that is posted to another thread must move and be destroyed without exceptions");
    static_assert(!std::is_nothrow_move_constructible_v<callable> || std::is_nothrow_constructible_v<callable, F>,
                  "a callable that is posted to another thread cannot be copied without exceptions: pass one that is "
                  "not const, with "
                  "std::move");
  }

  template <bool Cancellable, class F>
  [[nodiscard]] int submit(clock::time_point due, F&& call, [[maybe_unused]] remote_timer* out) const noexcept {
    using callable = std::decay_t<F>;
    check_callable<F>();
    // if it is false, `check_callable` has said why, and a second message would only repeat it
    if constexpr (remote_callable<callable> && std::is_nothrow_constructible_v<callable, F>) {
      if (queue_ == nullptr) return UV_ECANCELED;
      detail::posted_operation* made = nullptr;
      if (const int error = queue_->reserve(due, made)) return error;
      if (!made->template hold<callable>(std::forward<F>(call))) {
        queue_->discard(*made);
        return UV_ENOMEM;
      }
      // the timer's reference: counted while no other thread knows the operation
      if constexpr (Cancellable) made->references.store(2, std::memory_order_relaxed);
      if (!queue_->push(*made)) {
        made->template give_back<callable>(std::forward<F>(call));
        queue_->discard(*made);
        return UV_ECANCELED;
      }
      if constexpr (Cancellable) *out = remote_timer{*made, *queue_};
    }
    return 0;
  }

  detail::post_queue* queue_ = nullptr;  // one reference
};

/// Keeps a loop alive while a thread still intends to post to it. `timer_service::hold` returns one, on the loop thread.
///
/// *Thread safety:* any thread may copy, move and release its own object. *Complexity:* O(1); the last release wakes the loop,
/// which then delivers the operations posted before, and may end. *Errors:* none. *Lifetime:* may outlive the service and the
/// loop. Has no effect once the service is closed. It holds the loop even if the service was told to `unref`.
class remote_hold {
 public:
  /// Holds nothing.
  remote_hold() noexcept = default;
  ~remote_hold() { release(); }
  /// Adds a hold of the same loop.
  remote_hold(const remote_hold& from) noexcept : queue_{from.queue_} { add(); }
  /// Leaves `from` without a hold.
  remote_hold(remote_hold&& from) noexcept : queue_{std::exchange(from.queue_, nullptr)} {}
  /// Releases its own hold first.
  remote_hold& operator=(remote_hold from) noexcept {
    std::swap(queue_, from.queue_);
    return *this;
  }

  /// Releases the hold. Does nothing if there is none.
  void release() noexcept {
    if (queue_ == nullptr) return;
    queue_->drop_hold();
    queue_->release();
    queue_ = nullptr;
  }

  /// Returns true until it is released or moved from.
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
