// The counters of a service, for C.
#include "service_block.hpp"

#include <tickwheel/tickwheel.h>
#include <tickwheel/uv/service_stats.hpp>

#include <uv.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>

using tickwheel::c::service_block;

namespace tickwheel::c {

namespace {

tw_service_stats_t to_c(const service_stats& from) noexcept {
  tw_service_stats_t to{};
  to.armed = from.armed;
  to.fired = from.fired;
  to.cancelled = from.cancelled;
  to.pending = from.pending;
  to.refused = from.refused;
  to.passes = from.passes;
  to.carried = from.carried;
  to.wakeups = from.wakeups;
  to.stalls = from.stalls;
  to.stalled_ns = to_ns(from.stalled);
  to.slow_handlers = from.slow_handlers;
  to.remote_accepted = from.remote_accepted;
  to.remote_refused = from.remote_refused;
  to.remote_ran = from.remote_ran;
  to.remote_withdrawn = from.remote_withdrawn;
  to.remote_cancelled = from.remote_cancelled;
  to.busy_ns = to_ns(from.busy);
  to.idle_ns = to_ns(from.idle);
  to.iterations = from.iterations.count();
  to.longest_ns = to_ns(from.iterations.max());
  to.remote_queued = from.remote_queued;
  return to;
}

}  // namespace

}  // namespace tickwheel::c

int tw_service_stats(const tw_service_t* handle, tw_service_stats_t* stats, size_t size) {
  if (handle == nullptr || stats == nullptr) return UV_EINVAL;
  service_block* const s = service_block::find(*handle);
  if (s == nullptr) return UV_ECANCELED;
  const tw_service_stats_t counted = tickwheel::c::to_c(s->timers().stats());
  std::memset(stats, 0, size);
  std::memcpy(stats, &counted, std::min(size, sizeof counted));
  return 0;
}

uint64_t tw_service_lateness_ns(const tw_service_t* handle, double fraction) {
  return tickwheel::c::to_ns(service_block::of(handle).timers().stats().lateness.percentile(fraction));
}

uint64_t tw_service_handler_time_ns(const tw_service_t* handle, double fraction) {
  return tickwheel::c::to_ns(service_block::of(handle).timers().stats().handler_time.percentile(fraction));
}
