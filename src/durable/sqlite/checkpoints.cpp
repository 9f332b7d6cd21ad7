#include "checkpoints.hpp"

#include <utility>

namespace tickwheel::durable::sqlite {

namespace {

// a log of so many times the pages between two checkpoints is long
constexpr std::int64_t long_log = 4;

}  // namespace

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
  if (finished_ <= covered_) return false;
  const std::uint64_t started = started_;
  const progress done = copy(file);
  const bool is_complete = done.copied == done.frames && started == covered_;
  return !is_complete && done.frames >= long_log * pages_;
}

// The writer does nothing else meanwhile, so there may be nothing to copy.
void checkpoints::complete(const connection& file) {
  const std::unique_lock lock{running_, std::try_to_lock};
  if (lock) copy(file);
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
