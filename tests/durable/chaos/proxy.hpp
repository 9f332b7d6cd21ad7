// A network between a node and the database that breaks: a proxy on a Unix socket.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <list>
#include <mutex>
#include <string>
#include <thread>

namespace chaos {

/// How the network is.
struct weather {
  bool holds_questions = false;       ///< bytes to the database do not arrive
  bool holds_answers = false;         ///< bytes to the node do not arrive
  bool refuses = false;               ///< no connection is made
  std::chrono::milliseconds delay{};  ///< of all bytes
};

/// Passes bytes on, in a thread of its own. At most 64 KiB are on their way in each direction; then the sender waits.
class proxy {
 public:
  /// Listens on a socket, and connects to another one.
  proxy(std::string listens_on, std::string connects_to);
  ~proxy();
  proxy(const proxy&) = delete;
  proxy& operator=(const proxy&) = delete;

  void set(weather);
  /// New connections lead to another socket.
  void lead_to(std::string path);
  /// Closes all connections. What is on its way is lost.
  void cut();
  /// Does so as soon as so many bytes of one answer have arrived; 0: not any more.
  void cut_within_answer(std::size_t bytes);

 private:
  using time = std::chrono::steady_clock::time_point;
  struct channel {
    int from = -1;
    int to = -1;
    std::string bytes;  // on their way
    time arrival{};     // of the first of them
    bool has_ended = false;
    std::size_t passed = 0;  // bytes that have arrived; of an answer since the last question
  };
  struct connection {
    channel questions;
    channel answers;
  };

  void run();
  void accept_one(const std::string& server_path);
  bool pass(channel&, bool is_held, short readable, time now);
  void close(connection&);
  void wake();

  const std::string listens_on_;
  int listener_ = -1;
  int wake_ = -1;
  std::mutex mutex_;
  std::string connects_to_;  // guarded by the mutex
  weather weather_;          // guarded by the mutex
  bool cuts_ = false;        // guarded by the mutex
  std::atomic<std::size_t> cuts_within_{0};
  bool has_to_stop_ = false;  // guarded by the mutex
  std::list<connection> connections_;
  std::thread thread_;
};

}  // namespace chaos
