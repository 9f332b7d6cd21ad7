// The shared half of a memory_database and its stores: the table, its clock, the faults that a test asked for, and the writes that are
// not confirmed.
#pragma once

#include "memory_table.hpp"

#include <tickwheel/durable/memory.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tickwheel::durable::detail {

class memory_node;

/// The clock of a database: that of the services of its stores, moved to another time.
///
/// *Thread safety:* the loop thread. *Complexity:* O(1). *Errors:* none. *Lifetime:* a service is open when it is read.
class memory_clock {
 public:
  explicit memory_clock(clock::time_point start) : now_{start} {}

  /// Takes a reading of a service's clock. One that is behind the last reading changes nothing: its loop stood still.
  void read(const timer_service&);
  /// The first store is open: time goes on from now, also on a service whose clock is behind the last one.
  void start(const timer_service&);
  void shift(std::chrono::nanoseconds by) { now_ += by; }
  clock::time_point now() const { return now_; }

 private:
  clock::time_point now_;
  std::optional<tickwheel::clock::time_point> last_;  // the last reading
};

/// See above. Friend of memory_database, whose functions are its functions.
///
/// *Thread safety, complexity:* as memory_database. *Errors:* bad_alloc. *Lifetime:* that of its memory_database.
class memory_core {
 public:
  memory_core(std::uint16_t partitions, clock::time_point start) : table{partitions}, time{start} {}

  static memory_core& of(memory_database& database) noexcept { return *database.core_; }

  /// A store was opened, or closed.
  void add(memory_node&);
  void remove(memory_node&);

  /// Returns the time of the database.
  clock::time_point now();

  /// A call was made. Returns how it fails, if it does.
  std::optional<memory_fault> count(store_verb, const store_call&);

  /// Returns true if the calls of a node find no database.
  bool is_out(const memory_node&) const;

  /// Carries a call out, and fills its results. Remembers what it wrote until `confirm` or a crash.
  void carry_out(memory_node&, store_verb, store_call&);
  /// The answer of a call was delivered: it is never rolled back.
  void confirm(const store_call&);

  /// Another node buries this one: that is never rolled back, and neither are the writes before it that it needs.
  bool bury(session_number);

  void crash(const std::function<bool(const memory_node&)>& crashes, bool keep_unconfirmed);
  void fail_over();

  static constexpr std::size_t index_of(store_verb v) { return static_cast<std::size_t>(v); }

  memory_table table;
  memory_clock time;
  std::optional<memory_table> saved;
  std::vector<memory_node*> open_nodes;
  std::array<std::size_t, store_verbs> calls{};
  std::array<std::chrono::nanoseconds, store_verbs> carry_delay{}, answer_delay{};
  std::array<std::deque<memory_fault>, store_verbs> faults;
  bool all_out = false;
  std::set<std::string, std::less<>> nodes_out;
  int join_error = 0;
  std::function<bool(const task&)> refuses;
  std::function<void(store_verb, const store_call&)> look;

 private:
  using changes = std::vector<memory_table::change>;

  // A call that was carried out and is not confirmed: its writes, in the order in which they were made, and the rows that it looked at.
  struct unconfirmed {
    const store_call* call;
    const memory_node* by;
    changes writes;
    changes looks;
    bool has_seen_all = false;

    bool needs_one_of(const changes& earlier) const;
  };

  void execute(memory_node&, store_verb, store_call&);
  void tell_others_to_look(const memory_node&, session_number to);
  static void note_looks(unconfirmed&, store_verb, const store_call&);

  std::list<unconfirmed> unconfirmed_;
};

}  // namespace tickwheel::durable::detail
