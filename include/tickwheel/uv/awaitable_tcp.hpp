// TCP sockets that coroutines await: connect, accept, read and write, each with an optional limit.
//
// Use them where a session reads best as one function from top to bottom. The umbrella header does not include this file. The
// type of the coroutine is yours, or that of your framework.
//
//   task echo(tickwheel::tcp_socket peer) {                       // the frame owns the socket
//     std::array<char, 4096> bytes;
//     for (;;) {
//       const ssize_t got = co_await peer.read(bytes, 30s);
//       if (got < 0) co_return;                                   // UV_EOF, UV_ETIMEDOUT or an error
//       const std::span<const char> received{bytes.data(), static_cast<std::size_t>(got)};
//       if (co_await peer.write(received, 5s) != 0) co_return;    // `peer` closes with the frame
//     }
//   }
//   task serve(tickwheel::tcp_listener& listener) {
//     for (;;) {
//       tickwheel::tcp_socket peer;
//       const int error = co_await listener.accept(peer);
//       if (error == UV_ECANCELED) co_return;                     // the listener was closed
//       if (error == 0) echo(std::move(peer));
//     }
//   }
//
// A limit is a duration, a time point, or a `tickwheel::deadline`. At its end the operation results in UV_ETIMEDOUT. Bytes that the
// peer had sent by then are read first, also after our own loop was blocked. A duration counts from the time at which the operation
// begins to wait, on responsive time: it leaves out the time for which our loop was blocked. A time point is on the plain clock,
// because the caller's budget passes also while the loop is blocked.
//
// Writing to a peer that is gone raises SIGPIPE, as with libuv: ignore that signal.
#pragma once

#include <tickwheel/uv/detail/tcp_connection.hpp>
#include <tickwheel/uv/detail/tcp_handle.hpp>
#include <tickwheel/uv/detail/tcp_wait.hpp>
#include <tickwheel/uv/tcp_limit.hpp>
#include <tickwheel/uv/timer.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <uv.h>

#include <version>

#if !defined(__cpp_impl_coroutine)
#error "tickwheel/uv/awaitable_tcp.hpp needs the coroutines of C++20"
#endif

#include <concepts>
#include <coroutine>
#include <cstddef>
#include <span>
#include <utility>

namespace tickwheel {

/// An address of a socket.
template <class T>
concept tcp_address = std::same_as<T, sockaddr_in> || std::same_as<T, sockaddr_in6> || std::same_as<T, sockaddr>;

namespace detail {

template <tcp_address Address>
const sockaddr& plain_address(const Address& a) noexcept {
  return reinterpret_cast<const sockaddr&>(a);
}

/// The operations of a connection. Each says whether it is complete at once, begins, and gives up.
struct tcp_read {
  using result = ssize_t;

  bool is_ready(ssize_t& answer) const noexcept {
    if (on == nullptr || !on->is_open()) return answer = UV_ECANCELED, true;
    if (into.empty()) return answer = UV_EINVAL, true;
    return false;
  }
  int begin(tcp_wait& wait, const tcp_limit& limit) const noexcept { return on->begin_read(into, wait, limit); }
  void give_up() const noexcept { on->give_up_read(); }

  tcp_connection* on;
  std::span<char> into;
};

struct tcp_write {
  using result = int;

  // Nearly always the socket takes all bytes at once. Such a write needs no request, no timer and no suspension.
  bool is_ready(ssize_t& answer) noexcept {
    if (on == nullptr || !on->is_open()) return answer = UV_ECANCELED, true;
    if (on->is_writing()) return answer = UV_EBUSY, true;
    answer = 0;
    if (bytes.empty()) return true;
    const uv_buf_t all = tcp_connection::buffer_of(bytes);
    const int sent = uv_try_write(on->stream(), &all, 1);
    if (sent == UV_EAGAIN) return false;
    if (sent < 0) return answer = sent, true;
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
    return bytes.empty();
  }
  int begin(tcp_wait& wait, const tcp_limit& limit) const noexcept { return on->begin_write(bytes, wait, limit); }
  void give_up() const noexcept { on->give_up_request(); }

  tcp_connection* on;
  std::span<const char> bytes;
};

struct tcp_connect {
  using result = int;

