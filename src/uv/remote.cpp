#include <tickwheel/uv/remote.hpp>

namespace tickwheel {

using detail::remote_state;

remote_timer::outcome remote_timer::cancel() noexcept {
  if (node_ == nullptr) return outcome::too_late;
  // in this order, as the loop may move it from queued to armed between the two, and never back
  if (node_->change(remote_state::queued, remote_state::cancelled)) return outcome::cancelled;
  if (node_->change(remote_state::armed, remote_state::cancelled)) {
    box_->notify(*node_);
    return outcome::cancelled;
  }
  switch (node_->state.load(std::memory_order_acquire)) {
    case remote_state::cancelled:
    case remote_state::abandoned:
      return outcome::cancelled;
    case remote_state::closed:
      return outcome::closed;
    default:
      return outcome::too_late;
  }
}

void remote_timer::release() noexcept {
  if (node_ == nullptr) return;
  node_->release();
  box_->release();
  node_ = nullptr;
  box_ = nullptr;
}

}  // namespace tickwheel
