// What a workload does, drawn before it is timed and the same for every subject, and what that must lead to.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

namespace tickwheel::bench {

/// One operation of a workload.
struct operation {
  std::uint32_t connection;
  std::uint32_t delay_us;

  /// A fair coin, for the workload that cancels half of its timers.
  bool heads() const noexcept { return delay_us % 2 != 0; }
};

/// What a workload leads to.
struct outcome {
  std::uint64_t cancels = 0;      // answered that the timer was armed
  std::uint64_t expired = 0;      // how many timers ran out
  std::uint64_t expired_sum = 0;  // and which
  std::uint64_t left_sum = 0;     // which timers are armed at the end, and for when
  std::uint64_t course = 0;       // which had run out by each mark

  /// Notes what has run out by now.
  void mark() noexcept;

  /// Up to six digits, which Google Benchmark's console shows exactly.
  std::uint64_t checksum() const noexcept;

  friend bool operator==(const outcome&, const outcome&) = default;
};

struct script {
  std::vector<operation> first;    // arms each connection once, in random order
  std::vector<operation> warm_up;  // untimed
  std::vector<operation> timed;

  outcome expected;
  std::vector<std::optional<std::chrono::nanoseconds>> left;  // by connection: when it is due, at the end
};

/// Draws a script while it keeps book of what must come of it.
///
/// Subjects round time differently, up to a few milliseconds. So that they agree on what ran out all the same, no timer
/// is drawn that runs out within `margin` of an operation on it, or of a mark.
class script_writer {
 public:
  static constexpr std::chrono::milliseconds margin{10};

  /// Of `connections` timers. What has run out is looked at when each of `marks` has come, the last of which is the
  /// end.
  script_writer(std::size_t connections, std::vector<std::chrono::nanoseconds> marks);

  /// Each connection once, in random order.
  std::vector<std::uint32_t> shuffled();
  /// A connection that an operation at `now` may be on.
  std::uint32_t draw_connection(std::chrono::nanoseconds now);
  /// A delay for an operation at `now`, uniform in a range.
  std::uint32_t draw_delay_us(std::chrono::nanoseconds now, std::chrono::microseconds least = std::chrono::seconds{1},
                              std::chrono::microseconds most = std::chrono::seconds{60});

  void arm(std::uint32_t connection, std::chrono::nanoseconds due, std::chrono::nanoseconds now);
  void cancel(std::uint32_t connection, std::chrono::nanoseconds now);
  void destroy(std::uint32_t connection, std::chrono::nanoseconds now);

  /// What has come of it at the end. Requires: no operation came after the first mark.
  void conclude(script&);

 private:
  void expire(std::uint32_t connection, std::chrono::nanoseconds now);

  std::mt19937_64 random_{20'240'229};
  std::vector<std::chrono::nanoseconds> marks_;
  std::vector<std::optional<std::chrono::nanoseconds>> due_;
  outcome outcome_;
};

/// Stands for a timer of connection `id` being due at `due`.
std::uint64_t mix_due(std::uint64_t id, std::optional<std::chrono::nanoseconds> due) noexcept;

}  // namespace tickwheel::bench
