// A timer service: clients schedule timers over HTTP, and each timer that is due calls an HTTP endpoint.
//
//   timer_server --listen 127.0.0.1:8081 --store sqlite:timers.db
//   curl -X PUT --json '{"in": "30m", "callback": "http://127.0.0.1:9000/unpaid"}' http://127.0.0.1:8081/v1/timers/order-7
//
// Timers are durable tasks: a timer that is confirmed is on disk, and survives kill -9. Read it from the top, and then
//
//   http_connection   one client: reads requests, writes answers
//   api               what a request asks of the scheduler, and what it is answered
//   executor          what is called when a timer is due
//   callbacks/        how it is called

#include "../command_line.hpp"
#include "../descriptor_limit.hpp"
#include "../stop_signals.hpp"
#include "api.hpp"
#include "bearer_tokens.hpp"
#include "callbacks/callback_caller.hpp"
#include "event_log.hpp"
#include "executor.hpp"
#include "http_connection.hpp"
#include "listen_address.hpp"
#include "secret_file.hpp"
#include "service_metrics.hpp"
#include "store_location.hpp"

#include <tickwheel/durable/durable.hpp>
#include <tickwheel/tickwheel.hpp>

#include <uv.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace {

using namespace std::chrono_literals;
using namespace timer_server;
using std::chrono::milliseconds;
namespace durable = tickwheel::durable;

struct options {
  std::string listen = "127.0.0.1:8081";
  store_location store;
  std::string tokens_file;
  token_rate rate{.per_second = 0, .burst = 100};
  milliseconds drain = 25s;  // below the 90 s after which systemd kills, and the 30 s of Kubernetes
  log_format log = log_format::text;

  framing_limits framing;
  tickwheel::phase_limits phases{.header = 10s, .body = 60s, .keep_alive = 75s, .max_age = 1h};
  tickwheel::rate_limits min_rate;
  std::size_t connections = 1024;

  durable::scheduler_options scheduler;
  callback_options callbacks;
  std::vector<std::string> allow;
  std::string secret_file;
};

class service {
 public:
  service(const options& asked, std::unique_ptr<durable::store> store, std::optional<bearer_tokens> tokens)
      : asked_{asked},
        log_{asked.log},
        tokens_{std::move(tokens)},
        timers_{loop_.timers(), std::move(store), asked.scheduler},
        api_{loop_.timers(),
             timers_,
             {.max_payload = asked.scheduler.max_payload,
              .write_metrics = [this](std::ostream& out) { write_prometheus(out, peers_, callbacks_->stats()); },
              .tokens = tokens_ ? &*tokens_ : nullptr,
              .refuses_names = !tokens_}} {
    peers_.framing = asked.framing;
    peers_.phases = asked.phases;
    peers_.rate = asked.min_rate;
    peers_.most = asked.connections;
    peers_.requests = &api_;
  }
  ~service() {
    timers_.close();
    callbacks_.reset();
    loop_.close();
  }
  service(const service&) = delete;
  service& operator=(const service&) = delete;

  /// Serves until it is told to stop. Returns what the program ends with.
  int run(const listen_address& at) {
    if (const int error = open(at))
      fail(timers_.problem().empty() ? uv_strerror(error) : std::string{timers_.problem()});
    if (loop_.is_open()) loop_.run();
    return exit_code_;
  }

 private:
  int open(const listen_address& at) {
    if (const int error = loop_.open()) return error;
    callbacks_.emplace(loop_, asked_.callbacks);
    if (const int error = signals_.start(loop_.uv())) return error;
    if (const int error = listen(at)) return error;
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
    const auto bound = listen_address::of(listener_);
    log_.write("listening", {{"address", bound ? bound->text() : asked_.listen}});
    return 0;
  }

  void on_ready(int error) noexcept {
    if (error == UV_ECANCELED) return;
    if (error != 0) return fail(timers_.problem().empty() ? uv_strerror(error) : std::string{timers_.problem()});
    log_.write("ready");
  }

  void on_dead(std::string_view id, const callback_outcome& outcome) {
    log_.write("dead", {{"id", std::string{id}}, {"status", std::to_string(outcome.status)}, {"error", outcome.error}});
  }

