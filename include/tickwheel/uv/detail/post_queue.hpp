// The post queue is what a service shares with its remote_handles, its remote_timers and its holds. Operations of other threads
// are queued in it, counted, and announced to the loop.
//
// It counts its references and may outlive the service and the loop. A handle that is left over finds a closed inbox, not freed
// memory.
//
// Counting. Threads that post count the operations they are about to push. The loop counts the operations it has delivered, and
// those that have ended. The differences are the number of queued operations and the number of unended ones. So each counter is
// written by one kind of thread, and the loop's are stores. A thread that posts compares with an older copy of the loop's
// counts, and reads the loop's own line only if the copy does not suffice. A refused thread takes its count back. Until then
// other threads may be refused although there is just room for them.
//
// Waking. Two threads wake the loop: the one whose push finds the inbox asleep, and the one that drops the last hold. They do
// it under a mutex that `close` locks as well, because uv_async_send must not race uv_close. Only drivers with a clock of their
// own use the mutex for anything else.
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/core/detail/nanoseconds.hpp>
#include <tickwheel/uv/detail/inbox.hpp>
#include <tickwheel/uv/detail/posted_operation.hpp>
#include <tickwheel/uv/detail/sync.hpp>
#include <tickwheel/uv/driver.hpp>

#include <uv.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>

namespace tickwheel::detail {

/// *Thread safety:* any thread, except the functions of the loop. *Complexity:* O(1); one allocation per operation.
template <class Sync>
class TICKWHEEL_API basic_post_queue {
 public:
  using operation = basic_posted_operation<Sync>;
  using chain = basic_inbox_chain<Sync>;

  /// Returns a queue with one reference, or null without memory. A limit above the range of a 64-bit count is no limit.
  static basic_post_queue* make(std::size_t max_queued, std::size_t max_unended) noexcept;

  basic_post_queue(const basic_post_queue&) = delete;
  basic_post_queue& operator=(const basic_post_queue&) = delete;

  void retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  // --- threads that post ---

  /// Sets `due` to the time that is `after` from now. Reads the clock, unless `after` is zero or less. Returns 0, or
  /// UV_ECANCELED if the service is closed.
  [[nodiscard]] int due_after(std::chrono::nanoseconds after, clock::time_point& due) noexcept;

  /// Makes an operation that is due at `due`, and reserves a place for it. Returns 0, or an error of `remote_handle::post`.
  [[nodiscard]] int reserve(clock::time_point due, operation*& made) noexcept;

  /// Pushes an operation that `reserve` made, and wakes the loop if the inbox was asleep. Returns false if the service is
  /// closed. The operation is then still the caller's.
  [[nodiscard]] bool push(operation& made) noexcept;

  /// Frees an operation that was not pushed, and gives its place back.
  void discard(operation& made) noexcept {
    give_place_back();
    delete &made;
  }

  /// Returns the state in which the operation ends: `cancelled`, by this call or an earlier one, `ran`, or `closed`. Requires:
  /// the caller has a reference to the operation.
  operation_state cancel(operation& posted) noexcept;
  /// The second half of a cancel: tells the loop that an operation was cancelled after the loop had armed it.
  void notify(operation& cancelled) noexcept;

  // --- holds ---

  void add_hold() noexcept { holds_.fetch_add(1, std::memory_order_relaxed); }
  /// Wakes the loop if this was the last hold.
  void drop_hold() noexcept {
    // Release: the pass that finds no hold left takes all earlier posts. Acquire: the flag of uv_async_send is seen as the loop left
    // it, as for a push that wakes the loop.
    if (holds_.fetch_sub(1, std::memory_order_acq_rel) == 1) wake_loop();
  }
  /// Called by the loop. Acquires, releases and is a read-modify-write, because it does for holds what `take_all` and `sleep`
  /// do for the inbox.
  bool has_holds() noexcept { return holds_.fetch_add(0, std::memory_order_acq_rel) != 0; }

  // --- the loop ---

  /// From now on `driver` is woken. Requires: no other thread knows the queue.
  void open(driver& woken) noexcept {
    driver_ = &woken;
    steady_ = woken.on_steady_clock();
  }
  /// As `inbox::take_all`.
  chain take_all() noexcept { return inbox_.take_all(); }
  /// As `inbox::sleep`.
  bool sleep() noexcept { return inbox_.sleep(); }
  bool seems_empty() const noexcept { return inbox_.seems_empty(); }
  void count_delivered() noexcept { add_one(delivered_); }
  void count_ended() noexcept { add_one(ended_); }
  /// Returns what is queued. From now on nothing is accepted, and the driver is not woken.
  chain close() noexcept;

