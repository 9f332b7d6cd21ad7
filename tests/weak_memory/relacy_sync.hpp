// The atomics, the mutex and the plain data that the code under test gets in place of the standard's: those of Relacy, with
// the interface of the standard's.
//
// A *site* is a memory order in the source: the place where an atomic operation is called, and the order it is given. A run
// collects the sites that it reaches, so nobody has to keep a list of them. A run can use a weaker order at one site, while
// the source stays as it is.
//
// Two things are stricter here than in Relacy:
//   - A failed compare-exchange may find an older value, as the standard allows. In Relacy it always finds the newest.
//   - A destructor counts as a write to the object, and an atomic operation as a use of its atomic. So Relacy reports a data
//     race if a thread uses an object whose construction it need not see yet, or which another thread destroys without having
//     seen the use.
#pragma once

// Relacy's header defines macros with the names of keywords. It is included last, and its macros are undefined at once.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>

// in this order, as in relacy/context.hpp
#include <relacy/base.hpp>

#include <relacy/thread_local_ctx.hpp>

#include <relacy/context_base.hpp>

// Memory that Relacy allocates for its report outlives the run, and must not belong to it.
#undef RL_DEBUGBREAK_ON_FAILURE_IMPL
#define RL_DEBUGBREAK_ON_FAILURE_IMPL disable_alloc_ += 1

#include <relacy/relacy.hpp>

#undef new
#undef delete
#undef malloc
#undef calloc
#undef realloc
#undef free
#undef assert
#undef errno
#undef memory_order_relaxed
#undef memory_order_consume
#undef memory_order_acquire
#undef memory_order_release
#undef memory_order_acq_rel
#undef memory_order_seq_cst

namespace tickwheel::weak_memory {

/// A memory order in the source.
struct site {
  const char* file;
  const char* function;  // as the compiler spells it
  unsigned line;
  unsigned column;
  const char* operation;
  std::memory_order order;

  bool is_at(const std::source_location& at, const char* what) const {
    return line == at.line() && column == at.column() && operation == what && file == at.file_name();
  }

  /// The function's own name.
  std::string name() const {
    const std::string_view spelled{function};
    const std::size_t end = spelled.find('(');
    const std::size_t begin = spelled.find_last_of(" :*&", end) + 1;
    return std::string{spelled.substr(begin, end - begin)};
  }
};

/// A memory order in the standard, in Relacy and in text.
struct order_forms {
  std::memory_order standard;
  rl::memory_order relacy;
  const char* text;
};

inline const order_forms& forms_of(std::memory_order order) {
  static constexpr order_forms all[] = {{std::memory_order::relaxed, rl::mo_relaxed, "relaxed"},
                                        {std::memory_order::acquire, rl::mo_acquire, "acquire"},
                                        {std::memory_order::release, rl::mo_release, "release"},
                                        {std::memory_order::acq_rel, rl::mo_acq_rel, "acq_rel"},
                                        {std::memory_order::seq_cst, rl::mo_seq_cst, "seq_cst"}};
  return *std::find_if(std::begin(all), std::end(all) - 1, [&](const auto& each) { return each.standard == order; });
}

/// The sites that were reached, and the one that is weakened.
class site_list {
 public:
  /// Returns the order to use in place of `order`.
  static std::memory_order order_at(const std::source_location& at, const char* operation, std::memory_order order) {
    std::size_t i = 0;
    while (i != count_ && !all_[i].is_at(at, operation)) ++i;
    if (i == count_) {
      if (count_ == all_.size()) std::abort();
      all_[count_++] = {at.file_name(), at.function_name(), at.line(), at.column(), operation, order};
    }
    if (weakened_.line == 0 || !weakened_.is_at(at, operation)) return order;
    return weaker_;
  }

  static void weaken(const site& which, std::memory_order to) {
    weakened_ = which;
    weaker_ = to;
  }

  static const site* begin() { return all_.data(); }
  static const site* end() { return all_.data() + count_; }

