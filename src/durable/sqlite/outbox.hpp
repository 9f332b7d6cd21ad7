// Answered calls on their way to the loop.
#pragma once

#include "queued_call.hpp"

#include <tickwheel/uv/remote.hpp>

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace tickwheel::durable::sqlite {

/// Keeps the answered calls until the loop has delivered them, and the places for calls on their way.
///
/// A thread that answers posts a wakeup to the loop, and not the answers: a full queue of the loop loses none. A wakeup that the
/// loop refuses is posted again by `retry`.
///
/// *Thread safety:* any thread calls `answer` and `retry`; the loop thread the others.
class outbox : public std::enable_shared_from_this<outbox> {
 public:
  explicit outbox(remote_handle loop) : loop_{std::move(loop)} { reserve(); }

  /// Returns a place for a call. Stops the process if there is no memory for one.
  queued_call& place(verb kind, store_call& call) noexcept;

  /// Gives calls back to the loop. Returns false if the loop refused to be woken: call `retry` later.
  bool answer(call_list&& calls) noexcept;
  bool retry() noexcept;

  /// Takes the calls that are answered, and delivers nothing from now on.
  call_list close() noexcept;

  /// Calls `on_answer` of one call, and frees its place.
  void deliver(queued_call&) noexcept;

 private:
  static constexpr std::size_t block = 256;

  void reserve();
  bool wake() noexcept;
  void on_wakeup() noexcept;

  std::mutex mutex_;
  call_list answered_;
  bool woken_ = false;  // a wakeup is on its way
  bool closed_ = false;
  const remote_handle loop_;

  // of the loop thread
  std::vector<std::unique_ptr<queued_call[]>> blocks_;
  call_list free_;
  std::uint64_t last_number_ = 0;
};

}  // namespace tickwheel::durable::sqlite
