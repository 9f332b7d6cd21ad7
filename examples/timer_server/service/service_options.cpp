#include "service_options.hpp"

#include "../../support/as_option.hpp"
#include "../callbacks/message/signature.hpp"
#include "secret_file.hpp"

#include <chrono>
#include <string_view>
#include <utility>
#include <variant>

namespace timer_server {

using namespace std::chrono_literals;

void add_options(CLI::App& to, service_options& into) {
  const auto duration = [&](const char* name, auto& value, const char* help) {
    const auto parse = [name, &value](const std::string& text) {
      const auto parsed = parse_duration(text, 1s);
      if (!parsed || parsed->count() == 0)
        throw CLI::ValidationError(name,
                                   "'" + text + "' is not a duration from 1ms to a year, such as 500ms, 2s or 1m");
      value = *parsed;
    };
    return to.add_option_function<std::string>(name, parse, help)->type_name("DURATION");
  };
  to.add_option("--listen", into.listen, "address and port; port 0: one that is free, which the first line names")
      ->capture_default_str();
  to.add_option("--store", into.store.url, "sqlite:FILE or postgresql://...")->capture_default_str();
  const auto* const schema = to.add_option("--schema", into.store.schema, "of PostgreSQL")->capture_default_str();
  const auto* const name =
      to.add_option("--name", into.scheduler.name, "of this node, which shares PostgreSQL with others; empty: made up");
  auto* const tokens =
      to.add_option("--tokens", into.tokens_file,
                    "file with one token in each line; without it the service listens on loopback only")
          ->check(not_empty());
  to.add_option("--requests-per-second", into.rate.per_second, "of a token; 0: any number")
      ->capture_default_str()
      ->check(number_range(0, 1e9))
      ->needs(tokens);
  to.add_option("--burst", into.rate.burst, "requests of a token at once, after a pause")
      ->capture_default_str()
      ->check(number_range(1, 1e9))
      ->needs(tokens);
  to.parse_complete_callback([&into, schema, name] {
    if (!is_file(into.store)) return;
    for (const auto* const option : {schema, name})
      if (option->count() != 0)
        throw CLI::ValidationError(option->get_name(), "it needs --store postgresql://...; the store is a SQLite file");
  });
  duration("--drain", into.drain, "how long requests and calls may take to end, once signalled [25s]");
  const auto read_format = [&into](const std::string& text) {
    if (text != "text" && text != "json")
      throw CLI::ValidationError("--log", "'" + text + "' is no format of the log: give text or json");
    into.log = text == "json" ? log_format::json : log_format::text;
  };
  to.add_option_function<std::string>("--log", read_format, "text or json [text]")->type_name("FORMAT");

  to.add_option("--max-header", into.framing.header, "bytes of a request's header")
      ->capture_default_str()
      ->check(CLI::Range(256, 65'536));
  to.add_option("--max-body", into.framing.body, "bytes of a request's body")
      ->capture_default_str()
      ->check(CLI::Range(256, 16 << 20));
  to.add_option("--max-connections", into.connections, "of clients at once")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  duration("--header-timeout", into.phases.header, "how long a request's header may take [10s]");
  duration("--body-timeout", into.phases.body, "how long its body may take [60s]");
  duration("--keepalive-timeout", into.phases.keep_alive, "how long the next request is awaited [75s]");
  duration("--max-age", into.phases.max_age, "how old a connection of a client gets [1h]");
  to.add_option("--min-rate", into.min_rate.bytes_per_second, "bytes per second, of a body and of an answer")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000'000));

  to.add_option("--max-running", into.scheduler.max_running, "timers that are called at once")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  to.add_option("--max-attempts", into.scheduler.max_attempts, "calls of a timer until it is dead")
      ->capture_default_str()
      ->check(CLI::Range(1, 30'000));
  duration("--keep-finished", into.scheduler.keep_finished, "how long ended ids are remembered [5m]");
  duration("--lease", into.scheduler.lease, "after which time without a sign of life a node is given up [10s]");

  to.add_option("--allow", into.allow, "addresses that may be called, such as 10.1.0.0/16; without it only loopback")
      ->type_name("CIDR");
  duration("--callback-timeout", into.callbacks.attempt_timeout, "how long a call may take [30s]");
  duration("--callback-wait", into.callbacks.wait_timeout,
           "how long a call may wait for a connection; then it is put off [2s]");
  duration("--callback-total-timeout", into.callbacks.total_timeout, "the same, with the time in which it waits [60s]");
  to.add_option("--connections-per-host", into.callbacks.connections_per_host, "of a host that is called")
      ->capture_default_str()
      ->check(CLI::Range(1, 10'000));
  to.add_option("--callback-connections", into.callbacks.connections, "of all hosts that are called")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000));
  to.add_option("--secret", into.secret_file, "file with the key that signs the bodies of calls")->check(not_empty());
}

std::string read_options(service_options& o, std::optional<bearer_tokens>& tokens) {
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
    if (!signature_of({}, o.callbacks.secret, std::chrono::system_clock::now()))
      return "--secret " + o.secret_file + ": libcrypto cannot compute HMAC-SHA256; see openssl list -mac-algorithms";
  }
  if (!o.allow.empty()) o.callbacks.allowed = address_rules::none();
  for (const std::string& range : o.allow)
    if (const char* const wrong = o.callbacks.allowed.allow(range)) return "--allow " + range + ": " + wrong;
  if (o.callbacks.total_timeout < o.callbacks.attempt_timeout)
    return "--callback-total-timeout: it is shorter than --callback-timeout; without them they are 60s and 30s";
  constexpr std::size_t other_fields = 1024;  // of a payload, beside what the request had
  o.scheduler.max_payload = o.framing.body + other_fields;
  for (const char* const wrong :
       {o.scheduler.problem(), o.callbacks.problem(), o.phases.problem(), o.min_rate.problem()})
    if (wrong != nullptr) return as_option(wrong);
  return {};
}

}  // namespace timer_server
