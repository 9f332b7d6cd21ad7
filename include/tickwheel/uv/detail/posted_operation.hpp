// What an operation from another thread is on its way: one block of memory, from the call that posts it until it has run,
// was cancelled, or the service has closed.
//
// It belongs to the loop, which has one reference, and to its remote_timer if it has one. The loop's reference travels
// with the node: through the inbox, into the wheel, and for a node that was cancelled in the wheel through the inbox once
// more, as a notice that it can be let go.
//
// Everything but `state` and `references` is written before the push and afterwards by the loop alone.
#pragma once

#include <tickwheel/uv/detail/inbox.hpp>
#include <tickwheel/uv/detail/sync.hpp>
#include <tickwheel/uv/timer.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

namespace tickwheel::detail {

/// One word decides between the loop, who cancels, and close. Each change is a compare-and-exchange from the state that
/// is expected, but for `abandoned`, before which the loop is the only one left to change anything.
enum class operation_state : std::uint8_t {
  queued,     ///< on its way to the loop. Next: armed, ran, cancelled, closed
  armed,      ///< in the wheel. Next: ran, cancelled, closed
  ran,        ///< its handler runs or has run
  cancelled,  ///< by its remote_timer; if it was armed, a notice is on its way
  abandoned,  ///< cancelled, and its deadline came before the notice: the loop's reference is the notice's now
  closed,     ///< the service closed first
};

/// What a handler may take, in bytes.
inline constexpr std::size_t callable_size = 48;

template <class Sync>
struct basic_posted_operation {
  template <class T>
  using atomic = typename Sync::template atomic<T>;
  template <class T>
  using plain = typename Sync::template plain<T>;

  basic_inbox_link<Sync> link;  // first, so that a link's address is its node's
  atomic<operation_state> state{operation_state::queued};
  plain<bool> delivered{false};         // the loop's: it has had it, and whatever comes now is the notice
  atomic<std::uint32_t> references{1};  // the loop's
  plain<clock::time_point> due{};       // time_point::min(): as soon as it is taken
  plain<void (*)(void* callable) noexcept> run{nullptr};
  // The two lines are each mostly one thread's: who posts writes the first, with four words of the callable, and the loop
  // makes the timer in the second. The other way round a burst took a fifth longer.
  alignas(std::max_align_t) std::byte callable[callable_size];
  // a `timer`, made by the loop when it arms the node and destroyed by it before it lets go, so that a thread that frees
  // a node never unlinks anything from the wheel
  alignas(timer) std::byte waiting[sizeof(timer)];

  static basic_posted_operation& of(basic_inbox_link<Sync>& l) noexcept {
    return reinterpret_cast<basic_posted_operation&>(l);
  }
  static basic_posted_operation& of(timer& t) noexcept {
    return *reinterpret_cast<basic_posted_operation*>(reinterpret_cast<std::byte*>(&t) -
                                                      offsetof(basic_posted_operation, waiting));
  }

  timer& wait() noexcept { return *std::launder(reinterpret_cast<timer*>(waiting)); }

  template <class F>
  void call_with(const F& f) noexcept {
    ::new (static_cast<void*>(callable)) F(f);
    run = [](void* at) noexcept { (*std::launder(static_cast<F*>(at)))(); };
  }

  /// True when it was `from` and is `to` now. Acquires, so that who wins sees what led to `from`, and releases what it
  /// did before; who loses acquires what the winner did.
  bool change(operation_state from, operation_state to) noexcept {
    return state.compare_exchange_strong(from, to, std::memory_order_acq_rel, std::memory_order_acquire);
  }

  /// As `change`, by the loop. Without a remote_timer, as most nodes are, nobody else can come in between.
  bool change_by_loop(operation_state from, operation_state to) noexcept {
    if (references.load(std::memory_order_acquire) != 1) return change(from, to);
    if (state.load(std::memory_order_relaxed) != from) return false;
    state.store(to, std::memory_order_relaxed);
    return true;
  }

  /// Called by the loop for a cancelled node that leaves the wheel before its notice comes. Releases: a thread that cancels
  /// again sees what the thread did that cancelled first.
  void abandon() noexcept { state.store(operation_state::abandoned, std::memory_order_release); }
  /// Called by the loop, and by a thread whose notice was refused. Relaxed: only the loop abandons, and the refusal has
  /// acquired what the loop did before it closed.
  bool is_abandoned() const noexcept { return state.load(std::memory_order_relaxed) == operation_state::abandoned; }

  /// Gives up a reference. The last one frees the node, having acquired what all others did with it. Without others
  /// there is nothing to be counted down: most nodes never have any.
  void release() noexcept {
    if (references.load(std::memory_order_acquire) == 1 || references.fetch_sub(1, std::memory_order_acq_rel) == 1)
      delete this;
  }
};

static_assert(std::is_standard_layout_v<posted_operation>, "links and timers are found by their place in the node");
static_assert(std::is_trivially_destructible_v<posted_operation>, "the loop has destroyed the timer by then");
static_assert(sizeof(void*) != 8 || sizeof(posted_operation) == 128, "a node is two cache lines");

}  // namespace tickwheel::detail
