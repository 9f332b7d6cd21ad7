// A queue between threads that has a bound and an end.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>

/// *Thread safety:* any thread, several at once.
template <class T>
class bounded_queue {
 public:
  /// Requires: `most` is not zero.
  explicit bounded_queue(std::size_t most) : most_{most} {}

  /// Adds an item. Returns false if it is full or closed. Does not wait.
  bool try_push(const T& item) {
    {
      const std::lock_guard lock{mutex_};
      if (closed_ || items_.size() >= most_) return false;
      items_.push_back(item);
    }
    changed_.notify_one();
    return true;
  }

  /// Waits for an item. Returns nothing once it is closed and empty.
  std::optional<T> pop() {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [this] { return closed_ || !items_.empty(); });
    if (items_.empty()) return std::nullopt;
    const T item = items_.front();
    items_.pop_front();
    return item;
  }

  /// Refuses further items. Items that are in it can still be taken. Idempotent.
  void close() {
    {
      const std::lock_guard lock{mutex_};
      closed_ = true;
    }
    changed_.notify_all();
  }

 private:
  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<T> items_;
  bool closed_ = false;
};
