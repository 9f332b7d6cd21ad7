// Timers to embed in whatever waits: one type, and three ways to say what happens when the time has come.
//
//   timer             a plain function; the smallest
//   member_timer      a member function of the object that embeds it; what a session usually wants
//   callback_timer    any callable
//   interval_timer    a member function, called at a fixed rate
//
// Each is armed with a delay and is then due once (an interval_timer: until cancelled). Arming an armed timer moves it.
// Handlers are noexcept, since libuv's C frames cannot be unwound, and may do anything: arm, cancel or destroy any
// timer, their own included, and close or destroy the service.
//
//   class session {
//    public:
//     explicit session(tickwheel::timer_service& timers) : request_{timers, *this} {}
//     void on_request() { request_.arm(30s); }
//     void on_response() { request_.cancel(); }
//    private:
//     void on_request_timeout() noexcept;    // may `delete this`
//     tickwheel::member_timer<&session::on_request_timeout> request_;
//   };
#pragma once

#include <tickwheel/core/detail/nanoseconds.hpp>
#include <tickwheel/uv/detail/member_call.hpp>
#include <tickwheel/uv/detail/stays_in_place.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <chrono>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace tickwheel {

/// A timer of a service, calling a plain function. 48 bytes.
///
/// *Thread safety:* the loop thread only, checked when it is armed and when what is armed is cancelled. *Complexity:* O(1), no
/// allocation, no system call, unless a timerfd is to wake the loop earlier for it (`wake_by::timerfd`). *Errors:* arming
/// answers a UV_ code. *Lifetime:* stays where it is, may be destroyed at any time, which cancels it. Once its service is
/// destroyed, only `armed`, `cancel`, `handler`, `has_ref` and the destructor may be called.
class timer : private wheel_entry {
 public:
  /// What callbacks take; nameable in what derives from timer, though the base is private.
  using wheel_entry = tickwheel::wheel_entry;

  /// Called with the timer that expired; `timer::from` has it back.
  using callback = wheel_entry::callback;

  /// The timer that a callback was called with. Requires: `entry` is a timer.
  static timer& from(wheel_entry& entry) noexcept { return static_cast<timer&>(entry); }

  /// An unarmed timer. Requires: `run` is not null; `service` outlives every arm.
  timer(timer_service& service, callback run) noexcept
      : wheel_entry{run}, service_{reinterpret_cast<std::uintptr_t>(&service)} {}
  ~timer() { cancel(); }

  /// Makes the timer due once `after` has passed since this call, on the steady clock. It is never early. It is late by at
  /// most a tick, a millisecond of poll granularity, the loop's own lag, what the work bound carried over, and after a block
  /// the wait for input (`service_options::io_wait`). What is too long for the clock saturates: still armed, in effect for
  /// ever.
  ///
  /// Zero or less is due in the next pass whose stamp is taken after this call, never in the one now running. The poll before
  /// that pass does not wait. Such timers run in the order of arming, and do not wait for input after a block.
  ///
  /// With a `slack`, a duration, it may be due up to that much later, if that lets it share a wakeup or stay where it is. One
  /// of zero or less is none.
  ///
  /// 0; UV_ENOBUFS when `max_armed` timers are armed and this is not one of them; UV_ECANCELED when the service is
  /// closed. On an error nothing has changed. Reads the clock. A debug build stops if `open` was never called on the service.
  template <class D, class S = clock::duration>
  [[nodiscard]] int arm(D after, S slack = {}) noexcept {
    return timers().arm_after(*this, detail::to_nanoseconds(after), detail::to_nanoseconds(slack));
  }

  /// As `arm`, at an absolute time: `arm_at(service.now() + 5s)` counts from the beginning of the loop iteration. A time at or
  /// before `now()`, as that was read last, is a zero delay (see `arm`). Reads no clock but to move the loop's wakeup, and for
  /// `now()` when no timer is armed.
  [[nodiscard]] int arm_at(clock::time_point when) noexcept {
    if (!is_plain() || when <= timers_of_plain().time().stamp()) [[unlikely]]
      return timers().arm_at(*this, when);
    // a stamp is not before the origin of the ticks
    return timers_of_plain().arm_tick(*this, timers_of_plain().ticks().ceil_after_origin(when));
  }

