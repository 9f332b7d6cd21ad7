#include "request_text.hpp"

#include <boost/beast/core/string.hpp>

#include <algorithm>

namespace timer_server {

namespace {

bool is_named(const std::pair<std::string, std::string>& header, boost::beast::string_view name) noexcept {
  return boost::beast::iequals(header.first, name);
}

/// Whether a request by this method has a length even if its body is empty (RFC 9110, 8.6).
bool usually_has_a_body(const std::string& method) noexcept {
  return method == "POST" || method == "PUT" || method == "PATCH";
}

void add_header(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\r\n");
}

}  // namespace

void write_request_head(std::string& out, const callback_request& request, const callback_url& url,
                        const std::optional<std::string>& signature) {
  out.assign(request.method).append(1, ' ').append(url.target).append(" HTTP/1.1\r\n");
  add_header(out, "Host", url.authority);
  const auto is_user_agent = [](const auto& header) { return is_named(header, "User-Agent"); };
  if (std::none_of(request.headers.begin(), request.headers.end(), is_user_agent))
    add_header(out, "User-Agent", "tickwheel-timer-server");
  for (const auto& [name, value] : request.headers) add_header(out, name, value);
  if (!request.body.empty() || usually_has_a_body(request.method))
    add_header(out, "Content-Length", std::to_string(request.body.size()));
  if (signature) add_header(out, "Timer-Signature", *signature);
  out += "\r\n";
}

}  // namespace timer_server
