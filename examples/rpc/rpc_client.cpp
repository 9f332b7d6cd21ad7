// Calls to rpc_server, over a server that comes and goes: does every call end, once, and in time?
//
//   rpc_server --port 7002 --loss 0.04 --slow 0.02 &
//   rpc_client --port 7002 --duration 6
//
// Calls begin at a steady rate. Each has a deadline, and makes attempts until one is answered. They share one connection, which is made
// again when it is lost. Read it from the top:
//
//   call      one operation: its deadline, its retries, its outcome
//   link      the connection: which call waits for which answer; reconnects
//   load      begins calls, ends, judges
//
// Three rules keep it stable. An attempt waits no longer than its share of the call's time, and the server is told that share. The client
// does not wait for an attempt that could not begin in time. At most a fifth of the calls are retries, so a server that comes back does
// not get all failed calls at once. The program ends with a verdict:
//
//   exit code 0   every figure is right
//             1   some figure is wrong, or the server was not there
//             2   asked for something impossible

#include "../support/command_line.hpp"
#include "../support/standard_descriptors.hpp"
#include "rpc_protocol.hpp"

#include <tickwheel/tickwheel.hpp>

#include <uv.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <random>
#include <string>

namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using tickwheel::clock;
using tickwheel::deadline;

struct options {
  int port = 0;
  unsigned rate = 2000;
  unsigned calls = 2000;
  milliseconds timeout = 200ms;
  milliseconds attempt_timeout = 100ms;
  milliseconds work = 20ms;
  unsigned retry_percent = 20;
  milliseconds duration = 6s;
  unsigned restarts = 0;
  milliseconds margin = 500ms;
};

struct figures {
  std::uint64_t begun = 0, held_back = 0;  // held back: the limit of open calls was reached
  std::uint64_t answered = 0, expired = 0;
  std::uint64_t refused_by_server = 0, refused_by_budget = 0, refused_by_attempts = 0;
  std::uint64_t retries = 0;
  std::uint64_t ended_twice = 0, late = 0;  // both must be zero
  nanoseconds latest = nanoseconds::min();  // end of a call, against its deadline
  unsigned connections = 0;
};

constexpr unsigned saved_retries = 200;  // the budget at the beginning
constexpr unsigned most_attempts = 8;

// The data that all calls share.
struct client_context {
  explicit client_context(const options& o) : asked{o} {}

  const options& asked;
  sockaddr_in server{};
  tickwheel::event_loop loop;
  figures counted;
  tickwheel::retry_budget budget{{.percent = asked.retry_percent, .per_second = 10, .max_tokens = saved_retries}};
  std::minstd_rand random;
};

class link;

// --- one call --------------------------------------------------------------------------------------------------------

class call : public tickwheel::pending_call {
 public:
  call(client_context& on, link& over);

  void begin() noexcept;

  /// An attempt was answered. `link` calls it.
  void on_reply(rpc_status status) noexcept;
  /// An attempt was not answered in time (UV_ETIMEDOUT), or the connection is not there.
  void on_failed(int error) noexcept;

  bool is_open() const noexcept { return open_; }

 private:
  void attempt() noexcept;
  void try_again() noexcept;
  void end(std::uint64_t figures::*outcome) noexcept;

  client_context& on_;
  link& link_;
  bool open_ = false;
  deadline until_;
  microseconds work_{};
  tickwheel::retry_timer<&call::attempt> retry_;
};

// --- the connection --------------------------------------------------------------------------------------------------

class link {
 public:
  explicit link(client_context& on) : on_{on}, reconnect_{on.loop.timers(), *this, patient} {}

  /// Returns 0 or a UV_ code.
  int open() noexcept {
    if (const int error = pending_.open(on_.asked.calls)) return error;
    if (const int error = reconnect_.start()) return error;
    connect();
    return 0;
  }

  /// Sends an attempt of `c`, which waits for its answer until `until`. Returns 0, or a UV_ code: then `c` waits for nothing.
  int send(call& c, microseconds work, deadline until) noexcept {
    if (!connected_) return UV_ENOTCONN;
    const auto now = on_.loop.timers().now();
    const std::uint64_t id = ++last_id_;  // of this attempt, so that a late answer is not taken for the next one's
    if (const int error = pending_.start(c, id, until)) return error;
    if (send_frame(socket_, rpc_request{id, to_wire(until.remaining(now)), to_wire(work)})) return 0;
    c.cancel();
    lose();
    return UV_ECONNRESET;
  }

