#include "secret_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <system_error>

namespace timer_server {
namespace {

constexpr std::size_t most_bytes = 1 << 20;

class descriptor {
 public:
  explicit descriptor(int number) noexcept : number_{number} {}
  ~descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;

  int number() const noexcept { return number_; }

 private:
  int number_;
};

file_problem last_error() { return {std::generic_category().message(errno)}; }

}  // namespace

std::variant<std::string, file_problem> read_secret_file(const std::string& path) {
  // a pipe without a writer must not hold the program
  const descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.number() < 0) return last_error();
  struct stat about {};
  if (::fstat(file.number(), &about) != 0) return last_error();
  if (!S_ISREG(about.st_mode)) return file_problem{"it is not a regular file"};
  if ((about.st_mode & (S_IRWXO | S_IWGRP)) != 0)
    return file_problem{"other users may read or write it; give it the mode 0600 or 0640"};
  std::string content;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t size = ::read(file.number(), buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return last_error();
    if (size == 0) return content;
    content.append(buffer.data(), static_cast<std::size_t>(size));
    if (content.size() > most_bytes) return file_problem{"it is longer than 1 MiB"};
  }
}

}  // namespace timer_server
