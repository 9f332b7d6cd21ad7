// Another process for a test, which is told when to go on.
#pragma once

#include <gtest/gtest.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <utility>

/// Runs a function in a child, whose result is its exit code. Make it before the test starts any thread.
class child_process {
 public:
  /// The child's view of its parent.
  class parent {
   public:
    parent(int from, int to) : from_{from}, to_{to} {}
    /// Waits until the parent calls `tell`.
    void wait() const {
      char byte = 0;
      if (::read(from_, &byte, 1) != 1) _exit(99);  // the parent is gone
    }
    void tell() const { EXPECT_EQ(::write(to_, "x", 1), 1); }

   private:
    int from_, to_;
  };

  /// `body(parent)` returns the exit code. A failed expectation makes it 98.
  template <class F>
  explicit child_process(F body) {
    std::array<int, 2> down{}, up{};
    EXPECT_EQ(::pipe(down.data()), 0);
    EXPECT_EQ(::pipe(up.data()), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(down[1]);
      ::close(up[0]);
      const int code = body(parent{down[0], up[1]});
      _exit(testing::Test::HasFailure() ? 98 : code);
    }
    EXPECT_GT(pid_, 0);
    ::close(down[0]);
    ::close(up[1]);
    to_ = down[1];
    from_ = up[0];
  }
  ~child_process() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::close(to_);
    ::close(from_);
  }
  child_process(const child_process&) = delete;
  child_process& operator=(const child_process&) = delete;

  void tell() const { EXPECT_EQ(::write(to_, "x", 1), 1); }
  /// Waits until the child calls `tell`.
  void wait() const {
    char byte = 0;
    EXPECT_EQ(::read(from_, &byte, 1), 1) << "the child ended first";
  }
  void kill() const { ::kill(pid_, SIGKILL); }
  /// Waits for the end of the child, and returns its exit code; -1 after a signal.
  int exit_code() {
    int status = 0;
    EXPECT_EQ(::waitpid(std::exchange(pid_, -1), &status, 0) > 0, true);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
};
