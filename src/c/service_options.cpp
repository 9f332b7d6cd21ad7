// Opens a service from C, with options. An option that is 0 has its default.
#include "service_block.hpp"
#include "timer.hpp"

#include <tickwheel/tickwheel.h>
#include <tickwheel/uv/service_options.hpp>

#include <uv.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace tickwheel::c {

namespace {

template <class Count>
void take(Count& into, std::uint64_t given) noexcept {
  constexpr std::uint64_t most = std::numeric_limits<Count>::max();
  if (given != 0) into = static_cast<Count>(std::min(given, most));
}
void take(std::chrono::nanoseconds& into, std::uint64_t given) noexcept {
  if (given != 0) into = to_chrono(given);
}

// Reads the options that the program knows, which may be more or fewer than this library knows. Returns 0, or:
// UV_EINVAL: no version of the library has options of this size.
// UV_ENOTSUP: an option is set that this library does not know.
int read(tw_service_options_t& into, const tw_service_options_t* from, std::size_t size) noexcept {
  into = {};
  if (from == nullptr) return 0;
  if (size == 0 || size % sizeof(std::uint64_t) != 0) return UV_EINVAL;
  const auto* const bytes = reinterpret_cast<const unsigned char*>(from);
  const std::size_t known = std::min(size, sizeof into);
  if (std::any_of(bytes + known, bytes + size, [](unsigned char byte) { return byte != 0; })) return UV_ENOTSUP;
  std::memcpy(&into, from, known);
  return into.wakeup > TW_WAKE_BY_TIMERFD ? UV_ENOTSUP : 0;
}

service_options to_cpp(const tw_service_options_t& from) noexcept {
  service_options to;
  take(to.tick, from.tick_ns);
  take(to.geometry.levels, from.levels);
  take(to.geometry.slots, from.slots);
  take(to.work_per_pass, from.work_per_pass);
  take(to.time_per_pass, from.time_per_pass_ns);
  take(to.max_armed, from.max_armed);
  take(to.max_queued, from.max_queued);
  take(to.stall_grace, from.stall_grace_ns);
  take(to.slow_handler, from.slow_handler_ns);
  take(to.io_wait, from.io_wait);
  if (from.io_wait == TW_IO_WAIT_NONE) to.io_wait = 0;
  if (from.wakeup == TW_WAKE_BY_TIMERFD) to.wakeup = wake_by::timerfd;
  return to;
}

}  // namespace

}  // namespace tickwheel::c

int tw_service_init(uv_loop_t* loop, tw_service_t* handle) { return tw_service_init_with(loop, handle, nullptr, 0); }

int tw_service_init_with(uv_loop_t* loop, tw_service_t* handle, const tw_service_options_t* options, size_t size) {
  if (handle == nullptr) return UV_EINVAL;
  handle->private_[0] = nullptr;  // marks a service that failed to open
  if (loop == nullptr) return UV_EINVAL;
  tw_service_options_t known;
  if (const int error = tickwheel::c::read(known, options, size)) return error;
  return tickwheel::c::service_block::open(*loop, *handle, tickwheel::c::to_cpp(known));
}
