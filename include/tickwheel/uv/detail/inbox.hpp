// The inbox: many threads push, one thread takes, without a lock.
//
// The inbox is a stack. A push replaces its head by compare-and-exchange. One exchange takes the whole stack, which is then
// reversed, so the links of each producer come out in the order of their pushes. Taking everything at once makes the stack safe
// and short. No thread ever reads a link that another thread may have taken, so there is no ABA problem and no reclamation. One
// exchange serves any number of pushes.
//
// An inbox is asleep or awake. A push that finds the inbox asleep tells its thread so, and that thread wakes the loop. Other
// pushes need not wake it, because the loop checks the inbox by itself. Taking wakes the inbox. The loop lets it sleep only if
// nothing was pushed since it was last taken from. So a push costs no wakeup while the loop handles earlier pushes. "Asleep" is a
// state of the empty inbox: there is no second flag that could disagree with it.
//
// Closed is also a state of the head, and is set by an exchange. A push before that exchange is in the last chain. A push after
// it is refused. There is no third case.
//
// The memory orders, edge by edge. A -> B means that writes before A are visible after B:
//
//   push -> take_all, close  The taking thread sees what the producer wrote into the object. Push releases; take_all and
//                            close acquire. Later pushes are read-modify-writes of the same head, so they extend the
//                            release sequence. Acquiring the last push acquires all pushes below it.
//   sleep -> push that wakes The producer that finds the inbox asleep then sends a wakeup. uv_async_send may do nothing
//                            after a relaxed read of its "already sent" flag. The loop clears that flag before it takes.
//                            Sleep releases and push acquires, so a push that finds the value of this sleep sees the flag
//                            cleared, and its wakeup is sent. If it still sees the flag set, it found an earlier sleep.
//                            Then it pushed before the take_all that follows, which takes its link. For this, take_all
//                            must be a read-modify-write even if the inbox is asleep. A load may find a sleep that is over.
//                            If the loop left the inbox asleep, no sleep would follow the clearing of the flag. In both
//                            cases loop and producer would rely on each other.
//   close -> refused push    The refused thread sees what the closing thread did before. Load and failed exchange acquire;
//                            close releases.
//
// Nothing here is sequentially consistent: there is one atomic object, and only its modification order matters. tests/weak_memory
// explores the edges. It fails if a weaker order than these goes unnoticed.
#pragma once

#include <tickwheel/uv/detail/sync.hpp>

#include <atomic>

namespace tickwheel::detail {

/// The link of an object that can be pushed. It may be in one inbox or one chain at a time.
template <class Sync>
struct basic_inbox_link {
  typename Sync::template plain<basic_inbox_link*> next{nullptr};
};

/// Links in the order in which they were pushed.
///
/// *Thread safety:* none. It belongs to the thread that took it.
template <class Sync>
class basic_inbox_chain {
 public:
  using link = basic_inbox_link<Sync>;

  basic_inbox_chain() noexcept = default;
  basic_inbox_chain(link& front, link& back) noexcept : front_{&front}, back_{&back} {}

  bool empty() const noexcept { return front_ == nullptr; }

  /// Returns the first link, or null if there is none.
  link* front() const noexcept { return front_; }

  /// Removes and returns the first link, or returns null if there is none. The chain does not read that link any more, so it may
  /// be pushed again.
  link* pop() noexcept {
    link* const taken = front_;
    if (taken != nullptr) front_ = taken->next;
    return taken;
  }

  /// Returns the link that is taken last, or null if the chain is empty.
  inbox_link* back() const noexcept { return empty() ? nullptr : back_; }

  /// Appends the links of `later`, and leaves `later` empty.
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
  link* back_ = nullptr;  // the last link; meaningless if the chain is empty
};

/// Result of a push.
enum class pushed {
  asleep,  ///< accepted, and the inbox was asleep: wake the thread that takes
  queued,  ///< accepted; the thread that takes is awake, or is being woken
  closed,  ///< refused
};

/// Many threads push; one thread takes and closes.
///
/// *Thread safety:* `push`, `seems_empty` and `is_closed` on any thread; `take_all`, `sleep` and `close` on one. *Complexity:*
/// push and sleep O(1), lock-free; take_all O(links). *Lifetime:* the caller owns the links. Destroying an inbox touches none of
/// them.
template <class Sync>
class basic_inbox {
 public:
  using link = basic_inbox_link<Sync>;
  using chain = basic_inbox_chain<Sync>;

  /// An empty inbox, asleep.
  basic_inbox() noexcept = default;
  basic_inbox(const basic_inbox&) = delete;
  basic_inbox& operator=(const basic_inbox&) = delete;

  /// Pushes `pushed_link`. Requires: it is in no inbox and in no chain.
  pushed push(link& pushed_link) noexcept {
    link* head = head_.load(std::memory_order_acquire);  // acquire, because it may be the mark of a closed inbox
    do {
      if (head == &closed_) return pushed::closed;
      pushed_link.next = head == &asleep_ ? nullptr : head;
      // success releases (the object -> take_all) and acquires (sleep -> push that wakes); failure as for the load
    } while (!head_.compare_exchange_weak(head, &pushed_link, std::memory_order_acq_rel, std::memory_order_acquire));
    return head == &asleep_ ? pushed::asleep : pushed::queued;
  }

  /// Takes all links, and wakes the inbox: pushes no longer answer `asleep` until `sleep`. Takes nothing from a closed inbox.
  /// Always an exchange, see above. Requires: no other thread closes it meanwhile.
  chain take_all() noexcept {
    if (is_closed()) return {};
    return in_order(head_.exchange(nullptr, std::memory_order_acquire));
  }

  /// Puts the inbox to sleep if nothing was pushed since it was last taken from. Returns false if something was pushed: take
  /// again. Requires: it was taken from since it last slept, and is not closed.
  bool sleep() noexcept {
    link* awake_and_empty = nullptr;
    // success releases (sleep -> push that wakes); after a failure nothing is read through the value that was found
    return head_.compare_exchange_strong(awake_and_empty, &asleep_, std::memory_order_release,
                                         std::memory_order_relaxed);
  }

  /// Takes all links, and refuses later pushes.
  chain close() noexcept { return in_order(head_.exchange(&closed_, std::memory_order_acq_rel)); }

  /// Returns a hint that may be out of date at once, and says nothing about the objects.
  bool seems_empty() const noexcept { return is_empty(head_.load(std::memory_order_relaxed)); }

  /// Returns true if the inbox was closed. Once true it stays true.
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
  // The marks: addresses that no other link has. Each inbox has marks of its own. There would be two static ones if a program and
  // a shared library with hidden symbols both had them.
  link asleep_;
  link closed_;
};

}  // namespace tickwheel::detail
