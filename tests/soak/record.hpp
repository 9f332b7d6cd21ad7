// The record of each peer, independent of the library: its own side writes down when it sent, and each verdict on the peer is compared
// with that.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdarg>
#include <cstdint>
#include <deque>
#include <mutex>

namespace soak {

using clock = std::chrono::steady_clock;
using time_point = clock::time_point;
using std::chrono::nanoseconds;

inline double in_ms(nanoseconds d) { return std::chrono::duration<double, std::milli>(d).count(); }

/// The first error, and the number of errors. *Thread safety:* any thread.
class violations {
 public:
  __attribute__((format(printf, 2, 3))) void report(const char* format, ...) noexcept {
    if (count_.fetch_add(1) != 0) return;
    va_list values;
    va_start(values, format);
    const std::lock_guard lock{mutex_};
    std::vsnprintf(first_.data(), first_.size(), format, values);
    va_end(values);
  }

  std::uint64_t count() const noexcept { return count_; }
  /// Empty: none.
  std::array<char, 256> first() noexcept {
    const std::lock_guard lock{mutex_};
    return first_;
  }

 private:
  std::atomic<std::uint64_t> count_{0};
  std::mutex mutex_;
  std::array<char, 256> first_{};
};

/// Keeps the largest value that it is given. *Thread safety:* any thread.
class maximum {
 public:
  void show(nanoseconds value) noexcept {
    auto known = ns_.load(std::memory_order_relaxed);
    while (value.count() > known && !ns_.compare_exchange_weak(known, value.count(), std::memory_order_relaxed)) {
    }
  }
  nanoseconds get() const noexcept { return nanoseconds{ns_.load(std::memory_order_relaxed)}; }

 private:
  std::atomic<nanoseconds::rep> ns_{0};
};

/// Every message: 16 bytes. The first message says which peer sends it.
struct message {
  std::uint32_t slot;
  std::uint32_t generation;
  std::uint32_t limit_ms;  // of silence
  std::uint32_t age_ms;    // after which the server closes in any case; 0: never
};
static_assert(sizeof(message) == 16);

enum class verdict : std::uint8_t { none, idle, aged };

/// One peer, as its own side sees it. Several peers use a place one after another, and differ by the generation.
struct record {
  std::mutex mutex;
  std::uint32_t generation = 0;
  bool open = false;
  nanoseconds limit{};
  nanoseconds age{};

  // The bytes that it has sent: `began` before the call of the last message, `ended` after it, when it can have arrived, and how far its
  // server's loop had stalled by then. While a message is being sent, `sending` is when that began.
  std::uint64_t bytes = 0;
  time_point hello{};
  time_point began{}, ended{};
  nanoseconds stalled{};
  bool is_sending = false;
  time_point sending{};

  verdict given = verdict::none;  // the server's
};

/// The data that all threads of the soak share.
struct shared {
  shared(std::size_t places, unsigned loops) : records(places), stalled(loops) {}

  std::deque<record> records;
  std::deque<std::atomic<nanoseconds::rep>> stalled;  // of each loop, published by it
  violations wrong;
  nanoseconds margin{};

  // counted by several threads; read for the status line
  std::atomic<std::uint64_t> opened{0}, not_connected{0}, left{0}, idle{0}, aged{0}, brink{0}, messages{0};
  std::atomic<std::uint64_t> calls{0}, answered{0}, gave_up{0}, calls_cut{0}, unmatched{0}, retries{0};
  std::atomic<std::uint64_t> armed{0}, fired{0}, cancelled{0}, refused{0};
  std::atomic<std::int64_t> connected{0};
  maximum latest_idle;  // beyond the limit and our own stalls
};

}  // namespace soak
