#include "api.hpp"

#include "../callbacks/callback_caller.hpp"
#include "../text/percent_encoding.hpp"
#include "../text/query.hpp"
#include "../text/times.hpp"
#include "../timers/timer_document.hpp"
#include "../timers/timer_payload.hpp"
#include "../timers/timer_request.hpp"
#include "problem_document.hpp"
#include "store_answers.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <boost/beast/core/string.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>
#include <utility>
#include <variant>

namespace timer_server {
namespace {

namespace durable = tickwheel::durable;
using durable::schedule_result;

constexpr std::string_view timers_path = "/v1/timers";

http_answer bad_request(std::string detail) {
  return answer_with({.status = 400, .code = "bad-request", .detail = std::move(detail)});
}

http_answer not_found(const char* detail) {
  return answer_with({.status = 404, .code = "not-found", .detail = detail});
}

http_answer method_not_allowed(std::string allowed) {
  http_answer answer = answer_with(
      {.status = 405, .code = "method-not-allowed", .detail = "This resource has the methods " + allowed + '.'});
  answer.allow = std::move(allowed);
  return answer;
}

bool reads(std::string_view method) { return method == "GET" || method == "HEAD"; }

bool is_json(std::string_view content_type) {
  std::string_view type = content_type.substr(0, content_type.find(';'));
  while (!type.empty() && (type.back() == ' ' || type.back() == '\t')) type.remove_suffix(1);
  return boost::beast::iequals({type.data(), type.size()}, "application/json");
}

// Whether a Host header has an address or localhost, with or without a port.
bool is_address_or_localhost(std::string_view host) {
  if (!host.empty() && host.front() == '[') return true;  // no name begins so
  host = host.substr(0, host.find(':'));
  if (boost::beast::iequals({host.data(), host.size()}, "localhost")) return true;
  in_addr address{};
  return inet_pton(AF_INET, std::string{host}.c_str(), &address) == 1;
}

// Reads the timer that is there already, so that the answer has its state. Without it the client sends the request again: that of a
// `keep` is safe.
void answer_exists(durable::scheduler& scheduler, const std::string& id, const answer_function& answer) {
  const auto read = [answer](durable::read_result result, const durable::task_info& timer) noexcept {
    if (result == durable::read_result::ok) return answer(answer_of(schedule_result::exists, timer, {}));
    answer(unavailable("A timer of this id was there, and could not be read. Nothing was changed."));
  };
  if (const int error = scheduler.get(id, read)) answer(not_taken(error));
}

}  // namespace

api::api(tickwheel::timer_service& timers, durable::scheduler& scheduler, api_options options)
    : timers_{timers},
      scheduler_{scheduler},
      options_{std::move(options)},
      readiness_{timers, scheduler},
      lists_{scheduler} {}

void api::ask(const api_request& request, const answer_function& answer) {
  const std::string_view path = request.target.substr(0, request.target.find('?'));
  if (path == "/healthz" || path == "/readyz") {
    if (!reads(request.method)) return answer(method_not_allowed("GET, HEAD"));
    if (path == "/readyz") return readiness_.ask(answer);
    return answer({.content_type = "text/plain", .body = "alive\n"});
  }
  if (options_.refuses_web_pages && !is_address_or_localhost(request.host))
    return answer(answer_with({.status = 421,
                               .code = "misdirected",
                               .detail = "Without tokens the service answers as an address or as localhost only."}));
  if (options_.refuses_web_pages && request.origin)
    return answer(
        answer_with({.status = 403,
                     .code = "web-page",
                     .detail = "Without tokens the service answers no web page: the request has an Origin."}));
  if (auto refused = check_token(request)) return answer(std::move(*refused));
  route(request, answer);
}

std::optional<http_answer> api::check_token(const api_request& request) const {
  if (options_.tokens == nullptr) return std::nullopt;
  const auto [verdict, retry_after] = options_.tokens->admit(request.authorization, timers_.now());
  if (verdict == bearer_tokens::verdict::admitted) return std::nullopt;
  if (verdict == bearer_tokens::verdict::too_many) {
    http_answer answer = answer_with({.status = 429,
                                      .code = "too-many-requests",
                                      .detail = "This token has made too many requests. Wait a little."});
    answer.retry_after = retry_after;
    return answer;
  }
  http_answer answer = answer_with(
      {.status = 401, .code = "unauthorized", .detail = "Give a valid token: \"Authorization: Bearer TOKEN\"."});
  answer.asks_for_token = true;
  return answer;
}

void api::route(const api_request& request, const answer_function& answer) {
  const std::size_t end_of_path = std::min(request.target.find('?'), request.target.size());
  const std::string_view path = request.target.substr(0, end_of_path);
  const std::string_view query = request.target.substr(std::min(end_of_path + 1, request.target.size()));
  if (path == "/metrics") return reads(request.method) ? metrics(answer) : answer(method_not_allowed("GET, HEAD"));
  if (path == timers_path) return reads(request.method) ? list(query, answer) : answer(method_not_allowed("GET, HEAD"));
  if (path.substr(0, timers_path.size()) == timers_path && path[timers_path.size()] == '/')
    return route_timer(request, path.substr(timers_path.size() + 1), query, answer);
  answer(not_found("There is no such resource. Timers are at /v1/timers/{id}."));
}

// `path` is "{id}" or "{id}/revive".
void api::route_timer(const api_request& request, std::string_view path, std::string_view query,
                      const answer_function& answer) {
  const std::size_t slash = path.find('/');
  const bool is_revive = slash != std::string_view::npos && path.substr(slash) == "/revive";
  if (slash != std::string_view::npos && !is_revive)
    return answer(not_found("There is no such resource. A slash in an id is written as %2F."));
  auto id = percent_decode(path.substr(0, slash));
  if (!id) return answer(bad_request("The id has a percent sign without two hexadecimal digits after it."));
  if (!durable::is_valid_id(*id))
    return answer(answer_with(
        {.status = 400, .code = "bad-id", .detail = "An id is 1 to 255 bytes of UTF-8 without control characters."}));
  if (request.method == "PUT" && !is_revive) return put(request, std::move(*id), query, answer);
  if (const auto parameters = query::read(query, {}); std::holds_alternative<std::string>(parameters))
    return answer(bad_request(std::get<std::string>(parameters)));
  if (is_revive) return request.method == "POST" ? revive(*id, answer) : answer(method_not_allowed("POST"));
  if (reads(request.method)) return get(*id, answer);
  if (request.method == "DELETE") return cancel(*id, answer);
  answer(method_not_allowed("GET, HEAD, PUT, DELETE"));
}

void api::put(const api_request& request, std::string id, std::string_view query, const answer_function& answer) {
  if (request.content_type && !is_json(*request.content_type))
    return answer(answer_with({.status = 415,
                               .code = "unsupported-media-type",
                               .detail = "The document of a timer is JSON: \"Content-Type: application/json\"."}));
  const auto parameters = query::read(query, {"strict"});
  if (const auto* const wrong = std::get_if<std::string>(&parameters)) return answer(bad_request(*wrong));
  const auto strict = std::get<timer_server::query>(parameters)["strict"];
  if (strict && !strict->empty()) return answer(bad_request("The parameter strict has no value."));

  auto document = read_timer_request(request.body);
  if (const auto* const mistake = std::get_if<request_mistake>(&document))
    return answer(answer_with({.status = mistake->field ? 422U : 400U,
                               .code = mistake->field ? "invalid" : "bad-document",
                               .detail = mistake->detail,
                               .field = mistake->field}));
  const auto& asked = std::get<timer_request>(document);
  if (const char* const wrong = problem_of_address(asked.callback.url, options_.allowed))
    return answer(answer_with(
        {.status = 422, .code = "invalid", .detail = std::string{"callback: "} + wrong + '.', .field = "callback"}));
  const auto now = scheduler_.store_now();
  const auto latest = scheduler_.latest_store_now();  // what counts from it is late rather than early
  if (asked.due ? strict && !now : !latest)
    return answer(unavailable("The store has not told its time yet. Nothing was changed."));
  if (strict && asked.due && *asked.due < *now)
    return answer(answer_with({.status = 422,
                               .code = "past",
                               .detail = "due: " + write_moment(*asked.due) + " is in the past.",
                               .field = "due"}));
  durable::task_info timer;
  timer.what = {.id = std::move(id),
                .due = asked.due ? *asked.due : *latest + std::chrono::ceil<durable::clock::duration>(asked.in),
                .payload = write_payload(asked.callback),
                .period = asked.every};
  if (timer.what.payload.size() > options_.max_payload)
    return answer(
        answer_with({.status = 413,
                     .code = "too-large",
                     .detail = "The callback is too large: its URL, headers and body together have more than " +
                               std::to_string(options_.max_payload) + " bytes as JSON."}));
  if (const char* const wrong = durable::problem(timer.what, options_.max_payload))
    return answer(answer_with({.status = 422, .code = "invalid", .detail = std::string{wrong} + '.'}));

  durable::task task = timer.what;
  timer.next = std::max(timer.what.due, now.value_or(timer.what.due));
  const auto done = [answer, timer = std::move(timer), how = asked.conflict,
                     &scheduler = scheduler_](schedule_result result) noexcept {
    if (result == schedule_result::exists) return answer_exists(scheduler, timer.what.id, answer);
    answer(answer_of(result, timer, how));
  };
  if (const int error = scheduler_.schedule(std::move(task), done, asked.conflict)) answer(not_taken(error));
}

void api::get(const std::string& id, const answer_function& answer) {
  const auto done = [answer](durable::read_result result, const durable::task_info& timer) noexcept {
    switch (result) {
      case durable::read_result::ok:
        return answer(with_json(200, document_of(timer)));
      case durable::read_result::not_found:
        return answer(no_timer());
      case durable::read_result::unavailable:
        break;
    }
    answer(store_unavailable());
  };
  if (const int error = scheduler_.get(id, done)) answer(not_taken(error));
}

void api::cancel(const std::string& id, const answer_function& answer) {
  const auto done = [answer, id](durable::cancel_result result) noexcept { answer(answer_of(result, id)); };
  if (const int error = scheduler_.cancel(id, done)) answer(not_taken(error));
}

void api::revive(const std::string& id, const answer_function& answer) {
  const auto done = [answer, id](durable::revive_result result) noexcept { answer(answer_of(result, id)); };
  if (const int error = scheduler_.revive(id, done)) answer(not_taken(error));
}

void api::list(std::string_view query, const answer_function& answer) {
  using durable::task_state;
  const auto parameters = query::read(query, {"state", "after", "limit"});
  if (const auto* const wrong = std::get_if<std::string>(&parameters)) return answer(bad_request(*wrong));
  const auto& given = std::get<timer_server::query>(parameters);

  constexpr std::array states{task_state::pending, task_state::running, task_state::dead, task_state::finished,
                              task_state::cancelled};
  const auto* const state =
      std::find_if(states.begin(), states.end(), [&](task_state s) { return given["state"] == durable::to_string(s); });
  if (state == states.end())
    return answer(bad_request("Give the parameter state: pending, running, dead, finished or cancelled."));
  const std::string_view after = given["after"].value_or("");
  if (!after.empty() && !durable::is_valid_id(after)) return answer(bad_request("The parameter after is no id."));
  constexpr std::string_view usual_limit = "100";
  const std::string_view text = given["limit"].value_or(usual_limit);
  std::size_t limit = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), limit);
  if (error != std::errc{} || end != text.data() + text.size() || limit == 0 || limit > max_page)
    return answer(bad_request("The parameter limit is a number from 1 to " + std::to_string(max_page) + '.'));

  lists_.ask({.state = *state, .after = std::string{after}, .limit = limit}, answer);
}

void api::metrics(const answer_function& answer) const {
  std::ostringstream out;
  durable::write_prometheus(out, scheduler_);
  if (options_.write_metrics) options_.write_metrics(out);
  answer({.content_type = "text/plain; version=0.0.4", .body = std::move(out).str()});
}

}  // namespace timer_server
