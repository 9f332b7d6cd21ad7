// An HTTP/1.1 server that bounds what a peer may take: time for each phase of a request, time for each byte, memory.
//
//   http_server --port 8080 --header-timeout 5s --body-timeout 20s --keepalive-timeout 30s --max-age 10m --min-rate 500
//
// Read it from the top:
//
//   connection   one peer: its phases, its rate, and the bytes that it must still get
//   server       accepts connections, drains them on SIGTERM or SIGINT, counts
//
// Another file makes the answers: http_exchange.hpp, which knows no socket.

#include "../support/command_line.hpp"
#include "../support/descriptor_limit.hpp"
#include "../support/listen.hpp"
#include "../support/standard_descriptors.hpp"
#include "../support/stop_signals.hpp"
#include "../support/timeout_log.hpp"
#include "http_exchange.hpp"
#include "slow_writer.hpp"

#include <tickwheel/tickwheel.hpp>

#include <uv.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using tickwheel::drain_call;
using tickwheel::request_phase;

struct options {
  std::string address = "127.0.0.1";
  int port = 8080;
  milliseconds header = 10s, body = 60s, keep_alive = 75s, max_age = 1h;
  std::uint64_t min_rate = 240;  // bytes per second
  milliseconds rate_grace = 5s;
  milliseconds drain = 10s, drain_spread = 2s;
};

/// The number of peers that were cut for one reason, and how long after its limit the latest of them was.
struct cuts {
  std::uint64_t count = 0;
  std::chrono::nanoseconds latest{};
};

// The data that all connections share.
struct shared {
  tickwheel::event_loop loop;
  tickwheel::phase_limits phases;
  tickwheel::rate_limits rate;  // zero bytes per second: any rate
  std::chrono::nanoseconds look_at_taking{};
  std::uint64_t most = 0;               // connections open at once
  std::array<char, 65536> read_buffer;  // one for all: its bytes are parsed or copied before the next read
  std::string out;  // one for all: the answers of a read, until they are sent or belong to their connection

  std::uint64_t open = 0, accepted = 0, turned_away = 0, answered = 0, refused = 0;
  cuts header, body, keep_alive;
  std::uint64_t aged = 0, too_slow = 0, drained_idle = 0, hard_stops = 0;
};

// --- one peer --------------------------------------------------------------------------------------------------------

class connection final : private slow_writer::owner {
 public:
  /// Takes the connection that waits on `listener`. From then on it owns itself: its close callback deletes it.
  static void accept(shared& on, tickwheel::drain_group& drain, uv_stream_t* listener) {
    auto* const self = new connection{on, drain};
    if (uv_accept(listener, self->stream()) != 0) return self->close();
    if (on.open > on.most) {
      ++on.turned_away;
      return self->close();
    }
    if (self->phases_.start(on.phases) != 0 || self->read() != 0) return self->close();
    self->entered_phase();
    uv_tcp_nodelay(&self->socket_, 1);
  }

 private:
  connection(shared& on, tickwheel::drain_group& drain)
      : on_{on},
        group_{drain},
        exchange_{{}, on.phases.advertised_keep_alive()},
        phases_{on.loop.timers(), *this},
        rate_{on.loop.timers(), *this},
        linger_{on.loop.timers(), *this},
        drain_{drain, *this},
        rest_{on.loop.timers(), *stream(), *this} {
    uv_tcp_init(&on.loop.uv(), &socket_);  // cannot fail: it makes no socket yet
    socket_.data = this;
    ++on_.open;
    ++on_.accepted;
  }

  // --- bytes in

  int read() noexcept { return uv_read_start(stream(), give_buffer, on_read); }

  static void give_buffer(uv_handle_t* h, std::size_t, uv_buf_t* buffer) noexcept {
    auto& shared_by_all = static_cast<connection*>(h->data)->on_.read_buffer;
    *buffer = uv_buf_init(shared_by_all.data(), static_cast<unsigned>(shared_by_all.size()));
  }

  static void on_read(uv_stream_t* s, ssize_t size, const uv_buf_t* buffer) noexcept {
    auto& self = *static_cast<connection*>(s->data);
    if (size == 0) return;  // libuv's way to say "nothing yet"
    if (size == UV_EOF && !self.is_lingering_) {
      uv_read_stop(s);
      self.peer_ended_ = true;  // it may still read, and gets an answer to half a request
      self.exchange_.end(self.on_.out);
      return self.answer();
    }
    if (size < 0) return self.close();
    if (!self.is_lingering_) self.take({buffer->base, static_cast<std::size_t>(size)});
  }

