// An operation that another thread posted. It is one block of memory from the call that posts it until it has run, was
// cancelled, or was closed with the service.
//
// The loop has a reference to it, and so does its remote_timer, if it has one. The loop's reference travels with the operation:
// through the inbox and into the wheel. If the operation is cancelled in the wheel, it travels through the inbox once more, as
// the notice.
//
// The thread that posts writes everything before the push. Afterwards other threads touch only `state`, `references` and, for a
// notice, `link`. Only the loop runs the callable and destroys it, so a thread that drops the last reference frees nothing but
// memory.
#pragma once

#include <tickwheel/uv/detail/inbox.hpp>
#include <tickwheel/uv/detail/sync.hpp>
#include <tickwheel/uv/named_handler.hpp>
#include <tickwheel/uv/timer.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace tickwheel::detail {

/// One word decides between the loop, a thread that cancels, and close. Each change is a compare-and-exchange from the expected
/// state. The exception is `abandoned`: only the loop can change the state then.
enum class operation_state : std::uint8_t {
  queued,     ///< on its way to the loop. Next: armed, ran, cancelled, closed
  armed,      ///< in the wheel. Next: ran, cancelled, closed
  ran,        ///< its callable runs or has run
  cancelled,  ///< by its remote_timer; if it was armed, a notice is on its way
  abandoned,  ///< cancelled, and its deadline came before the notice: the loop's reference belongs to the notice now
  closed,     ///< the service closed first
};

/// The size of a callable that travels in the operation itself, in bytes. A larger one has a block of its own.
inline constexpr std::size_t callable_size = 48;

/// True if the operation has room for a `Callable`.
template <class Callable>
inline constexpr bool fits_in_operation = sizeof(Callable) <= callable_size &&  // NOLINT(misc-redundant-expression)
                                          alignof(Callable) <= alignof(std::max_align_t);

/// An argument of `basic_posted_operation::operate`.
enum class callable_use : bool { destroy, run_and_destroy };

/// Runs and destroys a `Callable` in an operation, or one that has a block of its own. The function also identifies the handler of the
/// operation, so it has the name of the callable.
template <class Callable>
class callable_operator {
 public:
  using function = void (*)(void* callable, callable_use) noexcept;

  static function get() noexcept {
    static_cast<void>(&handler_name_);  // so that it exists
    return &operate;
  }

 private:
  static void operate(void* at, [[maybe_unused]] callable_use use) noexcept {
    if constexpr (fits_in_operation<Callable> && std::is_trivially_destructible_v<Callable>) {
      static_cast<void>((*std::launder(static_cast<Callable*>(at)))());
    } else if constexpr (fits_in_operation<Callable>) {
      Callable& held = *std::launder(static_cast<Callable*>(at));
      if (use == callable_use::run_and_destroy) static_cast<void>(held());
      held.~Callable();
    } else {
      Callable* const held = *std::launder(static_cast<Callable**>(at));
      if (use == callable_use::run_and_destroy) static_cast<void>((*held)());
      ::delete held;
    }
  }

  TICKWHEEL_LOCAL inline static const named_handler handler_name_{
      reinterpret_cast<wheel_entry::callback>(reinterpret_cast<void (*)()>(&operate)), name_of_type<Callable>()};
};

template <class Sync>
struct basic_posted_operation {
  template <class T>
  using atomic = typename Sync::template atomic<T>;
  template <class T>
  using plain = typename Sync::template plain<T>;

  basic_inbox_link<Sync> link;  // first, so that a link's address is its operation's
  atomic<operation_state> state{operation_state::queued};
  plain<bool> delivered{false};         // the loop's: it has taken the operation before, so the next one is the notice
  plain<bool> owns{false};              // the callable has something to destroy
  atomic<std::uint32_t> references{1};  // the loop's
  plain<clock::time_point> due{};       // time_point::min(): as soon as it is taken
  plain<void (*)(void* callable, callable_use) noexcept> operate{nullptr};
  // Each of the two lines is mostly used by one thread. The thread that posts writes the first, with four words of the callable.
  // The loop makes the timer in the second. The other way round a burst took a fifth longer.
  alignas(std::max_align_t) std::byte callable[callable_size];
  // A `timer` while the operation is armed. The loop makes it, and destroys it before it drops its reference, so a thread that
  // frees an operation never unlinks anything from the wheel. Once the service is closed, `next_ended`.
  alignas(timer) std::byte waiting[sizeof(timer)];

  static basic_posted_operation& of(basic_inbox_link<Sync>& l) noexcept {
    return reinterpret_cast<basic_posted_operation&>(l);
  }
  static basic_posted_operation& of(timer& t) noexcept {
    return *reinterpret_cast<basic_posted_operation*>(reinterpret_cast<std::byte*>(&t) -
                                                      offsetof(basic_posted_operation, waiting));
  }

