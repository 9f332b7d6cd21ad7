// Callables that own something, for posting. Each notes where it ended: a test sees that it ended once,
// on the loop's thread.
#pragma once

#include "../../support/prelude.hpp"

/// Counts how the callables of one test ended. The thread that makes it is the loop's.
struct callable_log {
  std::atomic<int> made{0};
  std::atomic<int> ran{0};
  std::atomic<int> destroyed{0};
  std::atomic<int> destroyed_elsewhere{0};  // on another thread than the loop's
  std::function<void()> in_destructor;      // called once
  std::function<void()> in_move;            // called once

  const std::thread::id loop = std::this_thread::get_id();

  /// Each callable was destroyed once, on the loop's thread.
  testing::AssertionResult all_ended() const {
    if (made == destroyed && destroyed_elsewhere == 0) return testing::AssertionSuccess();
    return testing::AssertionFailure() << made << " made, " << destroyed << " destroyed, " << destroyed_elsewhere
                                       << " of them on another thread";
  }
};

/// Counts in a log when it runs and when it is destroyed. A moved-from one does nothing. `Size` bytes, aligned to `Align`.
template <std::size_t Size = 16, std::size_t Align = alignof(void*)>
class alignas(Align) counted_callable {
 public:
  explicit counted_callable(callable_log& log) noexcept : log_{&log} { ++log.made; }
  counted_callable(counted_callable&& from) noexcept : log_{std::exchange(from.log_, nullptr)} {
    if (log_ != nullptr && log_->in_move) std::exchange(log_->in_move, {})();
  }
  counted_callable(const counted_callable& from) noexcept : log_{from.log_} {
    if (log_ != nullptr) ++log_->made;
  }
  ~counted_callable() {
    if (log_ == nullptr) return;
    callable_log& log = *log_;
    ++log.destroyed;
    if (std::this_thread::get_id() != log.loop)
      ++log.destroyed_elsewhere;
    else if (log.in_destructor)
      std::exchange(log.in_destructor, {})();
    EXPECT_EQ(log_, &log) << "its memory was freed while its destructor ran";
  }

  void operator()() noexcept {
    EXPECT_EQ(std::this_thread::get_id(), log_->loop);
    ++log_->ran;
  }

  /// From now on it counts no more. For a refused one, which ends on the thread of its caller.
  void forget() noexcept { --std::exchange(log_, nullptr)->made; }

  /// Returns true if it was not moved from.
  explicit operator bool() const noexcept { return log_ != nullptr; }

 private:
  callable_log* log_;
  std::array<unsigned char, Size - sizeof(void*)> rest_{};
};
