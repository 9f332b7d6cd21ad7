// Load for worker_pool, which it judges: does every reply arrive, is it right, and is none sent before its delay has passed?
//
//   worker_pool --port 7001 &
//   worker_load --port 7001 --connections 200 --duration 4
//
// Each connection has a number of outstanding questions, and replaces each answered one. The program ends with one line:
//
//   exit code 0   every reply came, and was right
//             1   some did not, or the server was not there
//             2   asked for something impossible

#include "../support/command_line.hpp"
#include "../support/descriptor_limit.hpp"
#include "../support/standard_descriptors.hpp"
#include "worker_protocol.hpp"

#include <tickwheel/tickwheel.hpp>

#include <uv.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using tickwheel::clock;

struct options {
  int port = 0;
  unsigned connections = 200;
  unsigned window = 8;
  milliseconds longest_delay = 500ms;
  milliseconds duration = 4s;
  milliseconds margin = 2s;
};

struct figures {
  unsigned lost = 0;  // connections that were not made, or closed by the server
  std::uint64_t questions = 0, replies = 0;
  std::uint64_t wrong = 0;        // replies that were not asked for, or not right
  std::uint64_t early = 0;        // replies before their delay had passed since the question was sent
  std::vector<nanoseconds> late;  // of the other replies: time since the delay; queueing, work and way included
};

// The data that all connections share.
struct load_context {
  explicit load_context(const options& o) : asked{o} {}

  std::uint32_t draw_delay_ms() {
    return std::uniform_int_distribution{0U, static_cast<unsigned>(asked.longest_delay.count())}(random);
  }

  const options& asked;
  sockaddr_in server{};
  tickwheel::event_loop loop;
  figures counted;
  std::uint64_t next_question = 1;
  std::minstd_rand random;
};

class client {
 public:
  explicit client(load_context& on) : on_{on} {}

  void connect() noexcept {
    uv_tcp_init(&on_.loop.uv(), &socket_);
    socket_.data = this;
    has_socket_ = true;
    const auto* const server = reinterpret_cast<const sockaddr*>(&on_.server);
    const auto on_connect = [](uv_connect_t* r, int error) {
      static_cast<client*>(r->handle->data)->on_connected(error);
    };
    if (const int error = uv_tcp_connect(&request_, &socket_, server, on_connect)) on_connected(error);
  }

  /// Asks nothing more, and ends once the last reply has arrived.
  void wind_up() noexcept {
    winding_up_ = true;
    if (out_.empty()) finish();
  }

  /// Closes it. Idempotent.
  void finish() noexcept {
    if (!std::exchange(finished_, true) && has_socket_) uv_close(reinterpret_cast<uv_handle_t*>(&socket_), nullptr);
  }

 private:
  void on_connected(int error) noexcept {
    if (finished_) return;  // closed while it connected
    if (error == 0) error = uv_read_start(stream(), give_buffer, on_read);
    if (error != 0) return lose();
    uv_tcp_nodelay(&socket_, 1);
    for (unsigned i = 0; i < on_.asked.window && !finished_; ++i) ask();
  }

  void ask() noexcept {
    request r{on_.next_question++, on_.draw_delay_ms()};
    uv_buf_t bytes = uv_buf_init(reinterpret_cast<char*>(&r), sizeof r);
    // The time is read before the call. No delay counts from earlier than this, whatever happens on the way.
    const clock::time_point due = clock::now() + milliseconds{r.delay_ms};
    // any socket's buffer has room for all outstanding questions many times: if this one is not taken, the server is gone
    if (uv_try_write(stream(), &bytes, 1) != static_cast<int>(sizeof r)) return lose();
    out_.emplace(r.question, due);
    ++on_.counted.questions;
  }

  static void give_buffer(uv_handle_t* h, std::size_t, uv_buf_t* buffer) noexcept {
    auto& self = *static_cast<client*>(h->data);
    *buffer = uv_buf_init(self.in_ + self.size_, static_cast<unsigned>(sizeof self.in_ - self.size_));
  }

  static void on_read(uv_stream_t* s, ssize_t size, const uv_buf_t*) noexcept {
    auto& self = *static_cast<client*>(s->data);
    if (size < 0) return self.lose();
    self.size_ += static_cast<std::size_t>(size);
    std::size_t done = 0;
    for (; self.size_ - done >= sizeof(reply) && !self.finished_; done += sizeof(reply)) {
      reply r;
      std::memcpy(&r, self.in_ + done, sizeof r);
      self.check(r);
    }
    self.size_ -= done;
    std::memmove(self.in_, self.in_ + done, self.size_);
  }

