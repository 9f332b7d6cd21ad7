// The inbox: what many threads push and one takes, without a lock.
//
// A stack whose head is swapped by compare-and-exchange, taken whole by one exchange and then reversed: each
// producer's links come out in the order it pushed them. Taking all at once is what makes the stack safe and short. No
// thread ever reads a link that another may have taken, so neither ABA nor reclamation is an issue, and one exchange
// serves any number of pushes.
//
// An inbox is asleep or awake. Whoever pushes into one that is asleep is told so, and wakes the loop; all others need
// not, as the loop looks again by itself: it wakes the inbox when it takes, and lets it sleep only if nothing was pushed
// since. So what is pushed while the loop handles what came before costs no wakeup. "Asleep" is the state of an empty
// inbox, and of no other: there is no second flag that could disagree with it.
//
// Closed is a state of the head like any other, reached by exchange: a push comes before it, and is in the last chain,
// or after it, and is refused. Nothing falls between.
//
// The memory orders, edge by edge; A -> B says that what came before A is seen after B:
//
//   push -> take_all, close  What the producer wrote into the object is seen by who takes it. Push releases, take_all and
//                            close acquire. Later pushes are read-modify-writes of the same head, so they extend the
//                            release sequence: acquiring the last push acquires all below it.
//   sleep -> push that wakes The producer that finds the inbox asleep rings next, and a bell may answer "already rung"
//                            after a relaxed look at its flag (uv_async_send does). The loop lowers that flag before it
//                            takes. Sleep releases and push acquires, so who finds what the sleep left sees the flag
//                            lowered, and rings. Who sees it still raised has found an earlier sleep, and so pushed
//                            before the take_all that follows, which takes what it pushed. For this take_all must be a
//                            read-modify-write even of an inbox that is asleep. A load may find one asleep that no longer
//                            is; and were the loop to leave it asleep, no sleep would follow the lowering of the flag.
//                            Either way loop and producer would rely on each other.
//   close -> refused push    What the closing thread did before is seen by who is refused: load and failed exchange
//                            acquire, close releases.
//
// Nothing here is sequentially consistent: there is one atomic object, and its modification order is all that counts.
// tests/weak_memory explores the edges and fails if any of these orders can be weaker unnoticed.
#pragma once

#include <tickwheel/uv/detail/sync.hpp>

#include <atomic>

namespace tickwheel::detail {

/// What an object needs to be pushed. It may be in one inbox, or one chain, at a time.
template <class Sync>
struct basic_inbox_link {
  typename Sync::template plain<basic_inbox_link*> next{nullptr};
};

/// Links in the order they were pushed.
///
/// *Thread safety:* none; it belongs to the thread that took it.
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

  /// The link that is taken last; null when empty.
  inbox_link* back() const noexcept { return empty() ? nullptr : back_; }

  /// Adds what `later` has behind what is here, and leaves it empty.
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
  link* back_ = nullptr;  // the last link; without meaning when empty
};

/// What became of a push.
enum class pushed {
  asleep,  ///< it is in, and the inbox was asleep: wake the thread that takes
  queued,  ///< it is in; the thread that takes will look by itself, or is being woken
  closed,  ///< refused
};

/// Many threads push, one takes and closes.
///
/// *Thread safety:* `push`, `seems_empty` and `is_closed` on any thread; `take_all`, `sleep` and `close` on one.
/// *Complexity:* push and sleep O(1), lock-free; take_all O(links).
/// *Lifetime:* links are the caller's. Destroying an inbox touches none.
template <class Sync>
class basic_inbox {
 public:
  using link = basic_inbox_link<Sync>;
  using chain = basic_inbox_chain<Sync>;

  /// Asleep.
  basic_inbox() noexcept = default;
  basic_inbox(const basic_inbox&) = delete;
  basic_inbox& operator=(const basic_inbox&) = delete;

  /// Requires: `pushed_link` is in no inbox and in no chain.
  pushed push(link& pushed_link) noexcept {
    link* head = head_.load(std::memory_order_acquire);  // acquire: it may be the mark of a closed inbox
    do {
      if (head == &closed_) return pushed::closed;
      pushed_link.next = head == &asleep_ ? nullptr : head;
      // on success release: the object -> take_all; acquire: sleep -> push that wakes. On failure as for the load.
    } while (!head_.compare_exchange_weak(head, &pushed_link, std::memory_order_acq_rel, std::memory_order_acquire));
    return head == &asleep_ ? pushed::asleep : pushed::queued;
  }

  /// Takes all there is, nothing from a closed inbox, and wakes it: what is pushed from here on announces itself no more
  /// until `sleep`. Always an exchange, see above. Requires: not closed meanwhile.
  chain take_all() noexcept {
    if (is_closed()) return {};
    return in_order(head_.exchange(nullptr, std::memory_order_acquire));
  }

  /// Lets it sleep if nothing was pushed since it was taken from; false when something was: take again. Requires: taken from
  /// since it slept last, and not closed.
  bool sleep() noexcept {
    link* awake_and_empty = nullptr;
    // on success release: sleep -> push that wakes. On failure nothing is read through what was found.
    return head_.compare_exchange_strong(awake_and_empty, &asleep_, std::memory_order_release,
                                         std::memory_order_relaxed);
  }

  /// Takes all there is, and refuses what comes later.
  chain close() noexcept { return in_order(head_.exchange(&closed_, std::memory_order_acq_rel)); }

  /// A hint: may be out of date at once, and says nothing about the objects.
  bool seems_empty() const noexcept { return is_empty(head_.load(std::memory_order_relaxed)); }

  /// Once true it stays so.
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
  // The marks: addresses that no other link has. Each inbox has its own, not static ones, of which a program and a shared
  // library with hidden symbols would have two.
  link asleep_;
  link closed_;
};

}  // namespace tickwheel::detail
