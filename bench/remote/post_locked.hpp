// The queue that programs write without tickwheel: it is behind a mutex, and a uv_async_t wakes the loop to take from it.
#pragma once

#include "posted_timer.hpp"

#include <tickwheel/uv/timer_service.hpp>

#include <uv.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <string_view>
#include <vector>

namespace tickwheel::bench {

/// The uv_async_t that wakes the loop to take from `Queue`. The loop must run one more iteration after it is destroyed.
template <class Queue>
class loop_waker {
 public:
  loop_waker(uv_loop_t& loop, Queue& queue) : async_{new uv_async_t} {
    if (uv_async_init(&loop, async_, [](uv_async_t* h) { static_cast<Queue*>(h->data)->take(); }) != 0) std::abort();
    async_->data = &queue;
  }
  ~loop_waker() {
    uv_close(reinterpret_cast<uv_handle_t*>(async_), [](uv_handle_t* h) { delete reinterpret_cast<uv_async_t*>(h); });
  }
  loop_waker(const loop_waker&) = delete;
  loop_waker& operator=(const loop_waker&) = delete;

  void wake() const noexcept { uv_async_send(async_); }

 private:
  uv_async_t* async_;
};

/// A vector that the loop swaps for an empty one, which keeps its memory. A thread that finds it empty wakes the loop.
class post_mutex_vector {
 public:
  static constexpr std::string_view name = "mutex_vector";

  post_mutex_vector(uv_loop_t& loop, timer_service& timers, std::size_t max_queued)
      : timers_{timers}, max_queued_{max_queued}, waker_{loop, *this} {}

  template <class F>
  int post_at(clock::time_point when, F call) {
    const posted what{when, call};
    bool first;
    {
      const std::lock_guard lock{mutex_};
      if (queue_.size() >= max_queued_) return UV_EAGAIN;
      first = queue_.empty();
      queue_.push_back(what);
    }
    if (first) waker_.wake();
    return 0;
  }

  std::uint64_t wakeups() const noexcept { return wakeups_; }

 private:
  friend class loop_waker<post_mutex_vector>;

  void take() {
    ++wakeups_;
    taken_.clear();
    {
      const std::lock_guard lock{mutex_};
      taken_.swap(queue_);
    }
    for (const posted& p : taken_) posted_timer::arm(timers_, p);
  }

  timer_service& timers_;
  const std::size_t max_queued_;
  std::uint64_t wakeups_ = 0;
  std::vector<posted> taken_;
  alignas(64) std::mutex mutex_;
  std::vector<posted> queue_;  // under mutex_
  loop_waker<post_mutex_vector> waker_;
};

/// A queue of which the loop takes one item at a time, each under the lock. Each push wakes the loop.
class post_uv_async_each {
 public:
  static constexpr std::string_view name = "uv_async_each";

  post_uv_async_each(uv_loop_t& loop, timer_service& timers, std::size_t max_queued)
      : timers_{timers}, max_queued_{max_queued}, waker_{loop, *this} {}

  template <class F>
  int post_at(clock::time_point when, F call) {
    const posted what{when, call};
    {
      const std::lock_guard lock{mutex_};
      if (queue_.size() >= max_queued_) return UV_EAGAIN;
      queue_.push_back(what);
    }
    waker_.wake();
    return 0;
  }

  std::uint64_t wakeups() const noexcept { return wakeups_; }

 private:
  friend class loop_waker<post_uv_async_each>;

  void take() {
    ++wakeups_;
    for (std::unique_lock lock{mutex_}; !queue_.empty(); lock.lock()) {
      const posted p = queue_.front();
      queue_.pop_front();
      lock.unlock();
      posted_timer::arm(timers_, p);
    }
  }

  timer_service& timers_;
  const std::size_t max_queued_;
  std::uint64_t wakeups_ = 0;
  alignas(64) std::mutex mutex_;
  std::deque<posted> queue_;  // under mutex_
  loop_waker<post_uv_async_each> waker_;
};

}  // namespace tickwheel::bench
