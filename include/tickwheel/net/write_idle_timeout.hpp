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
// "Queued" is what the kernel has not taken, so that the kernel's own buffer hides a while of the peer's silence. It also
// takes more in lumps. Choose a limit of seconds at least. A peer that takes a byte a minute is not idle here, either; a
// minimum rate is what ends that.
#pragma once

#include <tickwheel/net/idle_timeout.hpp>

namespace tickwheel {

/// Calls a member function of its owner once bytes were queued, and none of them taken, for a limit.
template <auto Member, auto Queued = nullptr>
using write_idle_timeout = basic_idle_timeout<idle_watch::queue, Member, Queued>;

}  // namespace tickwheel
