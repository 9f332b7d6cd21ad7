// Timers to embed in every object that waits. They differ in the handler that they call:
//
//   timer             a plain function; the smallest
//   member_timer      a member function of the object that embeds it; for sessions and connections
//   callback_timer    any callable
//   interval_timer    a member function, at a fixed rate
//
// A timer that is armed with a delay expires once; an interval_timer expires until it is cancelled. Arming an armed timer moves
// it. Handlers are noexcept, because libuv's C frames cannot be unwound. They may do anything: arm, cancel or destroy any timer,
// also their own, and close or destroy the service.
//
//   class session {
//    public:
//     explicit session(tickwheel::timer_service& timers) : request_{timers, *this} {}
//     int on_request() { return request_.arm(30s); }
//     void on_response() { request_.cancel(); }
//    private:
//     void on_request_timeout() noexcept;    // may `delete this`
//     tickwheel::member_timer<&session::on_request_timeout> request_;
//   };
#pragma once

#include <tickwheel/core/detail/nanoseconds.hpp>
#include <tickwheel/uv/detail/last_service.hpp>
#include <tickwheel/uv/detail/member_call.hpp>
#include <tickwheel/uv/detail/stays_in_place.hpp>
#include <tickwheel/uv/named_handler.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <chrono>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace tickwheel {

/// A timer of a service that calls a plain function. 48 bytes.
///
/// *Thread safety:* the loop thread only. Arming a timer, and cancelling an armed one, checks that. *Complexity:* O(1), no
/// allocation and no system call; with `wake_by::timerfd` one system call if the loop must wake earlier. *Errors:* arming answers
/// a UV_ code. *Lifetime:* neither copies nor moves. May be destroyed at any time, which cancels it. Once its service is
/// destroyed, only `armed`, `cancel`, `handler`, `has_ref` and the destructor may be called.
class timer : private wheel_entry {
 public:
  /// The parameter of a callback. Named here because the base is private.
  using wheel_entry = tickwheel::wheel_entry;

  /// Called with the timer that expired: `timer::from` converts the parameter.
  using callback = wheel_entry::callback;

  /// Returns the timer that a callback was called with. Requires: `entry` is a timer.
  static timer& from(wheel_entry& entry) noexcept { return static_cast<timer&>(entry); }

  /// An unarmed timer. Requires: `run` is not null; `service` outlives every arm.
  timer(timer_service& service, callback run) noexcept
      : wheel_entry{run}, service_{reinterpret_cast<std::uintptr_t>(&service)} {}
  ~timer() { cancel(); }

  /// Makes the timer due once `after` has passed since this call, on the steady clock. Reads the clock.
  ///
  /// It is never early. It is late by at most one tick, one millisecond of the poll, and the time that the loop is busy. If
  /// bounded passes carry work over, the time of that work is added. After a block the wait for input
  /// (`service_options::io_wait`) is added. A delay that is too long for the clock saturates: the timer is armed, but never
  /// expires in practice.
  ///
  /// A delay of zero or less is due in the next pass whose stamp is taken after this call: the pass after the next poll, never the
  /// running one. That poll does not wait. Zero delays run in the order of arming, and do not wait for input after a block. A zero delay
  /// that is armed with zero again keeps the time of its first call:
  ///
  /// - by a callback of the loop, such as a read: its pass does not change. It may move to the end of the order.
  /// - by a handler of a timer: it is put off to the next pass. That ends about a tick after its first call.
  ///
  /// With a positive `slack`, a duration, the timer may be due up to that much later, if it can then share a wakeup or stay where
  /// it is. It is then no zero delay: it waits for a tick, and each call that arms it anew may move it.
  ///
  /// 0: it is armed. On an error nothing has changed.
  /// UV_ENOBUFS: `max_armed` timers are armed, and this is not one of them.
  /// UV_ECANCELED: the service is closed. If `open` was never called, a debug build stops instead.
  template <class D, class S = clock::duration>
  [[nodiscard]] int arm(D after, S slack = {}) noexcept {
    // A read of the clock waits for all loads before it. So it comes before those of the timer, which are fetched meanwhile.
    __builtin_prefetch(this, 1);
    const clock::time_point steady = clock::now();
    return timers().arm_after(*this, steady, detail::to_nanoseconds(after), detail::to_nanoseconds(slack));
  }

