#include "service_block.hpp"

#include <new>
#include <utility>

namespace tickwheel::c {

int service_block::open(uv_loop_t& loop, tw_service_t& handle, const service_options& options) noexcept {
  auto* const made = new (std::nothrow) service_block{loop, handle};
  if (made == nullptr) return UV_ENOMEM;
  detail::forwarding_timer::identify_by_target(made->timers_);
  if (const int error = made->timers_.open(loop, options)) {
    delete made;
    return error;
  }
  handle.private_[0] = made;
  return 0;
}

void service_block::close(timer& t) noexcept {
  closed_.splice(closed_.end(), open_, open_.iterator_to(t));
  call_later();
}

void service_block::close(tw_service_close_cb told) noexcept {
  told_ = told;
  timers_.close();
  call_later();
}

void service_block::on_slow_handler(tw_slow_handler_cb slow) noexcept {
  slow_ = slow;
  const slow_handler_hook tell = [](void* block, const slow_handler& one) noexcept {
    service_block& self = *static_cast<service_block*>(block);
    self.slow_(&self.handle_, to_c_handler(one.handler), static_cast<std::uint64_t>(one.took.count()));
  };
  timers_.on_slow_handler(slow != nullptr ? tell : nullptr, this);
}

void service_block::call_later() noexcept {
  if (std::exchange(called_later_, true)) return;
  uv_idle_init(&loop_, &closer_);
  closer_.data = this;
  uv_close(reinterpret_cast<uv_handle_t*>(&closer_),
           [](uv_handle_t* h) { static_cast<service_block*>(h->data)->call(); });
}

// Handles that a callback closes get their close callbacks in the next iteration, as in libuv.
void service_block::call() noexcept {
  called_later_ = false;
  timer_list closed;
  closed.swap(closed_);
  while (!closed.empty()) {
    timer& t = closed.front();
    closed.pop_front();
    t.finish();
  }
  if (is_closing() && !called_later_) finish();
}

void service_block::finish() noexcept {
  open_.clear_and_dispose([](timer* t) { t->detach(); });
  tw_service_t& handle = handle_;
  const tw_service_close_cb told = told_;
  handle.private_[0] = nullptr;
  delete this;
  if (told != nullptr) told(&handle);
}

}  // namespace tickwheel::c
