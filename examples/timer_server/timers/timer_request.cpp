#include "timer_request.hpp"

#include "../callbacks/callback_caller.hpp"
#include "../text/times.hpp"

#include <boost/beast/core/string.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

namespace timer_server {
namespace {

using nlohmann::json;

// The fields of a document. `headers` is an object of strings, the others are strings.
enum class field : std::uint8_t { due, in, callback, method, headers, body, every, on_conflict };
constexpr std::array<std::string_view, 8> field_names{"due",     "in",   "callback", "method",
                                                      "headers", "body", "every",    "on_conflict"};

std::string in_quotes(std::string_view text) {
  constexpr std::size_t most = 64;  // a message need not repeat a long value
  // cut between characters, so that the message is UTF-8 as the document was
  std::size_t size = std::min(text.size(), most);
  while (size != 0 && size < text.size() && (static_cast<unsigned char>(text[size]) & 0xC0U) == 0x80U) --size;
  return '"' + std::string{text.substr(0, size)} + (size < text.size() ? "...\"" : "\"");
}

std::string without_name(std::string_view problem) {
  constexpr std::string_view end_of_name = ": ";
  const std::size_t at = problem.find(end_of_name);
  return std::string{at == std::string_view::npos ? problem : problem.substr(at + end_of_name.size())};
}

// Headers that the service sends itself. Those that frame a message are refused by `problem_of_header`.
bool is_reserved(std::string_view header) {
  constexpr std::string_view ours = "timer-";
  const auto view = [](std::string_view text) { return boost::beast::string_view{text.data(), text.size()}; };
  return boost::beast::iequals(view(header.substr(0, ours.size())), view(ours)) ||
         boost::beast::iequals(view(header), view("idempotency-key"));
}

// Follows the parser through the document, without a tree: nothing but an object of strings, and one of headers in it, is taken. So
// the depth of a document costs nothing, and a field that stands there twice is noticed.
class document_reader {
 public:
  using number_integer_t = json::number_integer_t;
  using number_unsigned_t = json::number_unsigned_t;
  using number_float_t = json::number_float_t;
  using string_t = json::string_t;
  using binary_t = json::binary_t;

  bool null() { return refuse_type("null"); }
  bool boolean(bool) { return refuse_type("a boolean"); }
  bool number_integer(number_integer_t) { return refuse_type("a number"); }
  bool number_unsigned(number_unsigned_t) { return refuse_type("a number"); }
  bool number_float(number_float_t, const string_t&) { return refuse_type("a number"); }
  bool binary(binary_t&) { return refuse_type("binary"); }
  bool start_array(std::size_t) { return refuse_type("an array"); }
  static bool end_array() { return true; }

  bool start_object(std::size_t) {
    if (depth_ == 0) return ++depth_, true;
    if (depth_ == 1 && at_ == field::headers) return ++depth_, true;
    return refuse_type("an object");
  }

  bool end_object() {
    --depth_;
    return true;
  }

  bool key(string_t& name) {
    if (depth_ == 2) {
      header_ = std::move(name);
      return true;
    }
    const auto* const known = std::find(field_names.begin(), field_names.end(), std::string_view{name});
    if (known == field_names.end()) return refuse(name, "The field " + in_quotes(name) + " is unknown.");
    const auto index = static_cast<std::size_t>(known - field_names.begin());
    if (std::exchange(seen_[index], true)) return refuse(name, "The field " + in_quotes(name) + " is given twice.");
    at_ = static_cast<field>(index);
    return true;
  }

  bool string(string_t& value) {
    if (depth_ == 0) return refuse_type("a string");
    if (depth_ == 2) return add_header(value);
    switch (at_) {
      case field::due:
        return read_due(value);
      case field::in:
        return read_length(value, asked_.in);
      case field::every:
        return read_length(value, asked_.every) && check_period(value);
      case field::callback:
        asked_.callback.url = std::move(value);
        return check_part(problem_of_url(asked_.callback.url), asked_.callback.url);
      case field::method:
        asked_.callback.method = std::move(value);
        return check_part(problem_of_method(asked_.callback.method), asked_.callback.method);
      case field::body:
        asked_.callback.body = std::move(value);
        return true;
      case field::on_conflict:
        return read_conflict(value);
      case field::headers:
        break;
    }
    return refuse_type("a string");
  }

