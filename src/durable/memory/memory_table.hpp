// The table of tasks of a memory_database: a state machine without timers, loops and clocks. Each verb is a function of the call and
// of the time.
#pragma once

#include <tickwheel/durable/memory.hpp>
#include <tickwheel/durable/store.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tickwheel::durable::detail {

/// The state table of DURABLE tasks, and the nodes and partitions of their cluster. A verb fills the results of its call; `status`
/// and `now` are the caller's.
///
/// *Thread safety:* none. *Complexity:* O(log rows) per element, except `list`, which reads all rows after its start. *Errors:*
/// bad_alloc. *Lifetime:* a value.
class memory_table {
 public:
  using time = clock::time_point;

  /// A task in the table.
  struct row {
    task_state state = task_state::pending;
    partition_number partition = 0;
    time at{};   ///< the next attempt, or the one that runs; `max` of dead and ended tasks
    time due{};  ///< the current period
    std::chrono::nanoseconds period{};
    revision rev = 0;
    revision ended = 0;          ///< the token of the last start that was answered
    session_number session = 0;  ///< of a running task
    unsigned attempts = 0;
    unsigned lost = 0;
    bool stop = false;  ///< a cancel came while it ran
    time gone{};        ///< when it ended, of an ended task
    std::string payload;
    std::string error;
  };

  /// A member of the cluster.
  struct node {
    std::string name;
    std::uint64_t beat = 0;
    time expires{};
    std::chrono::nanoseconds lease{};
    std::chrono::nanoseconds keep_finished{};
    bool is_starting = true;
    bool has_renewed = false;  // says whether it starts
  };

  /// The state of one row, node or partition before a write. No value: it was not there.
  struct row_change {
    std::string id;
    std::optional<row> before;
  };
  struct node_change {
    session_number session = 0;
    std::string name;
    std::optional<node> before;
  };
  struct owner_change {
    partition_number partition = 0;
    session_number before = 0;
  };
  using change = std::variant<row_change, node_change, owner_change>;

  /// Returns true if both are changes of the same row, partition or name of a node.
  static bool are_of_one(const change&, const change&);

  /// An empty table. Requires: `partitions` is not zero.
  explicit memory_table(std::uint16_t partitions) : owners_(partitions) {}

  void join(join_call&, time now);
  /// Returns true if the node starts tasks from now on, or no longer.
  bool renew(renew_call&, time now);
  /// Returns true if it has freed partitions.
  bool bury(bury_call&);
  void acquire(acquire_call&);
  /// Returns the next owner. 0: they are free.
  session_number release(release_call&);
  void load(load_call&, time now) const;
  void begin(begin_call&, time now);
  void finish(finish_call&, time now);
  void recover(recover_call&, time now);
  /// Refuses each task for which `refuses` returns true.
  void put(put_call&, time now, const std::function<bool(const task&)>& refuses);
  void cancel(cancel_call&, time now);
  void revive(revive_call&, time now);
  void get(get_call&, time now) const;
  void list(list_call&, time now) const;
  void purge(purge_call&, time now);

  /// Removes a node, and frees its partitions. Does nothing if it is not there.
  void remove(session_number);

  /// Returns the row of `id`, expired ones included; null: there is none.
  const row* find(std::string_view id) const;
  /// As above, without expired ones.
  const row* find(std::string_view id, time now) const;
  /// Returns a row as a scheduler sees it.
  static task_info info_of(std::string_view id, const row&);
  /// Returns the node of a session, or null.
  const node* member(session_number) const;
  /// Returns the session of the node with this name, or 0.
  session_number session_of(std::string_view name) const;
  /// Returns all members, by session.
  std::vector<store_node> nodes() const;
  /// Returns the owner of a partition; 0: it is free.
  session_number owner_of(partition_number p) const { return owners_.at(p); }
  std::uint16_t partitions() const { return static_cast<std::uint16_t>(owners_.size()); }
  /// Returns the partition of `id`: the same on all machines.
  partition_number partition_of(std::string_view id) const;
  /// Returns the number of rows, expired ones included.
  std::size_t size() const { return rows_.size(); }
  std::size_t size(task_state) const;

  /// Each write is noted in `journal` from now on, until this is called with null.
  void note_in(std::vector<change>* journal) { journal_ = journal; }
  /// Takes a write back. Revisions and sessions are never given twice.
  void undo(const change&);
  /// Keeps the numbers of `later`, a later version of this table, from being given again.
  void skip_numbers_of(const memory_table& later) { last_number_ = later.last_number_; }

  /// Checks every invariant. Returns false if one is broken, and `why` says which.
  bool validate(std::string* why) const;

 private:
  /// The order in which pending tasks are loaded.
  struct place {
    partition_number partition = 0;
    time at{};
    std::string id;
    auto operator<=>(const place&) const = default;  // NOLINT(modernize-use-nullptr): of the compiler's making
  };
  using rows = std::map<std::string, row, std::less<>>;
  using position = rows::iterator;

  revision next_number(time now);
  std::chrono::nanoseconds keep_finished() const;
  bool has_expired(const row&, time now) const;
  position find_known(std::string_view id, time now);  // as `find`
  bool is_owner(session_number, partition_number) const;

  static pending_row pending_of(const std::string& id, const row&);
  void link(const std::string& id, const row&);
  void unlink(const std::string& id, const row&);
  template <class F>
  void write(position, F&& transition);
  void erase(position);
  void set_owner(partition_number, session_number);
  void note_node(session_number, const std::string& name);

  void make_pending(row&, time at, time now);
  void make_dead(row&, time now);
  void make_ended(row&, task_state, time now);
  void start_next_period(row&, time now);
  void finish(row&, const finish_call::item&, time now);

  rows rows_;
  std::set<place> pending_;
  std::set<std::string, std::less<>> running_;
  std::set<std::pair<time, std::string>> ended_;
  std::size_t dead_ = 0;
  std::map<session_number, node> nodes_;
  std::vector<session_number> owners_;  // by partition; 0: free
  std::chrono::nanoseconds last_keep_finished_{};
  revision last_number_ = 0;
  std::vector<change>* journal_ = nullptr;
};

}  // namespace tickwheel::durable::detail
