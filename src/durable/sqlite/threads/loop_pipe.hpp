// Wakes the loop from the store's threads.
#pragma once

#include "../../fork_check.hpp"

#include <uv.h>

#include <memory>

namespace tickwheel::durable::sqlite {

/// A pipe that the loop polls.
///
/// A uv_async_t needs no descriptor of its own, but libuv 1.44 spins on the loop's thread until the sending thread has left
/// uv_async_send. A sender that lost its processor to the loop's thread leaves it some milliseconds later.
///
/// A wakeup is lost if the program closes the handle, in a walk over its loop.
///
/// A child of a fork has the same pipe. It reads nothing from it, so that its parent misses no wakeup.
///
/// *Thread safety:* any thread calls `wake`; the loop thread the others.
class loop_pipe {
 public:
  /// Is told of wakeups, on the loop.
  class client {
   public:
    virtual void on_wakeup() noexcept = 0;

   protected:
    ~client() = default;
  };

  /// Lets the pipe go: it frees itself when libuv has closed its handle.
  struct closer {
    void operator()(loop_pipe* pipe) const noexcept { pipe->close(); }
  };
  using owner = std::unique_ptr<loop_pipe, closer>;

  /// Makes a pipe, which does not keep the loop alive. Returns null if there is no descriptor or no memory. `of` outlives it.
  static owner make(uv_loop_t&, client& of) noexcept;

  loop_pipe(const loop_pipe&) = delete;
  loop_pipe& operator=(const loop_pipe&) = delete;

  /// Wakes the loop: the client is told once. Several wakeups may become one.
  void wake() noexcept;

  /// Returns false once the program has closed the handle, in a walk over its loop. No wakeup is delivered any more.
  bool is_polled() const noexcept { return uv_is_closing(reinterpret_cast<const uv_handle_t*>(&poll_)) == 0; }

 private:
  explicit loop_pipe(client& of) noexcept : client_{of} {}
  ~loop_pipe() = default;

  int open(uv_loop_t&) noexcept;
  void on_readable() noexcept;
  void stop_in_child() noexcept;
  void close() noexcept;
  void close_after(unsigned iterations) noexcept;

  client& client_;
  const detail::fork_check fork_;
  uv_file ends_[2] = {-1, -1};  // for reading and writing
  uv_poll_t poll_{};
  uv_idle_t sentinel_{};  // never started, only closed
  unsigned iterations_ = 0;
};

}  // namespace tickwheel::durable::sqlite
