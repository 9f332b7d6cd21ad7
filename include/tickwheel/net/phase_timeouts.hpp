// Limits the time of each phase of a request, on a connection that serves one request after the other.
//
// Use it where an idle timeout is not enough. A peer that sends a byte every few seconds is never idle, and would keep its
// connection for ever (slowloris). The end of a phase is fixed when the phase begins, whatever arrives later.
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
// A connection goes through the phases in a circle:
//
//   start ──> header ──> body ──> response ──> keep_alive ──┐
//               ^  └────────────────^                       │
//               └───────────────────────────────────────────┘
//
// No limit applies while the answer is made and written, because its duration depends on us (`deadline_timer`, `minimum_rate`).
// The maximum age ends a connection between two requests, never during one. Check `aged()` when you answer a request, and then
// say "Connection: close".
//
// A server that closes a connection between two requests may lose the next request, if that is already on its way. A request that
// has arrived is safe, because waiting I/O is handled before the verdict. To protect later requests, tell peers a keep-alive
// limit that is shorter than the real one (`phase_limits::advertised_keep_alive`). At the maximum age, a peer that was just
// answered still has time to go on (`phase_limits::age_grace`).
#pragma once

#include <tickwheel/net/detail/argument_handler.hpp>
#include <tickwheel/uv/timer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace tickwheel {

/// The phase of a connection, or the limit that ran out.
enum class request_phase : std::uint8_t {
  none,        ///< not started; never given to the handler
  header,      ///< waits for the first line and the fields of the request
  body,        ///< waits for the body of the request
  response,    ///< the request is complete and the answer is not; has no limit
  keep_alive,  ///< waits for the next request
  max_age,     ///< the connection is too old; only given to the handler, never a phase
};

/// Returns "header", "body" and so on, for a log line.
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

/// The limit of each phase. All limits are positive; nanoseconds::max() means no limit.
struct phase_limits {
  /// From the first byte of a request, or from the start of the connection, to the end of the header.
  std::chrono::nanoseconds header = std::chrono::seconds{10};
  /// From the end of the header to the end of the body.
  std::chrono::nanoseconds body = std::chrono::seconds{60};
  /// From the end of an answer to the first byte of the next request.
  std::chrono::nanoseconds keep_alive = std::chrono::seconds{75};
  /// From the start of the connection. Ends it only between two requests.
  std::chrono::nanoseconds max_age = std::chrono::nanoseconds::max();
  /// How long a connection that is too old still waits for the next request. A peer that sends requests all the time sends one
  /// within this time, and learns from the answer that it was the last one. Not negative.
  std::chrono::nanoseconds age_grace = std::chrono::seconds{1};

  /// Returns a message that names the first invalid field, or null if all fields are valid.
  constexpr const char* problem() const noexcept {
    if (header.count() <= 0) return "phase_limits::header is not positive";
    if (body.count() <= 0) return "phase_limits::body is not positive";
    if (keep_alive.count() <= 0) return "phase_limits::keep_alive is not positive";
    if (max_age.count() <= 0) return "phase_limits::max_age is not positive";
    if (age_grace.count() < 0) return "phase_limits::age_grace is negative";
    return nullptr;
  }

  /// Returns the limit to tell the peer (`Keep-Alive: timeout=`). It is in whole seconds, at least one less than the real limit,
  /// so that a request sent just in time also arrives in time. Zero: the limit is too short to be told.
  constexpr std::chrono::seconds advertised_keep_alive() const noexcept {
    using std::chrono::seconds;
    return std::max(std::chrono::floor<seconds>(keep_alive) - seconds{1}, seconds{0});
  }
};

/// Calls a member function of its owner with the phase that takes too long. One timer serves all phases.
///
/// Phases are counted on the loop's responsive time, as idle time is: the peer is not charged with our own stalls. The maximum
/// age is counted on the plain clock, because it does not judge the peer.
///
/// *Thread safety:* as `timer`. *Complexity:* O(1), no allocation. `start` reads the clock. Entering a phase does not; the phase
/// counts from the time stamp of the loop iteration. *Errors:* only `start` can fail. A started timer keeps its place until it is
/// cancelled or runs out. *Lifetime:* as `timer`: it may be destroyed at any time, also in its handler.
template <auto Member, class F = decltype(Member)>
requires noexcept_argument_handler<Member, request_phase>
class phase_timeouts : private timer, private detail::member_call<phase_timeouts<Member, F>, Member, request_phase> {
 public:
  using phase_timeouts::member_call::handler;         ///< identifies its handler; see `timer::handler`
  using typename phase_timeouts::member_call::owner;  ///< the class of the handler

