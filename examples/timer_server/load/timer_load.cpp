// Clients and a callee of timer_server: checks that each timer that was confirmed is called, and none early.
//
//   timer_load --port 8081 --timers 50000 --outages 2
//
// The clients schedule timers as fast as the server confirms them. They cancel and replace some of them if they are told to. They go
// on when the server was killed and started again. Read it from the top:
//
//   timer_record   one timer: what was confirmed, and whether its calls agree with that
//   ledger         all timers, and when the server was away
//   context        what is to be asked next
//   client         one connection to the server: a request at a time
//   callee         the endpoint that the server calls

#include "../../support/command_line.hpp"
#include "../../support/standard_descriptors.hpp"
#include "callee.hpp"
#include "client.hpp"
#include "context.hpp"
#include "ledger.hpp"
#include "load_options.hpp"

#include <tickwheel/tickwheel.hpp>

#include <uv.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace std::chrono_literals;
using namespace timer_load;

class load {
 public:
  explicit load(const load_options& asked) : asked_{asked}, book_{asked.timers} {}
  ~load() { loop_.close(); }

  /// Returns 0 or a UV_ code.
  int run() {
    if (const int error = loop_.open()) return error;
    if (const int error = callee_.listen()) return error;
    context_.callback = "http://127.0.0.1:" + std::to_string(callee_.port) + "/called";
    for (std::size_t i = 0; i != asked_.connections; ++i) clients_.push_back(std::make_unique<client>(context_));
    began_ = context_.began = tickwheel::clock::now();
    if (asked_.rate != 0) longest_run_ += std::chrono::seconds{asked_.timers / asked_.rate};
    for (const auto& c : clients_) c->connect();
    if (const int error = step_.start(20ms)) return error;
    loop_.run();
    return 0;
  }
  /// Returns true if all is right.
  bool judge() const {
    std::printf("timer_load: %zu timers, confirmed at %.0f per second\n", asked_.timers,
                static_cast<double>(asked_.timers) / std::chrono::duration<double>(scheduled_ - began_).count());
    const bool right = book_.judge(asked_);
    const char* const verdict = asked_.has_changes() ? "each timer was called that was to be called, and none early"
                                                     : "each timer was called, and none early";
    std::printf("timer_load: %s\n", right ? verdict : "WRONG");
    return right && (asked_.points.empty() || book_.write_points(asked_.points));
  }

 private:
  void step() noexcept {
    const auto time = tickwheel::clock::now();
    if (book_.confirmed() != asked_.timers) scheduled_ = time;
    const bool is_late = time > scheduled_ + asked_.longest + asked_.patience || time > began_ + longest_run_;
    if (!book_.is_over() && !is_late) return;
    step_.cancel();
    for (const auto& c : clients_) c->stop();
    callee_.stop();
  }

  const load_options& asked_;
  ledger book_;
  tickwheel::event_loop loop_;
  callee callee_{loop_, book_};
  context context_{asked_, book_, loop_};
  std::vector<std::unique_ptr<client>> clients_;
  tickwheel::clock::time_point began_{}, scheduled_{};
  std::chrono::seconds longest_run_ = 10min;
  tickwheel::interval_timer<&load::step> step_{loop_.timers(), *this};
};

void add_percentage(CLI::App& app, const std::string& name, unsigned& value, const std::string& what) {
  app.add_option(name, value, "of a hundred timers so many " + what)->capture_default_str()->check(CLI::Range(0, 100));
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_descriptors();
  load_options asked;
  CLI::App app{"Clients and a callee of timer_server: checks that each timer is called, and none early.", "timer_load"};
  app.add_option("--port", asked.port, "where on 127.0.0.1 the server listens")
      ->required()
      ->check(CLI::Range(1, 65535));
  app.add_option("--timers", asked.timers, "how many to schedule")
      ->capture_default_str()
      ->check(CLI::Range(1, 10'000'000));
  app.add_option("--connections", asked.connections, "of the clients")
      ->capture_default_str()
      ->check(CLI::Range(1, 10'000));
  app.add_option("--rate", asked.rate, "timers that are scheduled per second; 0: as fast as they are confirmed")
      ->capture_default_str()
      ->check(CLI::Range(0, 1'000'000));
  add_duration(app, "--shortest", asked.shortest, 1s, 1ms,
               "a timer is due after this time at least: seconds, or with a unit [3s]");
  add_duration(app, "--longest", asked.longest, 1s, 1ms, "and after this time at most [15s]");
  add_percentage(app, "--in", asked.relative, "are scheduled with `in` instead of `due`");
  add_percentage(app, "--cancel", asked.cancelled, "are cancelled, at some time until just after they are due");
  add_percentage(app, "--replace", asked.replaced, "are replaced, at some such time");
  app.add_option("--outages", asked.outages, "how often the server is killed, at least")->capture_default_str();
  app.add_option("--points", asked.points, "also write due times and lateness to this file");
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  if (asked.longest < asked.shortest) {
    std::fputs("timer_load: --longest is less than --shortest\n", stderr);
    return exit_bad_usage;
  }
  if (asked.cancelled + asked.replaced > 100) {
    std::fputs("timer_load: --cancel and --replace together are more than 100\n", stderr);
    return exit_bad_usage;
  }
  std::signal(SIGPIPE, SIG_IGN);  // writing to a connection that the server closed is a figure, not the end of us
  load all{asked};
  if (const int error = all.run()) {
    std::fprintf(stderr, "timer_load: %s\n", uv_strerror(error));
    return exit_bad_usage;
  }
  return all.judge() ? 0 : 1;
}
