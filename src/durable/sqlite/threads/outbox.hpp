// Answered calls on their way to the loop.
#pragma once

#include "loop_pipe.hpp"
#include "queued_call.hpp"

#include <tickwheel/uv/remote.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace tickwheel::durable::sqlite {

/// Keeps the answered calls until the loop has delivered them, and the places for calls on their way.
///
/// A thread that answers wakes the loop, which then takes all answers. It does so by a pipe. Without a libuv loop or a descriptor,
/// and after the program has closed the pipe's handle, it posts the wakeup to the service. `retry` repeats a wakeup that the service has
/// refused, or that was lost with the pipe's handle.
///
/// In a child of a fork nothing is delivered.
///
/// *Thread safety:* any thread calls `answer` and `retry`; the loop thread the others.
class outbox final : public std::enable_shared_from_this<outbox>, private loop_pipe::client {
 public:
  explicit outbox(timer_service& timers);

  /// Returns a place for a call. Stops the process if there is no memory for one.
  queued_call& place(verb kind, store_call& call) noexcept;

  /// Gives calls back to the loop. Returns after which time to call `retry`; zero: not at all.
  std::chrono::milliseconds answer(call_list&& calls) noexcept;
  /// Posts a wakeup if answers wait for none that was posted. Returns as `answer`.
  std::chrono::milliseconds retry() noexcept;

  /// Takes the calls that are answered, and delivers nothing from now on. Requires: the threads have ended.
  call_list close() noexcept;

  /// Calls `on_answer` of one call, and frees its place.
  void deliver(queued_call&) noexcept;

 private:
  static constexpr std::size_t block = 256;

  void reserve();
  std::chrono::milliseconds post() noexcept;
  void check_pipe() noexcept;
  void on_wakeup() noexcept override;
  void on_posted() noexcept;

  const detail::fork_check fork_;
  std::mutex mutex_;
  call_list answered_;
  bool woken_ = false;                               // a wakeup is on its way
  bool posted_ = false;                              // one that was posted
  std::chrono::steady_clock::time_point lost_at_{};  // a wakeup by the pipe that did not come by then
  bool closed_ = false;
  bool has_pipe_ = false;
  const remote_handle service_;

  // of the loop thread, except `loop_pipe::wake`
  loop_pipe::owner pipe_;
  std::vector<std::unique_ptr<queued_call[]>> blocks_;
  call_list free_;
  std::uint64_t last_number_ = 0;
};

}  // namespace tickwheel::durable::sqlite
