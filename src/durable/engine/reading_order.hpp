// In which order a look reads its ranges, and what a load that fails changes in that.
#pragma once

#include <tickwheel/durable/store.hpp>
#include <tickwheel/uv/driver.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <list>
#include <map>
#include <optional>
#include <vector>

namespace tickwheel::durable::detail {

/// Why a look reads a range. A look reads ranges in this order.
enum class range_kind : std::uint8_t {
  mark,     ///< begins at the low-water mark of a partition
  step,     ///< a partition from the beginning, in a step of a round
  unread,   ///< a partition from the beginning, because nothing of it was read
  further,  ///< a page that follows one of `step` or `unread`
  put_off,  ///< a partition from the beginning, that has failed by itself
};

/// The ranges that a look has still to read, as a list of loads. A load reads ranges of one kind.
///
/// A partition that cannot be read holds up no others for long. A load that has failed quickly is repeated. If that fails too, or if the
/// failure was slow, the ranges are read in smaller loads, down to single ranges. If a single one fails, and the store answers for
/// another partition in this look, then the partition has failed, and not the store: it is put off. It is tried by itself, at the end of
/// later looks. In the long run the tries that fail take a tenth of the time, of all partitions together.
///
/// If some single ranges have failed before the store has answered in this look, it may have failed. Then another load of their kind is
/// tried. If it fails as well, the look reads no more of this kind. The next look goes on behind the partition that was taken last, so that
/// each has its turn.
class reading_order {
 public:
  using time_point = tickwheel::clock::time_point;

  /// The ranges with which a look begins, each kind in the order of the partitions.
  struct look {
    std::vector<load_range> marks;
    std::vector<load_range> step;
    std::vector<load_range> unread;
    std::vector<load_range> put_off;
  };

  reading_order() noexcept { last_.fill(std::numeric_limits<partition_number>::max()); }

  /// Begins a look at the time `now`. It leaves out what is put off until later.
  void begin(look, time_point now);

  /// Returns true if `p` is put off.
  bool is_put_off(partition_number p) const noexcept;

  bool is_empty() const noexcept;
  /// Returns the number of ranges. O(loads).
  std::size_t size() const noexcept;

  /// Moves the ranges of the next load to `next`. Requires: it is not empty.
  void take(std::vector<load_range>& next);
  /// Returns the kind of the ranges that were taken last.
  range_kind taken() const noexcept { return taken_; }

  /// The load has read the ranges that were taken last, `read`, up to `rest`. That is moved from, and taken later.
  void on_read(const std::vector<load_range>& read, std::vector<load_range>& rest);
  /// The load of the ranges that were taken last, `failed`, has failed at the time `now`, after it `took` so long. Returns the ranges that
  /// this look reads no more, and that another look must read. A single range that has failed is not among them if the store answers
  /// for another partition.
  std::vector<load_range> on_failed(const std::vector<load_range>& failed, time_point now,
                                    std::chrono::nanoseconds took);

  /// Returns true if a load of the look has failed, and its repetition, if there was one.
  bool has_failed() const noexcept { return has_failed_; }
  /// Returns true if the look leaves out what is put off.
  bool leaves_out() const noexcept { return leaves_out_; }

 private:
  using ranges = std::vector<load_range>;

  /// A partition has failed, and has not been read at its mark since.
  struct trial {
    time_point retry_at{};
    std::int64_t pauses = 0;  // how many times as long as the last try the next one waits
    bool is_put_off = true;
  };
  /// A partition has failed, or the store.
  struct suspicion {
    partition_number partition;
    time_point at;
    std::chrono::nanoseconds took;
  };

  std::list<ranges>& of(range_kind k) noexcept { return loads_[static_cast<std::size_t>(k)]; }
  partition_number& last(range_kind k) noexcept { return last_[static_cast<std::size_t>(k)]; }
  void begin_behind_last(range_kind, ranges&, std::size_t at_once);
  void read_in_parts(const ranges&);
  bool try_another();
  void drop_all(ranges& into);
  void forget_all_but(const ranges& put_off);
  bool has_answered_for_others(partition_number) const noexcept;
  void note_answer(const ranges&);
  void put_off(const suspicion&);

  std::array<std::list<ranges>, 5> loads_;  // by their kind
  std::array<partition_number, 5> last_;    // that was taken, by kind
  range_kind taken_ = range_kind::further;  // of the last load
  std::map<partition_number, trial> trials_;
  std::vector<suspicion> suspicions_;     // since the last answer
  std::optional<partition_number> read_;  // that the look has read last
  bool has_read_several_ = false;         // partitions, in this look
  std::int64_t put_off_ = 0;              // partitions, at the beginning of the look
  unsigned failures_in_a_row_ = 0;        // of single ranges of this kind, before an answer
  bool is_another_ = false;               // the last load was tried because single ranges had failed
  bool is_repeated_ = false;              // the last load, because it had failed
  bool repeats_next_ = false;             // the next load is the one that has failed
  bool has_failed_ = false;
  bool leaves_out_ = false;
};

}  // namespace tickwheel::durable::detail
