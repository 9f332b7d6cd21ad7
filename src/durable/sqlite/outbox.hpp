// Answered calls on their way to the loop.
#pragma once

#include "loop_pipe.hpp"
#include "queued_call.hpp"

#include <tickwheel/uv/remote.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace tickwheel::durable::sqlite {

/// Keeps the answered calls until the loop has delivered them, and the places for calls on their way.
///
/// A thread that answers wakes the loop, which then takes all answers. It does so by a pipe. Without a libuv loop or a descriptor,
/// and after the program has closed the pipe's handle, it posts the wakeup to the service. A post that the service refuses is
/// repeated by `retry`.
///
/// *Thread safety:* any thread calls `answer` and `retry`; the loop thread the others.
class outbox final : public std::enable_shared_from_this<outbox>, private loop_pipe::client {
 public:
  explicit outbox(timer_service& timers);

  /// Returns a place for a call. Stops the process if there is no memory for one.
  queued_call& place(verb kind, store_call& call) noexcept;

  /// Gives calls back to the loop. Returns false if the service refused a post: call `retry` later.
  bool answer(call_list&& calls) noexcept;
  bool retry() noexcept;

  /// Takes the calls that are answered, and delivers nothing from now on. Requires: the threads have ended.
  call_list close() noexcept;

  /// Calls `on_answer` of one call, and frees its place.
  void deliver(queued_call&) noexcept;

 private:
  static constexpr std::size_t block = 256;

  enum class wakeup { none, by_pipe, by_post, refused };

  void reserve();
  bool wake(wakeup) noexcept;
  wakeup next_wakeup() noexcept;
  wakeup post() noexcept;
  void check_pipe() noexcept;
  void on_wakeup() noexcept override;

  std::mutex mutex_;
  call_list answered_;
  bool woken_ = false;  // a wakeup is on its way
  bool closed_ = false;
  bool has_pipe_ = false;
  const remote_handle service_;

  // of the loop thread, but for `loop_pipe::wake`
  loop_pipe::owner pipe_;
  std::vector<std::unique_ptr<queued_call[]>> blocks_;
  call_list free_;
  std::uint64_t last_number_ = 0;
};

}  // namespace tickwheel::durable::sqlite
