// Turns a timer that is due into a callback, and what became of the callback into the end of the execution.
#pragma once

#include "../callbacks/callback_outcome.hpp"
#include "../callbacks/callback_request.hpp"

#include <tickwheel/durable/execution.hpp>
#include <tickwheel/net/backoff.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>

namespace timer_server {

/// A callee may ask to be called later so often in a row. Then that counts as a failure.
inline constexpr unsigned most_waits_in_a_row = 100;

/// The delays of a timer that was not called, because no connection became free. They grow, so that the timers of a slow callee seldom
/// disturb those of the others.
inline constexpr tickwheel::backoff_options until_called_again{
    .base = std::chrono::seconds{1}, .cap = std::chrono::seconds{30}, .jitter = 0.5};

/// *Thread safety:* the loop's thread only. *Lifetime:* outlives the calls that it has made: close the caller first.
class executor {
 public:
  using call_function = std::function<void(callback_request, std::function<void(const callback_outcome&)>)>;
  /// Is told of each execution that its callee has made the last one: of the timer, which is dead, or, if the outcome is not `dead` and
  /// the timer is periodic, of this period.
  using last_function = std::function<void(const tickwheel::durable::execution&, const callback_outcome&)>;

  /// `max_attempts` is that of the scheduler.
  executor(call_function call, last_function on_last, unsigned max_attempts)
      : call_{std::move(call)}, on_last_{std::move(on_last)}, max_attempts_{max_attempts} {}

  /// Calls the callee of a timer. The execution ends when that has answered.
  void start(tickwheel::durable::execution) noexcept;

  /// Gives back the timers whose calls run, and those that are started from now on: they are due at once. That is no failure. What
  /// becomes of the calls changes nothing any more.
  void give_back() noexcept;

  /// Forgets the calls that run: what becomes of them changes nothing any more. Requires: the scheduler is closed. The store recovers their
  /// timers.
  void close() noexcept { running_.clear(); }

  std::size_t running() const noexcept { return running_.size(); }

 private:
  /// The waits of a timer since its callee took or refused it. They are in memory only: a restart begins anew.
  struct delays {
    unsigned asked_for = 0;                                  // by the callee, in a row
    tickwheel::backoff when_not_called{until_called_again};  // since it was called
  };

  void end(std::uint64_t token, const callback_outcome&) noexcept;
  void fail(tickwheel::durable::execution, const callback_outcome&);
  delays& delays_of(const std::string& key);

  call_function call_;
  last_function on_last_;
  unsigned max_attempts_;
  bool gives_back_ = false;
  std::unordered_map<std::uint64_t, tickwheel::durable::execution> running_;  // by their tokens
  std::unordered_map<std::string, delays> delays_;                            // by the ids and due times of the timers
};

/// Returns what is sent for a timer: its callback, and the headers that tell which timer, due time and attempt it is. Timer-Id and
/// Idempotency-Key have the id percent-encoded, because a header is ASCII.
callback_request request_of(callback_request callback, const tickwheel::durable::execution&);

}  // namespace timer_server
