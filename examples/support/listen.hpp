// Where a server waits for its peers.
#pragma once

#include <sys/socket.h>
#include <uv.h>

/// Has `listener`, which was initialised, listen at `address`, and writes the port there if it was 0. 0 or a UV_ code.
inline int listen_at(uv_tcp_t& listener, sockaddr_in& address, uv_connection_cb on_connection) noexcept {
  auto* const at = reinterpret_cast<sockaddr*>(&address);
  int size = sizeof address;
  if (const int error = uv_tcp_bind(&listener, at, 0)) return error;
  if (const int error = uv_listen(reinterpret_cast<uv_stream_t*>(&listener), SOMAXCONN, on_connection)) return error;
  return uv_tcp_getsockname(&listener, at, &size);
}
