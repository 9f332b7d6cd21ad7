#include "burial.hpp"

namespace tickwheel::durable::postgres {

void burial::ask(transaction& to) const {
  const auto session = static_cast<std::int64_t>(session_), beat = static_cast<std::int64_t>(beat_);
  if (!backends_are_gone_) {
    to.add(statement::end_links).add(session).add(beat);
    return;
  }
  to.add(statement::bury).add(session).add(beat);
  to.add(statement::free_partitions).add(session);
  (void)to.add(statement::forget_links);
}

bool burial::take(const transaction& of) {
  if (!backends_are_gone_) {
    backends_are_gone_ = of.of(0).integer(0, 0) == 0 || ++looks_ == most_looks;
    if (backends_are_gone_) looks_ = 0;
    return false;
  }
  is_buried_ = of.of(0).boolean(0, 1);
  is_locked_ = of.of(0).boolean(0, 2);
  return !is_locked_ || ++looks_ == most_looks;
}

}  // namespace tickwheel::durable::postgres
