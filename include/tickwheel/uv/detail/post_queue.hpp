// The post queue is what a service, its remote_handles, its remote_timers and its holds share: where operations from other
// threads are queued, counted, and announced.
//
// It is reference counted and outlives service and loop, so that a handle which is left over finds a closed inbox instead
// of freed memory.
//
// Counting. Producers count what they are about to push, the loop counts what it has delivered and what has ended; the
// difference is what is queued, or not yet ended. So no counter has two kinds of writers, and the loop's are stores. A
// producer compares with what it knows to have been delivered and to have ended, and looks at the loop's line only when
// that does not suffice. A refused one takes its count back; until it has, others may be refused that would just have fit.
//
// Waking. Who pushes into an inbox that is asleep rings, and who drops the last hold, under a mutex that `close` takes, too:
// uv_async_send may not race uv_close. Nobody else takes it, but for drivers whose clock is their own.
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

/// *Thread safety:* any thread, unless a function says that it is the loop's. *Complexity:* O(1); one allocation a node.
template <class Sync>
class TICKWHEEL_API basic_post_queue {
 public:
  using node = basic_posted_operation<Sync>;
  using chain = basic_inbox_chain<Sync>;

  /// One reference. Null without memory. Limits beyond what a 64-bit count reaches are none.
  static basic_post_queue* make(std::size_t max_queued, std::size_t max_unended) noexcept;

  basic_post_queue(const basic_post_queue&) = delete;
  basic_post_queue& operator=(const basic_post_queue&) = delete;

  void retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  // --- producers ---

  /// When what is posted now is due once `after` has passed: reads the clock, unless that is at once. 0, or UV_ECANCELED.
  int due_after(std::chrono::nanoseconds after, clock::time_point& due) noexcept {
    due = clock::time_point::min();
    if (after.count() <= 0) return 0;
    clock::time_point now;
    if (!read_clock(now)) return UV_ECANCELED;
    due = add_saturating(now, after);
    return 0;
  }

  /// A node that is due at `due`, and a place for it. 0, or the code of remote_handle::post.
  int reserve(clock::time_point due, node*& made) noexcept {
    if (inbox_.is_closed()) return UV_ECANCELED;
    if (!take_place()) return UV_EAGAIN;
    made = new (std::nothrow) node;
    if (made == nullptr) {
      give_place_back();
      return UV_ENOMEM;
    }
    made->due = due;
    return 0;
  }

  /// Pushes what `reserve` gave. 0, or UV_ECANCELED, and the node is freed.
  int submit(node& made) noexcept {
    const pushed what = inbox_.push(made.link);
    if (what == pushed::queued) [[likely]]
      return 0;
    if (what == pushed::asleep) {
      wake_loop();
      return 0;
    }
    give_place_back();
    delete &made;
    return UV_ECANCELED;
  }

  /// Returns the state in which the node ends: `cancelled`, by this call or an earlier one, `ran`, or `closed`. Requires: the
  /// caller has a reference to the node.
  operation_state cancel(node& posted) noexcept;
  /// The second half of a cancel: tells the loop that a node which it had armed was cancelled.
  void notify(node& cancelled) noexcept;

  // --- holds ---

  void add_hold() noexcept { holds_.fetch_add(1, std::memory_order_relaxed); }
  /// The last one to go rings.
  void drop_hold() noexcept {
    // release: what was posted before is taken by the pass that finds no hold left; acquire: as for a push that wakes,
    // the flag of the bell is seen as the loop left it
    if (holds_.fetch_sub(1, std::memory_order_acq_rel) == 1) wake_loop();
  }
  /// The loop's. Does for holds what `take_all` and `sleep` do for the inbox, and so acquires, releases, and is a
  /// read-modify-write.
  bool has_holds() noexcept { return holds_.fetch_add(0, std::memory_order_acq_rel) != 0; }

  // --- the loop ---

  /// Before others know of it: who is rung.
  void open(driver& rings) noexcept {
    driver_ = &rings;
    steady_ = rings.on_steady_clock();
  }
  chain take_all() noexcept { return inbox_.take_all(); }
  /// As `inbox::sleep`.
  bool sleep() noexcept { return inbox_.sleep(); }
  bool seems_empty() const noexcept { return inbox_.seems_empty(); }
  void count_delivered() noexcept { add_one(delivered_); }
  void count_ended() noexcept { add_one(ended_); }
  /// Nothing is accepted, and the driver is not rung any more, from here on. The last chain.
  chain close() noexcept;

  // --- statistics ---

  /// Including those that are just being refused.
  std::uint64_t accepted() const noexcept { return accepted_.load(std::memory_order_relaxed); }
  std::uint64_t refused() const noexcept { return refused_.load(std::memory_order_relaxed); }

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

  // Signed, since `done` may count operations that were accepted after this one. Relaxed everywhere: these are numbers
  // to compare, through which nothing else is read.
  static bool exceeds(std::uint64_t accepted, std::uint64_t done, std::int64_t limit) noexcept {
    return static_cast<std::int64_t>(accepted - done) > limit;
  }
  static void add_one(atomic<std::uint64_t>& only_ours) noexcept {
    only_ours.store(only_ours.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  bool read_clock(clock::time_point& now) noexcept {
    if (!steady_) return read_driver(now);
    now = clock::now();
    return true;
  }
  bool read_driver(clock::time_point& now) noexcept;
  void wake_loop() noexcept;

  static constexpr std::size_t cache_line = 64;

  // the producers' line, which the loop takes twice a pass at most
  alignas(cache_line) basic_inbox<Sync> inbox_;
  atomic<std::uint64_t> accepted_{0};
  atomic<std::uint64_t> known_delivered_{0};  // at most `delivered_`
  atomic<std::uint64_t> known_ended_{0};      // at most `ended_`

  // what never changes once it is open
  alignas(cache_line) const std::int64_t max_queued_;
  const std::int64_t max_unended_;
  plain<bool> steady_{false};

  // the loop's
  alignas(cache_line) atomic<std::uint64_t> delivered_{0};  // taken from the queue, whatever became of it
  atomic<std::uint64_t> ended_{0};                          // ran, or let go after it was cancelled

  // what is rarely touched
  alignas(cache_line) atomic<std::uint32_t> references_{1};
  atomic<std::uint32_t> holds_{0};
  atomic<std::uint64_t> refused_{0};
  typename Sync::mutex driver_mutex_;
  plain<driver*> driver_{nullptr};  // under driver_mutex_; null once closed
};

}  // namespace tickwheel::detail
