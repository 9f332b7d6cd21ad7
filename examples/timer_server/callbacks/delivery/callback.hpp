// One call of an endpoint, from the moment at which it is asked for to its answer.
#pragma once

#include "../callback_outcome.hpp"
#include "../callback_request.hpp"
#include "../message/url.hpp"
#include "connection.hpp"
#include "host_resolver.hpp"

#include <tickwheel/net/deadline_timer.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace timer_server {

struct call_in_all;
struct call_in_queue;

/// Waits for its turn, resolves the host, connects, sends, and waits for the response.
///
/// *Lifetime:* owns itself: `end` deletes it.
class callback final : public auto_hook<call_in_all>, public auto_hook<call_in_queue>, private host_resolver::waiter {
 public:
  using answer = std::function<void(const callback_outcome&)>;

  /// `url` has the parts of the request's URL.
  callback(host_pool& host, callback_request request, callback_url url, answer answered);
  ~callback() = default;
  callback(const callback&) = delete;
  callback& operator=(const callback&) = delete;

  /// Begins to wait. May end it.
  void wait();

  /// Its turn: sends on `idle`, or opens a connection if that is null. May end it.
  void start(connection* idle);

  // Its connection tells it.
  void on_connected(int error) noexcept;
  void on_response(const response_reader& response) noexcept;
  /// `was_begun`: a part of the response has come.
  void on_lost(const char* why, bool was_begun) noexcept;

  /// Ends it: its answer is called later, and the callback is deleted. Its connection, if there is one, is closed.
  void end(callback_outcome outcome) noexcept;

  const callback_request& request() const noexcept { return request_; }
  const callback_url& url() const noexcept { return url_; }
  tickwheel::clock::time_point began() const noexcept { return began_; }

 private:
  enum class step { waiting, starting, resolving, connecting, exchanging };

  void resolve() noexcept;
  void on_resolved(std::shared_ptr<const resolution> result) noexcept override;
  void use(std::shared_ptr<const resolution> result) noexcept;
  void connect_next(int last_error) noexcept;
  void send() noexcept;
  void leave_place() noexcept;
  void on_timeout() noexcept;
  bool limit(tickwheel::deadline until) noexcept;

  host_pool& host_;
  callback_request request_;
  callback_url url_;
  answer answered_;
  tickwheel::clock::time_point began_;
  tickwheel::deadline attempt_until_;
  tickwheel::deadline_timer<&callback::on_timeout> timeout_;
  std::shared_ptr<const resolution> addresses_;
  std::size_t next_address_ = 0;
  connection* connection_ = nullptr;
  step step_ = step::waiting;
  bool has_place_ = false;    // in the pool, while there is no connection that has it
  bool is_repeated_ = false;  // because a reused connection was closed
};

}  // namespace timer_server
