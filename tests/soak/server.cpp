#include "server.hpp"

#include "../../examples/support/listen.hpp"

#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

namespace soak {

using namespace std::chrono_literals;

namespace {

// How long the kernel may take from the end of a send to having the bytes at the other end of the loopback.
constexpr nanoseconds on_the_way = 5ms;

constexpr nanoseconds first_message = 20s;  // until then a peer must have said which one it is
constexpr nanoseconds call_limit = 30ms;
constexpr nanoseconds operation_limit = 300ms;
constexpr tickwheel::retry_options retries{.max_attempts = 3,
                                           .backoff = {.base = 5ms, .cap = 10ms, .kind = tickwheel::jitter_kind::none}};

}  // namespace

/// One question at a time, with its deadline. It is asked again when the deadline passes. Ends exactly once.
struct server::call : tickwheel::pending_call {
  explicit call(server& on) : pending_call{on.loop_.timers()}, on_{on}, retry_{on.loop_.timers(), *this, retries} {}
  ~call() { cut(); }

  bool is_going_on() const noexcept { return going_on_; }

  void begin() noexcept {
    const auto now = clock::now();
    if (retry_.start(tickwheel::deadline::after(operation_limit, now)) != 0) return;
    ++on_.with_.calls;
    going_on_ = true;
    attempt_due_ = now;
    attempt();
  }

  void on_answer() noexcept {
    retry_.cancel();
    end(on_.with_.answered);
  }

  /// The connection is closed.
  void cut() noexcept {
    if (!going_on_) return;
    cancel();
    retry_.cancel();
    end(on_.with_.calls_cut);
  }

  void on_failed(int error) noexcept;

 private:
  void attempt() noexcept;

  void end(std::atomic<std::uint64_t>& how) noexcept {
    if (!std::exchange(going_on_, false)) on_.with_.wrong.report("a call ended twice");
    ++how;
  }

  server& on_;
  tickwheel::retry_timer<&call::attempt> retry_;
  bool going_on_ = false;
  time_point due_{};          // when the call may expire
  time_point attempt_due_{};  // when the next attempt may begin
};

struct server::calls : tickwheel::pending_calls<&server::call::on_failed> {};

void server::call::attempt() noexcept {
  const auto now = clock::now();
  if (now < attempt_due_) on_.with_.wrong.report("a retry came %.3f ms early", in_ms(attempt_due_ - now));
  const auto until = tickwheel::deadline::after(call_limit, now);
  due_ = now + call_limit;
  const std::uint64_t id = ++on_.last_call_;
  if (const int error = on_.calls_->start(*this, id, until)) return on_failed(error);
  on_.jobs_.try_push({&on_, id});  // a question that finds no place is not answered
}

void server::call::on_failed(int error) noexcept {
  const auto now = clock::now();
  if (!going_on_) on_.with_.wrong.report("a call failed that had ended");
  if (error == UV_ETIMEDOUT && now < due_) on_.with_.wrong.report("a call expired %.3f ms early", in_ms(due_ - now));
  attempt_due_ = now + (retry_.attempts() == 1 ? 5ms : 10ms);
  if (retry_.retry() == tickwheel::retry_result::scheduled)
    ++on_.with_.retries;
  else
    end(on_.with_.gave_up);
}

/// One peer.
class server::connection {
 public:
  static void accept(server& on, uv_stream_t* listener) {
    auto* const self = new connection{on};
    if (uv_accept(listener, self->stream()) != 0 || uv_read_start(self->stream(), give_buffer, on_read) != 0)
      return self->close();
    if (self->idle_.start(first_message) != 0) self->close();
  }

  /// Idempotent.
  void close() noexcept {
    if (std::exchange(closing_, true)) return;
    idle_.cancel();
    age_.cancel();
    call_.cut();
    uv_close(reinterpret_cast<uv_handle_t*>(&socket_),
             [](uv_handle_t* h) { delete static_cast<connection*>(h->data); });
  }

 private:
  explicit connection(server& on)
      : on_{on}, idle_{on.loop_.timers(), *this}, age_{on.loop_.timers(), *this}, call_{on} {
    uv_tcp_init(&on.loop_.uv(), &socket_);  // cannot fail: it makes no socket yet
    socket_.data = this;
  }

  static void give_buffer(uv_handle_t* h, std::size_t, uv_buf_t* buffer) noexcept {
    auto& unread = static_cast<connection*>(h->data)->unread_;
    *buffer = uv_buf_init(unread.data(), static_cast<unsigned>(unread.size()));
  }

