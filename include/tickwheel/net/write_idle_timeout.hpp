// Tells a connection that its peer has taken none of the bytes queued for it for too long.
//
// A slow reader is not idle: as long as the queue gets shorter now and then, the peer is reading. A connection that has nothing
// to send is not idle either. Time counts only while bytes are queued. So the timeout finds a peer that is gone, or one that
// makes us keep its bytes in memory.
//
// Report the queued bytes to the timeout. libuv reports a write only when all its bytes were taken, and a large write may take
// minutes. So also name a function that answers the number of queued bytes. The timeout calls it before it judges:
//
//   class session {
//    public:
//     explicit session(tickwheel::timer_service& timers) : stuck_{timers, *this} {}
//     int begin() { return stuck_.start(30s); }
//     void send(uv_write_t& w, uv_buf_t b) { if (uv_write(&w, stream(), &b, 1, on_written) == 0) stuck_.add_queued(b.len); }
//     void on_written() { stuck_.set_queued(queued()); }
//    private:
//     void on_stuck() noexcept;         // may `delete this`
//     std::size_t queued() const noexcept { return uv_stream_get_write_queue_size(stream()); }
//     tickwheel::write_idle_timeout<&session::on_stuck, &session::queued> stuck_;
//   };
//
// "Queued" bytes are those that the kernel has not taken. The kernel's own buffer therefore hides the peer's silence for a while,
// and the kernel takes more bytes in lumps. Choose a limit of several seconds at least. A peer that takes one byte per minute is
// not idle here; use a `minimum_rate` against it.
#pragma once

#include <tickwheel/net/idle_timeout.hpp>

namespace tickwheel {

/// Calls a member function of its owner once bytes were queued for a limit and the peer took none of them.
template <auto Member, auto Queued = nullptr>
using write_idle_timeout = basic_idle_timeout<idle_watch::queue, Member, Queued>;

}  // namespace tickwheel
