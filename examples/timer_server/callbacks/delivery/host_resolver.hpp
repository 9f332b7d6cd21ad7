// From the names of hosts to the addresses that may be called.
#pragma once

#include "../address_rules.hpp"

#include <tickwheel/uv/timer_service.hpp>

#include <uv.h>
#include <boost/intrusive/list.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace timer_server {

/// The addresses of a host's name. Only addresses that may be called are kept, and only they are ever connected to.
struct resolution {
  int error = 0;                            // UV_EAI_...: the name has no addresses, or nobody could say
  std::vector<sockaddr_storage> allowed{};  // without a port; in the order in which they are to be tried
  std::string refused{};                    // one that may not be called, if there is any
};

/// Sorts addresses by the rules. An address that is there twice is kept once.
resolution check_addresses(const addrinfo* addresses, const address_rules& rules);

/// Returns `address` in its usual form, for messages.
std::string text_of(const sockaddr& address);

/// Resolves names, on libuv's threads. A result is kept for a second, so that a burst of calls asks once.
///
/// *Lifetime:* held by a std::shared_ptr, which requests on their way also do. After `close` no waiter is called.
class host_resolver : public std::enable_shared_from_this<host_resolver> {
 public:
  /// Waits for a resolution. It stops waiting if it is destroyed or unlinked.
  class waiter : public boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
   public:
    virtual void on_resolved(std::shared_ptr<const resolution> result) noexcept = 0;

   protected:
    ~waiter() = default;
  };

  host_resolver(uv_loop_t& loop, const tickwheel::timer_service& timers, address_rules rules);

  /// Returns the result if it is known. Otherwise null: `w` is called with it later.
  std::shared_ptr<const resolution> resolve(const std::string& host, bool is_address, waiter& w);

  /// Stops. Requests that have begun keep the loop alive until the system's resolver gives up.
  void close() noexcept;

  std::uint64_t resolutions() const noexcept { return resolutions_; }

 private:
  struct request;
  using waiters = boost::intrusive::list<waiter, boost::intrusive::constant_time_size<false>>;
  struct name {
    waiters waiting;
    request* running = nullptr;
    std::shared_ptr<const resolution> result;  // null while it runs
    tickwheel::clock::time_point kept_until{};
  };

  void on_addresses(request& done, int error, const addrinfo* addresses) noexcept;
  void forget_old() noexcept;

  uv_loop_t& loop_;
  const tickwheel::timer_service& timers_;
  address_rules rules_;
  std::unordered_map<std::string, name> names_;
  std::uint64_t resolutions_ = 0;
  bool closed_ = false;
};

}  // namespace timer_server