  /// As `arm`, at an absolute time: `arm_at(service.now() + 5s)` counts from the beginning of the loop iteration. A time at or
  /// before the last `now()` is a zero delay. Reads the clock only to move the loop's wakeup, and for `now()` if no timer is
  /// armed.
  [[nodiscard]] int arm_at(clock::time_point when) noexcept {
    detail::armed_timers* const plain = timers_of_plain();
    if (plain == nullptr) [[unlikely]]
      return timers().arm_at(*this, when);
    return plain->arm_plain_at(*this, when);
  }

  /// Returns true if the timer was armed. Its handler does not run until it is armed again, even if the running pass had already
  /// reached it.
  [[gnu::always_inline]] bool cancel() noexcept {  // in line: cancelling and arming takes a tenth less time
    if (!armed()) return false;
    if (detail::armed_timers* const plain = timers_of_plain()) [[likely]]
      plain->cancel(*this);
    else
      timers().cancel_slow_path(*this);
    return true;
  }

  /// Returns true from `arm` until the timer expires or is cancelled, or the service closes.
  bool armed() const noexcept { return wheel_entry::armed(); }

  /// Returns when the timer is due: the time that was asked for, rounded up to a tick, or a time within the slack. Of a zero
  /// delay: the begin of the tick of the call, or of `now()` for `arm_at`; of several calls, of the first. `time_point::max()`: it is
  /// not armed, or never expires in practice.
  clock::time_point deadline() const noexcept {
    return armed() ? timers().ticks().begin_of(wheel_entry::deadline()) : clock::time_point::max();
  }

  /// Identifies the handler in `timer_service::why`, `dump` and `on_slow_handler`. Timers with a handler of yours also have a
  /// static one: `member_timer<&session::on_timeout>::handler()`.
  callback handler() const noexcept { return wheel_entry::handler(); }

  /// Keeps the loop alive while it is armed, as a uv_timer_t does. Idempotent.
  void ref() noexcept { set_ref(true); }
  /// Does not keep the loop alive any more. Idempotent.
  void unref() noexcept { set_ref(false); }
  /// Returns true if it keeps the loop alive while it is armed; true at first.
  bool has_ref() const noexcept { return (service_ & unref_bit) == 0; }

 protected:
  /// As `arm_at`, for a timer that judges a peer. It is judged as of a stamp that is taken after this call. So the loop has polled
  /// since, also if the time has passed. Such a time is no zero delay, and waits for input after a block. Returns 0, UV_ENOBUFS or
  /// UV_ECANCELED as `arm_at`.
  [[nodiscard]] int arm_verdict_at(clock::time_point when) noexcept {
    detail::armed_timers* const plain = timers_of_plain();
    if (plain == nullptr) [[unlikely]]
      return timers().arm_at(*this, when, detail::past_time::verdict);
    return plain->arm_plain_at(*this, when, detail::past_time::verdict);
  }

  /// Returns true if the service knows that `when` has passed. Reads no clock.
  bool is_known_to_have_passed(clock::time_point when) const noexcept {
    return when <= timers().time().latest_reached();
  }

  /// Names this moment, for `has_polled_since`. Reads no clock.
  std::uint16_t polls() const noexcept { return timers().time().polls(); }
  /// Returns true if the loop has certainly polled since `polls` answered `then`. False if it may not have, and after a multiple of
  /// 65,536 polls.
  bool has_polled_since(std::uint16_t then) const noexcept { return timers().time().has_polled_since(then); }

  /// Arms a timer that is armed, or has just expired, before its handler is called. It cannot be refused. A time that has passed is
  /// due in the next pass, which may have its stamp already.
  void arm_again_at(clock::time_point when) noexcept { timers().arm_again(*this, timers().ticks().ceil(when)); }

  /// Call it before the handler of a timer that has just expired: until that returns, no other timer gets its place among
  /// `max_armed`, and arming it is not refused.
  void keep_place() noexcept { timers().alive().keep_place(*this, timers().entries()); }

  /// Reports name the handler `as` from now on, instead of that of this timer. Call it in the timer's callback, before the handler.
  void report_as(callback as) const noexcept { service().dispatcher_.log().rename(as); }

  /// Returns UV_ECANCELED. A debug build stops instead if `open` was never called on the service. Requires: the service is
  /// closed.
  [[nodiscard]] int refuse_when_closed() const noexcept { return timers().refuse_when_closed(); }

