#include "start.hpp"

#include "engine.hpp"

#include <tickwheel/core/detail/check.hpp>

#include <chrono>
#include <utility>

namespace tickwheel::durable {

namespace detail {

void start_owner::operator()(start* given) const noexcept {
  std::unique_ptr<start> s{given};
  if (s->owner == nullptr) return;
  engine& of = *s->owner;
  of.check_thread();
  of.fail(std::move(s), "no answer", {});
}

}  // namespace detail

const detail::start& execution::started() const noexcept {
  tickwheel::detail::require(start_ != nullptr, "an execution that was finished or moved from is used");
  return *start_;
}

std::string_view execution::id() const noexcept { return started().id; }
std::string_view execution::payload() const noexcept { return started().payload; }
clock::time_point execution::due() const noexcept { return started().due; }
std::chrono::nanoseconds execution::period() const noexcept { return started().period; }
unsigned execution::attempt() const noexcept { return started().attempt; }
std::uint64_t execution::token() const noexcept { return started().token; }

void execution::finish(ending how, std::chrono::nanoseconds delay, std::string_view error,
                       completion confirmed) noexcept {
  (void)started();
  std::unique_ptr<detail::start> s{start_.release()};
  if (s->owner == nullptr) return;
  detail::engine& of = *s->owner;
  of.check_thread();
  switch (how) {
    case ending::done:
      return of.done(std::move(s), std::move(confirmed));
    case ending::retry_after:
      return of.retry_after(std::move(s), delay, std::move(confirmed));
    case ending::fail:
      return of.fail(std::move(s), error, std::move(confirmed));
    case ending::bury:
      return of.bury(std::move(s), error, std::move(confirmed));
  }
}

}  // namespace tickwheel::durable
