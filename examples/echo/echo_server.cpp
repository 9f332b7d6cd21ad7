// A TCP echo server that closes connections whose peer has gone silent.
//
//   echo_server --port 7000 --loops 2 --idle-timeout 30s
//
// Each loop is a thread with a uv_loop_t, a tickwheel::timer_service and a listening socket of its own. The kernel spreads the
// connections among the sockets (SO_REUSEPORT), so that loops share nothing. Read it from the top:
//
//   connection   one peer; embeds its idle timeout
//   worker       one loop: accepts connections, publishes figures, drains
//   supervisor   the main thread's loop: waits for signals, prints the figures

#include "../support/command_line.hpp"
#include "../support/descriptor_limit.hpp"
#include "../support/standard_descriptors.hpp"
#include "../support/stop_signals.hpp"
#include "../support/timeout_log.hpp"

#include <tickwheel/tickwheel.hpp>

#include <sys/socket.h>
#include <uv.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

// --- one peer --------------------------------------------------------------------------------------------------------

// The data that the connections of one loop share. Only the loop's own thread touches it, so it needs no lock.
// How late idle closes were, all together, by cause.
struct lateness_of_closes {
  std::chrono::nanoseconds rounding{}, poll{}, carried{}, stall{};

  void add(const tickwheel::expiry_report& why) noexcept { add({why.rounding, why.poll, why.carried, why.stall}); }
  void add(const lateness_of_closes& other) noexcept {
    rounding += other.rounding;
    poll += other.poll;
    carried += other.carried;
    stall += other.stall;
  }
};

struct loop_context {
  tickwheel::event_loop loop;
  milliseconds idle_limit{};
  std::uint64_t most = 0;               // connections open at once
  std::array<char, 65536> read_buffer;  // one for all: what was read is sent or copied before the next read
  std::uint64_t open = 0;
  std::uint64_t accepted = 0;
  std::uint64_t messages = 0;  // reads, to be exact: TCP knows no messages
  std::uint64_t idle_closes = 0;
  lateness_of_closes late{};
  std::uint64_t turned_away = 0;
};

class connection {
 public:
  /// Takes the connection that waits on `listener`. From then on it owns itself: its close callback deletes it.
  static void accept(loop_context& on, uv_stream_t* listener) {
    auto* const self = new connection{on};
    if (uv_accept(listener, self->stream()) != 0) return self->close();
    if (on.open > on.most) {
      ++on.turned_away;
      return self->close();
    }
    if (self->idle_.start(on.idle_limit) != 0 || uv_read_start(self->stream(), give_buffer, on_read) != 0)
      return self->close();
    uv_tcp_nodelay(&self->socket_, 1);  // an echo must not wait until there are more of them
  }

  /// Idempotent, because an error, the idle timeout and the drain may each call it.
  void close() noexcept {
    if (uv_is_closing(handle())) return;
    idle_.cancel();  // the handler must not run between here and the destructor
    --on_.open;
    uv_close(handle(), [](uv_handle_t* h) { delete static_cast<connection*>(h->data); });
  }

 private:
  explicit connection(loop_context& on) : on_{on}, idle_{on.loop.timers(), *this} {
    uv_tcp_init(&on.loop.uv(), &socket_);  // cannot fail: it makes no socket yet
    socket_.data = this;
    ++on_.open;
    ++on_.accepted;
  }

  void on_idle() noexcept {
    ++on_.idle_closes;
    on_.late.add(on_.loop.timers().why());
    log_timeout(on_.loop.timers(), "closed as idle", idle_.silence());
    close();
  }

  // The bytes that the peer has not taken yet. The idle timeout asks for them, so that a peer that takes them slowly does not count as
  // idle.
  std::size_t queued() const noexcept {
    return uv_stream_get_write_queue_size(reinterpret_cast<const uv_stream_t*>(&socket_));
  }

