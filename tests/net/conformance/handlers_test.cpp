// Handlers that each class takes and refuses, found at compile time.
#include <tickwheel/tickwheel.hpp>

#include <cstddef>

namespace {

using namespace tickwheel;

struct session {
  void plain() noexcept {}
  void may_throw() {}
  void of_phase(request_phase) noexcept {}
  void of_phase_may_throw(request_phase) {}
  void of_error(int) noexcept {}
  int of_attempt(call_attempt) noexcept { return 0; }
  int of_attempt_may_throw(call_attempt) { return 0; }
  void of_attempt_without_answer(call_attempt) noexcept {}
  void of_error_may_throw(int) {}
  std::size_t queued() const noexcept { return 0; }
  std::size_t queued_may_throw() const { return 0; }
  std::size_t queued_changes() noexcept { return 0; }
  void queued_tells_nothing() const noexcept {}
};

template <auto Member>
concept of_idle_timeout = requires {
  sizeof(idle_timeout<Member>);
};
template <auto Member>
concept of_deadline_timer = requires {
  sizeof(deadline_timer<Member>);
};
template <auto Member>
concept of_retry_timer = requires {
  sizeof(retry_timer<Member>);
};
template <auto Member>
concept of_minimum_rate = requires {
  sizeof(minimum_rate<Member>);
};
template <auto Member>
concept of_phase_timeouts = requires {
  sizeof(phase_timeouts<Member>);
};
template <auto Member, auto Queued>
concept of_write_idle_timeout = requires {
  sizeof(write_idle_timeout<Member, Queued>);
};

static_assert(of_idle_timeout<&session::plain> && !of_idle_timeout<&session::may_throw>);
static_assert(of_deadline_timer<&session::plain> && !of_deadline_timer<&session::may_throw>);
static_assert(of_retry_timer<&session::plain> && !of_retry_timer<&session::may_throw>);
static_assert(of_minimum_rate<&session::plain> && !of_minimum_rate<&session::may_throw>);
static_assert(of_phase_timeouts<&session::of_phase> && !of_phase_timeouts<&session::of_phase_may_throw>);
static_assert(!of_phase_timeouts<&session::plain> && !of_idle_timeout<&session::of_phase>);
static_assert(noexcept_failure_handler<&session::of_error> && !noexcept_failure_handler<&session::of_error_may_throw>);
static_assert(!noexcept_failure_handler<&session::plain>);
static_assert(noexcept_attempt_handler<&session::of_attempt>);
static_assert(!noexcept_attempt_handler<&session::of_attempt_may_throw>);
static_assert(!noexcept_attempt_handler<&session::of_attempt_without_answer>);
static_assert(!noexcept_attempt_handler<&session::of_error>);
static_assert(of_write_idle_timeout<&session::plain, &session::queued>);
static_assert(of_write_idle_timeout<&session::plain, nullptr>);
static_assert(!of_write_idle_timeout<&session::plain, &session::queued_may_throw>);
static_assert(!of_write_idle_timeout<&session::plain, &session::queued_changes>);
static_assert(!of_write_idle_timeout<&session::plain, &session::queued_tells_nothing>);

static_assert(sizeof(void*) != 8 || sizeof(deadline_timer<&session::plain>) <= 56);
static_assert(sizeof(void*) != 8 || sizeof(idle_timeout<&session::plain>) <= 112);
static_assert(sizeof(void*) != 8 || sizeof(write_idle_timeout<&session::plain>) <= 120);

}  // namespace
