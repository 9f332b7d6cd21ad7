#include <tickwheel/uv/detail/loop_clock.hpp>

namespace tickwheel::detail {

loop_clock::time_point loop_clock::read() const noexcept {
  // a time that a prepare callback reads after the driver's own is older than the input of the next poll
  stamp_epoch_ = *epoch_ == early_epoch_ ? ~*epoch_ : *epoch_;
  was_read_ = true;
  stamp_ = driver_->now();
  note_reached(stamp_);
  if (has_now()) first_read_ = std::min(first_read_, stamp_);
  responsive_stamp_ = responsive(stamp_);
  return stamp_;
}

}  // namespace tickwheel::detail
