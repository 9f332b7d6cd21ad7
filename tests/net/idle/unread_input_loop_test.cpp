// More input than one poll reads: bytes that were in the kernel in time save their timers, however many polls that takes.
// libuv reads at most 32 times from a socket in one poll.
#include <tickwheel/net/idle_timeout.hpp>
#include <tickwheel/net/pending_calls.hpp>

#include "../../../examples/support/descriptor_limit.hpp"
#include "../../support/long_runs.hpp"
#include "../../uv/support/live_test.hpp"

#include <uv.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

using tickwheel::timer_service;

namespace {

constexpr auto limit = 60ms;

void block_until(tickwheel::clock::time_point end) {
  while (tickwheel::clock::now() < end) {
  }
}

/// The last input of a socket of libuv, in a buffer of the test; and its peer.
template <class Handle>
struct reader {
  using use = std::function<void(const char*, std::size_t)>;
  reader(std::size_t buffer_size, use call) : buffer(buffer_size, '\0'), on_bytes{std::move(call)} {
    handle.data = this;
  }
  ~reader() { ::close(peer); }
  reader(const reader&) = delete;
  reader& operator=(const reader&) = delete;

  static void give(uv_handle_t* h, std::size_t, uv_buf_t* into) {
    auto& self = *static_cast<reader*>(h->data);
    *into = uv_buf_init(self.buffer.data(), static_cast<unsigned>(self.buffer.size()));
  }
  static void take(void* self, ssize_t count, const uv_buf_t* from) {
    if (count > 0) static_cast<reader*>(self)->on_bytes(from->base, static_cast<std::size_t>(count));
  }
  void close() {
    auto* const h = reinterpret_cast<uv_handle_t*>(&handle);
    if (uv_is_closing(h) == 0) uv_close(h, nullptr);
  }

  Handle handle{};
  int peer = -1;
  std::string buffer;
  use on_bytes;
};

/// A UDP socket, whose peer sends ids to it.
class udp_input : public reader<uv_udp_t> {
 public:
  udp_input(live_loop& loop, const std::function<void(std::uint64_t)>& receive)
      : reader{2048, [receive](const char* bytes, std::size_t) {
                 std::uint64_t id = 0;
                 std::memcpy(&id, bytes, sizeof id);
                 receive(id);
               }} {
    EXPECT_EQ(uv_udp_init(loop.get(), &handle), 0);
    sockaddr_in address{};
    EXPECT_EQ(uv_ip4_addr("127.0.0.1", 0, &address), 0);
    auto* const at = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(uv_udp_bind(&handle, at, 0), 0);
    int size = sizeof address;
    EXPECT_EQ(uv_udp_getsockname(&handle, at, &size), 0);
    peer = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::connect(peer, at, sizeof address), 0);
  }

  void start() {
    uv_udp_recv_start(&handle, &give, [](uv_udp_t* h, ssize_t count, const uv_buf_t* from, const sockaddr*, unsigned) {
      take(h->data, count, from);
    });
  }
  void peer_sends(std::uint64_t id) const { EXPECT_EQ(::send(peer, &id, sizeof id, 0), ssize_t{sizeof id}); }
};

/// A stream, read into buffers of `buffer_size`.
class stream_input : public reader<uv_pipe_t> {
 public:
  stream_input(live_loop& loop, std::size_t buffer_size, use call) : reader{buffer_size, std::move(call)} {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    const int room = 4 << 20;
    ::setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    EXPECT_EQ(uv_pipe_init(loop.get(), &handle, 0), 0);
    EXPECT_EQ(uv_pipe_open(&handle, ends[0]), 0);
    peer = ends[1];
  }

  void start() {
    uv_read_start(reinterpret_cast<uv_stream_t*>(&handle), &give,
                  [](uv_stream_t* h, ssize_t count, const uv_buf_t* from) { take(h->data, count, from); });
  }
  void peer_sends(const std::string& message) const {
    EXPECT_EQ(::send(peer, message.data(), message.size(), MSG_DONTWAIT), static_cast<ssize_t>(message.size()));
  }
};