  /// Closes it for ever.
  void close() noexcept {
    closing_ = true;
    reconnect_.cancel();
    lose();
  }

  const tickwheel::pending_calls_stats& stats() const noexcept { return pending_.stats(); }

 private:
  void connect() noexcept {
    uv_tcp_init(&on_.loop.uv(), &socket_);  // cannot fail: it makes no socket yet
    socket_.data = this;
    has_socket_ = true;
    in_.clear();
    const auto* const server = reinterpret_cast<const sockaddr*>(&on_.server);
    const auto on_connect = [](uv_connect_t* r, int error) {
      static_cast<link*>(r->handle->data)->on_connected(error);
    };
    if (const int error = uv_tcp_connect(&request_, &socket_, server, on_connect)) on_connected(error);
  }

  void on_connected(int error) noexcept {
    if (error == 0) error = uv_read_start(reinterpret_cast<uv_stream_t*>(&socket_), give_buffer, on_read);
    if (error != 0) return lose();  // also called if it is already closing
    uv_tcp_nodelay(&socket_, 1);
    connected_ = true;
    ++on_.counted.connections;
    (void)
        reconnect_.start();  // the next loss is a first one; cannot fail: the service is open, and there is no deadline
  }

  // Answers that were on their way do not arrive any more. Idempotent.
  void lose() noexcept {
    auto* const handle = reinterpret_cast<uv_handle_t*>(&socket_);
    if (!has_socket_ || uv_is_closing(handle)) return;
    connected_ = false;
    uv_close(handle, [](uv_handle_t* h) {
      auto& self = *static_cast<link*>(h->data);
      self.has_socket_ = false;
      if (!self.closing_) (void)self.reconnect_.retry();  // cannot fail: its attempts, time and budget have no limit
    });
    pending_.fail_all(UV_ECONNRESET);
  }

  static void give_buffer(uv_handle_t* h, std::size_t, uv_buf_t* buffer) noexcept {
    *buffer = static_cast<link*>(h->data)->in_.room();
  }

  static void on_read(uv_stream_t* s, ssize_t size, const uv_buf_t*) noexcept {
    auto& self = *static_cast<link*>(s->data);
    if (size < 0) return self.lose();
    self.in_.read(static_cast<std::size_t>(size), [&](const rpc_reply& r) noexcept {
      // no call: its attempt has expired or was cancelled, and the answer is useless
      if (call* const c = self.pending_.complete(r.id)) c->on_reply(r.status);
      return self.connected_;
    });
  }

  static constexpr tickwheel::retry_options patient{.max_attempts = tickwheel::retry_options::unlimited,
                                                    .backoff = {.base = 20ms, .cap = 200ms}};

  client_context& on_;
  uv_tcp_t socket_{};
  uv_connect_t request_{};
  bool has_socket_ = false, connected_ = false, closing_ = false;
  frame_reader<rpc_reply> in_;
  std::uint64_t last_id_ = 0;
  tickwheel::pending_calls<&call::on_failed> pending_;
  tickwheel::retry_timer<&link::connect> reconnect_;
};

// --- how a call goes -------------------------------------------------------------------------------------------------

call::call(client_context& on, link& over)
    : pending_call{on.loop.timers()},
      on_{on},
      link_{over},
      retry_{on.loop.timers(),
             *this,
             {.max_attempts = most_attempts, .backoff = {.base = 10ms, .cap = 80ms}},
             &on.budget} {}

void call::begin() noexcept {
  open_ = true;
  ++on_.counted.begun;
  until_ = deadline::after(on_.asked.timeout, on_.loop.timers());
  // One call in a hundred asks for more work than it has time for. It must be refused before any of it is done.
  const bool too_much = on_.random() % 100 == 0;
  const auto longest = static_cast<std::uint64_t>(microseconds{on_.asked.work}.count());
  work_ = too_much ? 2 * on_.asked.timeout : microseconds{on_.random() % (longest + 1)};
  if (retry_.start(until_) != 0) return end(&figures::expired);
  attempt();
}

