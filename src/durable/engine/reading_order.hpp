// In which order a look reads its ranges, how many one load reads, and what a load that fails changes in that.
#pragma once

#include <tickwheel/durable/store.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tickwheel::durable::detail {

/// Where a range comes from. A look reads ranges in this order.
enum class range_kind : std::uint8_t {
  mark,     ///< begins at the low-water mark of a partition
  step,     ///< a partition from the beginning, in a step of a round
  unread,   ///< a partition from the beginning, because nothing of it was read
  further,  ///< a page that follows one of `step` or `unread`
};

/// The ranges that a look has still to read. A load reads ranges of one kind.
///
/// A partition that cannot be read holds up no others for long. A load that fails ends its kind in this look, except further pages.
/// The next looks read that kind one by one, because nothing tells which of several partitions has failed: marks after several
/// failures in a row, because a store that fails now and then would fail in each such look. The partition that failed last comes last.
class reading_order {
 public:
  /// What a load that has failed tells.
  struct failure {
    std::vector<load_range>
        dropped;            ///< what the look reads no more of this kind, with what has failed unless it is alone
    bool is_alone = false;  ///< only the partition that was read has failed
  };

  /// Begins a look. `leaves_out`: it does not try what failed before.
  void begin(std::vector<load_range> marks, std::vector<load_range> step, std::vector<load_range> unread,
             bool leaves_out);

  bool is_empty() const noexcept { return size() == 0; }
  std::size_t size() const noexcept;

  /// Moves the ranges of the next load to `ranges`. Requires: it is not empty.
  void take(std::vector<load_range>& ranges);
  /// Returns the kind of the ranges that were taken last.
  range_kind taken() const noexcept { return taken_; }

  /// The load has read what was taken, but for `rest`, which is taken from it.
  void on_read(std::vector<load_range>& rest);
  /// The load of `ranges`, which were taken last, has failed.
  failure on_failed(const std::vector<load_range>& ranges);

  /// Returns true if a load of the look has failed, or if the look leaves out what failed before.
  bool has_failed() const noexcept { return has_failed_; }

 private:
  std::vector<load_range>& of(range_kind k) noexcept { return ranges_[static_cast<std::size_t>(k)]; }
  std::size_t at_once(range_kind) const noexcept;
  void note_failed_mark(partition_number last, bool is_alone) noexcept;

  std::array<std::vector<load_range>, 4> ranges_;  // by their kind
  range_kind taken_ = range_kind::further;
  bool has_read_ = false;  // the look has read something
  bool has_failed_ = false;
  bool reads_one_by_one_ = false;        // what is read from the beginning
  unsigned mark_failures_ = 0;           // loads of marks since they were all read
  partition_number failed_at_mark_ = 0;  // the last of a load that has failed
  partition_number failed_unread_ = 0;   // the same
};

}  // namespace tickwheel::durable::detail
