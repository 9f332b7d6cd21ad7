// The least cost of handing an item over: a ring between one producer and the loop, with a timer for each of its places.
//
// It allocates nothing. Its items cannot be cancelled, and it cannot be closed while it holds some. So it is no queue to use, but a
// floor: no queue that does all this can be expected to be faster. It takes one line that one thread writes and another reads, one
// locked addition, a check of the limit, and a wakeup if the loop waits. That holds only while posting is faster than arming, as in
// `post_at`. A loop that keeps up with its producer takes each item by itself, and both wait for each other's lines.
#pragma once

#include "post_locked.hpp"
#include "posted_timer.hpp"

#include <tickwheel/uv/timer.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <uv.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <new>
#include <string_view>
#include <vector>

namespace tickwheel::bench {

class post_floor {
 public:
  static constexpr std::string_view name = "floor";

  /// Requires: `max_queued` is a power of two. All posted items have run before more than `max_queued` further ones are posted.
  post_floor(uv_loop_t& loop, timer_service& timers, std::size_t max_queued)
      : records_(max_queued), mask_{max_queued - 1}, waker_{loop, *this} {
    for (record& r : records_) timers_.emplace_back(timers, *this, r);
  }

  /// One thread.
  template <class F>
  int post_at(clock::time_point when, F call) noexcept {
    if (next_ - ended_.load(std::memory_order_acquire) > mask_) return UV_EAGAIN;
    ::new (static_cast<void*>(records_[next_ & mask_].at)) posted{when, call};
    ++next_;
    if ((pushed_.fetch_add(one, std::memory_order_acq_rel) & asleep) != 0) {
      pushed_.fetch_sub(asleep, std::memory_order_relaxed);
      waker_.wake();
    }
    return 0;
  }

  std::uint64_t wakeups() const noexcept { return wakeups_; }

 private:
  friend class loop_waker<post_floor>;

  struct record {
    posted& what() noexcept { return *std::launder(reinterpret_cast<posted*>(at)); }

    alignas(64) std::byte at[sizeof(posted)];
  };

  struct record_timer : timer {
    record_timer(timer_service& in, post_floor& r, record& c) noexcept : timer{in, &run}, ring{r}, record{c} {}

    static void run(wheel_entry& entry) noexcept {
      auto& self = static_cast<record_timer&>(timer::from(entry));
      self.record.what().run(self.record.what().callable);
      self.ring.ended_.fetch_add(1, std::memory_order_release);
    }

    post_floor& ring;
    post_floor::record& record;
  };

  void take() noexcept {
    ++wakeups_;
    std::uint64_t seen = pushed_.load(std::memory_order_acquire);
    do {
      for (; taken_ != seen / one; ++taken_)
        if (timers_[taken_ & mask_].arm_at(records_[taken_ & mask_].what().due) != 0) std::abort();
    } while (!pushed_.compare_exchange_strong(seen, seen | asleep, std::memory_order_acq_rel));
  }

  // how many were pushed, and whether the loop has found that there are no more
  static constexpr std::uint64_t asleep = 1;
  static constexpr std::uint64_t one = 2;

  std::vector<record> records_;
  std::deque<record_timer> timers_;
  const std::uint64_t mask_;
  loop_waker<post_floor> waker_;
  // written by the loop: once all items are taken; then with each item
  alignas(64) std::atomic<std::uint64_t> ended_{0};
  alignas(64) std::uint64_t taken_ = 0;
  std::uint64_t wakeups_ = 0;
  // written by both threads
  alignas(64) std::atomic<std::uint64_t> pushed_{asleep};
  // written by the producer
  alignas(64) std::uint64_t next_ = 0;
};

}  // namespace tickwheel::bench
