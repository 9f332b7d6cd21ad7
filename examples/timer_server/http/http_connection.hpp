// One peer of the service: its requests, the time and memory that they may take, and the answers, which come later.
#pragma once

#include "../../http/http_framing.hpp"
#include "../../http/slow_writer.hpp"
#include "api.hpp"

#include <tickwheel/tickwheel.hpp>

#include <uv.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace timer_server {

/// All connections share this.
struct connections {
  tickwheel::event_loop& loop;
  tickwheel::drain_group& drain;
  api* requests = nullptr;  // set before the first connection is accepted
  framing_limits framing{};
  tickwheel::phase_limits phases{};
  tickwheel::rate_limits rate{};          // of a body that comes and of an answer that goes
  std::size_t most = 1024;                // open at once
  std::array<char, 65536> read_buffer{};  // one for all: what was read is parsed or copied before the next read
  std::string out{};                      // one for all, while an answer is put together

  // counters
  std::size_t open = 0;
  std::uint64_t accepted = 0, turned_away = 0;
  std::array<std::uint64_t, 6> answers{};  // by the first digit of their status
  std::uint64_t cut_header = 0, cut_body = 0, cut_keep_alive = 0, cut_age = 0, cut_rate = 0;
};

/// A connection answers one request at a time. While it waits for an answer it keeps what the peer sends on, up to the limit of a
/// header, and then reads no more.
///
/// *Lifetime:* it owns itself from `accept` until its socket is closed. An answer that comes later finds it gone.
class http_connection final : public std::enable_shared_from_this<http_connection>,
                              private http_framing::handler,
                              private slow_writer::owner {
 public:
  /// Takes the connection that waits on `listener`.
  static void accept(connections& on, uv_stream_t& listener) noexcept;

  explicit http_connection(connections& on);
  ~http_connection() = default;
  http_connection(const http_connection&) = delete;
  http_connection& operator=(const http_connection&) = delete;

 private:
  // An answer must know this of its request.
  struct asked {
    bool is_head = false;
    bool keep_alive = true;
  };

  // bytes in
  int read() noexcept;
  void on_read(ssize_t size, std::string_view bytes) noexcept;
  void take(std::string_view bytes) noexcept;
  void on_end_of_input() noexcept;
  bool on_request(const http_framing::request&) override;
  bool on_expect_continue() override;
  void on_refused(http_framing::status) override;

  // bytes out; `flush` and `go_on` return true if bytes are kept that may be the next request: `take` nothing
  void answer_with(const http_answer&) noexcept;
  void write_answer(const http_answer&);
  [[nodiscard]] bool flush() noexcept;
  std::size_t send(std::string_view bytes) noexcept;
  void on_taken(std::size_t) noexcept override;
  void on_written() noexcept override;
  void on_write_failed() noexcept override;
  [[nodiscard]] bool go_on() noexcept;

  // the end
  void finish() noexcept;
  void on_phase_timeout(tickwheel::request_phase) noexcept;
  void on_too_slow() noexcept;
  void on_drain(tickwheel::drain_call) noexcept;
  void cut() noexcept;
  void close() noexcept { end(false); }
  void end(bool by_reset) noexcept;

  int demand_rate() noexcept;
  bool is_closing() noexcept { return uv_is_closing(handle()) != 0; }
  uv_stream_t* stream() noexcept { return reinterpret_cast<uv_stream_t*>(&socket_); }
  uv_handle_t* handle() noexcept { return reinterpret_cast<uv_handle_t*>(&socket_); }

  connections& on_;
  std::shared_ptr<http_connection> self_;  // until the socket is closed
  http_framing framing_;
  tickwheel::phase_timeouts<&http_connection::on_phase_timeout> phases_;
  tickwheel::minimum_rate<&http_connection::on_too_slow> rate_;
  tickwheel::member_timer<&http_connection::close> linger_;
  tickwheel::drain_member<&http_connection::on_drain> drain_;
  uv_tcp_t socket_{};
  uv_shutdown_t shutdown_{};
  slow_writer rest_;              // of an answer
  std::optional<asked> waiting_;  // for its answer
  bool is_reading_ = false, is_taking_ = false, is_lingering_ = false;
  bool peer_ended_ = false;  // it sends no more
};

}  // namespace timer_server
