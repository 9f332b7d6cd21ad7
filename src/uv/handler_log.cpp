#include <tickwheel/uv/detail/handler_log.hpp>

#include "binding_watch.hpp"

#include <tickwheel/core/detail/nanoseconds.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

namespace tickwheel {

// Open addressing: at most half of the buckets are used.
[[gnu::cold]] handler_stats& handler_table::of(expiry_report::handler_id handler) noexcept {
  // functions begin at multiples of 16, and the multiplication spreads the rest
  const auto address = reinterpret_cast<std::uintptr_t>(handler) >> 4;
  std::size_t at = static_cast<std::size_t>((std::uint64_t{address} * 0x9e3779b97f4a7c15) >> 32) % buckets;
  for (; bucket_[at] != 0; at = (at + 1) % buckets) {
    handler_stats& found = places_[bucket_[at] - 1U];
    if (found.handler == handler) return found;
  }
  if (used_ >= capacity) {
    used_ = capacity + 1;
    return places_[capacity];
  }
  bucket_[at] = static_cast<std::uint8_t>(++used_);
  handler_stats& added = places_[used_ - 1];
  added.handler = handler;
  return added;
}

}  // namespace tickwheel

namespace tickwheel::detail {

// The handler that ran, if any, has returned.
inline void handler_log::end_handler(clock::time_point now) noexcept {
  if (!lateness_.handler_runs()) return;
  const std::chrono::nanoseconds took = lateness_.end_handler(now);
  times_.record(static_cast<std::uint64_t>(took.count()));
  if (took >= looked_at_from_) [[unlikely]]
    look_at(took);
}

[[gnu::cold]] void handler_log::take_back() noexcept {
  if (unsettled_count_ != 0)
    unsettled_[unsettled_count_ - 1].begins = false;
  else
    lateness_.take_back();
}

void handler_log::end() noexcept { keep(nullptr, {}, {}, false); }

[[gnu::cold]] void handler_log::settle() noexcept {
  if (unsettled_count_ == 0) return;
  const clock::time_point now = clock_.read();
  clock_.end(now);
  record_unsettled();
  clock_.go_on(now);
}

// The handlers have run until `now`.
void handler_log::record_stretch(clock::time_point now) noexcept {
  clock_.end(now);
  record_unsettled();
  end_handler(now);
}

// Requires: the stretch has ended, so that its counts are times.
void handler_log::record_unsettled() noexcept {
  clock::time_point at{};  // where a count went back, no time has passed
  for (const moment& m : std::span{unsettled_}.first(std::exchange(unsettled_count_, 0))) {
    at = std::max(at, clock_.time_of(m.at));
    end_handler(at);
    if (m.begins) lateness_.begin_handler(m.which, m.due, m.rounding, at);
  }
}

// The handler that has just ended took `took`.
[[gnu::cold]] void handler_log::look_at(std::chrono::nanoseconds took) noexcept {
  const bool slow = took >= slow_;
  if (handlers_ != nullptr) {
    handler_stats& of = handlers_->of(lateness_.handler());
    of.longest = std::max(of.longest, took);
    if (counts_all_) {
      ++of.calls;
      of.time += took;
      of.late = add_saturating(of.late, lateness_.late());
    }
    if (slow) {
      ++of.slow_calls;
      of.slow_time += took;
    }
  }
  if (!slow) return;
  ++slow_handlers_;
  if (hook_ == nullptr) return;
  require(untold_count_ < capacity, too_many);
  untold_[untold_count_++] = {lateness_.handler(), took};
}

[[gnu::cold]] void handler_log::tell_slow(const binding_watch& binding) noexcept {
  const std::size_t count = std::exchange(untold_count_, 0);
  in_stretch_ = true;  // a hook must not run the loop, as a handler must not
  for (std::size_t i = 0; i < count && hook_ != nullptr; ++i) {
    const slow_handler slow = untold_[i];
    hook_(context_, slow);
    if (binding.ended()) return;
  }
  in_stretch_ = false;
}

}  // namespace tickwheel::detail
