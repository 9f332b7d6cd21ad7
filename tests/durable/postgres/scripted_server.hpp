// A program that speaks as much of PostgreSQL's protocol as a client needs to connect, and says that it is an old version.
#pragma once

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>

namespace conformance {

/// Listens on a Unix socket in a folder, and lets each client in. One client at a time.
class scripted_server {
 public:
  scripted_server(const std::string& folder, std::string version) : version_{std::move(version)} {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    std::snprintf(name.sun_path, sizeof name.sun_path, "%s/.s.PGSQL.5432", folder.c_str());
    EXPECT_EQ(::bind(listener_, reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
    EXPECT_EQ(::listen(listener_, 10), 0);
    thread_ = std::thread{[this] { serve(); }};
  }
  ~scripted_server() {
    ends_ = true;
    thread_.join();
    ::close(listener_);
  }
  scripted_server(const scripted_server&) = delete;
  scripted_server& operator=(const scripted_server&) = delete;

 private:
  static std::string number(std::uint32_t value) {
    value = htonl(value);
    return {reinterpret_cast<const char*>(&value), sizeof value};
  }
  static std::string message(char kind, const std::string& body) {
    return kind + number(static_cast<std::uint32_t>(body.size() + 4)) + body;
  }
  static std::string parameter(const std::string& name, const std::string& value) {
    return message('S', name + '\0' + value + '\0');
  }
  static std::string ready() { return message('Z', "I"); }
  // One row with one column of text.
  static std::string row(const std::string& name, const std::string& value) {
    using namespace std::string_literals;
    return message('T',
                   "\0\1"s + name + '\0' + number(0) + "\0\0"s + number(25) + "\xff\xff"s + number(~0U) + "\0\0"s) +
           message('D', "\0\1"s + number(static_cast<std::uint32_t>(value.size())) + value) +
           message('C', "SELECT 1\0"s);
  }

  // True: there is something to read. False: it is time to end.
  bool wait_for(int socket) const {
    while (!ends_) {
      pollfd readable{socket, POLLIN, 0};
      if (::poll(&readable, 1, 10) > 0) return true;
    }
    return false;
  }
  bool read(int socket, void* to, std::size_t size) const {
    auto* at = static_cast<char*>(to);
    while (size != 0) {
      if (!wait_for(socket)) return false;
      const ssize_t got = ::read(socket, at, size);
      if (got <= 0) return false;
      at += got;
      size -= static_cast<std::size_t>(got);
    }
    return true;
  }
  // The part of a message behind its kind.
  bool read_body(int socket, std::string& body) const {
    std::uint32_t size = 0;
    if (!read(socket, &size, sizeof size)) return false;
    body.resize(ntohl(size) - 4);
    return read(socket, body.data(), body.size());
  }
  static void write(int socket, const std::string& bytes) {
    (void)!::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  void serve() {
    while (wait_for(listener_)) {
      const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) continue;
      talk(client);
      ::close(client);
    }
  }
  void talk(int client) const {
    std::string body;
    if (!read_body(client, body)) return;
    write(client, message('R', number(0)) + parameter("server_version", version_) +
                      parameter("client_encoding", "UTF8") + parameter("server_encoding", "UTF8") +
                      parameter("standard_conforming_strings", "on") + message('K', number(1) + number(2)) + ready());
    for (char kind = 0; read(client, &kind, 1) && read_body(client, body);)
      if (kind == 'Q') write(client, row("transaction_read_only", "off") + ready());
  }

  const std::string version_;
  const int listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

}  // namespace conformance