  static void give_buffer(uv_handle_t* h, std::size_t, uv_buf_t* buffer) noexcept {
    auto& shared = static_cast<connection*>(h->data)->on_.read_buffer;
    *buffer = uv_buf_init(shared.data(), static_cast<unsigned>(shared.size()));
  }

  static void on_read(uv_stream_t* s, ssize_t size, const uv_buf_t* buffer) noexcept {
    auto& self = *static_cast<connection*>(s->data);
    if (size < 0) return self.close();  // the peer is gone
    if (size == 0) return;              // libuv's way to say "nothing yet"
    self.idle_.touch();
    ++self.on_.messages;
    self.echo(buffer->base, static_cast<std::size_t>(size));
  }

  // Nearly always the socket takes all at once, from the read buffer: no copy, no allocation. If it does not, the peer sends faster than
  // it reads. Then nothing is read from it until it has taken the rest, which bounds our memory.
  void echo(const char* data, std::size_t size) noexcept {
    uv_buf_t bytes = uv_buf_init(const_cast<char*>(data), static_cast<unsigned>(size));
    const int sent = uv_try_write(stream(), &bytes, 1);
    if (sent < 0 && sent != UV_EAGAIN) return close();
    const std::size_t taken = sent < 0 ? 0 : static_cast<std::size_t>(sent);
    if (taken == size) return;
    uv_read_stop(stream());
    unsent_.assign(data + taken, data + size);
    bytes = uv_buf_init(unsent_.data(), static_cast<unsigned>(unsent_.size()));
    if (uv_write(&write_, stream(), &bytes, 1, on_written) != 0) return close();
    idle_.add_queued(unsent_.size());
  }

  static void on_written(uv_write_t* write, int error) noexcept {
    auto& self = *static_cast<connection*>(write->handle->data);
    if (error != 0) return self.close();  // also called, with UV_ECANCELED, when it is closing already
    self.idle_.set_queued(0);             // the peer took the rest, and is not idle
    if (uv_read_start(self.stream(), give_buffer, on_read) != 0) self.close();
  }

  uv_stream_t* stream() noexcept { return reinterpret_cast<uv_stream_t*>(&socket_); }
  uv_handle_t* handle() noexcept { return reinterpret_cast<uv_handle_t*>(&socket_); }

  loop_context& on_;
  tickwheel::all_idle_timeout<&connection::on_idle, &connection::queued> idle_;
  uv_tcp_t socket_{};
  uv_write_t write_{};
  std::vector<char> unsent_;
};

// --- one loop --------------------------------------------------------------------------------------------------------

// The figures that a worker publishes twice per second, for the supervisor. Timers and their statistics belong to the loop's thread, so
// a worker reads its own and stores the figures here. They need no order among each other, hence relaxed.
struct published_figures {
  std::atomic<std::uint64_t> connections{0}, messages_per_second{0}, idle_closes{0};
  std::atomic<std::int64_t> late_p50_us{0}, late_p99_us{0};
};

class worker {
 public:
  worker(milliseconds idle_limit, std::uint64_t most_connections) {
    context_.idle_limit = idle_limit;
    context_.most = most_connections;
  }
  ~worker() { end(); }

  /// Listens at `address`, and writes the port there if it was 0. The `first` worker must find the port free. The others share it with
  /// that worker. Returns 0 or a UV_ code.
  int listen(sockaddr_in& address, bool first) {
    if (const int error = context_.loop.open()) return error;
    uv_loop_t* const loop = &context_.loop.uv();
    if (const int error = uv_async_init(loop, &stop_, [](uv_async_t* h) { of(h).drain(); })) return error;
    stop_.data = this;
    stoppable_ = true;
    if (const int error = uv_tcp_init_ex(loop, &listener_, AF_INET)) return error;
    listener_.data = this;
    listening_ = true;

    // The first binds without SO_REUSEPORT. With it, the worker would silently share the port with another running server.
    if (!first)
      if (const int error = share_port()) return error;
    if (const int error = uv_tcp_bind(&listener_, reinterpret_cast<const sockaddr*>(&address), 0)) return error;
    if (first)
      if (const int error = share_port()) return error;
    const auto on_connection = [](uv_stream_t* s, int error) {
      if (error == 0) connection::accept(of(s).context_, s);
    };
    if (const int error = uv_listen(reinterpret_cast<uv_stream_t*>(&listener_), SOMAXCONN, on_connection)) return error;
    int size = sizeof address;
    if (const int error = uv_tcp_getsockname(&listener_, reinterpret_cast<sockaddr*>(&address), &size)) return error;
    return publish_timer_.start(500ms);
  }