  // --- statistics ---

  /// Includes operations that are being refused at this moment.
  std::uint64_t accepted() const noexcept { return accepted_.load(std::memory_order_relaxed); }
  std::uint64_t refused() const noexcept { return refused_.load(std::memory_order_relaxed); }
  /// Returns the number of operations that were not delivered yet. Includes those that are being refused. Called by the loop.
  std::uint64_t queued() const noexcept { return accepted() - delivered_.load(std::memory_order_relaxed); }

 private:
  template <class T>
  using atomic = typename Sync::template atomic<T>;
  template <class T>
  using plain = typename Sync::template plain<T>;

  basic_post_queue(std::size_t max_queued, std::size_t max_unended) noexcept;
  ~basic_post_queue() = default;

  bool take_place() noexcept {
    const std::uint64_t mine = accepted_.fetch_add(1, std::memory_order_relaxed) + 1;
    if (!exceeds(mine, known_delivered_.load(std::memory_order_relaxed), max_queued_) &&
        !exceeds(mine, known_ended_.load(std::memory_order_relaxed), max_unended_)) [[likely]]
      return true;
    return take_place_slow_path(mine);
  }
  bool take_place_slow_path(std::uint64_t mine) noexcept;
  void give_place_back() noexcept { accepted_.fetch_sub(1, std::memory_order_relaxed); }

  // Signed, because `done` may count operations that were accepted after this one. The counts are relaxed everywhere: they are
  // only compared, and order nothing else.
  static bool exceeds(std::uint64_t accepted, std::uint64_t done, std::int64_t limit) noexcept {
    return static_cast<std::int64_t>(accepted - done) > limit;
  }
  static void add_one(atomic<std::uint64_t>& of_loop) noexcept {
    of_loop.store(of_loop.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  bool read_clock(clock::time_point& now) noexcept {
    if (!steady_) return read_driver(now);
    now = clock::now();
    return true;
  }
  bool read_driver(clock::time_point& now) noexcept;
  void wake_loop() noexcept;

  static constexpr std::size_t cache_line = 64;

  // written by the threads that post, and at most twice per pass by the loop
  alignas(cache_line) basic_inbox<Sync> inbox_;
  atomic<std::uint64_t> accepted_{0};
  atomic<std::uint64_t> known_delivered_{0};  // at most `delivered_`
  atomic<std::uint64_t> known_ended_{0};      // at most `ended_`

  // does not change after `open`
  alignas(cache_line) const std::int64_t max_queued_;
  const std::int64_t max_unended_;
  plain<bool> steady_{false};

  // written by the loop
  alignas(cache_line) atomic<std::uint64_t> delivered_{0};  // taken from the inbox, whatever became of them
  atomic<std::uint64_t> ended_{0};                          // ran, or cancelled and taken

  // rarely used
  alignas(cache_line) atomic<std::uint32_t> references_{1};
  atomic<std::uint32_t> holds_{0};
  atomic<std::uint64_t> refused_{0};
  typename Sync::mutex driver_mutex_;
  plain<driver*> driver_{nullptr};  // under driver_mutex_; null once closed
};

template <class Sync>
inline int basic_post_queue<Sync>::due_after(std::chrono::nanoseconds after, clock::time_point& due) noexcept {
  due = clock::time_point::min();
  if (after.count() <= 0) return 0;
  clock::time_point now;
  if (!read_clock(now)) return UV_ECANCELED;
  due = add_saturating(now, after);
  return 0;
}

template <class Sync>
inline int basic_post_queue<Sync>::reserve(clock::time_point due, operation*& made) noexcept {
  if (inbox_.is_closed()) return UV_ECANCELED;
  if (!take_place()) return UV_EAGAIN;
  made = new (std::nothrow) operation;
  if (made == nullptr) {
    give_place_back();
    return UV_ENOMEM;
  }
  made->due = due;
  return 0;
}

template <class Sync>
inline bool basic_post_queue<Sync>::push(operation& made) noexcept {
  const pushed what = inbox_.push(made.link);
  if (what == pushed::queued) [[likely]]
    return true;
  if (what == pushed::closed) return false;
  wake_loop();
  return true;
}

}  // namespace tickwheel::detail