  // Accepts nothing more, starts no timer, and waits for the requests and the calls that have begun.
  void drain() noexcept {
    log_.write("draining");
    signals_.close();
    close_listener();
    api_.begin_drain();
    are_peers_gone_ = peers_.open == 0 || drain_.start({.hard_stop = asked_.drain, .spread = 0s, .seed = 0}) != 0;
    are_calls_over_ = timers_.drain([this]() noexcept { on_calls_over(); }) != 0;
    if (deadline_.arm(asked_.drain) != 0) return end();
    end_if_drained();
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

  // The store recovers the timers whose calls still run. Closed before the caller, so that these calls do not end as failures.
  void end() noexcept {
    deadline_.cancel();
    const std::size_t left = executor_.running();
    timers_.close();
    callbacks_->close();
    const durable::scheduler_stats s = timers_.stats();
    log_.write("stopped", {{"scheduled", std::to_string(s.scheduled)},
                           {"started", std::to_string(s.started)},
                           {"finished", std::to_string(s.finished)},
                           {"failed", std::to_string(s.failed)},
                           {"recovered", std::to_string(s.recovered)},
                           {"left_running", std::to_string(left)}});
  }

  void fail(const std::string& why) noexcept {
    log_.write("failed", {{"error", why}});
    exit_code_ = exit_bad_usage;
    signals_.close();
    close_listener();
    deadline_.cancel();
    timers_.close();
    if (callbacks_) callbacks_->close();
    if (peers_.open != 0) (void)drain_.start({.hard_stop = 1ms, .spread = 0s, .seed = 0});
  }

  void close_listener() noexcept {
    auto* const handle = reinterpret_cast<uv_handle_t*>(&listener_);
    if (handle->data != nullptr && uv_is_closing(handle) == 0) uv_close(handle, nullptr);
  }

  const options& asked_;
  event_log log_;
  int exit_code_ = 0;
  std::optional<bearer_tokens> tokens_;
  tickwheel::event_loop loop_;
  stop_signals<&service::drain> signals_{*this};
  uv_tcp_t listener_{};  // its data is set once it is the loop's
  tickwheel::drain<&service::on_peers_gone> drain_{loop_.timers(), *this};
  tickwheel::member_timer<&service::end> deadline_{loop_.timers(), *this};
  bool are_peers_gone_ = false, are_calls_over_ = false;
  executor executor_{[this](callback_request request, std::function<void(const callback_outcome&)> answered) {
                       callbacks_->call(std::move(request), std::move(answered));
                     },
                     [this](std::string_view id, const callback_outcome& outcome) { on_dead(id, outcome); }};
  std::optional<callback_caller> callbacks_;  // while the loop is open
  durable::scheduler timers_;
  api api_;
  connections peers_{loop_, drain_};
};

int refuse(const std::string& what) {
  std::fprintf(stderr, "timer_server: %s\n", what.c_str());
  return exit_bad_usage;
}

void add_options(CLI::App& app, options& o) {
  const auto duration = [&](const char* name, auto& value, const char* help) {
    const auto parse = [name, &value](const std::string& text) {
      const auto parsed = parse_duration(text, 1s);
      if (!parsed || parsed->count() == 0)
        throw CLI::ValidationError(name,
                                   "'" + text + "' is not a duration from 1ms to a year, such as 500ms, 2s or 1m");
      value = *parsed;
    };
    return app.add_option_function<std::string>(name, parse, help)->type_name("DURATION");
  };
  app.add_option("--listen", o.listen, "address and port; port 0: one that is free, which the first line names")
      ->capture_default_str();
  app.add_option("--store", o.store.url, "sqlite:FILE or postgresql://...")->capture_default_str();
  app.add_option("--schema", o.store.schema, "of PostgreSQL")->capture_default_str();
  app.add_option("--name", o.scheduler.name, "of this node in the store; empty: made up");
  app.add_option("--tokens", o.tokens_file,
                 "file with a token a line; without it the service listens on loopback only");
  app.add_option("--requests-per-second", o.rate.per_second, "of a token; 0: any number")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e9));
  app.add_option("--burst", o.rate.burst, "requests of a token at once, after a pause")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 1e9));
  duration("--drain", o.drain, "how long requests and calls may take to end, once signalled [25s]");
  app.add_option("--log", o.log, "text or json")
      ->transform(CLI::CheckedTransformer(
          std::vector<std::pair<std::string, log_format>>{{"text", log_format::text}, {"json", log_format::json}}))
      ->type_name("FORMAT");

  app.add_option("--max-header", o.framing.header, "bytes of a request's header")
      ->capture_default_str()
      ->check(CLI::Range(256, 65'536));
  app.add_option("--max-body", o.framing.body, "bytes of a request's body")
      ->capture_default_str()
      ->check(CLI::Range(256, 16 << 20));
  app.add_option("--max-connections", o.connections, "of clients at once")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  duration("--header-timeout", o.phases.header, "how long a request's header may take [10s]");
  duration("--body-timeout", o.phases.body, "how long its body may take [60s]");
  duration("--keepalive-timeout", o.phases.keep_alive, "how long the next request is awaited [75s]");
  duration("--max-age", o.phases.max_age, "how old a connection of a client gets [1h]");
  app.add_option("--min-rate", o.min_rate.bytes_per_second, "bytes a second, of a body and of an answer")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000'000));

  app.add_option("--max-running", o.scheduler.max_running, "timers that are called at once")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--max-attempts", o.scheduler.max_attempts, "calls of a timer until it is dead")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  duration("--keep-finished", o.scheduler.keep_finished, "how long ended ids are remembered [5m]");
  duration("--lease", o.scheduler.lease, "after which time without a sign of life a node is given up [10s]");

  app.add_option("--allow", o.allow, "addresses that may be called, such as 10.1.0.0/16; without it only loopback")
      ->type_name("CIDR");
  duration("--callback-timeout", o.callbacks.attempt_timeout, "how long a call may take [30s]");
  duration("--callback-wait", o.callbacks.wait_timeout,
           "how long a call may wait for a connection; then it is put off for a second [2s]");
  duration("--callback-total-timeout", o.callbacks.total_timeout, "the same, with the time in which it waits [60s]");
  app.add_option("--connections-per-host", o.callbacks.connections_per_host, "of a host that is called")
      ->capture_default_str()
      ->check(CLI::Range(1, 10'000));
  app.add_option("--callback-connections", o.callbacks.connections, "of all hosts that are called")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000));
  app.add_option("--secret", o.secret_file, "file with the key that signs the bodies of calls");
}

// Takes what the options name: files and addresses. Returns an empty text, or what is wrong.
std::string read_options(options& o, std::optional<bearer_tokens>& tokens) {
  if (!o.tokens_file.empty()) {
    const auto content = read_secret_file(o.tokens_file);
    if (const auto* const wrong = std::get_if<file_problem>(&content))
      return "--tokens " + o.tokens_file + ": " + wrong->why;
    tokens.emplace(o.rate);
    if (const std::string wrong = tokens->read(std::get<std::string>(content)); !wrong.empty())
      return "--tokens " + o.tokens_file + ": " + wrong;
  }
  if (!o.secret_file.empty()) {
    auto content = read_secret_file(o.secret_file);
    if (const auto* const wrong = std::get_if<file_problem>(&content))
      return "--secret " + o.secret_file + ": " + wrong->why;
    o.callbacks.secret = std::get<std::string>(std::move(content));
    while (!o.callbacks.secret.empty() && (o.callbacks.secret.back() == '\n' || o.callbacks.secret.back() == '\r'))
      o.callbacks.secret.pop_back();
    constexpr std::size_t least_secret = 16;
    if (o.callbacks.secret.size() < least_secret) return "--secret " + o.secret_file + ": it is shorter than 16 bytes";
  }
  if (!o.allow.empty()) o.callbacks.allowed = address_rules::none();
  for (const std::string& range : o.allow)
    if (const char* const wrong = o.callbacks.allowed.allow(range)) return "--allow " + range + ": " + wrong;
  o.callbacks.total_timeout = std::max(o.callbacks.total_timeout, o.callbacks.attempt_timeout);
  constexpr std::size_t other_fields = 1024;  // of a payload, beside what the request had
  o.scheduler.max_payload = o.framing.body + other_fields;
  for (const char* const wrong :
       {o.scheduler.problem(), o.callbacks.problem(), o.phases.problem(), o.min_rate.problem()})
    if (wrong != nullptr) return wrong;
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  options o;
  CLI::App app{"A timer service: schedule by HTTP, and be called by HTTP when the time has come.", "timer_server"};
  add_options(app, o);
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  std::optional<bearer_tokens> tokens;
  if (const std::string wrong = read_options(o, tokens); !wrong.empty()) return refuse(wrong);
  const auto address = listen_address::read(o.listen);
  if (!address)
    return refuse("--listen " + o.listen + ": give an address and a port, such as 127.0.0.1:8081 or [::1]:8081");
  if (!tokens && !address->is_loopback())
    return refuse("--listen " + o.listen + ": without --tokens the service listens on loopback only");
  std::string why;
  auto store = open_store(o.store, why);
  if (store == nullptr) return refuse("--store: " + why);

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
