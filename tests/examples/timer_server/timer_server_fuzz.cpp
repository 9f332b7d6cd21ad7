// The libFuzzer target of the timer server's input: the framing of requests, whom they are for, the documents in them, queries, and
// what callees answer. And the address that an operator writes.
#include "http/http_framing.hpp"
#include "timer_server/callbacks/callback_outcome.hpp"
#include "timer_server/callbacks/message/response_reader.hpp"
#include "timer_server/http/addressee.hpp"
#include "timer_server/service/listen_address.hpp"
#include "timer_server/text/percent_encoding.hpp"
#include "timer_server/text/query.hpp"
#include "timer_server/text/times.hpp"
#include "timer_server/timers/timer_payload.hpp"
#include "timer_server/timers/timer_request.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <variant>

using namespace timer_server;

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

bool has_line_end(std::string_view text) { return text.find_first_of(std::string_view{"\r\n\0", 3}) != text.npos; }

// A document that is taken can be stored, read back and sent.
void check_document(std::string_view json) {
  const auto result = read_timer_request(json);
  if (const auto* const mistake = std::get_if<request_mistake>(&result))
    return require(!mistake->detail.empty() && mistake->detail.back() == '.', "a mistake has no sentence");
  const auto& asked = std::get<timer_request>(result);
  if (asked.due) {
    moment again{};
    require(read_moment(write_moment(*asked.due), again) == nullptr && again == *asked.due, "a moment changes");
  }
  std::chrono::nanoseconds again{};
  require(read_duration(write_duration(asked.in), again) == nullptr && again == asked.in, "a duration changes");
  require(asked.in.count() >= 0 && (asked.every.count() == 0 || asked.every >= shortest_period),
          "a duration is too short");
  const auto stored = read_payload(write_payload(asked.callback));
  require(stored && stored->url == asked.callback.url && stored->method == asked.callback.method &&
              stored->headers == asked.callback.headers && stored->body == asked.callback.body,
          "a payload changes");
  require(!has_line_end(asked.callback.url) && !has_line_end(asked.callback.method), "the request line is split");
  for (const auto& [name, value] : asked.callback.headers)
    require(!has_line_end(name) && !has_line_end(value), "a header is split");
}

void check_query(std::string_view text) {
  const auto result = query::read(text, {"state", "after", "limit"});
  if (const auto* const wrong = std::get_if<std::string>(&result)) return require(!wrong->empty(), "no sentence");
  const auto decoded = std::get<query>(result)["after"];
  require(!decoded || decoded->size() <= text.size(), "a value is longer than its text");
}

// The answer of a callee in pieces has the outcome that it has in one.
struct whole_answer {
  response_reader::stage stage{};
  unsigned status = 0;
  std::string retry_after;
  bool operator==(const whole_answer&) const = default;
};

whole_answer read_answer(std::string_view bytes, std::size_t piece) {
  response_reader reader{{.header = 256, .body = 1024}, false};
  auto stage = response_reader::stage::reading;
  for (; !bytes.empty() && stage == response_reader::stage::reading; bytes.remove_prefix(std::min(piece, bytes.size())))
    stage = reader.take(bytes.substr(0, piece));
  if (stage == response_reader::stage::reading) stage = reader.end();
  if (stage == response_reader::stage::malformed) {
    require(reader.problem() != nullptr, "a malformed answer has no problem");
    return {.stage = stage};
  }
  return {stage, reader.status(), std::string{reader.retry_after().value_or("")}};
}

void check_answer(std::string_view bytes) {
  const whole_answer whole = read_answer(bytes, 97);
  require(whole == read_answer(bytes, 1), "an answer depends on how it was cut");
  const callback_outcome o = outcome_of(whole.status, whole.retry_after, std::chrono::system_clock::time_point{});
  require(o.what != callback_outcome::kind::asked_to_wait ||
              (o.delay >= std::chrono::seconds{1} && o.delay <= std::chrono::hours{1}),
          "a callee asks to wait for too short or too long a time");
}

bool is_part_of(std::string_view part, std::string_view whole) {
  return part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size();
}

// The host and the target are parts of the request. A target without an authority never takes the place of the Host header.
void check_addressee(std::string_view target) {
  constexpr std::string_view header = "header.example:80";
  const auto [host, rest] = addressee_of(target, header);
  const bool is_whole_url = !target.starts_with('/') && target.find("://") != target.npos;
  if (!is_whole_url) return require(host == header && rest == target, "a path is taken for a URL");
  require(is_part_of(host, target), "the host is not from the URL");
  require(host.find_first_of("/?@") == host.npos, "the host has what ends it");
  require(rest == "/" || is_part_of(rest, target), "the target is not from the URL");
  require(rest.starts_with('/') || rest.starts_with('?'), "a target has no path");
}

// An address that is taken is written in a form that is the same address.
void check_listen_address(std::string_view text) {
  const auto address = listen_address::read(text);
  if (!address) return;
  const std::string written = address->text();
  const auto again = listen_address::read(written);
  require(again && again->text() == written, "an address changes");
  require(again->is_loopback() == address->is_loopback(), "another address is loopback");
}

class taker final : public http_framing::handler {
 public:
  bool on_request(const http_framing::request& request) override {
    check_document(request.body());
    const std::string_view target{request.target().data(), request.target().size()};
    check_addressee(target);
    if (const auto decoded = percent_decode(target))
      require(percent_decode(percent_encode(*decoded)) == decoded, "an id changes");
    return ++requests_ % 3 != 0;
  }
  bool on_expect_continue() override { return true; }
  void on_refused(http_framing::status) override {
    require(!is_refused_, "more than one request was refused");
    is_refused_ = true;
  }

 private:
  unsigned requests_ = 0;
  bool is_refused_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input{reinterpret_cast<const char*>(data), size};
  check_document(input);
  moment when{};
  std::chrono::nanoseconds length{};
  (void)read_moment(input, when);
  (void)read_duration(input, length);
  (void)read_payload(input);
  check_query(input);
  check_answer(input);
  check_addressee(input);
  check_listen_address(input);

  constexpr framing_limits limits{.header = 256, .body = 1024};
  http_framing framing{limits};
  taker to;
  for (std::size_t at = 0; at < size; at += 97) {
    framing.take(input.substr(at, 97), to);
    while (framing.held_back()) framing.take({}, to);
    require(framing.buffered() < limits.header, "more was kept than a header may have");
  }
  return 0;
}