  void check(const reply& r) noexcept {
    ++on_.counted.replies;
    const auto asked = out_.find(r.question);
    if (asked == out_.end() || r.answer != answer_to(r.question)) {
      ++on_.counted.wrong;
    } else if (const nanoseconds late = clock::now() - asked->second; late < 0ns) {
      ++on_.counted.early;
    } else {
      on_.counted.late.push_back(late);
    }
    if (asked != out_.end()) out_.erase(asked);
    if (!winding_up_)
      ask();
    else if (out_.empty())
      finish();
  }

  void lose() noexcept {
    if (!finished_) ++on_.counted.lost;
    finish();
  }

  uv_stream_t* stream() noexcept { return reinterpret_cast<uv_stream_t*>(&socket_); }

  load_context& on_;
  uv_tcp_t socket_{};
  uv_connect_t request_{};
  bool has_socket_ = false, winding_up_ = false, finished_ = false;
  std::unordered_map<std::uint64_t, clock::time_point>
      out_;  // outstanding questions, and from when they may be answered
  std::size_t size_ = 0;
  char in_[64 * sizeof(reply)]{};
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
    if (const int error = wind_up_timer_.arm(asked.duration)) return error;
    // the end of all waiting: by then the last question has been answered
    if (const int error = cutoff_timer_.arm(asked.duration + asked.longest_delay + asked.margin)) return error;
    // these two do not hold the loop, so the load ends as soon as all questions are answered
    wind_up_timer_.unref();
    cutoff_timer_.unref();
    for (unsigned i = 0; i < asked.connections; ++i) clients_.emplace_back(context_).connect();
    context_.loop.run();
    end();
    return 0;
  }

  figures& counted() noexcept { return context_.counted; }

 private:
  void wind_up() noexcept {
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
  std::deque<client> clients_;  // a deque, because objects with handles cannot move
  tickwheel::member_timer<&load::wind_up> wind_up_timer_{context_.loop.timers(), *this};
  tickwheel::member_timer<&load::cut_off> cutoff_timer_{context_.loop.timers(), *this};
};

/// Prints the figures. Returns true if they are right.
bool judge(figures& f) {
  std::sort(f.late.begin(), f.late.end());
  const auto late_ms = [&](double fraction) {
    if (f.late.empty()) return 0.0;
    const auto at = static_cast<std::size_t>(fraction * static_cast<double>(f.late.size() - 1));
    return std::chrono::duration<double, std::milli>(f.late[at]).count();
  };
  const bool right = f.questions != 0 && f.replies == f.questions && f.wrong == 0 && f.early == 0 && f.lost == 0;
  std::printf(
      "worker_load: %ju questions, %ju replies, %ju wrong, %ju early, %u connections lost; late by p50 %.2f ms, "
      "p99 %.2f ms, at most %.2f ms: %s\n",
      std::uintmax_t{f.questions}, std::uintmax_t{f.replies}, std::uintmax_t{f.wrong}, std::uintmax_t{f.early}, f.lost,
      late_ms(0.5), late_ms(0.99), late_ms(1), right ? "right" : "WRONG");
  return right;
}

int fail(const std::string& why) {
  std::fprintf(stderr, "worker_load: %s\n", why.c_str());
  return exit_bad_usage;
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_descriptors();
  options asked;
  CLI::App app{"Load for worker_pool: checks that every reply arrives, right, and none early.", "worker_load"};
  app.add_option("--port", asked.port, "where on 127.0.0.1 the server listens")
      ->required()
      ->check(CLI::Range(1, 65535));
  app.add_option("--connections", asked.connections, "how many to open")
      ->capture_default_str()
      ->check(CLI::Range(1, 10'000));
  app.add_option("--window", asked.window, "questions that each has out at a time")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  add_duration(app, "--longest-delay", asked.longest_delay, 1ms, 0ms,
               "delays are drawn from 0 to this: milliseconds, or with a unit, up to 10s [500ms]");
  add_duration(app, "--duration", asked.duration, 1s, 1s,
               "how long to ask, in seconds, or with a unit; after it replies are still awaited [4s]");
  add_duration(app, "--margin", asked.margin, 1ms, 1ms, "how long after its delay a reply is awaited in the end [2s]");
  if (const auto code = parse_command_line(app, argc, argv)) return *code;

  if (asked.longest_delay > milliseconds{longest_delay_ms}) return fail("--longest-delay: at most 10s");
  if (asked.duration > 1h) return fail("--duration: at most an hour");
  if (const std::string why = too_many_descriptors(asked.connections); !why.empty())
    return fail("--connections: " + why);
  std::signal(SIGPIPE, SIG_IGN);  // writing to a connection that the server closed is a figure, not the end of us

  load all{asked};
  if (const int error = all.run()) return fail(uv_strerror(error));
  return judge(all.counted()) ? 0 : 1;
}
