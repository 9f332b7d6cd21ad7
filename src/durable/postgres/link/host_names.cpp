#include "host_names.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>

namespace tickwheel::durable::postgres {

namespace {

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> parts;
  for (;;) {
    const auto comma = list.find(',');
    parts.emplace_back(list.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    list.remove_prefix(comma + 1);
  }
}

bool is_address(const std::string& host) noexcept {
  std::array<unsigned char, sizeof(in6_addr)> ignored{};
  return ::inet_pton(AF_INET, host.c_str(), ignored.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), ignored.data()) == 1;
}

// As libpq asks, without a name server. The interface behind the % of an IPv6 address may not be there yet.
bool is_address_of_libpq(const std::string& text) noexcept {
  const auto end = text.find(':') == std::string::npos ? std::string::npos : text.find('%');
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (::getaddrinfo(text.substr(0, end).c_str(), nullptr, &hints, &found) != 0) return false;
  ::freeaddrinfo(found);
  return true;
}

// The hosts, addresses and ports of a connection.
struct host_lists {
  explicit host_lists(const effective_options& of)
      : has_names{!of.value("host").empty()},
        has_addresses{!of.value("hostaddr").empty()},
        names{split(of.value("host"))},
        addresses{split(of.value("hostaddr"))},
        ports{split(of.value("port"))} {}
  std::size_t count() const noexcept { return has_addresses ? addresses.size() : names.size(); }
  bool fit() const noexcept {
    return (!has_addresses || !has_names || names.size() == count()) && (ports.size() == 1 || ports.size() == count());
  }

  bool has_names, has_addresses;
  std::vector<std::string> names, addresses, ports;
};

// a path, an abstract socket, or the default
bool is_local(const std::string& host) noexcept { return host.empty() || host[0] == '/' || host[0] == '@'; }

}  // namespace

std::string problem_of_hosts(const effective_options& options) {
  const host_lists of{options};
  if (!of.fit()) return "the numbers of hosts, addresses and ports differ";
  const auto is_wrong = [](const std::string& a) { return !a.empty() && !is_address_of_libpq(a); };
  const auto wrong = std::find_if(of.addresses.begin(), of.addresses.end(), is_wrong);
  return wrong != of.addresses.end() ? "the hostaddr " + *wrong + " is no address" : std::string{};
}

void host_names::start(const std::string& conninfo) {
  stop();
  read_hosts(conninfo);
  next_ = 0;
  problem_.clear();
  resolve_next();
}

void host_names::stop() noexcept {
  if (running_ != nullptr) std::exchange(running_, nullptr)->owner = nullptr;
}

void host_names::read_hosts(const std::string& conninfo) {
  hosts_.clear();
  const host_lists of{effective_options{conninfo}};
  if ((!of.has_addresses && !of.has_names) || !of.fit()) return;  // libpq says what is wrong
  for (std::size_t i = 0; i != of.count(); ++i) {
    host& h = hosts_.emplace_back();
    h.name = i < of.names.size() ? of.names[i] : std::string{};
    h.port = of.ports[of.ports.size() == 1 ? 0 : i];
    h.is_name = !of.has_addresses && !is_local(h.name) && !is_address(h.name);
    if (of.has_addresses) h.addresses.push_back(of.addresses[i]);
  }
}

void host_names::resolve_next() {
  while (next_ != hosts_.size() && !hosts_[next_].is_name) ++next_;
  if (next_ == hosts_.size()) return finish();
  auto asked = std::make_unique<request>();
  asked->owner = this;
  asked->handle.data = asked.get();
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  const int error = uv_getaddrinfo(
      &loop_, &asked->handle,
      [](uv_getaddrinfo_t* handle, int status, addrinfo* found) {
        const std::unique_ptr<request> done{static_cast<request*>(handle->data)};
        const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list{found, &uv_freeaddrinfo};
        if (done->owner == nullptr) return;
        done->owner->running_ = nullptr;
        done->owner->on_answer(status, found);
      },
      hosts_[next_].name.c_str(), nullptr, &hints);
  if (error != 0) return on_answer(error, nullptr);
  running_ = asked.release();
}

void host_names::on_answer(int error, const addrinfo* found) {
  host& of = hosts_[next_++];
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    const int converted = a->ai_family == AF_INET6
                              ? uv_ip6_name(reinterpret_cast<const sockaddr_in6*>(a->ai_addr), text.data(), text.size())
                              : uv_ip4_name(reinterpret_cast<const sockaddr_in*>(a->ai_addr), text.data(), text.size());
    if (converted == 0) of.addresses.emplace_back(text.data());
  }
  if (error != 0) {
    if (!problem_.empty()) problem_ += "; ";
    problem_ += "the host name " + of.name + " cannot be resolved: " + uv_strerror(error);
  }
  resolve_next();
}

// Each address of a name becomes a host of its own. Names without an address are left out.
void host_names::finish() {
  host_list all;
  for (const host& h : hosts_) {
    for (const std::string& address : h.addresses) all.push_back({h.name, address, h.port});
    if (h.addresses.empty() && !h.is_name) all.push_back({h.name, {}, h.port});
  }
  if (all.empty() && !hosts_.empty()) return client_.on_unresolved(problem_);
  client_.on_resolved(std::move(all));
}

}  // namespace tickwheel::durable::postgres
