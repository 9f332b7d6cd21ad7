// Threads that begin at the same moment, again and again, each with its share of the items.
#pragma once

#include <uv.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <thread>
#include <vector>

namespace tickwheel::bench {

/// *Thread safety:* one thread, which is not one of them.
class producers {
 public:
  /// `add(id)` adds one item and returns 0 or a UV_ code. Its ids go from 0 to `items`, each once per round. After UV_EAGAIN the same
  /// item is added again, and the refusal is counted. Any other error ends the program, and so does an item that is never accepted.
  template <class F>
  producers(unsigned threads, std::size_t items, F add) {
    for (unsigned t = 0; t < threads; ++t)
      threads_.emplace_back([this, first = items * t / threads, last = items * (t + 1) / threads, add] {
        for (unsigned round = 1; await(round); ++round) {
          std::uint64_t refused = 0;
          const std::chrono::nanoseconds begin = thread_time();
          for (std::size_t id = first; id < last; ++id) refused += insist(add, id);
          busy_.fetch_add((thread_time() - begin).count(), std::memory_order_relaxed);
          refused_.fetch_add(refused, std::memory_order_relaxed);
        }
      });
  }
  ~producers() {
    ending_ = true;
    next_round();
    for (std::thread& t : threads_) t.join();
  }
  producers(const producers&) = delete;
  producers& operator=(const producers&) = delete;

  /// Returns when all threads wait for `go` and nothing else. Requires: the round before has ended.
  void get_ready() {
    ready_ = 0;
    next_round();
    while (ready_ != threads_.size()) std::this_thread::yield();
  }
  void go() noexcept { going_.store(round_, std::memory_order_release); }

  /// Returns how often `add` returned UV_EAGAIN.
  std::uint64_t refused() const noexcept { return refused_; }
  /// Returns the CPU time that all threads together spent on adding.
  std::chrono::nanoseconds busy() const noexcept { return std::chrono::nanoseconds{busy_}; }

 private:
  static std::chrono::nanoseconds thread_time() noexcept {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return std::chrono::seconds{t.tv_sec} + std::chrono::nanoseconds{t.tv_nsec};
  }

  void next_round() noexcept { ++round_; }

  bool await(unsigned round) noexcept {
    // They stay awake, so that the system gives each thread a core of its own if there are enough. A thread that was just woken may
    // share the loop's core for its first milliseconds, and a round takes no longer than that.
    while (round_.load(std::memory_order_acquire) == round - 1) std::this_thread::yield();
    if (ending_) return false;
    ++ready_;
    while (going_.load(std::memory_order_acquire) != round) std::this_thread::yield();
    return true;
  }

  template <class F>
  static std::uint64_t insist(F& add, std::size_t id) {
    constexpr std::uint64_t most = 10'000'000;
    for (std::uint64_t refused = 0; refused < most; ++refused) {
      const int error = add(id);
      if (error == 0) return refused;
      if (error != UV_EAGAIN) {
        std::fprintf(stderr, "an item was refused: %s\n", uv_strerror(error));
        std::abort();
      }
      std::this_thread::yield();
    }
    std::fputs("the loop takes no items\n", stderr);
    std::abort();
  }

  std::atomic<unsigned> round_{0}, going_{0};
  std::atomic<std::size_t> ready_{0};
  std::atomic<bool> ending_{false};
  std::atomic<std::uint64_t> refused_{0};
  std::atomic<std::int64_t> busy_{0};  // ns
  std::vector<std::thread> threads_;
};

}  // namespace tickwheel::bench