  bool is_ready(ssize_t& answer) const noexcept {
    if (on == nullptr || !on->is_open()) return answer = UV_ECANCELED, true;
    if (on->is_writing()) return answer = UV_EBUSY, true;
    if (on->is_connected()) return answer = UV_EISCONN, true;  // Linux may answer 0, also for another address
    return false;
  }
  int begin(tcp_wait& wait, const tcp_limit& limit) const noexcept { return on->begin_connect(*to, wait, limit); }
  void give_up() const noexcept { on->give_up_request(); }

  tcp_connection* on;
  const sockaddr* to;
};

}  // namespace detail

/// Result of the operations of a socket or listener. It is awaited once, in the expression that made it. It may be passed to
/// `with_timeout` and `with_deadline`.
///
/// *Thread safety:* the loop thread only. *Complexity:* O(1), no allocation besides what `tcp_listener::accept` says. *Errors:* the
/// result of `co_await`. *Lifetime:* moves until it is awaited. The socket, the bytes and the address that the operation was given
/// outlive the await. If the frame of the coroutine is destroyed, the operation is given up.
template <class Operation>
class [[nodiscard]] tcp_awaitable : private detail::tcp_wait {
 public:
  /// The result of an operation with a limit.
  tcp_awaitable(const Operation& operation, const tcp_limit& limit) noexcept : operation_{operation}, limit_{limit} {}
  /// Takes an operation that was not awaited.
  tcp_awaitable(tcp_awaitable&&) noexcept = default;
  tcp_awaitable& operator=(tcp_awaitable&&) = delete;
  ~tcp_awaitable() {
    if (is_pending()) operation_.give_up();
  }

  /// Returns true if the operation is complete at once.
  bool await_ready() noexcept { return operation_.is_ready(result_); }
  /// Begins the operation. Returns false if that failed.
  bool await_suspend(std::coroutine_handle<> waiting) noexcept {
    waiting_ = waiting;
    const int error = operation_.begin(*this, limit_);
    if (error != 0) [[unlikely]]
      result_ = error;
    return error == 0;
  }
  /// Returns what the operation says.
  typename Operation::result await_resume() const noexcept { return static_cast<typename Operation::result>(result_); }

 private:
  Operation operation_;
  tcp_limit limit_;
};

/// A TCP connection. At most one coroutine reads, and at most one connects or writes, at a time.
///
/// Each operation takes a limit. The errors of all operations:
/// UV_ECANCELED: the socket is closed, or was closed meanwhile. With a limit also: the service is closed.
/// UV_EBUSY: another coroutine waits for the same direction.
/// UV_ETIMEDOUT: the limit has passed.
/// UV_ENOBUFS: `max_armed` timers are armed, so that the limit cannot be. The operation was not begun, or only a part was written.
/// Others: errors of libuv, such as UV_ECONNRESET.
///
/// An operation may be given up: its coroutine is destroyed, or `with_timeout` ends it. A read that is given up, or whose limit has
/// passed, takes no bytes, and the socket stays open. A connect or write that is given up, or whose limit has passed, closes the
/// socket. Libuv ends such a request only with the socket, and nobody knows which bytes were sent.
///
/// A limit moves no timer for each operation. A duration reads the clock when its operation begins to wait, as
/// `timer_service::update_now` does. With a time point, the clock is read only if the loop must wake up earlier.
/// A socket keeps up to two armed timers, one for each direction, up to the time of a limit that was set. They do not keep the loop alive: operations do.
///
/// *Thread safety:* the loop thread only. *Complexity:* O(1). `open` allocates a block of less than a kilobyte, which is freed when
/// libuv has closed the handle. Nothing else allocates. *Errors:* UV_ codes. *Lifetime:* moves, also while a coroutine waits. May be
/// destroyed at any time, which closes it. The loop outlives it. The service outlives each begin of an operation with a limit. If the
/// service closes during an operation, the operation goes on without its limit.
class tcp_socket {
 public:
  /// A closed socket.
  tcp_socket() noexcept = default;