  timer& wait() noexcept { return *std::launder(reinterpret_cast<timer*>(waiting)); }

  // --- the callable ---

  /// Makes a `Callable` of `from`. Returns false if there is no memory for a large one; `from` is then unchanged.
  template <class Callable, class From>
  bool hold(From&& from) noexcept {
    if constexpr (fits_in_operation<Callable>) {
      ::new (static_cast<void*>(callable)) Callable(std::forward<From>(from));
      owns = !std::is_trivially_destructible_v<Callable>;
    } else {
      auto* const block = ::new (std::nothrow) Callable(std::forward<From>(from));
      if (block == nullptr) return false;
      ::new (static_cast<void*>(callable)) Callable*(block);
      owns = true;
    }
    operate = callable_operator<Callable>::get();
    return true;
  }

  /// Undoes `hold`, which was called with `from`. Requires: the operation was not pushed.
  template <class Callable, class From>
  void give_back(From&& from) noexcept {
    constexpr bool was_copied =
        std::is_lvalue_reference_v<From> || std::is_const_v<From> || std::is_trivially_copyable_v<Callable>;
    if constexpr (!was_copied) {
      auto& held = this->template held<Callable>();
      if constexpr (std::is_nothrow_move_assignable_v<Callable>) {
        from = std::move(held);
      } else {  // most lambdas cannot be assigned
        std::destroy_at(std::addressof(from));
        std::construct_at(std::addressof(from), std::move(held));
      }
    }
    if constexpr (!std::is_trivially_destructible_v<Callable> || !fits_in_operation<Callable>) destroy_callable();
  }

  /// Runs the callable, then destroys it. Both may do what a handler may.
  void run() noexcept { operate(callable, callable_use::run_and_destroy); }
  /// Destroys a callable that has not run. Its destructor may do what a handler may.
  void destroy_callable() noexcept {
    if (owns) operate(callable, callable_use::destroy);
  }

  /// The link of a list of operations that were closed. Requires: `waiting` holds no timer.
  void begin_list() noexcept { ::new (static_cast<void*>(waiting)) basic_posted_operation*(nullptr); }
  basic_posted_operation*& next_ended() noexcept {
    return *std::launder(reinterpret_cast<basic_posted_operation**>(waiting));
  }

  // --- state and references ---

  /// Returns true if the state was `from` and is `to` now. The winner acquires what led to `from`, and releases what it did
  /// before. The loser acquires what the winner did.
  bool change(operation_state from, operation_state to) noexcept {
    return state.compare_exchange_strong(from, to, std::memory_order_acq_rel, std::memory_order_acquire);
  }

  /// As `change`, by the loop. Most operations have no remote_timer, and then nobody else can come in between.
  bool change_by_loop(operation_state from, operation_state to) noexcept {
    if (references.load(std::memory_order_acquire) != 1) return change(from, to);
    if (state.load(std::memory_order_relaxed) != from) return false;
    state.store(to, std::memory_order_relaxed);
    return true;
  }

  /// Called by the loop for a cancelled operation that leaves the wheel before its notice comes. Releases: a thread that cancels
  /// again sees what the thread did that cancelled first.
  void abandon() noexcept { state.store(operation_state::abandoned, std::memory_order_release); }
  /// Called by the loop, and by a thread whose notice was refused. Relaxed: only the loop abandons, and the refusal has acquired
  /// what the loop did before it closed.
  bool is_abandoned() const noexcept { return state.load(std::memory_order_relaxed) == operation_state::abandoned; }

  /// Adds a reference. Requires: the caller knows that one is left meanwhile.
  void retain() noexcept { references.fetch_add(1, std::memory_order_relaxed); }
  /// Drops a reference. The last one frees the operation, after it has acquired what all others did with it. A single reference
  /// is not counted down: most operations never have another.
  void release() noexcept {
    if (references.load(std::memory_order_acquire) == 1 || references.fetch_sub(1, std::memory_order_acq_rel) == 1)
      delete this;
  }

 private:
  template <class Callable>
  Callable& held() noexcept {
    if constexpr (fits_in_operation<Callable>)
      return *std::launder(reinterpret_cast<Callable*>(callable));
    else
      return **std::launder(reinterpret_cast<Callable**>(callable));
  }
};

static_assert(std::is_standard_layout_v<posted_operation>,
              "links and timers are found by their place in the operation");
static_assert(std::is_trivially_destructible_v<posted_operation>,
              "the loop has destroyed the timer and the callable by then");
static_assert(sizeof(void*) != 8 || sizeof(posted_operation) == 128, "an operation is two cache lines");

}  // namespace tickwheel::detail
