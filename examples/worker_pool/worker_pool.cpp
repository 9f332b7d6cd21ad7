// A TCP server whose worker threads hand timed replies back to the loop.
//
//   worker_pool --port 7001 --workers 4
//
// A peer sends questions, each with a delay. The loop's thread reads them and queues them. A worker computes the answer and posts it to
// the loop, which sends it once the delay has passed since the post. Read it from the top:
//
//   connection   one peer, on the loop's thread; counts its outstanding questions
//   work         a worker thread: takes a job, posts the reply
//   server       the loop: accepts, waits for signals, drains
//
// Each stage is bounded, and a full one makes the stage before it wait, back to the peer. A worker that the loop refuses (UV_EAGAIN) tries
// again. The queue then fills. A connection whose question finds it full is not read from for a moment. On SIGINT or SIGTERM the server
// reads nothing new, and first answers all questions.

#include "../support/command_line.hpp"
#include "../support/descriptor_limit.hpp"
#include "../support/listen.hpp"
#include "../support/standard_descriptors.hpp"
#include "../support/stop_signals.hpp"
#include "bounded_queue.hpp"
#include "worker_protocol.hpp"

#include <tickwheel/tickwheel.hpp>

#include <uv.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

class connection;

struct job {
  connection* from;  // lives until its questions are answered; only the loop's thread may look into it
  request what;
};

// The data that all connections share. Only the loop's own thread touches it, except for the queue.
struct loop_context {
  explicit loop_context(std::size_t most_jobs) : jobs{most_jobs} {}

  tickwheel::event_loop loop;
  bounded_queue<job> jobs;
  bool draining = false;
  std::uint64_t open = 0, most = 0;             // connections
  std::uint64_t pending = 0, most_pending = 0;  // questions that were taken and not answered
  std::uint64_t accepted = 0, questions = 0, replies = 0, unwanted = 0;
};

// --- one peer --------------------------------------------------------------------------------------------------------

class connection {
 public:
  /// Takes the connection that waits on `listener`. From then on it owns itself.
  static void accept(loop_context& on, uv_stream_t* listener) {
    auto* const self = new connection{on};
    if (uv_accept(listener, self->stream()) != 0 || on.open > on.most) return self->close();
    uv_tcp_nodelay(&self->socket_, 1);
    self->resume();
  }

  /// Runs on the loop's thread, when the delay is over.
  void answer(const reply& r) noexcept {
    --out_;
    --on_.pending;
    if (closing_) {
      ++on_.unwanted;
      return end_if_unused();
    }
    ++on_.replies;
    const auto* const bytes = reinterpret_cast<const char*>(&r);
    unsent_.insert(unsent_.end(), bytes, bytes + sizeof r);
    send();
  }

  /// Reads no more, and closes once the peer has its replies.
  void drain() noexcept {
    uv_read_stop(stream());
    retry_.cancel();
    if (out_ == 0 && !writing_) close();
  }

 private:
  explicit connection(loop_context& on) : on_{on}, retry_{on.loop.timers(), *this} {
    uv_tcp_init(&on.loop.uv(), &socket_);  // cannot fail: it makes no socket yet
    socket_.data = this;
    ++on.open;
    ++on.accepted;
  }

  // Idempotent. The object stays until the last of its questions comes back from the workers.
  void close() noexcept {
    if (std::exchange(closing_, true)) return;
    retry_.cancel();
    uv_close(reinterpret_cast<uv_handle_t*>(&socket_), [](uv_handle_t* h) {
      auto* const self = static_cast<connection*>(h->data);
      self->closed_ = true;
      self->end_if_unused();
    });
  }

  void end_if_unused() noexcept {
    if (!closed_ || out_ != 0) return;
    --on_.open;
    delete this;
  }

  // --- in ---

  void resume() noexcept {
    if (uv_read_start(stream(), give_buffer, on_read) != 0) close();
  }

  static void give_buffer(uv_handle_t* h, std::size_t, uv_buf_t* buffer) noexcept {
    auto& self = *static_cast<connection*>(h->data);
    *buffer = uv_buf_init(self.in_ + self.size_, static_cast<unsigned>(sizeof self.in_ - self.size_));
  }

  static void on_read(uv_stream_t* s, ssize_t size, const uv_buf_t*) noexcept {
    auto& self = *static_cast<connection*>(s->data);
    if (size < 0) return self.close();
    self.size_ += static_cast<std::size_t>(size);
    self.queue_questions();
  }