  /// Makes a handle on the loop of `timers`, for `connect` or `tcp_listener::accept`. A closed socket can be opened again.
  ///
  /// 0: it is open. UV_EALREADY: it was open before. UV_ENOMEM: there is no memory.
  /// UV_ECANCELED: the service is closed, or on a driver without a loop.
  [[nodiscard]] int open(timer_service& timers) noexcept { return owner_.open(timers); }
  /// As `tcp_socket::open(timer_service&)`, on `loop`, also while the service is closed: for tests, whose service has manual time.
  [[nodiscard]] int open(uv_loop_t& loop, timer_service& timers) noexcept { return owner_.open(loop, timers); }

  /// Closes it. Coroutines that wait for it are resumed with UV_ECANCELED, in the close phase of the loop's iteration, not in this
  /// call. Idempotent.
  void close() noexcept { owner_.close(); }
  /// Returns true between `open` and `close`. A connect or write that was given up, or whose limit has passed, has closed the socket.
  bool is_open() const noexcept { return owner_.is_open(); }
  /// Returns the handle, for functions of libuv such as uv_tcp_nodelay. Its `data` belongs to the socket, and only `close` closes
  /// it: a uv_walk that closes handles leaves it out. Requires: open.
  uv_tcp_t* handle() const noexcept { return owner_.tcp("tcp_socket: handle was called before open or after close"); }

  /// Connects to `to`. Results in 0 or an error. UV_EISCONN: it is connected, and stays so. After any other error `close` the socket,
  /// and `open` it anew before the next connect.
  template <tcp_address Address>
  tcp_awaitable<detail::tcp_connect> connect(const Address& to, tcp_limit limit = {}) const noexcept {
    return {{owner_.get(), &detail::plain_address(to)}, limit};
  }

  /// Reads at least one byte, at most all that fit into `into`. Results in the number of bytes, or in an error.
  ///
  /// UV_EOF: the peer has sent its last byte. UV_EINVAL: `into` is empty. UV_ENOTCONN: it is not connected.
  tcp_awaitable<detail::tcp_read> read(std::span<char> into, tcp_limit limit = {}) const noexcept {
    return {{owner_.get(), into}, limit};
  }

  /// Writes all `bytes`. Results in 0 or an error. If the socket takes all bytes at once, the coroutine does not suspend, and needs no
  /// limit. After an error a part of the bytes may have been sent: close the socket.
  tcp_awaitable<detail::tcp_write> write(std::span<const char> bytes, tcp_limit limit = {}) const noexcept {
    return {{owner_.get(), bytes}, limit};
  }

  /// A string literal ends with a null character, which would be sent: pass a std::string_view. Pass an array of constants as a
  /// std::span.
  template <class Char, std::size_t Size>
  requires std::same_as<Char, const char>
  void write(Char (&)[Size], tcp_limit = {}) const = delete;

  /// Identifies the handler of limits in `timer_service::why`, `dump` and `on_slow_handler`.
  static timer::callback handler() noexcept { return detail::tcp_side::handler(); }

 private:
  detail::tcp_owner<detail::tcp_connection> owner_;
};

namespace detail {

/// A listening socket. At most one connection waits for a coroutine that accepts it; the others wait in the kernel.
class tcp_acceptor final : public tcp_handle {
 public:
  tcp_acceptor(uv_loop_t& loop, timer_service& timers) noexcept
      : tcp_handle{loop, timers}, in_{timers, this, &expire} {}

  void close() noexcept {
    if (begin_close(&on_closed)) in_.close();
  }
  /// Closes it, and frees it after that.
  void release() noexcept {
    close();
    if (disown()) delete this;
  }

  int listen(const sockaddr& at, int backlog) noexcept {
    if (const int error = uv_tcp_bind(&tcp(), &at, 0)) return error;
    return uv_listen(stream(), backlog, &on_connection);
  }

  bool has_waiting() const noexcept { return has_waiting_ && !in_.is_awaited(); }
  int accept(tcp_socket& into) noexcept {
    into.close();
    int error = into.open(*tcp().loop, timers());
    has_waiting_ = error != 0;
    if (error != 0) return error;
    error = uv_accept(stream(), reinterpret_cast<uv_stream_t*>(into.handle()));
    if (error != 0) into.close();
    return error;
  }
  int begin_accept(tcp_socket& into, tcp_wait& wait, const tcp_limit& limit) noexcept {
    const int error = in_.begin(wait, limit);
    if (error == 0) into_ = &into;
    return error;
  }
  void give_up_accept() noexcept { in_.forget(); }

