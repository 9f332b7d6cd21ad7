#include "bursts.hpp"

#include <tickwheel/net/idle_timeout.hpp>
#include <tickwheel/uv/remote.hpp>
#include <tickwheel/uv/timer.hpp>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include <array>
#include <deque>

namespace soak {

using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t peers = 150;  // their datagrams of two rounds fit a socket's buffer
constexpr nanoseconds round = 300ms;  // in which each peer sends once
constexpr nanoseconds limit = 700ms;  // of a peer's silence
constexpr std::uint64_t block_ms = 500;
constexpr std::uint64_t block_each_ms = 2'000;
constexpr nanoseconds call_each = 5ms;
constexpr nanoseconds burst_call_limit = 150ms;
constexpr std::size_t calls = 100;
constexpr int hops_in_a_row = 50;

nanoseconds::rep now_ns() noexcept { return clock::now().time_since_epoch().count(); }

/// The time by which something had surely happened: 0 until then.
using moment = std::atomic<nanoseconds::rep>;

class loop_under_bursts {
 public:
  loop_under_bursts(shared& with, burst_counts& counts, const std::atomic<bool>& stopping)
      : with_{with}, counts_{counts}, stopping_{stopping} {}

  void run() {
    if (!open()) return with_.wrong.report("the loop under bursts could not be opened");
    std::thread sending{[this] { send_rounds(); }};
    std::thread answering{[this] { answer_calls(); }};
    uv_run(&loop_, UV_RUN_DEFAULT);
    sending.join();
    answering.join();
    ::close(to_);
    if (uv_loop_close(&loop_) != 0) with_.wrong.report("a handle of the loop under bursts was left open");
  }

 private:
  struct peer {
    explicit peer(loop_under_bursts& by) : of{by}, idle{by.timers_, *this} {}
    void on_idle() noexcept { of.evict(*this); }

    loop_under_bursts& of;
    moment last_sent{0}, sent_before{0};  // when its last two datagrams were in the kernel
    tickwheel::idle_timeout<&peer::on_idle> idle;
  };

  struct call {
    explicit call(loop_under_bursts& by) : of{by}, deadline{by.timers_, *this} {}
    void on_deadline() noexcept { of.expire(*this); }

    loop_under_bursts& of;
    std::atomic<bool> asked{false}, is_being_answered{false};
    moment posted{0};
    time_point due{};
    tickwheel::member_timer<&call::on_deadline> deadline;
  };

