// Bounds how long each phase of a request may take, on a connection that serves one request after the other.
//
// Take it where an idle timeout is not enough: a peer that sends a byte every few seconds is never idle, and keeps its
// connection for ever (slowloris). The end of a phase is fixed when the phase begins, whatever arrives meanwhile.
//
//   class session {
//    public:
//     explicit session(tickwheel::timer_service& timers) : phases_{timers, *this} {}
//     int begin() { return phases_.start({.header = 10s, .body = 30s, .keep_alive = 60s, .max_age = 1h}); }
//     void on_read() { phases_.on_bytes(); ... }         // each time: the first byte of a request begins the phase
//     void on_header_complete() { phases_.on_header_end(); }
//     void on_request_complete() { phases_.on_request_end(); }
//     void on_response_written() { phases_.on_response_end(); }
//    private:
//     void on_phase_timeout(tickwheel::request_phase which) noexcept;    // may `delete this`
//     tickwheel::phase_timeouts<&session::on_phase_timeout> phases_;
//   };
//
// A connection goes round:
//
//   start ──> header ──> body ──> response ──> keep_alive ──┐
//               ^  └────────────────^                       │
//               └───────────────────────────────────────────┘
//
// No limit runs while the answer is made and written: how long that takes is ours to say (`deadline_timer`,
// `minimum_rate`). The maximum age ends a connection between two requests and never under one: ask `aged()` when you
// answer, and say "Connection: close" then.
//
// Whoever closes a connection between two requests may do so when the next one is on its way, which is then lost. What has
// arrived is safe, as waiting I/O is handled before the verdict. For what has not, tell peers a keep-alive limit that is
// shorter than the real one (`phase_limits::advertised_keep_alive`). The maximum age leaves a peer that was answered just now
// the time to go on (`phase_limits::age_grace`).
#pragma once

#include <tickwheel/net/detail/argument_handler.hpp>
#include <tickwheel/uv/timer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace tickwheel {

/// Where a connection is in the course of a request, or what ran out.
enum class request_phase : std::uint8_t {
  none,        ///< not started; never ran out
  header,      ///< the request's first line and fields are awaited
  body,        ///< its body is
  response,    ///< it is complete, and the answer is not; has no limit
  keep_alive,  ///< the next request is awaited
  max_age,     ///< the connection is too old; only as what ran out
};

/// "header", "body" and so on, for a line in a log.
constexpr const char* name_of(request_phase phase) noexcept {
  switch (phase) {
    case request_phase::none:
      return "none";
    case request_phase::header:
      return "header";
    case request_phase::body:
      return "body";
    case request_phase::response:
      return "response";
    case request_phase::keep_alive:
      return "keep_alive";
    case request_phase::max_age:
      return "max_age";
  }
  return "";
}

/// How long each phase may take. All limits are positive; nanoseconds::max() is none.
struct phase_limits {
  /// From the first byte of a request, or the start of the connection, to the end of its header.
  std::chrono::nanoseconds header = std::chrono::seconds{10};
  /// From there to the end of its body.
  std::chrono::nanoseconds body = std::chrono::seconds{60};
  /// From the end of an answer to the first byte of the next request.
  std::chrono::nanoseconds keep_alive = std::chrono::seconds{75};
  /// From the start of the connection on; ends it between two requests alone.
  std::chrono::nanoseconds max_age = std::chrono::nanoseconds::max();
  /// How long a connection that is too old waits for the next request all the same. A peer that is asking all the time
  /// does so within it, and hears with the answer that it was the last. Not negative.
  std::chrono::nanoseconds age_grace = std::chrono::seconds{1};

  /// The first field that cannot be, and why; null when all can.
  constexpr const char* problem() const noexcept {
    if (header.count() <= 0) return "phase_limits::header is not positive";
    if (body.count() <= 0) return "phase_limits::body is not positive";
    if (keep_alive.count() <= 0) return "phase_limits::keep_alive is not positive";
    if (max_age.count() <= 0) return "phase_limits::max_age is not positive";
    if (age_grace.count() < 0) return "phase_limits::age_grace is negative";
    return nullptr;
  }

  /// What to tell the peer (`Keep-Alive: timeout=`): whole seconds, at least one less than the real limit, so that a
  /// request sent just in time still arrives in time. Zero: too short to be told.
  constexpr std::chrono::seconds advertised_keep_alive() const noexcept {
    using std::chrono::seconds;
    return std::max(std::chrono::floor<seconds>(keep_alive) - seconds{1}, seconds{0});
  }
};

/// Calls a member function of its owner when a phase takes too long, and says which. One timer for all phases.
///
/// Phases are counted on the loop's responsive time, as idle time is: our own stalls are not the peer's fault. The
/// maximum age is counted on the plain clock, as it is no verdict on the peer.
///
/// *Thread safety:* as `timer`. *Complexity:* O(1), no allocation; `start` reads the clock, entering a phase
/// does not: it counts from the time stamp of the loop iteration. *Errors:* only `start` can fail; what it was granted
/// is kept until it is cancelled or runs out. *Lifetime:* as `timer`: may be destroyed at any time, in its handler too.
template <auto Member, class F = decltype(Member)>
requires noexcept_argument_handler<Member, request_phase>
class phase_timeouts : private timer, private detail::member_call<phase_timeouts<Member, F>, Member, request_phase> {
 public:
  using phase_timeouts::member_call::handler;         ///< tells its handler from others; see `timer::handler`
  using typename phase_timeouts::member_call::owner;  ///< the class that `Member` is of

