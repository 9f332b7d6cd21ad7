// A timer service: clients schedule timers over HTTP, and each timer that is due calls an HTTP endpoint.
//
//   timer_server --listen 127.0.0.1:8081 --store sqlite:timers.db
//   curl -X PUT --json '{"in": "30m", "callback": "http://127.0.0.1:9000/unpaid"}' http://127.0.0.1:8081/v1/timers/order-7
//
// Timers are durable tasks: a timer that is confirmed is on disk, and survives kill -9. Read it from the top, and then
//
//   http/http_connection   one client: reads requests, writes answers
//   http/api               what a request asks of the scheduler, and what it is answered
//   timers/executor        what is called when a timer is due
//   callbacks/             how it is called
//   service/               the options, the log and the metrics of the program

#include "../support/descriptor_limit.hpp"
#include "../support/scheduler_drain.hpp"
#include "../support/standard_descriptors.hpp"
#include "../support/stop_signals.hpp"
#include "callbacks/callback_caller.hpp"
#include "http/api.hpp"
#include "http/bearer_tokens.hpp"
#include "http/http_connection.hpp"
#include "service/dead_watch.hpp"
#include "service/event_log.hpp"
#include "service/listen_address.hpp"
#include "service/service_metrics.hpp"
#include "service/service_options.hpp"
#include "service/store_location.hpp"
#include "service/store_watch.hpp"
#include "text/times.hpp"
#include "timers/executor.hpp"

#include <tickwheel/durable/durable.hpp>
#include <tickwheel/tickwheel.hpp>

#include <sys/stat.h>
#include <uv.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace {

using namespace std::chrono_literals;
using namespace timer_server;
namespace durable = tickwheel::durable;

void write_of_store(const event_log& log, std::string_view line) {
  log.write("store", {{"message", std::string{line}}});
}

class service {
 public:
  service(const service_options& asked, std::unique_ptr<durable::store> store, std::optional<bearer_tokens> tokens)
      : asked_{asked},
        log_{asked.log},
        tokens_{std::move(tokens)},
        timers_{loop_.timers(), std::move(store), asked.scheduler},
        api_{loop_.timers(),
             timers_,
             {.max_payload = asked.scheduler.max_payload,
              .allowed = asked.callbacks.allowed,
              .write_metrics = [this](std::ostream& out) { write_prometheus(out, peers_, callbacks_->stats()); },
              .tokens = tokens_ ? &*tokens_ : nullptr,
              .refuses_web_pages = !tokens_}} {
    peers_.framing = asked.framing;
    peers_.phases = asked.phases;
    peers_.rate = asked.min_rate;
    peers_.most = asked.connections;
    peers_.requests = &api_;
  }
  ~service() {
    timers_.close();
    executor_.close();
    callbacks_.reset();
    loop_.close();
  }
  service(const service&) = delete;
  service& operator=(const service&) = delete;

  /// Serves until it is told to stop. Returns what the program ends with.
  int run(const listen_address& at) {
    if (const int error = open(at)) fail(problem_of(error));
    if (loop_.is_open()) loop_.run();
    return exit_code_;
  }

 private:
  int open(const listen_address& at) {
    if (const int error = loop_.open()) return error;
    callbacks_.emplace(loop_, asked_.callbacks);
    if (const int error = signals_.start(loop_.uv())) return error;
    if (const int error = listen(at)) return problem_ = "--listen " + asked_.listen + ": " + uv_strerror(error), error;
    if (const int error = is_file(asked_.store) ? store_watch_.start() : 0) return error;
    if (const int error = dead_watch_.start()) return error;
    if (const int error = store_is_slow_.arm(1s)) return error;
    timers_.on_due([this](durable::execution run) noexcept { executor_.start(std::move(run)); });
    return timers_.open([this](int error) noexcept { on_ready(error); });
  }

  int listen(const listen_address& at) {
    if (const int error = uv_tcp_init(&loop_.uv(), &listener_)) return error;
    listener_.data = this;
    if (const int error = uv_tcp_bind(&listener_, &at.socket_address(), 0)) return error;
    const auto on_connection = [](uv_stream_t* listener, int error) {
      if (error == 0) http_connection::accept(static_cast<service*>(listener->data)->peers_, *listener);
    };
    if (const int error = uv_listen(reinterpret_cast<uv_stream_t*>(&listener_), SOMAXCONN, on_connection)) return error;
    return 0;
  }

