// The libFuzzer target of the timer server's input: the framing of requests, and the documents in them.
#include "http_framing.hpp"
#include "timer_server/percent_encoding.hpp"
#include "timer_server/timer_payload.hpp"
#include "timer_server/timer_request.hpp"
#include "timer_server/times.hpp"

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

class taker final : public http_framing::handler {
 public:
  bool on_request(const http_framing::request& request) override {
    check_document(request.body());
    const std::string_view target{request.target().data(), request.target().size()};
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
