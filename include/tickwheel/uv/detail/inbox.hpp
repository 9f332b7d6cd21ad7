// The inbox: a queue into which many threads push and from which one thread takes, without a lock.
//
// It is a stack. A push swaps its head by compare-and-exchange. One exchange takes the whole stack, which is then reversed, so
// each producer's links come out in the order in which it pushed them. Taking all at once keeps the stack safe and short. No
// thread ever reads a link that another thread may have taken, so there is no ABA problem and no reclamation. One exchange
// serves any number of pushes.
//
// An inbox is asleep or awake. A push that finds it asleep is told so, and its thread wakes the loop. Other pushes need not,
// because the loop looks again by itself: it wakes the inbox when it takes, and lets it sleep only if nothing was pushed since.
// So a push costs no wakeup while the loop handles earlier ones. "Asleep" is a state of the empty inbox only. There is no
// second flag that could disagree with it.
//
// Closed is a state of the head as well, reached by exchange. A push comes before it, and is in the last chain, or after it,
// and is refused.
//
// The memory orders, edge by edge. A -> B says that everything before A is seen after B:
//
//   push -> take_all, close  The thread that takes sees what the producer wrote into the object. Push releases, take_all and
//                            close acquire. Later pushes are read-modify-writes of the same head, so they extend the release
//                            sequence: acquiring the last push acquires all below it.
//   sleep -> push that wakes The producer that finds the inbox asleep sends a wakeup next. The send may return at once after a
//                            relaxed look at a flag that says "already sent" (uv_async_send does). The loop clears that flag
//                            before it takes. Sleep releases and push acquires, so a push that finds what the sleep left sees
//                            the flag cleared, and the wakeup is sent. A push that still sees the flag set has found an earlier
//                            sleep. It came before the take_all that follows the clearing, and that take_all takes it. For
//                            this, take_all must be a read-modify-write even of an inbox that is asleep. A load may find an
//                            inbox asleep that no longer is. And if the loop left it asleep, no sleep would follow the clearing
//                            of the flag. Either way loop and producer would rely on each other.
//   close -> refused push    A refused push sees what the closing thread did before. The load and the failed exchange acquire,
//                            close releases.
//
// Nothing here is sequentially consistent: there is one atomic object, and only its modification order counts.
// tests/weak_memory explores the edges, and fails if any of these orders can be weaker unnoticed.
#pragma once

#include <tickwheel/uv/detail/sync.hpp>

#include <atomic>

namespace tickwheel::detail {

/// A member of an object that can be pushed. It may be in one inbox or one chain at a time.
template <class Sync>
struct basic_inbox_link {
  typename Sync::template plain<basic_inbox_link*> next{nullptr};
};

/// Links in the order in which they were pushed.
///
/// *Thread safety:* only the thread that took it.
template <class Sync>
class basic_inbox_chain {
 public:
  using link = basic_inbox_link<Sync>;

  basic_inbox_chain() noexcept = default;
  basic_inbox_chain(link& front, link& back) noexcept : front_{&front}, back_{&back} {}

  bool empty() const noexcept { return front_ == nullptr; }

  /// The first link; null when there is none.
  link* front() const noexcept { return front_; }

  /// Takes the first link; null when there is none. Nothing of it is read afterwards: it may be pushed again.
  link* pop() noexcept {
    link* const taken = front_;
    if (taken != nullptr) front_ = taken->next;
    return taken;
  }

  /// Returns the link that `pop` returns last, or null if the chain is empty.
  inbox_link* back() const noexcept { return empty() ? nullptr : back_; }

  /// Appends the links of `later`, and leaves it empty.
  void append(basic_inbox_chain&& later) noexcept {
    if (later.empty()) return;
    if (empty())
      front_ = later.front_;
    else
      back_->next = later.front_;
    back_ = later.back_;
    later.front_ = nullptr;
  }

 private:
  link* front_ = nullptr;
  link* back_ = nullptr;  // the last link; meaningless if empty
};

/// The result of a push.
enum class pushed {
  asleep,  ///< accepted, and the inbox was asleep: wake the thread that takes
  queued,  ///< accepted; the thread that takes looks by itself, or is being woken
  closed,  ///< refused
};

/// Many threads push. One thread takes and closes.
///
/// *Thread safety:* `push`, `seems_empty` and `is_closed` on any thread; `take_all`, `sleep` and `close` on one.
/// *Complexity:* push and sleep O(1), lock-free; take_all O(links).
/// *Lifetime:* links belong to the caller. Destroying an inbox touches none.
template <class Sync>
class basic_inbox {
 public:
  using link = basic_inbox_link<Sync>;
  using chain = basic_inbox_chain<Sync>;

  /// Makes an inbox that is asleep.
  basic_inbox() noexcept = default;
  basic_inbox(const basic_inbox&) = delete;
  basic_inbox& operator=(const basic_inbox&) = delete;

  /// Pushes a link. Requires: it is in no inbox and in no chain.
  pushed push(link& pushed_link) noexcept {
    link* head = head_.load(std::memory_order_acquire);  // acquire: it may be the mark of a closed inbox
    do {
      if (head == &closed_) return pushed::closed;
      pushed_link.next = head == &asleep_ ? nullptr : head;
      // on success release: the object -> take_all; acquire: sleep -> push that wakes. On failure as for the load.
    } while (!head_.compare_exchange_weak(head, &pushed_link, std::memory_order_acq_rel, std::memory_order_acquire));
    return head == &asleep_ ? pushed::asleep : pushed::queued;
  }

  /// Takes all links, none from a closed inbox, and leaves the inbox awake: until `sleep`, pushes return `queued`. It is always
  /// an exchange, see above. Requires: no `close` runs meanwhile.
  chain take_all() noexcept {
    if (is_closed()) return {};
    return in_order(head_.exchange(nullptr, std::memory_order_acquire));
  }

  /// Puts the inbox to sleep if nothing was pushed since `take_all`. Returns false if something was: take again. Requires:
  /// `take_all` was called since it last slept, and it is not closed.
  bool sleep() noexcept {
    link* awake_and_empty = nullptr;
    // on success release: sleep -> push that wakes. On failure nothing is read through what was found.
    return head_.compare_exchange_strong(awake_and_empty, &asleep_, std::memory_order_release,
                                         std::memory_order_relaxed);
  }

  /// Takes all links, and refuses later pushes.
  chain close() noexcept { return in_order(head_.exchange(&closed_, std::memory_order_acq_rel)); }

  /// Returns a hint: it may be out of date at once, and orders nothing.
  bool seems_empty() const noexcept { return is_empty(head_.load(std::memory_order_relaxed)); }

  /// Returns true after `close`.
  bool is_closed() const noexcept { return head_.load(std::memory_order_acquire) == &closed_; }

 private:
  bool is_empty(const link* head) const noexcept { return head == nullptr || head == &asleep_ || head == &closed_; }

  chain in_order(link* newest) const noexcept {
    if (is_empty(newest)) return {};
    link* const back = newest;
    link* front = nullptr;
    while (newest != nullptr) {
      link* const older = newest->next;
      newest->next = front;
      front = newest;
      newest = older;
    }
    return {*front, *back};
  }

  typename Sync::template atomic<link*> head_{&asleep_};  // null: empty, and awake
  // The marks: addresses that no other link has. Each inbox has its own. Static ones would exist twice, in a program and in a
  // shared library with hidden symbols.
  link asleep_;
  link closed_;
};

}  // namespace tickwheel::detail