  // Not before the store is usable, or has given no answer for a while: of a store that cannot be used the log has only the failure.
  void tell_listening() noexcept {
    if (std::exchange(is_listening_told_, true)) return;
    const auto bound = listen_address::of(listener_);
    log_.write("listening", {{"address", bound ? bound->text() : asked_.listen}});
  }

  void on_ready(int error) noexcept {
    if (error == UV_ECANCELED) return;
    if (error != 0) return fail(problem_of(error));
    is_ready_ = true;
    store_is_slow_.cancel();
    tell_listening();
    log_.write("ready");
  }

  void on_last(const durable::execution& run, const callback_outcome& outcome) {
    const bool is_dead = run.period() == 0s || outcome.what == callback_outcome::kind::dead;
    log_.write(is_dead ? "dead" : "period_failed", {{"id", std::string{run.id()}},
                                                    {"due", write_moment(run.due())},
                                                    {"status", std::uint64_t{outcome.status}},
                                                    {"error", outcome.error}});
  }

  // A signal has arrived: the first one, or another one during the drain.
  void stop() noexcept {
    if (std::exchange(is_stopping_, true)) return hurry();
    drain();
  }

  // Accepts nothing more, starts no timer, and waits for the requests and the calls that have begun.
  void drain() noexcept {
    log_.write("draining");
    store_is_slow_.cancel();
    close_listener();
    api_.begin_drain();
    are_peers_gone_ = peers_.open == 0 || drain_.start({.hard_stop = asked_.drain, .spread = 0s, .seed = 0}) != 0;
    calls_.start(asked_.drain, is_ready_);
  }

  // Waits only until the store has taken back the calls that run.
  void hurry() noexcept {
    signals_.close();
    is_hurried_ = true;
    are_peers_gone_ = true;
    calls_.give_back();
    end_if_drained();
  }

  // These calls are made again by the next start, or by another node. They must not end as failures, so the caller is closed after it.
  void give_back_calls() noexcept {
    left_running_ = executor_.running();
    executor_.give_back();
    callbacks_->close();
  }

  void on_peers_gone() noexcept {
    are_peers_gone_ = true;
    end_if_drained();
  }

  void on_calls_over() noexcept {
    are_calls_over_ = true;
    end_if_drained();
  }

  void end_if_drained() noexcept {
    if (are_peers_gone_ && are_calls_over_) end();
  }

  void end() noexcept {
    if (std::exchange(has_ended_, true)) return;
    timers_.close();
    executor_.close();
    callbacks_->close();
    const durable::scheduler_stats s = timers_.stats();
    log_.write("stopped", {{"scheduled", s.scheduled},
                           {"started", s.started},
                           {"finished", s.finished},
                           {"failed", s.failed},
                           {"recovered", s.recovered},
                           {"left_running", std::uint64_t{left_running_}}});
    signals_.close();
    if (is_hurried_) {
      std::raise(signals_.last());  // ends the process, unless it is the first one of a container
      exit_code_ = 128 + signals_.last();
    }
    leave_.unref();
    (void)leave_.arm(1s);
  }

  // A name that the system still resolves would hold the process until the system gives up, long after the limit of the drain. The
  // store is closed, so nothing is lost.
  // NOLINTNEXTLINE(readability-make-member-function-const): a member_timer calls it
  void leave() noexcept { std::_Exit(exit_code_); }

  std::string problem_of(int error) const {
    if (!problem_.empty()) return problem_;
    return timers_.problem().empty() ? uv_strerror(error) : std::string{timers_.problem()};
  }

  void fail(const std::string& why) noexcept {
    log_.write("failed", {{"error", why}});
    exit_code_ = exit_bad_usage;
    signals_.close();
    close_listener();
    store_is_slow_.cancel();
    timers_.close();
    executor_.close();
    if (callbacks_) callbacks_->close();
    if (peers_.open != 0) (void)drain_.start({.hard_stop = 1ms, .spread = 0s, .seed = 0});
  }

