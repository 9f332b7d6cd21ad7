// Load for echo_server, which it judges: are silent connections closed, on time and never early, and no other?
//
//   echo_server --port 7000 --idle-timeout 2s &
//   echo_load   --port 7000 --idle-timeout 2s --connections 2000 --silent-share 0.25 --duration 8
//
// Active connections send a message now and then, well within the idle timeout, and check every byte that comes back.
// Silent ones send one message, and from then on wait for the server to close them. It ends with a table and a verdict:
//
//   exit code 0   every figure is right
//             1   some figure is wrong, or the server was not there
//             2   asked for something impossible

#include "../support/command_line.hpp"
#include "../support/descriptor_limit.hpp"
#include "../support/standard_descriptors.hpp"
#include "../support/text_bars.hpp"

#include <tickwheel/tickwheel.hpp>

#include <uv.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <string>
#include <vector>

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using tickwheel::clock;

struct options {
  int port = 0;
  unsigned connections = 2000;
  double silent_share = 0.25;
  milliseconds idle_timeout = 2s;
  milliseconds duration = 8s;
  milliseconds interval = 0ms;  // 0: a quarter of the idle timeout
  milliseconds margin = 1s;
  unsigned message_size = 128;
  unsigned rate = 2000;
};

struct figures {
  unsigned opened = 0;    // connections that were made
  int connect_error = 0;  // the UV_ code of the last connection that could not be made
  std::uint64_t messages = 0;
  std::uint64_t sent = 0;         // bytes
  std::uint64_t echoed = 0;       // bytes that came back; each is checked
  std::uint64_t wrong = 0;        // bytes that came back different
  unsigned lost = 0;              // active connections that the server closed
  unsigned early = 0;             // closes before the idle timeout had passed
  std::vector<nanoseconds> late;  // of each silent connection closed since: how long after the idle timeout
  nanoseconds longest_pause{};    // between two messages of an active connection: was this program on time?
  // how late this program's own timers were: by as much it may also have noticed closes later
  nanoseconds own_late_p50{}, own_late_p99{};
};

// Returns the byte at `position` of the stream that connection `id` sends. It depends only on its place. So nothing must be kept for
// comparison, and a message of which the socket took one half goes on there. (The mixing is SplitMix64's.)
constexpr char byte_at(std::uint64_t id, std::uint64_t position) noexcept {
  std::uint64_t z = (id << 40) + (position >> 3) + 1;
  z *= 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  z ^= z >> 31;
  return static_cast<char>(z >> (8 * (position & 7)));
}

// The data that all connections share.
struct load_context {
  explicit load_context(const options& o) : asked{o} {}

  const options& asked;
  sockaddr_in server{};
  tickwheel::event_loop loop;
  figures counted;
  unsigned connecting = 0;
  std::array<char, 65536> buffer{};
};

class client {
 public:
  client(load_context& on, unsigned id, bool silent)
      : on_{on}, id_{id}, silent_{silent}, send_timer_{on.loop.timers(), *this} {}

  void connect() noexcept {
    uv_tcp_init(&on_.loop.uv(), &socket_);
    socket_.data = this;
    state_ = state::connecting;
    ++on_.connecting;
    const auto* const server = reinterpret_cast<const sockaddr*>(&on_.server);
    const auto on_connect = [](uv_connect_t* r, int error) {
      static_cast<client*>(r->handle->data)->on_connected(error);
    };
    if (const int error = uv_tcp_connect(&request_, &socket_, server, on_connect)) on_connected(error);
  }

  /// Ends the load. An active connection ends once its last echo has arrived. A silent one waits until the server closes it.
  void wind_up() noexcept {
    send_timer_.cancel();
    if (state_ == state::connecting) return finish();
    if (state_ != state::open || silent_) return;
    winding_up_ = true;
    if (echoed_ == sent_) finish();
  }

