// A store on a memory_database: a node of its cluster.
#pragma once

#include "../standing_timer.hpp"
#include "memory_core.hpp"

#include <tickwheel/durable/memory.hpp>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace tickwheel::durable::detail {

/// Carries calls out and answers them, on a timer of its service.
///
/// *Thread safety:* the loop thread. *Complexity:* O(open calls) per call. *Errors:* as store. *Lifetime:* as store.
class memory_node final : public store {
 public:
  explicit memory_node(std::shared_ptr<memory_database> database)
      : database_{std::move(database)}, core_{memory_core::of(*database_)} {}
  ~memory_node() override { close(); }

  int open(timer_service& timers) noexcept override;
  void listen(store_listener& listener) noexcept override { listener_ = &listener; }
  void close() noexcept override;
  std::string_view problem() const noexcept override { return problem_; }

  void join(join_call& c) noexcept override;
  void renew(renew_call& c) noexcept override { add(store_verb::renew, c); }
  void bury(bury_call& c) noexcept override { add(store_verb::bury, c); }
  void acquire(acquire_call& c) noexcept override { add(store_verb::acquire, c); }
  void release(release_call& c) noexcept override { add(store_verb::release, c); }
  void load(load_call& c) noexcept override { add(store_verb::load, c); }
  void begin(begin_call& c) noexcept override { add(store_verb::begin, c); }
  void finish(finish_call& c) noexcept override { add(store_verb::finish, c); }
  void recover(recover_call& c) noexcept override { add(store_verb::recover, c); }
  void put(put_call& c) noexcept override { add(store_verb::put, c); }
  void cancel(cancel_call& c) noexcept override { add(store_verb::cancel, c); }
  void revive(revive_call& c) noexcept override { add(store_verb::revive, c); }
  void get(get_call& c) noexcept override { add(store_verb::get, c); }
  void list(list_call& c) noexcept override { add(store_verb::list, c); }
  void purge(purge_call& c) noexcept override { add(store_verb::purge, c); }

  // For memory_core

  const timer_service* timers() const { return timers_; }
  const std::string& name() const { return name_; }
  /// Returns true if the session was given to this store.
  bool has_session(session_number s) const { return s != 0 && s == session_; }
  void set_session(session_number s) { session_ = s; }
  void set_problem(std::string what) { problem_ = std::move(what); }
  std::size_t open_calls(store_verb) const;

  /// The connection of calls that were carried out is gone: they answer `unknown`, reads `unavailable`.
  void lose_connection();
  /// The database lost its last writes. As above, and the others answer `unavailable`.
  void fail_over();
  void answer_lost();
  /// Nothing is carried out or answered until `close`.
  void crash() { has_crashed_ = true; }
  void tell_to_look(session_number to) {
    if (listener_ != nullptr && !has_crashed_ && (to == 0 || to == session_)) listener_->on_released();
  }
  void tell_of(partition_number p) {
    if (listener_ != nullptr && !has_crashed_) listener_->on_scheduled(p);
  }

 private:
  using steady = tickwheel::clock::time_point;

  struct open_call {
    store_call* call;
    store_verb verb;
    std::uint64_t number;  // in the order of the calls
    steady carry_at;
    steady answer_at;
    std::optional<memory_fault> fault;
    bool is_carried = false;
    bool has_effect = false;  // or may have had
    bool is_lost = false;
  };
  using open_calls_list = std::list<open_call>;

  /// The next thing to do for an open call: to carry it out, or to answer it.
  struct step {
    open_calls_list::iterator of;
    steady at;
  };

  void add(store_verb, store_call&) noexcept;
  void on_timer() noexcept;
  std::optional<step> next_step(std::uint64_t below) noexcept;
  void carry_out(open_call&);
  void answer(open_calls_list::iterator) noexcept;
  void arm() noexcept;
  steady read_clock() noexcept;

  std::shared_ptr<memory_database> database_;
  memory_core& core_;
  timer_service* timers_ = nullptr;  // null: closed
  std::optional<standing_timer<&memory_node::on_timer>> timer_;
  steady last_reading_{};
  open_calls_list calls_;
  std::uint64_t next_number_ = 0;
  std::string name_;
  std::string problem_;
  session_number session_ = 0;
  bool has_joined_ = false;  // since it was opened
  store_listener* listener_ = nullptr;
  bool has_crashed_ = false;
  bool is_answering_ = false;
};

}  // namespace tickwheel::durable::detail
