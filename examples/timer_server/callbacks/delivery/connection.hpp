// A connection to a callee: one socket, one request at a time.
#pragma once

#include "../message/response_reader.hpp"

#include <tickwheel/net/idle_timeout.hpp>

#include <uv.h>
#include <boost/intrusive/list.hpp>

#include <memory>
#include <optional>
#include <string>

namespace timer_server {

class callback;
class callback_dispatcher;
class host_pool;

/// Hooks of the lists of idle connections: those of its host, and those of all hosts, least recently used first.
struct idle_in_host;
struct idle_in_all;
struct open_in_all;
template <class Tag>
using auto_hook = boost::intrusive::list_base_hook<boost::intrusive::tag<Tag>,
                                                   boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;
template <class T, class Tag>
using auto_list =
    boost::intrusive::list<T, boost::intrusive::base_hook<auto_hook<Tag>>, boost::intrusive::constant_time_size<false>>;

/// *Lifetime:* owns itself: its close callback deletes it. Nobody keeps a pointer to it once it is closed. It takes a place in
/// its host's pool until then.
class connection : public auto_hook<idle_in_host>, public auto_hook<idle_in_all>, public auto_hook<open_in_all> {
 public:
  /// Connects to `address`, for `user`, who is told by `on_connected`. Returns null and sets `error` if that cannot even begin.
  static connection* open(host_pool& host, const sockaddr_storage& address, callback& user, int& error);

  /// Sends the request of `user`, who is told by `on_response` or `on_lost`, never within this call. Requires: connected, and
  /// there is no other request.
  void send(callback& user, const std::optional<std::string>& signature);

  /// Its user, if there is any, is told nothing more. Idempotent.
  void close() noexcept;

  /// True if it has served a request.
  bool has_served() const noexcept { return has_served_; }

 private:
  explicit connection(host_pool& host);

  void on_connected(int error) noexcept;
  void on_read(ssize_t size, const char* bytes) noexcept;
  void on_written(int error) noexcept;
  void on_idle() noexcept;

  void write(const uv_buf_t* buffers, unsigned count) noexcept;
  void go_on(response_reader::stage stage) noexcept;
  void lose(const char* why) noexcept;
  void unlink_idle() noexcept;

  uv_stream_t* stream() noexcept { return reinterpret_cast<uv_stream_t*>(&socket_); }
  uv_handle_t* handle() noexcept { return reinterpret_cast<uv_handle_t*>(&socket_); }

  std::shared_ptr<callback_dispatcher> on_;
  host_pool& host_;
  callback* user_ = nullptr;  // null: idle
  uv_tcp_t socket_{};
  uv_connect_t connect_{};
  uv_write_t write_{};
  std::string head_;  // of the request; kept for its memory
  std::optional<response_reader> reader_;
  tickwheel::idle_timeout<&connection::on_idle> idle_;
  bool has_served_ = false, is_writing_ = false;
};

}  // namespace timer_server