  /// Marks a timer whose deadline moves with activity although it is not armed again. The service may ask it for its true
  /// deadline before it is due.
  struct patient {};
  /// A patient timer. Requires: as the public constructor.
  timer(timer_service& service, callback run, patient) noexcept
      : wheel_entry{run}, service_{reinterpret_cast<std::uintptr_t>(&service) | patient_bit} {}
  /// Returns true for a timer that was made as a patient one.
  static bool is_patient(const timer& t) noexcept { return (t.service_ & patient_bit) != 0; }

  /// Calls `ask` for each timer of the service that moves to a finer slot, patient or not.
  void ask_before_moving(wheel::move_hook ask) noexcept { timers().entries().on_move(ask, &service()); }

  /// Returns the tick of `when`, for the answer of `ask`.
  static tick tick_of(const timer_service& service, clock::time_point when) noexcept {
    return service.timers().ticks().ceil(when);
  }

  /// Returns the service of this timer.
  timer_service& service() const noexcept {
    return *reinterpret_cast<timer_service*>(service_ & ~tag_bits);  // NOLINT(performance-no-int-to-ptr): a tagged one
  }

 private:
  friend class detail::post_delivery;

  // A timer of another thread. Only the service arms and cancels it; walks over all timers leave it out.
  struct of_remote {};
  timer(timer_service& service, callback run, of_remote) noexcept
      : wheel_entry{run}, service_{reinterpret_cast<std::uintptr_t>(&service) | remote_bit} {}
  bool is_remote() const noexcept { return (service_ & remote_bit) != 0; }

  detail::armed_timers& timers() const noexcept { return service().timers(); }

  // `timers()`, on the path of every arm and cancel, of a timer with a reference that is not patient; otherwise null.
  detail::armed_timers* timers_of_plain() const noexcept;
  void set_ref(bool on) noexcept;

  static constexpr std::uintptr_t unref_bit = 1;
  static constexpr std::uintptr_t remote_bit = 2;
  static constexpr std::uintptr_t patient_bit = 4;
  static constexpr std::uintptr_t tag_bits = unref_bit | remote_bit | patient_bit;
  static_assert(alignof(timer_service) > tag_bits, "the lowest bits of the service's address are free");

  wheel_entry& entry() noexcept { return *this; }

  // the service's address, with the bits above in its lowest ones
  std::uintptr_t service_;
};

static_assert(sizeof(void*) != 8 || sizeof(timer) <= 48, "a timer leaves its owner some of the cache line");

inline detail::armed_timers* timer::timers_of_plain() const noexcept {
  const std::uintptr_t address = detail::guessed_service(service_, unref_bit | patient_bit);
  if (address == 0) [[unlikely]]
    return nullptr;
  return &reinterpret_cast<timer_service*>(address)->timers();  // NOLINT(performance-no-int-to-ptr): a service's
}

/// @cond post_delivery is a detail
inline bool detail::post_delivery::owns(const timer& t) noexcept { return t.is_remote(); }
/// @endcond

inline void timer::set_ref(bool on) noexcept {
  if (has_ref() == on) return;
  service_ ^= unref_bit;
  if (armed()) timers().change_ref(on);
}

/// `Member` points to a member function that takes no arguments and is noexcept: libuv's C frames, which call it, cannot be
/// unwound. Declare the handler before the timer, and do not overload it.
template <auto Member>
concept noexcept_member_handler = detail::valid(!detail::takes_arguments<decltype(Member)>,
                                                "the handler takes arguments, but must take none") &&
    detail::valid(detail::member_handler<decltype(Member)>::is_noexcept,
                  "the handler must be a noexcept member function, without & or && behind its arguments");

/// `F` can be called without arguments, or with the timer, and is noexcept: libuv's C frames, which call it, cannot be unwound.
template <class F>
concept noexcept_handler = detail::valid(std::is_invocable_v<F&> || std::is_invocable_v<F&, timer&>,
                                         "the handler takes arguments, but may take only a timer&") &&
    detail::valid(std::is_nothrow_invocable_v<F&> || std::is_nothrow_invocable_v<F&, timer&>,
                  "the handler is not noexcept");

// Each template with a `Member` also has the member's type as a parameter, which users never give. Two source files may have
// classes in unnamed namespaces with the same name. Without the parameter, gcc (12 and others) would merge their templates. The
// timer of one file would then call the other file's handler.

