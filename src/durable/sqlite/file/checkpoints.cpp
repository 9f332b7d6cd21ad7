#include "checkpoints.hpp"

#include "../../batch_limits.hpp"

#include <utility>

namespace tickwheel::durable::sqlite {

using detail::limits;

bool checkpoints::committed(int frames) noexcept {
  const int former = std::exchange(frames_, frames);
  since_request_ += frames >= former ? frames - former : frames;
  finished_ = started_.load();
  if (since_request_ < pages_) return false;
  since_request_ = 0;
  return true;
}

bool checkpoints::run(const connection& file) {
  const std::lock_guard lock{running_};
  progress done;
  bool is_complete = false;
  for (int copies = 0; copies < limits.checkpoint_copies && finished_ > covered_; ++copies) {
    const std::uint64_t started = started_;
    const progress former = std::exchange(done, copy(file));
    file.sync();
    is_complete = done.copied == done.frames && started == covered_;
    if (done.frames < long_log_ || done.copied - former.copied < limits.checkpoint_rest) break;
  }
  return !is_complete && done.frames >= long_log_;
}

// The writer does nothing else meanwhile, so there may be nothing to copy.
void checkpoints::complete(const connection& file) {
  const std::lock_guard lock{running_};
  copy(file);
}

checkpoints::progress checkpoints::copy(const connection& file) {
  progress done;
  const int error =
      sqlite3_wal_checkpoint_v2(file.get(), "main", SQLITE_CHECKPOINT_PASSIVE, &done.frames, &done.copied);
  covered_ = started_;
  if (error != SQLITE_OK && error != SQLITE_BUSY) throw failure::of(file.get());
  return done;
}

}  // namespace tickwheel::durable::sqlite
