// The inbox: what many threads push and one takes, without a lock.
//
// A stack whose head is swapped by compare-and-exchange, drained whole by one exchange and then reversed: each
// producer's links come out in the order it pushed them. Taking all at once is what makes the stack safe and short. No
// thread ever reads a link that another may have taken, so neither ABA nor reclamation is an issue, and one exchange
// serves any number of pushes.
//
// Whoever pushes into an empty inbox is told so, and wakes the loop; all others need not. "Empty" is thereby the flag
// that says whether a wakeup is on its way, and there is no second one that could disagree with it.
//
// Closed is a state of the head like any other, reached by exchange: a push comes before it, and is in the last chain,
// or after it, and is refused. Nothing falls between.
//
// The memory orders, edge by edge; A -> B says that what came before A is seen after B:
//
//   push -> drain, close     What the producer wrote into the object is seen by who takes it. Push releases, drain and
//                            close acquire. Later pushes are read-modify-writes of the same head, so they extend the
//                            release sequence: acquiring the last push acquires all below it.
//   drain -> push into empty The producer that finds the inbox empty rings next, and a bell may answer "already rung"
//                            after a relaxed look at its flag (uv_async_send does). The loop lowers that flag before it
//                            drains. Drain releases and push acquires, so who finds what the drain left sees the flag
//                            lowered, and rings. For this edge drain must be a read-modify-write even when nothing is
//                            there: a load that finds nothing may be older than a push whose producer saw the flag still
//                            raised, and both would rely on the other.
//   close -> refused push    What the closing thread did before is seen by who is refused: load and failed exchange
//                            acquire, close releases.
//
// Nothing here is sequentially consistent: there is one atomic object, and its modification order is all that counts.
#pragma once

#include <atomic>

namespace tickwheel::detail {

/// What an object needs to be pushed. It may be in one inbox, or one chain, at a time.
struct inbox_link {
  inbox_link* next = nullptr;
};

/// Links in the order they were pushed.
///
/// *Thread safety:* none; it belongs to who drained it.
class inbox_chain {
 public:
  inbox_chain() noexcept = default;
  inbox_chain(inbox_link& front, inbox_link& back) noexcept : front_{&front}, back_{&back} {}

  bool empty() const noexcept { return front_ == nullptr; }

  /// The first link; null when there is none.
  inbox_link* front() const noexcept { return front_; }

  /// Takes the first link; null when there is none. Nothing of it is read afterwards: it may be pushed again.
  inbox_link* pop() noexcept {
    inbox_link* const taken = front_;
    if (taken != nullptr) front_ = taken->next;
    return taken;
  }

  /// Adds what `later` has behind what is here, and leaves it empty.
  void append(inbox_chain&& later) noexcept {
    if (later.empty()) return;
    if (empty())
      front_ = later.front_;
    else
      back_->next = later.front_;
    back_ = later.back_;
    later.front_ = nullptr;
  }

 private:
  inbox_link* front_ = nullptr;
  inbox_link* back_ = nullptr;  // the last link; without meaning when empty
};

/// What became of a push.
enum class pushed {
  first,   ///< it is in, and the inbox was empty: wake who drains it
  queued,  ///< it is in; a wakeup is on its way
  closed,  ///< refused
};

/// Many threads push, one drains and closes.
///
/// *Thread safety:* `push`, `seems_empty` and `is_closed` on any thread; `drain` and `close` on one.
/// *Complexity:* push O(1), lock-free; drain O(links).
/// *Lifetime:* links are the caller's. Destroying an inbox touches none.
class inbox {
 public:
  inbox() noexcept = default;
  inbox(const inbox&) = delete;
  inbox& operator=(const inbox&) = delete;

  /// Requires: `link` is in no inbox and in no chain.
  pushed push(inbox_link& link) noexcept {
    inbox_link* head = head_.load(std::memory_order_acquire);  // acquire: it may be the mark of a closed inbox
    do {
      if (head == &closed_) return pushed::closed;
      link.next = head;
      // on success release: the object -> drain; acquire: drain -> push into empty. On failure as for the load.
    } while (!head_.compare_exchange_weak(head, &link, std::memory_order_acq_rel, std::memory_order_acquire));
    return head == nullptr ? pushed::first : pushed::queued;
  }

  /// Takes all there is; nothing from a closed inbox. Always an exchange, see above. Requires: not closed meanwhile.
  inbox_chain drain() noexcept {
    if (is_closed()) return {};
    return in_order(head_.exchange(nullptr, std::memory_order_acq_rel));
  }

  /// Takes all there is, and refuses what comes later.
  inbox_chain close() noexcept { return in_order(head_.exchange(&closed_, std::memory_order_acq_rel)); }

  /// A hint: may be out of date at once, and says nothing about the objects.
  bool seems_empty() const noexcept {
    const inbox_link* const head = head_.load(std::memory_order_relaxed);
    return head == nullptr || head == &closed_;
  }

  /// Once true it stays so.
  bool is_closed() const noexcept { return head_.load(std::memory_order_acquire) == &closed_; }

 private:
  inbox_chain in_order(inbox_link* newest) const noexcept {
    if (newest == nullptr || newest == &closed_) return {};
    inbox_link* const back = newest;
    inbox_link* front = nullptr;
    while (newest != nullptr) {
      inbox_link* const older = newest->next;
      newest->next = front;
      front = newest;
      newest = older;
    }
    return {*front, *back};
  }

  std::atomic<inbox_link*> head_{nullptr};
  // The mark of a closed inbox: an address that no other link has. One of its own, not a static one, of which a program
  // and a shared library with hidden symbols would have two.
  inbox_link closed_;
};

}  // namespace tickwheel::detail
