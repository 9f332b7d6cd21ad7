#include "clients.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace soak {

using namespace std::chrono_literals;

namespace {

constexpr std::array<std::uint32_t, 4> limits_ms = {300, 1000, 2000, 4000};
constexpr nanoseconds longest_connect = 20s;

}  // namespace

clients::clients(shared& with, const client_options& asked, std::vector<std::vector<sockaddr_in>> servers)
    : with_{with},
      asked_{asked},
      servers_{std::move(servers)},
      random_{asked.seed},
      poll_{epoll_create1(EPOLL_CLOEXEC)},
      clients_(asked.connections) {
  for (std::size_t i = asked.connections; i != 0; --i) unused_.push_back(static_cast<std::uint32_t>(i - 1));
  if (poll_ < 0) with_.wrong.report("the clients have no epoll");
}

clients::~clients() {
  for (std::uint32_t slot = 0; slot < clients_.size(); ++slot) close(slot);
  if (poll_ >= 0) ::close(poll_);
}

void clients::run() {
  began_ = clock::now();
  time_point next_look = began_ + 1s;
  std::vector<epoll_event> events(1024);
  for (;;) {
    time_point now = clock::now();
    if (stopping_ && !winding_up_) wind_up();
    if (winding_up_ && unused_.size() == clients_.size()) return;
    if (!winding_up_) open_some(now);
    while (!plans_.empty() && plans_.top().when <= now) {
      const plan due = plans_.top();
      plans_.pop();
      if (clients_[due.slot].step == due.step) act(due.slot);
    }
    if (now >= next_look) {
      look_for_overdue(now);
      next_look = now + 1s;
    }
    const int ready = epoll_wait(poll_, events.data(), static_cast<int>(events.size()), 1);
    for (int i = 0; i < ready; ++i) {
      const std::uint32_t slot = events[static_cast<std::size_t>(i)].data.u32;
      if (clients_[slot].is == state::connecting)
        on_connected(slot);
      else if (clients_[slot].is == state::open)
        on_readable(slot);
    }
  }
}

void clients::open_some(time_point now) {
  const std::chrono::duration<double> elapsed = now - began_;
  const auto due = static_cast<std::uint64_t>(elapsed.count() * asked_.rate);
  for (int at_once = 0; at_once < 64 && begun_ < due && !unused_.empty(); ++at_once) {
    const std::uint32_t slot = unused_.back();
    unused_.pop_back();
    open(slot);
    ++begun_;
  }
  // a connection for which there was no place at its time is not made up for
  if (unused_.empty()) begun_ = std::max(begun_, due);
}

