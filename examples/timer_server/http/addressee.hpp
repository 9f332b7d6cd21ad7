// Whom a request is for: the host that its client means, and what it asks of that host.
#pragma once

#include <string_view>

namespace timer_server {

/// Parts of a request, as its client wrote them.
struct addressee {
  std::string_view host;  // with the port, if there is one
  std::string_view
      target;  // path and query; begins with '/' or '?', unless the client wrote neither a path nor a whole URL
};

/// Reads the target of a request and its Host header. A target may be a whole URL, as proxies write it. Its host counts then, instead
/// of the header (RFC 9112, 3.2.2). The views are parts of `target` and `host_header`.
addressee addressee_of(std::string_view target, std::string_view host_header) noexcept;

}  // namespace timer_server
