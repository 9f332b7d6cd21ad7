// The state of a run: the schedulers, their database, and the model of each task.
#pragma once

#include "../../../../src/durable/batch_limits.hpp"
#include "comparison.hpp"
#include "conversions.hpp"

#include <tickwheel/uv/timer_service.hpp>

#include <deque>
#include <map>
#include <unordered_set>
#include <vector>

namespace durable_model {

using namespace std::chrono_literals;
using durable::memory_fault;
using durable::store_verb;

// a timer expires at the end of its tick, and an answer is delivered in the next iteration
inline constexpr bool answers_wait = durable::detail::limits.turn == 0ns;  // a turn takes in one element
inline constexpr nanos patience = answers_wait ? 50 * ms : 5 * ms;
inline constexpr std::size_t most_behind = 12;  // the model tries all orders of requests that may have ended
inline constexpr std::size_t most_events = 120;

/// A run. `choices` decide its options, operations and faults.
class world {
 public:
  world(choices& decide, const make_backend& make, bool keeps_trace);
  world(const world&) = delete;
  world& operator=(const world&) = delete;
  ~world();

  void run(std::uint64_t operations);
  comparison result();

 private:
  struct node {
    std::string name;
    durable::scheduler_options options;
    bool starts = true;
    std::unique_ptr<durable::scheduler> scheduler;
    int member = -1;  // of its opening; -1: closed
    bool has_joined = false, is_paused = false, is_draining = false, is_drained = false, is_crashed = false;
    bool closes_next = false;  // in the next callable
    bool is_closing = false;
    int last_answered = 0;  // while it closes
    std::size_t requests = 0, bytes = 0;
    std::uint64_t started = 0, scheduled = 0, unavailable = 0;  // by this scheduler
  };
  struct open_request {
    verb what{};
    int id = 0;  // -1: a list
    int node = 0, member = 0;
    nanos issued = 0;
    std::size_t bytes = 0;
    bool is_counted = true;
    row_state state{};  // of a list
    std::string after;
    std::size_t limit = 0;
  };
  struct held {
    durable::execution run;
    int id = 0, node = 0, member = 0;
    nanos period = 0;
  };

  // operations
  void step();
  void schedule(node&, durable::on_conflict);
  void schedule_many(node&);
  void schedule(node&, int id, durable::on_conflict, content);
  void ask_invalid(node&);
  void cancel(node&, int id);
  void revive(node&, int id);
  void get(node&, int id);
  void list(node&);
  void finish_by_token(node&, int id);
  void end(held, unsigned how);
  void open(node&);
  void close(node&, bool destroys);
  void drain(node&);
  void move_time();
  void stall();
  void disturb();
  void settle();
  template <class Ask>
  void ask_until_decided(Ask&& ask);

  // what comes back
  void on_start(int node, durable::execution);
  void on_answer(int number, answer);
  void on_read(int number, durable::read_result, const durable::task_info*);
  void on_listed(int number, durable::read_result, const std::vector<durable::task_info>&);
  std::optional<open_request> take(int number, bool is_decided);
  void look_at(store_verb, const durable::store_call&);
  void in_callable(node&);
  void block();

  int request_error(const node&, std::size_t bytes) const;
  template <class Call>
  int accept(node& n, verb what, int id, std::size_t bytes, int expected, Call&& call);
  int number_of(node&, verb, int id, std::size_t bytes, request);
  void advance(nanos by);
  void check();
  void check_deadlines();
  void settle_closed();
  node& any_node() { return nodes_[decide_.below(nodes_.size())]; }
  int any_id() { return static_cast<int>(decide_.below(ids_)); }
  std::string name_of_id(int id) const;
  nanos any_delay();
  span estimated(const node&, nanos delay) const;
  content any_content();
  void refresh() { facts_.now = std::chrono::nanoseconds{time_.now().time_since_epoch()}.count(); }
  void fail(const char* format, ...) __attribute__((format(printf, 2, 3)));
  void note(const char* format, ...) __attribute__((format(printf, 2, 3)));
  bool fits(bool is_possible, int id, const char* what);

  choices& decide_;
  const bool keeps_trace_;
  std::string trace_;
  std::deque<std::string> events_;
  std::optional<std::string> mismatch_;
  std::uint64_t operations_ = 0, starts_ = 0, checks_ = 0;

  tickwheel::manual_driver time_{tickwheel::clock::time_point{std::chrono::hours{1}}};
  tickwheel::timer_service timers_;
  std::unique_ptr<backend> database_;
  durable::memory_database* faults_ = nullptr;
  std::unique_ptr<durable::store> clock_reader_;  // a memory_database reads its clock while a store is open
  facts facts_;
  durable::scheduler_options options_;
  std::size_t ids_ = 8;
  bool is_brief_ = false;      // the run of a fuzzer: polls and periods cost it most
  bool polls_seldom_ = false;  // a look into a file takes real time
  bool is_crowd_ = false, may_disturb_ = false, may_shift_ = false, is_calm_ = false, is_ending_ = false;
  nanos least_offset_ = 0, greatest_offset_ = 0, longest_delay_ = 0;
  bool has_blocked_ = false;  // a callable
  nanos behind_ = 0;          // how much later than asked the last advance ended
  std::vector<task_model> models_;
  std::vector<std::vector<std::uint64_t>> tokens_;  // by id: the last ones
  std::vector<std::uint64_t> last_token_;
  std::unordered_set<std::uint64_t> all_tokens_;
  std::vector<node> nodes_;
  std::map<int, open_request> open_;
  std::vector<held> held_;
  std::vector<int> closed_;      // members that have closed in this operation
  std::vector<bool> is_unsure_;  // by id: a request was answered `unknown`
  int last_number_ = 0;
  bool is_asking_ = false;
  std::optional<shown_row> last_read_;
  bool is_decided_ = false;  // the last answer was neither `unavailable` nor `unknown`
};

}  // namespace durable_model