/// A timer that calls a member function of the object it is embedded in. 56 bytes.
///
/// *Thread safety, complexity, errors, lifetime:* as `timer`.
template <auto Member, class F = decltype(Member)>
requires noexcept_member_handler<Member>
class member_timer : public timer, private detail::member_call<member_timer<Member, F>, Member> {
 public:
  using member_timer::member_call::handler;         ///< tells its handler from others; see `timer::handler`
  using typename member_timer::member_call::owner;  ///< the class of the handler

  /// Requires: `self` lives as long as the timer does; usually it is the object that embeds it.
  member_timer(timer_service& service, owner& self) noexcept
      : timer{service, handler()}, member_timer::member_call{self} {}

 private:
  friend typename member_timer::member_call;
};

/// A timer that calls a callable, which it holds. A callable that arms the timer again takes it as its argument:
/// `callback_timer t{timers, [](tickwheel::timer& self) noexcept { (void)self.arm(1s); }};`
///
/// *Thread safety, complexity, errors:* as `timer`. *Lifetime:* as `timer`. The callable lives as long as the timer: a callable
/// that destroys its timer must not use its captures afterwards.
template <noexcept_handler F>
class callback_timer : public timer {
 public:
  /// Requires: `service` outlives every arm.
  callback_timer(timer_service& service, F call) noexcept(std::is_nothrow_move_constructible_v<F>)
      : timer{service, handler()}, call_{std::move(call)} {}

  /// Tells its handler from others; see `timer::handler`.
  static callback handler() noexcept {
    static_cast<void>(&handler_name_);  // so that it exists
    return &run;
  }

 private:
  static void run(wheel_entry& entry) noexcept {
    auto& self = static_cast<callback_timer&>(timer::from(entry));
    if constexpr (std::is_nothrow_invocable_v<F&, timer&>)
      self.call_(static_cast<timer&>(self));
    else
      self.call_();
  }

  TICKWHEEL_LOCAL inline static const named_handler handler_name_{&run, detail::name_of_type<F>()};

  F call_;
};

/// How an `interval_timer` goes on after a period that the loop has missed. It never makes up for missed calls in a burst.
enum class missed_periods : std::uint8_t {
  skip,   ///< a fixed rate: the next call is on time, at a multiple of the period since the start
  delay,  ///< a fixed pause: each next call is one period after the begin of the last one, however late that was
};

/// Calls a member function at a fixed rate: at start + period, start + 2 * period and so on, without drift. Calls that were
/// missed while the loop was busy are skipped: one call is late, and the next is on time. With `missed_periods::delay` a late
/// call moves all later ones.
///
/// *Thread safety, errors, lifetime:* as `timer`. *Complexity:* O(1), no allocation; `start` and each call read the clock.
template <auto Member, class F = decltype(Member)>
requires noexcept_member_handler<Member>
class interval_timer : private timer, private detail::member_call<interval_timer<Member, F>, Member> {
 public:
  using interval_timer::member_call::handler;         ///< tells its handler from others; see `timer::handler`
  using typename interval_timer::member_call::owner;  ///< the class of the handler

  /// Requires: `self` lives as long as the timer does.
  interval_timer(timer_service& service, owner& self) noexcept
      : timer{service, handler()}, interval_timer::member_call{self} {}

  /// Starts, or starts anew. The first call is one `period`, a duration, from now. A period shorter than a tick counts as one
  /// tick. On an error nothing has changed. Returns 0, UV_ENOBUFS or UV_ECANCELED as `timer::arm`.
  /// UV_EINVAL: the period is not positive.
  template <class D>
  [[nodiscard]] int start(D period, missed_periods missed = missed_periods::skip) noexcept {
    const auto every = detail::to_nanoseconds(period);
    if (every.count() <= 0) return UV_EINVAL;
    if (!service().is_open()) return refuse_when_closed();
    const clock::time_point first = detail::add_saturating(service().read_clock(), every);
    if (const int error = timer::arm_at(first)) return error;
    period_ = every;
    next_ = first;
    missed_ = missed;
    return 0;
  }

  /// Returns true if it was started. Its handler does not run until it is started again.
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
    const clock::time_point now = service().read_clock();
    const clock::time_point last = missed_ == missed_periods::delay ? now : next_ + (now - next_) / period_ * period_;
    next_ = detail::add_saturating(last, period_);
    // armed before the call, so that the handler may cancel, restart or destroy it
    timer::arm_again_at(next_);
    this->call();
  }

  std::chrono::nanoseconds period_{};
  clock::time_point next_{};  // kept in time, not in ticks, so that rounding does not add up
  missed_periods missed_ = missed_periods::skip;
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
