// The handle of a TCP socket, and its owner.
#pragma once

#include <tickwheel/core/detail/check.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <uv.h>

#include <new>
#include <utility>

namespace tickwheel::detail {

/// The handle is on the heap, because it must stay until libuv has closed it, also if its owner is gone by then. It also stays until
/// its owner lets go of it.
///
/// *Thread safety:* the loop thread. *Complexity:* O(1). *Lifetime:* as said.
class tcp_handle {
 public:
  tcp_handle(const tcp_handle&) = delete;
  tcp_handle& operator=(const tcp_handle&) = delete;

  uv_tcp_t& tcp() noexcept { return tcp_; }
  uv_stream_t* stream() noexcept { return reinterpret_cast<uv_stream_t*>(&tcp_); }
  timer_service& timers() const noexcept { return timers_; }
  bool is_open() const noexcept { return state_ == state::open; }

 protected:
  tcp_handle(uv_loop_t& loop, timer_service& timers) noexcept : timers_{timers} {
    uv_tcp_init(&loop, &tcp_);  // cannot fail: it makes no socket yet
    tcp_.data = this;
  }
  ~tcp_handle() = default;

  /// Returns the object of type `Self` that a handle of libuv belongs to.
  template <class Self, class Handle>
  static Self& of(Handle* h) noexcept {
    return *static_cast<Self*>(static_cast<tcp_handle*>(h->data));
  }

  /// Has libuv close it, and then call `closed`. Returns false if that was done before. Requires: nobody else has closed the handle
  /// (checked).
  bool begin_close(uv_close_cb closed) noexcept {
    if (state_ != state::open) return false;
    state_ = state::closing;
    auto* const handle = reinterpret_cast<uv_handle_t*>(&tcp_);
    require(uv_is_closing(handle) == 0, "tcp_socket or tcp_listener: its handle was closed by uv_close");
    uv_close(handle, closed);
    return true;
  }
  /// Libuv has closed it. Returns true if it is to be freed now.
  bool end_close() noexcept {
    state_ = state::closed;
    return !is_owned_;
  }
  /// The owner lets go of it. Returns true if it is to be freed now.
  bool disown() noexcept {
    is_owned_ = false;
    return state_ == state::closed;
  }

 private:
  enum class state : unsigned char { open, closing, closed };

  uv_tcp_t tcp_{};
  timer_service& timers_;
  state state_ = state::open;
  bool is_owned_ = true;
};

/// Owns a handle, or none. Moves.
template <class Handle>
class tcp_owner {
 public:
  tcp_owner() noexcept = default;
  tcp_owner(tcp_owner&& other) noexcept : handle_{std::exchange(other.handle_, nullptr)} {}
  tcp_owner& operator=(tcp_owner&& other) noexcept {
    if (this != &other) {
      close();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  ~tcp_owner() { close(); }

  int open(uv_loop_t& loop, timer_service& timers) noexcept {
    if (is_open()) return UV_EALREADY;
    auto* const made = new (std::nothrow) Handle{loop, timers};
    if (made == nullptr) return UV_ENOMEM;
    close();  // one that closed by itself
    handle_ = made;
    return 0;
  }
  int open(timer_service& timers) noexcept {
    uv_loop_t* const loop = timers.loop();
    return loop != nullptr ? open(*loop, timers) : UV_ECANCELED;
  }
  void close() noexcept {
    if (Handle* const closed = std::exchange(handle_, nullptr)) closed->release();
  }
  bool is_open() const noexcept { return handle_ != nullptr && handle_->is_open(); }
  Handle* get() const noexcept { return handle_; }
  /// Returns libuv's handle. Stops the process with the line `violated` if it owns none that is open.
  uv_tcp_t* tcp(const char* violated) const noexcept {
    require(is_open(), violated);
    return &handle_->tcp();
  }

 private:
  Handle* handle_ = nullptr;
};

}  // namespace tickwheel::detail
