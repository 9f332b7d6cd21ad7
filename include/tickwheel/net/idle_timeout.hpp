// Tells a connection when its peer has been silent for too long.
//
// Touch it on every read; that writes one word, whatever the limit and however many connections there are. The timer
// behind it is not moved: when it expires it checks the last touch, and waits for the rest.
//
//   class session {
//    public:
//     explicit session(tickwheel::timer_service& timers) : idle_{timers, *this} {}
//     int begin() { return idle_.start(60s); }
//     void on_read() { idle_.touch(); }
//    private:
//     void on_idle() noexcept;          // may `delete this`
//     tickwheel::idle_timeout<&session::on_idle> idle_;
//   };
//
// A timeout that is touched only on reads watches the peer. Touched only on writes, it says when it is time for a ping.
// Touched on both, it says when nothing happens at all. Two more watch the bytes that are queued for a peer which takes them
// slowly:
//
//   idle_timeout          nothing was touched: reads, or reads and writes
//   write_idle_timeout    bytes are queued for the peer, and it takes none
//   all_idle_timeout      nothing was touched, and the peer takes none of the queued bytes
//
// All of them are started with a limit, notify once and, if asked, again and again, and can be paused:
//
//   void on_idle() noexcept {
//     if (idle_.consecutive_timeouts() == 3) return close();   // silent for three limits
//     send_ping();
//     if (idle_.notify_again() != 0) close();                  // and tell me when it has been silent for one more
//   }
//
//   void on_back_pressure() noexcept { idle_.pause(); uv_read_stop(...); }     // what we do not read cannot come
//   void on_relief() noexcept { uv_read_start(...); idle_.resume(); }
//
// Our own stalls are not the peer's fault. Bytes that were waiting when the limit ran out are handled before the
// verdict, if the loop can read them within `service_options::io_wait`. And idle time is counted on the loop's responsive time,
// which leaves out what a loop iteration took beyond `service_options::stall_grace`. A silent peer is still evicted, later by
// no more than we stalled and waited.
#pragma once

#include <tickwheel/net/detail/queued_bytes.hpp>
#include <tickwheel/net/detail/silence_timer.hpp>
#include <tickwheel/net/idle_limit.hpp>

#include <cstddef>
#include <cstdint>

