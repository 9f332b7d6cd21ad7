// Tells a connection that its peer has been silent for too long.
//
// Touch the timeout on every read. That writes one word, whatever the limit and the number of connections. It does not move the
// timer behind the timeout: when the timer expires, it checks the last touch and waits for the rest.
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
// A timeout that is touched only on reads watches the peer. Touched only on writes, it says when to send a ping. Touched on both,
// it reports a connection on which nothing happens. Two more watch the bytes that are queued for a peer that reads slowly:
//
//   idle_timeout          nothing was touched: reads, or reads and writes
//   write_idle_timeout    bytes are queued for the peer, and it takes none
//   all_idle_timeout      nothing was touched, and the peer takes none of the queued bytes
//
// All of them are started with a limit and notify once. They notify again if asked, and can be paused:
//
//   void on_idle() noexcept {
//     if (idle_.consecutive_timeouts() == 3) return close();   // silent for three limits
//     send_ping();
//     if (idle_.notify_again() != 0) close();                  // after one more limit of silence
//   }
//
//   void on_back_pressure() noexcept { idle_.pause(); uv_read_stop(...); }     // bytes that we do not read cannot arrive
//   void on_relief() noexcept { uv_read_start(...); idle_.resume(); }
//
// The peer is not charged with our own stalls. Bytes that were waiting when the limit ran out are handled before the verdict, if
// the loop can read them within `service_options::io_wait`. Idle time is counted on the loop's responsive time, which leaves out
// the time that a loop iteration took beyond `service_options::stall_grace`. A silent peer is still evicted, at most as much
// later as we stalled and waited.
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
/// `write_idle_timeout` or `all_idle_timeout`; `What` is the activity that each watches. 112 bytes, 120 with a queue.
///
/// `Queued` is a const noexcept member function of the owner that answers the number of bytes queued now, and does nothing else.
/// It is called four times per limit, and when a pause ends. So a peer that stops is noticed at most a quarter of the limit late.
/// `Queued` is nullptr if all of the bytes are reported by `set_queued` and `add_queued`, which take effect at once.
///
/// *Thread safety:* the loop thread only. Arming and cancelling check that. `touch` and `pause` check it in debug builds, and so
/// do `set_queued` and `add_queued` when they count as activity. *Complexity:* O(1); nothing allocates. `start` reads the clock, and
/// so does the call of the handler, which moves `timer_service::now()` to that time; the other functions use the time of the loop
/// iteration. *Errors:* `start` and `notify_again` answer UV_ codes. *Lifetime:* as `timer`: it may be destroyed at any time, also in
/// its handler.
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
  using basic_idle_timeout::member_call::handler;         ///< identifies its handler; see `timer::handler`
  using typename basic_idle_timeout::member_call::owner;  ///< the class of the handler

  /// Requires: `self` lives as long as this timer; usually it is the connection that embeds it.
  basic_idle_timeout(timer_service& service, owner& self) noexcept
      : base{service, handler()}, basic_idle_timeout::member_call{self} {}

  /// Calls the handler once `limit` has passed without activity, counted from now. It is called once, until the timeout is
  /// started again or the handler calls `notify_again`. Reads the clock, and moves `timer_service::now()` to that time.
  ///
  /// Starting a started timeout begins anew, for instance when a pooled connection is used again. No touch, pause or notification
  /// of the earlier use is left. No bytes count as queued until they are reported, or until `Queued` answers them.
  ///
  /// The limit is a duration, or a scaled limit: `idle_limit::scaled(10s, 5min, load)`. A scaled limit follows a falling load at
  /// once. It follows a rising load when the timer expires next, which is once per minimum.
  ///
  /// 0: it is started. On an error nothing has changed.
  /// UV_EINVAL: the limit is invalid, for instance zero or less; `idle_limit::problem` names the field.
  /// UV_ENOBUFS, UV_ECANCELED: as `timer::arm`.
  [[nodiscard]] int start(const idle_limit& limit) noexcept {
    const int error = base::begin(limit, detail::checks_per_limit<Queued>);
    if (error == 0) {
      left_ = {};
      ask();
    }
    return error;
  }

  /// Reports activity of the peer: stores the time stamp of this loop iteration, and nothing else. If the timeout is not started, or the
  /// service is closed, it only begins `consecutive_timeouts` anew.
  void touch() noexcept requires has_touches { base::touch(); }

  /// Reports how many bytes are still queued. If there are fewer than before, the peer took some and is not idle. If there are
  /// more, without `add_queued`, we queued them, which says nothing about the peer. Without touches, time begins to count once
  /// bytes are queued.
  void set_queued(std::size_t bytes) noexcept requires has_queue {
    if ((!has_touches && left_.none()) || left_.shrunk_to(bytes)) base::touch();
    left_.now(bytes);
  }

  /// Reports that so many more bytes were queued. Call it if more bytes may be queued before all are taken. Otherwise the new
  /// bytes would hide those that the peer took meanwhile.
  void add_queued(std::size_t bytes) noexcept requires has_queue {
    if (!has_touches && left_.none()) base::touch();
    left_.grew_by(bytes);
  }

  /// Returns true if it was started. Its handler does not run until it is started again.
  bool cancel() noexcept { return base::cancel(); }

  /// Returns true from `start` until the handler runs, `cancel` is called, or the service closes. A paused timeout is armed.
  bool armed() const noexcept { return base::armed(); }

  /// Returns the limit of the last start; of a scaled limit, its present value. Zero if it was never started.
  std::chrono::nanoseconds limit() const noexcept { return base::limit(); }

  /// For the handler: notifies again after one more limit of silence, counted from this notification or from later activity. Late
  /// notifications do not come in a burst. A pause during which the handler was called goes on. Reads no clock.
  ///
  /// The first call in the handler cannot be refused: until then, or until the handler returns, the timeout keeps its place among
  /// `max_armed`, and no other timer gets it. That also holds if the handler destroys the timeout. After it was armed and cancelled in
  /// the handler, it can be refused.
  ///
  /// 0: it is armed, also if it was armed before, for instance by `start`.
  /// UV_EINVAL: it was never started.
  /// UV_ECANCELED: the service is closed.
  /// UV_ENOBUFS: `max_armed` timers are armed, and the handler has returned.
  int notify_again() noexcept { return base::notify_again(); }

  /// Returns how often the handler was called in a row without activity in between. In the handler this includes the present
  /// call, so the first is 1. Activity and `start` make it 0.
  unsigned consecutive_timeouts() const noexcept { return base::consecutive_timeouts(); }

  /// Stops time for the peer: while we do not read from it, its silence is not its fault. The timeout stays armed and keeps the
  /// loop alive as before. It expires once per limit, finds that it is paused, and waits on. Has no effect if it is not armed, or
  /// already paused: pauses do not add up.
  void pause() noexcept { base::pause(); }

  /// Lets time count again, from where it stood when the pause began. A peer that had been silent for a third of the limit has
  /// two thirds left. A peer that was active meanwhile has the whole limit. Has no effect if it is not paused.
  ///
  /// A limit that had run out before the pause is judged in one of the next passes, after waiting input was handled. If the timeout is
  /// paused again by then, it is nevertheless judged, provided that the loop has polled in between and that the peer was silent since
  /// this call. Without a poll it is judged after the next `resume`. The stretches between pauses add up. So an owner that stops all
  /// reading as soon as one connection was read, in each iteration anew, lets the limits of its other connections run out, although their
  /// bytes may be waiting.
  ///
  /// A prepare callback that was started before the service was opened runs between its stamp and the poll. Do not resume there: the
  /// poll that follows does not count. Nor call `uv_update_time` there: a pause after it counts as one after a poll. With such a
  /// callback the service cannot always tell whether the loop has polled. If an owner pauses and resumes in each iteration, a silent
  /// peer may then live for seconds longer.
  void resume() noexcept {
    if (base::paused()) ask();
    base::resume();
  }

  /// Returns true between `pause` and `resume`. `start` and `cancel` also end a pause.
  bool paused() const noexcept { return base::paused(); }

  /// In the handler: returns how long the peer had been silent when it was judged, since the last activity or the start. Our own
  /// stalls are left out. It is at least the limit. With `timer_service::why()` it explains a close completely.
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

/// Calls a member function of its owner once nothing was touched for a limit. `touch` stores the iteration's time stamp.
template <auto Member>
using idle_timeout = basic_idle_timeout<idle_watch::touches, Member>;

namespace detail {

template <idle_watch What, auto Member, auto Queued, class F>
inline constexpr bool stays_in_place<basic_idle_timeout<What, Member, Queued, F>> = true;

}  // namespace detail
}  // namespace tickwheel
