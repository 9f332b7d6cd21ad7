#include "store_watch.hpp"

#include <chrono>
#include <utility>

namespace timer_server {
namespace {

constexpr std::chrono::seconds between_looks{1};
constexpr std::chrono::minutes until_told_again{1};

}  // namespace

int store_watch::start() noexcept { return next_.arm(between_looks); }

void store_watch::look() noexcept {
  (void)next_.arm(between_looks);  // cannot fail: this is its handler
  const std::string_view problem = scheduler_.problem();
  const auto stats = scheduler_.stats();
  const auto now = timers_.now();
  const bool is_new = !problem.empty() && problem != told_;
  const bool has_failed = std::exchange(unavailable_, stats.unavailable) != stats.unavailable;
  const std::uint64_t confirmed = stats.scheduled + stats.started + stats.finished;
  const bool has_confirmed = std::exchange(confirmed_, confirmed) != confirmed;
  if (is_away_ && !is_new && !has_failed && has_confirmed) {
    is_away_ = false;
    return tell_("the store is back");
  }
  if (!is_new && (!has_failed || (told_at_ && now - *told_at_ < until_told_again))) return;
  told_ = problem;
  told_at_ = now;
  is_away_ = true;
  if (is_new) return tell_(told_);
  tell_(told_.empty() ? "requests failed" : "requests failed; the last problem was: " + told_);
}

}  // namespace timer_server
