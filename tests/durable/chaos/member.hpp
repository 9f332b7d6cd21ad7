// A process that takes part in a round, and its network.
#pragma once

#include "../crash/parent/process.hpp"
#include "proxy.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace chaos {

enum class role { node, producer, client };

struct member {
  using time = std::chrono::steady_clock::time_point;

  role is = role::node;
  unsigned number = 0;  ///< from 1 on
  unsigned lives = 0;
  std::unique_ptr<crash::process> process;  ///< null: it is dead
  std::unique_ptr<proxy> network;           ///< null: it is connected to the server itself
  std::string input;                        ///< that was not read yet
  std::size_t open_finishes = 0;            ///< of starts, without an answer
  bool is_ready = false;
  bool is_stopped = false;
  bool cuts_at_healing = false;
  std::optional<time> heals_at{};

  bool is_alive() const { return process != nullptr; }
  bool is_healthy() const { return is_alive() && !heals_at; }
};

/// Waits until one of them has written something.
void await_output(const std::vector<member>&, std::chrono::milliseconds patience);

}  // namespace chaos
