#include "http_exchange.hpp"

#include <boost/beast/http/verb.hpp>

namespace http = boost::beast::http;

namespace {

// The resources that the server has.
constexpr std::string_view greeting = "Hello.\n";
constexpr std::size_t large_size = 1 << 20;  // of /large, for peers that read slowly

const std::string& large() {
  static const std::string text(large_size, 'x');
  return text;
}

std::string_view view(boost::beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace

// Answers the requests that the framing finds, until there is enough to send.
class http_exchange::answering final : public http_framing::handler {
 public:
  answering(http_exchange& of, std::string& out) noexcept : of_{of}, out_{out} {}

  bool on_request(const http_framing::request& request) override {
    of_.answer(request, out_);
    return has_room();
  }
  bool on_expect_continue() override {
    out_ += "HTTP/1.1 100 Continue\r\n\r\n";
    return has_room();
  }
  void on_refused(status why) override { of_.refuse(why, out_); }

  bool has_room() const noexcept { return out_.size() < of_.most_out_; }

 private:
  http_exchange& of_;
  std::string& out_;
};

void http_exchange::take(std::string_view bytes, std::string& out) {
  answering to{*this, out};
  if (to.has_room())
    framing_.take(bytes, to);
  else
    framing_.keep(bytes);
}

void http_exchange::end(std::string& out) {
  const bool has_begun = framing_.has_begun();
  framing_.stop();
  if (has_begun) refuse(status::bad_request, out);
}

void http_exchange::time_out(std::string& out) {
  const bool has_begun = framing_.has_begun();
  framing_.stop();
  if (has_begun) write(status::request_timeout, "", true, out);
}

void http_exchange::answer(const http_framing::request& request, std::string& out) {
  ++answered_;
  if (last_ || !request.keep_alive()) framing_.stop();
  const http::verb method = request.method();
  const bool reads = method == http::verb::get || method == http::verb::head;
  const std::string_view target = view(request.target());
  const std::string_view path = target.substr(0, target.find('?'));
  const bool with_body = method != http::verb::head;
  if (path != "/" && path != "/large" && path != "/echo")
    write(status::not_found, "Not here.\n", with_body, out);
  else if (path == "/echo" ? method != http::verb::post : !reads)
    write(status::method_not_allowed, "Not this way.\n", with_body, out);
  else if (path == "/echo")
    write(status::ok, request.body(), with_body, out);
  else
    write(status::ok, path == "/" ? greeting : large(), with_body, out);
}

void http_exchange::refuse(status why, std::string& out) {
  ++refused_;
  write(why, "", true, out);
}

void http_exchange::write(status code, std::string_view body, bool with_body, std::string& out) const {
  out += "HTTP/1.1 " + std::to_string(static_cast<unsigned>(code)) + ' ';
  out += view(http::obsolete_reason(code));
  out += "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  if (code == status::method_not_allowed) out += "Allow: GET, HEAD, POST\r\n";
  if (at() == stage::over)
    out += "Connection: close\r\n";
  else if (keep_alive_.count() != 0)
    out += "Connection: keep-alive\r\nKeep-Alive: timeout=" + std::to_string(keep_alive_.count()) + "\r\n";
  out += "\r\n";
  if (with_body) out += body;
}