  /// Runs the loop on a thread of its own. From here on the loop and its timers belong to that thread. Returns 0 or a UV_ code.
  int start() noexcept {
    const auto run = [](void* self) { static_cast<worker*>(self)->context_.loop.run(); };
    const int error = uv_thread_create(&thread_, run, this);
    running_ = error == 0;
    return error;
  }

  /// Asks the loop to drain, and returns at once. Idempotent.
  void stop() noexcept {
    // Any thread may make this call of libuv, and no other. It is made only once, because the drain closes the handle.
    if (running_ && !std::exchange(stopping_, true)) uv_async_send(&stop_);
  }

  /// Drains and ends the loop. Idempotent.
  void end() noexcept {
    if (running_) {
      stop();
      uv_thread_join(&thread_);
      running_ = false;
    } else {
      drain();
    }
    context_.loop.close();
  }

  const published_figures& figures() const noexcept { return figures_; }

  /// Requires: it has ended.
  const loop_context& totals() const noexcept { return context_; }
  const tickwheel::service_stats& timer_stats() noexcept { return context_.loop.timers().stats(); }

 private:
  template <class Handle>
  static worker& of(Handle* h) noexcept {
    return *static_cast<worker*>(h->data);
  }

  int share_port() noexcept {
    uv_os_fd_t socket{};
    if (const int error = uv_fileno(reinterpret_cast<uv_handle_t*>(&listener_), &socket)) return error;
    const int on = 1;
    return setsockopt(socket, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0 ? 0 : uv_translate_sys_error(errno);
  }

  void publish() noexcept {
    constexpr auto relaxed = std::memory_order_relaxed;
    tickwheel::timer_service& timers = context_.loop.timers();
    const auto now = timers.now();
    const std::chrono::duration<double> elapsed = now - published_at_;
    const auto rate = static_cast<double>(context_.messages - published_messages_) / elapsed.count();
    published_at_ = now;
    published_messages_ = context_.messages;

    const auto& lateness = timers.stats().lateness;
    figures_.connections.store(context_.open, relaxed);
    figures_.messages_per_second.store(static_cast<std::uint64_t>(rate), relaxed);
    figures_.idle_closes.store(context_.idle_closes, relaxed);
    figures_.late_p50_us.store(lateness.percentile(0.50) / 1us, relaxed);
    figures_.late_p99_us.store(lateness.percentile(0.99) / 1us, relaxed);
  }

  // Closes everything, so that the loop ends. Requires: the loop's thread, or that the loop is not running.
  void drain() noexcept {
    if (stoppable_) uv_close(reinterpret_cast<uv_handle_t*>(&stop_), nullptr);
    if (listening_) uv_close(reinterpret_cast<uv_handle_t*>(&listener_), nullptr);
    if (stoppable_) uv_walk(&context_.loop.uv(), close_connection, this);
    stoppable_ = listening_ = false;
    context_.loop.timers().close();  // no handler runs any more; this also ends publish_timer_
  }

  // uv_walk lists the worker's own two handles, which are already closing, the service's, which it closes itself, and those of the
  // connections.
  static void close_connection(uv_handle_t* h, void* self) noexcept {
    if (uv_is_closing(h) || static_cast<worker*>(self)->context_.loop.timers().owns(h)) return;
    static_cast<connection*>(h->data)->close();
  }

  loop_context context_{};
  uv_async_t stop_{};
  uv_tcp_t listener_{};
  bool stoppable_ = false, listening_ = false;  // which of the two are to be closed
  bool running_ = false, stopping_ = false;     // of the main thread
  uv_thread_t thread_{};
  tickwheel::interval_timer<&worker::publish> publish_timer_{context_.loop.timers(), *this};
  tickwheel::clock::time_point published_at_ = tickwheel::clock::now();
  std::uint64_t published_messages_ = 0;
  published_figures figures_;
};

// --- the main thread -------------------------------------------------------------------------------------------------

class supervisor {
 public:
  explicit supervisor(const std::deque<worker>& workers) : workers_{workers} {}
  ~supervisor() {
    stop();
    loop_.close();
  }

