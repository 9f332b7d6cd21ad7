// The state of one start, from the store's answer to `begin` until the store has confirmed its end.
#pragma once

#include <tickwheel/durable/execution.hpp>
#include <tickwheel/durable/store.hpp>
#include <tickwheel/uv/driver.hpp>

#include <boost/intrusive/list.hpp>

#include <chrono>
#include <memory>
#include <string>

namespace tickwheel::durable::detail {

class engine;

/// A start takes one place among `max_running` while it is linked. Its engine unlinks it when it closes: it is inert then.
struct start : boost::intrusive::list_base_hook<> {
  using steady_time = tickwheel::clock::time_point;

  engine* owner = nullptr;  // null: inert
  std::string id;
  std::string payload;
  revision token = 0;
  unsigned attempt = 0;
  unsigned lost = 0;
  clock::time_point at{};  // when the attempt was due
  clock::time_point due{};
  std::chrono::nanoseconds period{};
  steady_time begun_at{};  // before `begin` was sent
  session_number session = 0;
  std::unique_ptr<pending_row>
      next;  // the task is pending again already, but not in memory: it waits for the end of this start

  static execution give(std::unique_ptr<start> s) noexcept { return execution{*s.release()}; }
};

using start_list = boost::intrusive::list<start>;

}  // namespace tickwheel::durable::detail
