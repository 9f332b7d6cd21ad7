// The loop of a simulation: whoever has the next thing to do gets its turn.
#pragma once

#include "event_queue.hpp"
#include "machine.hpp"

#include <utility>

namespace simulation {

/// Runs until the true time `t`. After each step it calls `after`, which is told whether the server had the turn, and returns
/// false to stop. A node has `next` and `catch_up`.
template <class Nodes, class After>
void run_until(event_queue& queue, machine& server, Nodes& nodes, nanos t, After&& after) {
  for (bool goes_on = true; goes_on;) {
    nanos next = queue.next();
    auto of = nodes.end();
    for (auto n = nodes.begin(); n != nodes.end(); ++n) {
      const nanos theirs = (*n)->next(queue.now());
      if (theirs >= next) continue;
      next = theirs;
      of = n;
    }
    const nanos servers = server.next(queue.now());
    const bool is_of_server = servers < next;
    if (is_of_server) next = servers;
    if (next > t) break;
    if (is_of_server) {
      queue.move_to(next);
      server.catch_up(next);
    } else if (of != nodes.end()) {
      queue.move_to(next);
      (*of)->catch_up(next);
    } else {
      queue.step();
    }
    goes_on = after(is_of_server);
  }
  queue.move_to(t);
}

}  // namespace simulation
