// The outcome of a callback, and its meaning for the timer.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace timer_server {

/// The outcome of one callback.
struct callback_outcome {
  enum class kind {
    done,           // the callee has taken it
    asked_to_wait,  // the callee wants it again after `delay`
    not_called,     // too many calls wait for a connection; try again, for the callee has not failed
    failed,         // try again, with a delay that grows
    dead,           // it makes no sense to try again
  };
  kind what{};
  std::chrono::seconds delay{};  // of `asked_to_wait`: from 1 second to an hour
  unsigned status = 0;           // of the answer; 0 if there is none
  std::string error{};           // why it is not done; has no header and no body of either side
};

/// Returns the outcome of a whole response. `retry_after` is the header's value, if there is one: seconds, or a date, which is
/// compared with `now`.
///
///   2xx                              done
///   429, 503 with a Retry-After      asked_to_wait: at least a second, at most an hour
///   408, 425, 429, 503 without       failed
///   3xx                              dead: redirects are not followed
///   other 4xx                        dead
///   anything else                    failed
callback_outcome outcome_of(unsigned status, std::optional<std::string_view> retry_after,
                            std::chrono::system_clock::time_point now);

/// Returns how long a Retry-After header asks to wait: from a second to an hour; none if its value is no number and no date.
std::optional<std::chrono::seconds> wait_of(std::string_view retry_after, std::chrono::system_clock::time_point now);

/// Outcomes without a whole response.
callback_outcome not_called_with(std::string error);
callback_outcome failed_with(std::string error);
callback_outcome dead_with(std::string error);

}  // namespace timer_server
