// The API: takes a request, asks the scheduler, and answers. openapi.json describes it.
#pragma once

#include "../callbacks/address_rules.hpp"
#include "bearer_tokens.hpp"
#include "http_answer.hpp"
#include "readiness.hpp"
#include "timer_list.hpp"

#include <tickwheel/durable/durable.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <cstddef>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

namespace timer_server {

/// A request. The views live until `api::ask` returns.
struct api_request {
  std::string_view method;
  std::string_view target;
  std::string_view host{};                         // as the Host header names it
  std::optional<std::string_view> origin{};        // of the web page that sends it; no value: it is no page's
  std::optional<std::string_view> content_type{};  // no value: none
  std::string_view authorization{};                // empty: none
  std::string_view body{};
};

struct api_options {
  std::size_t max_payload = 65'536;  // as of the scheduler
  address_rules allowed{};           // as of the caller: a URL with another address is refused
  /// Appends metrics to those of the scheduler. Empty: there are no others.
  std::function<void(std::ostream&)> write_metrics{};
  /// Null: no token is asked for.
  bearer_tokens* tokens = nullptr;
  /// Keeps out the pages of a browser on this machine, which need no token if there are none. A browser tells the origin of a page.
  /// A page can also make its own name resolve to 127.0.0.1, and then ask as if it were ours: so the service answers only as an
  /// address or as localhost.
  bool refuses_web_pages = false;
};

/// *Thread safety:* the loop's thread only. *Errors:* answers. *Lifetime:* `timers` and the scheduler outlive the last `ask`. An answer
/// may come after the API is gone.
class api {
 public:
  /// The most timers on a page of GET /v1/timers.
  static constexpr std::size_t max_page = 1000;

  api(tickwheel::timer_service& timers, tickwheel::durable::scheduler& scheduler, api_options options);

  /// Answers exactly once: within this call, or later. All requests are answered when the scheduler is closed.
  void ask(const api_request&, const answer_function&);

  /// /readyz says no from now on.
  void begin_drain() noexcept { readiness_.begin_drain(); }

 private:
  void route(const api_request&, const answer_function&);
  void route_timer(const api_request&, std::string_view path, std::string_view query, const answer_function&);
  void put(const api_request&, std::string id, std::string_view query, const answer_function&);
  void get(const std::string& id, const answer_function&);
  void cancel(const std::string& id, const answer_function&);
  void revive(const std::string& id, const answer_function&);
  void list(std::string_view query, const answer_function&);
  void metrics(const answer_function&) const;
  /// No value: the request may go on.
  std::optional<http_answer> check_token(const api_request&) const;

  tickwheel::timer_service& timers_;
  tickwheel::durable::scheduler& scheduler_;
  api_options options_;
  readiness readiness_;
  timer_list lists_;
};

}  // namespace timer_server