  /// True when it was armed. Afterwards the handler does not run until the timer is armed again, even when the running
  /// pass had already reached it.
  bool cancel() noexcept {
    if (!armed()) return false;
    if (is_plain())
      timers_of_plain().cancel(*this);
    else
      timers().cancel_slow_path(*this);
    return true;
  }

  /// True from `arm` until it fires or is cancelled, or the service closes.
  bool armed() const noexcept { return wheel_entry::armed(); }

  /// When it is due: the time asked for, rounded up to a tick, or within the slack. Of a zero delay a time shortly before the
  /// call. `time_point::max()` when not armed, or in effect never.
  clock::time_point deadline() const noexcept {
    return armed() ? timers().ticks().begin_of(wheel_entry::deadline()) : clock::time_point::max();
  }

  /// Tells its handler from others in `timer_service::why`, `dump` and `on_slow_handler`. Types that call something of yours
  /// have it as a static member, too: `member_timer<&session::on_timeout>::handler()`.
  callback handler() const noexcept { return wheel_entry::handler(); }

  /// Whether it keeps the loop alive while it is armed. It does until `unref()`, as a uv_timer_t does.
  void ref() noexcept { set_ref(true); }
  /// See `ref`.
  void unref() noexcept { set_ref(false); }
  /// See `ref`; true at first.
  bool has_ref() const noexcept { return (service_ & unref_bit) == 0; }

 protected:
  /// `arm_at` for a timer that judges a peer: a time that has passed is no zero delay, and waits for input after a block. Returns
  /// 0, UV_ENOBUFS or UV_ECANCELED as `arm_at`.
  [[nodiscard]] int arm_verdict_at(clock::time_point when) noexcept {
    if (!is_plain()) [[unlikely]]
      return timers().arm_slow_path(*this, timers().ticks().ceil(when));
    return timers_of_plain().arm_tick(*this, timers_of_plain().ticks().ceil(when));
  }

  /// `arm_at` for what arms itself again when it has come up, before any handler is called, or is armed: has its place
  /// still, and cannot be refused.
  void arm_again_at(clock::time_point when) noexcept { timers().arm_in_place(*this, timers().ticks().ceil(when)); }

  /// For one that has just come up, before its handler is called: until that returns, its place among `max_armed` is left to it.
  void keep_place() noexcept { timers().alive().keep_place(*this, timers().entries()); }
  /// `arm_verdict_at` for one that may have kept its place, and then cannot be refused. Returns 0, or UV_ENOBUFS if it has not kept
  /// its place. Requires: the service is open.
  [[nodiscard]] int arm_in_place_at(clock::time_point when) noexcept {
    if (!timers().alive().keeps_place(*this)) return arm_verdict_at(when);
    arm_again_at(when);
    return 0;
  }

  /// Marks a timer that activity puts off without arming it anew. The service may ask such a timer for its true deadline before
  /// it is due.
  struct patient {};
  /// A patient timer. Requires: as the public constructor.
  timer(timer_service& service, callback run, patient) noexcept
      : wheel_entry{run}, service_{reinterpret_cast<std::uintptr_t>(&service) | patient_bit} {}
  /// Returns true for a timer that was made as a patient one.
  static bool is_patient(const timer& t) noexcept { return (t.service_ & patient_bit) != 0; }

  /// From now on `ask` is asked about all timers of the service that move down, patient or not.
  void ask_before_moving(wheel::move_hook ask) noexcept { timers().entries().on_move(ask, &service()); }

  /// The tick of `when`, for the answer.
  static tick tick_of(const timer_service& service, clock::time_point when) noexcept {
    return service.timers().ticks().ceil(when);
  }

