// A server of calls that take a while, and that are useless once their callers have stopped waiting.
//
//   rpc_server --port 7002
//
// A request says how long the work takes and how much time its caller has left. Work that takes longer than that is refused at once,
// before it begins. So is work beyond --jobs. Read it from the top:
//
//   job          one request whose work is running: here a timer, where a real server would ask a database
//   connection   one peer, and its jobs
//   server       accepts, waits for signals, drains
//
// With --loss some requests get no answer, as if it had been lost on the way. With --slow some take longer than they said. Deadlines are
// made for both.

#include "../support/command_line.hpp"
#include "../support/listen.hpp"
#include "../support/standard_descriptors.hpp"
#include "../support/stop_signals.hpp"
#include "rpc_protocol.hpp"

#include <tickwheel/tickwheel.hpp>

#include <uv.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <list>
#include <random>
#include <utility>

namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using tickwheel::deadline;

constexpr milliseconds slow_by = 150ms;  // the delay of a slow one

struct options {
  int port = 7002;
  unsigned jobs = 10'000;
  double loss = 0, slow = 0;
  milliseconds duration = 0s;
};

// The data that all connections share.
struct server_context {
  explicit server_context(const options& o) : asked{o} {}

  bool happens(double share) { return std::bernoulli_distribution{share}(random); }

  const options& asked;
  tickwheel::event_loop loop;
  std::minstd_rand random;
  std::uint64_t working = 0;  // jobs
  std::uint64_t requests = 0;
  std::uint64_t done = 0, too_late = 0, busy = 0, lost = 0, unwanted = 0;  // the jobs, by how they ended
};

class connection;

// --- one request -----------------------------------------------------------------------------------------------------

class job {
 public:
  job(connection& from, const rpc_request& what, deadline until);

  std::list<job>::iterator self;  // its place in its connection

  std::uint64_t id() const noexcept { return id_; }
  deadline until() const noexcept { return until_; }
  void begin(microseconds work) noexcept {
    (void)work_.arm(work);
  }  // cannot fail: the service is open, and has no limit

 private:
  void on_done() noexcept;

  connection& from_;
  const std::uint64_t id_;
  const deadline until_;
  tickwheel::member_timer<&job::on_done> work_;
};

// --- one peer --------------------------------------------------------------------------------------------------------

class connection {
 public:
  /// Takes the connection that waits on `listener`. From then on it owns itself: its close callback deletes it.
  static void accept(server_context& on, uv_stream_t* listener) {
    auto* const self = new connection{on};
    auto* const stream = reinterpret_cast<uv_stream_t*>(&self->socket_);
    if (uv_accept(listener, stream) != 0 || uv_read_start(stream, give_buffer, on_read) != 0) return self->close();
    uv_tcp_nodelay(&self->socket_, 1);
  }

  tickwheel::timer_service& timers() noexcept { return on_.loop.timers(); }

  /// Ends the job and destroys it. If the work took longer than the caller waits, the reply says so.
  void finish(job& j) noexcept {
    const bool in_time = !j.until().passed(timers().read_clock());
    const std::uint64_t id = j.id();
    jobs_.erase(j.self);
    --on_.working;
    reply(id, in_time ? rpc_status::done : rpc_status::too_late);
  }

  /// Idempotent. Nobody wants the results of this peer's jobs any more.
  void close() noexcept {
    auto* const handle = reinterpret_cast<uv_handle_t*>(&socket_);
    if (uv_is_closing(handle)) return;
    on_.unwanted += jobs_.size();
    on_.working -= jobs_.size();
    jobs_.clear();
    uv_close(handle, [](uv_handle_t* h) { delete static_cast<connection*>(h->data); });
  }

 private:
  explicit connection(server_context& on) : on_{on} {
    uv_tcp_init(&on.loop.uv(), &socket_);  // cannot fail: it makes no socket yet
    socket_.data = this;
  }

  static void give_buffer(uv_handle_t* h, std::size_t, uv_buf_t* buffer) noexcept {
    *buffer = static_cast<connection*>(h->data)->in_.room();
  }

  static void on_read(uv_stream_t* s, ssize_t size, const uv_buf_t*) noexcept {
    auto& self = *static_cast<connection*>(s->data);
    if (size < 0) return self.close();
    self.in_.read(static_cast<std::size_t>(size), [&](const rpc_request& r) noexcept { return self.begin(r); });
  }

  // Returns false if the connection is closing.
  bool begin(const rpc_request& r) noexcept {
    ++on_.requests;
    if (on_.happens(on_.asked.loss)) {
      ++on_.lost;
      return true;
    }
    const auto now =
        timers().now();  // of this iteration: when the request was seen, without reading the clock for each
    const auto until = deadline::after(microseconds{r.budget_us}, now);
    const microseconds work{r.work_us};
    if (until.remaining(now) <= work) return reply(r.id, rpc_status::too_late);
    if (on_.working == on_.asked.jobs) return reply(r.id, rpc_status::busy);
    ++on_.working;
    job& j = jobs_.emplace_back(*this, r, until);
    j.self = std::prev(jobs_.end());
    j.begin(on_.happens(on_.asked.slow) ? work + slow_by : work);
    return true;
  }

