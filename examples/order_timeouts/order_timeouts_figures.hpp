// The figures of a shop, and the table and the verdict that they make.
#pragma once

#include "../support/text_bars.hpp"
#include "order_timeouts_outages.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

struct shop_figures {
  /// A cancellation that the shop was told of. It is late from `since`: from the due time, or from the confirmation if that was later.
  struct cancellation {
    std::chrono::system_clock::time_point since, told;
  };

  std::uint64_t confirmed = 0, paid = 0, cancelled = 0;
  std::uint64_t confirmed_late = 0;                // of the confirmed: after they were due, because of an outage
  std::chrono::nanoseconds latest_confirmation{};  // of these, after the due time
  std::uint64_t too_late = 0;                      // of the cancelled: first heard when they were to be paid
  std::uint64_t started_again = 0;                 // told to cancel by another start than the first
  std::uint64_t told_again = 0;                    // told to cancel once more, with the same due time
  std::uint64_t connections = 0;
  std::vector<cancellation> cancellations;

  // must be zero
  std::uint64_t unconfirmed = 0;
  std::uint64_t lost = 0;             // neither paid nor cancelled in the end, or not known to the server
  std::uint64_t early = 0;            // told to cancel before the due time
  std::uint64_t cancelled_twice = 0;  // told to cancel with another due time
  std::uint64_t paid_and_cancelled = 0;

  /// Prints the table. Returns true if each figure that must be zero is zero, and at least `outages` were seen.
  bool judge(const outage_log& seen, std::size_t outages) const {
    print("connections", connections);
    print("confirmed", confirmed);
    std::printf("  %-44s %9ju, at most %.1f s\n", "  of these confirmed after they were due",
                std::uintmax_t{confirmed_late}, std::chrono::duration<double>{latest_confirmation}.count());
    print("paid", paid);
    print("cancelled", cancelled);
    print("  of these found when they were to be paid", too_late);
    print_lateness(seen);
    for (std::size_t i = 0; i != seen.ended(); ++i)
      std::printf("  %-44s %9.1f s\n", ("outage " + std::to_string(i + 1)).c_str(),
                  std::chrono::duration<double>{seen.length(i)}.count());
    print("started again", started_again);
    print("  of these recognised by (order, due time)", told_again);
    bool right = print_zero("not confirmed", unconfirmed);
    right &= print_zero("lost", lost);
    right &= print_zero("cancelled early", early);
    right &= print_zero("cancelled twice", cancelled_twice);
    right &= print_zero("cancelled after the payment was confirmed", paid_and_cancelled);
    if (seen.size() < outages) std::printf("WRONG: %zu outages were seen of %zu\n", seen.size(), outages);
    return right && seen.size() >= outages;
  }

 private:
  static void print(const std::string& what, std::uint64_t count) {
    std::printf("  %-44s %9ju\n", what.c_str(), std::uintmax_t{count});
  }

  static bool print_zero(const std::string& what, std::uint64_t count) {
    std::printf("  %-44s %9ju  %s\n", what.c_str(), std::uintmax_t{count}, count == 0 ? "right" : "WRONG");
    return count == 0;
  }

  void print_lateness(const outage_log& seen) const {
    std::array<std::vector<std::chrono::nanoseconds>, 3> late;  // by phase
    for (const cancellation& c : cancellations)
      late[static_cast<std::size_t>(seen.phase_of(c.since, c.told))].push_back(c.told - c.since);
    constexpr std::array names{"lateness before an outage", "lateness during an outage", "lateness after an outage"};
    for (std::size_t i = 0; i != late.size(); ++i) {
      std::sort(late[i].begin(), late[i].end());
      const auto at = [&](double fraction) {
        if (late[i].empty()) return 0.0;
        const auto index = static_cast<std::size_t>(fraction * static_cast<double>(late[i].size() - 1));
        return std::chrono::duration<double, std::milli>(late[i][index]).count();
      };
      std::printf("  %-44s p50 %.1f ms, p99 %.1f ms, at most %.1f ms, of %zu\n", names[i], at(0.5), at(0.99), at(1),
                  late[i].size());
      std::fputs(bars_of(late[i]).c_str(), stdout);
    }
  }
};
