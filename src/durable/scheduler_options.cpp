#include <tickwheel/durable/scheduler_options.hpp>

#include <tickwheel/durable/task.hpp>

#include <chrono>

namespace tickwheel::durable {

const char* scheduler_options::problem() const noexcept {
  using namespace std::chrono_literals;
  constexpr auto longest = std::chrono::hours{24 * 366 * 10};
  if (!name.empty() && !is_valid_id(name))
    return "scheduler_options::name is longer than 255 bytes, not UTF-8, or has a control character";
  if (lease < 100ms) return "scheduler_options::lease is shorter than 100 ms";
  if (poll < 1ms) return "scheduler_options::poll is shorter than 1 ms";
  if (lease > longest || poll > longest || window > longest || request_timeout > longest || keep_finished > longest)
    return "scheduler_options: a duration is longer than ten years";
  if (window < poll * 2) return "scheduler_options::window is shorter than two polls";
  if (request_timeout <= 0ns) return "scheduler_options::request_timeout is not positive";
  if (keep_finished < 0ns) return "scheduler_options::keep_finished is negative";
  if (max_running == 0) return "scheduler_options::max_running is zero";
  if (max_loaded == 0) return "scheduler_options::max_loaded is zero";
  if (max_requests == 0) return "scheduler_options::max_requests is zero";
  if (max_request_bytes == 0) return "scheduler_options::max_request_bytes is zero";
  if (max_payload > (std::size_t{1} << 30)) return "scheduler_options::max_payload is longer than 1 GiB";
  if (max_attempts == 0) return "scheduler_options::max_attempts is zero";
  if (max_attempts > 30'000) return "scheduler_options::max_attempts is greater than 30,000";
  return retry.problem();
}

}  // namespace tickwheel::durable
