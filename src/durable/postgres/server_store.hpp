// The store: calls become works, links carry them out, and answers are given in the order of the calls.
#pragma once

#include "../fork_check.hpp"
#include "../standing_timer.hpp"
#include "link/connector.hpp"
#include "link/node_state.hpp"
#include "works/lane.hpp"
#include "works/work.hpp"

#include <tickwheel/durable/postgres.hpp>

#include <array>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace tickwheel::durable::postgres {

/// Answers `ok` only while all links are up.
///
/// In a child of a fork a call is never answered, and `close` only forgets what was open: the connections are the parent's.
class server_store final : public store, private connector::client {
 public:
  server_store(std::string conninfo, postgres_options options);
  ~server_store() override;

  int open(timer_service& timers) noexcept override;
  void listen(store_listener& listener) noexcept override { listener_ = &listener; }
  void close() noexcept override;
  std::string_view problem() const noexcept override { return state_.problem; }

  void join(join_call& call) noexcept override;
  void renew(renew_call& call) noexcept override { push(store_verb::renew, call); }
  void bury(bury_call& call) noexcept override { push(store_verb::bury, call); }
  void acquire(acquire_call& call) noexcept override { push(store_verb::acquire, call); }
  void release(release_call& call) noexcept override { push(store_verb::release, call); }
  void load(load_call& call) noexcept override { push(store_verb::load, call); }
  void begin(begin_call& call) noexcept override { push(store_verb::begin, call); }
  void finish(finish_call& call) noexcept override { push(store_verb::finish, call); }
  void recover(recover_call& call) noexcept override { push(store_verb::recover, call); }
  void put(put_call& call) noexcept override { push(store_verb::put, call); }
  void cancel(cancel_call& call) noexcept override { push(store_verb::cancel, call); }
  void revive(revive_call& call) noexcept override { push(store_verb::revive, call); }
  void get(get_call& call) noexcept override { push(store_verb::get, call); }
  void list(list_call& call) noexcept override { push(store_verb::list, call); }
  void purge(purge_call& call) noexcept override { push(store_verb::purge, call); }

 private:
  void on_up() noexcept override;
  void on_failed(const failure&, int uv_code) noexcept override;
  void on_down(const failure&) noexcept override;
  void on_former_gone() noexcept override;
  void on_transaction(link&, transaction&) noexcept override;
  void on_notification(std::string_view payload) noexcept override;
  void on_warning(const std::string&) noexcept override;

  struct open_call {
    std::unique_ptr<work> of;
    bool waits_for_join = false;  // a join that waits for a connection
  };
  using open_calls = std::list<open_call>;

  const char* invalid_field();
  void push(store_verb, store_call&) noexcept;
  void add(std::unique_ptr<work>, bool can_be_sent) noexcept;
  void pump() noexcept;
  void pump(link_role) noexcept;
  void end_all() noexcept;
  void deliver() noexcept;
  void leave() noexcept;
  void forget() noexcept;
  void recover_later(session_number) noexcept;
  void wake() noexcept;
  void arm() noexcept;
  void on_timer() noexcept;
  void beat() noexcept;
  void report(const std::string& line) noexcept;
  steady_time now() noexcept;

  const std::string conninfo_;
  node_state state_;
  std::string invalid_;              // an invalid conninfo in words
  timer_service* timers_ = nullptr;  // null: closed
  store_listener* listener_ = nullptr;
  std::optional<connector> connections_;
  std::optional<durable::detail::standing_timer<&server_store::on_timer>> timer_;
  std::array<lane, link_roles> lanes_;
  open_calls calls_;
  steady_time doubt_until_{};         // until then calls that may have had an effect wait for the end of their backends
  durable::detail::fork_check fork_;  // since it was opened
  bool has_doubts_ = false;
  bool has_joined_ = false;
  bool is_lost_ = false;  // since the last line that said `connected`
  bool is_closing_ = false;
  bool is_busy_ = false;  // in a verb, or delivering
  bool is_awake_ = false;
  std::deque<std::string> last_lines_;  // that were written since a connection was made
  steady_time last_reading_{};
};

}  // namespace tickwheel::durable::postgres