  bool reply(std::uint64_t id, rpc_status status) noexcept {
    ++(status == rpc_status::done ? on_.done : status == rpc_status::busy ? on_.busy : on_.too_late);
    if (send_frame(socket_, rpc_reply{id, status})) return true;
    close();
    return false;
  }

  server_context& on_;
  uv_tcp_t socket_{};
  frame_reader<rpc_request> in_;
  std::list<job> jobs_;
};

job::job(connection& from, const rpc_request& what, deadline until)
    : from_{from}, id_{what.id}, until_{until}, work_{from.timers(), *this} {}

void job::on_done() noexcept { from_.finish(*this); }

// --- the server ------------------------------------------------------------------------------------------------------

class server {
 public:
  explicit server(const options& asked) : context_{asked} {}
  ~server() { end(); }

  /// Listens on 127.0.0.1, writes the port to `port`, and catches signals. Returns 0 or a UV_ code.
  int listen(int& port) {
    if (const int error = context_.loop.open()) return error;
    uv_loop_t* const loop = &context_.loop.uv();
    if (const int error = signals_.start(*loop)) return error;
    if (const int error = uv_tcp_init(loop, &listener_)) return error;
    listener_.data = this;
    sockaddr_in address{};
    uv_ip4_addr("127.0.0.1", port, &address);
    const auto on_connection = [](uv_stream_t* s, int error) {
      if (error == 0) connection::accept(static_cast<server*>(s->data)->context_, s);
    };
    if (const int error = listen_at(listener_, address, on_connection)) return error;
    port = ntohs(address.sin_port);
    return context_.asked.duration == 0ms ? 0 : stop_timer_.arm(context_.asked.duration);
  }

  /// Serves until it is told to stop.
  void run() noexcept { context_.loop.run(); }

  /// Idempotent.
  void end() noexcept {
    stop();
    context_.loop.close();
  }

  /// Requires: it has ended.
  const server_context& totals() const noexcept { return context_; }

 private:
  void stop() noexcept {
    if (std::exchange(stopping_, true)) return;
    stop_timer_.cancel();
    signals_.close();
    if (listener_.data != nullptr) uv_close(reinterpret_cast<uv_handle_t*>(&listener_), nullptr);
    if (context_.loop.timers().is_open()) uv_walk(&context_.loop.uv(), close_connection, this);
  }

  // All handles that are not closing, except those of the timers, belong to connections.
  static void close_connection(uv_handle_t* h, void* self) noexcept {
    if (uv_is_closing(h) || static_cast<server*>(self)->context_.loop.timers().owns(h)) return;
    static_cast<connection*>(h->data)->close();
  }

  server_context context_;
  stop_signals<&server::stop> signals_{*this};
  uv_tcp_t listener_{};
  bool stopping_ = false;
  tickwheel::member_timer<&server::stop> stop_timer_{context_.loop.timers(), *this};
};

int serve(const options& asked) {
  server all{asked};
  int port = asked.port;
  if (const int error = all.listen(port)) {
    std::fprintf(stderr, "rpc_server: cannot listen on port %d: %s\n", port, uv_strerror(error));
    return exit_bad_usage;
  }
  std::printf("listening on 127.0.0.1:%d\n", port);
  all.run();
  all.end();

  const server_context& t = all.totals();
  std::printf("rpc_server: %ju requests, %ju done, %ju refused as too late, %ju as too many, %ju lost, %ju unwanted\n",
              std::uintmax_t{t.requests}, std::uintmax_t{t.done}, std::uintmax_t{t.too_late}, std::uintmax_t{t.busy},
              std::uintmax_t{t.lost}, std::uintmax_t{t.unwanted});
  if (t.working == 0 && t.requests == t.done + t.too_late + t.busy + t.lost + t.unwanted) return 0;
  std::fprintf(stderr, "rpc_server: some request had no end\n");
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_descriptors();
  options asked;
  CLI::App app{"A server of calls that refuses what cannot be done in its caller's time.", "rpc_server"};
  app.add_option("--port", asked.port, "on 127.0.0.1; 0: one that is free, which the first line of output names")
      ->capture_default_str()
      ->check(CLI::Range(0, 65535));
  app.add_option("--jobs", asked.jobs, "requests that are worked on at a time, at most")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--loss", asked.loss, "share of the requests that get no answer")
      ->capture_default_str()
      ->check(number_range(0, 1));
  app.add_option("--slow", asked.slow, "share of the requests that take 150 ms longer than they said")
      ->capture_default_str()
      ->check(number_range(0, 1));
  add_duration(app, "--duration", asked.duration, 1s, 0s,
               "stop after so many seconds, or with a unit; 0: run until signalled [0]");
  if (const auto code = parse_command_line(app, argc, argv)) return *code;

  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // whole lines, also into a pipe, where a script waits for the first
  std::signal(SIGPIPE, SIG_IGN);  // writing to a peer that is gone is an error of that peer, not the end of us
  return serve(asked);
}
