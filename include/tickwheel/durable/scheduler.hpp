// A scheduler starts durable tasks: it writes them to a store, and calls a handler when they are due. Tasks survive crashes and
// restarts.
//
//   namespace durable = tickwheel::durable;
//   durable::scheduler orders{timers, durable::sqlite_store("orders.db")};
//   orders.on_due([](durable::execution run) noexcept {
//     cancel_unpaid(run.id());
//     run.done();
//   });
//   if (int error = orders.open([](int error) noexcept { if (error != 0) give_up(error); })) return error;
//   int error = orders.schedule({.id = "order-7", .due = durable::clock::now() + 30min},
//                               [](durable::schedule_result r) noexcept { confirm(r); });
//
// A task starts at least once. A task that must take effect exactly once tells its effects apart by (id, due).
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/durable/detail/completion.hpp>
#include <tickwheel/durable/execution.hpp>
#include <tickwheel/durable/results.hpp>
#include <tickwheel/durable/scheduler_options.hpp>
#include <tickwheel/durable/scheduler_stats.hpp>
#include <tickwheel/durable/store.hpp>
#include <tickwheel/durable/task.hpp>

#include <uv.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace tickwheel {
class timer_service;
}

namespace tickwheel::durable {

namespace detail {
class engine;

/// The handler of `scheduler::on_due`: called for each start.
class start_handler {
 public:
  virtual ~start_handler() = default;
  virtual void call(execution) noexcept = 0;
};
}  // namespace detail

/// A node that schedules and starts the tasks of one store.
///
/// *Requests* answer 0 if they were accepted. The callable is then called exactly once, on the loop, never within the request. A
/// request is answered within `request_timeout`: `unavailable` means that nothing was done, `unknown` that it may have been done.
/// Requests for one id take effect in the order of the calls. Requests that are made before the scheduler has joined its store
/// wait. On an error nothing was asked, and the callable is destroyed without a call:
///
/// UV_EINVAL: an id, due time, period, payload or limit is invalid. UV_EAGAIN: `max_requests`, `max_request_bytes` or the service's
/// `max_armed` is reached, or `request_timeout` has passed already; try again later, or reject what caused the request. UV_ECANCELED:
/// the scheduler or its timer_service is closed. UV_ENOMEM: there is no memory.
///
/// *Callables* are nothrow-invocable and may be move-only. They may do anything: close and destroy the scheduler included.
///
/// *Thread safety:* the loop thread, checked. Other threads post to the loop. *Complexity:* a request is O(1), and allocates. The
/// loop never waits for the store, except in `close`. *Errors:* as above. *Lifetime:* neither copies nor moves. `service` outlives
/// it. Closing the service closes the scheduler, unless `unref` was called: then the next call notices, and `event_loop::close` requires
/// that the scheduler was closed before. While it is open it takes up to twelve places among the service's `max_armed`, and one for each
/// request and each loaded task. A task without a place is loaded later, and may start late. Memory that runs out where no code can
/// answer it stops the process, and a restart recovers.
class TICKWHEEL_API scheduler {
 public:
  /// A closed scheduler. Copies the options.
  scheduler(timer_service& service, std::unique_ptr<store> tasks, scheduler_options options = {});
  /// Closes it.
  ~scheduler();
  scheduler(const scheduler&) = delete;
  scheduler& operator=(const scheduler&) = delete;

  /// Sets the handler of starts. It takes an `execution` by value. Without one the scheduler starts nothing, and only asks.
  /// Requires: it is closed (checked).
  template <class F>
  requires detail::answers_with<F, execution>
  void on_due(F&& start) {
    struct holder final : detail::start_handler {
      explicit holder(F&& f) noexcept : callable{std::forward<F>(f)} {}
      void call(execution run) noexcept override { callable(std::move(run)); }
      std::decay_t<F> callable;
    };
    set_handler(std::make_shared<holder>(std::forward<F>(start)));
  }

  /// Joins the store, and then starts tasks. Holds the loop until `close`. If this returns 0, `ready` is called once:
  /// 0: it has joined. Outages are retried meanwhile.
  /// UV_EBUSY: another process or scheduler has the file. UV_EEXIST: a living node has the name. UV_EFTYPE: not a database of ours.
  /// UV_ENOTSUP: a newer schema, or too old a server. UV_EACCES, UV_EROFS, UV_ENOENT, UV_EIO: the file cannot be used; `problem` says
  /// more. After these the scheduler is closed. UV_ECANCELED: it was closed first.
  ///
  /// Returns 0; UV_EINVAL (`scheduler_options::problem` or `problem` names the option, or there is no store), UV_EALREADY,
  /// UV_ECANCELED (the service is closed), UV_ENOMEM (no memory, or `max_armed` is reached). Then `ready` is not called.
  template <class F>
  requires detail::answers_with<F, int>
  [[nodiscard]] int open(F&& ready) { return open_with(detail::completion<int>{std::forward<F>(ready)}); }

  /// Asks the store to keep and start `what`. `done` takes a schedule_result.
  /// Returns 0, UV_EINVAL, UV_EAGAIN, UV_ECANCELED or UV_ENOMEM, as *Requests* says above.
  template <class F>
  requires detail::answers_with<F, schedule_result>
  [[nodiscard]] int schedule(task what, F&& done, on_conflict conflict = on_conflict::keep) {
    return schedule_with(std::move(what), detail::completion<schedule_result>{std::forward<F>(done)}, conflict);
  }

