// The hosts of a conninfo, with their addresses. libpq would block the loop while it resolves a name.
#pragma once

#include "effective_options.hpp"

#include <uv.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace tickwheel::durable::postgres {

/// A host to connect to.
struct host_address {
  std::string host;     // its name, for TLS and passwords; or the folder of a Unix socket
  std::string address;  // empty: libpq takes `host`, which is no name
  std::string port;
};
using host_list = std::vector<host_address>;

/// Returns why libpq refuses the hosts, addresses and ports before it connects. Empty: it does not.
std::string problem_of_hosts(const effective_options&);

/// Asks libuv's thread pool for the addresses of the names that a conninfo, its service or the environment has.
///
/// *Thread safety:* the loop thread. *Lifetime:* it may be destroyed while a name is being resolved. The loop stays alive until
/// the system's resolver has returned.
class host_names {
 public:
  class client {
   public:
    /// None: there is no name to resolve, or the hosts are invalid, and libpq says why.
    virtual void on_resolved(host_list) noexcept = 0;
    /// No host has an address.
    virtual void on_unresolved(const std::string& why) noexcept = 0;

   protected:
    ~client() = default;
  };

  host_names(uv_loop_t& loop, client& of) noexcept : loop_{loop}, client_{of} {}
  ~host_names() { stop(); }
  host_names(const host_names&) = delete;
  host_names& operator=(const host_names&) = delete;

  /// Calls the client, perhaps within this call.
  void start(const std::string& conninfo);
  /// Calls nobody any more.
  void stop() noexcept;

 private:
  struct host {
    std::string name, port;
    std::vector<std::string> addresses;
    bool is_name = false;  // to be resolved
  };
  struct request {
    uv_getaddrinfo_t handle{};
    host_names* owner = nullptr;  // null: nobody waits for the answer
  };

  void read_hosts(const std::string& conninfo);
  void resolve_next();
  void on_answer(int error, const addrinfo* found);
  void finish();

  uv_loop_t& loop_;
  client& client_;
  std::vector<host> hosts_;
  std::size_t next_ = 0;
  std::string problem_;
  request* running_ = nullptr;  // frees itself
};

}  // namespace tickwheel::durable::postgres
