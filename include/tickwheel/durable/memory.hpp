// A store in memory, for tests of your tasks. On a manual_driver it is deterministic.
//
//   tickwheel::manual_service manual;
//   auto database = std::make_shared<tickwheel::durable::memory_database>();
//   tickwheel::durable::scheduler orders{manual.timers, tickwheel::durable::memory_store(database)};
//   ...
//   orders.schedule({.id = "order-7", .due = database->now() + 30min}, confirm);
//   manual.advance(31min);
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/durable/results.hpp>
#include <tickwheel/durable/store.hpp>
#include <tickwheel/durable/task.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tickwheel::durable {

namespace detail {
class memory_core;
}

/// How a memory_database fails a call.
enum class memory_fault : std::uint8_t {
  unavailable,       ///< it is not carried out, and answered `unavailable`
  unknown_done,      ///< it is carried out, and answered `unknown`
  unknown_not_done,  ///< it is not carried out, and answered `unknown`
  lost_done,         ///< it is carried out, and its answer is lost
  lost_not_done,     ///< it is not carried out, and its answer is lost
};

/// A row of a memory_database, for the checks of a test.
struct memory_row {
  task_info info;                  ///< the task, as `scheduler::get` answers it
  revision rev = 0;                ///< its version; of a running task the token of the start
  revision ended = 0;              ///< the token of the last start that was answered
  session_number session = 0;      ///< of a running task: the session that runs it
  partition_number partition = 0;  ///< the partition of its id
};

/// A database in memory, and the faults of one. `memory_store` makes the stores that use it.
///
/// *Clock:* it starts at `start` when the first store is opened. From then on it moves with the clock of the stores' timer_services,
/// which have one clock, and never goes back unless `shift_clock` says so. It stands still while no store is open if the next
/// service has a new clock.
///
/// *Calls* are carried out, and answered, by a timer of the store's service: in the next pass, unless a delay was set. The timer does
/// not keep the loop alive.
///
/// *Nodes:* a node has the name that its store joined with. A name may join again once its session is buried, its lease has run
/// out, or its store was closed; and at once by the same store.
///
/// *Thread safety:* the loop thread of its stores. *Complexity:* O(log rows) per element; `list`, `save`, `fail_over` and `validate`
/// read all rows. *Errors:* none; if there is no memory the process stops. *Lifetime:* shared with its stores. Neither copies nor
/// moves.
class TICKWHEEL_API memory_database {
 public:
  /// The default of `start`: 2026-01-01.
  static constexpr clock::time_point first_day = std::chrono::sys_days{std::chrono::year{2026} / 1 / 1};

  /// An empty database. Several partitions by default, so that tests meet what depends on them. Requires: `partitions` is not zero
  /// (checked).
  explicit memory_database(std::uint16_t partitions = 4, clock::time_point start = first_day);
  ~memory_database();
  memory_database(const memory_database&) = delete;
  memory_database& operator=(const memory_database&) = delete;

  /// Returns the time of the database's clock.
  clock::time_point now() const noexcept;
  /// Moves the clock forward, or back.
  void shift_clock(std::chrono::nanoseconds by) noexcept;

  // Reading

  /// Returns the task of this id, as `scheduler::get` does. No value: there is none, or it ended longer than `keep_finished` ago.
  std::optional<task_info> info(std::string_view id) const;
  /// Returns the row of this id. No value: there is none. An ended row stays until it is purged.
  std::optional<memory_row> row(std::string_view id) const;
  std::size_t size() const noexcept;                                  ///< rows, those that wait to be purged included
  std::size_t size(task_state) const noexcept;                        ///< rows in this state
  partition_number partition_of(std::string_view id) const noexcept;  ///< the same on all machines
  std::uint16_t partitions() const noexcept;                          ///< the number of partitions
  /// Returns the owner of a partition; 0: it is free. Requires: it is below `partitions()` (checked).
  session_number owner_of(partition_number) const noexcept;
  std::vector<store_node> nodes() const;                            ///< all members, by session
  session_number session_of(std::string_view node) const noexcept;  ///< the session of a node; 0: it is no member

  std::size_t calls(store_verb) const noexcept;       ///< calls of a verb since the database was made
  std::size_t open_calls(store_verb) const noexcept;  ///< calls of a verb that are not answered
  /// Calls `look` for each call, within its verb; null: nobody looks.
  void on_call(std::function<void(store_verb, const store_call&)> look);

  /// Checks every invariant. Returns false if one is broken, and `why` says which.
  bool validate(std::string* why = nullptr) const;

  // Delays, for the calls from now on

  /// Carries a call of `verb` out `delay` after it was called. `begin`, `finish` and `release` keep the order of their calls, and so do
  /// `put`, `cancel`, `revive`, `get` and `list`.
  void carry_out_after(store_verb verb, std::chrono::nanoseconds delay) noexcept;
  /// Answers a call of `verb` `delay` after it was called. The answers of one verb keep the order of its calls.
  void answer_after(store_verb verb, std::chrono::nanoseconds delay) noexcept;

  // Faults

  /// Fails the next `calls` calls of `verb`, after those that earlier calls of this function fail.
  ///
  /// A call whose answer is lost is answered by `answer_lost`, or by `store::close`. Until then later calls of the verb are carried
  /// out, and not answered.
  void fail_next(store_verb verb, memory_fault, std::size_t calls = 1);
  /// Answers all calls whose answers are lost, with `unknown`, in the next pass: as when a connection is found to be dead.
  void answer_lost();
  /// While `on`, all calls answer `unavailable`, `join` included. Those that are carried out and not answered become `unknown`, except
  /// reads.
  void outage(bool on) noexcept;
  /// As above, for the calls of one node, also if it has not joined yet.
  void outage(std::string_view node, bool on);
  /// Tells the schedulers that another program has scheduled a task in this partition, as `store_listener` says.
  void tell_of(partition_number);
  /// Lets `join` answer this error; 0: no more.
  void fail_join(int error) noexcept;
  /// Lets `put` answer `refused` for each task for which `refuses` returns true; null: for none.
  void refuse(std::function<bool(const task&)> refuses);
  /// Removes a node, and frees its partitions, as another node does that finds its lease run out. Returns false if there is none.
  bool bury(session_number);

  /// Lets the process of all stores crash: no open or later call is answered or carried out until the store is closed, which answers
  /// `unknown`. Calls without a delivered answer are kept or rolled back, each as a whole. A call is kept if a later call has changed
  /// or read one of its rows, and its answer was delivered or belongs to a living node.
  void crash(bool keep_unconfirmed);
  /// As above, for one node. Does nothing if no open store has this name.
  void crash(std::string_view node, bool keep_unconfirmed);

  /// Keeps a copy of the tasks, nodes and partitions for `fail_over`.
  void save();
  /// Returns to what `save` has kept: confirmed writes since are lost, as in the failover to an asynchronous standby. Open calls answer
  /// `unknown` if they were carried out, otherwise `unavailable`. Tokens and sessions are not given again. Requires: `save` was called
  /// (checked).
  void fail_over();

 private:
  friend class detail::memory_core;
  std::unique_ptr<detail::memory_core> core_;
};

/// Returns a store that keeps its tasks in `database`. Several stores may share a database: they are the nodes of a cluster in one
/// process. Null: the store has a database of its own with one partition, whose clock starts at the system's time.
///
/// `open` of the store answers UV_ECANCELED if the service is closed, and UV_ENOMEM if its `max_armed` is reached.
TICKWHEEL_API std::unique_ptr<store> memory_store(std::shared_ptr<memory_database> database = nullptr);

}  // namespace tickwheel::durable