  bool parse_error(std::size_t position, const std::string&, const json::exception&) { return refuse_byte(position); }
  bool refuse_byte(std::size_t position) {
    return refuse(std::nullopt,
                  "The document is not JSON in UTF-8: there is an error at byte " + std::to_string(position) + '.');
  }

  /// The end of the document was reached.
  std::variant<timer_request, request_mistake> result() && {
    if (mistake_.detail.empty()) check_whole();
    if (!mistake_.detail.empty()) return std::move(mistake_);
    return std::move(asked_);
  }

 private:
  std::string name() const { return std::string{field_names[static_cast<std::size_t>(at_)]}; }
  bool has(field f) const noexcept { return seen_[static_cast<std::size_t>(f)]; }

  bool refuse(std::optional<std::string> which, std::string why) {
    mistake_ = {std::move(which), std::move(why)};
    return false;
  }

  bool refuse_type(const char* given) {
    if (depth_ == 0) return refuse(std::nullopt, std::string{"The document is "} + given + "; it must be an object.");
    if (depth_ == 2)
      return refuse(name(), "headers: " + in_quotes(header_) + " is " + given + "; it must be a string.");
    return refuse(name(), name() + " is " + given + "; it must be " +
                              (at_ == field::headers ? "an object of strings." : "a string."));
  }

  bool check(const char* problem, std::string_view value) {
    return problem == nullptr || refuse(name(), name() + ": " + in_quotes(value) + ' ' + problem + '.');
  }

  // As above, for a problem that begins with the name of a part of a callback, such as "url: it has no host".
  bool check_part(const char* problem, std::string_view value) {
    return problem == nullptr || refuse(name(), name() + ": " + in_quotes(value) + ": " + without_name(problem) + '.');
  }

  bool read_due(std::string_view value) {
    moment when{};
    if (!check(read_moment(value, when), value)) return false;
    asked_.due = std::chrono::time_point_cast<tickwheel::durable::clock::duration>(when);
    return true;
  }

  bool read_length(std::string_view value, std::chrono::nanoseconds& into) {
    return check(read_duration(value, into), value);
  }

  bool check_period(std::string_view value) {
    return check(asked_.every < shortest_period ? "is too short: a period is at least PT1S" : nullptr, value);
  }

  bool read_conflict(std::string_view value) {
    using tickwheel::durable::on_conflict;
    if (value != "keep" && value != "replace") return check(R"(must be "keep" or "replace")", value);
    asked_.conflict = value == "keep" ? on_conflict::keep : on_conflict::replace;
    return true;
  }

  bool add_header(string_t& value) {
    auto& headers = asked_.callback.headers;
    const char* problem = problem_of_header(header_, value);
    if (problem == nullptr && is_reserved(header_)) problem = "the service sets Timer-* and Idempotency-Key itself";
    if (problem != nullptr)
      return refuse(name(), "headers: " + in_quotes(header_) + ": " + without_name(problem) + '.');
    const auto is_same = [this](const auto& other) { return boost::beast::iequals(other.first, header_); };
    if (std::any_of(headers.begin(), headers.end(), is_same))
      return refuse(name(), "headers: " + in_quotes(header_) + " is given twice.");
    if (headers.size() == max_callback_headers)
      return refuse(name(), "headers has more than " + std::to_string(max_callback_headers) + " of them.");
    headers.emplace_back(std::move(header_), std::move(value));
    return true;
  }

  void check_whole() {
    if (has(field::due) == has(field::in))
      refuse("due", has(field::due) ? "due and in are both given; give one of them." : "Give due or in.");
    else if (!has(field::callback))
      refuse("callback", "callback is missing: it is the URL that is called when the timer is due.");
  }

  timer_request asked_;
  request_mistake mistake_;
  std::array<bool, field_names.size()> seen_{};
  std::string header_;  // of the value that follows
  field at_{};          // as well, in the outer object
  int depth_ = 0;
};

}  // namespace

std::variant<timer_request, request_mistake> read_timer_request(std::string_view text) {
  document_reader reader;
  // the parser takes a zero byte for the end of the text
  if (const auto zero = text.find('\0'); zero != std::string_view::npos)
    reader.refuse_byte(zero + 1);
  else
    json::sax_parse(text, &reader);
  return std::move(reader).result();
}

}  // namespace timer_server
