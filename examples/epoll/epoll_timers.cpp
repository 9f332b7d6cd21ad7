// The wheel without libuv: an event loop of epoll, which a timerfd wakes when the wheel needs it. Linux only.
//
// A pipe stands for I/O: a timer writes ten times. The loop reads, and each time moves the deadline of the next message. Then the writer
// falls silent, and the deadline passes. The program returns 0 if everything happened as it should.
#include <tickwheel/core/wheel.hpp>

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>

namespace {
using namespace std::chrono_literals;
using tickwheel::tick;
using clock = std::chrono::steady_clock;

constexpr auto limit = 400ms;
constexpr auto tick_length = tickwheel::tick_length::at_most(1ms);
const clock::time_point origin = clock::now();

// The present rounds down, deadlines round up: nothing is early.
tick present() noexcept { return tick_length.floor(clock::now() - origin); }
tick in(std::chrono::nanoseconds after) noexcept { return tick_length.ceil(clock::now() - origin + after); }

// The timerfd counts on the steady clock, from its own zero: so does `origin`.
void set_alarm(int timer, const tickwheel::wheel& timers) noexcept {
  itimerspec at{};  // zero: none
  if (const tick next = timers.next_expiry(); next != tickwheel::never) {
    const std::chrono::nanoseconds when = origin.time_since_epoch() + tick_length.begin_of(next);
    at.it_value = {when / 1s, (when % 1s).count()};
  }
  timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, nullptr);
}

// Each thing that waits is an entry, which its handler is called with.
struct conversation {
  tickwheel::wheel timers;
  std::array<int, 2> pipe{};
  int sent = 0, received = 0;
  bool open = true, early = false;
  clock::time_point heard = clock::now();

  struct writer : tickwheel::wheel_entry {
    explicit writer(conversation& c) : wheel_entry{run}, self{c} {}
    static void run(wheel_entry& entry) noexcept {
      conversation& c = static_cast<writer&>(entry).self;
      if (write(c.pipe[1], "x", 1) == 1 && ++c.sent < 10) c.timers.arm(entry, in(10ms));
    }
    conversation& self;
  } next_message{*this};

  struct silence : tickwheel::wheel_entry {
    explicit silence(conversation& c) : wheel_entry{run}, self{c} {}
    static void run(wheel_entry& entry) noexcept {
      conversation& c = static_cast<silence&>(entry).self;
      c.early = clock::now() < c.heard + limit;
      c.open = false;
    }
    conversation& self;
  } too_long{*this};
};
}  // namespace

int main() {
  conversation c;
  const int epoll_fd = epoll_create1(EPOLL_CLOEXEC),
            alarm = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  if (epoll_fd < 0 || alarm < 0 || pipe(c.pipe.data()) != 0) return 2;
  for (const int fd : {alarm, c.pipe[0]}) {
    epoll_event wanted{.events = EPOLLIN, .data = {.fd = fd}};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &wanted) != 0) return 2;
  }
  c.timers.arm(c.next_message, in(10ms));
  c.timers.arm(c.too_long, in(limit));
  while (c.open) {
    set_alarm(alarm, c.timers);
    std::array<epoll_event, 2> ready{};
    const int count = epoll_wait(epoll_fd, ready.data(), static_cast<int>(ready.size()), -1);
    const tick now = present();
    for (int i = 0; i < count; ++i) {  // I/O first: what has arrived by now is no longer missed
      std::array<char, 64> bytes;
      const int fd = ready.at(static_cast<std::size_t>(i)).data.fd;
      const ssize_t got = read(fd, bytes.data(), bytes.size());
      if (got <= 0 || fd == alarm) continue;
      c.received += static_cast<int>(got);
      c.heard = clock::now();
      c.timers.arm(c.too_long, in(limit));  // later than before: nothing but the entry is written
    }
    c.timers.advance(now);
  }
  c.timers.cancel(c.next_message);  // an entry must not be armed when it is destroyed
  std::printf("%d messages sent, %d received, then silence\n", c.sent, c.received);
  return c.sent == 10 && c.received == 10 && !c.early ? 0 : 1;
}
