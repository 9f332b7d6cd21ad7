// The record of one timer: the requests, their answers, and whether its calls agree with them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace timer_load {

using wall_time = std::chrono::sys_time<std::chrono::nanoseconds>;
inline wall_time now() { return std::chrono::system_clock::now(); }

/// The headers of a call.
struct call_headers {
  std::string_view id{}, due{}, key{}, token{};
};

/// Counts what no call may be.
struct fault_counts {
  std::size_t early = 0;            // before its due time; or due before `in` has passed
  std::size_t after_cancel = 0;     // after the answer 204, or a second one after 202
  std::size_t after_replacing = 0;  // for a due time that was replaced
  std::size_t wrong_key = 0;        // Timer-Due is not the due time, or Idempotency-Key is not the id and the due time
  std::size_t stale_token = 0;      // Timer-Token is none, or not greater than that of the call before
  std::chrono::nanoseconds
      ahead{};  // the longest time by which a timer is due before `in` has passed; no fault by itself
};

/// The answer to a request that cancels or replaces a timer.
enum class change_answer : std::uint8_t {
  cancelled,   // no call follows
  cancelling,  // a call is made, and no other follows
  replaced,
  kept,     // too late: the timer is being called, or was
  missing,  // the timer is not known, although it was confirmed
};

class timer_record {
 public:
  // --- requests

  /// It is to be scheduled.
  void ask(wall_time due, bool is_to_change) {
    due_ = due;
    is_changing_ = is_to_change;
  }
  /// The same with `in`. The store decides when it is due: not before `earliest`.
  void ask_relative(wall_time earliest, bool is_to_change) {
    ask(earliest, is_to_change);
    is_due_known_ = false;
  }
  /// It is scheduled. `due` is that of the answer, if there is one.
  void confirm(std::optional<wall_time> due, fault_counts& found);

  /// It is to be replaced by one that is due at this time.
  void ask_replacement(wall_time due) { other_ = due; }
  /// A request that replaces it has no answer, and may have been carried out.
  void doubt() { is_doubtful_ = true; }
  void answer(change_answer);

  // --- calls

  /// It is called.
  void call(const std::string& id, const call_headers&, wall_time at, fault_counts& found);

  // --- the judgement

  /// It is due then; with `in` not before, until the store's due time is known.
  wall_time due() const { return due_; }
  bool is_confirmed() const { return is_confirmed_; }
  /// It has been called for the due time that counts.
  bool is_called() const { return calls_ != 0 && (change_ != change_answer::replaced || called_for_ == due_); }
  /// Nothing more has to happen.
  bool is_settled() const { return is_confirmed_ && !is_changing_ && (is_missing() || is_called() || is_excused()); }
  bool is_lost() const { return is_confirmed_ && (is_missing() || !(is_called() || is_excused())); }
  bool is_unanswered() const { return is_confirmed_ && is_changing_; }

  std::uint32_t calls() const { return calls_; }
  /// Calls that have the same Idempotency-Key as the one before.
  std::uint32_t repeats() const { return repeats_; }
  std::optional<change_answer> changed() const { return change_; }
  /// When its first call came, and the due time of that call. Requires: there is one.
  wall_time first_called_at() const { return first_called_at_; }
  wall_time first_called_for() const { return first_called_for_; }

 private:
  void learn_due(wall_time due, fault_counts& found);
  bool is_missing() const { return change_ == change_answer::missing; }
  /// It need not be called.
  bool is_excused() const { return change_ == change_answer::cancelled || change_ == change_answer::cancelling; }
  /// A replacement may have been carried out whose answer is not known.
  bool may_be_replaced() const {
    return change_ ? change_ == change_answer::kept && is_doubtful_ : other_ != wall_time{};
  }

  wall_time due_{};         // with `in`: the earliest possible, until it is known
  wall_time other_{};       // that a replacement asked for, and then the one that was replaced; none: the epoch
  wall_time called_for_{};  // the due time of the latest call
  wall_time first_called_at_{}, first_called_for_{};
  std::uint64_t token_ = 0;  // of the latest call
  std::uint32_t calls_ = 0, repeats_ = 0, calls_after_answer_ = 0;
  std::optional<change_answer> change_;
  bool is_due_known_ = true, is_confirmed_ = false, is_changing_ = false, is_doubtful_ = false;
};

}  // namespace timer_load
