// Probes for bpftrace and SystemTap (USDT). probes.cpp makes them, and is the only file that uses <sys/sdt.h>.
//
// Nothing is done for probes that nobody traces. The kernel counts the tracers of all of them in a word of ours. Only slow paths read
// it: once or twice per pass, and where a timer is armed out of line. While somebody traces, such a path sends the fast ones its way. So
// arming and firing have the same instructions with and without probes.
//
// Without <sys/sdt.h> all is empty, or false when the library is compiled.
#pragma once

#include <tickwheel/uv/expiry_report.hpp>
#include <tickwheel/uv/slow_handler.hpp>

#ifdef TICKWHEEL_HAS_USDT
extern "C" volatile unsigned short tickwheel_semaphore __attribute__((visibility("hidden")));
#endif

namespace tickwheel::probes {

#ifdef TICKWHEEL_HAS_USDT

inline constexpr bool exist = true;

/// Returns true if somebody traces a probe.
inline bool traced() noexcept { return tickwheel_semaphore != 0; }

/// `arm(timer, handler, due, caller)`: an unarmed timer was armed. `due` is in nanoseconds of the steady clock. `caller` is the
/// address to which the call that arms returns; null for a timer of another thread.
void arm(const void* timer, expiry_report::handler_id, clock::time_point due, const void* caller) noexcept;

/// `fire(timer, handler, late)`, right before a handler is called; `timer` is null for a posted call that runs at once. If it is late
/// by more than a loop without load is: also `late(handler, late, poll, carried, stall, by)`. All are in nanoseconds, and as in
/// `expiry_report`. `by` is the handler that caused most of `stall`, or null.
void fire(const void* timer, expiry_report::handler_id, const expiry_report&) noexcept;

/// `stall(length, handler, took)`: an iteration took `length` longer than `stall_grace`. `handler` is the slow handler that took most of
/// the iteration, for `took`; null: none was slow. Both times are in nanoseconds.
void stall(std::chrono::nanoseconds length, const slow_handler& slowest) noexcept;

#else

inline constexpr bool exist = false;
constexpr bool traced() noexcept { return false; }
inline void arm(const void*, expiry_report::handler_id, clock::time_point, const void*) noexcept {}
inline void fire(const void*, expiry_report::handler_id, const expiry_report&) noexcept {}
inline void stall(std::chrono::nanoseconds, const slow_handler&) noexcept {}

#endif

}  // namespace tickwheel::probes
