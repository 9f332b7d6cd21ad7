#include <tickwheel/uv/remote.hpp>

namespace tickwheel {

using detail::remote_state;

remote_timer::outcome remote_timer::cancel() noexcept {
  if (node_ == nullptr) return outcome::too_late;
  switch (box_->cancel(*node_)) {
    case remote_state::cancelled:
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
