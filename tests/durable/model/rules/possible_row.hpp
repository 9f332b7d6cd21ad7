// A row that the store may have for a task, and what a read shows of it.
#pragma once

#include "model_request.hpp"

#include <array>
#include <cstdint>
#include <string>

namespace durable_model {

enum class row_state : std::uint8_t { none, pending, running, dead, finished, cancelled };
inline bool is_over(row_state s) { return s == row_state::finished || s == row_state::cancelled; }

/// A row as a read shows it.
struct shown_row {
  row_state state{};
  nanos due = 0, period = 0, next = 0;
  unsigned attempts = 0, lost = 0;
  bool cancelling = false;
  std::string payload, error;
};

/// A row that the store may have.
struct possible_row {
  /// A request that has taken effect, and was not answered.
  struct mark {
    int number = 0;
    int member = 0;
    answer is{};
    bool operator==(const mark&) const = default;
  };
  row_state state = row_state::none;
  unsigned attempts = 0, lost = 0;
  bool stop = false;
  bool is_first = false;  ///< it starts when its period is due, and not for a retry
  int content = -1;
  int error = 0;
  int holder = -1;          ///< of a running row: the member that started it
  std::uint64_t token = 0;  ///< of a running row; 0: no handler was called yet
  std::uint64_t ended = 0;  ///< the token of the last start that was answered
  span due, at, gone;
  nanos since = 0;  ///< it is like this at this time of the manual clock, or later
  nanos begun = 0;  ///< of a running row: it was started at this time, or later
  std::array<mark, 8> marks{};
  std::uint8_t marked = 0;
  std::uint64_t hash = 0;  ///< of all but the times

  answer mark_of(int number) const;
  void set_mark(const request&, answer);
  void erase_mark(int number);
  void set_hash();
  /// Returns true if both differ at most in times.
  bool is_like(const possible_row&) const;
};

}  // namespace durable_model
