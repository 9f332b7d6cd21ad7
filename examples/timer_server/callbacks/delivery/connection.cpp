#include "connection.hpp"

#include "../message/request_text.hpp"
#include "callback.hpp"
#include "callback_dispatcher.hpp"
#include "host_pool.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace timer_server {

connection::connection(host_pool& host)
    : on_{host.dispatcher().shared_from_this()}, host_{host}, idle_{on_->timers(), *this} {
  uv_tcp_init(&on_->loop().uv(), &socket_);  // cannot fail: it makes no socket yet
  socket_.data = this;
  idle_.unref();
  on_->connections_.push_back(*this);
  host_.take_place();
}

connection* connection::open(host_pool& host, const sockaddr_storage& address, callback& user, int& error) {
  auto* const self = new connection{host};
  const auto on_connect = [](uv_connect_t* connect, int failed) {
    static_cast<connection*>(connect->handle->data)->on_connected(failed);
  };
  error = uv_tcp_connect(&self->connect_, &self->socket_, reinterpret_cast<const sockaddr*>(&address), on_connect);
  if (error == 0) {
    self->user_ = &user;
    return self;
  }
  self->close();
  return nullptr;
}

void connection::on_connected(int error) noexcept {
  if (uv_is_closing(handle()) != 0) return;
  const callback_dispatcher::turn turn{*on_};
  const auto give_buffer = [](uv_handle_t* h, std::size_t, uv_buf_t* buffer) {
    *buffer = static_cast<connection*>(h->data)->on_->read_buffer();
  };
  const auto on_read = [](uv_stream_t* s, ssize_t size, const uv_buf_t* buffer) {
    if (size != 0) static_cast<connection*>(s->data)->on_read(size, buffer->base);
  };
  if (error == 0) error = uv_read_start(stream(), give_buffer, on_read);
  if (error == 0) error = idle_.start(on_->options().idle_timeout);
  if (error == 0) {
    uv_tcp_nodelay(&socket_, 1);
    ++on_->counted_.connections;
  }
  callback* const user = user_;
  if (error != 0) close();
  user->on_connected(error);
}

void connection::send(callback& user, const std::optional<std::string>& signature) {
  user_ = &user;
  unlink_idle();
  uv_ref(handle());
  const callback_options& options = on_->options();
  const response_limits limits{.header = options.max_header_bytes, .body = options.max_response_bytes};
  reader_.emplace(limits, user.request().method == "HEAD");
  write_request_head(head_, user.request(), user.url(), signature);
  if (has_served_) ++on_->counted_.reused;
  // libuv does not write to them
  const std::string& body = user.request().body;
  const std::array buffers{uv_buf_init(head_.data(), static_cast<unsigned>(head_.size())),
                           uv_buf_init(const_cast<char*>(body.data()), static_cast<unsigned>(body.size()))};
  write(buffers.data(), body.empty() ? 1 : 2);
}

// Nearly always the socket takes all at once. A connection that is broken is left to the next read: what the callee said before
// it was may still be there.
void connection::write(const uv_buf_t* buffers, unsigned count) noexcept {
  const int sent = uv_try_write(stream(), buffers, count);
  std::size_t taken = sent > 0 ? static_cast<std::size_t>(sent) : 0;
  std::array<uv_buf_t, 2> rest{};
  unsigned left = 0;
  for (unsigned at = 0; at < count; ++at) {
    const std::size_t of_this = std::min(taken, buffers[at].len);
    taken -= of_this;
    if (of_this != buffers[at].len)
      rest[left++] = uv_buf_init(buffers[at].base + of_this, static_cast<unsigned>(buffers[at].len - of_this));
  }
  if (left == 0) return;
  is_writing_ = true;
  if (sent < 0 && sent != UV_EAGAIN) return;
  const auto on_written = [](uv_write_t* w, int error) {
    static_cast<connection*>(w->handle->data)->on_written(error);
  };
  // an error is one of memory: the attempt then ends by its deadline
  (void)uv_write(&write_, stream(), rest.data(), left, on_written);
}

void connection::on_written(int error) noexcept {
  if (error == 0) is_writing_ = false;
}

void connection::on_read(ssize_t size, const char* bytes) noexcept {
  const callback_dispatcher::turn turn{*on_};
  if (user_ == nullptr) return close();  // the callee has closed it, or sends what nobody asked for
  if (size >= 0) return go_on(reader_->take({bytes, static_cast<std::size_t>(size)}));
  if (size == UV_EOF) return go_on(reader_->end());
  lose(uv_strerror(static_cast<int>(size)));
}

void connection::go_on(response_reader::stage stage) noexcept {
  if (stage == response_reader::stage::reading) return;
  if (stage == response_reader::stage::malformed) return lose(reader_->problem());
  const bool is_kept = reader_->keeps_connection() && !is_writing_;  // it did not need the whole request
  callback* const user = std::exchange(user_, nullptr);
  has_served_ = true;
  user->on_response(*reader_);
  if (!is_kept) return close();
  idle_.touch();
  uv_unref(handle());
  host_.on_free(*this);
}

void connection::lose(const char* why) noexcept {
  callback* const user = user_;
  const bool was_begun = reader_->has_begun();
  close();
  user->on_lost(why, was_begun);
}

void connection::on_idle() noexcept {
  if (user_ != nullptr) {
    (void)idle_.notify_again();  // cannot fail: this is its handler
    return;
  }
  const callback_dispatcher::turn turn{*on_};
  close();
}

void connection::unlink_idle() noexcept {
  auto_hook<idle_in_host>::unlink();
  auto_hook<idle_in_all>::unlink();
}

void connection::close() noexcept {
  if (uv_is_closing(handle()) != 0) return;
  user_ = nullptr;
  idle_.cancel();
  unlink_idle();
  auto_hook<open_in_all>::unlink();
  host_.leave_place();
  uv_close(handle(), [](uv_handle_t* h) { delete static_cast<connection*>(h->data); });
}

}  // namespace timer_server