namespace tickwheel {

/// The activity that an idle timeout watches.
enum class idle_watch : std::uint8_t {
  touches,  ///< `idle_timeout`
  queue,    ///< `write_idle_timeout`
  both,     ///< `all_idle_timeout`
};

/// Calls a member function of its owner once there was no activity for a limit. Users name it `idle_timeout`,
/// `write_idle_timeout` or `all_idle_timeout`, by the activity that `What` says. 112 bytes, 120 with a queue.
///
/// `Queued` is nullptr if the timeout is told of all queued bytes. Otherwise it is a const noexcept member function of the owner
/// that answers the bytes queued now, and does nothing else. The timeout calls it four times per limit. A peer that stops is
/// then noticed at most a quarter of the limit late.
///
/// *Thread safety:* the loop thread only; checked where it is armed or cancelled, and in debug builds on `touch` and `pause`,
/// and on `set_queued` and `add_queued` where they count as activity. *Complexity:* all O(1); nothing allocates. `start` reads
/// the clock; all else takes the time of the loop iteration. *Errors:* `start` and `notify_again` answer UV_ codes. *Lifetime:*
/// as `timer`: may be destroyed at any time, in its handler too.
template <idle_watch What, auto Member, auto Queued = nullptr, class F = decltype(Member)>
requires noexcept_member_handler<Member> && detail::queued_bytes_of<Queued, typename detail::member_handler<F>::owner>
class basic_idle_timeout : private detail::silence_timer,
                           private detail::member_call<basic_idle_timeout<What, Member, Queued, F>, Member> {
  using base = detail::silence_timer;
  static constexpr bool has_queue = What != idle_watch::touches;
  static constexpr bool has_touches = What != idle_watch::queue;

 public:
  using base::callback;                                   ///< as of `timer`
  using base::has_ref;                                    ///< as of `timer`
  using base::ref;                                        ///< as of `timer`
  using base::unref;                                      ///< as of `timer`
  using basic_idle_timeout::member_call::handler;         ///< tells its handler from others; see `timer::handler`
  using typename basic_idle_timeout::member_call::owner;  ///< the class that `Member` is of

  /// Requires: `self` lives as long as this does; usually it is the connection that embeds it.
  basic_idle_timeout(timer_service& service, owner& self) noexcept
      : base{service, handler()}, basic_idle_timeout::member_call{self} {}

  /// Calls the handler once `limit` has passed without activity, counted from now. It is called once, until the next start or
  /// `notify_again`. Starting a started one begins anew, as a pooled connection does for its next use. No touch, pause, count or
  /// queue of the earlier use is left; `Queued` is asked again.
  ///
  /// The limit is a duration, or a scaled one: `idle_limit::scaled(10s, 5min, load)`. A scaled limit follows a falling load at
  /// once. It follows a rising load when the timer expires next, which is once per minimum.
  ///
  /// 0; UV_EINVAL if the limit is invalid, as one of zero or less (`idle_limit::problem` names the field);
  /// UV_ENOBUFS, UV_ECANCELED as `timer::arm`. On an error nothing has changed.
  [[nodiscard]] int start(const idle_limit& limit) noexcept {
    const int error = base::begin(limit, detail::checks_per_limit<Queued>);
    if (error == 0) {
      left_ = {};
      ask();
    }
    return error;
  }

  /// The peer was active: stores the time stamp of this loop iteration, and nothing else. Without effect when not
  /// started, or when the service is closed.
  void touch() noexcept requires has_touches { base::touch(); }

  /// So many bytes are still queued. If there are fewer than before, the peer took some, and is not idle. If there are more, that
  /// says nothing of the peer. In a `write_idle_timeout` time begins to count when the first bytes are queued.
  void set_queued(std::size_t bytes) noexcept requires has_queue {
    if ((!has_touches && left_.none()) || left_.shrunk_to(bytes)) base::touch();
    left_.now(bytes);
  }

  /// So many bytes were queued on top. Call it if more may be queued before all were taken. Otherwise the new bytes would hide
  /// those that the peer took meanwhile.
  void add_queued(std::size_t bytes) noexcept requires has_queue {
    if (!has_touches && left_.none()) base::touch();
    left_.grew_by(bytes);
  }

  /// True when it was started. Afterwards the handler does not run until it is started again.
  bool cancel() noexcept { return base::cancel(); }

  /// True from `start` until the handler runs, `cancel`, or the service closes. A paused one is armed.
  bool armed() const noexcept { return base::armed(); }

  /// The limit it was started with last; the present value of a scaled limit. Zero if it was never started.
  std::chrono::nanoseconds limit() const noexcept { return base::limit(); }

  /// For the handler: notifies again after one more limit of silence, counted from this notification or from later activity.
  /// Late notifications do not come in a burst. In the handler it cannot be refused: until that returns the timeout keeps its
  /// place among `max_armed`, which no other timer gets. Reads no clock.
  ///
  /// 0, also when it is armed already, as after `start`; UV_EINVAL when it was never started; UV_ECANCELED when the service is
  /// closed; UV_ENOBUFS, once the handler has returned, when `max_armed` timers are armed.
  int notify_again() noexcept { return base::notify_again(); }

  /// How often the handler was called in a row, that is without activity since; in the handler, this call is counted,
  /// and the first is 1. Activity makes it 0, and so does `start`.
  unsigned consecutive_timeouts() const noexcept { return base::consecutive_timeouts(); }

  /// From now on time does not count: we do not read from the peer, which then cannot be blamed for its silence. It
  /// stays armed, holds the loop as before, and expires once per limit to find that it is paused. Without effect when it
  /// is not armed, or paused already: pauses do not add up.
  void pause() noexcept { base::pause(); }

  /// Time counts again, and goes on from what it was when the pause began. A peer that had been silent for a third of the
  /// limit has two thirds left. One that was active meanwhile has all of it. What had run out before the pause is judged in
  /// one of the next passes, that is after what waits to be read was handled. Without effect when not paused.
  void resume() noexcept { base::resume(); }

  /// True between `pause` and `resume`; `start` and `cancel` end a pause, too.
  bool paused() const noexcept { return base::paused(); }

  /// In the handler: the time from the last activity, or the start, to the verdict, without our own stalls. It is at least the
  /// limit. With `timer_service::why()` it is the whole story of a close.
  std::chrono::nanoseconds silence() const noexcept { return base::silence(); }

 private:
  friend typename basic_idle_timeout::member_call;

  void expired() noexcept {
    ask();
    if (!has_touches && left_.none())
      base::check_later();
    else if (base::check_expired())
      this->call();
  }

  void ask() noexcept {
    if constexpr (detail::can_be_asked<Queued>) set_queued((this->self().*Queued)());
  }

  [[no_unique_address]] std::conditional_t<has_queue, detail::queued_bytes, detail::no_queue> left_;
};

/// Calls a member function of its owner once nothing was touched for a limit. `touch` is a store of the iteration's time stamp.
template <auto Member>
using idle_timeout = basic_idle_timeout<idle_watch::touches, Member>;

namespace detail {

template <idle_watch What, auto Member, auto Queued, class F>
inline constexpr bool stays_in_place<basic_idle_timeout<What, Member, Queued, F>> = true;

}  // namespace detail
}  // namespace tickwheel
