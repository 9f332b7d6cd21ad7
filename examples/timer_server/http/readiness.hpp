// Whether this process should get requests: the answer to /readyz.
#pragma once

#include "http_answer.hpp"

#include <tickwheel/durable/durable.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <memory>

namespace timer_server {

/// Ready: the scheduler owns partitions, the store has answered a read, and the process does not stop. Anybody may ask, so that the
/// store is asked once a second at most while it answers.
class readiness {
 public:
  readiness(tickwheel::timer_service& timers, tickwheel::durable::scheduler& scheduler);

  void ask(const answer_function&);
  void begin_drain() noexcept { is_draining_ = true; }

 private:
  tickwheel::timer_service& timers_;
  tickwheel::durable::scheduler& scheduler_;
  /// When the store has answered last. Shared with reads, which may be answered after this object is gone.
  std::shared_ptr<tickwheel::clock::time_point> answered_at_;
  bool is_draining_ = false;
};

}  // namespace timer_server
