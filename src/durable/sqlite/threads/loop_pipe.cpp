#include "loop_pipe.hpp"

#include <unistd.h>

#include <array>
#include <new>

namespace tickwheel::durable::sqlite {

loop_pipe::owner loop_pipe::make(uv_loop_t& loop, client& of) noexcept {
  auto* const made = new (std::nothrow) loop_pipe{of};
  if (made == nullptr) return nullptr;
  if (made->open(loop) == 0) return owner{made};
  for (const uv_file end : made->ends_)
    if (end >= 0) ::close(end);
  delete made;
  return nullptr;
}

int loop_pipe::open(uv_loop_t& loop) noexcept {
  if (const int error = uv_pipe(ends_, UV_NONBLOCK_PIPE, UV_NONBLOCK_PIPE)) return error;
  if (const int error = uv_poll_init(&loop, &poll_, ends_[0])) return error;
  poll_.data = this;
  uv_unref(reinterpret_cast<uv_handle_t*>(&poll_));
  // this call cannot fail
  uv_poll_start(&poll_, UV_READABLE,
                [](uv_poll_t* poll, int, int) { static_cast<loop_pipe*>(poll->data)->on_readable(); });
  return 0;
}

// A full pipe wakes the loop as well.
void loop_pipe::wake() noexcept {
  const char byte = 0;
  [[maybe_unused]] const auto written = ::write(ends_[1], &byte, 1);
}

void loop_pipe::on_readable() noexcept {
  if (fork_.is_in_child()) return stop_in_child();
  std::array<char, 64> bytes;
  if (::read(ends_[0], bytes.data(), bytes.size()) > 0) client_.on_wakeup();
}

// Before uv_loop_fork, parent and child poll the same epoll set, from which libuv takes the descriptor. So another one is placed under
// its number, for which that has no effect. The end for writing is never readable.
void loop_pipe::stop_in_child() noexcept {
  ::dup2(ends_[1], ends_[0]);
  uv_poll_stop(&poll_);
}

// libuv has finished with a handle that the program closed when two iterations have ended: it closes handles in any order.
void loop_pipe::close() noexcept {
  const bool was_polled = is_polled();
  if (was_polled)
    uv_close(reinterpret_cast<uv_handle_t*>(&poll_),
             [](uv_handle_t* poll) { delete static_cast<loop_pipe*>(poll->data); });
  for (const uv_file end : ends_) ::close(end);
  if (was_polled) return;
  if (uv_backend_fd(poll_.loop) >= 0)
    close_after(2);
  else  // uv_loop_close has ended the loop
    delete this;
}

void loop_pipe::close_after(unsigned iterations) noexcept {
  iterations_ = iterations;
  uv_idle_init(poll_.loop, &sentinel_);
  sentinel_.data = this;
  uv_close(reinterpret_cast<uv_handle_t*>(&sentinel_), [](uv_handle_t* sentinel) {
    auto* const self = static_cast<loop_pipe*>(sentinel->data);
    if (self->iterations_ == 1) {
      delete self;
      return;
    }
    self->close_after(self->iterations_ - 1);
  });
}

}  // namespace tickwheel::durable::sqlite
