#include "repeats.hpp"

#include <string_view>
#include <unordered_map>

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

}  // namespace

repeats find_repeats(const crash::journal& j) {
  repeats out;
  std::unordered_map<std::string_view, last_start> starts;
  std::unordered_map<unsigned, trouble> troubles;  // 0: of any process
  for (std::size_t i = 0; i != j.events.size(); ++i) {
    const crash::event& e = j.events[i];
    switch (e.kind) {
      case crash::event_kind::trouble:
        troubles[e.process] = {i, e.cause, e.wall};
        out.is_slow = out.is_slow || e.cause == "slow";
        break;
      case crash::event_kind::end:
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
            const std::chrono::nanoseconds took{e.wall - why.wall};
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