  // Queues the complete questions. If the queue is full the rest waits, and so does the peer.
  void queue_questions() noexcept {
    std::size_t done = 0;
    bool full = false;
    for (; !full && size_ - done >= sizeof(request); done += full ? 0 : sizeof(request)) {
      job next{this, {}};
      std::memcpy(&next.what, in_ + done, sizeof next.what);
      if (next.what.delay_ms > longest_delay_ms) return close();
      full = on_.pending == on_.most_pending || !on_.jobs.try_push(next);
      if (!full) {
        ++out_;
        ++on_.pending;
        ++on_.questions;
      }
    }
    size_ -= done;
    std::memmove(in_, in_ + done, size_);
    if (!full) return;
    uv_read_stop(stream());
    (void)retry_.arm(1ms);  // cannot fail: the service is open, and has no limit
  }

  void retry() noexcept {
    queue_questions();
    if (!closing_ && !retry_.armed() && !writing_) resume();
  }

  // --- out ---

  // Nothing is read from a peer that does not take its replies until it has taken them. That bounds the bytes that are kept for it.
  void send() noexcept {
    if (writing_) return;
    if (unsent_.empty()) return sent_all();
    uv_buf_t bytes = uv_buf_init(unsent_.data(), static_cast<unsigned>(unsent_.size()));
    const int sent = uv_try_write(stream(), &bytes, 1);
    if (sent < 0 && sent != UV_EAGAIN) return close();
    unsent_.erase(unsent_.begin(), unsent_.begin() + (sent < 0 ? 0 : sent));
    if (unsent_.empty()) return sent_all();
    uv_read_stop(stream());
    being_sent_.swap(unsent_);
    bytes = uv_buf_init(being_sent_.data(), static_cast<unsigned>(being_sent_.size()));
    if (uv_write(&write_, stream(), &bytes, 1, on_written) != 0) return close();
    writing_ = true;
  }

  static void on_written(uv_write_t* write, int error) noexcept {
    auto& self = *static_cast<connection*>(write->handle->data);
    self.writing_ = false;
    if (error != 0) return self.close();  // also called with UV_ECANCELED if it is already closing
    self.being_sent_.clear();
    self.send();
    if (!self.closing_ && !self.writing_ && !self.on_.draining && !self.retry_.armed()) self.resume();
  }

  void sent_all() noexcept {
    if (on_.draining && out_ == 0) close();
  }

  uv_stream_t* stream() noexcept { return reinterpret_cast<uv_stream_t*>(&socket_); }

  loop_context& on_;
  tickwheel::member_timer<&connection::retry> retry_;
  uv_tcp_t socket_{};
  uv_write_t write_{};
  bool closing_ = false, closed_ = false, writing_ = false;
  std::size_t out_ = 0;  // questions that workers have, or that are answered and wait for their time
  std::size_t size_ = 0;
  char in_[64 * sizeof(request)]{};
  std::vector<char> unsent_, being_sent_;
};

// --- one worker ------------------------------------------------------------------------------------------------------

// The function of a worker thread, which ends with the jobs. While it may still post, its hold keeps the loop running.
void work(bounded_queue<job>& jobs, const tickwheel::remote_handle& loop, const tickwheel::remote_hold& /*held*/) {
  while (const std::optional<job> next = jobs.pop()) {
    const std::uint64_t question = next->what.question;
    const auto send = [to = next->from, r = reply{question, answer_to(question)}]() noexcept { to->answer(r); };
    static_assert(tickwheel::remote_callable<decltype(send)>);
    // A worker can wait; the loop never must. Its wait always ends, because the loop runs as long as it is held.
    while (loop.post(milliseconds{next->what.delay_ms}, send) != 0) std::this_thread::sleep_for(1ms);
  }
}

// --- the server ------------------------------------------------------------------------------------------------------

struct options {
  int port = 7001;
  unsigned workers = 2;
  unsigned queue = 1024;
  unsigned pending = 100'000;
  milliseconds duration = 0s;
};

class server {
 public:
  explicit server(const options& asked) : asked_{asked}, context_{asked.queue} {}
  ~server() { end(); }

  /// Listens on 127.0.0.1, writes the port to `port`, and catches signals. Returns 0 or a UV_ code.
  int listen(int& port) {
    context_.most = raise_descriptor_limit() / 2;  // far below, so that the loop itself never lacks one
    context_.most_pending = asked_.pending;
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
    return asked_.duration == 0ms ? 0 : stop_timer_.arm(asked_.duration);
  }

