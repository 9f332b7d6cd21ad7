// A store keeps the tasks of schedulers. This is the interface between a scheduler and its database.
//
// Programs do not call a store: they make one and hand it to a scheduler. Implement this interface to use another database. The
// guide docs/guides/another-store.md tells how: it has the fields of a row, the state table, and the conformance suite.
//
// A verb is a batch. The scheduler fills a call and passes it to the verb of the same name. The store carries it out, fills its
// results, and calls `on_answer` on the loop:
//
//   struct my_begin : begin_call { ... };
//   store.begin(call);                   // returns at once
//   ... on_answer(call)                  // later, on the loop: call.status, call.now, call.starts
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/durable/results.hpp>
#include <tickwheel/durable/task.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tickwheel {
class timer_service;
}

namespace tickwheel::durable {

/// A session of a node. Never used again in one store. 0: none.
using session_number = std::uint64_t;
/// A version of a row; of a running row it is the token of the start. Unique in the store, and growing.
using revision = std::uint64_t;
/// A part of the tasks. One session at a time owns it, and starts its tasks.
using partition_number = std::uint16_t;

/// Says whether a call took effect.
enum class store_status : std::uint8_t {
  ok,           ///< it took effect as a whole, and is durable. The results hold.
  unavailable,  ///< it took no effect
  unknown,      ///< it may have taken effect. No part of it takes effect later.
};

/// The part that all calls share.
///
/// *Thread safety:* the loop thread, except that a store may read and fill a call on a thread of its own until it answers.
/// *Complexity:* that of its batch. *Errors:* `status`. *Lifetime:* the caller owns a call, and keeps it until it is answered.
/// Neither copies nor moves.
class store_call {
 public:
  /// Called once per call.
  using answer = void (*)(store_call&) noexcept;

  /// A call whose answer goes to `answered`.
  explicit store_call(answer answered) noexcept : on_answer{answered} {}
  store_call(const store_call&) = delete;
  store_call& operator=(const store_call&) = delete;

  answer on_answer;         ///< the store calls it on the loop, never within the verb
  store_status status{};    ///< out: whether it took effect
  clock::time_point now{};  ///< out: the store's clock at the call; only if `status` is ok
  /// out: how many elements of a put, cancel or revive were carried out although `status` is not ok. They are the first ones, and have
  /// their results. A store that carries out all of a call or nothing leaves it alone.
  std::size_t carried_out = 0;

