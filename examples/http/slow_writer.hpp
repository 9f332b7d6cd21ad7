// Writes the bytes that a socket does not take at once, and finds out how fast the peer takes them.
#pragma once

#include <tickwheel/uv/timer.hpp>

#include <uv.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

/// The rest of an answer, on its way to a peer that takes it slowly. While it is being written the owner reads nothing from the peer,
/// which bounds its memory.
///
/// *Lifetime:* the socket and the owner outlive it. It may be destroyed once the socket is closed.
class slow_writer {
 public:
  class owner {
   public:
    /// The peer has taken this many bytes since the last call.
    virtual void on_taken(std::size_t bytes) noexcept = 0;
    /// The socket has taken all.
    virtual void on_written() noexcept = 0;
    /// The socket is broken, or is closing. May be called when the owner already knows.
    virtual void on_write_failed() noexcept = 0;

   protected:
    ~owner() = default;
  };

  slow_writer(tickwheel::timer_service& timers, uv_stream_t& to, owner& of) noexcept
      : to_{to}, owner_{of}, look_{timers, *this} {}

  /// Returns how many of the bytes the socket takes at once, or a UV_ code.
  std::ptrdiff_t try_write(std::string_view bytes) noexcept;

  /// Begins to write the rest. The owner is told each `look_every` how much the peer has taken. Requires: it is idle. Returns 0 or a
  /// UV_ code.
  [[nodiscard]] int write(std::string_view rest, std::chrono::nanoseconds look_every);

  bool is_idle() const noexcept { return unsent_.empty(); }

  /// Stops notifying the owner.
  void cancel() noexcept { look_.cancel(); }

 private:
  int write_next() noexcept;
  void written() noexcept;
  void on_look() noexcept;
  std::size_t owed() noexcept;

  uv_stream_t& to_;
  owner& owner_;
  tickwheel::interval_timer<&slow_writer::on_look> look_;
  uv_write_t request_{};
  std::string unsent_;
  std::size_t sent_ = 0, writing_ = 0;  // of `unsent_`
  std::size_t owed_ = 0;                // at the last check
};
