// The child of a fork, and a pipe to it.
#pragma once

#include "../../support/prelude.hpp"

#include <sys/wait.h>
#include <unistd.h>

/// Does something, and exits. Its checks are those of the test.
class child_process {
 public:
  explicit child_process(const std::function<void()>& run) : id_{fork()} {
    EXPECT_GE(id_, 0);
    if (id_ != 0) return;
    alarm(30);  // a child that hangs must not outlive the test
    run();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  child_process(const child_process&) = delete;
  child_process& operator=(const child_process&) = delete;

  pid_t id() const { return id_; }

  /// Waits for its end. Returns 0 if no check has failed, or the negative number of the signal that ended it.
  int exit_code() const {
    int status = 0;
    EXPECT_EQ(waitpid(id_, &status, 0), id_);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t id_;
};

/// A pipe between a child and its parent, or two threads.
class byte_pipe {
 public:
  byte_pipe() { EXPECT_EQ(::pipe(ends_.data()), 0); }
  ~byte_pipe() {
    for (const int end : ends_) ::close(end);
  }
  byte_pipe(const byte_pipe&) = delete;
  byte_pipe& operator=(const byte_pipe&) = delete;

  int reading() const { return ends_[0]; }
  int writing() const { return ends_[1]; }

 private:
  std::array<int, 2> ends_{};
};
