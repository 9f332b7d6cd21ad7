#include "repeats.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace chaos {

namespace {

struct last_start {
  unsigned process = 0;
  std::uint64_t token = 0;
  std::size_t at = 0;  // the place of the event
  bool is_answered = false;
};

struct trouble {
  std::size_t at = 0;
  std::string_view cause;
  crash::nanoseconds wall = 0;
};

// The processes that begin tasks: these watch each other.
std::unordered_set<unsigned> nodes_of(const crash::journal& j) {
  std::unordered_set<unsigned> nodes;
  for (const crash::event& e : j.events)
    if (e.kind == crash::event_kind::entered) nodes.insert(e.process);
  return nodes;
}

}  // namespace

repeats find_repeats(const crash::journal& j) {
  repeats out;
  const std::unordered_set<unsigned> nodes = nodes_of(j);
  std::unordered_map<unsigned, crash::nanoseconds> alive_since;  // the nodes that run
  std::unordered_map<std::string_view, last_start> starts;
  std::unordered_map<unsigned, trouble> troubles;  // 0: of any process
  for (std::size_t i = 0; i != j.events.size(); ++i) {
    const crash::event& e = j.events[i];
    switch (e.kind) {
      case crash::event_kind::trouble:
        troubles[e.process] = {i, e.cause, e.wall};
        out.is_slow = out.is_slow || e.cause == "slow";
        break;
      case crash::event_kind::start:
        if (nodes.contains(e.process)) alive_since[e.process] = e.wall;
        break;
      case crash::event_kind::end:
        alive_since.erase(e.process);
        troubles[e.process] = {i, "killed", e.wall};
        break;
      case crash::event_kind::asked:  // a retry that the handler wants repeats nothing
        if (const auto known = starts.find(e.id); known != starts.end() && known->second.token == e.asked.token)
          known->second.is_answered = e.asked.what != crash::verb::done;
        break;
      case crash::event_kind::answered:
        if (const auto known = starts.find(e.id); known != starts.end() && known->second.token == e.asked.token)
          known->second.is_answered = known->second.is_answered || e.result == crash::answer::finished;
        break;
      case crash::event_kind::entered: {
        last_start& last = starts[e.id];
        if (last.token != 0 && !last.is_answered && e.attempt > 1) {
          trouble why = troubles[last.process];
          if (const trouble& any = troubles[0]; any.at > why.at) why = any;
          const bool is_known = why.at > last.at;
          ++out.by_cause[is_known ? std::string{why.cause} : "none"];
          // the third start is one of a task that runs alone
          if (is_known && why.cause == "killed" && e.attempt == 2) {
            // If all that watched the dead one have died as well, a node that started later watches from its own start.
            crash::nanoseconds watched_since = e.wall;
            for (const auto& [process, since] : alive_since) watched_since = std::min(watched_since, since);
            const std::chrono::nanoseconds took{e.wall - std::max(why.wall, watched_since)};
            ++out.takeovers;
            if (took > out.longest_takeover) {
              out.longest_takeover = took;
              out.slowest = e.id;
            }
          }
        }
        last = {e.process, e.token, i, false};
        break;
      }
      default:
        break;
    }
  }
  return out;
}

}  // namespace chaos