  void take(std::string_view bytes) noexcept {
    if (phases_.phase() == request_phase::keep_alive) {
      phases_.on_bytes();
      entered_phase();
    }
    drain_.begin_request();
    rate_.progress(bytes.size());
    if (phases_.aged() || group_.draining()) exchange_.last_answer();  // never closed without a word
    const std::uint64_t answered_before = exchange_.answered();
    exchange_.take(bytes, on_.out);
    on_.answered += exchange_.answered() - answered_before;
    if (exchange_.answered() != answered_before) {
      phases_.on_request_end();
      rate_.cancel();
    }
    answer();
  }

  // All answers are sent. The connection waits for the next request, or that has already begun and gets a time of its own.
  void go_on() noexcept {
    const http_exchange::stage stage = exchange_.at();
    if (stage == http_exchange::stage::over) return finish();
    if (phases_.phase() == request_phase::response) {
      phases_.on_response_end();
      if (stage != http_exchange::stage::idle) phases_.on_bytes();
      entered_phase();
    }
    if (stage == http_exchange::stage::idle) drain_.end_request();
    if (stage == http_exchange::stage::body && phases_.phase() == request_phase::header) {
      phases_.on_header_end();
      entered_phase();
      if (demand_rate() != 0) return close();
    }
    if (exchange_.held_back()) take({});
  }

  void entered_phase() noexcept { phase_began_ = on_.loop.timers().now(); }

  int demand_rate() noexcept { return on_.rate.bytes_per_second == 0 ? 0 : rate_.start(on_.rate); }

  // --- bytes out

  // Nearly always the socket takes all at once. If not, nothing is read from the peer until it has taken the rest, which bounds our memory,
  // and it must take that at the least rate. The same happens if more requests wait for answers: other connections have their turn in
  // between.
  void answer() noexcept {
    std::string& out = on_.out;
    const std::size_t taken = exchange_.held_back() ? 0 : send(out);
    if (taken < out.size() && !uv_is_closing(handle())) {
      uv_read_stop(stream());
      if (demand_rate() != 0 || rest_.write(std::string_view{out}.substr(taken), on_.look_at_taking) != 0) close();
    } else if (!uv_is_closing(handle())) {
      go_on();
    }
    out.clear();
  }

  // Returns how much of it the socket takes at once. Closes the connection if that is broken.
  std::size_t send(std::string_view bytes) noexcept {
    const std::ptrdiff_t sent = rest_.try_write(bytes);
    if (sent < 0) close();
    return sent < 0 ? 0 : static_cast<std::size_t>(sent);
  }

  void on_taken(std::size_t bytes) noexcept override { rate_.progress(bytes); }

  void on_write_failed() noexcept override { close(); }

  void on_written() noexcept override {
    rate_.cancel();
    if (!peer_ended_ && read() != 0) return close();
    go_on();
  }

  // --- the end

  // All answers are given. A socket that is closed while the peer still sends resets the connection, and the peer may lose the last
  // answer. So the server reads from it a little longer.
  void finish() noexcept {
    if (peer_ended_) return close();
    phases_.cancel();
    rate_.cancel();
    is_lingering_ = true;
    if (uv_shutdown(&shutdown_, stream(), [](uv_shutdown_t*, int) {}) != 0 || linger_.arm(1s) != 0) close();
  }

  void on_phase_timeout(request_phase which) noexcept {
    switch (which) {
      case request_phase::header:
        log_timeout(on_.loop.timers(), "timed out in its header");
        count_cut(on_.header, on_.phases.header);
        break;
      case request_phase::body:
        log_timeout(on_.loop.timers(), "timed out in its body");
        count_cut(on_.body, on_.phases.body);
        break;
      case request_phase::keep_alive:
        log_timeout(on_.loop.timers(), "timed out between requests");
        count_cut(on_.keep_alive, on_.phases.keep_alive);
        break;
      default:
        log_timeout(on_.loop.timers(), "too old");
        ++on_.aged;
    }
    cut();
  }