  /// Serves until it is told to stop and all questions are answered. Returns 0, or the error of starting a thread.
  std::error_code run() {
    std::error_code refused;
    try {
      for (unsigned i = 0; i < asked_.workers; ++i)
        workers_.emplace_back([&jobs = context_.jobs, loop = context_.loop.timers().remote(),
                               held = context_.loop.timers().hold()] { work(jobs, loop, held); });
    } catch (const std::system_error& error) {
      refused = error.code();
      drain();
    }
    context_.loop.run();
    return refused;
  }

  /// Idempotent.
  void end() noexcept {
    drain();
    for (std::thread& w : workers_) w.join();
    workers_.clear();
    context_.loop.close();
  }

  /// Requires: it has ended.
  const loop_context& totals() const noexcept { return context_; }
  const tickwheel::service_stats& timer_stats() noexcept { return context_.loop.timers().stats(); }

 private:
  // Accepts nothing new. The loop ends once the workers have finished and the last reply is sent.
  void drain() noexcept {
    if (std::exchange(context_.draining, true)) return;
    context_.jobs.close();
    stop_timer_.cancel();
    signals_.close();
    if (listener_.data != nullptr) uv_close(reinterpret_cast<uv_handle_t*>(&listener_), nullptr);
    if (context_.loop.timers().is_open()) uv_walk(&context_.loop.uv(), drain_connection, this);
  }

  // All handles that are not closing, except those of the timers, belong to connections.
  static void drain_connection(uv_handle_t* h, void* self) noexcept {
    if (uv_is_closing(h) || static_cast<server*>(self)->context_.loop.timers().owns(h)) return;
    static_cast<connection*>(h->data)->drain();
  }

  const options asked_;
  loop_context context_;
  stop_signals<&server::drain> signals_{*this};
  uv_tcp_t listener_{};
  tickwheel::member_timer<&server::drain> stop_timer_{context_.loop.timers(), *this};
  std::vector<std::thread> workers_;
};

int fail(const std::string& what, const std::string& why) {
  std::fprintf(stderr, "worker_pool: %s: %s\n", what.c_str(), why.c_str());
  return exit_bad_usage;
}

int serve(const options& asked) {
  server all{asked};
  int port = asked.port;
  if (const int error = all.listen(port))
    return fail("cannot listen on port " + std::to_string(port), uv_strerror(error));
  std::printf("listening on 127.0.0.1:%d\n", port);
  if (const auto refused = all.run()) return fail("cannot start a thread", refused.message());
  all.end();

  const loop_context& t = all.totals();
  const tickwheel::service_stats& s = all.timer_stats();
  std::printf(
      "drained: %ju connections, %ju questions, %ju replies, %ju unwanted; loop told to wait %ju times, woken %ju\n",
      std::uintmax_t{t.accepted}, std::uintmax_t{t.questions}, std::uintmax_t{t.replies}, std::uintmax_t{t.unwanted},
      std::uintmax_t{s.remote_refused}, std::uintmax_t{s.wakeups});
  if (t.questions == t.replies + t.unwanted && s.remote_ran == t.questions) return 0;
  std::fprintf(stderr, "worker_pool: some question was not answered\n");
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_descriptors();
  options asked;
  CLI::App app{"A TCP server whose worker threads hand timed replies back to the loop.", "worker_pool"};
  app.add_option("--port", asked.port, "on 127.0.0.1; 0: one that is free, which the first line of output names")
      ->capture_default_str()
      ->check(CLI::Range(0, 65535));
  app.add_option("--workers", asked.workers, "threads that compute")->capture_default_str()->check(CLI::Range(1, 256));
  app.add_option("--queue", asked.queue, "questions that wait for a worker, at most")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--pending", asked.pending, "questions that were taken and not answered yet, at most")
      ->capture_default_str()
      ->check(CLI::Range(1, 10'000'000));
  add_duration(app, "--duration", asked.duration, 1s, 0s,
               "stop after so many seconds, or with a unit; 0: run until signalled [0]");
  if (const auto code = parse_command_line(app, argc, argv)) return *code;

  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // whole lines, also into a pipe, where a script waits for the first
  std::signal(SIGPIPE, SIG_IGN);  // writing to a peer that is gone is an error of that peer, not the end of us
  return serve(asked);
}