  /// Asks the store to start the task no more. `done` takes a cancel_result. After `cancelled` no start follows.
  /// Returns as `schedule`.
  template <class F>
  requires detail::answers_with<F, cancel_result>
  [[nodiscard]] int cancel(std::string_view id, F&& done) {
    return cancel_with(id, detail::completion<cancel_result>{std::forward<F>(done)});
  }

  /// Reads one task. `done` takes a read_result and a task_info, which holds only if the result is ok.
  /// Returns as `schedule`.
  template <class F>
  requires detail::answers_with<F, read_result, task_info>
  [[nodiscard]] int get(std::string_view id, F&& done) {
    return get_with(id, detail::completion<read_result, task_info>{std::forward<F>(done)});
  }

  /// Reads the tasks of one state whose ids are greater than `after`, by the bytes of their ids; at most `limit`, which is 1 to
  /// 10,000. `after` is empty or a valid id. `done` takes a read_result and a std::vector<task_info>.
  /// Returns as `schedule`.
  template <class F>
  requires detail::answers_with<F, read_result, std::vector<task_info>>
  [[nodiscard]] int list(task_state state, std::string_view after, std::size_t limit, F&& done) {
    return list_with(state, after, limit,
                     detail::completion<read_result, std::vector<task_info>>{std::forward<F>(done)});
  }

  /// Makes a dead task pending, at once and with all its attempts. `done` takes a revive_result.
  /// Returns as `schedule`.
  template <class F>
  requires detail::answers_with<F, revive_result>
  [[nodiscard]] int revive(std::string_view id, F&& done) {
    return revive_with(id, detail::completion<revive_result>{std::forward<F>(done)});
  }

  /// As `execution::done`, for work that reports only the id and the token. Keep the execution until `confirmed` is called: one that is
  /// destroyed without an answer fails. Sent until the store has answered. `confirmed` takes a finish_result.
  /// Returns as `schedule`.
  template <class F>
  requires detail::answers_with<F, finish_result>
  [[nodiscard]] int finish(std::string_view id, std::uint64_t token, F&& confirmed) {
    return finish_with(id, token, detail::completion<finish_result>{std::forward<F>(confirmed)});
  }

  /// Starts nothing more, and keeps its partitions. A task that was already sent to the store still starts. Idempotent; stays over
  /// `close` and `open`.
  void pause() noexcept;
  /// Starts tasks again. Idempotent.
  void resume() noexcept;

  /// Starts nothing more, waits until all executions have ended, and hands its partitions over. Then calls `drained`, once. Requests
  /// are served during and after it. Returns 0; UV_EALREADY: it was called before; UV_ECANCELED: it is closed; UV_ENOMEM.
  template <class F>
  requires detail::answers_with<F>
  [[nodiscard]] int drain(F&& drained) { return drain_with(detail::completion<>{std::forward<F>(drained)}); }

  /// Answers all open requests within itself, in the order of the calls: `unavailable` if they were never sent, otherwise `unknown`;
  /// reads `unavailable`, finishes `unknown`, `ready` UV_ECANCELED. `drained` is not called. Executions become inert: their rows count
  /// as lost, so `drain` first. Waits for at most one commit. Idempotent; `open` may follow.
  void close() noexcept;

  /// Returns the last error of the store or of the options in words; empty: none. Valid until the next call.
  std::string_view problem() const noexcept;

  /// Keeps the loop alive while it is open. Idempotent.
  void ref() noexcept;
  /// Does not keep the loop alive any more. Idempotent.
  void unref() noexcept;
  /// Returns true if it keeps the loop alive while it is open; true at first.
  bool has_ref() const noexcept;

  /// Returns the store's time as this node knows it. The store decides by this clock what is due. No value: the store has not answered
  /// since `open`, or the scheduler is closed.
  ///
  /// It is estimated from the answers of the last minute. It is behind the store's clock by the time that the fastest of them took on its
  /// way. It is ahead only after that clock was set back: by as much, for at most a minute.
  ///
  /// Reads the loop's clock. O(1). Does not fail.
  std::optional<clock::time_point> store_now() const noexcept;

  /// Returns the store's time, or a little more. Count relative times from it, so that nothing is early: "in 30 minutes" is
  /// `*latest_store_now() + 30min`. No value: the node's session was not renewed since `open`, or the scheduler is closed.
  ///
  /// It is ahead of the store's clock by at most the round trip of the last renewal; after that clock was set back also as `store_now`
  /// says. It is behind only after that clock was set forward, until the next answer.
  ///
  /// Reads the loop's clock. O(1). Does not fail.
  std::optional<clock::time_point> latest_store_now() const noexcept;

  /// Returns counters and gauges as of this call. Copies 4 KB. O(1).
  scheduler_stats stats() const;

  /// Checks every invariant. Returns false if one is broken, and `why` says which. O(loaded tasks + requests).
  bool validate(std::string* why = nullptr) const;

 private:
  void set_handler(std::shared_ptr<detail::start_handler>) noexcept;
  int open_with(detail::completion<int>) noexcept;
  int schedule_with(task, detail::completion<schedule_result>, on_conflict) noexcept;
  int cancel_with(std::string_view, detail::completion<cancel_result>) noexcept;
  int get_with(std::string_view, detail::completion<read_result, task_info>) noexcept;
  int list_with(task_state, std::string_view, std::size_t,
                detail::completion<read_result, std::vector<task_info>>) noexcept;
  int revive_with(std::string_view, detail::completion<revive_result>) noexcept;
  int finish_with(std::string_view, std::uint64_t, detail::completion<finish_result>) noexcept;
  int drain_with(detail::completion<>) noexcept;

  std::shared_ptr<detail::engine> engine_;
};

}  // namespace tickwheel::durable
