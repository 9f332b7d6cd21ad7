#include "callback.hpp"

#include "../message/signature.hpp"
#include "callback_dispatcher.hpp"
#include "host_pool.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace timer_server {

using tickwheel::deadline;

callback::callback(host_pool& host, callback_request request, callback_url url, answer answered)
    : host_{host},
      request_{std::move(request)},
      url_{std::move(url)},
      answered_{std::move(answered)},
      began_{host.dispatcher().timers().read_clock()},
      timeout_{host.dispatcher().timers(), *this} {
  host_.add_call();
}

void callback::wait() {
  ++host_.dispatcher().waiting_;
  const callback_options& options = host_.dispatcher().options();
  if (limit(deadline::after(std::min(options.wait_timeout, options.total_timeout), began_))) host_.enqueue(*this);
}

void callback::start(connection* idle) {
  auto_hook<call_in_queue>::unlink();
  callback_dispatcher& on = host_.dispatcher();
  --on.waiting_;
  ++on.running_;
  step_ = step::starting;
  const auto now = on.timers().now();
  attempt_until_ = tighter(deadline::after(on.options().total_timeout, began_),
                           deadline::after(on.options().attempt_timeout, now < began_ ? began_ : now));
  if (!limit(attempt_until_)) return;
  connection_ = idle;
  if (idle != nullptr) return send();
  resolve();
}

void callback::resolve() noexcept {
  step_ = step::resolving;
  has_place_ = true;
  host_.take_place();
  if (auto known = host_.dispatcher().resolver().resolve(url_.host, url_.is_address, *this)) use(std::move(known));
}

void callback::on_resolved(std::shared_ptr<const resolution> result) noexcept {
  const callback_dispatcher::turn turn{host_.dispatcher()};
  use(std::move(result));
}

void callback::use(std::shared_ptr<const resolution> result) noexcept {
  addresses_ = std::move(result);
  if (addresses_->error != 0)
    return end(failed_with("the host's name could not be resolved: " + std::string{uv_strerror(addresses_->error)}));
  if (addresses_->allowed.empty()) {
    if (addresses_->refused.empty()) return end(failed_with("the host has no IPv4 or IPv6 address"));
    ++host_.dispatcher().counted_.disallowed;
    return end(dead_with("the host's address " + addresses_->refused + " is not among those that may be called"));
  }
  connect_next(0);
}

// Each address but the last may take its share of the time that is left, so that one which never answers leaves some to the
// others.
void callback::connect_next(int last_error) noexcept {
  step_ = step::connecting;
  const auto& all = addresses_->allowed;
  const auto now = host_.dispatcher().timers().read_clock();
  while (next_address_ < all.size()) {
    const auto left = static_cast<std::chrono::nanoseconds::rep>(all.size() - next_address_);
    const sockaddr_storage& address = all[next_address_++];
    if (!limit(left == 1 ? attempt_until_ : deadline::after(attempt_until_.remaining(now) / left, now))) return;
    leave_place();  // which the connection takes
    sockaddr_storage with_port = address;
    // the port is at the same place for both families
    reinterpret_cast<sockaddr_in&>(with_port).sin_port = htons(url_.port);
    connection_ = connection::open(host_, with_port, *this, last_error);
    if (connection_ != nullptr) return;
  }
  end(failed_with("no connection to " + url_.authority + ": " + uv_strerror(last_error)));
}

void callback::on_connected(int error) noexcept {
  if (error != 0) {
    connection_ = nullptr;
    return connect_next(error);
  }
  if (limit(attempt_until_)) send();
}

void callback::send() noexcept {
  step_ = step::exchanging;
  const std::string& secret = host_.dispatcher().options().secret;
  if (secret.empty()) return connection_->send(*this, std::nullopt);
  const auto signature = signature_of(request_.body, secret, std::chrono::system_clock::now());
  if (!signature) return end(failed_with("the body could not be signed"));
  connection_->send(*this, signature);
}

void callback::on_response(const response_reader& response) noexcept {
  connection_ = nullptr;
  end(outcome_of(response.status(), response.retry_after(), std::chrono::system_clock::now()));
}

// A connection that was kept may have been closed by the callee just before it was used again. Then nothing is known of the
// request, and it is sent once more. It is the same call, so its headers are the same, also Timer-Token. A callee that has seen it
// tells that by its Idempotency-Key.
void callback::on_lost(const char* why, bool was_begun) noexcept {
  const bool was_reused = addresses_ == nullptr;
  connection_ = nullptr;
  if (!was_reused || was_begun || is_repeated_) return end(failed_with(why));
  is_repeated_ = true;
  ++host_.dispatcher().counted_.repeated;
  resolve();
}

void callback::end(callback_outcome outcome) noexcept {
  timeout_.cancel();
  --(step_ == step::waiting ? host_.dispatcher().waiting_ : host_.dispatcher().running_);
  leave_place();
  if (connection_ != nullptr) connection_->close();
  auto_hook<call_in_queue>::unlink();
  auto_hook<call_in_all>::unlink();
  host_.remove_call();
  host_.dispatcher().ended(std::move(answered_), std::move(outcome));
  delete this;
}

void callback::leave_place() noexcept {
  if (std::exchange(has_place_, false)) host_.leave_place();
}

void callback::on_timeout() noexcept {
  const callback_dispatcher::turn turn{host_.dispatcher()};
  if (step_ == step::connecting && next_address_ < addresses_->allowed.size()) {
    if (connection_ != nullptr) std::exchange(connection_, nullptr)->close();
    return connect_next(UV_ETIMEDOUT);
  }
  ++host_.dispatcher().counted_.timed_out;
  switch (step_) {
    case step::waiting:
      host_.on_waited_in_vain();
      return end(not_called_with("timed out: no connection became free"));
    case step::starting:
    case step::resolving:
      return end(failed_with("timed out: the host's name was not resolved"));
    case step::connecting:
      return end(failed_with("timed out: no connection to " + url_.authority));
    case step::exchanging:
      return end(failed_with("timed out: the response was not complete"));
  }
}

// Ends the call, and returns false, if that is not possible.
bool callback::limit(deadline until) noexcept {
  const int error = timeout_.start(until);
  if (error == 0) return true;
  if (error == UV_ETIMEDOUT) ++host_.dispatcher().counted_.timed_out;
  if (error == UV_ETIMEDOUT && step_ == step::starting) {
    host_.on_waited_in_vain();
    end(not_called_with("timed out: no connection became free"));  // one did, but too late
  } else {
    end(failed_with(error == UV_ETIMEDOUT ? "timed out" : uv_strerror(error)));
  }
  return false;
}

}  // namespace timer_server
