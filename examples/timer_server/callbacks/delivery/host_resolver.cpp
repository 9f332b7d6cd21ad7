#include "host_resolver.hpp"

#include "../callback_caller.hpp"
#include "../message/url.hpp"

#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <utility>

namespace timer_server {

namespace {

constexpr std::chrono::seconds kept_for{1};

std::size_t size_of(const sockaddr& address) noexcept {
  return address.sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

void add(resolution& to, const sockaddr& address, const address_rules& rules) {
  if (address.sa_family != AF_INET && address.sa_family != AF_INET6) return;
  if (!rules.allows(address)) {
    to.refused = text_of(address);
    return;
  }
  sockaddr_storage copy{};
  std::memcpy(&copy, &address, size_of(address));
  const auto is_equal = [&](const sockaddr_storage& other) { return std::memcmp(&copy, &other, sizeof copy) == 0; };
  if (std::none_of(to.allowed.begin(), to.allowed.end(), is_equal)) to.allowed.push_back(copy);
}

/// Requires: `host` is an IPv4 or IPv6 address.
resolution check_literal(const std::string& host, const address_rules& rules) {
  resolution result;
  sockaddr_in6 ipv6{};
  sockaddr_in ipv4{};
  if (uv_ip4_addr(host.c_str(), 0, &ipv4) == 0)
    add(result, reinterpret_cast<const sockaddr&>(ipv4), rules);
  else if (uv_ip6_addr(host.c_str(), 0, &ipv6) == 0)
    add(result, reinterpret_cast<const sockaddr&>(ipv6), rules);
  else
    result.error = UV_EAI_NONAME;
  return result;
}

}  // namespace

resolution check_addresses(const addrinfo* addresses, const address_rules& rules) {
  resolution result;
  for (const addrinfo* a = addresses; a != nullptr; a = a->ai_next)
    if (a->ai_addr != nullptr) add(result, *a->ai_addr, rules);
  return result;
}

std::string text_of(const sockaddr& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.sa_family == AF_INET)
    uv_ip4_name(reinterpret_cast<const sockaddr_in*>(&address), text.data(), text.size());
  else
    uv_ip6_name(reinterpret_cast<const sockaddr_in6*>(&address), text.data(), text.size());
  return text.data();
}

const char* problem_of_address(const std::string& url, const address_rules& allowed) {
  callback_url parts;
  if (parse_url(url, parts) != nullptr || !parts.is_address) return nullptr;
  if (check_literal(parts.host, allowed).refused.empty()) return nullptr;
  return "the service may not call this address; the option --allow names those that it may call";
}

struct host_resolver::request {
  uv_getaddrinfo_t uv{};
  std::shared_ptr<host_resolver> owner;
  std::string host;
};

host_resolver::host_resolver(uv_loop_t& loop, const tickwheel::timer_service& timers, address_rules rules)
    : loop_{loop}, timers_{timers}, rules_{std::move(rules)} {}

std::shared_ptr<const resolution> host_resolver::resolve(const std::string& host, bool is_address, waiter& w) {
  if (is_address) return std::make_shared<const resolution>(check_literal(host, rules_));
  forget_old();
  name& n = names_[host];
  if (n.result != nullptr) return n.result;
  if (n.running == nullptr) {
    auto r = std::make_unique<request>();
    r->owner = shared_from_this();
    r->host = host;
    r->uv.data = r.get();
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    const auto on_done = [](uv_getaddrinfo_t* uv, int error, addrinfo* addresses) {
      const std::unique_ptr<request> done{static_cast<request*>(uv->data)};
      done->owner->on_addresses(*done, error, addresses);
      uv_freeaddrinfo(addresses);
    };
    if (const int error = uv_getaddrinfo(&loop_, &r->uv, on_done, host.c_str(), nullptr, &hints)) {
      names_.erase(host);
      return std::make_shared<const resolution>(resolution{.error = error});
    }
    n.running = r.release();  // until `on_done`
    ++resolutions_;
  }
  n.waiting.push_back(w);
  return nullptr;
}

void host_resolver::close() noexcept {
  closed_ = true;
  for (auto& [host, n] : names_) {
    n.waiting.clear();
    if (n.running != nullptr) uv_cancel(reinterpret_cast<uv_req_t*>(&n.running->uv));  // fails if it runs already
  }
}

void host_resolver::on_addresses(request& done, int error, const addrinfo* addresses) noexcept {
  const auto found = names_.find(done.host);
  name& n = found->second;
  n.running = nullptr;
  if (closed_) return;
  resolution checked = error == 0 ? check_addresses(addresses, rules_) : resolution{};
  checked.error = error;
  const auto result = std::make_shared<const resolution>(std::move(checked));
  waiters waiting;
  waiting.swap(n.waiting);
  if (error == 0) {
    n.result = result;
    n.kept_until = timers_.now() + kept_for;
  } else {
    names_.erase(found);
  }
  while (!waiting.empty()) {
    waiter& first = waiting.front();
    waiting.pop_front();
    first.on_resolved(result);
  }
}

// There are few: those of the last second, and those that are being resolved.
void host_resolver::forget_old() noexcept {
  const auto now = timers_.now();
  std::erase_if(names_,
                [&](const auto& entry) { return entry.second.result != nullptr && now >= entry.second.kept_until; });
}

}  // namespace timer_server