 private:
  static void on_connection(uv_stream_t* s, int error) noexcept {
    auto& self = of<tcp_acceptor>(s);
    if (self.in_.is_awaited())
      self.in_.end(error != 0 ? error : self.accept(*self.into_));
    else
      self.has_waiting_ = error == 0;
  }
  static void expire(void* acceptor) noexcept { static_cast<tcp_acceptor*>(acceptor)->in_.end(UV_ETIMEDOUT); }
  static void on_closed(uv_handle_t* h) noexcept {
    auto& self = of<tcp_acceptor>(h);
    if (self.in_.is_awaited()) self.in_.end(UV_ECANCELED);
    if (self.end_close()) delete &self;
  }

  tcp_side in_;
  tcp_socket* into_ = nullptr;
  bool has_waiting_ = false;  // libuv has accepted one, and accepts no other until it is taken
};

struct tcp_accept {
  using result = int;

  bool is_ready(ssize_t& answer) const noexcept {
    if (on == nullptr || !on->is_open()) return answer = UV_ECANCELED, true;
    if (!on->has_waiting()) return false;
    answer = on->accept(*into);
    return true;
  }
  int begin(tcp_wait& wait, const tcp_limit& limit) const noexcept { return on->begin_accept(*into, wait, limit); }
  void give_up() const noexcept { on->give_up_accept(); }

  tcp_acceptor* on;
  tcp_socket* into;
};

}  // namespace detail

/// Accepts TCP connections for a coroutine. At most one coroutine accepts at a time.
///
/// From `listen` until `close` it keeps the loop alive, as libuv's listening handles do.
///
/// *Thread safety, complexity, errors, lifetime:* as `tcp_socket`.
class tcp_listener {
 public:
  /// A closed listener.
  tcp_listener() noexcept = default;

  /// As `tcp_socket::open`.
  [[nodiscard]] int open(timer_service& timers) noexcept { return owner_.open(timers); }
  /// As `tcp_socket::open`.
  [[nodiscard]] int open(uv_loop_t& loop, timer_service& timers) noexcept { return owner_.open(loop, timers); }

  /// Listens at `at`. The kernel keeps up to `backlog` connections until they are accepted.
  ///
  /// 0: it listens. UV_ECANCELED: the listener is closed. Others: errors of uv_tcp_bind and uv_listen, such as UV_EADDRINUSE.
  template <tcp_address Address>
  [[nodiscard]] int listen(const Address& at, int backlog = 128) noexcept {
    if (!is_open()) return UV_ECANCELED;
    return owner_.get()->listen(detail::plain_address(at), backlog);
  }

  /// As `tcp_socket::close`.
  void close() noexcept { owner_.close(); }
  /// Returns true between `open` and `close`.
  bool is_open() const noexcept { return owner_.is_open(); }
  /// Returns the handle, for functions of libuv such as uv_tcp_getsockname. Its `data` belongs to the listener, and only `close` closes
  /// it: a uv_walk that closes handles leaves it out. Requires: open.
  uv_tcp_t* handle() const noexcept { return owner_.tcp("tcp_listener: handle was called before open or after close"); }

  /// Waits for a connection, and opens `into` with it, on the loop and service of this listener. An open `into` is closed first. Takes
  /// the allocation of `tcp_socket::open`. Results in 0, or in an error as the operations of `tcp_socket`. After an error the listener
  /// stays open, and a connection that was not taken waits for the next `accept`. If the process has no descriptor left, libuv
  /// accepts and closes the connections that wait in the kernel. `accept` then goes on waiting, and takes a later connection.
  tcp_awaitable<detail::tcp_accept> accept(tcp_socket& into, tcp_limit limit = {}) const noexcept {
    return {{owner_.get(), &into}, limit};
  }

 private:
  detail::tcp_owner<detail::tcp_acceptor> owner_;
};

}  // namespace tickwheel