  /// Catches SIGINT and SIGTERM from now on. With a `duration` that is not zero it also stops by itself. Returns 0 or a UV_ code.
  int start(milliseconds duration) noexcept {
    if (const int error = loop_.open()) return error;
    if (const int error = signals_.start(loop_.uv())) return error;
    if (duration != 0ms)
      if (const int error = stop_timer_.arm(duration)) return error;
    return report_timer_.start(1s);
  }

  /// Returns when it is time to stop.
  void wait() noexcept { loop_.run(); }

 private:
  void stop() noexcept {
    signals_.close();
    loop_.timers().close();
  }

  void report() noexcept {
    constexpr auto relaxed = std::memory_order_relaxed;
    std::uint64_t connections = 0, messages = 0, idle_closes = 0;
    std::int64_t p50 = 0, p99 = 0;
    for (const worker& w : workers_) {
      const published_figures& f = w.figures();
      connections += f.connections.load(relaxed);
      messages += f.messages_per_second.load(relaxed);
      idle_closes += f.idle_closes.load(relaxed);
      // percentiles do not add up: those of the worst loop stand for all
      p50 = std::max(p50, f.late_p50_us.load(relaxed));
      p99 = std::max(p99, f.late_p99_us.load(relaxed));
    }
    std::printf("%7ju connections %9ju messages/s %7ju idle closes   timers late by p50 %.2f ms, p99 %.2f ms\n",
                std::uintmax_t{connections}, std::uintmax_t{messages}, std::uintmax_t{idle_closes},
                static_cast<double>(p50) / 1000, static_cast<double>(p99) / 1000);
  }