  /// Whose timer it is.
  timer_service& service() const noexcept {
    return *reinterpret_cast<timer_service*>(service_ & ~tag_bits);  // NOLINT(performance-no-int-to-ptr): a tagged one
  }

 private:
  friend class detail::post_delivery;

  // One of another thread, which only the service arms and cancels: it is told apart where all timers are walked.
  struct of_remote {};
  timer(timer_service& service, callback run, of_remote) noexcept
      : wheel_entry{run}, service_{reinterpret_cast<std::uintptr_t>(&service) | remote_bit} {}
  bool is_remote() const noexcept { return (service_ & remote_bit) != 0; }

  detail::armed_timers& timers() const noexcept { return service().timers(); }

  // `timers()` of a plain one, on the path of every arm and cancel: there is no bit to clear.
  detail::armed_timers& timers_of_plain() const noexcept {
    return reinterpret_cast<timer_service*>(service_)->timers();  // NOLINT(performance-no-int-to-ptr): as above
  }

  void set_ref(bool on) noexcept {
    if (has_ref() == on) return;
    service_ ^= unref_bit;
    if (armed()) timers().change_ref(on);
  }

  static constexpr std::uintptr_t unref_bit = 1;
  static constexpr std::uintptr_t remote_bit = 2;
  static constexpr std::uintptr_t patient_bit = 4;
  static constexpr std::uintptr_t tag_bits = unref_bit | remote_bit | patient_bit;
  static_assert(alignof(timer_service) > tag_bits, "the lowest bits of the service's address are free");

  wheel_entry& entry() noexcept { return *this; }

  bool is_plain() const noexcept { return (service_ & (unref_bit | patient_bit)) == 0; }

  // its address; the lowest bit is set when the timer does not hold the loop, the next for a remote one, the third for one
  // that may be put off
  std::uintptr_t service_;
};

static_assert(sizeof(void*) != 8 || sizeof(timer) <= 48, "a timer leaves its owner some of the cache line");

/// `Member` is a pointer to a member function without arguments that is declared noexcept: libuv's C frames, which call
/// it, cannot be unwound. Declare the handler before the timer, and do not overload it.
template <auto Member>
concept noexcept_member_handler = detail::valid(!detail::takes_arguments<decltype(Member)>,
                                                "the handler takes arguments, but must take none") &&
    detail::valid(detail::member_handler<decltype(Member)>::is_noexcept,
                  "the handler is not a noexcept member function");

/// `F` can be called without arguments, or with the timer, and is noexcept: libuv's C frames, which call it, cannot be
/// unwound.
template <class F>
concept noexcept_handler = detail::valid(std::is_invocable_v<F&> || std::is_invocable_v<F&, timer&>,
                                         "the handler takes arguments, but may take only a timer&") &&
    detail::valid(std::is_nothrow_invocable_v<F&> || std::is_nothrow_invocable_v<F&, timer&>,
                  "the handler is not noexcept");

// What is made for a `Member` has its type as a parameter, too, which is never given: of a template that is told apart by
// pointers to members alone, gcc (12, and others) lets all source files share one, though their classes are in unnamed
// namespaces and merely have the same name, and one's timer calls the other's handler.

/// A timer that calls a member function of the object it is embedded in. 56 bytes.
///
/// *Thread safety, complexity, errors, lifetime:* as `timer`.
template <auto Member, class F = decltype(Member)>
requires noexcept_member_handler<Member>
class member_timer : public timer, private detail::member_call<member_timer<Member, F>, Member> {
 public:
  using member_timer::member_call::handler;         ///< tells its handler from others; see `timer::handler`
  using typename member_timer::member_call::owner;  ///< the class that `Member` is of

  /// Requires: `self` lives as long as the timer does; usually it is the object that embeds it.
  member_timer(timer_service& service, owner& self) noexcept
      : timer{service, handler()}, member_timer::member_call{self} {}