  bool open() {
    // So only a datagram that is read before a verdict saves a peer, and not the time of blocks that idle time leaves out.
    if (uv_loop_init(&loop_) != 0 || timers_.open(loop_, {.stall_grace = nanoseconds::max()}) != 0) return false;
    int error = beating_.open(loop_, {.wakeup = tickwheel::wake_by::timerfd});
    if (error == UV_ENOTSUP) error = beating_.open(loop_);
    if (error != 0) return false;
    sockaddr_in at{};
    uv_ip4_addr("127.0.0.1", 0, &at);
    int length = sizeof at;
    int room = 4 << 20;
    if (uv_udp_init(&loop_, &udp_) != 0 || uv_udp_bind(&udp_, reinterpret_cast<sockaddr*>(&at), 0) != 0) return false;
    uv_recv_buffer_size(reinterpret_cast<uv_handle_t*>(&udp_), &room);
    to_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (uv_udp_getsockname(&udp_, reinterpret_cast<sockaddr*>(&at), &length) != 0 ||
        ::connect(to_, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0)
      return false;
    udp_.data = this;
    uv_udp_recv_start(
        &udp_,
        [](uv_handle_t* h, std::size_t, uv_buf_t* buffer) {
          auto& self = *static_cast<loop_under_bursts*>(h->data);
          *buffer = uv_buf_init(self.buffer_.data(), static_cast<unsigned>(self.buffer_.size()));
        },
        [](uv_udp_t* h, ssize_t bytes, const uv_buf_t* buffer, const sockaddr*, unsigned) {
          if (bytes != sizeof(std::uint32_t)) return;
          std::uint32_t who = 0;
          std::copy_n(buffer->base, sizeof who, reinterpret_cast<char*>(&who));
          static_cast<loop_under_bursts*>(h->data)->receive(who);
        });
    for (std::uint32_t i = 0; i < peers; ++i) (void)peers_.emplace_back(*this).idle.start(limit);
    for (std::size_t i = 0; i < calls; ++i) calls_.emplace_back(*this);
    uv_prepare_init(&loop_, &iterations_);
    iterations_.data = this;
    uv_prepare_start(&iterations_, [](uv_prepare_t* h) { ++static_cast<loop_under_bursts*>(h->data)->iteration_; });
    uv_timer_init(&loop_, &blocking_);
    blocking_.data = this;
    uv_timer_start(
        &blocking_, [](uv_timer_t* t) { static_cast<loop_under_bursts*>(t->data)->block(); }, block_each_ms,
        block_each_ms);
    handle_ = timers_.remote();
    return calling_.start(call_each) == 0 && beat_.start(20ms) == 0;
  }

  // --- other threads ---

  void send_rounds() {
    for (std::uint64_t sent = 0; !stopping_; std::this_thread::sleep_for(round)) {
      if (sent - received_ > 2 * peers) continue;  // the socket would drop datagrams for which it has no room
      for (std::uint32_t i = 0; i < peers; ++i) {
        if (::send(to_, &i, sizeof i, 0) != sizeof i) continue;
        ++sent;
        peers_[i].sent_before = peers_[i].last_sent.load();
        peers_[i].last_sent = now_ns();
      }
    }
  }

  void answer_calls() {
    while (!stopping_) {
      for (call& c : calls_) {
        c.is_being_answered = true;  // so that `posted` belongs to this call, and not to the next
        call* const which = &c;
        if (c.asked.exchange(false) && handle_.post(0s, [which]() noexcept { which->deadline.cancel(); }) == 0)
          c.posted = now_ns();
        c.is_being_answered = false;
      }
      std::this_thread::sleep_for(1ms);
    }
  }

  // --- the loop ---

  void receive(std::uint32_t who) noexcept {
    ++counts_.datagrams;
    ++received_;
    peers_[who % peers].idle.touch();
  }

  // A datagram was in the kernel less than a limit before the moment of the judgement.
  void evict(peer& p) noexcept {
    const auto judged = timers_.judged_at().time_since_epoch().count();
    const auto last = p.last_sent.load(), before = p.sent_before.load();
    const auto sent = last <= judged ? last : before;
    if (sent != 0 && sent <= judged && judged - sent < limit.count())
      with_.wrong.report("a live peer behind a UDP socket was evicted %.1f ms after it had sent",
                         in_ms(nanoseconds{judged - sent}));
    ++counts_.evicted;
    (void)p.idle.start(limit);
  }

  void begin_call() noexcept {
    if (stopping_) return close();
    if (next_call_ == 0 && hops_left_ == 0) {
      hops_left_ = hops_in_a_row;
      hop_armed_ = iteration_;
      (void)zero_.arm(0s);  // cannot fail: the service is open, and has no limit
    }
    next_call_ = (next_call_ + 1) % calls_.size();
    ask(calls_[next_call_]);
  }

  void ask(call& c) noexcept {
    if (c.deadline.armed() || c.asked || c.is_being_answered) return;
    ++counts_.calls;
    c.posted = 0;
    c.due = clock::now() + burst_call_limit;
    if (c.deadline.arm(burst_call_limit) == 0) c.asked = true;
  }

  void expire(call& c) noexcept {
    ++counts_.expired;
    const auto posted = c.posted.load();
    const auto due = c.due.time_since_epoch().count();
    if (clock::now() < c.due) with_.wrong.report("a call expired early");
    if (posted != 0 && posted < due)
      with_.wrong.report("a call expired that was answered %.1f ms before its deadline",
                         in_ms(nanoseconds{due - posted}));
  }

  void hop() noexcept {
    if (iteration_ == hop_armed_) with_.wrong.report("a zero delay ran in the iteration of the handler that armed it");
    ++counts_.hops;
    hop_armed_ = iteration_;
    if (--hops_left_ > 0) (void)zero_.arm(0s);
  }

  void on_beat() noexcept { ++counts_.beats; }

  void block() noexcept {
    if (counts_.forks != 0 && counts_.beats == beats_at_fork_)
      with_.wrong.report("a timer stopped when a child closed its service");
    beats_at_fork_ = counts_.beats;
    ++counts_.forks;
    const pid_t child = fork();
    if (child == 0) {
      alarm(5);
      beating_.close();  // nobody posts to it
      _exit(0);
    }
    if (child > 0) waitpid(child, nullptr, 0);
    for (call& c : calls_) ask(c);  // answered during the block, long before their deadlines
    std::this_thread::sleep_for(std::chrono::milliseconds{block_ms});
  }

  void close() noexcept {
    timers_.close();
    beating_.close();
    for (uv_handle_t* const h : {reinterpret_cast<uv_handle_t*>(&udp_), reinterpret_cast<uv_handle_t*>(&iterations_),
                                 reinterpret_cast<uv_handle_t*>(&blocking_)})
      uv_close(h, nullptr);
  }

  shared& with_;
  burst_counts& counts_;
  const std::atomic<bool>& stopping_;
  uv_loop_t loop_{};
  uv_udp_t udp_{};
  uv_prepare_t iterations_{};
  uv_timer_t blocking_{};
  int to_ = -1;
  std::array<char, 64> buffer_{};
  std::atomic<std::uint64_t> received_{0};
  std::uint64_t iteration_ = 0;

  tickwheel::timer_service timers_;
  tickwheel::timer_service beating_;  // children close it
  tickwheel::remote_handle handle_;
  std::deque<peer> peers_;
  std::deque<call> calls_;
  std::size_t next_call_ = 0;
  int hops_left_ = 0;
  std::uint64_t hop_armed_ = 0;
  std::uint64_t beats_at_fork_ = 0;
  tickwheel::member_timer<&loop_under_bursts::hop> zero_{timers_, *this};
  tickwheel::interval_timer<&loop_under_bursts::begin_call> calling_{timers_, *this};
  tickwheel::interval_timer<&loop_under_bursts::on_beat> beat_{beating_, *this};
};

}  // namespace

void bursts::run() { loop_under_bursts{with_, counts_, stopping_}.run(); }

}  // namespace soak
