// The operations of a workload and their required outcome. They are drawn before the workload is timed, and are the same for every
// subject.
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

/// The outcome of a workload.
struct outcome {
  std::uint64_t cancels = 0;      // of a timer that was armed
  std::uint64_t expired = 0;      // how many timers expired
  std::uint64_t expired_sum = 0;  // which timers expired
  std::uint64_t left_sum = 0;     // which timers are armed at the end, and their deadlines
  std::uint64_t course = 0;       // which timers had expired at each mark

  /// Records the timers that have expired by now.
  void mark() noexcept;

  /// Returns up to six digits, which Google Benchmark's console shows exactly.
  std::uint64_t checksum() const noexcept;

  friend bool operator==(const outcome&, const outcome&) = default;
};

struct script {
  std::vector<operation> first;    // arms each connection once, in random order
  std::vector<operation> warm_up;  // untimed
  std::vector<operation> timed;

  outcome expected;
  std::vector<std::optional<std::chrono::nanoseconds>> left;  // by connection: its deadline at the end
};

/// Draws a script, and keeps account of its outcome.
///
/// Subjects round time differently, by up to a few milliseconds. So no timer is drawn that expires within `margin` of an operation on
/// it, or of a mark. All subjects then agree on which timers have expired.
class script_writer {
 public:
  static constexpr std::chrono::milliseconds margin{10};

  /// For `connections` timers. The expired timers are recorded at each of `marks`. The last mark is the end.
  script_writer(std::size_t connections, std::vector<std::chrono::nanoseconds> marks);

  /// Returns each connection once, in random order.
  std::vector<std::uint32_t> shuffled();
  /// Returns a connection for an operation at `now`.
  std::uint32_t draw_connection(std::chrono::nanoseconds now);
  /// Returns a delay for an operation at `now`, uniform in a range.
  std::uint32_t draw_delay_us(std::chrono::nanoseconds now, std::chrono::microseconds least = std::chrono::seconds{1},
                              std::chrono::microseconds most = std::chrono::seconds{60});

  void arm(std::uint32_t connection, std::chrono::nanoseconds due, std::chrono::nanoseconds now);
  void cancel(std::uint32_t connection, std::chrono::nanoseconds now);
  void destroy(std::uint32_t connection, std::chrono::nanoseconds now);

  /// Returns the outcome at the end. Requires: no operation came after the first mark.
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