  void close_listener() noexcept {
    auto* const handle = reinterpret_cast<uv_handle_t*>(&listener_);
    if (handle->data != nullptr && uv_is_closing(handle) == 0) uv_close(handle, nullptr);
  }

  const service_options& asked_;
  event_log log_;
  int exit_code_ = 0;
  std::string problem_;  // of the address; empty: none
  std::optional<bearer_tokens> tokens_;
  tickwheel::event_loop loop_;
  stop_signals<&service::stop> signals_{*this};
  uv_tcp_t listener_{};  // its data is set once it is the loop's
  tickwheel::drain<&service::on_peers_gone> drain_{loop_.timers(), *this};
  tickwheel::member_timer<&service::leave> leave_{loop_.timers(), *this};
  tickwheel::member_timer<&service::tell_listening> store_is_slow_{loop_.timers(), *this};
  bool is_listening_told_ = false;
  bool is_ready_ = false, is_stopping_ = false, is_hurried_ = false;
  bool are_peers_gone_ = false, are_calls_over_ = false, has_ended_ = false;
  std::size_t left_running_ = 0;  // calls that were given back
  executor executor_{[this](callback_request request, std::function<void(const callback_outcome&)> answered) {
                       callbacks_->call(std::move(request), std::move(answered));
                     },
                     [this](const durable::execution& run, const callback_outcome& outcome) { on_last(run, outcome); },
                     asked_.scheduler.max_attempts};
  std::optional<callback_caller> callbacks_;  // while the loop is open
  durable::scheduler timers_;
  scheduler_drain<&service::give_back_calls, &service::on_calls_over> calls_{loop_.timers(), timers_, *this};
  store_watch store_watch_{loop_.timers(), timers_, [this](std::string_view line) { write_of_store(log_, line); }};
  dead_watch dead_watch_{loop_.timers(), timers_, [this](std::uint64_t dead) {
                           log_.write("dead_timers", {{"count", dead}});
                         }};
  api api_;
  connections peers_{loop_, drain_};
};

int refuse(const std::string& what) {
  std::fprintf(stderr, "timer_server: %s\n", what.c_str());
  return exit_bad_usage;
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_descriptors();
  service_options o;
  CLI::App app{"A timer service: schedule by HTTP, and be called by HTTP when the time has come.", "timer_server"};
  add_options(app, o);
  app.set_version_flag("--version", tickwheel::version(), "print the version of the library, and end");
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  std::optional<bearer_tokens> tokens;
  if (const std::string wrong = read_options(o, tokens); !wrong.empty()) return refuse(wrong);
  const auto address = listen_address::read(o.listen);
  if (!address)
    return refuse("--listen " + o.listen + ": give an address and a port, such as 127.0.0.1:8081 or [::1]:8081");
  if (!tokens && !address->is_loopback())
    return refuse("--listen " + o.listen + ": without --tokens the service listens on loopback only");
  std::string why;
  auto store = open_store(
      o.store, [log = event_log{o.log}](std::string_view line) { write_of_store(log, line); }, why);
  if (store == nullptr) return refuse(why);

  ::umask(S_IRWXG | S_IRWXO);  // the store's files have the headers and bodies of callbacks, which may be secret
  // Names that resolve slowly hold up fewer of the others.
  ::setenv("UV_THREADPOOL_SIZE", "64", 0);  // NOLINT(concurrency-mt-unsafe): there is one thread
  std::signal(SIGPIPE, SIG_IGN);        // writing to a peer that is gone is an error of that peer, not the end of us
  constexpr std::uint64_t others = 64;  // descriptors that are not connections
  const std::uint64_t limit = raise_descriptor_limit();
  const std::uint64_t needed = others + o.connections + o.callbacks.connections;
  if (limit < needed)
    return refuse("the limit of descriptors is " + std::to_string(limit) + ", and these options need " +
                  std::to_string(needed) + ": give less to --max-connections and --callback-connections");
  service s{o, std::move(store), std::move(tokens)};
  return s.run(*address);
}
