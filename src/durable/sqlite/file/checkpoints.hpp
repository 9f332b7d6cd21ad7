// When the write-ahead log is copied into the database file.
#pragma once

#include "connection.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace tickwheel::durable::sqlite {

/// Counts what the writer commits, and runs checkpoints. They are passive: they wait for nobody.
///
/// A checkpoint runs only if there was a commit since the last one. SQLite before 3.51.3 may otherwise corrupt the file: a
/// checkpoint that has nothing to copy races with a writer that starts the log anew.
///
/// The reader's checkpoint does not delay the writer, but never completes while that goes on committing. The log is started anew
/// only after a complete one. So the writer completes it, if the log has become long. The writer's commits wait meanwhile, so the
/// reader leaves little to do: it copies again what was committed while it copied, until that is little. SQLite writes an
/// incomplete copy to the disk only with the complete one. The reader does so at once.
///
/// A sync that fails may lose pages that the index of the log counts as copied. Both connections are then closed and opened again,
/// which copies all of the log, before it can be started anew.
class checkpoints {
 public:
  /// The reader copies after `pages`, and the writer completes a log of `long_log` pages.
  checkpoints(std::size_t pages, std::size_t long_log) noexcept
      : pages_{static_cast<std::int64_t>(pages)}, long_log_{static_cast<std::int64_t>(long_log)} {}

  /// The writer is about to commit.
  void committing() noexcept { ++started_; }
  /// The writer has committed, and the log has `frames` pages. Returns true if a checkpoint is due.
  bool committed(int frames) noexcept;

  /// The reader: runs a checkpoint. Returns true if the writer shall complete it. Throws `failure`.
  bool run(const connection&);
  /// The writer: completes a checkpoint between two commits, while the reader waits. Throws `failure`.
  void complete(const connection&);

 private:
  struct progress {
    int frames = 0;  // in the log when it began
    int copied = 0;
  };
  progress copy(const connection&);

  const std::int64_t pages_;
  const std::int64_t long_log_;
  std::int64_t since_request_ = 0;  // the writer's
  int frames_ = 0;                  // the writer's

  // A commit whose number is greater than `covered_` began after the last checkpoint had ended. If it has finished, there is something
  // to copy.
  std::atomic<std::uint64_t> started_ = 0;
  std::atomic<std::uint64_t> finished_ = 0;  // the last one that wrote to the log
  std::mutex running_;
  std::uint64_t covered_ = 0;  // guarded by `running_`
};

}  // namespace tickwheel::durable::sqlite
