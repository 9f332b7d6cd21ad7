#include "service_metrics.hpp"

#include <cstdint>
#include <string_view>

namespace timer_server {
namespace {

struct series {
  std::string_view labels;  // such as reason="header"; empty: none
  std::uint64_t value = 0;
};

void write(std::ostream& out, std::string_view name, std::string_view type, std::string_view help,
           std::initializer_list<series> all) {
  out << "# HELP timer_server_" << name << ' ' << help << "\n# TYPE timer_server_" << name << ' ' << type << '\n';
  for (const auto& [labels, value] : all) {
    out << "timer_server_" << name;
    if (!labels.empty()) out << '{' << labels << '}';
    out << ' ' << value << '\n';
  }
}

}  // namespace

void write_prometheus(std::ostream& out, const connections& peers, const callback_stats& calls) {
  write(out, "connections", "gauge", "Open connections of clients.", {{"", peers.open}});
  write(out, "connections_accepted_total", "counter", "Connections of clients.", {{"", peers.accepted}});
  write(out, "connections_turned_away_total", "counter", "Connections that were closed because too many were open.",
        {{"", peers.turned_away}});
  write(out, "connections_cut_total", "counter", "Connections that were closed because their time was over.",
        {{R"(reason="header")", peers.cut_header},
         {R"(reason="body")", peers.cut_body},
         {R"(reason="keep_alive")", peers.cut_keep_alive},
         {R"(reason="age")", peers.cut_age},
         {R"(reason="rate")", peers.cut_rate}});
  write(out, "answers_total", "counter", "Answers to clients, by their status.",
        {{R"(status="2xx")", peers.answers[2]},
         {R"(status="4xx")", peers.answers[4]},
         {R"(status="5xx")", peers.answers[5]}});
  write(out, "callbacks_total", "counter", "Callbacks that have ended, by their outcome.",
        {{R"(outcome="done")", calls.done},
         {R"(outcome="asked_to_wait")", calls.asked_to_wait},
         {R"(outcome="not_called")", calls.not_called},
         {R"(outcome="failed")", calls.failed},
         {R"(outcome="dead")", calls.dead}});
  write(out, "callbacks_timed_out_total", "counter", "Callbacks that failed because their time was over.",
        {{"", calls.timed_out}});
  write(out, "callbacks_disallowed_total", "counter", "Callbacks whose host has no address that may be called.",
        {{"", calls.disallowed}});
  write(out, "callback_connections_total", "counter", "Connections that were made to callees.",
        {{"", calls.connections}});
  write(out, "callbacks_running", "gauge", "Callbacks with a connection.", {{"", calls.running}});
  write(out, "callbacks_waiting", "gauge", "Callbacks that wait for a connection.", {{"", calls.waiting}});
  write(out, "callback_connections", "gauge", "Open connections to callees.", {{"", calls.open_connections}});
}

}  // namespace timer_server
