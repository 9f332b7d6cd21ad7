// The state that the threads of one store share.
#pragma once

#include "../file/checkpoints.hpp"
#include "../file/failure.hpp"
#include "../file/times.hpp"

#include <tickwheel/durable/sqlite.hpp>
#include <tickwheel/durable/store.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <limits>
#include <mutex>
#include <string>

namespace tickwheel::durable::sqlite {

/// The last problem in words. *Thread safety:* any thread.
class last_problem {
 public:
  /// Keeps "FILE: text (SQLite's code N)". Keeps the former one if there is no memory.
  void set(const std::string& file, const failure&) noexcept;
  void set(std::string text) noexcept;
  std::string get() const;

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

/// The state that the loop, the writer and the reader of one store share.
struct store_state {
  using read_clock = std::function<clock::time_point()>;

  store_state(std::string given, sqlite_options with, read_clock clock)
      : path{std::move(given)}, options{with}, now{std::move(clock)} {}

  // the writer completes checkpoints after so many
  static constexpr std::size_t long_log = 160;

  const std::string path;  // as the user gave it
  const sqlite_options options;
  const read_clock now;
  last_problem problem;
  std::string file;                            // resolved; the writer sets it while the reader is suspended
  std::atomic<nanoseconds> keep_finished = 0;  // of the last join
  checkpoints log{pages(), long_log* pages()};

  nanoseconds read_now() const { return to_database(now()); }
  void report(const failure& f) noexcept { problem.set(path, f); }

 private:
  // so that the product with `long_log` fits into the numbers of `checkpoints`
  std::size_t pages() const noexcept {
    return std::min(options.checkpoint_pages, std::numeric_limits<std::size_t>::max() / 2 / long_log);
  }
};

}  // namespace tickwheel::durable::sqlite
