// The counter of revisions.
#pragma once

#include "../file/connection.hpp"
#include "../file/statement.hpp"
#include "../file/times.hpp"

#include <tickwheel/durable/store.hpp>

#include <algorithm>

namespace tickwheel::durable::sqlite {

/// Hands out revisions. The file has the end of a block of them, so that most transactions need not write it.
///
/// `lift` starts behind the file's counter and the clock in microseconds. A file that was restored from an older backup so
/// repeats no token, because the counter grows by less than one per microsecond. That includes what a crash leaves of a block: a
/// block is small after an opening, and then as large as what was handed out since.
class revisions {
 public:
  explicit revisions(const connection& file) : write_{file.get(), "update meta set revision = ?1"} {}

  /// Starts behind all revisions of the file, and behind `from`. Requires: a transaction is open.
  void lift(const connection& file, revision from, nanoseconds now) {
    const auto known = static_cast<revision>(file.integer("select revision from meta"));
    first_ = last_ = std::max({known, from, static_cast<revision>(std::max<nanoseconds>(now, 0)) / 1000});
    reserve();
  }

  /// Reserves so many that `next` can be called `count` times. Requires: a transaction is open. A rollback takes it back: call
  /// `forget` then.
  void prepare(std::size_t count) {
    if (end_ - last_ < count) reserve(count);
  }
  void forget() noexcept { end_ = last_; }

  revision next() noexcept { return ++last_; }
  revision last() const noexcept { return last_; }

 private:
  static constexpr revision least_block = 64;
  static constexpr revision largest_block = 1 << 20;

  void reserve(std::size_t count = 0) {
    const revision end = last_ + std::clamp(last_ - first_, least_block, largest_block) + count;
    query{write_}.bind(static_cast<std::int64_t>(end)).run();
    end_ = end;
  }

  statement write_;
  revision first_ = 0;  // at the opening
  revision last_ = 0;
  revision end_ = 0;
};

}  // namespace tickwheel::durable::sqlite