  void on_too_slow() noexcept {
    log_timeout(on_.loop.timers(), "too slow");
    ++on_.too_slow;
    cut();
  }

  void count_cut(cuts& counted, std::chrono::nanoseconds limit) const noexcept {
    ++counted.count;
    counted.latest = std::max<std::chrono::nanoseconds>(counted.latest, tickwheel::clock::now() - phase_began_ - limit);
  }

  // A peer that has begun a request gets the reason, as far as the socket takes it at once. A peer that does not take its answer is reset,
  // or the system would go on offering the bytes that it took from us.
  void cut() noexcept {
    if (!rest_.is_idle()) return end(true);
    std::string goodbye;
    exchange_.time_out(goodbye);
    send(goodbye);
    close();
  }

  void on_drain(drain_call call) noexcept {
    ++(call == drain_call::idle ? on_.drained_idle : on_.hard_stops);
    close();
  }

  // Idempotent, because an error, a timeout and the drain may each call it.
  void close() noexcept { end(false); }

  void end(bool by_reset) noexcept {
    if (uv_is_closing(handle())) return;
    phases_.cancel();  // no handler must run between here and the destructor
    rate_.cancel();
    rest_.cancel();
    linger_.cancel();
    drain_.leave();
    --on_.open;
    on_.refused += exchange_.refused();
    const auto gone = [](uv_handle_t* h) { delete static_cast<connection*>(h->data); };
    if (!by_reset || uv_tcp_close_reset(&socket_, gone) != 0) uv_close(handle(), gone);
  }

  uv_stream_t* stream() noexcept { return reinterpret_cast<uv_stream_t*>(&socket_); }
  uv_handle_t* handle() noexcept { return reinterpret_cast<uv_handle_t*>(&socket_); }

  shared& on_;
  tickwheel::drain_group& group_;
  http_exchange exchange_;
  tickwheel::phase_timeouts<&connection::on_phase_timeout> phases_;
  tickwheel::minimum_rate<&connection::on_too_slow> rate_;
  tickwheel::member_timer<&connection::close> linger_;
  tickwheel::drain_member<&connection::on_drain> drain_;
  tickwheel::clock::time_point phase_began_{};  // to say how late a cut was
  uv_tcp_t socket_{};
  uv_shutdown_t shutdown_{};
  slow_writer rest_;  // of an answer
  bool peer_ended_ = false, is_lingering_ = false;
};

// --- all of them -----------------------------------------------------------------------------------------------------

class server {
 public:
  explicit server(const options& o)
      : limits_{.hard_stop = o.drain, .spread = o.drain_spread, .seed = static_cast<std::uint64_t>(uv_os_getpid())} {
    on_.phases = {.header = o.header, .body = o.body, .keep_alive = o.keep_alive, .max_age = o.max_age};
    on_.rate = {
        .bytes_per_second = o.min_rate, .grace = o.rate_grace, .interval = std::min(o.rate_grace, milliseconds{1s})};
    on_.look_at_taking = on_.rate.interval / 4;
  }

  /// Listens at `address`, and writes the port there if it was 0. Leaves descriptors for `most` connections. Returns 0 or a UV_ code.
  int listen(sockaddr_in& address, std::uint64_t most) noexcept {
    on_.most = most;
    if (const int error = on_.loop.open()) return error;
    if (const int error = signals_.start(on_.loop.uv())) return error;
    if (const int error = uv_tcp_init(&on_.loop.uv(), &listener_)) return error;
    listener_.data = this;
    const auto on_connection = [](uv_stream_t* listener, int error) {
      auto& self = *static_cast<server*>(listener->data);
      if (error == 0) connection::accept(self.on_, self.drain_, listener);
    };
    return listen_at(listener_, address, on_connection);
  }

  /// Returns after a signal, when all connections are closed.
  void run() noexcept { on_.loop.run(); }

  void end() noexcept {
    stop();
    on_.loop.close();
  }

  const shared& totals() const noexcept { return on_; }

 private:
  void stop() noexcept {
    signals_.close();
    auto* const listener = reinterpret_cast<uv_handle_t*>(&listener_);
    if (listener->data != nullptr && !uv_is_closing(listener)) uv_close(listener, nullptr);
    if (on_.open != 0 && drain_.start(limits_) == 0) drain_began_ = on_.loop.timers().now();
  }

