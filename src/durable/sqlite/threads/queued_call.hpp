// Calls on their way: from a verb to the thread that carries it out, and back to the loop.
#pragma once

#include <tickwheel/durable/store.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace tickwheel::durable::sqlite {

/// Tells of which class a call is.
using verb = store_verb;

/// Returns true for a verb that only reads: it has no effect that could be unknown.
constexpr bool only_reads(verb kind) noexcept { return kind == verb::load || kind == verb::get || kind == verb::list; }

/// A call, and its place in a list.
struct queued_call {
  store_call* call = nullptr;
  verb kind{};
  std::uint64_t number = 0;  // in the order of the calls
  std::size_t done = 0;      // elements that are committed: requests are committed in parts if starts wait
  queued_call* next = nullptr;

  template <class Call>
  Call& as() const noexcept {
    return static_cast<Call&>(*call);
  }
};

/// The call goes no further, or its last transaction may have done so. Elements that were committed before are answered.
inline void end(const queued_call& queued, store_status status) noexcept {
  queued.call->status = only_reads(queued.kind) ? store_status::unavailable : status;
  queued.call->carried_out = only_reads(queued.kind) ? 0 : queued.done;
}

/// Calls in their order. Linked through the calls, so that it needs no memory.
class call_list {
 public:
  call_list() noexcept = default;
  call_list(call_list&& from) noexcept
      : first_{std::exchange(from.first_, nullptr)}, last_{std::exchange(from.last_, nullptr)} {}
  call_list& operator=(call_list&& from) noexcept {
    first_ = std::exchange(from.first_, nullptr);
    last_ = std::exchange(from.last_, nullptr);
    return *this;
  }
  ~call_list() = default;

  bool empty() const noexcept { return first_ == nullptr; }
  /// Requires: it is not empty.
  queued_call& front() const noexcept { return *first_; }

  void push(queued_call& call) noexcept {
    call.next = nullptr;
    (last_ == nullptr ? first_ : last_->next) = &call;
    last_ = &call;
  }
  /// Requires: it is not empty.
  queued_call& pop() noexcept {
    queued_call& call = *first_;
    first_ = call.next;
    if (first_ == nullptr) last_ = nullptr;
    return call;
  }
  void append(call_list&& from) noexcept {
    while (!from.empty()) push(from.pop());
  }

  /// Takes the calls before `call`, which is in the list.
  call_list split_before(const queued_call& call) noexcept;

  /// Brings the calls into the order of their numbers. O(n log n), and needs no memory.
  void sort() noexcept;

  template <class F>
  void for_each(F&& visit) const {
    for (queued_call* call = first_; call != nullptr; call = call->next) visit(*call);
  }

 private:
  queued_call* first_ = nullptr;
  queued_call* last_ = nullptr;
};

}  // namespace tickwheel::durable::sqlite