void call::attempt() noexcept {
  if (retry_.attempts() > 1) ++on_.counted.retries;
  const auto mine = deadline::after(on_.asked.attempt_timeout, on_.loop.timers());
  if (const int error = link_.send(*this, work_, tighter(until_, mine))) on_failed(error);
}

void call::on_reply(rpc_status status) noexcept {
  if (status == rpc_status::done) return end(&figures::answered);
  if (status == rpc_status::too_late) return end(&figures::refused_by_server);  // there will not be more time later
  try_again();
}

void call::on_failed(int) noexcept { try_again(); }

void call::try_again() noexcept {
  switch (retry_.retry()) {
    case tickwheel::retry_result::scheduled:
      return;
    case tickwheel::retry_result::out_of_budget:
      return end(&figures::refused_by_budget);
    case tickwheel::retry_result::out_of_attempts:
      return end(&figures::refused_by_attempts);
    default:
      return end(&figures::expired);  // past_deadline: no other attempt would begin in time
  }
}

// Every call ends here once, whatever happened.
void call::end(std::uint64_t figures::*outcome) noexcept {
  if (!open_) ++on_.counted.ended_twice;
  open_ = false;
  retry_.cancel();
  ++(on_.counted.*outcome);
  const nanoseconds after_deadline = clock::now() - until_.when;
  on_.counted.latest = std::max(on_.counted.latest, after_deadline);
  if (after_deadline > on_.asked.margin) ++on_.counted.late;
}

// --- all of it -------------------------------------------------------------------------------------------------------

class load {
 public:
  explicit load(const options& asked) : context_{asked} {}
  ~load() { end(); }

  /// Runs the load to its end, which comes whatever the server does. Returns 0 or a UV_ code.
  int run() {
    const options& asked = context_.asked;
    if (const int error = uv_ip4_addr("127.0.0.1", asked.port, &context_.server)) return error;
    if (const int error = context_.loop.open()) return error;
    for (unsigned i = 0; i < asked.calls; ++i) calls_.emplace_back(context_, link_);
    if (const int error = link_.open()) return error;
    begun_at_ = clock::now();
    if (const int error = begin_timer_.start(1ms)) return error;
    if (const int error = stop_timer_.arm(asked.duration)) return error;
    // by then the deadline of the last call has passed
    if (const int error = end_timer_.arm(asked.duration + asked.timeout + asked.margin)) return error;
    context_.loop.run();
    took_ = clock::now() - begun_at_;
    end();
    return 0;
  }

  /// Prints the figures. Returns true if they are right. Requires: it has run.
  bool judge() const {
    const options& asked = context_.asked;
    const figures& f = context_.counted;
    const std::uint64_t refused = f.refused_by_server + f.refused_by_budget + f.refused_by_attempts;
    const std::uint64_t ended = f.answered + f.expired + refused;
    const std::chrono::duration<double> took = took_;
    const double allowed = saved_retries + static_cast<double>(f.begun) * asked.retry_percent / 100 + 10 * took.count();
    const auto within = [&](bool holds) { return holds ? "right" : "WRONG"; };

    const bool outcomes_right = f.begun == ended && lost_ == 0 && f.ended_twice == 0;
    const bool in_time = f.late == 0;
    const bool retries_right = static_cast<double>(f.retries) <= allowed;
    const bool restarts_right = f.connections > asked.restarts;
    const bool some_answered = f.answered != 0;
    std::printf(
        "%9ju calls: %ju answered, %ju expired, %ju refused (%ju by the server, %ju by the retry budget, %ju\n"
        "          after %u attempts); %ju held back\n",
        std::uintmax_t{f.begun}, std::uintmax_t{f.answered}, std::uintmax_t{f.expired}, std::uintmax_t{refused},
        std::uintmax_t{f.refused_by_server}, std::uintmax_t{f.refused_by_budget}, std::uintmax_t{f.refused_by_attempts},
        most_attempts, std::uintmax_t{f.held_back});
    std::printf("%9ju without an outcome, %ju with two: %s\n", std::uintmax_t{lost_}, std::uintmax_t{f.ended_twice},
                within(outcomes_right));
    std::printf("%9ju ended more than %jd ms after their deadline, the latest %.1f ms after it: %s\n",
                std::uintmax_t{f.late}, std::intmax_t{asked.margin.count()},
                std::chrono::duration<double, std::milli>(f.latest).count(), within(in_time));
    std::printf("%9ju retries, of %.0f that the budget allows: %s\n", std::uintmax_t{f.retries}, allowed,
                within(retries_right));
    std::printf("%9u connections, of %u at least; %ju answers came too late, or twice: %s\n", f.connections,
                asked.restarts + 1, std::uintmax_t{link_.stats().unmatched}, within(restarts_right && some_answered));
    const bool right = outcomes_right && in_time && retries_right && restarts_right && some_answered;
    std::printf("rpc_client: %s\n", right ? "every call had one outcome, in time" : "WRONG");
    return right;
  }