 private:
  friend typename member_timer::member_call;
};

/// A timer that calls a callable it holds. One that is to arm itself again takes the timer as its argument:
/// `callback_timer t{timers, [](tickwheel::timer& self) noexcept { self.arm(1s); }};`
///
/// *Thread safety, complexity, errors:* as `timer`. *Lifetime:* as `timer`; the callable lives as long, so that one which
/// destroys its timer has no captures any more.
template <noexcept_handler F>
class callback_timer : public timer {
 public:
  /// Requires: `service` outlives every arm.
  callback_timer(timer_service& service, F call) noexcept(std::is_nothrow_move_constructible_v<F>)
      : timer{service, &run}, call_{std::move(call)} {}

  /// Tells its handler from others; see `timer::handler`.
  static callback handler() noexcept { return &run; }

 private:
  static void run(wheel_entry& entry) noexcept {
    auto& self = static_cast<callback_timer&>(timer::from(entry));
    if constexpr (std::is_nothrow_invocable_v<F&, timer&>)
      self.call_(static_cast<timer&>(self));
    else
      self.call_();
  }

  F call_;
};

/// Calls a member function at a fixed rate: at start + period, start + 2 * period and so on, without drift. What was
/// missed while the loop was busy is skipped, not made up for: one late call, then the next on its time.
///
/// *Thread safety, errors, lifetime:* as `timer`. *Complexity:* O(1), no allocation; `start` and each call read the clock.
template <auto Member, class F = decltype(Member)>
requires noexcept_member_handler<Member>
class interval_timer : private timer, private detail::member_call<interval_timer<Member, F>, Member> {
 public:
  using interval_timer::member_call::handler;         ///< tells its handler from others; see `timer::handler`
  using typename interval_timer::member_call::owner;  ///< the class that `Member` is of

  /// Requires: `self` lives as long as the timer does.
  interval_timer(timer_service& service, owner& self) noexcept
      : timer{service, handler()}, interval_timer::member_call{self} {}

  /// First call one `period`, a duration, from now. Starting a started one begins anew. A period shorter than a tick comes once
  /// a tick. 0; UV_EINVAL for a period that is not positive; else as `timer::arm`. On an error nothing has changed.
  template <class D>
  [[nodiscard]] int start(D period) noexcept {
    const auto every = detail::to_nanoseconds(period);
    if (every.count() <= 0) return UV_EINVAL;
    if (!service().is_open()) return timer::arm(every);  // UV_ECANCELED
    const clock::time_point first = detail::add_saturating(service().read_clock(), every);
    if (const int error = timer::arm_at(first)) return error;
    period_ = every;
    next_ = first;
    return 0;
  }

  /// True when it was started. Afterwards the handler does not run until it is started again.
  bool cancel() noexcept { return timer::cancel(); }
  using timer::armed;
  using timer::callback;
  using timer::deadline;
  using timer::has_ref;  ///< as of `timer`
  using timer::ref;      ///< as of `timer`
  using timer::unref;    ///< as of `timer`

 private:
  friend typename interval_timer::member_call;

  void expired() noexcept {
    const auto missed = (service().read_clock() - next_) / period_;
    next_ = detail::add_saturating(next_ + missed * period_, period_);
    // armed before the call, so that the handler may cancel, restart or destroy it
    timer::arm_again_at(next_);
    this->call();
  }

  std::chrono::nanoseconds period_{};
  clock::time_point next_{};  // kept in time, not in ticks, so that rounding does not add up
};

namespace detail {

template <>
inline constexpr bool stays_in_place<timer> = true;
template <auto Member, class F>
inline constexpr bool stays_in_place<member_timer<Member, F>> = true;
template <class F>
inline constexpr bool stays_in_place<callback_timer<F>> = true;
template <auto Member, class F>
inline constexpr bool stays_in_place<interval_timer<Member, F>> = true;

}  // namespace detail

}  // namespace tickwheel
