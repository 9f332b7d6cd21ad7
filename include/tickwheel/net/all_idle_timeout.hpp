// Tells a connection that no byte has moved for too long, in either direction.
//
// Touch the timeout when bytes were read, or were written at once. Report the queued bytes to it as to a write_idle_timeout,
// whose header explains how. A slow reader is not idle here either. Unlike there, a connection that has nothing to send is idle
// if nothing arrives.
//
//   class session {
//    public:
//     explicit session(tickwheel::timer_service& timers) : idle_{timers, *this} {}
//     int begin() { return idle_.start(60s); }
//     void on_read() { idle_.touch(); }
//     void send(uv_write_t& w, uv_buf_t b) { if (uv_write(&w, stream(), &b, 1, on_written) == 0) idle_.add_queued(b.len); }
//     void on_written() { idle_.set_queued(queued()); }
//    private:
//     void on_idle() noexcept;          // may `delete this`
//     std::size_t queued() const noexcept { return uv_stream_get_write_queue_size(stream()); }
//     tickwheel::all_idle_timeout<&session::on_idle, &session::queued> idle_;
//   };
//
// If writes are small, an idle_timeout that is touched on reads and on completed writes does the same.
#pragma once

#include <tickwheel/net/idle_timeout.hpp>

namespace tickwheel {

/// Calls a member function of its owner once, for a limit, nothing was touched and the peer took none of the queued bytes.
template <auto Member, auto Queued = nullptr>
using all_idle_timeout = basic_idle_timeout<idle_watch::both, Member, Queued>;

}  // namespace tickwheel