  /// Closes it. Idempotent.
  void finish() noexcept {
    if (state_ == state::finished) return;
    if (state_ == state::connecting) --on_.connecting;
    const bool has_socket = state_ != state::unused;
    state_ = state::finished;
    send_timer_.cancel();
    if (has_socket) uv_close(reinterpret_cast<uv_handle_t*>(&socket_), nullptr);
  }

 private:
  enum class state { unused, connecting, open, finished };

  void on_connected(int error) noexcept {
    if (state_ == state::finished) return;  // closed while it connected
    if (error == 0) error = uv_read_start(stream(), give_buffer, on_read);
    if (error != 0) {
      on_.counted.connect_error = error;
      return finish();
    }
    --on_.connecting;
    ++on_.counted.opened;
    state_ = state::open;
    uv_tcp_nodelay(&socket_, 1);
    send();
    // cannot fail: the service is open and has no limit, and the interval is positive
    if (!silent_) (void)send_timer_.start(on_.asked.interval);
  }

  void send() noexcept {
    const unsigned size = on_.asked.message_size;
    for (unsigned i = 0; i < size; ++i) on_.buffer[i] = byte_at(id_, sent_ + i);
    const uv_buf_t message = uv_buf_init(on_.buffer.data(), size);
    // The time is read before the call, so the server cannot have seen these bytes earlier. A close before this time plus the idle timeout
    // is therefore early, whatever delays there were on the way.
    const auto now = clock::now();
    const int taken = uv_try_write(stream(), &message, 1);
    if (taken <= 0) return;  // the server does not read at present, or is gone, which reading will tell
    if (sent_ != 0) on_.counted.longest_pause = std::max(on_.counted.longest_pause, now - last_sent_at_);
    last_sent_at_ = now;
    sent_ += static_cast<unsigned>(taken);
    on_.counted.sent += static_cast<unsigned>(taken);
    ++on_.counted.messages;
  }

  static void give_buffer(uv_handle_t* h, std::size_t, uv_buf_t* buffer) noexcept {
    auto& shared = static_cast<client*>(h->data)->on_.buffer;
    *buffer = uv_buf_init(shared.data(), static_cast<unsigned>(shared.size()));
  }

  static void on_read(uv_stream_t* s, ssize_t size, const uv_buf_t* buffer) noexcept {
    auto& self = *static_cast<client*>(s->data);
    if (size < 0) return self.on_closed();
    self.check(buffer->base, static_cast<std::size_t>(size));
  }

  void check(const char* data, std::size_t size) noexcept {
    for (std::size_t i = 0; i < size; ++i) {
      const std::uint64_t position = echoed_ + i;
      on_.counted.wrong += position >= sent_ || data[i] != byte_at(id_, position);
    }
    echoed_ += size;
    on_.counted.echoed += size;
    if (winding_up_ && echoed_ >= sent_) finish();
  }

  // End of file or a reset: the server closed it.
  void on_closed() noexcept {
    const nanoseconds late = clock::now() - last_sent_at_ - on_.asked.idle_timeout;
    if (late < 0ns) ++on_.counted.early;
    if (!silent_)
      ++on_.counted.lost;
    else
      on_.counted.late.push_back(late);
    finish();
  }

  uv_stream_t* stream() noexcept { return reinterpret_cast<uv_stream_t*>(&socket_); }

  load_context& on_;
  const std::uint64_t id_;
  const bool silent_;
  bool winding_up_ = false;
  state state_ = state::unused;
  tickwheel::interval_timer<&client::send> send_timer_;
  uv_tcp_t socket_{};
  uv_connect_t request_{};
  std::uint64_t sent_ = 0, echoed_ = 0;  // bytes
  clock::time_point last_sent_at_{};
};

class load {
 public:
  explicit load(const options& asked) : context_{asked} {}
  ~load() { end(); }

