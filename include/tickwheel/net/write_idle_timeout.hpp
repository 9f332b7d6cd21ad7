// Tells a connection when its peer has not taken a byte of what is queued for it for too long.
//
// A slow reader is not idle: as long as the queue gets shorter now and then, it is taking. Nor is a connection that has
// nothing to send: nothing is owed, and time does not count until something is. So what comes up is a peer that is
// gone, or that lets us keep its bytes in memory.
//
// Tell it the bytes still queued. libuv reports a write when all of it was taken, and a large one may take minutes, so
// name a function by which it can ask, too, before it judges:
//
//   class session {
//    public:
//     explicit session(tickwheel::timer_service& timers) : stuck_{timers, *this} { stuck_.start(30s); }
//     void send(uv_write_t& w, uv_buf_t b) { if (uv_write(&w, stream(), &b, 1, on_written) == 0) stuck_.add_queued(b.len); }
//     void on_written() { stuck_.set_queued(queued()); }
//    private:
//     void on_stuck() noexcept;         // may `delete this`
//     std::size_t queued() const noexcept { return uv_stream_get_write_queue_size(stream()); }
//     tickwheel::write_idle_timeout<&session::on_stuck, &session::queued> stuck_;
//   };
//
// "Queued" is what the kernel has not taken, so that the kernel's own buffer hides a while of the peer's silence. It also
// takes more in lumps. Choose a limit of seconds at least. A peer that takes a byte a minute is not idle here, either; a
// minimum rate is what ends that.
#pragma once

#include <tickwheel/net/detail/queued_bytes.hpp>
#include <tickwheel/net/silence_timer.hpp>

#include <cstddef>

namespace tickwheel {

/// Calls a member function of its owner once bytes were queued, and none of them taken, for a limit. Repeated calls,
/// pauses and what else all idle timeouts can do: see `silence_timer`.
///
/// `Queued` is a const noexcept member function of the owner that answers the bytes queued now, and does nothing else; or
/// nullptr, when the timeout is told all there is to know. It is asked four times a limit, so that a peer which stops is
/// noticed a quarter of the limit late at most. The timeout knows at once what it is told.
///
/// *Thread safety, complexity, errors, lifetime:* as `silence_timer`. Debug builds check the thread of `set_queued` and
/// `add_queued` where they count as activity.
template <auto Member, auto Queued = nullptr, class = decltype(Member)>
requires noexcept_member_handler<Member> &&
    detail::queued_bytes_of<Queued, typename detail::member_handler<decltype(Member)>::owner>
class write_idle_timeout : public silence_timer {
 public:
  /// The class that `Member` is of.
  using owner = typename detail::member_handler<decltype(Member)>::owner;

  /// Requires: `self` lives as long as this does; usually it is the connection that embeds it.
  write_idle_timeout(timer_service& service, owner& self) noexcept : silence_timer{service, &visit}, self_{self} {}

  /// Tells its handler from others; see `timer::handler`.
  static callback handler() noexcept { return &visit; }

  /// Watches from now on; with nothing queued, unless it can ask, until it is told. Limit, starting a started one, and
  /// errors: as `idle_timeout::start`.
  int start(const idle_limit& limit) noexcept {
    if (const int error = begin(limit, detail::looks_a_limit<Queued>)) return error;
    left_ = {};
    ask();
    return 0;
  }

  /// So many bytes are still queued. Fewer than before: the peer took some, and is not idle. More, unless `add_queued`: that
  /// is our doing, and says nothing of the peer, but from none to some time begins to count.
  void set_queued(std::size_t bytes) noexcept {
    if (left_.none() || left_.shrunk_to(bytes)) note();
    left_.now(bytes);
  }

  /// So many bytes were queued on top. Tell it, if more may be queued before all was taken: else what the peer took
  /// meanwhile would be hidden behind what came on top.
  void add_queued(std::size_t bytes) noexcept {
    if (left_.none()) note();
    left_.grew_by(bytes);
  }

 private:
  static void visit(wheel_entry& entry) noexcept {
    auto& self = from<write_idle_timeout>(entry);
    self.ask();
    if (self.left_.none())
      self.look_again();
    else if (self.judge())
      (self.self_.*Member)();
  }

  void ask() noexcept {
    if constexpr (detail::can_be_asked<Queued>) set_queued((self_.*Queued)());
  }

  owner& self_;
  detail::queued_bytes left_;
};

}  // namespace tickwheel
