#include "addressee.hpp"

#include <algorithm>
#include <cstddef>

namespace timer_server {

addressee addressee_of(std::string_view target, std::string_view host_header) noexcept {
  const std::size_t scheme = target.find("://");
  if (target.starts_with('/') || scheme == std::string_view::npos) return {host_header, target};
  const std::string_view rest = target.substr(scheme + 3);
  const std::size_t end = std::min(rest.find_first_of("/?"), rest.size());
  const std::string_view authority = rest.substr(0, end);
  const std::string_view host = authority.substr(authority.rfind('@') + 1);  // npos + 1 is 0
  return {host, end == rest.size() ? "/" : rest.substr(end)};
}

}  // namespace timer_server