  const std::deque<worker>& workers_;
  tickwheel::event_loop loop_;
  stop_signals<&supervisor::stop> signals_{*this};
  tickwheel::interval_timer<&supervisor::report> report_timer_{loop_.timers(), *this};
  tickwheel::member_timer<&supervisor::stop> stop_timer_{loop_.timers(), *this};
};

struct options {
  std::string address = "127.0.0.1";
  int port = 7000;
  unsigned loops = 1;
  milliseconds idle_timeout = 60s;
  milliseconds duration = 0s;
};

int fail(const std::string& what, int error) {
  std::fprintf(stderr, "echo_server: %s: %s\n", what.c_str(), uv_strerror(error));
  return exit_bad_usage;
}

int serve(const options& o) {
  sockaddr_in address{};
  if (const int error = uv_ip4_addr(o.address.c_str(), o.port, &address)) return fail("--address " + o.address, error);

  // The number of connections is bounded, and further ones are refused, so that descriptors never run out. Without descriptors, and with
  // several loops in a process, libuv 1.44 stays in its accept loop until another loop closes one. That loop waits for the same.
  constexpr std::uint64_t others_per_loop = 16, others = 32;  // descriptors that are not connections
  const std::uint64_t limit = std::min<std::uint64_t>(raise_descriptor_limit(), 10'000'000);
  if (limit <= others + o.loops * others_per_loop) {
    std::fprintf(stderr, "echo_server: --loops: %u do not fit into the %ju descriptors that this process may have\n",
                 o.loops, std::uintmax_t{limit});
    return exit_bad_usage;
  }
  const std::uint64_t most = (limit - others) / o.loops - others_per_loop;

  // Everything that can be refused is requested before any thread runs. Returning from here ends all that was begun.
  std::deque<worker> workers;  // a deque, because objects with handles and timers cannot move
  for (unsigned i = 0; i < o.loops; ++i)
    if (const int error = workers.emplace_back(o.idle_timeout, most).listen(address, i == 0))
      return fail("cannot listen on " + o.address + ":" + std::to_string(ntohs(address.sin_port)), error);
  supervisor main_loop{workers};
  if (const int error = main_loop.start(o.duration)) return fail("cannot wait for signals", error);
  for (worker& w : workers)
    if (const int error = w.start()) return fail("cannot start a thread", error);

  std::printf("listening on %s:%d\n", o.address.c_str(), ntohs(address.sin_port));
  main_loop.wait();

  for (worker& w : workers) w.stop();  // all at once, then wait for each
  std::uint64_t accepted = 0, messages = 0, idle_closes = 0, turned_away = 0, left_open = 0, stalls = 0;
  std::chrono::nanoseconds stalled{};
  lateness_of_closes late;
  for (worker& w : workers) {
    w.end();
    accepted += w.totals().accepted;
    messages += w.totals().messages;
    idle_closes += w.totals().idle_closes;
    late.add(w.totals().late);
    turned_away += w.totals().turned_away;
    left_open += w.totals().open;
    stalls += w.timer_stats().stalls;
    stalled += w.timer_stats().stalled;
  }
  std::printf("drained: %ju connections accepted, %ju turned away, %ju messages, %ju idle closes\n",
              std::uintmax_t{accepted}, std::uintmax_t{turned_away}, std::uintmax_t{messages},
              std::uintmax_t{idle_closes});
  const auto mean_ms = [&](std::chrono::nanoseconds sum) {
    return std::chrono::duration<double, std::milli>(sum).count() / static_cast<double>(idle_closes);
  };
  if (idle_closes != 0)
    std::printf("an idle close was late by, on average: rounding %.2f, poll %.2f, carried %.2f, stall %.2f ms\n",
                mean_ms(late.rounding), mean_ms(late.poll), mean_ms(late.carried), mean_ms(late.stall));
  // no peer is charged with these
  std::printf("stalls of our own: %ju, together %.1f ms beyond the grace; they moved the closes to come\n",
              std::uintmax_t{stalls}, std::chrono::duration<double, std::milli>(stalled).count());
  if (left_open == 0) return 0;
  std::fprintf(stderr, "echo_server: a loop did not end clean\n");
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_descriptors();
  options o;
  CLI::App app{"A TCP echo server that closes connections whose peer has gone silent.", "echo_server"};
  app.add_option("--address", o.address, "IPv4 address to listen at")->capture_default_str();
  app.add_option("--port", o.port, "0: one that is free, which the first line of output names")
      ->capture_default_str()
      ->check(CLI::Range(0, 65535));
  app.add_option("--loops", o.loops, "how many loops, each on a thread of its own")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  add_duration(app, "--idle-timeout", o.idle_timeout, 1ms, 1ms,
               "how long a peer may be silent: milliseconds, or with a unit (500ms, 30s, 5m, 1h) [60s]");
  add_duration(app, "--duration", o.duration, 1s, 0s,
               "stop after so many seconds, or with a unit; 0: run until signalled [0]");
  if (const auto code = parse_command_line(app, argc, argv)) return *code;

  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // whole lines, also into a pipe, where a script waits for the first
  std::signal(SIGPIPE, SIG_IGN);  // writing to a peer that is gone is an error of that peer, not the end of us
  return serve(o);
}
