// Tells a connection when no byte moved for too long, in either direction.
//
// Touch it when bytes were read, or taken at once. Tell it the bytes still queued, as a write_idle_timeout, by whose header it
// is explained how: a slow reader is not idle here, either. Unlike there, a connection that has nothing to send is idle when
// nothing comes.
//
//   class session {
//    public:
//     explicit session(tickwheel::timer_service& timers) : idle_{timers, *this} { idle_.start(60s); }
//     void on_read() { idle_.touch(); }
//     void send(uv_write_t& w, uv_buf_t b) { if (uv_write(&w, stream(), &b, 1, on_written) == 0) idle_.add_queued(b.len); }
//     void on_written() { idle_.set_queued(queued()); }
//    private:
//     void on_idle() noexcept;          // may `delete this`
//     std::size_t queued() const noexcept { return uv_stream_get_write_queue_size(stream()); }
//     tickwheel::all_idle_timeout<&session::on_idle, &session::queued> idle_;
//   };
//
// Where writes are small, an idle_timeout that is touched on reads and on completed writes does the same.
#pragma once

#include <tickwheel/net/detail/queued_bytes.hpp>
#include <tickwheel/net/silence_timer.hpp>

#include <cstddef>

namespace tickwheel {

/// Calls a member function of its owner once, for a limit, nothing was touched and none of the queued bytes were taken.
/// Repeated calls, pauses and what else all idle timeouts can do: see `silence_timer`. `Queued`: as of
/// `write_idle_timeout`.
///
/// *Thread safety, complexity, errors, lifetime:* as `silence_timer`. Debug builds check the thread of `set_queued` and
/// `add_queued` where they count as activity.
template <auto Member, auto Queued = nullptr, class = decltype(Member)>
requires noexcept_member_handler<Member> &&
    detail::queued_bytes_of<Queued, typename detail::member_handler<decltype(Member)>::owner>
class all_idle_timeout : public silence_timer {
 public:
  /// The class that `Member` is of.
  using owner = typename detail::member_handler<decltype(Member)>::owner;

  /// Requires: `self` lives as long as this does; usually it is the connection that embeds it.
  all_idle_timeout(timer_service& service, owner& self) noexcept : silence_timer{service, &visit}, self_{self} {}

  /// Tells its handler from others; see `timer::handler`.
  static callback handler() noexcept { return &visit; }

  /// Watches from now on. Limit, starting a started one, and errors: as `idle_timeout::start`.
  int start(const idle_limit& limit) noexcept {
    if (const int error = begin(limit, detail::looks_a_limit<Queued>)) return error;
    left_ = {};
    ask();
    return 0;
  }

  /// Bytes moved: were read, or taken by the socket at once. As `idle_timeout::touch`.
  void touch() noexcept { note(); }

  /// So many bytes are still queued. Fewer than before: the peer took some. More: that is our doing, and no activity.
  void set_queued(std::size_t bytes) noexcept {
    if (left_.shrunk_to(bytes)) note();
    left_.now(bytes);
  }

  /// So many bytes were queued on top; no activity yet. As `write_idle_timeout::added`.
  void add_queued(std::size_t bytes) noexcept { left_.grew_by(bytes); }

 private:
  static void visit(wheel_entry& entry) noexcept {
    auto& self = from<all_idle_timeout>(entry);
    self.ask();
    if (self.judge()) (self.self_.*Member)();
  }

  void ask() noexcept {
    if constexpr (detail::can_be_asked<Queued>) set_queued((self_.*Queued)());
  }

  owner& self_;
  detail::queued_bytes left_;
};

}  // namespace tickwheel
