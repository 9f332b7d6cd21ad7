#include "slow_writer.hpp"

#ifdef __linux__
#include <linux/sockios.h>
#include <sys/ioctl.h>
#endif

#include <algorithm>
#include <utility>

std::ptrdiff_t slow_writer::try_write(std::string_view bytes) noexcept {
  if (bytes.empty()) return 0;
  uv_buf_t buffer = uv_buf_init(const_cast<char*>(bytes.data()), static_cast<unsigned>(bytes.size()));
  const int sent = uv_try_write(&to_, &buffer, 1);
  return sent == UV_EAGAIN ? 0 : sent;
}

int slow_writer::write(std::string_view rest, std::chrono::nanoseconds look_every) {
  unsent_.assign(rest);
  owed_ = owed();
  if (const int error = look_.start(look_every)) return error;
  return write_next();
}

// In pieces, so that `owed` sees it shrink even if the system cannot be asked.
int slow_writer::write_next() noexcept {
  constexpr std::size_t piece = 16384;
  const std::size_t size = std::min(piece, unsent_.size() - sent_);
  uv_buf_t buffer = uv_buf_init(unsent_.data() + sent_, static_cast<unsigned>(size));
  request_.data = this;
  const auto on_written = [](uv_write_t* write, int error) {
    auto& self = *static_cast<slow_writer*>(write->data);
    if (error != 0) return self.owner_.on_write_failed();
    self.written();
  };
  if (const int error = uv_write(&request_, &to_, &buffer, 1, on_written)) return error;
  writing_ = size;
  return 0;
}

void slow_writer::written() noexcept {
  sent_ += std::exchange(writing_, 0);
  if (sent_ < unsent_.size()) {
    if (write_next() != 0) owner_.on_write_failed();
    return;
  }
  unsent_ = {};
  sent_ = 0;
  look_.cancel();
  owner_.on_written();
}

void slow_writer::on_look() noexcept {
  const std::size_t before = std::exchange(owed_, owed());
  owner_.on_taken(before - std::min(before, owed_));
}

// The bytes that the peer has not acknowledged: those that are to be written, and those that the system has, if it tells. A system
// takes half a megabyte at once and nothing for a long time after, however steadily the peer reads.
std::size_t slow_writer::owed() noexcept {
  int in_system = 0;
#ifdef SIOCOUTQ
  uv_os_fd_t fd{};
  if (uv_fileno(reinterpret_cast<uv_handle_t*>(&to_), &fd) != 0 || ioctl(fd, SIOCOUTQ, &in_system) != 0) in_system = 0;
#endif
  const std::size_t written = sent_ + (writing_ - std::min(writing_, uv_stream_get_write_queue_size(&to_)));
  return unsent_.size() - written + static_cast<std::size_t>(in_system);
}