  /// Runs the load to its end, which comes whatever the server does. Returns 0 or a UV_ code.
  int run() noexcept {
    const options& asked = context_.asked;
    if (const int error = uv_ip4_addr("127.0.0.1", asked.port, &context_.server)) return error;
    if (const int error = context_.loop.open()) return error;
    for (unsigned i = 0; i < asked.connections; ++i) clients_.emplace_back(context_, i, is_silent(i));
    begun_at_ = clock::now();
    if (const int error = open_timer_.start(10ms)) return error;
    if (const int error = wind_up_timer_.arm(asked.duration)) return error;
    // the end of all waiting: by then the server must have closed the connection that was opened last
    if (const int error = cutoff_timer_.arm(asked.duration + asked.idle_timeout + asked.margin)) return error;
    // these two do not hold the loop: it ends, and with it the load, as soon as all connections are closed
    wind_up_timer_.unref();
    cutoff_timer_.unref();
    context_.loop.run();
    const auto& lateness = context_.loop.timers().stats().lateness;
    context_.counted.own_late_p50 = lateness.percentile(0.5);
    context_.counted.own_late_p99 = lateness.percentile(0.99);
    end();
    return 0;
  }

  unsigned silent() const noexcept {
    unsigned n = 0;
    for (unsigned i = 0; i < context_.asked.connections; ++i) n += is_silent(i);
    return n;
  }

  figures& counted() noexcept { return context_.counted; }

 private:
  // spread evenly among the others
  bool is_silent(unsigned i) const noexcept {
    const double share = context_.asked.silent_share;
    return static_cast<unsigned>((i + 1) * share) != static_cast<unsigned>(i * share);
  }

  // Opens as many connections as the rate asks for by now, and not more than the server's backlog takes at once.
  void open_some() noexcept {
    constexpr unsigned at_once = 256;
    const std::chrono::duration<double> elapsed = clock::now() - begun_at_;
    const auto due = std::min(static_cast<std::size_t>(elapsed.count() * context_.asked.rate), clients_.size());
    while (begun_ < due && context_.connecting < at_once) clients_[begun_++].connect();
    if (begun_ == clients_.size()) open_timer_.cancel();
  }

  void wind_up() noexcept {
    open_timer_.cancel();
    for (client& c : clients_) c.wind_up();
  }

  void cut_off() noexcept {
    for (client& c : clients_) c.finish();
  }

  void end() noexcept {
    cut_off();
    context_.loop.close();
  }

  load_context context_;
  std::deque<client> clients_;  // a deque, because objects with handles and timers cannot move
  std::size_t begun_ = 0;
  clock::time_point begun_at_{};
  tickwheel::interval_timer<&load::open_some> open_timer_{context_.loop.timers(), *this};
  tickwheel::member_timer<&load::wind_up> wind_up_timer_{context_.loop.timers(), *this};
  tickwheel::member_timer<&load::cut_off> cutoff_timer_{context_.loop.timers(), *this};
};

double in_ms(nanoseconds d) { return std::chrono::duration<double, std::milli>(d).count(); }