struct call : tickwheel::pending_call {
  call(timer_service& timers, int& count) : pending_call{timers}, expired{count} {}
  void on_failed(int) noexcept { ++expired; }
  int& expired;
};

/// Calls that are answered by their ids.
struct client {
  client(timer_service& service, int count) : timers{service} {
    EXPECT_EQ(calls.open(static_cast<std::size_t>(count)), 0);
    const auto until = tickwheel::deadline::after(limit);
    for (int i = 0; i < count; ++i) {
      EXPECT_EQ(calls.start(all.emplace_back(timers, expired), static_cast<std::uint64_t>(i), until), 0);
    }
    due = until.when;
  }
  void receive(std::uint64_t id) { answered += calls.complete(id) != nullptr; }
  bool ended() const { return answered + expired == static_cast<int>(all.size()); }

  timer_service& timers;
  std::deque<call> all;
  tickwheel::pending_calls<&call::on_failed> calls;
  tickwheel::clock::time_point due{};
  int answered = 0;
  int expired = 0;
};

class input_after_block : public live_test, public testing::WithParamInterface<phase> {
 protected:
  void SetUp() override { open(); }
};

TEST_P(input_after_block, many_datagrams_save_all_calls) {
  client c{timers, 200};
  udp_input socket{loop, [&](std::uint64_t id) {
                     c.receive(id);
                     if (c.ended()) socket.close();
                   }};
  socket.start();
  loop.once_in(GetParam(), [&] {
    for (std::uint64_t id = 0; id < 200; ++id) socket.peer_sends(id);
    block_until(c.due + 10ms);
  });
  loop.run();
  EXPECT_EQ(c.answered, 200);
  EXPECT_EQ(c.expired, 0);
  socket.close();
}

// A message larger than what one poll reads tells nothing until it is complete: for some polls there is no activity.
TEST_P(input_after_block, long_messages_in_small_buffers_save_all_calls) {
  constexpr std::size_t message = 32'768;
  client c{timers, 10};
  std::string bytes;
  stream_input stream{loop, 256, [&](const char* from, std::size_t count) {
                        bytes.append(from, count);
                        for (; bytes.size() >= message; bytes.erase(0, message))
                          c.receive(static_cast<unsigned char>(bytes[0]));
                        if (c.ended()) stream.close();
                      }};
  stream.start();
  loop.once_in(GetParam(), [&] {
    for (char id = 0; id < 10; ++id) stream.peer_sends(std::string(message, id));
    block_until(c.due + 10ms);
  });
  loop.run();
  EXPECT_EQ(c.answered, 10);
  EXPECT_EQ(c.expired, 0);
  stream.close();
}

// libuv registers a descriptor that a callback has begun to read in its next poll.
TEST_P(input_after_block, socket_that_io_begins_to_read_is_heard) {
  client c{timers, 1};
  udp_input socket{loop, [&](std::uint64_t id) {
                     c.receive(id);
                     socket.close();
                   }};
  socket_pair trigger;
  live_loop::hook& begin = loop.on_readable(trigger.ours(), {});
  begin.call = [&] {
    begin.close();
    socket.start();
  };
  loop.once_in(GetParam(), [&] {
    socket.peer_sends(0);
    trigger.peer_sends();
    block_until(c.due + 10ms);
  });
  loop.run();
  EXPECT_EQ(c.answered, 1);
  EXPECT_EQ(c.expired, 0);
  begin.close();
  socket.close();
}

struct peer {
  explicit peer(timer_service& timers) : idle{timers, *this} {}
  void on_idle() noexcept { evicted = true; }
  bool evicted = false;
  tickwheel::idle_timeout<&peer::on_idle> idle;
};

