#include "readiness.hpp"

#include "problem_document.hpp"

#include <chrono>
#include <utility>

namespace timer_server {
namespace {

using namespace std::chrono_literals;
namespace durable = tickwheel::durable;

http_answer ready() { return {.content_type = "text/plain", .body = "ready\n"}; }

http_answer not_ready(const char* why) {
  http_answer answer = answer_with({.status = 503, .code = "not-ready", .detail = why});
  answer.retry_after = 1s;
  return answer;
}

}  // namespace

readiness::readiness(tickwheel::timer_service& timers, durable::scheduler& scheduler)
    : timers_{timers},
      scheduler_{scheduler},
      answered_at_{std::make_shared<tickwheel::clock::time_point>(tickwheel::clock::time_point::min())} {}

void readiness::ask(const answer_function& answer) {
  if (is_draining_) return answer(not_ready("The service stops."));
  if (scheduler_.stats().partitions == 0)
    return answer(not_ready("The service owns no partition of the store, so it starts no timer."));
  const auto now = timers_.now();
  if (*answered_at_ != tickwheel::clock::time_point::min() && now - *answered_at_ < 1s) return answer(ready());
  const auto read = [answer, now, answered_at = answered_at_](durable::read_result result,
                                                              const durable::task_info&) noexcept {
    if (result == durable::read_result::unavailable) return answer(not_ready("The store does not answer."));
    *answered_at = now;
    answer(ready());
  };
  // no timer needs to have this id: the answer that there is none is one
  if (scheduler_.get("readyz", read) != 0) answer(not_ready("The service has too many requests, or stops."));
}

}  // namespace timer_server
