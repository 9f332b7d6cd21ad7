#include <tickwheel/uv/detail/post_delivery.hpp>
#include <tickwheel/uv/timer.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <ostream>
#include <utility>

namespace tickwheel {

bool timer_service::validate(std::string* why) const {
  if (!is_open()) return true;
  if (!timers().entries().validate(why)) return false;
  const wheel& entries = timers().entries();
  const detail::liveness& alive = timers().alive();
  std::size_t without_ref = 0;
  std::size_t remote = 0;
  entries.for_each_armed([&](wheel_entry& entry) {
    const timer& t = timer::from(entry);
    without_ref += !t.has_ref();
    remote += detail::post_delivery::owns(t);
  });
  const char* broken = nullptr;
  if (without_ref != alive.unref_armed()) broken = "the count of armed timers without a reference is wrong";
  if (entries.armed() - dispatcher_.posts().armed() > alive.max_armed())
    broken = "more timers are armed than max_armed";
  if (dispatcher_.posts().armed() > alive.max_armed()) broken = "more timers of other threads are armed than max_armed";
  if (remote != dispatcher_.posts().armed()) broken = "the count of armed timers of other threads is wrong";
  if (!timers().in_pass()) {
    if (timers().wakes_at() > entries.next_in_slots()) broken = "the next wakeup is later than the next expiry";
    if (alive.held() != alive.is_to_be_held(entries)) broken = "the loop is held without need, or not held";
  }
  if (const char* const problem = alive.problem(entries)) broken = problem;
  if (broken != nullptr && why != nullptr) *why = broken;
  return broken == nullptr;
}

void timer_service::dump(std::ostream& out, handler_names names) const {
  struct counter {
    const char* name;
    std::uint64_t service_stats::*value;
  };
  static constexpr counter counters[] = {{", fired ", &service_stats::fired},
                                         {", cancelled ", &service_stats::cancelled},
                                         {", refused ", &service_stats::refused},
                                         {", passes ", &service_stats::passes},
                                         {", carried ", &service_stats::carried},
                                         {", wakeups ", &service_stats::wakeups},
                                         {", stalls ", &service_stats::stalls},
                                         {", slow handlers ", &service_stats::slow_handlers},
                                         {", from other threads: accepted ", &service_stats::remote_accepted},
                                         {", refused ", &service_stats::remote_refused},
                                         {", ran ", &service_stats::remote_ran},
                                         {", withdrawn ", &service_stats::remote_withdrawn},
                                         {", cancelled ", &service_stats::remote_cancelled},
                                         {", queued ", &service_stats::remote_queued}};
  const service_stats& s = stats();
  out << "timer_service: " << (is_open() ? "open" : "closed") << ", tick " << tick_duration().count() << " ns, pending "
      << s.pending;
  for (const counter& one : counters) out << one.name << s.*one.value;
  out << '\n';
  if (!is_open()) return;
  dump_armed(out, names);
  timers().entries().dump(out);
}

// Shows a leak of timers, or a limit that was set to hours instead of minutes.
void timer_service::dump_armed(std::ostream& out, handler_names names) const {
  struct horizon {
    const char* title;
    std::chrono::nanoseconds end;
  };
  using namespace std::chrono_literals;
  static constexpr std::array<horizon, 7> horizons{{{"due", 0s},
                                                    {"in up to 1 s", 1s},
                                                    {"in 1 to 10 s", 10s},
                                                    {"in 10 s to 1 min", 1min},
                                                    {"in 1 to 10 min", 10min},
                                                    {"in 10 min to 1 h", 1h},
                                                    {"later", std::chrono::nanoseconds::max()}}};
  const clock::time_point now = read_clock();
  std::map<expiry_report::handler_id, std::array<std::size_t, horizons.size()>> armed;
  timers().entries().for_each_armed([&](wheel_entry& entry) {
    timer& t = timer::from(entry);
    const auto left = timers().ticks().begin_of(entry.deadline()) - now;
    const auto* const within =
        std::find_if(horizons.begin(), horizons.end(), [&](const horizon& one) { return left <= one.end; });
    ++armed[dispatcher_.handler_of(t)][static_cast<std::size_t>(within - horizons.begin())];
  });
  for (const auto& [id, counts] : armed) {
    out << "  armed for " << handler_name{id, names};
    const char* separator = ": ";
    for (std::size_t i = 0; i < horizons.size(); ++i)
      if (counts[i] != 0) out << std::exchange(separator, ", ") << counts[i] << ' ' << horizons[i].title;
    out << '\n';
  }
}

}  // namespace tickwheel