  void on_drained() noexcept {
    const std::chrono::duration<double, std::milli> took = on_.loop.timers().now() - drain_began_;
    std::printf("drained in %.0f ms: %ju connections were idle, %ju stopped in a request\n", took.count(),
                std::uintmax_t{on_.drained_idle}, std::uintmax_t{on_.hard_stops});
  }

  shared on_;
  tickwheel::drain_limits limits_;
  tickwheel::drain<&server::on_drained> drain_{on_.loop.timers(), *this};
  tickwheel::clock::time_point drain_began_{};
  uv_tcp_t listener_{};
  stop_signals<&server::stop> signals_{*this};
};

int fail(const std::string& what, int error) {
  std::fprintf(stderr, "http_server: %s: %s\n", what.c_str(), uv_strerror(error));
  return exit_bad_usage;
}

void report(const char* what, const cuts& counted) {
  const std::chrono::duration<double, std::milli> latest = counted.latest;
  std::printf("cut for %s: %ju, the latest %.1f ms after its limit\n", what, std::uintmax_t{counted.count},
              latest.count());
}

int serve(const options& o) {
  sockaddr_in address{};
  if (const int error = uv_ip4_addr(o.address.c_str(), o.port, &address)) return fail("--address " + o.address, error);
  constexpr std::uint64_t others = 32;  // descriptors that are not connections
  const std::uint64_t limit = std::max<std::uint64_t>(raise_descriptor_limit(), 2 * others);

  server s{o};
  if (const int error = s.listen(address, limit - others)) {
    s.end();
    return fail("cannot listen on " + o.address + ":" + std::to_string(o.port), error);
  }
  std::printf("listening on %s:%d\n", o.address.c_str(), ntohs(address.sin_port));
  s.run();

  const shared& all = s.totals();
  std::printf("connections: %ju accepted, %ju turned away; requests: %ju answered, %ju refused\n",
              std::uintmax_t{all.accepted}, std::uintmax_t{all.turned_away}, std::uintmax_t{all.answered},
              std::uintmax_t{all.refused});
  report("header", all.header);
  report("body", all.body);
  report("keep-alive", all.keep_alive);
  std::printf("cut for age: %ju\ncut for rate: %ju\n", std::uintmax_t{all.aged}, std::uintmax_t{all.too_slow});
  s.end();
  if (all.open == 0) return 0;
  std::fprintf(stderr, "http_server: the loop did not end clean\n");
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_descriptors();
  options o;
  CLI::App app{"An HTTP server that bounds what a peer may take.", "http_server"};
  app.add_option("--address", o.address, "IPv4 address to listen at")->capture_default_str();
  app.add_option("--port", o.port, "0: one that is free, which the first line of output names")
      ->capture_default_str()
      ->check(CLI::Range(0, 65535));
  const auto limit = [&](const char* name, milliseconds& value, milliseconds least, const char* help) {
    add_duration(app, name, value, 1ms, least,
                 std::string{help} + ": milliseconds, or with a unit (500ms, 30s, 5m, 1h)");
  };
  limit("--header-timeout", o.header, 1ms, "how long a request's header may take [10s]");
  limit("--body-timeout", o.body, 1ms, "how long its body may take [60s]");
  limit("--keepalive-timeout", o.keep_alive, 1ms, "how long the next request is awaited [75s]");
  limit("--max-age", o.max_age, 1ms, "how old a connection gets [1h]");
  app.add_option("--min-rate", o.min_rate, "bytes per second, of a body and of an answer; 0: any")
      ->capture_default_str()
      ->check(CLI::Range(0, 1'000'000'000));
  limit("--min-rate-grace", o.rate_grace, 1ms, "how far a peer may be behind that rate [5s]");
  limit("--drain-timeout", o.drain, 1ms, "how long requests may take to end, once signalled [10s]");
  limit("--drain-spread", o.drain_spread, 0ms, "over how long those that do not are stopped [2s]");
  if (const auto code = parse_command_line(app, argc, argv)) return *code;

  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // whole lines, also into a pipe, where a script waits for the first
  std::signal(SIGPIPE, SIG_IGN);  // writing to a peer that is gone is an error of that peer, not the end of us
  return serve(o);
}
