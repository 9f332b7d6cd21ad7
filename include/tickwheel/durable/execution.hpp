// An execution is one start of a task. The scheduler hands it to the handler, which keeps it until the work is done.
//
//   scheduler.on_due([&](execution run) noexcept {
//     cancel_order(run.id());
//     run.done();
//   });
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/durable/detail/completion.hpp>
#include <tickwheel/durable/results.hpp>
#include <tickwheel/durable/task.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

namespace tickwheel::durable {

namespace detail {
struct start;

/// Gives a start back to its scheduler, or frees it if that has gone.
struct TICKWHEEL_API start_owner {
  void operator()(start*) const noexcept;
};
}  // namespace detail

/// One start of a task. It ends by exactly one of `done`, `retry_after`, `fail` and `bury`. An execution that is destroyed without
/// one ends by `fail("no answer")`.
///
/// The finish is sent to the store until that has answered; until then the start takes one place of
/// `scheduler_options::max_running`. `confirmed` is then called on the loop with the result. It is not called if the scheduler is
/// destroyed first, or if there is no memory for the callable. An execution that was started before `scheduler::close` is inert
/// afterwards, also once the scheduler is open again: its callable is destroyed without a call.
///
/// *Thread safety:* the loop thread, checked. *Complexity:* O(1); a finish allocates. *Errors:* none. *Lifetime:* movable; moving
/// and finishing empty it, and an empty one may only be tested, assigned to and destroyed (checked). It may outlive its scheduler,
/// and is then inert: nothing is sent. Views live as long as the execution.
class TICKWHEEL_API execution {
 public:
  /// An empty execution.
  execution() noexcept = default;
  /// Empties the other one.
  execution(execution&&) noexcept = default;
  /// As above. An execution that was held here before ends by `fail("no answer")`.
  execution& operator=(execution&&) noexcept = default;
  ~execution() = default;

  /// Returns true until it is finished or moved from.
  explicit operator bool() const noexcept { return start_ != nullptr; }

  std::string_view id() const noexcept;       ///< the task's id
  std::string_view payload() const noexcept;  ///< the task's payload
  /// Returns when the task was due: of a periodic task, this period. The same in all attempts, so that (id, due) tells effects
  /// apart.
  clock::time_point due() const noexcept;
  /// Returns the task's period. Zero: it starts once, and is dead if its last attempt fails.
  std::chrono::nanoseconds period() const noexcept;
  /// Returns 1 for the first start. It grows with each start, also if the node of the start before was lost, but not with one that
  /// follows `retry_after`.
  unsigned attempt() const noexcept;
  /// Returns a number that no other start in this store has. Grows for each id.
  std::uint64_t token() const noexcept;

  /// The work is done. A periodic task is pending again, for its first period after now.
  void done() { finish(ending::done, {}, {}, {}); }
  /// As above; `confirmed` takes a finish_result.
  template <class F>
  requires detail::answers_with<F, finish_result>
  void done(F&& confirmed) { finish(ending::done, {}, {}, completion{std::forward<F>(confirmed)}); }

  /// The task starts again after `delay`. This start does not count as an attempt, and is no failure.
  void retry_after(std::chrono::nanoseconds delay) { finish(ending::retry_after, delay, {}, {}); }
  /// As above; `confirmed` takes a finish_result.
  template <class F>
  requires detail::answers_with<F, finish_result>
  void retry_after(std::chrono::nanoseconds delay, F&& confirmed) {
    finish(ending::retry_after, delay, {}, completion{std::forward<F>(confirmed)});
  }

  /// The task starts again after a backoff. It is dead if this was the last attempt; a periodic one waits for its next period
  /// instead. `error` may be any bytes: 1 KiB of valid UTF-8 is kept.
  void fail(std::string_view error) { finish(ending::fail, {}, error, {}); }
  /// As above; `confirmed` takes a finish_result.
  template <class F>
  requires detail::answers_with<F, finish_result>
  void fail(std::string_view error, F&& confirmed) {
    finish(ending::fail, {}, error, completion{std::forward<F>(confirmed)});
  }

  /// The task is dead at once. `error` as above.
  void bury(std::string_view error) { finish(ending::bury, {}, error, {}); }
  /// As above; `confirmed` takes a finish_result.
  template <class F>
  requires detail::answers_with<F, finish_result>
  void bury(std::string_view error, F&& confirmed) {
    finish(ending::bury, {}, error, completion{std::forward<F>(confirmed)});
  }

 private:
  friend struct detail::start;
  using completion = detail::completion<finish_result>;
  enum class ending : std::uint8_t { done, retry_after, fail, bury };

  explicit execution(detail::start& s) noexcept : start_{&s} {}
  void finish(ending, std::chrono::nanoseconds delay, std::string_view error, completion) noexcept;
  const detail::start& started() const noexcept;

  std::unique_ptr<detail::start, detail::start_owner> start_;
};

}  // namespace tickwheel::durable