 private:
  // Begins the calls that are due at the rate. A call for which there is no room is not made up for later.
  void begin_some() noexcept {
    const std::chrono::duration<double> elapsed = clock::now() - begun_at_;
    const auto due = static_cast<std::uint64_t>(elapsed.count() * context_.asked.rate);
    for (; asked_ < due; ++asked_) {
      // round robin: the deadline of the next call passed the longest time ago
      call& c = calls_[next_];
      if (c.is_open()) {
        ++context_.counted.held_back;
        continue;
      }
      next_ = (next_ + 1) % calls_.size();
      c.begin();
    }
  }

  void stop() noexcept { begin_timer_.cancel(); }

  void end() noexcept {
    begin_timer_.cancel();
    link_.close();
    context_.loop.close();
  }

  // The deadline of each call has passed, so a call that is still open was forgotten.
  void finish() noexcept {
    lost_ = static_cast<std::uint64_t>(
        std::count_if(calls_.begin(), calls_.end(), [](const call& c) { return c.is_open(); }));
    link_.close();
  }

  client_context context_;
  link link_{context_};
  std::deque<call> calls_;  // a deque, because objects with timers cannot move; after the link, which outlives them
  std::size_t next_ = 0;
  std::uint64_t asked_ = 0;
  clock::time_point begun_at_{};
  nanoseconds took_{};
  std::uint64_t lost_ = 0;
  tickwheel::interval_timer<&load::begin_some> begin_timer_{context_.loop.timers(), *this};
  tickwheel::member_timer<&load::stop> stop_timer_{context_.loop.timers(), *this};
  tickwheel::member_timer<&load::finish> end_timer_{context_.loop.timers(), *this};
};

int fail(const std::string& why) {
  std::fprintf(stderr, "rpc_client: %s\n", why.c_str());
  return exit_bad_usage;
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_descriptors();
  options asked;
  CLI::App app{"Calls to rpc_server: checks that each ends once, in time, and within the retry budget.", "rpc_client"};
  app.add_option("--port", asked.port, "where on 127.0.0.1 the server listens")
      ->required()
      ->check(CLI::Range(1, 65535));
  app.add_option("--rate", asked.rate, "calls a second")->capture_default_str()->check(CLI::Range(1, 100'000));
  app.add_option("--calls", asked.calls, "calls that are open at a time, at most")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  add_duration(app, "--timeout", asked.timeout, 1ms, 1ms, "the time of a call: milliseconds, or with a unit [200ms]");
  add_duration(app, "--attempt-timeout", asked.attempt_timeout, 1ms, 1ms,
               "the time of one attempt, if the call has so much left [100ms]");
  add_duration(app, "--work", asked.work, 1ms, 0ms, "what a call asks the server to do takes up to this [20ms]");
  app.add_option("--retry-percent", asked.retry_percent, "retries that a hundred calls earn")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000));
  add_duration(app, "--duration", asked.duration, 1s, 1s, "how long to begin calls, in seconds, or with a unit [6s]");
  app.add_option("--restarts", asked.restarts, "how often the server is restarted meanwhile, at least")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000));
  add_duration(app, "--margin", asked.margin, 1ms, 1ms, "how long after its deadline a call may end [500ms]");
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  if (asked.duration > 1h) return fail("--duration: at most an hour");
  if (asked.timeout > 1h) return fail("--timeout: at most an hour");
  std::signal(SIGPIPE, SIG_IGN);  // writing to a server that is gone is a figure, not the end of us

  load all{asked};
  if (const int error = all.run()) return fail(uv_strerror(error));
  return all.judge() ? 0 : 1;
}
