// All calls of a caller share this: hosts, limits, counts, and the answers that are to be given.
#pragma once

#include "../callback_caller.hpp"
#include "callback.hpp"
#include "connection.hpp"
#include "host_pool.hpp"
#include "host_resolver.hpp"

#include <tickwheel/uv/event_loop.hpp>
#include <tickwheel/uv/timer.hpp>

#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>

namespace timer_server {

/// Answers are called at the end of a turn, which is an event of the loop. Nothing of a turn is used after them, so that they may
/// do anything, also destroy the caller.
///
/// *Lifetime:* held by its caller, its connections, and each turn.
class callback_dispatcher : public std::enable_shared_from_this<callback_dispatcher> {
 public:
  callback_dispatcher(tickwheel::event_loop& loop, callback_options options);

  /// The scope of an event: what it made possible is started when it ends, and what it ended is answered.
  class turn {
   public:
    explicit turn(callback_dispatcher& on) noexcept : on_{on.shared_from_this()} {}
    ~turn() { on_->end_turn(); }
    turn(const turn&) = delete;
    turn& operator=(const turn&) = delete;

   private:
    std::shared_ptr<callback_dispatcher> on_;
  };

  void call(callback_request request, callback::answer answered);
  void close() noexcept;
  /// Answers all that have ended, also those that end meanwhile.
  void answer_all() noexcept;
  callback_stats stats() const noexcept;

  // --- for callbacks, connections and hosts

  /// The answer of a call, which is to be given.
  void ended(callback::answer answered, callback_outcome outcome) noexcept;

  bool has_place() const noexcept { return places_ < options_.connections; }
  /// The next host that needs a place more to start a call; null if there is none.
  const host_pool* next_in_need() const noexcept { return in_need_.empty() ? nullptr : &in_need_.front(); }

  tickwheel::event_loop& loop() noexcept { return loop_; }
  tickwheel::timer_service& timers() noexcept { return loop_.timers(); }
  const callback_options& options() const noexcept { return options_; }
  host_resolver& resolver() noexcept { return *resolver_; }
  uv_buf_t read_buffer() noexcept {
    return uv_buf_init(read_buffer_.data(), static_cast<unsigned>(read_buffer_.size()));
  }

 private:
  friend class callback;
  friend class connection;
  friend class host_pool;

  void end_turn() noexcept;
  void start_waiting() noexcept;
  void answer_some(std::size_t most) noexcept;
  void answer_later() noexcept;
  void on_answer_later() noexcept;

  tickwheel::event_loop& loop_;
  callback_options options_;
  std::shared_ptr<host_resolver> resolver_;
  callback_stats counted_;
  std::size_t places_ = 0;                 // of all hosts
  std::size_t waiting_ = 0, running_ = 0;  // calls

  struct ended_call {
    callback::answer answered;
    callback_outcome outcome;
  };
  std::deque<ended_call> ended_;
  tickwheel::member_timer<&callback_dispatcher::on_answer_later> answer_later_;

  std::unordered_map<std::string, std::unique_ptr<host_pool>> hosts_;
  auto_list<host_pool, host_in_turn> ready_;    // can start a call on an idle connection
  auto_list<host_pool, host_in_turn> in_need_;  // can start a call with a place more
  auto_list<host_pool, host_in_turn> unused_;
  auto_list<callback, call_in_all> calls_;  // the oldest first
  auto_list<connection, open_in_all> connections_;
  auto_list<connection, idle_in_all> idle_;  // the least recently used first
  bool closed_ = false;
  std::array<char, 65536> read_buffer_{};  // one for all: the bytes are parsed or copied before the next read
};

}  // namespace timer_server