void clients::open(std::uint32_t slot) {
  client& c = clients_[slot];
  const auto chance = up_to(99);
  c.does = chance < 25   ? kind::talks_and_leaves
           : chance < 50 ? kind::talks_and_is_mute
           : chance < 75 ? kind::is_mute
           : chance < 90 ? kind::is_on_the_brink
                         : kind::grows_old;
  c.left = 1 + static_cast<unsigned>(up_to(5));
  c.loop = static_cast<unsigned>(up_to(servers_.size() - 1));
  c.since = clock::now();
  record& r = with_.records[slot];
  {
    const std::lock_guard lock{r.mutex};
    ++r.generation;
    r.open = true;
    r.limit = std::chrono::milliseconds{limits_ms[up_to(limits_ms.size() - 1)]};
    r.age = c.does == kind::grows_old ? std::chrono::milliseconds{500 + up_to(3000)} : 0ms;
    r.bytes = 0;
    r.hello = r.began = r.ended = c.since;
    r.stalled = stalled(c.loop);
    r.is_sending = false;
    r.given = verdict::none;
  }
  // by turns, because an address pair has only some 28,000 ports, and a port is unusable for a while after its connection
  const auto& addresses = servers_[c.loop];
  const sockaddr_in& to = addresses[up_to(addresses.size() - 1)];
  c.socket = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (c.socket < 0 ||
      (connect(c.socket, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0 && errno != EINPROGRESS)) {
    ++with_.not_connected;
    return close(slot);
  }
  epoll_event event{};
  event.events = EPOLLOUT;
  event.data.u32 = slot;
  epoll_ctl(poll_, EPOLL_CTL_ADD, c.socket, &event);
  c.is = state::connecting;
}

void clients::on_connected(std::uint32_t slot) {
  client& c = clients_[slot];
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(c.socket, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) {
    ++with_.not_connected;
    return close(slot);
  }
  c.is = state::open;
  ++with_.opened;
  ++with_.connected;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u32 = slot;
  epoll_ctl(poll_, EPOLL_CTL_MOD, c.socket, &event);
  send(slot);
  plan_next(slot);
}

// Does the next step of the peer after a message.
void clients::plan_next(std::uint32_t slot) {
  client& c = clients_[slot];
  const record& r = with_.records[slot];  // its own part
  const nanoseconds pause = r.limit / 4 + nanoseconds{up_to(static_cast<std::uint64_t>(r.limit.count()) / 4)};
  switch (c.does) {
    case kind::is_mute:
      return;
    case kind::is_on_the_brink:
      if (std::exchange(c.left, 0) == 0) return;  // once
      return plan_at(slot, r.ended + r.limit - 3ms + std::chrono::microseconds{up_to(6000)});
    case kind::grows_old:
      return plan_at(slot, clock::now() + pause);
    case kind::talks_and_leaves:
    case kind::talks_and_is_mute:
      if (c.left != 0) plan_at(slot, clock::now() + pause);
      return;
  }
}

void clients::plan_at(std::uint32_t slot, time_point when) { plans_.push({when, slot, clients_[slot].step}); }

void clients::act(std::uint32_t slot) {
  client& c = clients_[slot];
  if (c.is != state::open) return;
  if (c.does == kind::talks_and_leaves && c.left == 1) {
    ++with_.left;
    return close(slot);
  }
  if (c.does == kind::talks_and_leaves || c.does == kind::talks_and_is_mute) --c.left;
  send(slot);
  plan_next(slot);
}

void clients::send(std::uint32_t slot) {
  record& r = with_.records[slot];
  message m{};
  {
    const std::lock_guard lock{r.mutex};
    m = {slot, r.generation, static_cast<std::uint32_t>(r.limit / 1ms), static_cast<std::uint32_t>(r.age / 1ms)};
    r.is_sending = true;
    r.sending = clock::now();
  }
  const ssize_t sent = ::send(clients_[slot].socket, &m, sizeof m, MSG_NOSIGNAL);
  const auto stalled_by_now = stalled(clients_[slot].loop);
  const std::lock_guard lock{r.mutex};
  r.is_sending = false;
  if (sent != static_cast<ssize_t>(sizeof m)) return;  // the server has closed it, which a read will show
  ++with_.messages;
  if (r.bytes == 0) r.hello = r.sending;
  r.bytes += sizeof m;
  r.began = r.sending;
  r.ended = clock::now();
  r.stalled = stalled_by_now;
}

void clients::on_readable(std::uint32_t slot) {
  std::array<char, 4096> bytes;
  for (;;) {
    const ssize_t size = recv(clients_[slot].socket, bytes.data(), bytes.size(), 0);
    if (size > 0) continue;
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    return on_closed(slot);
  }
}

// The server has closed the connection, and must have said why.
void clients::on_closed(std::uint32_t slot) {
  record& r = with_.records[slot];
  {
    const std::lock_guard lock{r.mutex};
    const auto now = clock::now();
    if (r.given == verdict::none)
      with_.wrong.report("a connection was closed without a verdict, %.1f ms after its last message, of limit %.0f ms",
                         in_ms(now - r.ended), in_ms(r.limit));
    else if (r.given == verdict::idle && now - r.began < r.limit && !r.is_sending && r.bytes == sizeof(message))
      with_.wrong.report("a peer was evicted %.3f ms after its only message, of limit %.0f ms", in_ms(now - r.began),
                         in_ms(r.limit));
    else if (r.given == verdict::aged && now - r.hello < r.age)
      with_.wrong.report("a connection was closed at the age of %.3f ms, of %.0f ms", in_ms(now - r.hello),
                         in_ms(r.age));
  }
  close(slot);
}

void clients::close(std::uint32_t slot) {
  client& c = clients_[slot];
  if (c.socket < 0 && c.is == state::unused && !with_.records[slot].open) return;
  if (c.is == state::open) --with_.connected;
  if (c.socket >= 0) ::close(c.socket);
  c.socket = -1;
  c.is = state::unused;
  ++c.step;
  {
    record& r = with_.records[slot];
    const std::lock_guard lock{r.mutex};
    r.open = false;
  }
  unused_.push_back(slot);
}

// Finds peers that the server should have closed by now.
void clients::look_for_overdue(time_point now) {
  for (std::uint32_t slot = 0; slot < clients_.size(); ++slot) {
    client& c = clients_[slot];
    if (c.is == state::connecting && now - c.since > longest_connect) {
      ++with_.not_connected;
      close(slot);
    }
    if (c.is != state::open) continue;
    record& r = with_.records[slot];
    const nanoseconds stalls = stalled(c.loop) - r.stalled;
    const std::lock_guard lock{r.mutex};
    if (r.given != verdict::none) continue;  // on its way
    if (const nanoseconds late = now - r.ended - r.limit - stalls; late > with_.margin)
      with_.wrong.report(
          "a peer is silent for %.0f ms beyond its limit of %.0f ms, stalls not counted, and not evicted", in_ms(late),
          in_ms(r.limit));
    if (const nanoseconds late = now - r.hello - r.age - stalls; r.age > 0ms && late > with_.margin)
      with_.wrong.report("a connection is %.0f ms older than its age of %.0f ms, and not closed", in_ms(late),
                         in_ms(r.age));
  }
}

// Peers that talk leave. Peers that are silent wait for the server.
void clients::wind_up() {
  winding_up_ = true;
  for (std::uint32_t slot = 0; slot < clients_.size(); ++slot) {
    client& c = clients_[slot];
    if (c.is == state::unused) continue;
    const bool waits = c.is == state::open && (c.does == kind::is_mute || c.does == kind::is_on_the_brink);
    if (!waits) close(slot);
  }
}

}  // namespace soak
