#include "proxy.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

namespace chaos {

namespace {

constexpr std::size_t most_on_the_way = 65'536;

[[noreturn]] void stop(const char* what) {
  std::perror(what);
  std::exit(2);  // NOLINT(concurrency-mt-unsafe): the program ends
}

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) stop("proxy: the path is too long");
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

int new_socket() {
  const int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (made < 0) stop("proxy: socket");
  return made;
}

}  // namespace

proxy::proxy(std::string listens_on, std::string connects_to)
    : listens_on_{std::move(listens_on)}, listener_{new_socket()}, connects_to_{std::move(connects_to)} {
  (void)unlink(listens_on_.c_str());
  const sockaddr_un address = address_of(listens_on_);
  if (bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || listen(listener_, 64) != 0)
    stop("proxy: listen");
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_ < 0) stop("proxy: eventfd");
  thread_ = std::thread{[this] { run(); }};
}

proxy::~proxy() {
  {
    const std::lock_guard lock{mutex_};
    has_to_stop_ = true;
  }
  wake();
  thread_.join();
  for (connection& c : connections_) close(c);
  ::close(listener_);
  ::close(wake_);
  (void)unlink(listens_on_.c_str());
}

void proxy::set(weather w) {
  {
    const std::lock_guard lock{mutex_};
    weather_ = w;
  }
  wake();
}

void proxy::lead_to(std::string path) {
  const std::lock_guard lock{mutex_};
  connects_to_ = std::move(path);
}

void proxy::cut() {
  {
    const std::lock_guard lock{mutex_};
    cuts_ = true;
  }
  wake();
}

void proxy::cut_within_answer(std::size_t bytes) { cuts_within_ = bytes; }

void proxy::wake() {
  const std::uint64_t one = 1;
  (void)!write(wake_, &one, sizeof one);
}

void proxy::close(connection& c) {
  ::close(c.questions.from);
  ::close(c.questions.to);
}

void proxy::accept_one(const std::string& server_path) {
  const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (client < 0) return;
  const int server = new_socket();
  const sockaddr_un address = address_of(server_path);
  if (connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      fcntl(server, F_SETFL, O_NONBLOCK) != 0) {
    ::close(client);
    ::close(server);
    return;
  }
  connections_.push_back({{client, server, {}, {}, false}, {server, client, {}, {}, false}});
}

// Returns false if the connection is broken.
bool proxy::pass(channel& c, bool is_held, short readable, time now) {
  std::array<char, 16'384> bytes{};
  if (!c.has_ended && readable != 0 && c.bytes.size() < most_on_the_way) {
    const ssize_t count = read(c.from, bytes.data(), bytes.size());
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) c.has_ended = true;
    if (count > 0) {
      if (c.bytes.empty()) c.arrival = now;
      c.bytes.append(bytes.data(), static_cast<std::size_t>(count));
    }
  }
  if (!is_held && !c.bytes.empty()) {
    const ssize_t count = send(c.to, c.bytes.data(), c.bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (count > 0) {
      c.bytes.erase(0, static_cast<std::size_t>(count));
      c.passed += static_cast<std::size_t>(count);
    }
  }
  return !c.has_ended || !c.bytes.empty();
}

void proxy::run() {
  std::vector<pollfd> watched;
  for (;;) {
    weather now_is;
    bool cuts = false;
    std::string server_path;
    {
      const std::lock_guard lock{mutex_};
      if (has_to_stop_) return;
      now_is = weather_;
      server_path = connects_to_;
      cuts = std::exchange(cuts_, false);
    }
    if (cuts) {
      for (connection& c : connections_) close(c);
      connections_.clear();
    }
    watched.assign({{wake_, POLLIN, 0}, {now_is.refuses ? -1 : listener_, POLLIN, 0}});
    bool has_waiting = false;
    const auto events = [&](const channel& in, const channel& out, bool out_is_held) {
      const bool reads = !in.has_ended && in.bytes.size() < most_on_the_way;
      const bool writes = !out.bytes.empty() && !out_is_held;
      has_waiting = has_waiting || (writes && now_is.delay.count() != 0);
      return static_cast<short>((reads ? POLLIN : 0) | (writes && now_is.delay.count() == 0 ? POLLOUT : 0));
    };
    for (const connection& c : connections_) {
      watched.push_back({c.questions.from, events(c.questions, c.answers, now_is.holds_answers), 0});
      watched.push_back({c.questions.to, events(c.answers, c.questions, now_is.holds_questions), 0});
    }
    for (pollfd& p : watched)
      if (p.events == 0) p.fd = -1;  // a peer that has closed would wake the poll again and again
    (void)poll(watched.data(), watched.size(), has_waiting ? 1 : -1);
    std::uint64_t ignored = 0;
    (void)!read(wake_, &ignored, sizeof ignored);
    const time now = std::chrono::steady_clock::now();
    std::size_t at = 2;
    for (auto c = connections_.begin(); c != connections_.end();) {
      const short from_client = watched[at++].revents;
      const short from_server = watched[at++].revents;
      constexpr short any = POLLIN | POLLHUP | POLLERR;
      const auto waits = [&](const channel& of) { return now - of.arrival < now_is.delay; };
      const std::size_t asked = c->questions.passed;
      const bool asks = pass(c->questions, now_is.holds_questions || waits(c->questions), from_client & any, now);
      const bool answers = pass(c->answers, now_is.holds_answers || waits(c->answers), from_server & any, now);
      if (c->questions.passed != asked) c->answers.passed = 0;
      if (cuts_within_ != 0 && c->answers.passed >= cuts_within_) {
        cuts_within_ = 0;
        cut();
      }
      // A node that has gone may have sent something that still arrives.
      const bool is_over = !answers || (!asks && c->questions.bytes.empty());
      if (!is_over) {
        ++c;
        continue;
      }
      close(*c);
      c = connections_.erase(c);
    }
    if (watched[1].revents != 0) accept_one(server_path);
  }
}

}  // namespace chaos
