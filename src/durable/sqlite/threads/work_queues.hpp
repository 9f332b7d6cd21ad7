// Hands calls to the writer and the reader, in their order.
#pragma once

#include "queued_call.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace tickwheel::durable::sqlite {

/// The queues between the loop, the writer and the reader. One mutex guards all; nobody holds it for long.
///
/// `list` must see what was written before it, and nothing later. When it comes to the head of the requests, all before it is
/// committed. The reader takes it, and requests behind it wait until the reader has fixed what it sees.
///
/// *Thread safety:* as each function says.
class work_queues {
 public:
  /// The writer's next work. All may be empty.
  struct writing {
    call_list starts;    // before the requests
    call_list requests;  // at most 1,000 elements or 4 MiB
    bool completes_checkpoint = false;
    bool reopens_file = false;
    bool retries_wakeup = false;  // of the loop
  };
  enum class reading { call, checkpoint, suspend, stop };

  /// The loop: hands over a call.
  void push(queued_call&) noexcept;
  /// The loop: lets both threads end after what they do now.
  void stop() noexcept;
  /// After both threads have ended: all calls that nobody took.
  call_list take_left() noexcept;
  /// Turns true with `stop`.
  const std::atomic<bool>& stopping() const noexcept { return stopping_; }

  /// The writer: waits for work, at most `patience` if that is positive. Returns false if it shall stop.
  bool next_writing(writing&, std::chrono::milliseconds patience) noexcept;
  /// The writer: gives requests back that were taken, to be the next ones.
  void give_back(call_list&& requests) noexcept;
  /// Is true while starts wait for the writer.
  const std::atomic<bool>& starts_wait() const noexcept { return starts_wait_; }
  /// The writer: waits until the reader has closed its connection. The reader then answers `unavailable`. False: it shall stop.
  bool suspend_reader() noexcept;
  /// The writer: lets the reader connect again.
  void resume_reader() noexcept;
  /// The writer: asks the reader for a checkpoint. It waits for at most one read, however many there are.
  void request_checkpoint() noexcept;
  /// The writer: has completed a checkpoint or opened the file again. The reader goes on.
  void resume_checkpoints() noexcept;

  /// The writer and the reader: the writer shall wake the loop again after this time. Zero: it need not.
  void retry_wakeup(std::chrono::milliseconds after) noexcept;

  /// The reader: waits for work. After `suspend` it closes its connection and calls `suspended`.
  reading next_reading(queued_call*&) noexcept;
  void suspended() noexcept;
  /// The reader: lets the requests behind a `list` go on.
  void list_is_fixed() noexcept;
  /// The reader: asks the writer to complete a checkpoint between two commits. The reader does nothing until then: a read or another
  /// checkpoint would keep the log from being started anew.
  void request_completion() noexcept;
  /// The reader: asks the writer to close both connections, and to copy all of the log again. The reader does nothing until then.
  void request_reopening() noexcept;
  /// The reader: returns true if there is no connection to read with.
  bool reader_is_suspended() noexcept;

 private:
  using steady = std::chrono::steady_clock;

  bool has_writing() const noexcept;
  void hand_over_list() noexcept;
  void take_requests(call_list&) noexcept;

  std::mutex mutex_;
  std::condition_variable writer_;
  std::condition_variable reader_;
  std::condition_variable suspended_;

  std::atomic<bool> stopping_ = false;
  std::atomic<bool> starts_wait_ = false;
  call_list starts_;
  call_list requests_;
  call_list reads_;
  bool requests_wait_ = false;      // for a list
  bool reader_shall_close_ = true;  // nothing to read before the first join
  bool reader_is_closed_ = true;
  bool wants_checkpoint_ = false;
  bool wants_completion_ = false;
  bool wants_reopening_ = false;
  bool reader_waits_ = false;                                // for the writer to do one of these two
  bool has_read_ = false;                                    // since the last checkpoint
  steady::time_point retry_at_ = steady::time_point::max();  // the writer wakes the loop again
};

}  // namespace tickwheel::durable::sqlite