  static void on_read(uv_stream_t* s, ssize_t size, const uv_buf_t* buffer) noexcept {
    auto& self = *static_cast<connection*>(s->data);
    if (size < 0) return self.close();
    self.take(buffer->base, static_cast<std::size_t>(size));
  }

  void take(const char* bytes, std::size_t size) noexcept {
    idle_.touch();
    heard_ = on_.loop_.timers().now();
    if (heard_ < on_.prepared_at_ || heard_ > clock::now())
      on_.with_.wrong.report("the time stamp of an iteration was taken before it began, or is ahead of the time");
    for (std::size_t i = 0; i < size; ++i) {
      part_[read_++ % sizeof(message)] = bytes[i];
      if (read_ % sizeof(message) == 0) on_message();
    }
  }

  void on_message() noexcept {
    message m;
    std::memcpy(&m, part_.data(), sizeof m);
    if (read_ == sizeof m) return on_hello(m);
    if (m.slot != slot_ || m.generation != generation_)
      on_.with_.wrong.report("a message came to the wrong connection");
    if (!call_.is_going_on()) call_.begin();
  }

  void on_hello(const message& m) noexcept {
    slot_ = m.slot;
    generation_ = m.generation;
    if (idle_.start(std::chrono::milliseconds{m.limit_ms}) != 0) return close();
    if (m.age_ms == 0) return;
    aged_at_ = clock::now() + std::chrono::milliseconds{m.age_ms};
    if (age_.start(tickwheel::deadline::after(std::chrono::milliseconds{m.age_ms})) != 0) close();
  }

  void on_age() noexcept {
    const auto now = clock::now();
    if (now < aged_at_) on_.with_.wrong.report("a deadline passed %.3f ms early", in_ms(aged_at_ - now));
    if (give(verdict::aged)) ++on_.with_.aged;
    close();
  }

  void on_idle() noexcept {
    if (read_ == 0)
      on_.with_.wrong.report("a peer was evicted whose first message was not heard for %.0f ms", in_ms(first_message));
    else if (judge() && give(verdict::idle))
      ++on_.with_.idle;
    close();
  }

  // Compares the verdict with the record of the peer. Returns false if that is gone.
  bool judge() noexcept {
    record& r = on_.with_.records[slot_];
    tickwheel::timer_service& timers = on_.loop_.timers();
    const time_point stamp = timers.judged_at();
    const time_point now = clock::now();
    int waiting = 0;
    uv_os_fd_t socket{};
    if (uv_fileno(reinterpret_cast<uv_handle_t*>(&socket_), &socket) == 0) ioctl(socket, FIONREAD, &waiting);
    const std::lock_guard lock{r.mutex};
    if (r.generation != generation_ || !r.open) return false;
    if (read_ >= r.bytes) {  // it was read: the last message, or the one that is still being sent
      // A touch counts from the stamp of its iteration, and the message may have come later in that iteration.
      const time_point last = std::min(heard_, read_ > r.bytes ? r.sending : r.began);
      if (stamp - last < r.limit)
        on_.with_.wrong.report("a peer was evicted %.3f ms after it was heard, of limit %.0f ms", in_ms(stamp - last),
                               in_ms(r.limit));
      if (r.is_sending) return true;
      const nanoseconds stalled = now - timers.responsive(now);  // that of the running iteration included
      const nanoseconds late = now - r.ended - r.limit - (stalled - r.stalled);
      on_.with_.latest_idle.show(late);
      if (late > on_.with_.margin)
        on_.with_.wrong.report("a peer was evicted %.0f ms late, of limit %.0f ms, stalls not counted", in_ms(late),
                               in_ms(r.limit));
    } else if (stamp - r.began < r.limit) {  // it was not read
      if (waiting != 0 && stamp - r.ended > on_the_way)
        on_.with_.wrong.report(
            "a peer was evicted though what it sent %.3f ms before waited to be read, of limit %.0f ms",
            in_ms(stamp - r.ended), in_ms(r.limit));
      else
        ++on_.with_.brink;
    }
    return true;
  }

  bool give(verdict v) noexcept {
    record& r = on_.with_.records[slot_];
    const std::lock_guard lock{r.mutex};
    if (r.generation != generation_) return false;
    if (r.given != verdict::none) on_.with_.wrong.report("a connection was judged twice");
    r.given = v;
    return true;
  }

  uv_stream_t* stream() noexcept { return reinterpret_cast<uv_stream_t*>(&socket_); }

  friend class server;

