#include <tickwheel/uv/remote.hpp>

namespace tickwheel {

using detail::operation_state;

remote_timer::outcome remote_timer::cancel() noexcept {
  if (operation_ == nullptr) return outcome::too_late;
  switch (queue_->cancel(*operation_)) {
    case operation_state::cancelled:
      return outcome::cancelled;
    case operation_state::closed:
      return outcome::closed;
    default:
      return outcome::too_late;
  }
}

void remote_timer::release() noexcept {
  if (operation_ == nullptr) return;
  operation_->release();
  queue_->release();
  operation_ = nullptr;
  queue_ = nullptr;
}

}  // namespace tickwheel