 protected:
  ~store_call() = default;
};

/// A call that changes tasks by their ids. An element is *held* if another client of the database has locked its row.
struct write_call : store_call {
  using store_call::store_call;
  /// in: the caller sends held elements again. So the store need not wait for them, but may answer the call without them.
  bool leaves_held = false;
  /// out: empty, or one per element: true if it is held. The store has left it as it was, in the call as well, and its result says nothing.
  /// Only if `leaves_held`.
  std::vector<bool> held;
};

/// Makes this node a member of the store, with a session of its own. Opens or creates the database.
struct join_call : store_call {
  using store_call::store_call;
  std::string name;                          ///< in: the node's name
  std::chrono::nanoseconds lease{};          ///< in: how long the session lives without a renewal
  std::chrono::nanoseconds keep_finished{};  ///< in: how long ended ids are remembered
  /// out: 0, or why this store can never be joined as things are: UV_EBUSY, UV_EEXIST, UV_EFTYPE, UV_ENOTSUP, UV_EACCES, UV_EROFS,
  /// UV_ENOENT, UV_EIO. `store::problem` says more. Only if `status` is ok; an outage is `unavailable`, and the caller joins again.
  int error = 0;
  session_number session = 0;    ///< out: the session
  std::uint16_t partitions = 0;  ///< out: how many partitions the store has
};

/// A node as `renew` sees it.
struct store_node {
  session_number session = 0;        ///< its session
  std::uint64_t beat = 0;            ///< changes with each renewal
  clock::time_point expires{};       ///< the end of its lease, on the store's clock
  std::chrono::nanoseconds lease{};  ///< that of its last `renew`, or of its `join`
  std::uint16_t partitions = 0;      ///< how many it owns
  bool is_starting = true;           ///< it starts tasks, and so wants partitions; not before its first `renew`
};

/// A store that has counted so many dead tasks stops there: each renewal counts them one by one, and must not take long.
inline constexpr std::uint64_t most_dead_counted = 10'000;

/// Extends the session by one lease from now. Tells the other nodes, by `on_released`, if this is the first one and the node starts tasks,
/// or if it does not any more.
struct renew_call : store_call {
  using store_call::store_call;
  session_number session = 0;                ///< in
  std::chrono::nanoseconds lease{};          ///< in
  bool is_starting = true;                   ///< in: this node starts tasks, and so wants partitions
  bool is_buried = false;                    ///< out: the session is gone, and the results below are empty
  std::vector<store_node> nodes;             ///< out: all members, this one included, by session
  std::vector<partition_number> partitions;  ///< out: those that this session owns
  std::uint16_t free_partitions = 0;         ///< out: partitions without an owner
  std::uint64_t dead = 0;                    ///< out: the number of dead tasks; `most_dead_counted`: or more
};

/// Ends the session of another node whose lease has run out, unless that was renewed. Frees its partitions, and tells the other nodes.
struct bury_call : store_call {
  using store_call::store_call;
  session_number session = 0;  ///< in: the other node's
  std::uint64_t beat = 0;      ///< in: its last known beat
  bool is_buried = false;      ///< out: the session is gone
};

/// Takes free partitions.
struct acquire_call : store_call {
  using store_call::store_call;
  session_number session = 0;                ///< in
  std::uint16_t limit = 0;                   ///< in: take at most this many
  std::vector<partition_number> partitions;  ///< out: those taken now
};

/// Gives partitions up. Takes effect after each `begin` that was called before.
struct release_call : store_call {
  using store_call::store_call;
  session_number session = 0;                ///< in
  std::vector<partition_number> partitions;  ///< in
  session_number to = 0;                     ///< in: the next owner if it is a member that starts tasks; 0: none
};

/// A place in the order of (time, id).
struct load_range {
  partition_number partition = 0;  ///< the partition to read
  clock::time_point at{};  ///< rows are after (at, id): at a later time, or at this time with a greater id, by bytes
  std::string id;          ///< empty: from the first row of this time on
};

/// A pending task.
struct pending_row {
  partition_number partition = 0;  ///< the partition of its id
  std::string id;                  ///< its id
  revision rev = 0;                ///< changes with each write, except the stop of a running task
  clock::time_point at{};          ///< when the next attempt starts
  std::uint32_t bytes = 0;         ///< the length of its payload
  std::uint16_t lost = 0;          ///< starts whose node was lost
};

/// Reads pending tasks that are due soon: for each range those at or before now + window, in the order of (at, id).
struct load_call : store_call {
  using store_call::store_call;
  std::chrono::nanoseconds window{};  ///< in
  std::size_t page = 0;               ///< in: at most this many rows per range
  std::vector<load_range> ranges;     ///< in
  std::vector<pending_row> rows;      ///< out: by range, in the order of `ranges`
};

/// Starts tasks. A task starts if it is pending, its `rev` fits, `at` is not after the store's clock, its partition is owned by the
/// session, and the session is a member. It gets a new `rev`, which is the start's token, and its attempts grow by one.
struct begin_call : store_call {
  using store_call::store_call;
  /// A task to start.
  struct item {
    std::string id;    ///< its id
    revision rev = 0;  ///< as it was loaded
  };
  /// A task that was started.
  struct started {
    std::size_t index = 0;              ///< of the item in `items`
    revision token = 0;                 ///< of this start
    unsigned attempt = 0;               ///< 1 for the first
    unsigned lost = 0;                  ///< starts whose node was lost
    clock::time_point due{};            ///< of this period
    std::chrono::nanoseconds period{};  ///< zero: it starts once
    std::string payload;                ///< the task's data
  };
  session_number session = 0;   ///< in
  std::vector<item> items;      ///< in: at most 1,000, each id once
  std::vector<started> starts;  ///< out: the tasks that were started, in any order
};

/// Says how a start ended.
enum class outcome : std::uint8_t {
  done,  ///< the task is finished. A periodic one is pending again, for its first period after now, with all its attempts.
  again,  ///< the task is pending again
  dead,   ///< the task is dead
};

/// Ends starts. The row's `rev` must be the token; otherwise nothing changes. Sets the row's `ended` to the token. A row with
/// `stop` that would be pending or dead is cancelled.
struct finish_call : write_call {
  using write_call::write_call;
  /// A start that ends.
  struct item {
    std::string id;                   ///< its task
    revision token = 0;               ///< its token
    outcome how{};                    ///< how it ends
    clock::time_point at{};           ///< of `again`: when the next attempt starts
    bool gives_attempt_back = false;  ///< of `again`: this start does not count
    std::string error{};              ///< of `again` and `dead`: kept as the last error if it is not empty
  };
  std::vector<item> items;  ///< in: at most 1,000, each id once
  /// out: one per item. `finished`: done now, or `ended` is the token. `unknown`: it was not written, and is to be sent again. Else
  /// `stale`.
  std::vector<finish_result> results;
  std::vector<pending_row>
      pending;  ///< out: the rows that are pending again. A store may leave this empty: the next look finds them.
};

/// Gives back running tasks that nobody runs. Does nothing if the session is no member.
///
/// Lost tasks: those of a partition of this session that are running in a session that is gone. Each has one more `lost`. Then it is
///
/// - cancelled, if it has `stop`;
/// - dead, if `lost` is 3;
/// - without an attempt left: dead, or pending for its next period if it is periodic;
/// - otherwise pending again, at the time it had.
///
/// One whose row another client holds, or whose change the store rejects, stays as it is. A later call tries again.
///
/// Doubted tasks: those in `doubted` that are running in this session, of any partition, because the session may have released it. Each
/// is pending again, and its attempt is given back. One whose row another client holds, or whose change the store rejects, stays as it
/// is. The store takes its id out of `doubted`, because the node must doubt it further.
struct recover_call : store_call {
  using store_call::store_call;
  session_number session = 0;  ///< in
  unsigned max_attempts = 0;   ///< in
  /// in: false: the store may take its time. Becomes true if that changes before the answer. The store checks it with each later call
  /// of a verb, and after each answer.
  bool is_urgent = true;
  std::vector<std::string>
      doubted;  ///< in: ids that this node had asked to begin, and does not run; out: those that it need not doubt
  std::uint64_t recovered = 0;  ///< out: tasks that are pending again because their session is gone
  std::uint64_t died = 0;       ///< out: tasks that are dead now
};

/// Puts tasks into the store, as the state table says (docs/guides/another-store.md). An element that the store rejects is `refused`, and
/// does not disturb the others.
struct put_call : write_call {
  using write_call::write_call;
  /// A task to keep.
  struct item {
    task what;               ///< a valid task
    on_conflict conflict{};  ///< decides if the id is known
  };
  /// The answer to an item.
  struct answered {
    schedule_result result{};        ///< scheduled, replaced, exists, ended, running or refused
    revision rev = 0;                ///< of a row that was written
    partition_number partition = 0;  ///< as above
  };
  std::vector<item> items;        ///< in: at most 1,000, each id once
  std::vector<answered> results;  ///< out: one per item
};

/// Cancels tasks, as the state table says (docs/guides/another-store.md). An element that the store rejects is `unavailable`.
struct cancel_call : write_call {
  using write_call::write_call;
  std::vector<std::string> ids;        ///< in: at most 1,000, each once
  std::vector<cancel_result> results;  ///< out: one per id
};

/// Makes dead tasks pending, at the store's now, without attempts, losses and error. An element that the store rejects is `unavailable`.
struct revive_call : write_call {
  using write_call::write_call;
  /// The answer to an id.
  struct answered {
    revive_result result{};          ///< revived, not_dead, not_found or unavailable
    revision rev = 0;                ///< of a row that was written
    partition_number partition = 0;  ///< as above
  };
  std::vector<std::string> ids;   ///< in: at most 1,000, each once
  std::vector<answered> results;  ///< out: one per id
};

/// Reads tasks by their ids. An ended task older than `keep_finished` is not found.
struct get_call : store_call {
  using store_call::store_call;
  std::vector<std::string> ids;                   ///< in: at most 1,000, each once
  std::vector<std::optional<task_info>> results;  ///< out: one per id
};

/// Reads the tasks of one state, by the bytes of their ids. Leaves out ended ones older than `keep_finished`.
struct list_call : store_call {
  using store_call::store_call;
  task_state state{};              ///< in
  std::string after;               ///< in: ids are greater than this
  std::size_t limit = 0;           ///< in: 1 to 10,000
  std::vector<task_info> results;  ///< out
};

/// Deletes ended tasks older than `keep_finished`.
struct purge_call : store_call {
  using store_call::store_call;
  std::size_t limit = 0;   ///< in: at most this many
  std::size_t purged = 0;  ///< out: how many were deleted
};

/// The verbs of a store.
enum class store_verb : std::uint8_t {
  join,
  renew,
  bury,
  acquire,
  release,
  load,
  begin,
  finish,
  recover,
  put,
  cancel,
  revive,
  get,
  list,
  purge
};

/// The number of verbs.
inline constexpr std::size_t store_verbs = 15;

/// Returns the name of a verb, such as "begin". "invalid" for a value that is none.
TICKWHEEL_API const char* to_string(store_verb) noexcept;

/// Hears of what other programs have done, so that a node need not wait until it looks. A notice may be lost.
///
/// *Thread safety:* called on the loop thread. *Complexity:* O(1). *Errors:* none. *Lifetime:* outlives the open store that it
/// listens to.
class store_listener {
 public:
  /// Another program has scheduled a task in this partition, and asks its owner to look. Called on the loop, never within a verb.
  virtual void on_scheduled(partition_number) noexcept = 0;
  /// Another node has handed partitions to this one, or has freed some, or starts tasks from now on or no longer. Called as above.
  virtual void on_released() noexcept = 0;