TEST_P(input_after_block, many_peers_on_one_socket_are_all_heard) {
  std::deque<peer> peers;
  std::size_t heard = 0;
  udp_input socket{loop, [&](std::uint64_t id) {
                     peers[id].idle.touch();
                     if (++heard < peers.size()) return;
                     for (peer& each : peers) each.idle.cancel();
                     socket.close();
                   }};
  socket.start();
  const auto first_due = tickwheel::clock::now() + limit;
  for (int i = 0; i < 200; ++i) ASSERT_EQ(peers.emplace_back(timers).idle.start(limit), 0);
  const auto last_due = tickwheel::clock::now() + limit;
  bool sent_in_time = true;
  loop.after(limit - 10ms, [&] {
    loop.once_in(GetParam(), [&] {
      for (std::uint64_t id = 0; id < peers.size(); ++id) socket.peer_sends(id);
      sent_in_time = tickwheel::clock::now() < first_due;
      block_until(last_due + 20ms);
    });
  });
  loop.run();
  if (!sent_in_time) GTEST_SKIP() << "the machine was so busy that the peers sent after their limit";
  EXPECT_EQ(heard, peers.size());
  EXPECT_EQ(std::count_if(peers.begin(), peers.end(), [](const peer& each) { return each.evicted; }), 0);
  socket.close();
}

class unread_input : public live_test {
 protected:
  /// Runs a timer that was due in a block of 30 ms, while a descriptor is always readable.
  void run() {
    socket_pair always;
    always.peer_sends();
    live_loop::hook& spin = loop.on_readable(always.ours(), [this] { ++polls; });
    tickwheel::clock::time_point unblocked;
    p.then = [&] { spin.close(); };
    p.arm(10ms);
    loop.once_in(phase::timer, [&] {
      block_for(30ms);
      unblocked = tickwheel::clock::now();
      polls = 0;
    });
    loop.run();
    EXPECT_EQ(p.fired, 1);
    late = p.at - unblocked;
  }

  int polls = 0;  // from the end of the block until the timer ran
  std::chrono::nanoseconds late{};
};

// libuv handles at most 48 times 1024 descriptors in one poll.
TEST_F(unread_input, more_descriptors_than_one_poll_handles_are_heard) {
  const std::size_t count = by_run_length(2'000, 60'000);
  if (raise_descriptor_limit() < count + 100) GTEST_SKIP() << "too few descriptors for " << count << " of the test";

  open();
  struct listener {
    listener(timer_service& service, uv_loop_t& on, int readable) : who{service}, fd{::dup(readable)} {
      EXPECT_EQ(uv_poll_init(&on, &watch, fd), 0);
      watch.data = this;
    }
    ~listener() { ::close(fd); }
    peer who;
    int fd;
    uv_poll_t watch{};
  };
  // all of them descriptors of one socket, in which a byte waits
  socket_pair socket;
  std::deque<listener> all;
  for (std::size_t i = 0; i < count; ++i) {
    all.emplace_back(timers, *loop.get(), socket.ours());
    uv_poll_start(&all.back().watch, UV_READABLE, [](uv_poll_t* h, int, int) {
      auto& self = *static_cast<listener*>(h->data);
      self.who.idle.cancel();
      uv_close(reinterpret_cast<uv_handle_t*>(h), nullptr);
    });
  }
  loop.after(1ms, [&] {
    for (listener& l : all) ASSERT_EQ(l.who.idle.start(limit), 0);
    socket.peer_sends();
    block_until(tickwheel::clock::now() + limit + 10ms);
  });
  loop.run();
  EXPECT_EQ(std::count_if(all.begin(), all.end(), [](const listener& l) { return l.who.evicted; }), 0);
}

INSTANTIATE_TEST_SUITE_P(in, input_after_block, testing::ValuesIn(all_phases),
                         [](const auto& of) { return name_of(of.param); });

TEST_F(unread_input, endless_one_holds_up_verdict_for_its_bound) {
  open({.io_wait = 2});
  run();
  EXPECT_GE(late, 2 * 29ms);  // when the block began is known to the millisecond
  EXPECT_GT(polls, 2);
}

TEST_F(unread_input, endless_one_holds_up_nothing_if_io_wait_is_zero) {
  open({.io_wait = 0});
  run();
  EXPECT_LE(polls, 2);  // those before and after the stamp
}

}  // namespace
