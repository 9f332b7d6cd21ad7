// Peers that take slowly, stop taking, close half of the connection, or are not read from: on real sockets.
#include <tickwheel/net/all_idle_timeout.hpp>
#include <tickwheel/net/idle_timeout.hpp>
#include <tickwheel/net/write_idle_timeout.hpp>

#include "../../uv/support/live_test.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

using tickwheel::timer_service;

namespace {

using time_point = tickwheel::clock::time_point;
using std::chrono::nanoseconds;

time_point true_now() { return tickwheel::clock::now(); }

constexpr nanoseconds limit = 200ms;
constexpr nanoseconds noise = 500ms;   // what else the machine does
constexpr std::size_t much = 2 << 20;  // ten times what a socket's buffer holds

/// Our end of a connection: one large write, of which libuv says nothing until all of it was taken.
class sender {
 public:
  sender(live_loop& loop, timer_service& timers)
      : stuck{timers, *this}, idle{timers, *this}, watch_{loop.each_prepare([this] { watch(); })} {
    uv_pipe_init(loop.get(), &pipe_, 0);
    pipe_.data = this;
    EXPECT_EQ(uv_pipe_open(&pipe_, ::fcntl(sockets.ours(), F_DUPFD_CLOEXEC, 0)), 0);
    const auto buffer = [](uv_handle_t* h, std::size_t, uv_buf_t* b) {
      *b = uv_buf_init(of(h).read_, sizeof of(h).read_);
    };
    uv_read_start(stream(), buffer, [](uv_stream_t* s, ssize_t size, const uv_buf_t*) {
      if (size == UV_EOF) of(s).ended = true;
    });
  }
  void send(std::size_t size) {
    bytes_.assign(size, 'x');
    uv_buf_t b = uv_buf_init(bytes_.data(), static_cast<unsigned>(size));
    const auto written = [](uv_write_t* w, int error) {
      if (error == 0) of(w->handle).sent = true;
    };
    EXPECT_EQ(uv_write(&write_, stream(), &b, 1, written), 0);
    sent_at = true_now();
  }
  /// The peer sends no more.
  void close_half() { EXPECT_EQ(::shutdown(sockets.theirs(), SHUT_WR), 0); }
  void close() {
    stuck.cancel();
    idle.cancel();
    watch_.close();
    if (!uv_is_closing(reinterpret_cast<uv_handle_t*>(&pipe_)))
      uv_close(reinterpret_cast<uv_handle_t*>(&pipe_), nullptr);
  }

  socket_pair sockets;
  bool sent = false;
  bool ended = false;  // the peer sends no more
  int evicted = 0;
  time_point sent_at{}, at{};
  time_point took_after{};  // the kernel took the last bytes it took after this

 private:
  template <class H>
  static sender& of(H* h) {
    return *static_cast<sender*>(h->data);
  }
  uv_stream_t* stream() { return reinterpret_cast<uv_stream_t*>(&pipe_); }
  void watch() {
    if (evicted == 0 && queued() != was_queued_) took_after = last_prepare_;
    was_queued_ = queued();
    last_prepare_ = true_now();
  }
  void on_idle() noexcept {
    ++evicted;
    at = true_now();
    close();
  }
  std::size_t queued() const noexcept {
    return uv_stream_get_write_queue_size(reinterpret_cast<const uv_stream_t*>(&pipe_));
  }

  uv_pipe_t pipe_{};
  uv_write_t write_{};
  std::vector<char> bytes_;
  char read_[64]{};
  std::size_t was_queued_ = 0;
  time_point last_prepare_{};

 public:
  tickwheel::write_idle_timeout<&sender::on_idle, &sender::queued> stuck;
  tickwheel::all_idle_timeout<&sender::on_idle, &sender::queued> idle;

 private:
  live_loop::hook& watch_;
};

/// The peer's end: takes a little every now and then, up to `most`.
class slow_peer {
 public:
  slow_peer(live_loop& loop, const sender& from, std::size_t most) : loop_{loop}, from_{from}, most_{most} { later(); }

  std::size_t taken = 0;
  time_point took_last{};
  std::function<void()> then;  // when it has all it wants

 private:
  void later() {
    loop_.after(20ms, [this] { take(); });
  }
  void take() {
    std::vector<char> some(64 << 10);
    const ssize_t size = ::read(from_.sockets.theirs(), some.data(), some.size());
    if (size <= 0) return;
    taken += static_cast<std::size_t>(size);
    took_last = true_now();
    if (taken < most_)
      later();
    else if (then)
      then();
  }