 protected:
  ~store_listener() = default;
};

/// A database of tasks.
///
/// *Thread safety:* the loop thread. *Complexity:* a verb returns at once, and never waits for the database. *Errors:* a call's
/// `status`. Nothing throws.
///
/// *Answers:* each call is answered exactly once, on the loop, never within the verb. `on_answer` may call verbs, and must not
/// close or destroy the store. Several calls of one verb may be in flight; they are answered in the order of the calls.
///
/// *Order:* `begin` and `finish` take effect in the order of the calls if they share an id, and each `release` after the earlier calls of
/// `begin` and `release`. `put`, `cancel`, `revive` and `get` take effect in the order of the calls if they share an id, and each of
/// them with each `list`. There is no order between these two groups and the other verbs.
///
/// *After an outage:* when a verb answers `ok` again, no earlier call of this store takes effect any more.
///
/// *Liveness:* a store does not keep the loop alive.
///
/// *Lifetime:* it belongs to one scheduler. It is closed before it is destroyed.
class TICKWHEEL_API store {
 public:
  store() = default;
  store(const store&) = delete;
  store& operator=(const store&) = delete;
  virtual ~store() = default;

  /// Opens the store for the loop of `timers`, which outlives the open store. Does not touch the database: `join` does. Returns 0,
  /// UV_EINVAL if the store's options are invalid (`problem` names them), or UV_ENOMEM. Requires: it is closed.
  virtual int open(timer_service& timers) noexcept = 0;
  /// Answers all open calls within itself, in the order of the calls: `unavailable` if they had no effect, otherwise `unknown`.
  /// Waits for at most one commit, and frees the database. Idempotent. The store can be opened again.
  virtual void close() noexcept = 0;
  /// Returns the last error of the database in words; empty: none. Valid until the next call of any function.
  virtual std::string_view problem() const noexcept = 0;