 private:
  // no container: Relacy would count its memory as the test's
  inline static std::array<site, 128> all_{};
  inline static std::size_t count_ = 0;
  inline static site weakened_{};
  inline static std::memory_order weaker_{};
};

inline rl::debug_info to_relacy(const std::source_location& at) {
  return rl::debug_info(at.function_name(), at.file_name(), at.line());
}

/// Plain data. Relacy reports a data race in two cases. A thread reads it and need not see an earlier write by another thread. Or a thread
/// writes it and need not see an earlier access.
template <class T>
class plain {
 public:
  plain(T value = T{}) : value_{value}, access_{0} {}
  plain(const plain&) = delete;
  ~plain() { write(); }

  plain& operator=(T value) {
    write();
    value_ = value;
    return *this;
  }
  plain& operator=(const plain&) = delete;

  T read() const {
    static_cast<void>(access_(RL_INFO).load());
    return value_;
  }

  operator T() const { return read(); }
  T operator->() const requires std::is_pointer_v<T> { return read(); }

 private:
  void write() { access_(RL_INFO).store(0); }

  T value_;
  rl::var<int> access_;
};

template <class T>
class atomic {
  // Relacy prints the values, which it cannot do with those of an enumeration
  using stored = typename std::conditional_t<std::is_enum_v<T>, std::underlying_type<T>, std::type_identity<T>>::type;
  using where = std::source_location;

 public:
  atomic(T value) : value_{static_cast<stored>(value)} {}

  T load(std::memory_order order, where at = where::current()) const { return load_with("load", order, at); }

  void store(T value, std::memory_order order, where at = where::current()) {
    alive();
    value_.store(to_stored(value), ordered(at, "store", order), to_relacy(at));
  }

  T exchange(T value, std::memory_order order, where at = where::current()) {
    alive();
    return static_cast<T>(value_.exchange(to_stored(value), ordered(at, "exchange", order), to_relacy(at)));
  }

  T fetch_add(T value, std::memory_order order, where at = where::current()) {
    alive();
    return value_.fetch_add(value, ordered(at, "fetch_add", order), to_relacy(at));
  }

  T fetch_sub(T value, std::memory_order order, where at = where::current()) {
    alive();
    return value_.fetch_sub(value, ordered(at, "fetch_sub", order), to_relacy(at));
  }

  bool compare_exchange_weak(T& expected, T desired, std::memory_order success, std::memory_order failure,
                             where at = where::current()) {
    return compare_exchange(true, expected, desired, success, failure, at);
  }

  bool compare_exchange_strong(T& expected, T desired, std::memory_order success, std::memory_order failure,
                               where at = where::current()) {
    return compare_exchange(false, expected, desired, success, failure, at);
  }

 private:
  static stored to_stored(T value) { return static_cast<stored>(value); }
  static rl::memory_order ordered(const where& at, const char* operation, std::memory_order order) {
    return forms_of(site_list::order_at(at, operation, order)).relacy;
  }

  void alive() const { life_.read(); }

  T load_with(const char* operation, std::memory_order order, const where& at) const {
    alive();
    return static_cast<T>(value_.load(ordered(at, operation, order), to_relacy(at)));
  }

  // A failed compare-exchange is a load. If the load of a strong one finds the expected value, the exchange is tried after all. The load may
  // have acquired more than the exchange would have. That hides nothing, because other executions try the exchange at once.
  bool compare_exchange(bool weak, T& expected, T desired, std::memory_order success, std::memory_order failure,
                        const where& at) {
    const rl::memory_order on_success = ordered(at, "exchange", success);
    for (bool looks_first = rl::rand(4) == 0;; looks_first = true) {
      if (looks_first) {
        const T found = load_with("failed exchange", failure, at);
        if (weak || found != expected) {
          expected = found;
          return false;
        }
      }
      alive();
      stored found = to_stored(expected);
      if (value_.compare_exchange_strong(found, to_stored(desired), on_success, to_relacy(at), rl::mo_relaxed,
                                         to_relacy(at)))
        return true;
    }
  }

  plain<char> life_;  // written by constructor and destructor, read by each operation
  rl::atomic<stored> value_;
};

class mutex {
 public:
  void lock() { mutex_.lock(RL_INFO); }
  void unlock() { mutex_.unlock(RL_INFO); }

 private:
  rl::mutex mutex_;
};

struct relacy_sync {
  template <class T>
  using atomic = weak_memory::atomic<T>;
  template <class T>
  using plain = weak_memory::plain<T>;
  using mutex = weak_memory::mutex;
};

}  // namespace tickwheel::weak_memory
