#include "process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace crash {

namespace {

[[noreturn]] void stop(const char* what) {
  std::perror(what);
  std::exit(2);  // NOLINT(concurrency-mt-unsafe): there is one thread
}

}  // namespace

process::process(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  std::array<int, 2> in{};
  std::array<int, 2> out{};
  if (pipe2(in.data(), O_CLOEXEC) != 0 || pipe2(out.data(), O_CLOEXEC) != 0) stop("crash: pipe2");
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  id_ = fork();
  if (id_ < 0) stop("crash: fork");
  if (id_ == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    const rlimit no_core{0, 0};
    (void)setrlimit(RLIMIT_CORE, &no_core);
    (void)dup2(in[0], STDIN_FILENO);
    (void)dup2(out[1], STDOUT_FILENO);
    for (const std::string& variable : environment) (void)putenv(const_cast<char*>(variable.c_str()));
    (void)execv(words.front(), words.data());
    std::perror(words.front());
    _exit(2);
  }
  close(in[0]);
  close(out[1]);
  input_ = in[1];
  output_ = out[0];
  if (fcntl(input_, F_SETFL, O_NONBLOCK) != 0 || fcntl(output_, F_SETFL, O_NONBLOCK) != 0) stop("crash: fcntl");
  (void)fcntl(output_, F_SETPIPE_SZ, 1 << 20);
}

process::~process() {
  if (id_ > 0) {
    (void)kill(id_, SIGKILL);
    (void)waitpid(id_, nullptr, 0);
  }
  close(input_);
  close(output_);
}

bool process::exchange(std::string& into, std::chrono::milliseconds patience) {
  std::array<pollfd, 2> both{pollfd{output_, POLLIN, 0}, pollfd{to_send_.empty() ? -1 : input_, POLLOUT, 0}};
  (void)poll(both.data(), both.size(), static_cast<int>(patience.count()));
  if ((both[1].revents & POLLOUT) != 0) write_some();
  return both[0].revents == 0 || read_some(into);
}

void process::write_some() {
  const ssize_t count = write(input_, to_send_.data(), to_send_.size());
  if (count > 0) to_send_.erase(0, static_cast<std::size_t>(count));
}

bool process::read_some(std::string& into) {
  std::array<char, 65536> bytes{};
  for (;;) {
    const ssize_t count = read(output_, bytes.data(), bytes.size());
    if (count == 0) return false;
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    into.append(bytes.data(), static_cast<std::size_t>(count));
  }
}

void process::signal(int number) const noexcept { (void)kill(id_, number); }

int process::wait(std::string& into) {
  to_send_.clear();
  while (exchange(into, std::chrono::milliseconds{1000})) {
  }
  int status = 0;
  (void)waitpid(id_, &status, 0);
  id_ = -1;
  return status;
}

}  // namespace crash