  /// Requires: `self` lives as long as this timer; usually it is the connection that embeds it.
  phase_timeouts(timer_service& service, owner& self) noexcept
      : timer{service, handler()}, phase_timeouts::member_call{self} {}

  /// Begins a connection, in the header phase. A peer that sends nothing thus gets no more time than one that sends slowly.
  /// Starting a started timer begins anew, as for a new connection. Reads the clock, and moves `timer_service::now()` to that time.
  ///
  /// 0: it is started. On an error nothing has changed.
  /// UV_EINVAL: `limits` is invalid; `limits.problem()` names the field.
  /// UV_ENOBUFS, UV_ECANCELED: as `timer::arm`.
  [[nodiscard]] int start(const phase_limits& limits) noexcept {
    if (limits.problem() != nullptr) return UV_EINVAL;
    if (!service().is_open()) return refuse_when_closed();
    // for the whole iteration, so that later events in it do not count from before the start
    const clock::time_point now = service().update_now();
    if (const int error = timer::arm_verdict_at(detail::add_saturating(now, limits.header))) return error;
    limits_ = limits;
    too_old_at_ = detail::add_saturating(now, limits.max_age);
    phase_ = request_phase::header;
    begun_ = service().responsive_now();
    return 0;
  }

  /// Reports bytes of a request. Ends keep-alive and begins the header phase. Has no effect in any other phase: it may be called
  /// on every read, and slow bytes extend nothing.
  void on_bytes() noexcept {
    if (phase_ == request_phase::keep_alive) enter(request_phase::header);
  }

  /// Reports that the header is complete and a body follows. Has no effect outside of the header phase.
  void on_header_end() noexcept {
    if (phase_ == request_phase::header) enter(request_phase::body);
  }

  /// Reports that the request is complete. No limit applies until `on_response_end`. Has no effect unless a request was being
  /// received.
  void on_request_end() noexcept {
    if (phase_ == request_phase::header || phase_ == request_phase::body) enter(request_phase::response);
  }

  /// Reports that the answer is written, and begins keep-alive; if the connection is too old, for at most `age_grace`. Has no
  /// effect unless a request was being received or answered, so keep-alive is not extended either. If the peer has sent the next
  /// request already, call `on_bytes` right after this.
  void on_response_end() noexcept {
    if (phase_ != request_phase::none && phase_ != request_phase::keep_alive) enter(request_phase::keep_alive);
  }

  /// Returns true if it was started. Its handler does not run until it is started again.
  bool cancel() noexcept {
    phase_ = request_phase::none;
    return timer::cancel();
  }

  /// Returns true from `start` until the handler runs, `cancel` is called, or the service closes; also in a phase without a
  /// limit.
  bool armed() const noexcept { return timer::armed(); }

  /// Returns the present phase; `none` if not started.
  request_phase phase() const noexcept { return armed() ? phase_ : request_phase::none; }

  /// Returns when the phase runs out, as far as our stalls are known now. `time_point::max()`: it does not run out.
  clock::time_point phase_ends_at() const noexcept { return armed() ? phase_end() : clock::time_point::max(); }

  /// Returns true once the maximum age is reached, by the stamp of this loop iteration: the answer in progress should be the
  /// last. False if not started.
  bool aged() const noexcept { return armed() && service().now() >= too_old_at_; }

  /// Returns the limits of the last start.
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

  // Returns the nearest end of a limit that applies now. The timer also stays armed in a phase without a limit. It keeps its
  // place among the armed ones between requests, so that no phase can be refused.
  clock::time_point next_end() const noexcept {
    const clock::time_point end = phase_end();
    return phase_ == request_phase::keep_alive ? std::min(end, age_end()) : end;
  }

  void enter(request_phase phase) noexcept {
    if (!armed()) return;  // the service was closed, and may be destroyed
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