  /// Tells `listener`, which outlives the open store, what other programs do. A store that hears nothing of them does nothing: their
  /// tasks are found by the next look, and their partitions by the next renewal. Called before `open`.
  virtual void listen(store_listener& listener) noexcept { (void)listener; }

  virtual void join(join_call&) noexcept = 0;        ///< see `join_call`
  virtual void renew(renew_call&) noexcept = 0;      ///< see `renew_call`
  virtual void bury(bury_call&) noexcept = 0;        ///< see `bury_call`
  virtual void acquire(acquire_call&) noexcept = 0;  ///< see `acquire_call`
  virtual void release(release_call&) noexcept = 0;  ///< see `release_call`
  virtual void load(load_call&) noexcept = 0;        ///< see `load_call`
  virtual void begin(begin_call&) noexcept = 0;      ///< see `begin_call`
  virtual void finish(finish_call&) noexcept = 0;    ///< see `finish_call`
  virtual void recover(recover_call&) noexcept = 0;  ///< see `recover_call`
  virtual void put(put_call&) noexcept = 0;          ///< see `put_call`
  virtual void cancel(cancel_call&) noexcept = 0;    ///< see `cancel_call`
  virtual void revive(revive_call&) noexcept = 0;    ///< see `revive_call`
  virtual void get(get_call&) noexcept = 0;          ///< see `get_call`
  virtual void list(list_call&) noexcept = 0;        ///< see `list_call`
  virtual void purge(purge_call&) noexcept = 0;      ///< see `purge_call`
};

}  // namespace tickwheel::durable
