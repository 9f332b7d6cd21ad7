#include "callback_outcome.hpp"

#include "../text/characters.hpp"

#include <boost/beast/http/status.hpp>

#include <algorithm>
#include <ctime>
#include <utility>

namespace timer_server {

namespace {

using namespace std::chrono_literals;
using kind = callback_outcome::kind;
using std::chrono::seconds;
using std::chrono::system_clock;

constexpr seconds least_wait = 1s, most_wait = 1h;

/// The three forms that RFC 9110, 5.6.7 asks to accept.
std::optional<std::time_t> parse_http_date(const std::string& text) {
  for (const char* const form : {"%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y"}) {
    std::tm parts{};
    const char* const end = strptime(text.c_str(), form, &parts);
    if (end == text.c_str() + text.size()) return timegm(&parts);
  }
  return std::nullopt;
}

std::string said(unsigned status) {
  std::string text = "the callee answered " + std::to_string(status);
  if (boost::beast::http::int_to_status(status) != boost::beast::http::status::unknown) {
    const auto reason = boost::beast::http::obsolete_reason(boost::beast::http::int_to_status(status));
    text.append(1, ' ').append(reason.data(), reason.size());
  }
  return text;
}

}  // namespace

std::optional<seconds> wait_of(std::string_view retry_after, system_clock::time_point now) {
  if (retry_after.empty()) return std::nullopt;
  if (std::all_of(retry_after.begin(), retry_after.end(), is_digit)) {
    seconds wait{};
    for (const char digit : retry_after) wait = std::min(most_wait, wait * 10 + seconds{digit - '0'});
    return std::max(wait, least_wait);
  }
  const auto date = parse_http_date(std::string{retry_after});
  if (!date) return std::nullopt;
  // In seconds: a date of the far future is beyond the clock.
  const auto wait = seconds{*date} - std::chrono::floor<seconds>(now.time_since_epoch());
  return std::clamp<seconds>(wait, least_wait, most_wait);
}

callback_outcome outcome_of(unsigned status, std::optional<std::string_view> retry_after,
                            system_clock::time_point now) {
  if (status / 100 == 2) return {.what = kind::done, .status = status};
  callback_outcome o{.what = kind::failed, .status = status, .error = said(status)};
  switch (status) {
    case 429:
    case 503:
      if (const auto wait = retry_after ? wait_of(*retry_after, now) : std::nullopt) {
        o.what = kind::asked_to_wait;
        o.delay = *wait;
      }
      return o;
    case 408:
    case 425:
      return o;
    default:
      if (status / 100 == 3) o.error += "; redirects are not followed";
      if (status / 100 == 3 || status / 100 == 4) o.what = kind::dead;
      return o;
  }
}

callback_outcome not_called_with(std::string error) { return {.what = kind::not_called, .error = std::move(error)}; }
callback_outcome failed_with(std::string error) { return {.what = kind::failed, .error = std::move(error)}; }
callback_outcome dead_with(std::string error) { return {.what = kind::dead, .error = std::move(error)}; }

}  // namespace timer_server
