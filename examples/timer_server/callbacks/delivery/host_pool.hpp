// The connections to one host and port, and the calls that wait for one.
#pragma once

#include "callback.hpp"
#include "connection.hpp"

#include <tickwheel/uv/driver.hpp>

#include <cstddef>
#include <string>

namespace timer_server {

/// Hooks of the dispatcher's lists of hosts.
struct host_in_turn;

/// *Lifetime:* its dispatcher owns it, and forgets it when it has no connection and no call.
class host_pool : public auto_hook<host_in_turn> {
 public:
  host_pool(callback_dispatcher& on, std::string key) : on_{on}, key_{std::move(key)} {}

  callback_dispatcher& dispatcher() noexcept { return on_; }
  const std::string& key() const noexcept { return key_; }

  /// A call waits, behind those that do already.
  void enqueue(callback& c) noexcept;
  /// Starts the call that waits longest, on an idle connection or a new one. Requires: one waits.
  void start_next() noexcept;

  /// A connection of the pool has nothing to do. It is kept, or closed if another host needs its place more.
  void on_free(connection& c) noexcept;

  void take_place() noexcept;
  void leave_place() noexcept;

  /// Goes where the dispatcher finds it: among those that can start a call without a place more, those that need one, those that
  /// are not needed any more, or nowhere. Called after each change. Stays where it is if that is right.
  void refile() noexcept;

  /// A call of this host has waited for a connection in vain.
  void on_waited_in_vain() noexcept;
  /// Returns true if one call more would most likely wait in vain: some did lately, and enough of them wait. Each call that waits keeps the
  /// caller's caller from other calls, so the waiting calls of a slow callee are few. Those of one that has kept up are any number:
  /// many timers may be due at the same moment.
  bool is_overrun() const noexcept;

  std::size_t places() const noexcept { return places_; }
  bool is_unused() const noexcept { return places_ == 0 && queue_.empty() && calls_ == 0; }

  /// How many calls there are that refer to this host.
  void add_call() noexcept { ++calls_; }
  void remove_call() noexcept;

 private:
  callback_dispatcher& on_;
  std::string key_;
  auto_list<callback, call_in_queue> queue_;
  auto_list<connection, idle_in_host> idle_;
  std::size_t places_ = 0;  // open connections, and calls that are about to open one
  std::size_t calls_ = 0;
  tickwheel::clock::time_point slow_until_ = tickwheel::clock::time_point::min();
  auto_list<host_pool, host_in_turn>* filed_in_ = nullptr;
};

}  // namespace timer_server
