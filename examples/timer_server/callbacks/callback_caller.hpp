// Calls HTTP endpoints: the outgoing half of the timer server.
//
//   timer_server::callback_caller callbacks{loop, {.connections_per_host = 16}};
//   callbacks.call({.url = "http://127.0.0.1:9000/due", .headers = {{"Timer-Id", "a"}}, .body = "{}"},
//                  [](const timer_server::callback_outcome& o) { ... });
//
// A call is one attempt. Whoever calls decides what follows from its outcome.
#pragma once

#include "address_rules.hpp"
#include "callback_outcome.hpp"
#include "callback_request.hpp"
#include "callback_stats.hpp"

#include <tickwheel/uv/event_loop.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace timer_server {

class callback_dispatcher;

/// Limits of a caller.
struct callback_options {
  address_rules allowed;  // loopback, unless more is allowed
  /// From the moment at which the call gets a connection or begins to open one: resolution, connecting, request and response.
  std::chrono::milliseconds attempt_timeout = std::chrono::seconds{30};
  /// How long a call waits for its turn. Then it is `not_called`, so that a slow callee does not keep other timers from starting. For ten
  /// times as long at most twice `connections_per_host` calls of this host wait, and one more is `not_called` at once.
  std::chrono::milliseconds wait_timeout = std::chrono::seconds{2};
  /// The attempt, with the time in which the call waits for its turn.
  std::chrono::milliseconds total_timeout = std::chrono::seconds{60};
  /// How long a connection is kept that nobody uses.
  std::chrono::milliseconds idle_timeout = std::chrono::seconds{20};
  std::size_t connections_per_host = 16;   // a host and port
  std::size_t connections = 256;           // in all
  std::size_t max_waiting = 65536;         // calls without a connection; one more is `not_called`
  std::size_t max_header_bytes = 16384;    // of a response
  std::size_t max_response_bytes = 65536;  // of a response's body, which is not kept
  std::string secret;                      // of the HMAC (signature.hpp); empty: no signature

  /// Returns a message that names the first invalid field, or null if all are valid.
  const char* problem() const noexcept;
};

/// Calls HTTP endpoints over connections that it keeps for the next call.
///
/// A host's name is resolved, each of its addresses is checked, and the connection goes to a checked address.
///
/// *Thread safety:* the loop's thread only.
///
/// *Lifetime:* the loop outlives the caller, and is open. Close or destroy the caller before the loop is closed. It may be
/// closed and destroyed at any time, also while it answers. Connections that nobody uses do not keep the loop alive. After
/// `close` nothing of the caller is left on the loop once its close callbacks have run; only a name that is being resolved keeps
/// the loop until the system's resolver gives up.
///
/// Requires: SIGPIPE is ignored.
class callback_caller {
 public:
  /// Requires: `options.problem()` is null.
  callback_caller(tickwheel::event_loop& loop, callback_options options);
  /// Closes. `answered` of each call has been called.
  ~callback_caller();
  callback_caller(const callback_caller&) = delete;
  callback_caller& operator=(const callback_caller&) = delete;

  /// Sends the request. `answered` is called exactly once: on the loop's thread, never within `call`. It must not throw; it may
  /// do anything else, such as call, close and destroy the caller.
  ///
  /// If `max_armed` timers of the loop are armed, the outcome is `failed`; the answer may then wait for another call's, or for
  /// `close` and the destructor. An invalid request is `dead`. After `close` the outcome is `failed`. If too many calls wait, or those of
  /// a slow host, it is `not_called`.
  void call(callback_request request, std::function<void(const callback_outcome&)> answered);

  /// Ends all calls: each is answered as `failed` before this returns. Whether its callee has seen it is unknown. Closes all
  /// connections. Idempotent.
  void close() noexcept;

  callback_stats stats() const noexcept;

 private:
  std::shared_ptr<callback_dispatcher> dispatcher_;
};

/// Returns null if `url` is a callback URL, or why it is none.
const char* problem_of_url(std::string_view url) noexcept;

/// Returns null, or says that the host of `url` is an address that may not be called. The addresses of a name are only known when it is
/// called. Requires: `problem_of_url(url)` is null.
const char* problem_of_address(const std::string& url, const address_rules& allowed);

}  // namespace timer_server