  live_loop& loop_;
  const sender& from_;
  std::size_t most_;
};

using slow_reader = live_test;

TEST_F(slow_reader, of_large_write_is_not_idle) {
  open();
  for (const bool half_closed : {false, true}) {
    sender s{loop, timers};
    if (half_closed) s.close_half();
    s.send(much);
    ASSERT_EQ(s.stuck.start(limit), 0);
    ASSERT_EQ(s.idle.start(limit), 0);
    slow_peer peer{loop, s, much};
    peer.then = [&] { s.close(); };
    loop.run();
    EXPECT_EQ(s.ended, half_closed);
    EXPECT_EQ(s.evicted, 0);
    EXPECT_EQ(peer.taken, much);
    EXPECT_GE(peer.took_last, s.sent_at + 2 * limit) << "it was too fast to prove anything";
  }
}

TEST_F(slow_reader, that_stops_is_evicted_a_limit_later) {
  open();
  for (const bool half_closed : {false, true}) {
    sender s{loop, timers};
    if (half_closed) s.close_half();
    s.send(much);
    ASSERT_EQ(s.stuck.start(limit), 0);
    slow_peer peer{loop, s, much / 2};
    loop.run();
    EXPECT_EQ(s.ended, half_closed);
    ASSERT_EQ(s.evicted, 1);
    EXPECT_FALSE(s.sent);
    EXPECT_GE(s.at, s.took_after + limit);
    EXPECT_LE(s.at, peer.took_last + limit + limit / 4 + noise);
  }
}

TEST_F(slow_reader, that_takes_nothing_is_evicted_a_limit_after_write) {
  open();
  sender s{loop, timers};
  ASSERT_EQ(s.stuck.start(limit), 0);
  loop.after(300ms, [&] {
    EXPECT_EQ(s.evicted, 0) << "nothing was queued";
    s.send(much);
  });
  loop.run();
  ASSERT_EQ(s.evicted, 1);
  EXPECT_GE(s.at, s.sent_at + limit);
  EXPECT_LE(s.at, s.sent_at + limit + limit / 4 + noise);
}

TEST_F(slow_reader, half_closed_with_empty_queue_expires_only_all_idle) {
  open();
  sender owed{loop, timers}, silent{loop, timers};
  for (sender* const s : {&owed, &silent}) s->close_half();
  owed.send(100);
  silent.send(100);
  const auto begin = true_now();
  ASSERT_EQ(owed.stuck.start(limit), 0);
  ASSERT_EQ(silent.idle.start(limit), 0);
  loop.after(600ms, [&] { owed.close(); });
  loop.run();
  EXPECT_EQ(owed.evicted, 0);
  EXPECT_EQ(silent.evicted, 1);
  EXPECT_GE(silent.at, begin + limit);
}

/// A connection that is read from, or not: its bytes wait in the socket then.
class reader {
 public:
  reader(live_loop& loop, timer_service& timers) : idle{timers, *this}, loop_{loop} {}

  void read() {
    hook_ = &loop_.on_readable(sockets.ours(), [this] {
      if (!sockets.receive()) return;
      if (evicted == 0) ++reads_before_eviction;
      idle.touch();
    });
  }

  socket_pair sockets;
  int reads_before_eviction = 0;
  int evicted = 0;

 private:
  void on_idle() noexcept {
    ++evicted;
    if (hook_ != nullptr) hook_->close();
  }

 public:
  tickwheel::idle_timeout<&reader::on_idle> idle;

 private:
  live_loop& loop_;
  live_loop::hook* hook_ = nullptr;
};

TEST_F(slow_reader, paused_peer_is_not_idle_while_not_read) {
  open();
  reader r{loop, timers};
  ASSERT_EQ(r.idle.start(limit), 0);
  r.idle.pause();
  r.sockets.peer_sends();
  loop.after(600ms, [&] {
    EXPECT_EQ(r.evicted, 0);
    r.read();
    r.idle.resume();
  });
  loop.run();
  EXPECT_EQ(r.reads_before_eviction, 1);
  EXPECT_EQ(r.evicted, 1) << "silent from then on";
}

TEST_F(slow_reader, waiting_bytes_of_paused_peer_are_heard_first) {
  open({.stall_grace = nanoseconds::max()});
  reader r{loop, timers};
  ASSERT_EQ(r.idle.start(limit), 0);
  loop.once_in(phase::io, [&] {
    block_for(limit + 50ms);  // on the plain clock it has been silent for too long
    r.sockets.peer_sends();
    uv_update_time(loop.get());
    r.idle.pause();
    loop.after(50ms, [&] {
      r.read();
      r.idle.resume();
    });
  });
  loop.run();
  EXPECT_EQ(r.reads_before_eviction, 1);
  EXPECT_EQ(r.evicted, 1);
}

}  // namespace
