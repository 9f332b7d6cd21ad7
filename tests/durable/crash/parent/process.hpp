// The child process of the crash harness, with its two pipes.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace crash {

/// A child process. The destructor kills it.
class process {
 public:
  /// Starts it, with more variables, NAME=VALUE, in its environment. Stops the program if it cannot be started.
  explicit process(const std::vector<std::string>& command, const std::vector<std::string>& environment = {});
  ~process();
  process(const process&) = delete;
  process& operator=(const process&) = delete;

  /// Queues bytes for its standard input.
  void send(const std::string& text) { to_send_ += text; }
  /// Moves bytes in both directions for at most `patience`. What it has written is appended to `into`. Returns false once it has closed
  /// its standard output.
  bool exchange(std::string& into, std::chrono::milliseconds patience);
  /// Returns the descriptor that has its output.
  int output() const noexcept { return output_; }
  /// Sends a signal.
  void signal(int number) const noexcept;
  /// Reads what is left, waits for its end, and returns its wait status.
  int wait(std::string& into);

 private:
  bool read_some(std::string& into);
  void write_some();

  pid_t id_ = -1;
  int input_ = -1;
  int output_ = -1;
  std::string to_send_;
};

}  // namespace crash