// Prints the table and the verdict. Returns true if every figure is right.
bool judge(const options& asked, unsigned silent, figures& f) {
  std::sort(f.late.begin(), f.late.end());
  const auto late = [&](double fraction) {
    return f.late.empty() ? 0ns : f.late[static_cast<std::size_t>(fraction * static_cast<double>(f.late.size() - 1))];
  };
  const auto seen = static_cast<unsigned>(f.late.size());
  const std::uint64_t missing = f.sent - std::min(f.sent, f.echoed);

  std::printf("connections     %10u   of %u: %u active, %u silent\n", f.opened, asked.connections,
              asked.connections - silent, silent);
  std::printf("messages        %10ju   longest pause of an active connection %.0f ms\n", std::uintmax_t{f.messages},
              in_ms(f.longest_pause));
  std::printf("bytes checked   %10ju   %ju wrong, %ju missing\n", std::uintmax_t{f.echoed}, std::uintmax_t{f.wrong},
              std::uintmax_t{missing});
  std::printf("idle closes     %10u   of %u expected, after %lld ms\n", seen, silent,
              static_cast<long long>(asked.idle_timeout.count()));
  if (seen != 0)
    std::printf("  late by (ms)  %10.2f   p50; least %.2f, p99 %.2f, max %.2f\n", in_ms(late(0.5)), in_ms(late(0)),
                in_ms(late(0.99)), in_ms(late(1)));
  std::fputs(bars_of(f.late).c_str(), stdout);
  std::printf("  own timers    %10.2f   p50 of their lateness (ms), p99 %.2f: it may notice a close by as much later\n",
              in_ms(f.own_late_p50), in_ms(f.own_late_p99));
  std::printf("early closes    %10u   must be 0\n", f.early);
  std::printf("active lost     %10u   must be 0\n", f.lost);

  std::string wrong;
  const auto require = [&](bool right, const std::string& otherwise) {
    if (!right) wrong += (wrong.empty() ? "" : "; ") + otherwise;
  };
  const auto count = [](std::uint64_t n, const char* what) { return std::to_string(n) + what; };
  require(f.opened == asked.connections, count(asked.connections - f.opened, " connections not made: ") +
                                             (f.connect_error != 0 ? uv_strerror(f.connect_error) : "the time was up"));
  require(f.wrong == 0, count(f.wrong, " bytes wrong"));
  require(missing == 0, count(missing, " bytes missing"));
  require(seen == silent, count(silent - seen, " silent connections not closed"));
  require(late(1) <= asked.margin, "idle closes more than " + std::to_string(asked.margin.count()) + " ms late");
  require(f.early == 0, count(f.early, " closed early"));
  require(f.lost == 0, count(f.lost, " active connections lost"));
  std::printf("verdict: %s\n", wrong.empty() ? "right" : ("wrong: " + wrong).c_str());
  return wrong.empty();
}

int fail(const std::string& what) {
  std::fprintf(stderr, "echo_load: %s\n", what.c_str());
  return exit_bad_usage;
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_descriptors();
  options asked;
  CLI::App app{"Load for echo_server: checks that it closes silent connections, on time, and no other.", "echo_load"};
  app.add_option("--port", asked.port, "where on 127.0.0.1 the server listens")
      ->required()
      ->check(CLI::Range(1, 65535));
  app.add_option("--connections", asked.connections, "how many to open")
      ->capture_default_str()
      ->check(CLI::Range(1, 50'000));
  app.add_option("--silent-share", asked.silent_share, "fraction of them that goes silent after one message")
      ->capture_default_str()
      ->check(number_range(0, 1));
  add_duration(app, "--idle-timeout", asked.idle_timeout, 1ms, 10ms,
               "what the server was started with: milliseconds, or with a unit (500ms, 2s) [2s]");
  add_duration(app, "--duration", asked.duration, 1s, 1s,
               "how long to send, in seconds, or with a unit; after it silent connections are still awaited [8s]");
  add_duration(app, "--interval", asked.interval, 1ms, 1ms,
               "between the messages of an active connection, at most half the idle timeout [a quarter of it]");
  add_duration(app, "--margin", asked.margin, 1ms, 1ms, "how late an idle close may be seen at most [1s]");
  app.add_option("--message-size", asked.message_size, "bytes")->capture_default_str()->check(CLI::Range(1, 65'536));
  app.add_option("--rate", asked.rate, "connections to open a second, at most")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000));
  if (const auto code = parse_command_line(app, argc, argv)) return *code;

  if (asked.interval == 0ms) asked.interval = std::max(asked.idle_timeout / 4, 1ms);
  if (asked.interval > asked.idle_timeout / 2)
    return fail("--interval: must be at most half the idle timeout, or active connections count as idle");
  if (asked.duration > 1h) return fail("--duration: at most an hour");
  if (const std::string why = too_many_descriptors(asked.connections); !why.empty())
    return fail("--connections: " + why);
  std::signal(SIGPIPE, SIG_IGN);  // writing to a connection that the server closed is a figure, not the end of us

  load all{asked};
  if (const int error = all.run()) return fail(uv_strerror(error));
  return judge(asked, all.silent(), all.counted()) ? 0 : 1;
}