  server& on_;
  uv_tcp_t socket_{};
  bool closing_ = false;
  std::uint32_t slot_ = 0, generation_ = 0;
  std::uint64_t read_ = 0;
  time_point heard_{};
  time_point aged_at_{};
  std::array<char, sizeof(message)> part_{};
  std::array<char, 256> unread_{};
  tickwheel::idle_timeout<&connection::on_idle> idle_;
  tickwheel::deadline_timer<&connection::on_age> age_;
  call call_;
};

server::server(shared& with, unsigned number, bounded_queue<job>& jobs, bool stalls, std::uint64_t seed)
    : with_{with},
      number_{number},
      jobs_{jobs},
      random_{seed + number},
      calls_{std::make_unique<calls>()},
      stalls_{stalls} {}

server::~server() {
  if (thread_.joinable()) {
    stop();
    join();
  } else if (has_loop_) {
    wind_up();
    loop_.close();
  }
}

int server::listen(unsigned addresses) {
  if (const int error = loop_.open()) return error;
  has_loop_ = true;
  if (const int error = calls_->open(with_.records.size())) return error;
  uv_prepare_init(&loop_.uv(), &prepare_);
  prepare_.data = this;
  uv_prepare_start(&prepare_, [](uv_prepare_t* p) { static_cast<server*>(p->data)->prepared_at_ = clock::now(); });
  uv_unref(reinterpret_cast<uv_handle_t*>(&prepare_));
  remote_ = loop_.timers().remote();
  hold_ = loop_.timers().hold();
  for (unsigned i = 0; i < addresses; ++i) {
    sockaddr_in address{};
    uv_ip4_addr(("127.0.0." + std::to_string(1 + i)).c_str(), 0, &address);
    uv_tcp_t& listener = listeners_.emplace_back();
    if (const int error = uv_tcp_init(&loop_.uv(), &listener)) return error;
    listener.data = this;
    const auto on_connection = [](uv_stream_t* s, int error) {
      if (error == 0) connection::accept(*static_cast<server*>(s->data), s);
    };
    if (const int error = listen_at(listener, address, on_connection)) return error;
    at_.push_back(address);
  }
  if (const int error = publish_timer_.start(publishes_every)) return error;
  return stalls_ ? block_timer_.arm(1s) : 0;
}

void server::start() {
  thread_ = std::thread{[this] { loop_.run(); }};
}

void server::stop() noexcept {
  if (remote_.post(0s, [this]() noexcept { wind_up(); }) != 0) with_.wrong.report("a server could not be told to stop");
}

void server::join() {
  thread_.join();
  loop_.close();  // stops the process if a handle was left open
  stats_ = loop_.timers().stats();
  if (stats_.armed != stats_.fired + stats_.cancelled + stats_.pending || stats_.pending != 0)
    with_.wrong.report("a service's timers do not add up");
  if (stats_.remote_accepted != stats_.remote_ran + stats_.remote_withdrawn + stats_.remote_cancelled)
    with_.wrong.report("what was posted to a service does not add up");
  const auto& c = calls_->stats();
  if (c.started != c.answered + c.expired + c.failed + c.cancelled || calls_->pending() != 0)
    with_.wrong.report("the calls of a loop do not add up");
}

void server::answer(std::uint64_t id) noexcept {
  if (call* const c = calls_->complete(id))
    c->on_answer();
  else
    ++with_.unmatched;
}

void server::publish() noexcept { with_.stalled[number_] = loop_.timers().stalled_for().count(); }

// A callback that takes too long, as in every server. Some take longer than the shortest limit.
void server::block() noexcept {
  std::this_thread::sleep_for(std::chrono::milliseconds{20 + random_() % 400});
  (void)block_timer_.arm(std::chrono::milliseconds{2000 + random_() % 4000});  // cannot fail: the service has no limit
}

void server::wind_up() noexcept {
  if (std::exchange(winding_up_, true)) return;
  std::string why;
  if (!loop_.timers().validate(&why)) with_.wrong.report("a service is not valid: %s", why.c_str());
  if (!calls_->validate(&why)) with_.wrong.report("the calls of a loop are not valid: %s", why.c_str());
  uv_walk(
      &loop_.uv(),
      [](uv_handle_t* h, void* arg) {
        auto& self = *static_cast<server*>(arg);
        if (uv_is_closing(h) || self.loop_.timers().owns(h)) return;
        if (h->data == arg)
          uv_close(h, nullptr);
        else
          static_cast<connection*>(h->data)->close();
      },
      this);
  hold_.release();
  loop_.timers().close();
}

}  // namespace soak