  /// Requires: `self` lives as long as this does; usually it is the connection that embeds it.
  phase_timeouts(timer_service& service, owner& self) noexcept
      : timer{service, handler()}, phase_timeouts::member_call{self} {}

  /// A connection begins, in the header phase: a peer that sends nothing at all is not waited for longer than for one
  /// that is slow. Starting a started one begins anew, as a new connection would.
  ///
  /// 0; UV_EINVAL when `limits.problem()` names one; UV_ENOBUFS, UV_ECANCELED as `timer::arm`. On an error nothing has
  /// changed.
  [[nodiscard]] int start(const phase_limits& limits) noexcept {
    if (limits.problem() != nullptr) return UV_EINVAL;
    if (!service().is_open()) return UV_ECANCELED;
    // for the whole iteration, so that what follows in it does not count from before the start
    const clock::time_point now = service().update_now();
    if (const int error = timer::arm_verdict_at(detail::add_saturating(now, limits.header))) return error;
    limits_ = limits;
    too_old_at_ = detail::add_saturating(now, limits.max_age);
    phase_ = request_phase::header;
    begun_ = service().responsive_now();
    return 0;
  }

  /// Bytes of a request came. Ends keep-alive and begins the header phase; without effect in any other phase, so it may
  /// be called on every read, and trickling bytes extend nothing.
  void on_bytes() noexcept {
    if (phase_ == request_phase::keep_alive) enter(request_phase::header);
  }

  /// The header is complete, and a body follows. Without effect unless in the header phase.
  void on_header_end() noexcept {
    if (phase_ == request_phase::header) enter(request_phase::body);
  }

  /// The request is complete; no limit runs until `on_response_end`. Without effect unless a request was being received.
  void on_request_end() noexcept {
    if (phase_ == request_phase::header || phase_ == request_phase::body) enter(request_phase::response);
  }

  /// The answer is written and the next request is awaited; for no longer than `age_grace` when the connection is too
  /// old. Without effect unless a request was being received or answered: keep-alive is not extended
  /// either. A request that is here already, since the peer sends them in a row, begins with `on_bytes` right after this.
  void on_response_end() noexcept {
    if (phase_ != request_phase::none && phase_ != request_phase::keep_alive) enter(request_phase::keep_alive);
  }

  /// True when it was started. Afterwards the handler does not run until it is started again.
  bool cancel() noexcept {
    phase_ = request_phase::none;
    return timer::cancel();
  }

  /// True from `start` until the handler runs, `cancel`, or the service closes; also in a phase without a limit.
  bool armed() const noexcept { return timer::armed(); }

  /// The phase that the connection is in; `none` when not started.
  request_phase phase() const noexcept { return armed() ? phase_ : request_phase::none; }

  /// When the phase runs out, by what is known of our stalls now; `time_point::max()` when it does not.
  clock::time_point phase_ends_at() const noexcept { return armed() ? phase_end() : clock::time_point::max(); }

  /// True once the maximum age is reached, by the stamp of this loop iteration: let the answer being made be the last.
  /// False when not started.
  bool aged() const noexcept { return armed() && service().now() >= too_old_at_; }

  /// What `start` was given last.
  const phase_limits& limits() const noexcept { return limits_; }

  using timer::callback;
  using timer::has_ref;  ///< as of `timer`
  using timer::ref;      ///< as of `timer`
  using timer::unref;    ///< as of `timer`

 private:
  friend typename phase_timeouts::member_call;

  std::chrono::nanoseconds limit_of(request_phase phase) const noexcept {
    switch (phase) {
      case request_phase::header:
        return limits_.header;
      case request_phase::body:
        return limits_.body;
      case request_phase::keep_alive:
        return limits_.keep_alive;
      default:
        return std::chrono::nanoseconds::max();
    }
  }

  clock::time_point phase_end() const noexcept {
    const std::chrono::nanoseconds limit = limit_of(phase_);
    if (limit == std::chrono::nanoseconds::max()) return clock::time_point::max();
    return detail::add_saturating(detail::add_saturating(begun_, limit), service().stalled_for());
  }

  clock::time_point age_end() const noexcept {
    const clock::time_point begun = detail::add_saturating(begun_, service().stalled_for());
    return std::max(too_old_at_, detail::add_saturating(begun, limits_.age_grace));
  }

  // The nearest of what may run out now. The timer stays armed in a phase without a limit, too: its place among the
  // armed ones is not given up between requests, so that no phase can be refused.
  clock::time_point next_end() const noexcept {
    const clock::time_point end = phase_end();
    return phase_ == request_phase::keep_alive ? std::min(end, age_end()) : end;
  }

  void enter(request_phase phase) noexcept {
    if (!armed()) return;  // the service was closed, and may be gone
    phase_ = phase;
    begun_ = service().responsive_now();
    timer::arm_again_at(next_end());
  }

  void expired() noexcept {
    const clock::time_point end = next_end();
    if (service().judged_at() < end) return timer::arm_again_at(end);  // our stalls moved it
    const request_phase which = end < phase_end() ? request_phase::max_age : phase_;
    phase_ = request_phase::none;
    this->call(which);
  }

  phase_limits limits_{};
  clock::time_point begun_{};       // when the phase began, on responsive time
  clock::time_point too_old_at_{};  // on the plain clock
  request_phase phase_ = request_phase::none;
};

namespace detail {

template <auto Member, class F>
inline constexpr bool stays_in_place<phase_timeouts<Member, F>> = true;

}  // namespace detail
}  // namespace tickwheel
