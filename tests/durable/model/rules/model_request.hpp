// A request of a program, and its answers.
#pragma once

#include "facts.hpp"

#include <cstddef>
#include <cstdint>

namespace durable_model {

enum class verb : std::uint8_t { keep, replace, cancel, revive, finish, get, look };
enum class ending : std::uint8_t { done, again, dead };

/// The answers of all verbs in one enumeration.
enum class answer : std::uint8_t {
  none,
  scheduled,
  replaced,
  exists,
  ended,
  running,
  refused,
  cancelled,
  finished,
  not_found,
  revived,
  not_dead,
  stale,
  unavailable,
  unknown,
};
const char* name_of(answer);

/// A request for one task.
struct request {
  int number = 0;  ///< grows with each request of a run
  verb what{};
  int member = 0;
  nanos issued = 0;
  int content = 0;          ///< of keep and replace
  std::uint64_t token = 0;  ///< of finish
  ending how{};             ///< as above
  span at;                  ///< as above: of the next attempt
  bool gives_back = false;  ///< as above: the attempt does not count
  int error = 0;            ///< as above
  bool is_over = false;     ///< answered `unknown`: it may take effect later
  std::size_t seen = 0;     ///< of a read: the rows that were possible when it was issued
  bool is_exact = true;     ///< of a read: nothing happened since
};

}  // namespace durable_model
