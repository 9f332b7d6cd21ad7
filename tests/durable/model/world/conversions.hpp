// Times and enumerators of the library, and those of the model.
#pragma once

#include "../rules/task_model.hpp"

#include <tickwheel/durable/durable.hpp>

#include <array>
#include <chrono>
#include <cstddef>

namespace durable_model {

namespace durable = tickwheel::durable;

inline constexpr nanos us = 1'000;
inline constexpr nanos ms = 1'000 * us;
inline constexpr nanos second = 1'000 * ms;
inline constexpr nanos hour = 3'600 * second;
inline constexpr nanos last_due = 7'258'118'400 * second - 1;

inline std::chrono::nanoseconds duration(nanos n) { return std::chrono::nanoseconds{n}; }
inline nanos count(durable::clock::time_point t) {
  return t == durable::clock::time_point::max() ? never : std::chrono::nanoseconds{t.time_since_epoch()}.count();
}
inline durable::clock::time_point time_of(nanos n) {
  return durable::clock::time_point{std::chrono::duration_cast<durable::clock::duration>(duration(n))};
}

inline answer of(durable::schedule_result r) {
  constexpr std::array<answer, 8> all{answer::scheduled, answer::replaced, answer::exists,      answer::ended,
                                      answer::running,   answer::refused,  answer::unavailable, answer::unknown};
  return all.at(static_cast<std::size_t>(r));
}
inline answer of(durable::cancel_result r) {
  constexpr std::array<answer, 6> all{answer::cancelled, answer::running,     answer::finished,
                                      answer::not_found, answer::unavailable, answer::unknown};
  return all.at(static_cast<std::size_t>(r));
}
inline answer of(durable::finish_result r) {
  constexpr std::array<answer, 3> all{answer::finished, answer::stale, answer::unknown};
  return all.at(static_cast<std::size_t>(r));
}
inline answer of(durable::revive_result r) {
  constexpr std::array<answer, 5> all{answer::revived, answer::not_dead, answer::not_found, answer::unavailable,
                                      answer::unknown};
  return all.at(static_cast<std::size_t>(r));
}
inline row_state of(durable::task_state s) {
  constexpr std::array<row_state, 5> all{row_state::pending, row_state::running, row_state::dead, row_state::finished,
                                         row_state::cancelled};
  return all.at(static_cast<std::size_t>(s));
}
inline durable::task_state to_library(row_state s) { return static_cast<durable::task_state>(static_cast<int>(s) - 1); }
inline shown_row shown(const durable::task_info& i) {
  return {of(i.state), count(i.what.due), i.what.period.count(), count(i.next), i.attempts,
          i.lost,      i.cancelling,      i.what.payload,        i.last_error};
}

}  // namespace durable_model
